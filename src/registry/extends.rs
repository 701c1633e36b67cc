//! `extends` and `drop`: one entity type's entries laid over those of its base. Which base that is says `chain`.

use std::collections::HashMap;

use serde_json::Value as Json;

use super::{
    Locking, OnBusy, Owner,
    raw::{Enforcement, RawAxis, RawEntity, RawGroup, RawHistory, RawShared},
    resolve::Findings,
    suggest::or_known,
    whose,
};
use crate::{diagnostic::Spanned, path::Pattern};

/// An entity type with everything it takes over, still as written.
#[derive(Clone)]
pub(crate) struct Draft<'r> {
    pub(crate) name: &'r Spanned<String>,
    /// Something could not be read or its base is missing: say nothing about what seems to be absent.
    pub(crate) faulty: bool,
    pub(crate) default_owner: Option<&'r Spanned<String>>,
    pub(crate) enforcement: Option<&'r Spanned<Enforcement>>,
    pub(crate) create: Option<&'r [Spanned<String>]>,
    pub(crate) delete: Option<&'r [Spanned<String>]>,
    pub(crate) axes: Option<Vec<&'r RawAxis>>,
    pub(crate) collections: Vec<(&'r Spanned<Pattern>, &'r [Spanned<String>])>,
    pub(crate) groups: Vec<GroupDraft<'r>>,
    pub(crate) rules: Vec<RuleDraft<'r>>,
    pub(crate) coupled: Vec<&'r Spanned<Vec<Spanned<Pattern>>>>,
    pub(crate) history: HistoryDraft<'r>,
    pub(crate) storage: Option<&'r Spanned<Json>>,
    pub(crate) places: &'r [(Spanned<Pattern>, Json)],
    pub(crate) select: Option<&'r Spanned<Json>>,
}

/// A group and the keys given for it so far.
#[derive(Clone)]
pub(crate) struct GroupDraft<'r> {
    pub(crate) owner: Owner,
    pub(crate) name: &'r Spanned<String>,
    /// Whether it is a section's own list.
    pub(crate) plain: bool,
    /// Whether a field was ever listed in it.
    pub(crate) has_fields: bool,
    pub(crate) writers: Option<&'r Vec<Spanned<String>>>,
    pub(crate) locking: Option<&'r Spanned<Locking>>,
    pub(crate) ttl: Option<&'r Spanned<std::time::Duration>>,
    pub(crate) max_hold: Option<&'r Spanned<std::time::Duration>>,
    pub(crate) on_busy: Option<&'r Spanned<OnBusy>>,
    pub(crate) derived_from: Option<&'r Vec<Spanned<Pattern>>>,
    pub(crate) split_by: Option<&'r Vec<Spanned<String>>>,
    pub(crate) history: HistoryDraft<'r>,
}

/// The keys of `history` given so far.
#[derive(Clone, Copy, Default)]
pub(crate) struct HistoryDraft<'r> {
    pub(crate) editor: Option<&'r Spanned<String>>,
    pub(crate) worker: Option<&'r Spanned<String>>,
    pub(crate) values: Option<&'r Spanned<String>>,
}

/// One listed pattern.
#[derive(Clone, Copy)]
pub(crate) struct RuleDraft<'r> {
    pub(crate) pattern: &'r Spanned<Pattern>,
    pub(crate) home: Home<'r>,
}

/// Where a pattern is listed.
#[derive(Clone, Copy)]
pub(crate) enum Home<'r> {
    /// In a group, by its place in [`Draft::groups`].
    Group(usize),
    /// Under `shared`.
    Shared(&'r RawShared),
}

impl<'r> HistoryDraft<'r> {
    fn over(&mut self, own: &'r RawHistory) {
        self.editor = own.editor.as_ref().or(self.editor);
        self.worker = own.worker.as_ref().or(self.worker);
        self.values = own.values.as_ref().or(self.values);
    }

    /// The first key that is given.
    pub(crate) fn first(&self) -> Option<&'r Spanned<String>> {
        self.values.or(self.editor).or(self.worker)
    }
}

