//! What must hold in every state, and what must be reachable in some.

use stateright::{Model, Property};

use crate::{
    design::{Budget, Design, Kind},
    state::{At, SaverState, State},
    steps::Step,
};

pub(crate) const NO_LOST_UPDATE: &str = "no save replaces a value its writer had not seen";
pub(crate) const RECORD_AND_EFFECT: &str = "a record is there exactly when its effect is";
pub(crate) const EFFECT_ONCE: &str = "an operation takes effect at most once";
pub(crate) const REFUSED_LEAVES_NOTHING: &str = "a refused save leaves nothing";
pub(crate) const ACKNOWLEDGED_IS_THERE: &str = "an acknowledged save took effect";
pub(crate) const NOT_AFTER_SUCCESSOR: &str = "no write is accepted once a successor has claimed";
pub(crate) const ONLY_LAST_CLAIMER: &str = "only the last claimer of a scope writes under a lease";
pub(crate) const EDITOR_ONE_VERSION: &str = "an editor's save makes one version and no operation";
pub(crate) const WORKER_NO_VERSION: &str = "a worker's save makes one operation and no version";
pub(crate) const GUARD_NEVER_LEAKS: &str = "no guard outlives its save";
pub(crate) const RELEASE_OWN: &str = "release frees only the saver's own lease";
pub(crate) const LONE_SAVER: &str = "a saver without a rival is never refused for ever";
pub(crate) const NOBODY_STUCK: &str = "where nothing more can happen, everybody has ended";

pub(crate) const TWO_BELIEVE: &str = "two believe to hold one lease";
pub(crate) const ALL_SUCCEED: &str = "all succeed";
pub(crate) const CONFLICT: &str = "a conflict is refused";
pub(crate) const GAVE_UP: &str = "a saver gives up";
pub(crate) const LATE_CLAIM: &str = "a late claim takes the scope from the successor";
pub(crate) const DISPLACED: &str = "a living holder is displaced and its commit is on the way";
pub(crate) const UNKNOWN_APPLIED: &str = "an unknown commit took effect";
pub(crate) const UNKNOWN_LOST: &str = "an unknown commit never arrived";
pub(crate) const DEAD_COMMIT: &str = "the commit of a dead saver took effect";
pub(crate) const ANSWERED_TWICE: &str = "two deliveries of one job are both acknowledged";

impl Model for Design {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Step>) {
        self.steps(state, actions);
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        self.step(&mut state, step);
        assert!(state.rank() < last.rank(), "{step:?} brings no run nearer to its end: {last:?}");
        Some(self.ordered(state))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = safety();
        properties.extend(reachable());
        properties
    }
}

fn safety() -> Vec<Property<Design>> {
    vec![
        Property::always(NO_LOST_UPDATE, |_, state: &State| !state.violations.lost_update),
        Property::always(RECORD_AND_EFFECT, |design: &Design, state: &State| {
            (0..state.effects.len()).all(|operation| {
                let recorded = state.operations[operation] + state.versions[operation] > 0;
                let between = savers_of(design, state, operation).any(|at| at == At::Unrecorded);
                recorded == (state.effects[operation] > 0) || between
            })
        }),
        Property::always(EFFECT_ONCE, |_, state: &State| state.effects.iter().all(|n| *n <= 1)),
        Property::always(REFUSED_LEAVES_NOTHING, |design: &Design, state: &State| {
            state.savers.iter().enumerate().all(|(index, saver)| {
                let refused = matches!(saver.at, At::Refused | At::GaveUp);
                !refused || design.is_redelivered(index) || effects(design, state, index) == 0
            })
        }),
        Property::always(ACKNOWLEDGED_IS_THERE, |design: &Design, state: &State| {
            state.savers.iter().enumerate().all(|(index, saver)| {
                let acknowledged = matches!(saver.at, At::Saved | At::Done);
                !acknowledged || effects(design, state, index) > 0
            })
        }),
        Property::always(NOT_AFTER_SUCCESSOR, |_, state: &State| !state.violations.after_successor),
        Property::always(ONLY_LAST_CLAIMER, |_, state: &State| !state.violations.not_last_claimer),
        Property::always(EDITOR_ONE_VERSION, |design: &Design, state: &State| {
            traces(design, state, Kind::Editor, |operations, versions, done| {
                operations == 0 && versions <= 1 && (!done || versions == 1)
            })
        }),
        Property::always(WORKER_NO_VERSION, |design: &Design, state: &State| {
            traces(design, state, Kind::Worker, |operations, versions, done| {
                versions == 0 && operations <= 1 && (!done || operations == 1)
            })
        }),
        Property::always(GUARD_NEVER_LEAKS, |_, state: &State| {
            state.savers.iter().all(|saver| !saver.guard || !saver.at.ended())
        }),
        Property::always(RELEASE_OWN, |_, state: &State| !state.violations.foreign_release),
        Property::always(LONE_SAVER, |design: &Design, state: &State| {
            state.savers.iter().enumerate().all(|(index, saver)| {
                !matches!(saver.at, At::Refused | At::GaveUp) || !design.must_succeed(index)
            })
        }),
        Property::always(NOBODY_STUCK, |design: &Design, state: &State| {
            let mut duties = Vec::new();
            design.duties(state, &mut duties);
            !duties.is_empty() || state.savers.iter().all(|saver| saver.at.ended())
        }),
    ]
}

