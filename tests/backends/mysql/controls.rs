//! Procedures that lack a comparison: what it is there for.
//!
//! A control is a file that names a procedure and says which of its text stands in place of which; everything else stays
//! as it ships. The suite, or a race, must notice.

use std::sync::Arc;

use fieldlease::testing::{
    key_suite,
    store_suite::{self, Stores},
};

use mysql_async::{Conn, prelude::Queryable};

use super::database;
use crate::servers::Database;

const ROUTINES: [&str; 4] = [
    include_str!("../../../schemas/sql/mysql/0002_keys.sql"),
    include_str!("../../../schemas/sql/mysql/0003_routines.sql"),
    include_str!("../../../schemas/sql/mysql/0004_upkeep.sql"),
    include_str!("../../../schemas/sql/mysql/0005_queue.sql"),
];

/// Puts the procedure of a control in place of ours.
pub(super) async fn put(database: &Database<'_>, control: &str) {
    let (_, rest) = control.split_once("-- procedure:").unwrap();
    let mut parts = rest.split("-- instead of:");
    let name = parts.next().unwrap().trim();
    let mut text = routine(name);
    for part in parts {
        let (ours, theirs) = part.split_once("-- stands:").unwrap();
        assert!(text.contains(ours.trim()), "`{name}` does not say any more: {ours}");
        text = text.replace(ours.trim(), theirs.trim());
    }
    let mut conn = Conn::from_url(database.url()).await.unwrap();
    for statement in [
        "SET SESSION sql_mode = 'STRICT_ALL_TABLES'",
        "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
        &format!("DROP PROCEDURE {name}"),
        &text,
    ] {
        conn.query_drop(statement).await.unwrap();
    }
    conn.disconnect().await.unwrap();
}

/// The statement that makes a procedure.
fn routine(name: &str) -> String {
    let head = format!("CREATE PROCEDURE IF NOT EXISTS {name}(");
    let file = ROUTINES.iter().find(|file| file.contains(&head)).unwrap();
    let (_, rest) = file.split_once(&head).unwrap();
    let (body, _) = rest.split_once("\nEND //").unwrap();
    format!("{head}{body}\nEND")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_suite_notices_every_comparison_that_is_missing() {
    let controls: [(&str, &[&str]); 7] = [
        (
            include_str!("../unfenced_mysql/no_claim_compared.sql"),
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
            include_str!("../unfenced_mysql/no_holder_compared.sql"),
            &["a_token_alone_or_a_fence_alone_does_not_write"],
        ),
        (
            include_str!("../unfenced_mysql/fence_at_most.sql"),
            &["a_token_alone_or_a_fence_alone_does_not_write"],
        ),
        (
            include_str!("../unfenced_mysql/no_entity_fence.sql"),
            &["a_whole_claim_voids_the_claims_of_split_scopes"],
        ),
        (
            include_str!("../unfenced_mysql/no_version_compared.sql"),
            &[
                "a_missing_scope_row_is_version_0_and_losing_its_insert_is_stale",
                "a_stale_save_names_every_stale_scope_and_changes_nothing",
                "twelve_writers_of_two_groups_lose_nothing",
            ],
        ),
        (
            include_str!("../unfenced_mysql/no_free_scope.sql"),
            &["an_optimistic_save_is_refused_where_somebody_holds_the_scope"],
        ),
        (
            include_str!("../unfenced_mysql/stamps_stay.sql"),
            &["stamps_of_a_removed_item_go_with_it"],
        ),
    ];

    for (text, wanted) in controls {
        let what = text.lines().next().unwrap();
        let (database, store) = database::fresh().await;
        put(&database, text).await;
        let fresh = || {
            database::empty(&database);
            Stores::of(Arc::clone(&store))
        };
        let cases = store_suite::cases();
        let cases: Vec<_> = cases.into_iter().filter(|case| wanted.contains(&case.name)).collect();
        assert_eq!(cases.len(), wanted.len(), "a case of {what} has another name now");

        let failing = store_suite::failures(cases, fresh).await;

        let failing: Vec<_> = failing.into_iter().map(|(name, _)| name).collect();
        assert_eq!(failing.len(), wanted.len(), "{what} Only these notice: {failing:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_suite_of_keys_notices_every_comparison_that_is_missing() {
    let controls: [(&str, &[&str]); 5] = [
        (
            include_str!("../unfenced_mysql/keys_no_owner.sql"),
            &["only_the_attempt_itself_renews_and_finishes"],
        ),
        (
            include_str!("../unfenced_mysql/keys_no_number.sql"),
            &["only_the_attempt_itself_renews_and_finishes"],
        ),
        (
            include_str!("../unfenced_mysql/keys_end_twice.sql"),
            &["an_attempt_that_ended_renews_and_finishes_nothing"],
        ),
        (
            include_str!("../unfenced_mysql/keys_forget_the_hash.sql"),
            &["another_hash_is_a_mismatch_in_every_state_and_changes_nothing"],
        ),
        (
            include_str!("../unfenced_mysql/keys_swept_early.sql"),
            &["sweeping_removes_what_expired_long_ago_and_nothing_else"],
        ),
    ];

    for (text, wanted) in controls {
        let what = text.lines().next().unwrap();
        let (database, store) = database::fresh().await;
        put(&database, text).await;
        let cases = key_suite::cases();
        let cases: Vec<_> = cases.into_iter().filter(|case| wanted.contains(&case.name)).collect();
        assert_eq!(cases.len(), wanted.len(), "a case of {what} has another name now");

        let failing = key_suite::failures(cases, || super::rig(&database, &store)).await;

        let failing: Vec<_> = failing.into_iter().map(|(name, _)| name).collect();
        assert_eq!(failing.len(), wanted.len(), "{what} Only these notice: {failing:?}");
    }
}

/// Drivers and proxies count affected rows as they like.
#[test]
fn no_procedure_looks_at_numbers_of_affected_rows() {
    for file in ROUTINES {
        assert!(!file.to_uppercase().contains("ROW_COUNT") && !file.contains("FOUND_ROWS"));
    }
}
