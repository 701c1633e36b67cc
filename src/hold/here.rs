//! What this process knows of its own leases and the store does not: after a local hand-over the store still has the name
//! and the time of the first holder, and it counts one place for all waiters of a process.

use std::{collections::HashMap, sync::Arc};

use crate::{
    clock::Moment,
    entity::EntityRef,
    hold::{
        Manager,
        handle::Handle,
        tenure::{Phase, Tenure},
    },
    lease::Holder,
    scope::Scope,
};

impl Manager {
    /// Who of this process holds what of the record now, in scope order, with the waiters of this process. Looks through
    /// every lease of the process: for people, not for hot paths.
    #[must_use]
    pub fn held_here(&self, entity: &EntityRef) -> Vec<Holder> {
        let now = self.keeper().clock.now();
        let mut holders = self.keeper().change(|book, _| {
            let tenures =
                book.tenures.values().filter(|tenure| tenure.ask.extent.entity() == entity);
            let held = tenures.filter_map(|tenure| match &tenure.phase {
                Phase::Held(handle) => Some(local_holders(handle, tenure.waiters.len(), now)),
                _ => None,
            });
            held.flatten().collect::<Vec<_>>()
        });
        holders.sort_by(|a, b| a.scope.cmp(&b.scope));
        holders
    }

    /// Completes what [`crate::lease::LeaseStore::inspect`] answered by what is known here: the present holder's name and
    /// time where this process holds the lease, and its waiters, of which the store counts at most one.
    pub fn overlay(&self, holders: &mut [Holder]) {
        let now = self.keeper().clock.now();
        let found: HashMap<Scope, usize> =
            holders.iter().enumerate().map(|(at, holder)| (holder.scope.clone(), at)).collect();
        if found.is_empty() {
            return;
        }
        self.keeper().change(|book, _| {
            for tenure in book.tenures.values() {
                for scope in tenure.ask.extent.scopes().iter() {
                    let at = found.get(&scope).copied();
                    if let Some(holder) = at.and_then(|at| holders.get_mut(at)) {
                        complete(holder, tenure, now);
                    }
                }
            }
        });
    }
}

fn complete(holder: &mut Holder, tenure: &Tenure, now: Moment) {
    let counted = match &tenure.phase {
        Phase::Held(handle) => {
            holder.label = Arc::clone(&handle.label);
            holder.held = now.since(handle.since);
            0
        }
        Phase::Queued { .. } => 1,
        Phase::Asking { .. } | Phase::Lost(_) => 0,
    };
    let more = tenure.waiters.len().saturating_sub(counted);
    holder.waiting = holder.waiting.saturating_add(u32::try_from(more).unwrap_or(u32::MAX));
}

/// A holder of this process as others see it.
pub(crate) fn local_holders(handle: &Handle, waiting: usize, now: Moment) -> Vec<Holder> {
    let describe = |scope: Scope| Holder {
        scope,
        label: Arc::clone(&handle.label),
        remaining: handle.deadline().since(now),
        held: now.since(handle.since),
        waiting: u32::try_from(waiting).unwrap_or(u32::MAX),
    };
    handle.ask.extent.scopes().iter().map(describe).collect()
}
