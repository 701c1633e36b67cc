//! History that goes: what stays whatever is asked, what an erasure leaves, and saves that go on beside it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fieldlease::{
    commit::{Commit, Committed, KeyMode, KeyUse, Lifecycle, Notice, Refusal},
    entity::{Value, Writer},
    history::{BaseQuery, HistoryStore},
    idempotency::IdempotencyStore,
    key::{HashAlgorithm, JobKey, Owner, RequestHash},
    queue::{Item, Outbox, QueueStore},
    snapshot::Snapshot,
    store::{RecordStore, mysql::MysqlStore},
    token::{ScopeVersion, SystemEntropy},
    upkeep::{BASE_WINDOW, Erase, EraseAsk, Erased, PruneAsk, Pruned, UpkeepStore},
};
use serde_json::json;

use super::{controls, database, save::*};
use crate::servers::Database;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn ask() -> PruneAsk {
    PruneAsk {
        kind: None,
        keep_versions: None,
        versions_older: None,
        operations_older: None,
        tombstones_older: None,
        base_window: BASE_WINDOW,
        after: 0,
        most: 100,
        dry_run: false,
    }
}

fn counted(versions: u64, operations: u64, tombstones: u64) -> Pruned {
    Pruned { versions, operations, tombstones, next: None }
}

/// Everything that happened is this much older now.
fn age(database: &Database<'_>, by: Duration) {
    let us = by.as_micros();
    database.sql(&format!(
        "UPDATE fl_operation SET at = at - {us}; UPDATE fl_outbox SET at = at - {us}; \
         UPDATE fl_entity SET deleted_at = deleted_at - {us}"
    ));
}

async fn change(store: &MysqlStore, id: &str, writer: &Writer, text: &str, value: u64) -> Commit {
    let commit = save(&seen(store, id).await, writer, &[(text, json!(value))]);
    applied(store, &commit).await;
    commit
}

/// A record with four versions and four operations beside its creation.
async fn lived(store: &MysqlStore) -> Snapshot {
    made(store, "1", &[("editor.name", json!(0)), ("price.sum", json!(0))]).await;
    for turn in 1..=4 {
        change(store, "1", &Writer::editor("anna"), "editor.name", turn).await;
        change(store, "1", &worker(), "price.sum", turn).await;
    }
    seen(store, "1").await
}

async fn left(store: &MysqlStore) -> (Vec<u64>, usize) {
    let entries = store.entries(&product("1"), None, 100).await.unwrap();
    let numbers: Vec<u64> = entries.iter().filter_map(|entry| entry.number).map(|n| n.0).collect();
    (numbers.clone(), entries.len() - numbers.len())
}

