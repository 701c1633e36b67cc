//! Groups: names, settings and defaults.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{
    Group, Locking, OnBusy, Owner,
    extends::{Draft, GroupDraft, Home},
    raw::RawShared,
    resolve::Findings,
    suggest::or_known,
};
use crate::{
    diagnostic::{Span, Spanned},
    entity::GroupName,
};

const TTL: Duration = Duration::from_secs(30);
const MAX_HOLD: Duration = Duration::from_secs(600);
const ON_BUSY: OnBusy = OnBusy::Wait(Duration::from_secs(5));

/// Names with a meaning of their own.
const TAKEN: [&str; 4] = ["deny", "editor", "system", "shared"];

/// The groups of one entity type: by place in [`Draft::groups`], and all by name.
pub(crate) struct Groups {
    listed: Vec<Option<Arc<Group>>>,
    pub(crate) by_name: BTreeMap<GroupName, Arc<Group>>,
    /// The owner of what nobody listed.
    pub(crate) default: Option<Arc<Group>>,
}

impl Groups {
    /// Checks and builds every group of a draft.
    pub(crate) fn build(draft: &Draft<'_>, findings: &mut Findings) -> Self {
        let mut groups = Self {
            listed: Vec::with_capacity(draft.groups.len()),
            by_name: BTreeMap::new(),
            default: None,
        };
        for group in &draft.groups {
            let built = build_listed(group, findings);
            if let Some(built) = &built {
                groups.by_name.insert(built.name.clone(), built.clone());
            }
            groups.listed.push(built);
        }
        groups.build_shared(draft, findings);
        groups.build_default(draft, findings);
        groups
    }

    /// The group a pattern is listed in.
    pub(crate) fn of(&self, home: Home<'_>) -> Option<&Arc<Group>> {
        match home {
            Home::Group(index) => self.listed.get(index)?.as_ref(),
            Home::Shared(entry) => {
                let name = entry.group.as_ref().map_or("shared", |group| &group.value);
                self.by_name.get(name).filter(|group| group.owner == Owner::Shared)
            }
        }
    }

    fn build_shared(&mut self, draft: &Draft<'_>, findings: &mut Findings) {
        let mut settings: BTreeMap<&str, Settings<'_>> = BTreeMap::new();
        for rule in &draft.rules {
            let Home::Shared(entry) = rule.home else { continue };
            let name = match &entry.group {
                Some(group) if !self.check_shared_name(draft, group, findings) => continue,
                Some(group) => group.value.as_str(),
                None => "shared",
            };
            if let (None, Some(locking)) = (&entry.group, &entry.locking)
                && locking.value == Locking::Lease
            {
                let message = "`locking: lease` needs a `group`: the group `shared` takes no lease";
                let help = "write `group: NAME` beside it";
                findings.error("group_needed", locking.span, message, help);
                continue;
            }
            settings.entry(name).or_default().add(entry, name, findings);
        }
        for (name, settings) in settings {
            let Ok(name) = GroupName::new(name) else { continue };
            self.by_name.insert(name.clone(), Arc::new(settings.build(name)));
        }
    }

    fn check_shared_name(
        &self,
        draft: &Draft<'_>,
        group: &Spanned<String>,
        findings: &mut Findings,
    ) -> bool {
        if !check_name(group, findings) {
            return false;
        }
        let Some(other) = draft.groups.iter().find(|other| other.name.value == group.value) else {
            return true;
        };
        let side = if other.owner == Owner::Editor { "an editor" } else { "a system" };
        let message = format!("`{}` is {side} group already", group.value);
        let note = (other.name.span, "first here".to_owned());
        let help = "a shared field has a group of its own: choose another name";
        findings.note("group_name", group.span, message, help, note);
        false
    }

    fn build_default(&mut self, draft: &Draft<'_>, findings: &mut Findings) {
        let Some(owner) = draft.default_owner.filter(|owner| owner.value != "deny") else { return };
        if owner.value == "editor"
            && let Ok(name) = GroupName::new("editor")
        {
            let editor = self
                .by_name
                .entry(name.clone())
                .or_insert_with(|| Arc::new(settled(Owner::Editor, name, &Given::default())));
            self.default = Some(editor.clone());
            return;
        }
        match self.by_name.get(owner.value.as_str()) {
            Some(group) if group.owner == Owner::Shared => {
                let message = format!(
                    "`{}` is a shared group: it cannot own what nobody listed",
                    owner.value
                );
                let help = "`default_owner` is `deny`, `editor` or a group with one owner; or list `**` under `shared`";
                findings.error("unknown_group", owner.span, message, help);
            }
            Some(group) if !group.split_by.is_empty() => {
                let message =
                    format!("`{}` is split, but a field nobody listed names no axis", owner.value);
                let help = "choose a group without `split_by`";
                findings.error("split_axis_missing", owner.span, message, help);
            }
            Some(group) => self.default = Some(group.clone()),
            None => self.unknown(draft, owner, findings),
        }
    }

    /// Reports a word that should be `editor` or a group.
    pub(crate) fn unknown(
        &self,
        draft: &Draft<'_>,
        word: &Spanned<String>,
        findings: &mut Findings,
    ) {
        // A group that was refused for its name is not unknown as well.
        if draft.groups.iter().any(|group| group.name.value == word.value) {
            return;
        }
        let listed = draft.groups.iter().map(|group| group.name.value.as_str());
        let own = listed.filter(|name| *name != "editor");
        let known: Vec<&str> = ["editor"].into_iter().chain(own).collect();
        let message = format!("`{}` is not a group of `{}`", word.value, draft.name.value);
        findings.error("unknown_group", word.span, message, or_known(&word.value, known));
    }
}

