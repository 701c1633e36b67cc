//! The database: the only authority on who may write.

use crate::{
    design::{Design, Kind, Mutation},
    state::{At, Message, Row, State},
};

impl Design {
    /// The claim in the database: the fence rises, the token becomes the holder, the record is read under the lock.
    pub(crate) fn claim(&self, state: &mut State, saver: usize) {
        let scope = self.scope(saver);
        let fresh = self.read(state, saver);
        let mut next = state.savers[saver].next.take().expect("granted");
        if self.is(Mutation::FenceFromLeaseServer) {
            if state.counters[scope] <= state.rows[scope].fence {
                return self.lost(state, saver);
            }
            state.rows[scope].fence = state.counters[scope] - 1;
        }
        if self.is(Mutation::FenceOnlyWhenWriting) {
            next.fence = next.grant.number;
        } else if !self.is(Mutation::NoClaim) {
            let row = &mut state.rows[scope];
            row.fence += 1;
            row.holder = Some(next.grant);
            next.fence = row.fence;
        }
        next.version = state.rows[scope].version;
        if !self.is(Mutation::LoadBeforeClaim) {
            next.seen = fresh;
        }
        let newest = &mut state.claimed[scope][self.epoch(&next)];
        *newest = (*newest).max(next.grant.number);
        state.last_claim[scope] = Some(next.grant);
        state.savers[saver].next = Some(next);
        state.savers[saver].at = At::Claimed;
    }

    /// Grants before and after a loss of keys have no order that anybody could know.
    fn epoch(&self, message: &Message) -> usize {
        if self.is(Mutation::OrderAcrossLostKeys) { 0 } else { usize::from(message.epoch) }
    }

    /// The one transaction of a save. Answers whether the operation has taken effect, now or before.
    pub(crate) fn commit(&self, state: &mut State, saver: usize, message: &Message) -> bool {
        let operation = usize::from(self.savers[saver].operation);
        let recorded = state.operations[operation] + state.versions[operation] > 0;
        let unique = !self.is(Mutation::NoOperationUniqueness) && !state.savers[saver].renamed;
        if recorded && unique {
            return true;
        }
        let scope = self.scope(saver);
        let row = state.rows[scope];
        let version = row.version == message.version || self.is(Mutation::NoVersionCompare);
        if !version || !self.holder_agrees(saver, row, message) {
            return false;
        }
        self.note(state, saver, message);

        let field = usize::from(self.savers[saver].field);
        if self.is(Mutation::WholeRecord) {
            state.values.clone_from(&message.seen);
        }
        state.values[field] = self.savers[saver].operation;
        if !self.is(Mutation::VersionNotRaised) {
            state.rows[scope].version += 1;
        }
        if self.is(Mutation::FenceOnlyWhenWriting) {
            state.rows[scope].fence = message.fence;
        }
        state.effects[operation] += 1;
        if !self.is(Mutation::RecordApart) {
            self.record(state, saver);
        }
        true
    }

    fn holder_agrees(&self, saver: usize, row: Row, message: &Message) -> bool {
        if !self.is_leased(saver) {
            return row.holder.is_none();
        }
        if self.is(Mutation::NoClaim) {
            return true;
        }
        if self.is(Mutation::FenceOnlyWhenWriting) || self.is(Mutation::FenceLessOrEqual) {
            return row.fence <= message.fence;
        }
        let holder = row.holder == Some(message.grant) || self.is(Mutation::NoHolderCompare);
        row.fence == message.fence && holder
    }

    /// Looks at an accepted commit with the eyes of somebody who knows everything.
    fn note(&self, state: &mut State, saver: usize, message: &Message) {
        let scope = self.scope(saver);
        let own = usize::from(self.savers[saver].field);
        let replaces = |field: usize| field == own || self.is(Mutation::WholeRecord);
        let blind = (0..state.values.len())
            .any(|field| replaces(field) && message.seen[field] != state.values[field]);
        state.violations.lost_update |= blind;
        if self.is_leased(saver) {
            let newest = state.claimed[scope][self.epoch(message)];
            state.violations.after_successor |= message.grant.number < newest;
            state.violations.not_last_claimer |= state.last_claim[scope] != Some(message.grant);
        }
    }

    /// The trace of a save: by the writer's kind alone.
    pub(crate) fn record(&self, state: &mut State, saver: usize) {
        let operation = usize::from(self.savers[saver].operation);
        let worker = if self.is(Mutation::ProcessWideGuard) {
            state.flag > 0
        } else {
            self.savers[saver].kind == Kind::Worker
        };
        let trace = if worker { &mut state.operations } else { &mut state.versions };
        trace[operation] += 1;
    }
}
