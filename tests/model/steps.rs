//! Every step of the world: savers, the database, the lease server, and faults.

use crate::{
    design::{Design, Kind, Mutation},
    state::{At, Grant, Message, Row, State},
};

/// One step. The number is the saver's, or the scope's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// An editor opens the form.
    Open(usize),
    /// An editor's save loads the record and plans.
    Plan(usize),
    /// A worker takes the lease.
    Acquire(usize),
    /// (mutation) A worker reads before it claims.
    ReadEarly(usize),
    /// The claim reaches the database and is answered.
    Claim(usize),
    /// The worker looks at its deadline and sends the commit.
    Send(usize),
    /// The commit reaches the database and is answered.
    Arrive(usize),
    /// (mutation) The record of a commit is written.
    Record(usize),
    /// The saver asks what became of its commit.
    Resolve(usize),
    /// The saver gives its lease back and ends.
    Release(usize),
    /// The key goes.
    Expire(usize),
    /// A commit nobody waits for reaches the database.
    Land(usize),
    /// Faults.
    Break(usize),
    Late(usize),
    Crash(usize),
    LoseRow(usize),
    LoseKeys,
}

impl Design {
    /// Steps that somebody is obliged to make some day, and those that may happen.
    pub(crate) fn steps(&self, state: &State, out: &mut Vec<Step>) {
        self.duties(state, out);
        let left = state.left;
        for (index, saver) in state.savers.iter().enumerate() {
            if saver.flying.is_some() {
                out.push(Step::Land(index));
            }
            if saver.at == At::Sent && left.unknown > 0 && saver.flying.is_none() {
                out.push(Step::Break(index));
            }
            if saver.trusts && left.late > 0 {
                out.push(Step::Late(index));
            }
            if !saver.at.ended() && saver.at != At::Idle && left.crash > 0 {
                out.push(Step::Crash(index));
            }
        }
        if left.row_lost > 0 {
            out.extend((0..state.rows.len()).map(Step::LoseRow));
        }
        if left.keys_lost > 0 && state.leases.iter().any(Option::is_some) {
            out.push(Step::LoseKeys);
        }
    }

    /// Steps that happen by themselves: where none is left, everybody must have ended.
    pub(crate) fn duties(&self, state: &State, out: &mut Vec<Step>) {
        for (index, saver) in state.savers.iter().enumerate() {
            let free = state.leases[self.scope(index)].is_none();
            match saver.at {
                At::Idle if !self.is_leased(index) => out.push(Step::Open(index)),
                At::Idle if free => out.push(Step::Acquire(index)),
                At::Opened => out.push(Step::Plan(index)),
                At::Granted if self.is(Mutation::LoadBeforeClaim) => {
                    out.push(Step::ReadEarly(index));
                }
                At::Granted | At::ReadEarly => out.push(Step::Claim(index)),
                At::Claimed => out.push(Step::Send(index)),
                At::Sent => out.push(Step::Arrive(index)),
                At::Unrecorded => out.push(Step::Record(index)),
                At::Unknown => out.push(Step::Resolve(index)),
                At::Saved => out.push(Step::Release(index)),
                _ => {}
            }
        }
        for (scope, lease) in state.leases.iter().enumerate() {
            if lease.is_some_and(|grant| self.may_expire(state, grant)) {
                out.push(Step::Expire(scope));
            }
        }
    }

    /// A key lives at least as long as its holder trusts it, on the holder's own clock.
    fn may_expire(&self, state: &State, grant: Grant) -> bool {
        let trusted = state.savers[usize::from(grant.saver)].trusts;
        if self.is(Mutation::NoTtl) {
            return false;
        }
        !trusted || (self.is(Mutation::DeadlineAfterExpiry) && state.left.late > 0)
    }

