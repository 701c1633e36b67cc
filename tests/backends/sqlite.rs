//! The store suite on SQLite: in memory, in a file, and with statements that lack a predicate.

use std::sync::Arc;

use fieldlease::{
    store::sqlite::{SqliteOptions, SqliteStore, Statements},
    testing::{
        queue_suite,
        store_suite::{self, Stores},
    },
};

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_in_memory_keeps_every_promise() {
    let fresh = || Stores::of(Arc::new(SqliteStore::open_in_memory().unwrap()));

    assert_eq!(store_suite::failures(store_suite::cases(), fresh).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_in_a_file_keeps_every_promise() {
    let directory = tempfile::tempdir().unwrap();
    let mut number = 0;
    let fresh = || {
        number += 1;
        let path = directory.path().join(format!("{number}.db"));
        Stores::of(Arc::new(SqliteStore::open(path).unwrap()))
    };

    assert_eq!(store_suite::failures(store_suite::cases(), fresh).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_keeps_every_promise_about_waiting_saves_and_events() {
    let fresh = || queue_suite::Rig::of(Arc::new(SqliteStore::open_in_memory().unwrap()));

    assert_eq!(queue_suite::failures(queue_suite::cases(), fresh).await, []);
}

/// Each file leaves one comparison out; the suite must notice, in the case that is about it.
#[tokio::test(flavor = "multi_thread")]
async fn the_suite_notices_every_comparison_that_is_missing() {
    let controls: [(&str, &str, &[&str]); 8] = [
        (
            "fence and holder",
            include_str!("unfenced/no_claim_compared.sql"),
            &[
                "a_holder_cannot_write_in_the_instant_before_its_successors_first_write",
                "a_late_claim_displaces_the_live_holder_who_claims_again_and_sends_the_same",
                "a_fence_of_ones_own_former_claim_does_not_write",
                "a_token_alone_or_a_fence_alone_does_not_write",
                "one_lost_scope_of_two_refuses_the_whole_save",
                "a_broken_claim_is_void_and_nobody_holds_the_scope",
            ],
        ),
        (
            "the holder alone",
            include_str!("unfenced/no_holder_compared.sql"),
            &["a_token_alone_or_a_fence_alone_does_not_write"],
        ),
        (
            "the fence is equal, not lower",
            include_str!("unfenced/fence_at_most.sql"),
            &["a_token_alone_or_a_fence_alone_does_not_write"],
        ),
        (
            "the entity fence",
            include_str!("unfenced/no_entity_fence.sql"),
            &["a_whole_claim_voids_the_claims_of_split_scopes"],
        ),
        (
            "the version of an optimistic scope",
            include_str!("unfenced/no_version_compared.sql"),
            &[
                "a_missing_scope_row_is_version_0_and_losing_its_insert_is_stale",
                "a_stale_save_names_every_stale_scope_and_changes_nothing",
                "twelve_writers_of_two_groups_lose_nothing",
            ],
        ),
        (
            "nobody holds an optimistic scope",
            include_str!("unfenced/no_free_scope.sql"),
            &["an_optimistic_save_is_refused_where_somebody_holds_the_scope"],
        ),
        (
            "the stamps of removed items",
            include_str!("unfenced/stamps_stay.sql"),
            &["stamps_of_a_removed_item_go_with_it"],
        ),
        (
            "a base is the first change, not the last",
            include_str!("unfenced/last_change.sql"),
            &["a_base_is_the_value_before_the_first_change_after_the_version"],
        ),
    ];

    for (what, text, wanted) in controls {
        let statements = Statements::with(text).unwrap();
        let fresh = || {
            let options = SqliteOptions::default().statements(statements.clone());
            Stores::of(Arc::new(SqliteStore::open_in_memory_with(options).unwrap()))
        };
        let cases = store_suite::cases();
        let cases: Vec<_> = cases.into_iter().filter(|case| wanted.contains(&case.name)).collect();
        assert_eq!(cases.len(), wanted.len(), "a case of {what} has another name now");

        let failing = store_suite::failures(cases, fresh).await;

        let failing: Vec<_> = failing.into_iter().map(|(name, _)| name).collect();
        assert_eq!(failing.len(), wanted.len(), "without {what} only these notice: {failing:?}");
    }
}
