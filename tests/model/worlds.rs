//! The worlds that hold, and the mutations that do not.

use std::collections::BTreeSet;

use stateright::{Checker, Expectation, HasDiscoveries, Model};

use crate::{
    design::{Budget, Design, Kind, Mutation, Saver},
    properties::*,
};

use Kind::{Editor, Worker};

const fn saver(kind: Kind, field: u8, operation: u8) -> Saver {
    Saver { kind, field, operation }
}

const CALM: Budget = Budget { late: 0, crash: 0, keys_lost: 0, unknown: 0, row_lost: 0 };
const ROUGH: Budget = Budget { late: 1, crash: 1, keys_lost: 1, unknown: 1, row_lost: 0 };

fn world(savers: &[Saver], fields: &[u8], leased: &[bool], faults: Budget) -> Design {
    Design {
        savers: savers.to_vec(),
        fields: fields.to_vec(),
        leased: leased.to_vec(),
        fence: 0,
        faults,
        attempts: 2,
        mutations: &[],
    }
}

/// Two workers of one group, an editor of another.
fn two_workers_and_an_editor() -> Design {
    let savers = [saver(Worker, 0, 1), saver(Worker, 0, 2), saver(Editor, 1, 3)];
    world(&savers, &[0, 1], &[true, false], ROUGH)
}

/// Three workers of one group.
fn three_workers() -> Design {
    let savers = [saver(Worker, 0, 1), saver(Worker, 0, 2), saver(Worker, 0, 3)];
    world(&savers, &[0], &[true], Budget { late: 2, ..ROUGH })
}

/// One job delivered twice, and an editor of another group.
fn a_redelivery() -> Design {
    let savers = [saver(Worker, 0, 1), saver(Worker, 0, 1), saver(Editor, 1, 2)];
    world(&savers, &[0, 1], &[true, false], ROUGH)
}

/// Two editors on different fields of one group, and a worker of another.
fn two_editors_on_two_fields() -> Design {
    let savers = [saver(Editor, 0, 1), saver(Editor, 1, 2), saver(Worker, 2, 3)];
    let faults = Budget { crash: 1, unknown: 1, ..CALM };
    Design { attempts: 4, ..world(&savers, &[0, 0, 1], &[false, true], faults) }
}

/// Three editors on one field.
fn three_editors_on_one_field() -> Design {
    let savers = [saver(Editor, 0, 1), saver(Editor, 0, 2), saver(Editor, 0, 3)];
    let faults = Budget { crash: 1, unknown: 2, ..CALM };
    Design { attempts: 3, ..world(&savers, &[0], &[false], faults) }
}

/// One worker alone, on a scope that was claimed before, with every fault that needs no rival.
fn a_worker_alone() -> Design {
    let faults = Budget { late: 1, keys_lost: 1, unknown: 1, ..CALM };
    Design { fence: 5, attempts: 4, ..world(&[saver(Worker, 0, 1)], &[0], &[true], faults) }
}

/// Two workers whose scope row is lost, so that fences come again.
fn a_lost_row() -> Design {
    let savers = [saver(Worker, 0, 1), saver(Worker, 0, 2)];
    let faults = Budget { late: 1, row_lost: 1, unknown: 1, ..CALM };
    Design { attempts: 3, ..world(&savers, &[0], &[true], faults) }
}

fn explore(design: &Design, finish: HasDiscoveries) -> (BTreeSet<&'static str>, usize) {
    let explored = design.clone().checker().finish_when(finish).spawn_bfs().join();
    (explored.discoveries().into_keys().collect(), explored.unique_state_count())
}

