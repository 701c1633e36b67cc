//! `fill_if_empty`: a value is given once.

use serde_json::Value as Json;

use super::{MergeInput, Merged, Strategy, ours::Wanted};
use crate::entity::Value;

/// Writes only where nothing is: absent, `null`, `""`, `[]` and `{}` are empty; `0`, `false` and spaces are not.
///
/// A stored value stays (`already_filled`), whoever asks, and the save goes on without this field. To change it,
/// remove it first: a removal is taken where nobody changed the value since it was shown, else it is a conflict. A
/// value that somebody else emptied in between is filled, and the emptying is named as lost.
#[derive(Clone, Copy, Debug)]
pub struct FillIfEmpty;

impl Strategy for FillIfEmpty {
    fn name(&self) -> &'static str {
        "fill_if_empty"
    }

    fn needs_base(&self) -> bool {
        false
    }

    fn merge(&self, input: MergeInput<'_>) -> Merged {
        let ours = match Wanted::of(input.ours, input.theirs) {
            Wanted::Whole(value) | Wanted::Relative(value) => value,
            Wanted::Wrong(rule) => return Merged::conflict(rule),
        };
        let unseen = !input.base.is_some_and(|base| base.same(input.theirs));
        if is_empty(input.theirs) {
            let emptied = unseen && input.base.is_some_and(|base| !is_empty(base));
            let lost = if emptied { vec![input.theirs.clone()] } else { Vec::new() };
            return Merged::Take { value: ours, lost };
        }
        match (is_empty(&ours), unseen) {
            (false, _) => Merged::Keep { rule: "already_filled" },
            (true, false) => Merged::take(ours),
            (true, true) if input.base.is_none() => Merged::conflict("base_unknown"),
            (true, true) => Merged::conflict("changed_since"),
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value.json() {
        None | Some(Json::Null) => true,
        Some(Json::String(text)) => text.is_empty(),
        Some(Json::Array(members)) => members.is_empty(),
        Some(Json::Object(members)) => members.is_empty(),
        Some(Json::Bool(_) | Json::Number(_)) => false,
    }
}