    pub(crate) fn step(&self, state: &mut State, step: Step) {
        match step {
            Step::Open(saver) => {
                let seen = self.read(state, saver);
                state.savers[saver].next = Some(self.message(state, saver, seen));
                state.savers[saver].at = At::Opened;
            }
            Step::Plan(saver) => self.plan(state, saver),
            Step::Acquire(saver) => self.acquire(state, saver),
            Step::ReadEarly(saver) => {
                let seen = self.read(state, saver);
                let mut next = state.savers[saver].next.take().expect("granted");
                next.seen = seen;
                state.savers[saver].next = Some(next);
                state.savers[saver].at = At::ReadEarly;
            }
            Step::Claim(saver) => self.claim(state, saver),
            Step::Send(saver) => {
                if state.savers[saver].trusts || self.is(Mutation::LateClaimUsed) {
                    state.savers[saver].at = At::Sent;
                } else {
                    self.lost(state, saver);
                }
            }
            Step::Arrive(saver) => {
                let message = state.savers[saver].next.clone().expect("sent");
                let answer = self.commit(state, saver, &message);
                self.answered(state, saver, answer);
            }
            Step::Record(saver) => {
                self.record(state, saver);
                state.savers[saver].at = At::Saved;
            }
            Step::Resolve(saver) => self.resolve(state, saver),
            Step::Release(saver) => self.end(state, saver, At::Done),
            Step::Expire(scope) => {
                let grant = state.leases[scope].take().expect("a key");
                if state.savers[usize::from(grant.saver)].trusts {
                    state.left.late -= 1;
                }
            }
            Step::Land(saver) => {
                let message = state.savers[saver].flying.take().expect("a commit on its way");
                self.commit(state, saver, &message);
            }
            Step::Break(_) | Step::Late(_) | Step::Crash(_) | Step::LoseRow(_) | Step::LoseKeys => {
                self.fault(state, step);
            }
        }
    }

    fn fault(&self, state: &mut State, step: Step) {
        match step {
            Step::Break(saver) => {
                state.left.unknown -= 1;
                state.savers[saver].flying = state.savers[saver].next.clone();
                state.savers[saver].at = At::Unknown;
            }
            Step::Late(saver) => {
                state.left.late -= 1;
                state.savers[saver].trusts = false;
            }
            Step::Crash(saver) => {
                state.left.crash -= 1;
                let dead = &mut state.savers[saver];
                let next = dead.next.take();
                if dead.at == At::Sent && dead.flying.is_none() {
                    dead.flying = next;
                }
                dead.at = At::Crashed;
                dead.trusts = false;
                if !self.is(Mutation::GuardNotDropped) {
                    self.lower_guard(state, saver);
                }
            }
            Step::LoseRow(scope) => {
                state.left.row_lost -= 1;
                state.rows[scope] = Row::default();
            }
            _ => {
                state.left.keys_lost -= 1;
                state.epoch += 1;
                state.leases.fill(None);
                if self.is(Mutation::FenceFromLeaseServer) {
                    state.counters.fill(0);
                }
            }
        }
    }

    /// What a load shows. Only the own field matters to a partial save.
    pub(crate) fn read(&self, state: &State, saver: usize) -> Vec<u8> {
        if self.is(Mutation::WholeRecord) {
            return state.values.clone();
        }
        let field = usize::from(self.savers[saver].field);
        let mut seen = vec![0; state.values.len()];
        seen[field] = state.values[field];
        seen
    }

    fn message(&self, state: &State, saver: usize, seen: Vec<u8>) -> Message {
        let row = state.rows[self.scope(saver)];
        let grant = Grant { saver: saver as u8, number: 0 };
        Message { grant, epoch: state.epoch, version: row.version, fence: row.fence, seen }
    }

    /// An editor's save: fresh versions, and conflicts decided by what the form showed.
    fn plan(&self, state: &mut State, saver: usize) {
        let mut shown = state.savers[saver].next.take().expect("opened").seen;
        let field = usize::from(self.savers[saver].field);
        let ours = self.savers[saver].operation;
        let mut fresh = self.message(state, saver, self.read(state, saver));
        let moved = fresh.seen[field] != shown[field] && fresh.seen[field] != ours;
        if moved && !self.is(Mutation::ConflictRunAgain) {
            return self.end(state, saver, At::Refused);
        }
        std::mem::swap(&mut fresh.seen[field], &mut shown[field]);
        state.savers[saver].next = Some(fresh);
        state.savers[saver].at = At::Sent;
    }

