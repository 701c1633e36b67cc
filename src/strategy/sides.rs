//! Strategies that take one side as a whole: `reject`, `last_write_wins`, `keep_current`, `editor_wins`, `system_wins`.
//!
//! Absent, null and a value are three different values for all of them; a removal on one side and a change on the
//! other is a change on both sides. Lists and objects are one value. A relative change (add, include, exclude) is
//! applied to what is stored and so replaces nothing: they all take it.

use super::{MergeInput, Merged, Strategy, ours::Wanted};
use crate::entity::{Value, WriterKind};

/// Two changes are a conflict. What the writer had been shown must be what is stored.
#[derive(Clone, Copy, Debug)]
pub struct Reject;

/// The later save wins. The value it replaces is named as lost if its writer had not seen it.
#[derive(Clone, Copy, Debug)]
pub struct LastWriteWins;

/// The earlier save wins: a stored value the writer had not seen stays, and the save goes on without this field.
#[derive(Clone, Copy, Debug)]
pub struct KeepCurrent;

/// A person's value beats a worker's, whoever was first. Two people, or two workers, are a conflict.
#[derive(Clone, Copy, Debug)]
pub struct EditorWins;

/// A worker's value beats a person's, whoever was first. Two people, or two workers, are a conflict.
#[derive(Clone, Copy, Debug)]
pub struct SystemWins;

impl Strategy for Reject {
    fn name(&self) -> &'static str {
        "reject"
    }

    fn needs_base(&self) -> bool {
        true
    }

    fn merge(&self, input: MergeInput<'_>) -> Merged {
        decide(input, |_| Side::Nobody)
    }
}

impl Strategy for LastWriteWins {
    fn name(&self) -> &'static str {
        "last_write_wins"
    }

    fn needs_base(&self) -> bool {
        false
    }

    fn merge(&self, input: MergeInput<'_>) -> Merged {
        decide(input, |_| Side::Ours)
    }
}

impl Strategy for KeepCurrent {
    fn name(&self) -> &'static str {
        "keep_current"
    }

    fn needs_base(&self) -> bool {
        false
    }

    fn merge(&self, input: MergeInput<'_>) -> Merged {
        decide(input, |_| Side::Theirs("keep_current"))
    }
}

impl Strategy for EditorWins {
    fn name(&self) -> &'static str {
        "editor_wins"
    }

    fn needs_base(&self) -> bool {
        false
    }

    fn merge(&self, input: MergeInput<'_>) -> Merged {
        decide(input, |input| by_kind(input, WriterKind::Editor, "editor_wins"))
    }
}

impl Strategy for SystemWins {
    fn name(&self) -> &'static str {
        "system_wins"
    }

    fn needs_base(&self) -> bool {
        false
    }

    fn merge(&self, input: MergeInput<'_>) -> Merged {
        decide(input, |input| by_kind(input, WriterKind::Worker, "system_wins"))
    }
}

/// Whose value stays when both sides changed it.
enum Side {
    Ours,
    Theirs(&'static str),
    Nobody,
}

fn decide(input: MergeInput<'_>, side: impl FnOnce(&MergeInput<'_>) -> Side) -> Merged {
    let ours = match Wanted::of(input.ours, input.theirs) {
        Wanted::Whole(value) => value,
        Wanted::Relative(value) => return Merged::take(value),
        Wanted::Wrong(rule) => return Merged::conflict(rule),
    };
    if input.base.is_some_and(|base| base.same(input.theirs)) {
        return Merged::take(ours);
    }
    match side(&input) {
        Side::Ours => Merged::Take { value: ours, lost: vec![input.theirs.clone()] },
        Side::Theirs(rule) => Merged::Keep { rule },
        Side::Nobody => Merged::conflict(clash(input.base, input.theirs)),
    }
}

/// In which way two sides changed one value.
fn clash(base: Option<&Value>, theirs: &Value) -> &'static str {
    match base {
        None => "base_unknown",
        Some(_) if theirs.is_absent() => "removed_since",
        Some(Value::Absent) => "created_since",
        Some(Value::Present(_)) => "changed_since",
    }
}

fn by_kind(input: &MergeInput<'_>, winner: WriterKind, rule: &'static str) -> Side {
    match (input.our_writer.kind, input.their_writer.map(|writer| writer.kind)) {
        // Nobody knows who wrote a value from before the first stamp.
        (_, None) => Side::Nobody,
        (ours, Some(theirs)) if ours == theirs => Side::Nobody,
        (ours, Some(_)) if ours == winner => Side::Ours,
        (_, Some(_)) => Side::Theirs(rule),
    }
}