impl<'r> GroupDraft<'r> {
    fn new(raw: &'r RawGroup) -> Self {
        Self {
            owner: raw.owner,
            name: &raw.name,
            plain: raw.plain,
            has_fields: false,
            writers: None,
            locking: None,
            ttl: None,
            max_hold: None,
            on_busy: None,
            derived_from: None,
            split_by: None,
            history: HistoryDraft::default(),
        }
    }

    fn over(&mut self, own: &'r RawGroup) {
        self.name = &own.name;
        self.plain = own.plain;
        self.has_fields |= !own.fields.is_empty();
        self.writers = own.writers.as_ref().or(self.writers);
        self.locking = own.locking.as_ref().or(self.locking);
        self.ttl = own.ttl.as_ref().or(self.ttl);
        self.max_hold = own.max_hold.as_ref().or(self.max_hold);
        self.on_busy = own.on_busy.as_ref().or(self.on_busy);
        self.derived_from = own.derived_from.as_ref().or(self.derived_from);
        self.split_by = own.split_by.as_ref().or(self.split_by);
        self.history.over(&own.history);
    }
}

impl<'r> Draft<'r> {
    pub(crate) fn new(raw: &'r RawEntity) -> Self {
        Self {
            name: &raw.name,
            faulty: false,
            default_owner: None,
            enforcement: None,
            create: None,
            delete: None,
            axes: None,
            collections: Vec::new(),
            groups: Vec::new(),
            rules: Vec::new(),
            coupled: Vec::new(),
            history: HistoryDraft::default(),
            storage: None,
            places: &[],
            select: None,
        }
    }

    /// Whose a rule is, for messages.
    pub(crate) fn whose(&self, home: Home<'_>) -> String {
        match home {
            Home::Group(index) => {
                self.groups.get(index).map_or_else(String::new, |g| whose(g.owner, &g.name.value))
            }
            Home::Shared(entry) => {
                let group = entry.group.as_ref().map_or("shared", |group| &group.value);
                whose(Owner::Shared, group)
            }
        }
    }

    /// Lays the entries of one entity type over what it takes over.
    pub(crate) fn over(&mut self, own: &'r RawEntity, findings: &mut Findings) {
        self.name = &own.name;
        self.faulty |= own.faulty;
        self.drop_rules(own, findings);
        self.default_owner = own.default_owner.as_ref().or(self.default_owner);
        self.enforcement = own.enforcement.as_ref().or(self.enforcement);
        self.create = own.create.as_deref().or(self.create);
        self.delete = own.delete.as_deref().or(self.delete);
        if let Some(axes) = &own.axes {
            let known = self.axes.get_or_insert_default();
            known.retain(|axis| axes.iter().all(|own| own.name.value != axis.name.value));
            known.extend(axes);
        }
        for (pattern, keys) in &own.collections {
            self.collections.retain(|(known, _)| known.value != pattern.value);
            self.collections.push((pattern, keys));
        }
        let fresh = self.own_rules(own, findings);
        self.add_rules(own, fresh, findings);
        self.coupled.extend(&own.coupled);
        self.history.over(&own.history);
        if let Some(storage) = &own.storage {
            self.storage = Some(storage);
            self.places = &own.places;
        }
        self.select = own.select.as_ref().or(self.select);
    }

    fn drop_rules(&mut self, own: &RawEntity, findings: &mut Findings) {
        for dropped in &own.drop {
            let before = self.rules.len();
            self.rules.retain(|rule| rule.pattern.value != dropped.value);
            if self.rules.len() == before && !self.faulty {
                let base = own.extends.as_ref().map_or("no base", |base| &base.value);
                let known = self.rules.iter().map(|rule| rule.pattern.value.as_str());
                findings.error(
                    "drop_unknown",
                    dropped.span,
                    format!("`{}` is no rule of {base}", dropped.value),
                    or_known(dropped.value.as_str(), known),
                );
            }
        }
    }

