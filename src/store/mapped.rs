//! What every database does alike with records in the CMS's own tables.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use crate::{
    clock::StoreTime,
    commit::{Expect, Lifecycle, Refusal},
    diagnostic::Diagnostic,
    entity::{EntityRef, EntityType, Value},
    error::Error,
    mapping::{Layout, Stored},
    record::Record,
    scope::ScopeName,
    snapshot::Snapshot,
    store::{
        prepare::Prepared,
        text::{self as stored, Broken},
    },
    token::Incarnation,
};

/// The layouts in force, by entity type.
#[derive(Default)]
pub(crate) struct Layouts(RwLock<BTreeMap<EntityType, Arc<Layout>>>);

impl Layouts {
    pub(crate) fn of(&self, kind: &EntityType) -> Option<Arc<Layout>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(kind).cloned()
    }

    pub(crate) fn keep(&self, kind: &EntityType, layout: Option<Arc<Layout>>) {
        let mut layouts = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match layout {
            Some(layout) => layouts.insert(kind.clone(), layout),
            None => layouts.remove(kind),
        };
    }
}

/// Why tables and rules do not fit, as one error: every fault with its line.
pub(crate) fn misfit(kind: &EntityType, faults: &[Diagnostic]) -> Error {
    let said = faults.iter().map(|fault| {
        format!("line {}, column {}: {}", fault.span.line, fault.span.column, fault.message)
    });
    let message = format!(
        "`storage` of `{kind}` does not fit the database: {}",
        said.collect::<Vec<_>>().join("; ")
    );
    let (code, help) = faults.first().map_or(("mapping", ""), |f| (f.code, f.help.as_str()));
    Error::invalid(code, message, help)
}

/// What the tables refused: a constraint or a trigger of the CMS.
pub(crate) fn constraint(kind: &EntityType, why: &str) -> Error {
    Error::invalid(
        "constraint",
        format!("the tables of `{kind}` refuse the values: {why}"),
        "send values that the CMS's own constraints and triggers allow",
    )
}

/// How a record stands that we know as `known` and the CMS's tables as `stored`: one we never saw exists, one the CMS
/// removed is deleted, one it made again is another incarnation (RULES 45).
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) fn seen(
    entity: &EntityRef,
    known: Option<Snapshot>,
    stored: Stored,
    now: StoreTime,
) -> Option<Snapshot> {
    let fresh = known.is_none();
    if fresh && !stored.exists {
        return None;
    }
    let mut snapshot = known.unwrap_or_else(|| Snapshot {
        incarnation: Incarnation(1),
        read_at: now,
        ..Snapshot::missing(entity.clone())
    });
    match (snapshot.deleted_at, stored.exists) {
        (Some(_), true) => {
            snapshot.incarnation = snapshot.incarnation.next();
            snapshot.deleted_at = None;
        }
        (None, false) => snapshot.deleted_at = Some(now),
        _ => {}
    }
    snapshot.record = stored.record;
    Some(snapshot)
}

/// What keeps a save from being applied to these values: items that must exist and do not, and values that code which
/// knows nothing of us wrote since the save was planned. `apply` has seen nothing that could be out of date, and a
/// record that is deleted goes with whatever it holds.
pub(crate) fn objection(save: &Prepared, record: &Record) -> Result<Option<Refusal>, Broken> {
    let gone = save.parents.iter().filter(|parent| !record.has_item(parent));
    let gone: Vec<_> = gone.cloned().collect();
    if !gone.is_empty() {
        return Ok(Some(Refusal::ParentGone(gone)));
    }
    if save.lifecycle == Lifecycle::Delete {
        return Ok(None);
    }
    let mut stale: Vec<ScopeName> = Vec::new();
    for change in &save.changed {
        let scope = save.scopes.iter().find(|scope| scope.name == change.scope);
        if scope.is_some_and(|scope| scope.expect == Expect::Unread) {
            continue;
        }
        let old = change.old.as_deref().map(stored::json).transpose()?;
        if !record.get(&change.path).same(&Value::from(old)) && !stale.contains(&change.scope) {
            stale.push(change.scope.clone());
        }
    }
    Ok((!stale.is_empty()).then_some(Refusal::Stale(stale)))
}
