//! What goes over the wire, and what happens when it breaks.

use std::{sync::Arc, time::Duration};

use fieldlease::{
    commit::{Commit, Committed, Expect, KeyMode, KeyUse},
    entity::Value,
    idempotency::{BeginAsk, IdempotencyStore},
    key::{HashAlgorithm, JobKey, Owner, RequestHash},
    scope::Scope,
    store::{
        RecordStore,
        mysql::{MysqlOptions, MysqlStore},
    },
    token::SystemEntropy,
};
use serde_json::json;

use super::{database, save::*};
use crate::servers::{Action, Database, Proxy, Rule, until};

/// A store behind a proxy, with one connection.
async fn behind(database: &Database<'_>, proxy: &Proxy) -> Arc<MysqlStore> {
    database::store(database).await;
    Arc::new(MysqlStore::connect(options(database, proxy)).await.unwrap())
}

fn options(database: &Database<'_>, proxy: &Proxy) -> MysqlOptions {
    MysqlOptions::new(&database.url_on(proxy.port())).unwrap().connections(1)
}

fn once(number: u64) -> KeyUse {
    KeyUse {
        key: JobKey::text(&format!("job/{number}")).unwrap().key(&worker()).unwrap(),
        hash: RequestHash { algorithm: HashAlgorithm::JcsSha256, bytes: [7; 32] },
        mode: KeyMode::Once(Owner::new(&SystemEntropy)),
        result: "done".to_owned(),
        retention: Duration::from_secs(60),
        inputs: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_is_one_round_trip_once_its_statement_is_known() {
    let database = Database::new(crate::servers::Dialect::MariaDb);
    let proxy = Proxy::before(database.server);
    let store = behind(&database, &proxy).await;
    made(&store, "1", &[("media.width", json!(0)), ("price.sum", json!(0))]).await;

    // The first round makes the statements known.
    for round in 0..2 {
        let mut trips = Vec::new();
        let mut count = |what: &str| {
            let seen = proxy.round_trips();
            let names: Vec<String> = seen.into_iter().map(|request| request.name).collect();
            trips.push((what.to_owned(), names));
        };
        let holder = token();
        count("before");
        let claim = claimed(&store, "1", &["media"], holder).await;
        count("claim and load");
        applied(&store, &save_under(&claim, holder, &[("media.width", json!(round + 1))])).await;
        count("save under a claim");
        let seen = seen(&store, "1").await;
        count("load");
        applied(&store, &save(&seen, &worker(), &[("price.sum", json!(round + 1))])).await;
        count("optimistic save");
        let mut apply = save(&seen, &worker(), &[("media.height", json!(round + 1))]);
        apply.scopes.insert(scope("media"), Expect::Unread);
        apply.key = Some(once(round));
        applied(&store, &apply).await;
        count("apply once, with its key");
        store.resolve(apply.operation).await.unwrap().unwrap();
        count("resolve");
        let (key, hash) = (once(round + 100).key, once(round).hash);
        let (own, lease) = (Owner::new(&SystemEntropy), Duration::from_secs(9));
        store.begin(&BeginAsk { key, hash, own, lease }).await.unwrap();
        count("begin of a key");
        store.break_claim(&Scope { entity: product("1"), name: scope("media") }).await.unwrap();
        count("break");

        if round == 1 {
            for (what, names) in &trips[1..] {
                assert_eq!(names, &["CALL"], "{what}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_goes_away_cancels_no_save() {
    let database = Database::new(crate::servers::Dialect::MariaDb);
    let proxy = Proxy::before(database.server);
    let store = behind(&database, &proxy).await;
    let before = made(&store, "1", &[("price.sum", json!(0))]).await;
    let connections = proxy.accepted();
    let fault = proxy.fault(Rule::matching(
        |request| request.name == "CALL" && request.mentions("fl_commit"),
        Action::HoldRequest,
    ));

    let (sending, commit) = (store.clone(), save(&before, &worker(), &[("price.sum", json!(1))]));
    let caller = tokio::spawn(async move { sending.commit(&commit).await });
    tokio::task::block_in_place(|| fault.wait());
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    fault.let_go();

    // The next one gets the connection when the save is through, and it is as good as before.
    let after = seen(&store, "1").await;
    assert_eq!(after.record.get(&path("price.sum")), Value::Present(json!(1)));
    assert_eq!(proxy.accepted(), connections);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_whose_connection_breaks_is_not_known_and_asked_for() {
    for (action, took_effect) in [(Action::CutBefore, false), (Action::CutAfter, true)] {
        let database = Database::new(crate::servers::Dialect::MariaDb);
        let proxy = Proxy::before(database.server);
        let store = behind(&database, &proxy).await;
        let before = made(&store, "1", &[("price.sum", json!(0))]).await;
        let commit = save(&before, &worker(), &[("price.sum", json!(1))]);
        proxy.fault(Rule::on("CALL", action.clone()));

        let error = store.commit(&commit).await.unwrap_err();

        assert_eq!(error.code(), "outcome_unknown", "{action:?}");
        let resolved = store.resolve(commit.operation).await.unwrap();
        assert_eq!(resolved.is_some(), took_effect, "{action:?}");
        let sum = seen(&store, "1").await.record.get(&path("price.sum"));
        assert_eq!(sum, Value::Present(json!(u8::from(took_effect))), "{action:?}");
        // Nothing but its own name keeps it from being done.
        if !took_effect {
            applied(&store, &Commit { operation: operation(), ..commit }).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_be_done_twice_is_done_again_on_another_connection() {
    let database = Database::new(crate::servers::Dialect::MariaDb);
    let proxy = Proxy::before(database.server);
    let store = behind(&database, &proxy).await;
    made(&store, "1", &[("price.sum", json!(0))]).await;

    proxy.fault(Rule::on("CALL", Action::CutAfter));
    seen(&store, "1").await;
    proxy.fault(Rule::on("CALL", Action::Truncate(9)));
    claimed(&store, "1", &["price"], token()).await;
    proxy.cut_all();
    until("the connection is gone", || proxy.open() == 0);
    seen(&store, "1").await;
    proxy.refuse(true);
    proxy.cut_all();
    let error = store.load(&product("1")).await.unwrap_err();
    assert_eq!(error.code(), "unavailable");
    proxy.refuse(false);
    seen(&store, "1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_does_not_come_ends_its_connection_and_not_the_store() {
    let database = Database::new(crate::servers::Dialect::MariaDb);
    let proxy = Proxy::before(database.server);
    database::store(&database).await;
    let options = options(&database, &proxy).answer_timeout(Duration::from_millis(300));
    let store = Arc::new(MysqlStore::connect(options).await.unwrap());
    let before = made(&store, "1", &[("price.sum", json!(0))]).await;
    let commit = save(&before, &worker(), &[("price.sum", json!(1))]);
    let fault = proxy.fault(Rule::on("CALL", Action::HoldReply));

    let error = store.commit(&commit).await.unwrap_err();

    assert_eq!((error.code(), fault.hits()), ("outcome_unknown", 1));
    fault.let_go();
    assert!(matches!(
        store.resolve(commit.operation).await.unwrap(),
        Some(Committed::Applied { .. })
    ));
}

/// The server undoes only the statement then (1205), and the transaction would stay open.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_takes_too_long_is_given_up_whole() {
    let (database, _) = database::fresh().await;
    let options = database::options(&database).connections(1);
    let store = MysqlStore::connect(options.lock_timeout(Duration::from_secs(1))).await.unwrap();
    let before = made(&store, "1", &[("price.sum", json!(0)), ("stock.sum", json!(0))]).await;
    let mut holder = database.session();
    holder.run("START TRANSACTION");
    let entity = database.number("SELECT entity FROM fl_entity");
    holder.run(&format!(
        "SELECT * FROM fl_scope WHERE entity = {entity} AND scope = 'stock' FOR UPDATE"
    ));

    let both = [("price.sum", json!(1)), ("stock.sum", json!(1))];
    let error = store.commit(&save(&before, &worker(), &both)).await.unwrap_err();

    assert_eq!(error.code(), "unavailable");
    assert!(error.to_string().contains("1205"), "{error}");
    // Had it stayed open, the other scope would still be locked.
    let waiting = database.number(
        "SELECT COUNT(*) FROM information_schema.innodb_trx AS t JOIN information_schema.processlist AS p \
         ON p.id = t.trx_mysql_thread_id WHERE p.db = DATABASE() AND p.user = 'fl'",
    );
    assert_eq!(waiting, 0);
    applied(&store, &save(&before, &worker(), &[("price.sum", json!(1))])).await;
    holder.run("ROLLBACK");
    applied(&store, &save(&before, &worker(), &[("stock.sum", json!(1))])).await;
}