/// Explores everything: no property may fail, and everything of `reached` must happen.
fn holds(design: Design, reached: &[&'static str]) {
    let (found, states) = explore(&design, HasDiscoveries::AnyFailures);

    let failed: Vec<_> = design
        .properties()
        .into_iter()
        .filter(|property| property.expectation != Expectation::Sometimes)
        .filter(|property| found.contains(property.name))
        .map(|property| property.name)
        .collect();
    assert!(failed.is_empty(), "violated after {states} states: {failed:?}");
    for name in reached {
        assert!(found.contains(name), "never in {states} states: {name}");
    }
}

#[test]
fn two_workers_of_one_group_and_an_editor_of_another_keep_every_promise() {
    holds(
        two_workers_and_an_editor(),
        &[
            TWO_BELIEVE,
            ALL_SUCCEED,
            GAVE_UP,
            LATE_CLAIM,
            UNKNOWN_APPLIED,
            UNKNOWN_LOST,
            DEAD_COMMIT,
        ],
    );
}

#[test]
fn three_workers_of_one_group_keep_every_promise() {
    holds(three_workers(), &[TWO_BELIEVE, ALL_SUCCEED, GAVE_UP, LATE_CLAIM, DISPLACED]);
}

#[test]
fn a_job_delivered_twice_takes_effect_once() {
    holds(a_redelivery(), &[ANSWERED_TWICE, ALL_SUCCEED, UNKNOWN_APPLIED]);
}

#[test]
fn two_editors_on_different_fields_of_one_group_both_succeed() {
    holds(two_editors_on_two_fields(), &[ALL_SUCCEED, UNKNOWN_APPLIED]);
}

#[test]
fn of_three_editors_on_one_field_the_later_ones_are_told() {
    holds(three_editors_on_one_field(), &[CONFLICT, ALL_SUCCEED, UNKNOWN_APPLIED]);
}

#[test]
fn a_worker_alone_is_never_refused_for_ever() {
    holds(a_worker_alone(), &[ALL_SUCCEED, UNKNOWN_APPLIED]);
}

#[test]
fn a_holder_of_before_a_lost_row_cannot_write_after_it() {
    holds(a_lost_row(), &[ALL_SUCCEED]);
}

#[test]
fn every_missing_defence_is_noticed_by_its_property() {
    use Mutation::*;
    type Row = (&'static [Mutation], fn() -> Design, &'static str);
    let table: &[Row] = &[
        (&[NoClaim], two_workers_and_an_editor, NOT_AFTER_SUCCESSOR),
        (&[FenceOnlyWhenWriting], two_workers_and_an_editor, NOT_AFTER_SUCCESSOR),
        (&[FenceOnlyWhenWriting, NoVersionCompare], two_workers_and_an_editor, NO_LOST_UPDATE),
        (&[NoClaim, NoVersionCompare], two_workers_and_an_editor, NO_LOST_UPDATE),
        (&[NoVersionCompare], three_editors_on_one_field, NO_LOST_UPDATE),
        (&[VersionNotRaised], three_editors_on_one_field, NO_LOST_UPDATE),
        (&[FenceLessOrEqual], a_lost_row, NOT_AFTER_SUCCESSOR),
        (&[NoHolderCompare], a_lost_row, ONLY_LAST_CLAIMER),
        (&[LoadBeforeClaim], two_workers_and_an_editor, NO_LOST_UPDATE),
        (&[LateClaimUsed], three_workers, NOT_AFTER_SUCCESSOR),
        (&[DeadlineAfterExpiry], three_workers, NOT_AFTER_SUCCESSOR),
        (&[FenceFromLeaseServer], a_worker_alone, LONE_SAVER),
        (&[PlainRelease], two_workers_and_an_editor, RELEASE_OWN),
        (&[NoTtl], two_workers_and_an_editor, NOBODY_STUCK),
        (&[BlindRetry], two_workers_and_an_editor, EFFECT_ONCE),
        (&[UnknownIsSuccess], two_workers_and_an_editor, ACKNOWLEDGED_IS_THERE),
        (&[UnknownIsRefusal], two_workers_and_an_editor, REFUSED_LEAVES_NOTHING),
        (&[ResolveOnlyLooks], two_workers_and_an_editor, REFUSED_LEAVES_NOTHING),
        (&[NoOperationUniqueness], a_redelivery, EFFECT_ONCE),
        (&[RecordApart], two_workers_and_an_editor, RECORD_AND_EFFECT),
        (&[ProcessWideGuard], two_workers_and_an_editor, EDITOR_ONE_VERSION),
        (&[GuardNotDropped], two_workers_and_an_editor, GUARD_NEVER_LEAKS),
        (&[WholeRecord], two_workers_and_an_editor, NO_LOST_UPDATE),
        (&[ConflictRunAgain], three_editors_on_one_field, NO_LOST_UPDATE),
        (&[VersionIsConflict], two_editors_on_two_fields, LONE_SAVER),
        // Where the promise ends: after the lease server lost its keys nobody knows which grant was the later one.
        // Then the last claim in the database decides alone, which `ONLY_LAST_CLAIMER` says and the worlds above keep.
        (&[OrderAcrossLostKeys], two_workers_and_an_editor, NOT_AFTER_SUCCESSOR),
    ];

    let mut missed = Vec::new();
    for (mutations, design, property) in table {
        let design = Design { mutations, ..design() };
        let (found, states) = explore(&design, HasDiscoveries::AnyOf([*property].into()));
        if !found.contains(property) {
            missed.push(format!("{mutations:?} is not noticed by: {property} ({states} states)"));
        }
    }

    assert!(missed.is_empty(), "{missed:#?}");
}