#[tokio::test(flavor = "multi_thread")]
async fn saves_go_by_number_and_age_and_what_a_value_comes_from_stays() {
    let (database, store) = database::fresh().await;
    lived(&store).await;
    let all = PruneAsk { keep_versions: Some(2), operations_older: Some(DAY), ..ask() };

    assert_eq!(store.prune(&all).await.unwrap(), counted(0, 0, 0), "all within the base window");
    age(&database, 8 * DAY);
    let dry = PruneAsk { dry_run: true, ..all.clone() };
    assert_eq!(store.prune(&dry).await.unwrap(), counted(2, 4, 0));
    assert_eq!(left(&store).await, (vec![4, 3, 2, 1], 5));
    assert_eq!(store.prune(&all).await.unwrap(), counted(2, 4, 0));

    // The newest operation is where `price.sum` comes from; the creation is nobody's origin any more.
    assert_eq!(left(&store).await, (vec![4, 3], 1));
    let origins = store.blame(&product("1"), &[path("price.sum"), path("editor.name")]).await;
    assert_eq!(origins.unwrap().len(), 2);
    assert_eq!(store.prune(&all).await.unwrap(), counted(0, 0, 0));

    // The control: `blame` finds nobody.
    controls::put(&database, include_str!("../unfenced_mysql/origins_pruned.sql")).await;
    assert_eq!(store.prune(&all).await.unwrap().operations, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_go_on_where_the_last_one_ended_and_reach_every_record() {
    let (database, store) = database::fresh().await;
    for id in 0..5 {
        let id = id.to_string();
        made(&store, &id, &[("price.sum", json!(0))]).await;
        for turn in 1..=3 {
            change(&store, &id, &worker(), "price.sum", turn).await;
        }
    }
    age(&database, 8 * DAY);

    let mut ask = PruneAsk { operations_older: Some(DAY), most: 2, ..ask() };
    let (mut gone, mut calls) = (0, 0);
    loop {
        let pruned = store.prune(&ask).await.unwrap();
        (gone, calls) = (gone + pruned.operations, calls + 1);
        match pruned.next {
            Some(next) => ask.after = next,
            None => break,
        }
        assert!(calls < 30);
    }

    assert_eq!((gone, database.number("SELECT COUNT(*) FROM fl_operation")), (15, 5));
}

/// What the store says `price.sum` was when its scope stood at version 1; all but the last changes after it are pruned.
async fn base_of_the_pruned(
    database: &Database<'_>,
    store: &MysqlStore,
) -> BTreeMap<fieldlease::path::Path, Value> {
    lived(store).await;
    age(database, 8 * DAY);
    store.prune(&PruneAsk { operations_older: Some(DAY), ..ask() }).await.unwrap();
    let asked = |version| BaseQuery {
        path: path("price.sum"),
        scope: scope("price"),
        version: ScopeVersion(version),
    };
    let known = store.bases(&product("1"), &[asked(4)]).await.unwrap();
    assert_eq!(known[&path("price.sum")], Value::Present(json!(3)));
    store.bases(&product("1"), &[asked(1)]).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_base_that_was_pruned_is_unknown_and_never_a_wrong_one() {
    let (database, store) = database::fresh().await;
    assert_eq!(base_of_the_pruned(&database, &store).await, BTreeMap::new());

    database::empty(&database);
    controls::put(&database, include_str!("../unfenced_mysql/no_pruned_mark.sql")).await;
    let wrong = base_of_the_pruned(&database, &store).await;
    assert_eq!(wrong[&path("price.sum")], Value::Present(json!(3)), "it was 0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_that_a_key_answers_with_stays_and_so_does_its_record() {
    let (database, store) = database::fresh().await;
    let before = lived(&store).await;
    let key = JobKey::text("job/1").unwrap().key(&worker()).unwrap();
    let hash = RequestHash { algorithm: HashAlgorithm::JcsSha256, bytes: [7; 32] };
    let mut commit = save(&before, &worker(), &[("price.sum", json!(7))]);
    commit.key = Some(KeyUse {
        key: key.clone(),
        hash,
        mode: KeyMode::Once(Owner::new(&SystemEntropy)),
        result: "secret".to_owned(),
        retention: 90 * DAY,
        inputs: None,
    });
    applied(&store, &commit).await;
    change(&store, "1", &worker(), "price.sum", 8).await;
    let nothing = [];
    let mut gone = save(&seen(&store, "1").await, &Writer::editor("anna"), &nothing);
    gone.lifecycle = Lifecycle::Delete;
    applied(&store, &gone).await;
    age(&database, 8 * DAY);
    let ask = PruneAsk { operations_older: Some(DAY), tombstones_older: Some(DAY), ..ask() };

    assert_eq!(store.prune(&ask).await.unwrap(), counted(0, 6, 0));
    assert!(store.resolve(commit.operation).await.unwrap().is_some());
    database.sql("DELETE FROM fl_key");
    assert_eq!(store.prune(&ask).await.unwrap(), counted(0, 0, 1));

    for table in ["fl_entity", "fl_scope", "fl_operation", "fl_change", "fl_version", "fl_leaf"] {
        assert_eq!(database.number(&format!("SELECT COUNT(*) FROM {table}")), 0, "{table}");
    }
    assert!(store.peek(&key, hash).await.unwrap().is_none());
    made(&store, "1", &[("price.sum", json!(0))]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_record_is_nowhere_and_nothing_seen_or_held_before_is_good() {
    let (database, store) = database::fresh().await;
    made(&store, "1", &[("editor.name", json!("secret")), ("price.sum", json!("secret"))]).await;
    let holder = token();
    let claim = claimed(&store, "1", &["price"], holder).await;
    let before = seen(&store, "1").await;
    let item = Item {
        place: 0,
        operation: operation(),
        writer: worker(),
        entity: product("1"),
        scopes: [scope("price")].into(),
        body: "secret".to_owned(),
        at: fieldlease::clock::StoreTime::default(),
    };
    store.push(&item).await.unwrap();
    let notice = Notice { kind: "requeue".to_owned(), body: json!("secret") };
    store.tell(&product("1"), operation(), &[notice]).await.unwrap();
    let erase = EraseAsk {
        what: Erase::Entity(product("1")),
        by: "dpo".to_owned(),
        reason: "asked for".to_owned(),
        dry_run: true,
    };

    let reached = Some(Erased { saves: 1, values: 2 });
    assert_eq!(store.erase(&erase).await.unwrap(), reached);
    assert!(seen(&store, "1").await.deleted_at.is_none());
    let erase = EraseAsk { dry_run: false, ..erase };
    assert_eq!(store.erase(&erase).await.unwrap(), reached);

    for table in database.rows("SHOW TABLES LIKE 'fl\\_%'").concat() {
        let rows = database.sql(&format!("SELECT * FROM {table}"));
        assert!(!rows.contains("secret"), "{table}: {rows}");
    }
    let proof = database.rows("SELECT what, type, id, saves, by_name, reason FROM fl_erasure");
    assert_eq!(proof, [["record", "Product", "1", "1", "dpo", "asked for"]]);
    let late = save_under(&claim, holder, &[("price.sum", json!(1))]);
    assert_eq!(store.commit(&late).await.unwrap(), Committed::Refused(Refusal::Gone));
    let late = save(&before, &worker(), &[("price.sum", json!(1))]);
    assert_eq!(store.commit(&late).await.unwrap(), Committed::Refused(Refusal::Gone));
    let nobody = EraseAsk { what: Erase::Entity(product("9")), ..erase };
    assert_eq!(store.erase(&nobody).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_writer_has_no_name_and_what_it_wrote_stays() {
    let (database, store) = database::fresh().await;
    made(&store, "1", &[("price.sum", json!(0))]).await;
    let anna = Writer::editor("anna");
    change(&store, "1", &anna, "editor.name", 1).await;
    let agent = Writer { on_behalf_of: Some("anna".into()), ..Writer::worker("agent") };
    change(&store, "1", &agent, "price.sum", 1).await;
    // Another one, whose name a padding collation would take for hers, and a worker of her name.
    change(&store, "1", &Writer::editor("anna "), "title.text", 1).await;
    change(&store, "1", &Writer::worker("anna"), "stock.sum", 1).await;
    let erase = EraseAsk {
        what: Erase::Writer(anna),
        by: "dpo".to_owned(),
        reason: "asked for".to_owned(),
        dry_run: false,
    };

    assert_eq!(store.erase(&erase).await.unwrap(), Some(Erased { saves: 2, values: 2 }));

    let query = |table: &str| {
        format!(
            "SELECT CONCAT('<', writer_name, '>'), COALESCE(on_behalf_of, '-') FROM {table} ORDER BY at"
        )
    };
    let names = [
        ["<sync>", "-"],
        ["<erased>", "-"],
        ["<agent>", "erased"],
        ["<anna >", "-"],
        ["<anna>", "-"],
    ];
    assert_eq!(database.rows(&query("fl_operation")), names);
    assert_eq!(database.rows(&query("fl_stamp")), names[1..]);
    let sum = seen(&store, "1").await.record.get(&path("price.sum"));
    assert_eq!(sum, Value::Present(json!(1)));
    assert_eq!(database.rows("SELECT what, id FROM fl_erasure"), [["writer", "NULL"]]);
}

/// Saves go on while their history is taken away, and lose nothing.
#[tokio::test(flavor = "multi_thread")]
async fn saves_beside_a_prune_of_their_own_record_lose_nothing() {
    let (database, store) = database::fresh().await;
    made(&store, "1", &[("price.sum", json!(0)), ("stock.sum", json!(0))]).await;
    let mut writers = tokio::task::JoinSet::new();
    for text in ["price.sum", "stock.sum", "price.sum", "stock.sum"] {
        let store: Arc<MysqlStore> = store.clone();
        writers.spawn(async move { add(&store, "1", text, 40).await });
    }
    let writing = tokio::spawn(writers.join_all());
    let ask = PruneAsk {
        operations_older: Some(Duration::ZERO),
        base_window: Duration::ZERO,
        most: 7,
        ..ask()
    };
    let mut gone = 0;
    while !writing.is_finished() {
        gone += store.prune(&ask).await.unwrap().operations;
    }
    writing.await.unwrap();
    loop {
        match store.prune(&ask).await.unwrap().operations {
            0 => break,
            more => gone += more,
        }
    }

    let after = seen(&store, "1").await;
    for group in ["price", "stock"] {
        let sum = after.record.get(&path(&format!("{group}.sum")));
        assert_eq!(sum, Value::Present(json!(80)));
        assert_eq!(after.version(&scope(group)), ScopeVersion(81));
    }
    // The origins of the two values are left, and their changes.
    assert_eq!(gone, 159);
    assert_eq!(database.number("SELECT COUNT(*) FROM fl_change"), 2);
}
