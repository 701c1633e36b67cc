//! What goes over the wire to PostgreSQL, and what becomes of a save when it breaks.

use std::{sync::Arc, time::Duration};

use fieldlease::{
    commit::{Commit, Committed, Expect, KeyMode, KeyUse},
    database::{
        finding::Level,
        postgres::{Pooler, PostgresOptions},
    },
    entity::Writer,
    idempotency::{BeginAsk, IdempotencyStore},
    key::{HashAlgorithm, JobKey, Key, Owner, RequestHash},
    store::{RecordStore, RegistryStore, postgres::PostgresStore},
};
use serde_json::json;

use crate::{
    postgres::{options, store},
    postgres_race::{claim, made, number, product, save, scope, seen},
    servers::{self, Action, Certificates, Database, DatabaseSetup, Dialect, Proxy, Rule, until},
};

fn key(name: &str) -> Key {
    JobKey::text(name).unwrap().key(&Writer::worker("thumbnailer")).unwrap()
}

fn hash() -> RequestHash {
    RequestHash { algorithm: HashAlgorithm::JcsSha256, bytes: [7; 32] }
}

async fn unread(store: &PostgresStore, text: &str, value: u64) -> Commit {
    save(Some(&seen(store).await), text, &json!(value), Expect::Unread)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_is_one_round_trip_in_both_forms_of_statements() {
    for pooler in [Pooler::Transaction, Pooler::None] {
        let database = Database::new(Dialect::Postgres);
        let proxy = Proxy::before(database.server);
        let options = options(&database.url_on(proxy.port()), pooler).connections(1);
        let store = PostgresStore::connect_and_migrate(options).await.unwrap();
        made(&store).await;
        let mut counts = Vec::new();
        // The first round opens the connection and prepares; the second is counted.
        for round in 0..2 {
            counts.clear();
            let mut count = |what: &'static str| counts.push((what, proxy.round_trips().len()));
            let now = seen(&store).await;
            count("before");
            let (expect, snapshot) = claim(&store, 1).await;
            count("claim and load");
            let commit = save(Some(&snapshot), "media.n", &json!(round + 10), expect);
            assert!(matches!(store.commit(&commit).await.unwrap(), Committed::Applied { .. }));
            count("save");
            let mut once = save(Some(&now), "other.n", &json!(round + 20), Expect::Unread);
            let own = Owner([round as u8 + 1; 16]);
            once.key = Some(KeyUse {
                key: key(&format!("k{round}")),
                hash: hash(),
                mode: KeyMode::Once(own),
                result: "{}".to_owned(),
                retention: Duration::from_secs(60),
                inputs: None,
            });
            assert!(matches!(store.commit(&once).await.unwrap(), Committed::Applied { .. }));
            count("idempotent apply");
            store.resolve(once.operation).await.unwrap();
            count("resolve");
            let ask = BeginAsk {
                key: key(&format!("b{round}")),
                hash: hash(),
                own,
                lease: Duration::from_secs(9),
            };
            store.begin(&ask).await.unwrap();
            count("begin");
            store.active(&product().kind).await.unwrap();
            count("rules");
        }

        let calls = &counts[1..];
        assert!(calls.iter().all(|(_, trips)| *trips == 1), "{pooler:?}: {calls:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn through_a_pooler_no_client_writes_the_field_of_another() {
    const FIELDS: [&str; 3] = ["price.n", "stock.n", "media.n"];
    let database = Database::new(Dialect::Postgres);
    store(&database.url(), Pooler::Transaction).await;
    let pooler = servers::Pooler::start(database.server, &[("default_pool_size", "3")]);
    let store = store(&pooler.url(&database), Pooler::Transaction).await;
    made(&store).await;
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..8_usize {
        let store = store.clone();
        clients.spawn(async move {
            for round in 0..200_usize {
                let text = FIELDS[(client + round) % 3];
                let value = json!(format!("{text} by {client} in {round}"));
                let now = seen(&store).await;
                let commit = save(Some(&now), text, &value, Expect::Unread);
                match store.commit(&commit).await.unwrap() {
                    Committed::Applied { versions, .. } => {
                        let group = text.trim_end_matches(".n");
                        assert_eq!(versions.into_keys().collect::<Vec<_>>(), [scope(group)]);
                    }
                    other => panic!("{other:?}"),
                }
            }
        });
    }
    clients.join_all().await;

    let wrong = "SELECT count(*) FROM fl_operation AS o, jsonb_array_elements(o.changes) AS c
                 WHERE c ->> 'new' LIKE '\"%' AND NOT c ->> 'new' LIKE '\"' || (c ->> 'path') || ' by %'";
    assert_eq!(database.number(wrong), 0);
    assert_eq!(database.number("SELECT count(*) FROM fl_operation"), 1_601);
    assert_eq!(database.number("SELECT sum(version) FROM fl_scope"), 1_601);
    assert!(database.connected().len() <= 3, "{}", pooler.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_whose_answer_is_lost_is_found_by_its_operation_and_its_connection_is_not_used_again()
 {
    for (action, applied) in [(Action::CutBefore, false), (Action::CutAfter, true)] {
        let database = Database::new(Dialect::Postgres);
        let proxy = Proxy::before(database.server);
        let options = options(&database.url_on(proxy.port()), Pooler::Transaction).connections(1);
        let store = PostgresStore::connect_and_migrate(options).await.unwrap();
        made(&store).await;
        let commit = unread(&store, "media.n", 5).await;
        let accepted = proxy.accepted();
        proxy.fault(Rule::on("SELECT", action.clone()));

        let error = store.commit(&commit).await.unwrap_err();
        let resolved = store.resolve(commit.operation).await.unwrap();

        assert_eq!(error.code(), "outcome_unknown", "{action:?}");
        assert_eq!(resolved.is_some(), applied, "{action:?}");
        assert_eq!(number(&seen(&store).await, "media.n"), if applied { 5 } else { 0 });
        assert_eq!(proxy.accepted(), accepted + 1, "{action:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_who_goes_away_cancels_no_save_half_way() {
    let database = Database::new(Dialect::Postgres);
    let options = options(&database.url(), Pooler::Transaction).connections(1);
    let store = Arc::new(PostgresStore::connect_and_migrate(options).await.unwrap());
    made(&store).await;
    let commit = unread(&store, "media.n", 5).await;
    let mut other = database.session();
    other.run("begin");
    other.run("select 1 from fl_entity for update");

    let caller = {
        let store = store.clone();
        tokio::spawn(async move { store.commit(&commit).await })
    };
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    until("the save waits", || database.number(waiting) == 1);
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    other.run("commit");

    // The only connection answers the next caller only after the save was carried through.
    assert_eq!(number(&seen(&store).await, "media.n"), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_that_waits_too_long_is_cancelled_on_the_server_and_can_be_asked_after() {
    let database = Database::new(Dialect::Postgres);
    let url = database.url();
    let store = store(&url, Pooler::Transaction).await;
    made(&store).await;
    let options = options(&url, Pooler::Transaction).deadline(Duration::from_millis(300));
    let hasty = PostgresStore::connect(options).await.unwrap();
    let commit = unread(&store, "media.n", 5).await;
    let mut other = database.session();
    other.run("begin");
    other.run("select 1 from fl_entity for update");

    let error = hasty.commit(&commit).await.unwrap_err();

    assert_eq!(error.code(), "outcome_unknown");
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    until("the server gives it up too", || database.number(waiting) == 0);
    other.run("commit");
    assert_eq!(store.resolve(commit.operation).await.unwrap(), None);
    assert_eq!(number(&seen(&store).await, "media.n"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_are_ended_and_a_server_that_was_killed_are_got_over() {
    let server = DatabaseSetup::new(Dialect::Postgres).start();
    let database = server.database();
    let store = store(&database.url(), Pooler::None).await;
    made(&store).await;

    for connected in database.connected() {
        server.end_session(connected.id);
    }
    until("the sessions are gone", || database.connected().is_empty());
    assert_eq!(number(&seen(&store).await, "media.n"), 0);

    let commit = unread(&store, "media.n", 5).await;
    assert!(matches!(store.commit(&commit).await.unwrap(), Committed::Applied { .. }));
    server.kill();
    let error = store.load(&product()).await.unwrap_err();
    assert_eq!(error.code(), "unavailable");
    server.restart();
    assert_eq!(number(&seen(&store).await, "media.n"), 5);
    server.set("default_transaction_read_only", "on");
    let commit = unread(&store, "media.n", 6).await;
    let error = store.commit(&commit).await.unwrap_err();
    assert!(error.to_string().contains("takes no writes"), "{error}");
    server.set("default_transaction_read_only", "off");
    assert!(matches!(store.commit(&commit).await.unwrap(), Committed::Applied { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_spoken_with_a_server_whose_certificate_is_good_and_with_no_other() {
    let certificates = Certificates::make();
    let server = DatabaseSetup::new(Dialect::Postgres).tls(&certificates, "server", false).start();
    let database = server.database();
    let connect = async |query: &str| {
        let options = PostgresOptions::new(&format!("{}?{query}", database.url())).unwrap();
        PostgresStore::connect_and_migrate(options).await.map(|_| ()).map_err(|error| error.code())
    };
    let root = certificates.path("ca.crt").display().to_string();

    assert_eq!(connect(&format!("sslmode=verify-full&sslrootcert={root}")).await, Ok(()));
    assert_eq!(connect("sslmode=require").await, Err("store_options"));
    assert_eq!(connect("sslmode=disable").await, Err("denied"));
    assert_eq!(connect("sslmode=require&sslrootcert=nowhere.pem").await, Err("bad_tls"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_at_the_server_tells_what_stands_in_the_way() {
    let database = Database::new(Dialect::Postgres);
    let codes = async |options: PostgresOptions| {
        let found = PostgresStore::checks(options).await.unwrap();
        found.iter().map(|finding| (finding.level, finding.code)).collect::<Vec<_>>()
    };
    let direct = || options(&database.url(), Pooler::None);

    let empty = codes(direct()).await;
    assert!(empty.contains(&(Level::Refuse, "no_schema")), "{empty:?}");
    store(&database.url(), Pooler::None).await;
    // The harness runs its servers without fsync.
    let ready = codes(direct()).await;
    assert_eq!(ready, [(Level::Refuse, "not_durable"), (Level::Info, "idle_transactions")]);
    database.sql("ALTER TABLE fl_key OWNER TO postgres; GRANT SELECT ON fl_key TO fl");
    let found = PostgresStore::checks(direct()).await.unwrap();
    let denied = found.iter().find(|finding| finding.code == "denied").unwrap();
    assert_eq!(
        denied.message,
        "this role lacks DELETE on fl_key, INSERT on fl_key, UPDATE on fl_key"
    );

    let pooler = servers::Pooler::start(database.server, &[]);
    let pooled = codes(options(&pooler.url(&database), Pooler::Transaction)).await;
    assert!(pooled.contains(&(Level::Info, "pooler")), "{pooled:?}");
    assert!(pooled.contains(&(Level::Warn, "no_timeout")), "{pooled:?}");
    let ignoring = [("ignore_startup_parameters", "extra_float_digits,options")];
    let pooler = servers::Pooler::start(database.server, &ignoring);
    let prepared = codes(options(&pooler.url(&database), Pooler::None)).await;
    assert!(prepared.contains(&(Level::Refuse, "pooler")), "{prepared:?}");
}
