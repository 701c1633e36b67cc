//! The suite of keys on SQLite: in memory, in a file, and with statements that lack a predicate.

use std::{sync::Arc, time::Duration};

use fieldlease::{
    store::sqlite::{SqliteOptions, SqliteStore, Statements},
    testing::{
        ManualClock,
        key_suite::{self, Advance, Rig},
    },
};

fn advancing(clock: &Arc<ManualClock>) -> Advance {
    let clock = clock.clone();
    Arc::new(move |time: Duration| {
        clock.jump(time);
        Box::pin(async { Ok(()) })
    })
}

fn in_memory(options: impl Fn(SqliteOptions) -> SqliteOptions) -> Rig {
    let clock = Arc::new(ManualClock::new());
    let options = options(SqliteOptions::default().clock(clock.clone()));
    let store = SqliteStore::open_in_memory_with(options).unwrap();
    Rig::of(Arc::new(store)).advancing(advancing(&clock))
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_in_memory_keeps_every_promise_about_keys() {
    let failures = key_suite::failures(key_suite::cases(), || in_memory(|options| options)).await;

    assert_eq!(failures, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_in_a_file_keeps_every_promise_about_keys() {
    let directory = tempfile::tempdir().unwrap();
    let mut number = 0;
    let fresh = || {
        number += 1;
        let clock = Arc::new(ManualClock::new());
        let options = SqliteOptions::default().clock(clock.clone());
        let store = SqliteStore::open_with(directory.path().join(format!("{number}.db")), options);
        Rig::of(Arc::new(store.unwrap())).advancing(advancing(&clock))
    };

    assert_eq!(key_suite::failures(key_suite::cases(), fresh).await, []);
}

/// Each file leaves one comparison out; the suite must notice, in the case that is about it.
#[tokio::test(flavor = "multi_thread")]
async fn the_suite_of_keys_notices_every_comparison_that_is_missing() {
    let controls: [(&str, &str, &[&str]); 8] = [
        (
            "the owner of a finish",
            include_str!("unfenced/keys_no_owner.sql"),
            &["only_the_attempt_itself_renews_and_finishes"],
        ),
        (
            "the number of a finish",
            include_str!("unfenced/keys_no_number.sql"),
            &["only_the_attempt_itself_renews_and_finishes"],
        ),
        (
            "owner and number of a renewal",
            include_str!("unfenced/keys_renewed_by_anybody.sql"),
            &[
                "only_the_attempt_itself_renews_and_finishes",
                "random_histories_are_answered_as_the_rules_say",
            ],
        ),
        (
            "owner and number of a release",
            include_str!("unfenced/keys_released_by_anybody.sql"),
            &[
                "only_the_attempt_itself_renews_and_finishes",
                "an_expired_end_is_forgotten_and_attempts_count_on",
            ],
        ),
        (
            "a finish is of a pending attempt",
            include_str!("unfenced/keys_end_twice.sql"),
            &["an_attempt_that_ended_renews_and_finishes_nothing"],
        ),
        (
            "the hash is left alone",
            include_str!("unfenced/keys_forget_the_hash.sql"),
            &[
                "a_no_op_is_replayed",
                "another_hash_is_a_mismatch_in_every_state_and_changes_nothing",
            ],
        ),
        (
            "time decides who may finish",
            include_str!("unfenced/keys_time_decides.sql"),
            &[
                "a_lapsed_lease_alone_does_not_stop_its_owner",
                "a_commit_after_its_lease_is_applied_when_nobody_took_over",
            ],
        ),
        (
            "a sweep takes what expired, not what is due",
            include_str!("unfenced/keys_swept_early.sql"),
            &["sweeping_removes_what_expired_long_ago_and_nothing_else"],
        ),
    ];

    for (what, text, wanted) in controls {
        let statements = Statements::with(text).unwrap();
        let fresh = || in_memory(|options| options.statements(statements.clone()));
        let cases = key_suite::cases();
        let cases: Vec<_> = cases.into_iter().filter(|case| wanted.contains(&case.name)).collect();
        assert_eq!(cases.len(), wanted.len(), "a case of {what} has another name now");

        let failing = key_suite::failures(cases, fresh).await;

        let failing: Vec<_> = failing.into_iter().map(|(name, _)| name).collect();
        assert_eq!(failing.len(), wanted.len(), "without {what} only these notice: {failing:?}");
    }
}
