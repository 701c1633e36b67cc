//! The server itself: its schema, its rights, its settings, its faults.

use std::sync::Arc;

use fieldlease::{
    commit::{Committed, Notice, Refusal},
    database::finding::Level,
    error::Error,
    path::{Path, Pattern},
    queue::{Outbox, QueueStore},
    registry::covers,
    store::{
        RecordStore,
        mysql::{MysqlGuard, MysqlOptions, MysqlStore},
    },
    testing::store_suite::{self, Stores},
    upkeep::{Erase, EraseAsk, UpkeepStore},
};
use mysql_async::prelude::Queryable;
use serde_json::json;

use super::{database, races::transaction, save::*};
use crate::servers::{Certificates, Database, DatabaseSetup, Dialect};

fn code<T>(result: Result<T, Error>) -> &'static str {
    result.err().map_or("", |error| error.code())
}

/// What there is of ours in a database, as the server tells it.
fn schema(database: &Database<'_>) -> Vec<String> {
    let mut texts = Vec::new();
    for table in database.rows("SHOW TABLES LIKE 'fl\\_%'").concat() {
        texts.push(database.sql(&format!("SHOW CREATE TABLE {table}")));
    }
    texts.push(database.sql(
        "SELECT routine_name, sql_mode, security_type, collation_connection, routine_definition \
         FROM information_schema.routines WHERE routine_schema = DATABASE() ORDER BY routine_name",
    ));
    texts
        .push(database.sql("SELECT number, name, HEX(checksum) FROM fl_migration ORDER BY number"));
    texts
}

