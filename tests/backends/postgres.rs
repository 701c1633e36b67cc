//! The suites on PostgreSQL: in both forms of statements, through a pooler, as a role with the least rights, and with
//! routines that lack a comparison.

use std::{sync::Arc, time::Duration};

use fieldlease::{
    database::postgres::{Pooler, PostgresOptions},
    store::postgres::PostgresStore,
    testing::{
        key_suite::{self, Advance, Rig},
        store_suite::{self, Stores},
    },
};

use crate::servers::{self, Database, DatabaseServer, Dialect};

const EMPTY: &str = "TRUNCATE fl_entity, fl_scope, fl_registry, fl_operation, fl_key";
const MIGRATIONS: [&str; 6] = [
    include_str!("../../schemas/sql/postgres/0001_init.sql"),
    include_str!("../../schemas/sql/postgres/0002_keys.sql"),
    include_str!("../../schemas/sql/postgres/0003_record.sql"),
    include_str!("../../schemas/sql/postgres/0008_guard.sql"),
    include_str!("../../schemas/sql/postgres/0010_lease.sql"),
    include_str!("../../schemas/sql/postgres/0011_mapped.sql"),
];
const SERVICE_ROLE: &str = include_str!("../../schemas/sql/postgres_service_role.sql");

pub(crate) fn options(url: &str, pooler: Pooler) -> PostgresOptions {
    PostgresOptions::new(url).unwrap().pooler(pooler).connections(12)
}

/// A store whose tables were made by its own role.
pub(crate) async fn store(url: &str, pooler: Pooler) -> Arc<PostgresStore> {
    Arc::new(PostgresStore::connect_and_migrate(options(url, pooler)).await.unwrap())
}

/// Time passes for keys when their rows grow older.
fn advancing(database: &Database<'static>) -> Advance {
    let (server, name) = (database.server, database.name.clone());
    Arc::new(move |time: Duration| {
        let us = time.as_micros();
        Database { server, name: name.clone() }.sql(&format!(
            "UPDATE fl_key SET until_at = until_at - {us} * interval '1 microsecond',
                 created_at = created_at - {us} * interval '1 microsecond'"
        ));
        Box::pin(async { Ok(()) })
    })
}