    /// Groups are merged here; the rules come back in file order.
    fn own_rules(&mut self, own: &'r RawEntity, findings: &mut Findings) -> Vec<RuleDraft<'r>> {
        let mut fresh = Vec::new();
        for group in &own.groups {
            let known = self.groups.iter().position(|g| g.name.value == group.name.value);
            let index = known.unwrap_or_else(|| {
                self.groups.push(GroupDraft::new(group));
                self.groups.len() - 1
            });
            if let Some(merged) = self.groups.get_mut(index) {
                if merged.owner == group.owner {
                    merged.over(group);
                } else {
                    let message = format!(
                        "`{}` is {} group already, and a group never changes side",
                        group.name.value,
                        if merged.owner == Owner::Editor { "an editor" } else { "a system" },
                    );
                    findings.note(
                        "group_name",
                        group.name.span,
                        message,
                        "choose another name",
                        (merged.name.span, "first here".to_owned()),
                    );
                }
            }
            let home = Home::Group(index);
            fresh.extend(group.fields.iter().map(|pattern| RuleDraft { pattern, home }));
        }
        let shared = own.shared.iter();
        fresh.extend(shared.map(|e| RuleDraft { pattern: &e.pattern, home: Home::Shared(e) }));
        fresh.sort_by_key(|rule| (rule.pattern.span.line, rule.pattern.span.column));
        fresh
    }

    /// Equal patterns: the own rule replaces the base's; two own ones are owned twice.
    fn add_rules(&mut self, own: &RawEntity, fresh: Vec<RuleDraft<'r>>, findings: &mut Findings) {
        let mut seen: HashMap<FieldKey<'r>, RuleDraft<'r>> = HashMap::with_capacity(fresh.len());
        let mut accepted: Vec<RuleDraft<'r>> = Vec::with_capacity(fresh.len());
        for rule in fresh {
            match seen.entry(field_key(&rule.pattern.value)) {
                std::collections::hash_map::Entry::Vacant(slot) => {
                    slot.insert(rule);
                    accepted.push(rule);
                }
                std::collections::hash_map::Entry::Occupied(first) => {
                    self.owned_twice(&own.name.value, *first.get(), rule, findings);
                }
            }
        }
        if self.rules.is_empty() {
            self.rules = accepted;
            return;
        }
        self.rules.retain(|base| {
            let key = field_key(&base.pattern.value);
            seen.get(&key).is_none_or(|own| own.pattern.value != base.pattern.value)
        });
        for base in &self.rules {
            // Not equal, or it would be gone; so the two differ by a trailing `**`.
            if let Some(own_rule) = seen.get(&field_key(&base.pattern.value)) {
                self.owned_twice(&own.name.value, *base, *own_rule, findings);
            }
        }
        self.rules.extend(accepted);
    }

    fn owned_twice(
        &self,
        entity: &str,
        first: RuleDraft<'_>,
        second: RuleDraft<'_>,
        findings: &mut Findings,
    ) {
        let (a, b) = (self.whose(first.home), self.whose(second.home));
        let (span, at) = (second.pattern.span, first.pattern.span);
        let pattern = &second.pattern.value;
        let place = format!("first in {}:{}", at.line, at.column);
        let same = first.pattern.value == *pattern;
        let message = match (a == b, same) {
            (true, true) => format!("`{pattern}` of `{entity}` is listed twice in {a}; {place}"),
            (false, true) => format!("`{pattern}` of `{entity}` is both {a} and {b}; {place}"),
            (_, false) => format!(
                "`{}` and `{pattern}` of `{entity}` are the same fields; {place}",
                first.pattern.value
            ),
        };
        let help = if same {
            "list every field once; a field several may write belongs under `shared`"
        } else {
            "`p` is one value, `p.**` is one value per leaf below: keep one of them"
        };
        findings.note("owned_twice", span, message, help, (at, format!("first here, {a}")));
    }
}

/// What makes two patterns the same fields.
type FieldKey<'r> = std::borrow::Cow<'r, str>;

fn field_key(pattern: &Pattern) -> FieldKey<'_> {
    use crate::path::Tail;
    if pattern.tail() != Tail::Subtree || pattern.segments().is_empty() {
        return pattern.as_str().into();
    }
    let axes = pattern.axes().to_vec();
    Pattern::from_parts(pattern.segments().to_vec(), Tail::Node, axes).to_string().into()
}