/// Line by line, without comments: the client takes them out.
fn lines_of(texts: &[String]) -> Vec<String> {
    // The client of this server writes a line end of a text as two characters.
    let text = texts.join("\n").replace("\\n", "\n");
    let lines = text.lines().map(|line| line.split("--").next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_and_the_library_apply_the_same_files_and_leave_the_same() {
    let by_hand = Database::new(Dialect::MariaDb);
    let mut client = by_hand.session();
    for file in MysqlStore::migrations() {
        let answer = client.run(file.sql);
        assert_eq!(answer, "", "the client said something about {}", file.name);
    }
    let (by_library, _store) = database::fresh().await;

    let (hand, library) = (lines_of(&schema(&by_hand)), lines_of(&schema(&by_library)));
    for (by_hand, by_library) in hand.iter().zip(&library) {
        assert_eq!(by_hand, by_library);
    }
    assert_eq!(hand.len(), library.len());
    assert_eq!(MysqlStore::outstanding(database::options(&by_hand)).await.unwrap(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_that_broke_off_is_taken_up_again() {
    let database = Database::new(Dialect::MariaDb);
    let (begun, _) =
        MysqlStore::migrations()[0].sql.split_once("CREATE TABLE IF NOT EXISTS fl_stamp").unwrap();
    database.session().run(begun);
    assert_eq!(code(MysqlStore::connect(database::options(&database)).await), "no_schema");

    let names = MysqlStore::migrate(database::options(&database)).await.unwrap();

    assert_eq!(names[..3], ["init", "keys", "routines"]);
    assert_eq!(MysqlStore::migrate(database::options(&database)).await.unwrap(), [""; 0]);
    let store = MysqlStore::connect(database::options(&database)).await.unwrap();
    made(&store, "1", &[("editor.name", json!("a"))]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_that_migrate_at_once_are_safe() {
    let database = Database::new(Dialect::MariaDb);
    let mut programs = tokio::task::JoinSet::new();
    for _ in 0..4 {
        programs.spawn(MysqlStore::migrate(database::options(&database)));
    }

    for names in programs.join_all().await {
        names.unwrap();
    }
    assert!(MysqlStore::connect(database::options(&database)).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_of_another_version_is_not_used() {
    let (database, _store) = database::fresh().await;
    let connect = || async { code(MysqlStore::connect(database::options(&database)).await) };

    database.sql("INSERT INTO fl_migration VALUES (99, 'later', REPEAT('x', 32), 0)");
    assert_eq!(connect().await, "newer_schema");
    database.sql("DELETE FROM fl_migration WHERE number = 99");
    database.sql("UPDATE fl_migration SET checksum = REPEAT('x', 32) WHERE number = 1");
    assert_eq!(connect().await, "changed_schema");
    database.sql("DELETE FROM fl_migration WHERE number = 1");
    assert_eq!(connect().await, "no_schema");
}

/// The rights are those the book lists.
#[tokio::test(flavor = "multi_thread")]
async fn an_account_with_the_listed_rights_can_do_everything_but_migrate() {
    let (database, _store) = database::fresh().await;
    let book = include_str!("../../../docs/backends/mysql.md");
    let grants = |mark: &str| {
        let (_, list) = book.split_once(&format!("<!-- {mark} -->\n\n```sql\n")).unwrap();
        let (list, _) = list.split_once("```").unwrap();
        list.replace("cms.", &format!("{}.", database.name))
            .replace("'app'@'%'", "'app'@'127.0.0.1'")
    };
    database.sql(
        "DROP USER IF EXISTS 'app'@'127.0.0.1'; CREATE USER 'app'@'127.0.0.1' IDENTIFIED BY 'p'",
    );
    database.sql(&grants("rights"));
    let url = database.url_as("app", Some("p"), database.server.port());
    let options = || MysqlOptions::new(&url).unwrap().connections(16);
    let store = Arc::new(MysqlStore::connect(options()).await.unwrap());
    let fresh = || {
        database::empty(&database);
        Stores::of(store.clone())
    };

    assert_eq!(store_suite::failures(store_suite::cases(), fresh).await, []);
    let findings = MysqlStore::checks(options()).await.unwrap();
    assert!(findings.iter().all(|finding| finding.level < Level::Refuse), "{findings:?}");
    let mut conn = mysql_async::Conn::from_url(&url).await.unwrap();
    assert!(conn.query_drop("DELETE FROM fl_operation").await.is_err());
    assert!(conn.query_drop("UPDATE fl_version SET number = 1").await.is_err());
    conn.disconnect().await.unwrap();
    // Waiting saves and events too, and nothing that takes history away.
    database::empty(&database);
    let before = made(&store, "9", &[("editor.name", json!("a"))]).await;
    assert!(store.ready(0, 1).await.unwrap().is_empty());
    let notice = Notice { kind: "requeue".to_owned(), body: json!({}) };
    store.tell(&before.entity, operation(), &[notice]).await.unwrap();
    assert_eq!(store.pull(0, 9).await.unwrap().len(), 1);
    let forget = EraseAsk {
        what: Erase::Entity(before.entity.clone()),
        by: "dpo".to_owned(),
        reason: "asked for".to_owned(),
        dry_run: false,
    };
    assert_eq!(code(store.erase(&forget).await), "denied");
    database.sql(&grants("upkeep rights"));
    let second = Arc::new(MysqlStore::connect(options()).await.unwrap());
    assert_eq!(second.erase(&forget).await.unwrap().map(|erased| erased.saves), Some(1));
    database.sql("DELETE FROM fl_migration WHERE number = 3");
    assert_eq!(code(MysqlStore::migrate(options()).await), "denied");
    let wrong = database.url_as("app", Some("wrong"), database.server.port());
    assert_eq!(code(MysqlStore::connect(MysqlOptions::new(&wrong).unwrap()).await), "denied");
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_find_what_is_wrong_with_a_server() {
    let server = DatabaseSetup::new(Dialect::MariaDb)
        .setting("max_allowed_packet", "1M")
        .setting("log_bin", "log")
        .setting("binlog_format", "STATEMENT")
        .setting("wait_timeout", "20")
        .start();
    let database = server.database();
    let codes = || async {
        let findings = MysqlStore::checks(database::options(&database)).await.unwrap();
        findings.into_iter().map(|finding| finding.code).collect::<Vec<_>>()
    };
    assert!(codes().await.contains(&"no_schema"));
    server.set("binlog_format", "'MIXED'");
    MysqlStore::migrate(database::options(&database)).await.unwrap();
    server.set("binlog_format", "'STATEMENT'");

    let found = codes().await;
    for wanted in ["binlog_format", "flush_log", "max_allowed_packet", "wait_timeout"] {
        assert!(found.contains(&wanted), "{wanted} is not among {found:?}");
    }
    server.set("binlog_format", "'ROW'");
    server.set("read_only", "1");
    let found = codes().await;
    assert_eq!(found[0], "read_only");
    assert!(!found.contains(&"binlog_format") && !found.contains(&"denied"), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_may_only_be_read_takes_no_save_and_is_read() {
    let server = DatabaseSetup::new(Dialect::MariaDb).start();
    let database = server.database();
    let store = database::store(&database).await;
    let before = made(&store, "1", &[("price.sum", json!(0))]).await;
    server.set("read_only", "1");

    let error = store.commit(&save(&before, &worker(), &[("price.sum", json!(1))])).await;

    assert_eq!(code(error), "unavailable");
    seen(&store, "1").await;
    server.set("read_only", "0");
    applied(&store, &save(&before, &worker(), &[("price.sum", json!(1))])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_killed_is_found_again_with_every_answered_save() {
    let server = DatabaseSetup::new(Dialect::MariaDb).start();
    let database = server.database();
    let store = database::store(&database).await;
    let before = made(&store, "1", &[("price.sum", json!(0))]).await;
    applied(&store, &save(&before, &worker(), &[("price.sum", json!(1))])).await;

    server.kill();
    assert_eq!(code(store.load(&product("1")).await), "unavailable");
    server.restart();

    let after = seen(&store, "1").await;
    assert_eq!(after.version(&scope("price")), before.version(&scope("price")).next());
    applied(&store, &save(&after, &worker(), &[("price.sum", json!(2))])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_larger_than_a_packet_says_which_setting_to_raise() {
    let server = DatabaseSetup::new(Dialect::MariaDb).setting("max_allowed_packet", "1M").start();
    let database = server.database();
    let store = database::store(&database).await;
    let before = made(&store, "1", &[("media.text", json!("small"))]).await;

    let large = save(&before, &worker(), &[("media.text", json!("x".repeat(3 << 20)))]);
    let error = store.commit(&large).await.unwrap_err();

    let Error::Invalid { code, help, .. } = error else { panic!("{error:?}") };
    assert_eq!(code, "too_large");
    assert!(help.contains("max_allowed_packet"), "{help}");
    let fits = save(&before, &worker(), &[("media.text", json!("x".repeat(100_000)))]);
    applied(&store, &fits).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_checked_and_never_left_out() {
    let certificates = Certificates::make();
    let server = DatabaseSetup::new(Dialect::MariaDb).tls(&certificates, "server", false).start();
    let database = server.database();
    let url = |scheme: &str, ca: &str| {
        let plain = database.url().replace("mysql://", scheme);
        let ca = if ca.is_empty() {
            String::new()
        } else {
            format!("?ca={}", certificates.path(ca).display())
        };
        MysqlOptions::new(&format!("{plain}{ca}")).unwrap()
    };

    MysqlStore::migrate(url("mysqls://", "ca.crt")).await.unwrap();
    let store = Arc::new(MysqlStore::connect(url("mysqls://", "ca.crt")).await.unwrap());
    made(&store, "1", &[("editor.name", json!("a"))]).await;

    let refused = MysqlStore::connect(url("mysqls://", "server.crt")).await;
    assert_eq!(code(refused), "unavailable");
    assert_ne!(code(MysqlStore::connect(url("mysql://", "")).await), "");
    // A server without TLS is not spoken to in plain text.
    let plain = Database::new(Dialect::MariaDb);
    let asked = format!(
        "{}?ca={}",
        plain.url().replace("mysql://", "mysqls://"),
        certificates.path("ca.crt").display()
    );
    assert_ne!(code(MysqlStore::connect(MysqlOptions::new(&asked).unwrap()).await), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_in_a_callers_transaction_sees_the_present_and_leaves_the_callers_work_alone() {
    let (database, store) = database::fresh().await;
    let before = made(&store, "1", &[("price.sum", json!(0)), ("stock.sum", json!(0))]).await;
    database.sql("CREATE TABLE cms (id INT PRIMARY KEY)");
    let guard = MysqlGuard::new().unwrap();
    // The snapshot of the transaction is taken before another save.
    let mut conn = transaction(&database, "REPEATABLE READ").await;
    conn.query_drop("SET SESSION group_concat_max_len = 4").await.unwrap();
    let _snapshot: Option<u64> = conn.query_first("SELECT COUNT(*) FROM fl_scope").await.unwrap();
    applied(&store, &save(&before, &worker(), &[("price.sum", json!(1))])).await;
    conn.query_drop("INSERT INTO cms VALUES (1)").await.unwrap();

    let both = [("price.sum", json!(5)), ("stock.sum", json!(5))];
    let stale = guard.commit_in(&mut conn, &save(&before, &worker(), &both)).await.unwrap();
    let good = save(&before, &worker(), &[("stock.sum", json!(7))]);
    let answer = guard.commit_in(&mut conn, &good).await.unwrap();
    let limit: Option<u64> = conn.query_first("SELECT @@group_concat_max_len").await.unwrap();
    conn.query_drop("COMMIT").await.unwrap();

    assert_eq!(stale, Committed::Refused(Refusal::Stale(vec![scope("price")])));
    assert!(matches!(answer, Committed::Applied { .. }), "{answer:?}");
    assert_eq!(limit, Some(4));
    assert_eq!(database.number("SELECT COUNT(*) FROM cms"), 1);
    let after = seen(&store, "1").await.record;
    let sums = ["price.sum", "stock.sum"].map(|text| after.get(&path(text)).json().cloned());
    assert_eq!(sums, [Some(json!(1)), Some(json!(7))]);

    let mut rolled_back = transaction(&database, "REPEATABLE READ").await;
    let undone = save(&seen(&store, "1").await, &worker(), &[("stock.sum", json!(8))]);
    guard.commit_in(&mut rolled_back, &undone).await.unwrap();
    rolled_back.query_drop("ROLLBACK").await.unwrap();
    assert_eq!(store.resolve(undone.operation).await.unwrap(), None);
    let error = guard.commit_in(&mut rolled_back, &undone).await;
    assert_eq!(code(error), "no_transaction");
}

/// Open patterns are compared inside the procedure, as regular expressions.
#[tokio::test(flavor = "multi_thread")]
async fn patterns_cover_in_the_procedure_what_they_cover_here() {
    let (_database, store) = database::fresh().await;
    let patterns = [
        "gallery.*.file",
        "gallery.a*",
        "gallery.**",
        "gallery.#keys",
        "name@locale",
        "name@locale=de*",
        "name@channel=web+locale",
        "**",
        "*@locale=de",
        r"a\.b.c",
        "x*.y",
        "g.*.file",
    ];
    let paths = [
        "gallery",
        "gallery.a.file",
        "gallery.ab",
        "gallery.b.file.size",
        "gallery.b.files",
        "gallery.#keys",
        "gallery.b.#order",
        "gallery2.a.file",
        "name",
        "name@locale=de",
        "name@locale=de_AT",
        "name@locale=en",
        "name@channel=web+locale=de",
        r"name@channel=web\+locale\=de",
        "names@locale=de",
        r"a\.b.c",
        "a.b.c",
        "x.y",
        "xx.y.z",
        r"x\.y",
        "g.\u{1f980}.file",
    ];

    let named = path("editor.name");
    for (index, text) in paths.iter().enumerate() {
        let id = index.to_string();
        made(&store, &id, &[("editor.name", json!("a")), (text, json!(1))]).await;
        for pattern in patterns {
            let open = Pattern::parse(pattern).unwrap();
            let now = seen(&store, &id).await;
            let mut commit = save(&now, &worker(), &[("derived.value", json!(pattern))]);
            commit.input_patterns = vec![open.clone()];
            commit.inputs = [(named.clone(), now.stamps.get(&named).map(|at| at.operation))].into();

            let answer = store.commit(&commit).await.unwrap();

            let others = now.stamps.keys().filter(|path| **path != named && covers(&open, path));
            let moved: Vec<Path> = others.cloned().collect();
            match answer {
                Committed::Applied { .. } => assert_eq!(moved, [], "{pattern} and {text}"),
                answer => {
                    let refused = Committed::Refused(Refusal::InputMoved(moved));
                    assert_eq!(answer, refused, "{pattern} and {text}");
                }
            }
        }
    }
}