async fn failures(
    database: &Database<'static>,
    store: Arc<PostgresStore>,
) -> Vec<(&'static str, String)> {
    let fresh = || {
        database.sql(EMPTY);
        Stores::of(store.clone())
    };
    let mut failures = store_suite::failures(store_suite::cases(), fresh).await;
    let rig = || {
        database.sql(EMPTY);
        Rig::of(store.clone()).advancing(advancing(database))
    };
    failures.extend(key_suite::failures(key_suite::cases(), rig).await);
    failures
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_keeps_every_promise_with_typed_statements() {
    let database = Database::new(Dialect::Postgres);
    let store = store(&database.url(), Pooler::Transaction).await;

    assert_eq!(failures(&database, store).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_keeps_every_promise_with_prepared_statements_in_a_schema_of_its_own() {
    let database = Database::new(Dialect::Postgres);
    database.sql("CREATE SCHEMA \"pim data\" AUTHORIZATION fl");
    database.sql(&format!(
        "ALTER ROLE postgres IN DATABASE {} SET search_path = \"pim data\"",
        database.name
    ));
    let options = options(&database.url(), Pooler::None).schema("pim data");
    let store = Arc::new(PostgresStore::connect_and_migrate(options).await.unwrap());

    assert_eq!(failures(&database, store).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_behind_a_pooler_keeps_every_promise_to_a_role_with_the_least_rights() {
    let database = Database::new(Dialect::Postgres);
    for file in MIGRATIONS {
        database.sql(file);
    }
    database.sql(&SERVICE_ROLE.replace(":\"role\"", servers::database::USER));
    database.sql("REVOKE ALL ON SCHEMA public FROM PUBLIC; GRANT USAGE ON SCHEMA public TO fl");
    database.sql(&format!("ALTER DATABASE {} OWNER TO postgres", database.name));
    let pooler = servers::Pooler::start(database.server, &[("default_pool_size", "3")]);
    let options = options(&pooler.url(&database), Pooler::Transaction);
    let store = Arc::new(PostgresStore::connect(options.clone()).await.unwrap());

    assert_eq!(failures(&database, store).await, []);
    let error = PostgresStore::migrate(options).await;
    assert_eq!(error.unwrap(), Vec::<&str>::new(), "applying by hand entered every file");
}

/// The shipped routines with one text in place of another, as often as a file of `unfenced_postgres` says; all in one
/// file of routines.
fn without(file: &str) -> String {
    let edits = file.split("-- instead of:\n").skip(1);
    let edits = edits.map(|edit| edit.split_once("-- this:\n").unwrap());
    let mut edits =
        edits.map(|(old, new)| (old.trim_end_matches('\n'), new.trim_end_matches('\n')));
    let once = |text: &str, old: &str| text.matches(old).count() == 1;
    let (first, new) = edits.next().unwrap();
    let found = MIGRATIONS.iter().find(|text| once(text, first));
    let found = found.unwrap_or_else(|| panic!("not once in the routines: {first}"));
    let changed = edits.fold(found.replace(first, new), |text, (old, new)| {
        assert!(once(&text, old), "not once in the routines: {old}");
        text.replace(old, new)
    });
    let body = changed.split("-- fieldlease: entered").next().unwrap().to_owned();
    body.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")
}

/// Each file leaves one comparison or lock out; the suite must notice, in the case that is about it.
#[tokio::test(flavor = "multi_thread")]
async fn the_suite_notices_every_comparison_and_lock_that_is_missing_on_postgres() {
    let controls: [(&str, &str, &[&str]); 8] = [
        (
            "the fence is equal, not lower",
            include_str!("unfenced_postgres/fence_at_most.sql"),
            &["a_token_alone_or_a_fence_alone_does_not_write"],
        ),
        (
            "the holder",
            include_str!("unfenced_postgres/no_holder_compared.sql"),
            &["a_token_alone_or_a_fence_alone_does_not_write"],
        ),
        (
            "fence and holder",
            include_str!("unfenced_postgres/no_claim_compared.sql"),
            &[
                "a_holder_cannot_write_in_the_instant_before_its_successors_first_write",
                "a_late_claim_displaces_the_live_holder_who_claims_again_and_sends_the_same",
                "a_fence_of_ones_own_former_claim_does_not_write",
                "a_token_alone_or_a_fence_alone_does_not_write",
                "one_lost_scope_of_two_refuses_the_whole_save",
            ],
        ),
        (
            "the entity fence",
            include_str!("unfenced_postgres/no_entity_fence.sql"),
            &["a_whole_claim_voids_the_claims_of_split_scopes"],
        ),
        (
            "nobody holds an optimistic scope",
            include_str!("unfenced_postgres/no_free_scope.sql"),
            &["an_optimistic_save_is_refused_where_somebody_holds_the_scope"],
        ),
        (
            "the version",
            include_str!("unfenced_postgres/no_version_compared.sql"),
            &[
                "a_missing_scope_row_is_version_0_and_losing_its_insert_is_stale",
                "a_stale_save_names_every_stale_scope_and_changes_nothing",
                "twelve_writers_of_two_groups_lose_nothing",
            ],
        ),
        (
            "the stamps of removed items",
            include_str!("unfenced_postgres/stamps_stay.sql"),
            &["stamps_of_a_removed_item_go_with_it"],
        ),
        (
            "the lock of the record",
            include_str!("unfenced_postgres/unlocked.sql"),
            &["twelve_writers_of_two_groups_lose_nothing"],
        ),
    ];

    for (what, text, wanted) in controls {
        let database = Database::new(Dialect::Postgres);
        let store = store(&database.url(), Pooler::None).await;
        database.sql(&without(text));
        let cases = store_suite::cases();
        let cases: Vec<_> = cases.into_iter().filter(|case| wanted.contains(&case.name)).collect();
        assert_eq!(cases.len(), wanted.len(), "a case of {what} has another name now");
        let fresh = || {
            database.sql(EMPTY);
            Stores::of(store.clone())
        };

        let failing = store_suite::failures(cases, fresh).await;

        let failing: Vec<_> = failing.into_iter().map(|(name, _)| name).collect();
        assert_eq!(failing.len(), wanted.len(), "without {what} only these notice: {failing:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_suite_of_keys_notices_what_is_missing_on_postgres() {
    let controls = [
        (
            "an answer for every loser of a race",
            include_str!("unfenced_postgres/key_guarded_upsert.sql"),
        ),
        ("a refused save leaves no key", include_str!("unfenced_postgres/key_stays.sql")),
        ("the hash before everything else", include_str!("unfenced_postgres/key_no_hash.sql")),
    ];

    for (what, text) in controls {
        let database = Database::new(Dialect::Postgres);
        let store = store(&database.url(), Pooler::None).await;
        let text = if text.contains("-- instead of:") { without(text) } else { text.to_owned() };
        database.sql(&text);
        let rig = || {
            database.sql(EMPTY);
            Rig::of(store.clone()).advancing(advancing(&database))
        };

        let failing = key_suite::failures(key_suite::cases(), rig).await;

        assert_ne!(failing, [], "nothing notices that {what} is missing");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_our_tables_or_without_rights_says_what_to_do() {
    let server = DatabaseServer::shared(Dialect::Postgres);
    let database = server.database();
    let code = |url: &str| {
        let options = options(url, Pooler::Transaction);
        async move { PostgresStore::connect(options).await.err().map(|error| error.code()) }
    };

    assert_eq!(code(&database.url()).await, Some("no_schema"));
    assert_eq!(code(&database.url_as("nobody", None, server.port())).await, Some("denied"));
    store(&database.url(), Pooler::Transaction).await;
    assert_eq!(code(&database.url()).await, None);
    database.sql("UPDATE fl_migration SET checksum = '\\x00' WHERE number = 2");
    assert_eq!(code(&database.url()).await, Some("changed_schema"));
    database.sql("DELETE FROM fl_migration WHERE number = 2");
    database.sql("INSERT INTO fl_migration (number, name, checksum) VALUES (99, 'later', '\\x00')");
    assert_eq!(code(&database.url()).await, Some("newer_schema"));
}

/// One text is replaced in the text of an object: a path that contains it must stay what it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_looks_like_a_stamp_gets_one_as_every_other_does_on_postgres() {
    let database = Database::new(Dialect::Postgres);
    store(&database.url(), Pooler::Transaction).await;

    let wrong = database.number(
        r#"SELECT count(*) FROM (VALUES ('~'), ('a: "~"'), ('": "~"'), ('a\": \"~\"'), (': '), ('~", ": "~'), ('%1$s')) AS p (path)
           CROSS JOIN (VALUES ('z'), (': "~"'), ('": "')) AS q (path)
           WHERE fl_stamped(ARRAY[p.path, q.path], '["w: \"~\"", null]')
              IS DISTINCT FROM jsonb_build_object(p.path, '["w: \"~\"", null]'::jsonb, q.path, '["w: \"~\"", null]'::jsonb)"#,
    );

    assert_eq!(wrong, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_who_migrate_at_once_do_it_one_after_the_other() {
    let database = Database::new(Dialect::Postgres);
    let migrate = || PostgresStore::migrate(options(&database.url(), Pooler::Transaction));

    let (one, other) = tokio::join!(migrate(), migrate());

    assert_eq!(one.unwrap().len() + other.unwrap().len(), MIGRATIONS.len());
}