fn reachable() -> Vec<Property<Design>> {
    vec![
        Property::sometimes(TWO_BELIEVE, |design: &Design, state: &State| {
            (0..state.rows.len()).any(|scope| {
                let believers = state.savers.iter().enumerate();
                let here = believers.filter(|(i, saver)| saver.trusts && design.scope(*i) == scope);
                here.count() >= 2
            })
        }),
        Property::sometimes(ALL_SUCCEED, |_, state: &State| {
            state.savers.iter().all(|saver| saver.at == At::Done)
        }),
        Property::sometimes(CONFLICT, |_, state: &State| any_at(state, At::Refused)),
        Property::sometimes(GAVE_UP, |_, state: &State| any_at(state, At::GaveUp)),
        Property::sometimes(LATE_CLAIM, |design: &Design, state: &State| {
            state.savers.iter().enumerate().any(|(index, saver)| {
                let Some(own) = &saver.next else { return false };
                let scope = design.scope(index);
                let newest = state.claimed[scope][usize::from(own.epoch)];
                let holds = state.rows[scope].holder == Some(own.grant);
                saver.at == At::Claimed && !saver.trusts && holds && own.grant.number < newest
            })
        }),
        Property::sometimes(DISPLACED, |design: &Design, state: &State| {
            state.savers.iter().enumerate().any(|(index, saver)| {
                let Some(own) = &saver.next else { return false };
                let scope = design.scope(index);
                let newest = state.claimed[scope][usize::from(own.epoch)];
                let holder = state.rows[scope].holder;
                let displaced = holder.is_some() && holder != Some(own.grant);
                saver.at == At::Sent && saver.trusts && displaced && own.grant.number == newest
            })
        }),
        Property::sometimes(UNKNOWN_APPLIED, |design: &Design, state: &State| {
            state
                .savers
                .iter()
                .enumerate()
                .any(|(index, saver)| saver.at == At::Unknown && effects(design, state, index) > 0)
        }),
        Property::sometimes(UNKNOWN_LOST, |design: &Design, state: &State| {
            // With no other fault, and nothing written, only an unknown commit costs a worker an attempt.
            let only_fault =
                Budget { unknown: design.faults.unknown.wrapping_sub(1), ..design.faults };
            let written = state.effects.iter().any(|count| *count > 0);
            let starts_over = |saver: &SaverState| {
                saver.at == At::Granted
                    && saver.attempts < design.attempts
                    && saver.flying.is_none()
            };
            state.left == only_fault && !written && state.savers.iter().any(starts_over)
        }),
        Property::sometimes(DEAD_COMMIT, |design: &Design, state: &State| {
            state.savers.iter().enumerate().any(|(index, saver)| {
                saver.at == At::Crashed
                    && saver.flying.is_none()
                    && effects(design, state, index) > 0
            })
        }),
        Property::sometimes(ANSWERED_TWICE, |design: &Design, state: &State| {
            let redelivered = |(index, _): &(usize, _)| design.is_redelivered(*index);
            let mut twice = state.savers.iter().enumerate().filter(redelivered).peekable();
            twice.peek().is_some() && twice.all(|(_, saver)| saver.at == At::Done)
        }),
    ]
}

fn any_at(state: &State, at: At) -> bool {
    state.savers.iter().any(|saver| saver.at == at)
}

fn effects(design: &Design, state: &State, saver: usize) -> u8 {
    state.effects[usize::from(design.savers[saver].operation)]
}

fn savers_of(design: &Design, state: &State, operation: usize) -> impl Iterator<Item = At> {
    let pairs = design.savers.iter().zip(&state.savers);
    pairs
        .filter(move |(saver, _)| usize::from(saver.operation) == operation)
        .map(|(_, state)| state.at)
        .collect::<Vec<_>>()
        .into_iter()
}

/// Holds for every operation of writers of this kind: operations, versions, and whether it took effect.
fn traces(design: &Design, state: &State, kind: Kind, holds: fn(u8, u8, bool) -> bool) -> bool {
    design.savers.iter().filter(|saver| saver.kind == kind).all(|saver| {
        let operation = usize::from(saver.operation);
        let waits = savers_of(design, state, operation).any(|at| at == At::Unrecorded);
        let done = state.effects[operation] > 0 && !waits;
        holds(state.operations[operation], state.versions[operation], done)
    })
}