/// Whether a text may be the name of a group of one's own.
fn check_name(name: &Spanned<String>, findings: &mut Findings) -> bool {
    let text = name.value.as_str();
    if TAKEN.contains(&text) {
        let message = format!("`{text}` cannot name a group: the word is taken");
        let help = "choose another name; `deny`, `editor`, `system` and `shared` have a meaning";
        findings.error("group_name", name.span, message, help);
        return false;
    }
    let Err(error) = GroupName::new(text) else { return true };
    let path = text.contains(['.', '*', '@', '#']);
    let (message, help) = if path {
        let message =
            format!("`{}` is not a group name: a path is an item of a list", text.escape_debug());
        (message, format!("write `NAME: [{}]`", text.escape_debug()))
    } else {
        (error.to_string(), "choose another name".to_owned())
    };
    findings.error("group_name", name.span, message, help);
    false
}

fn build_listed(draft: &GroupDraft<'_>, findings: &mut Findings) -> Option<Arc<Group>> {
    if !draft.plain && !check_name(draft.name, findings) {
        return None;
    }
    let name = GroupName::new(&draft.name.value).ok()?;
    let given = Given {
        locking: draft.locking.map(|v| v.value),
        ttl: draft.ttl.map(|v| v.value),
        max_hold: draft.max_hold.map(|v| v.value),
        on_busy: draft.on_busy.map(|v| v.value),
    };
    let mut group = settled(draft.owner, name, &given);
    group.writers = draft.writers.map(|names| {
        let mut names: Vec<Arc<str>> =
            names.iter().map(|name| name.value.as_str().into()).collect();
        names.sort();
        names.dedup();
        names
    });
    let inputs = draft.derived_from.into_iter().flatten();
    group.derived_from = inputs.map(|input| input.value.clone()).collect();
    let axes = draft.split_by.into_iter().flatten();
    group.split_by = axes.map(|axis| axis.value.as_str().into()).collect();
    group.split_by.sort();
    group.split_by.dedup();
    if let (Some(ttl), Some(span)) = (given.ttl.or(Some(TTL)), hold_span(draft))
        && group.max_hold < ttl
    {
        max_hold_below_ttl(span, &group, findings);
    }
    Some(Arc::new(group))
}

fn hold_span(draft: &GroupDraft<'_>) -> Option<Span> {
    draft.max_hold.map(|v| v.span).or(draft.ttl.map(|v| v.span))
}

fn max_hold_below_ttl(span: Span, group: &Group, findings: &mut Findings) {
    let message = format!(
        "`max_hold` of `{}` is {:?}, below its `ttl` of {:?}",
        group.name, group.max_hold, group.ttl
    );
    findings.warning(
        "max_hold_below_ttl",
        span,
        message,
        "a lease then ends before its first renewal",
    );
}

/// Settings that the file gives.
#[derive(Default)]
struct Given {
    locking: Option<Locking>,
    ttl: Option<Duration>,
    max_hold: Option<Duration>,
    on_busy: Option<OnBusy>,
}

fn settled(owner: Owner, name: GroupName, given: &Given) -> Group {
    let usual = if owner == Owner::System { Locking::Lease } else { Locking::Optimistic };
    Group {
        name,
        owner,
        writers: None,
        locking: given.locking.unwrap_or(usual),
        ttl: given.ttl.unwrap_or(TTL),
        max_hold: given.max_hold.unwrap_or(MAX_HOLD),
        on_busy: given.on_busy.unwrap_or(ON_BUSY),
        derived_from: Vec::new(),
        split_by: Vec::new(),
    }
}

/// What the entries of one shared group say; those that say something must agree.
#[derive(Default)]
struct Settings<'r> {
    locking: Option<&'r Spanned<Locking>>,
    ttl: Option<&'r Spanned<Duration>>,
    max_hold: Option<&'r Spanned<Duration>>,
    on_busy: Option<&'r Spanned<OnBusy>>,
    values: Option<&'r Spanned<String>>,
}

impl<'r> Settings<'r> {
    fn add(&mut self, entry: &'r RawShared, group: &str, findings: &mut Findings) {
        agree(&mut self.locking, entry.locking.as_ref(), "locking", group, findings);
        agree(&mut self.ttl, entry.ttl.as_ref(), "ttl", group, findings);
        agree(&mut self.max_hold, entry.max_hold.as_ref(), "max_hold", group, findings);
        agree(&mut self.on_busy, entry.on_busy.as_ref(), "on_busy", group, findings);
        agree(&mut self.values, entry.history.values.as_ref(), "history", group, findings);
    }

    fn build(&self, name: GroupName) -> Group {
        let given = Given {
            locking: self.locking.map(|v| v.value),
            ttl: self.ttl.map(|v| v.value),
            max_hold: self.max_hold.map(|v| v.value),
            on_busy: self.on_busy.map(|v| v.value),
        };
        settled(Owner::Shared, name, &given)
    }
}

fn agree<'r, T: PartialEq>(
    known: &mut Option<&'r Spanned<T>>,
    own: Option<&'r Spanned<T>>,
    key: &str,
    group: &str,
    findings: &mut Findings,
) {
    let Some(own) = own else { return };
    let first = *known.get_or_insert(own);
    if first.value != own.value {
        let message = format!("two entries of the group `{group}` give it a different `{key}`");
        let help = "entries of one group agree; give them groups of their own, or one value";
        let note = (first.span, "first here".to_owned());
        findings.note("group_disagrees", own.span, message, help, note);
    }
}