    fn acquire(&self, state: &mut State, saver: usize) {
        let scope = self.scope(saver);
        state.grants[scope] += 1;
        let grant = Grant { saver: saver as u8, number: state.grants[scope] };
        state.leases[scope] = Some(grant);
        if self.is(Mutation::FenceFromLeaseServer) {
            state.counters[scope] += 1;
        }
        let seen = vec![0; state.values.len()];
        let message = Message { grant, epoch: state.epoch, version: 0, fence: 0, seen };
        let own = &mut state.savers[saver];
        own.next = Some(message);
        own.trusts = true;
        own.at = At::Granted;
        if self.savers[saver].kind == Kind::Worker && !own.guard {
            own.guard = true;
            state.flag += u8::from(self.is(Mutation::ProcessWideGuard));
        }
    }

    fn answered(&self, state: &mut State, saver: usize, applied: bool) {
        if applied {
            let apart = self.is(Mutation::RecordApart);
            state.savers[saver].next = None;
            state.savers[saver].at = if apart { At::Unrecorded } else { At::Saved };
            return;
        }
        if !self.is_leased(saver) && self.is(Mutation::VersionIsConflict) {
            return self.end(state, saver, At::Refused);
        }
        self.again(state, saver);
    }

    /// A refused commit: a living holder claims again, an editor plans again.
    fn again(&self, state: &mut State, saver: usize) {
        if self.is_leased(saver) && !state.savers[saver].trusts {
            return self.lost(state, saver);
        }
        if !self.attempt(state, saver) {
            return;
        }
        let own = &mut state.savers[saver];
        if self.is_leased(saver) {
            let next = own.next.as_mut().expect("a grant to claim under");
            (next.version, next.fence) = (0, 0);
            next.seen.fill(0);
            own.at = At::Granted;
        } else {
            own.at = At::Opened;
        }
    }

    /// The lease is gone: start over from acquire.
    pub(crate) fn lost(&self, state: &mut State, saver: usize) {
        self.release(state, saver);
        if self.attempt(state, saver) {
            let own = &mut state.savers[saver];
            own.next = None;
            own.trusts = false;
            own.at = At::Idle;
        }
    }

    fn attempt(&self, state: &mut State, saver: usize) -> bool {
        if state.savers[saver].attempts <= 1 {
            self.end(state, saver, At::GaveUp);
            return false;
        }
        state.savers[saver].attempts -= 1;
        true
    }

    fn resolve(&self, state: &mut State, saver: usize) {
        let operation = usize::from(self.savers[saver].operation);
        let applied = state.operations[operation] + state.versions[operation] > 0;
        if self.is(Mutation::UnknownIsSuccess) {
            state.savers[saver].at = At::Saved;
            return;
        }
        if self.is(Mutation::UnknownIsRefusal) {
            return self.end(state, saver, At::GaveUp);
        }
        let blind = self.is(Mutation::BlindRetry);
        if applied && !blind {
            state.savers[saver].at = At::Saved;
            return;
        }
        state.savers[saver].renamed = blind;
        if !self.is(Mutation::ResolveOnlyLooks) && !blind {
            state.savers[saver].flying = None;
        }
        self.again(state, saver);
    }

    fn end(&self, state: &mut State, saver: usize, at: At) {
        self.release(state, saver);
        self.lower_guard(state, saver);
        let own = &mut state.savers[saver];
        own.next = None;
        own.trusts = false;
        own.at = at;
    }

    /// Compare and delete.
    fn release(&self, state: &mut State, saver: usize) {
        if !self.is_leased(saver) {
            return;
        }
        let scope = self.scope(saver);
        let Some(grant) = state.leases[scope] else { return };
        let mine = usize::from(grant.saver) == saver;
        if mine || self.is(Mutation::PlainRelease) {
            state.violations.foreign_release |= !mine;
            state.leases[scope] = None;
        }
    }

    fn lower_guard(&self, state: &mut State, saver: usize) {
        if std::mem::take(&mut state.savers[saver].guard) {
            state.flag -= u8::from(self.is(Mutation::ProcessWideGuard));
        }
    }
}
