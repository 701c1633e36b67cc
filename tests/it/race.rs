//! Editors and workers on the same records, judged by the checker from what the store holds.

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use fieldlease::{
    engine::Engine,
    registry::{self, Limits, Registry},
    store::sqlite::{SqliteOptions, SqliteStore, Statements},
    strategy::Strategies,
    testing::{
        checker::Check,
        race::{Race, Run, through_engine, whole_record},
    },
};

fn rules(race: &Race) -> Registry {
    let (raw, faults) = registry::read(race.registry().as_bytes(), &Limits::default());
    assert!(faults.is_empty(), "{faults:#?}");
    let (rules, faults) = registry::resolve(&raw.unwrap(), &Strategies::standard());
    assert!(faults.is_empty(), "{faults:#?}");
    rules.unwrap()
}

async fn engine(race: &Race, folder: &tempfile::TempDir) -> Run {
    engine_with(race, folder, "").await
}

/// An engine whose store has these statements in place of its own.
async fn engine_with(race: &Race, folder: &tempfile::TempDir, statements: &str) -> Run {
    let options = SqliteOptions::default().statements(Statements::with(statements).unwrap());
    let store = SqliteStore::open_with(folder.path().join("engine.sqlite"), options).unwrap();
    let engine = Engine::builder(Arc::new(rules(race)))
        .source(race.registry())
        .store(Arc::new(store))
        .build()
        .await
        .unwrap();
    let run = through_engine(race, &engine, Arc::new(AtomicU64::new(0))).await.unwrap();
    let left = engine.shutdown(Duration::from_secs(5)).await;
    assert_eq!(left.released, 0, "leases were left behind: {left:?}");
    run
}

async fn naive(race: &Race, folder: &tempfile::TempDir) -> Run {
    let file = folder.path().join("whole_record.sqlite");
    whole_record(race, &file, Arc::new(AtomicU64::new(0))).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_editor_and_six_workers_that_react_make_one_version_and_six_operations() {
    let folder = tempfile::tempdir().unwrap();
    let race = Race::reaction();

    let (naive, engine) = (naive(&race, &folder).await, engine(&race, &folder).await);

    assert!(engine.verdict.holds(), "{:#?}", engine.verdict.findings);
    assert_eq!((engine.verdict.versions, engine.verdict.operations), (1, 6));
    assert_eq!((naive.verdict.versions, naive.verdict.operations), (7, 0));
    assert!(naive.verdict.count(Check::LostUpdate) > 0, "the naive run lost nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_thousand_saves_of_twenty_editors_and_six_workers_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let think = Duration::from_millis(1);
    let race = Race {
        editors: 20,
        fields: 20,
        workers: 6,
        records: 50,
        saves: 20_000,
        think,
        ..Race::default()
    };

    let run = engine(&race, &folder).await;

    let verdict = &run.verdict;
    assert!(verdict.holds(), "{:?} {:#?}", verdict.counts, verdict.findings);
    assert_eq!(run.refused, 0, "no two writers share a field");
    assert_eq!(verdict.saves, race.saves);
    let by_editors = run.history.saves.iter().filter(|save| save.process < race.editors).count();
    assert_eq!(verdict.versions, by_editors as u64);
    assert_eq!(verdict.operations, race.saves - by_editors as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn editors_who_share_fields_are_told_of_true_conflicts_only() {
    let folder = tempfile::tempdir().unwrap();
    let race =
        Race { editors: 12, fields: 2, workers: 2, records: 2, saves: 400, ..Race::default() };

    let run = engine(&race, &folder).await;

    assert!(run.verdict.holds(), "{:?} {:#?}", run.verdict.counts, run.verdict.findings);
    assert_eq!(run.verdict.saves, race.saves);
    assert!(run.refused > 0, "nobody was ever in another's way");
}

#[tokio::test(flavor = "multi_thread")]
async fn whole_record_saves_lose_updates_and_bury_history() {
    let folder = tempfile::tempdir().unwrap();
    let race = Race { records: 3, saves: 300, ..Race::default() };

    let run = naive(&race, &folder).await;

    let verdict = &run.verdict;
    assert!(verdict.count(Check::LostUpdate) > 0, "{:?}", verdict.counts);
    assert_eq!((verdict.saves, verdict.versions, verdict.operations), (300, 300, 0));
    for sound in [Check::Sequence, Check::Chain, Check::Effect, Check::RealTime] {
        assert_eq!(verdict.count(sound), 0, "{sound}: {:#?}", verdict.findings);
    }
}

/// The negative control: the same engine over a store that forgot to compare the version.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_compares_no_version_loses_updates_and_the_checker_says_so() {
    const NO_COMPARE: &str = "-- name: advance_optimistic\n\
        UPDATE fl_scope SET version = version + ?3\n\
        WHERE entity = ?1 AND scope = ?2 AND ?4 IS NOT NULL AND holder IS NULL\n\
        RETURNING version;";
    let folder = tempfile::tempdir().unwrap();
    let race =
        Race { editors: 12, fields: 1, workers: 0, records: 1, saves: 600, ..Race::default() };

    let run = engine_with(&race, &folder, NO_COMPARE).await;

    assert!(run.verdict.count(Check::LostUpdate) > 0, "{:?}", run.verdict.counts);
}

#[cfg(feature = "cli")]
#[test]
fn the_command_prints_both_runs_and_calls_a_tame_race_inconclusive() {
    let race = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_fieldlease"));
        let output =
            command.args(["race", "--json", "--seed", "7"]).args(arguments).output().unwrap();
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), json)
    };

    let (exit, reaction) = race(&["--reaction"]);

    assert_eq!((exit, &reaction["seed"]), (Some(0), &serde_json::json!(7)));
    for (run, versions, operations) in [("naive", 7, 0), ("engine", 1, 6)] {
        let counted = &reaction[run];
        assert_eq!((&counted["saves"], &counted["false_conflicts"]), (&7.into(), &0.into()));
        assert_eq!(
            (&counted["versions"], &counted["operations"]),
            (&versions.into(), &operations.into())
        );
        assert_eq!(counted["lost_updates"] == 0, run == "engine");
        assert!(counted["saves_per_s"].as_u64().is_some());
    }

    let (exit, tame) = race(&["--editors", "1", "--workers", "0", "--saves", "5"]);
    assert_eq!((exit, &tame["naive"]["lost_updates"]), (Some(11), &0.into()));
}
