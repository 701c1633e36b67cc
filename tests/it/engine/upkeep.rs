//! Pruning and erasing: what goes, what must stay, and what a form learns whose base is gone.

use std::{sync::Arc, time::Duration};

use fieldlease::{
    commit::Trace,
    engine::Engine,
    entity::{EntityRef, Writer},
    history::{BaseQuery, HistoryStore},
    scope::ScopeName,
    store::{
        RecordStore,
        sqlite::{SqliteOptions, SqliteStore, Statements},
    },
    testing::ManualClock,
    token::ScopeVersion,
    upkeep::{BASE_WINDOW, Erase, EraseAsk, PruneAsk, Pruned},
};
use serde_json::json;

use super::support::{File, PRODUCT, created, path, product, refused, saved};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

struct Shop {
    file: File,
    engine: Engine,
    clock: Arc<ManualClock>,
}

async fn shop_with(options: SqliteOptions) -> Shop {
    let clock = Arc::new(ManualClock::new());
    let file = File::with(options.clock(clock.clone()));
    let engine = file.builder(PRODUCT).build().await.unwrap();
    clock.advance(DAY).await;
    Shop { file, engine, clock }
}

async fn shop() -> Shop {
    shop_with(SqliteOptions::default()).await
}

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

impl Shop {
    async fn rename(&self, id: &str, name: &str) {
        let anna = self.engine.editor("anna");
        let token = anna.load(&product(id)).await.unwrap().unwrap().token;
        saved(anna.save(&product(id)).token(token).set("name", name).send().await.unwrap());
    }

    async fn work(&self, id: &str, field: &str, value: i64) {
        let worker = self.engine.worker("w");
        let seen = worker.load(&product(id)).await.unwrap().unwrap();
        saved(worker.save(&product(id)).seen(&seen).set(field, value).send().await.unwrap());
    }

    async fn prune(&self, ask: PruneAsk) -> Pruned {
        self.engine.prune(&ask).await.unwrap()
    }

    async fn numbers(&self, id: &str) -> Vec<Option<u64>> {
        let entries = self.file.history(&product(id)).await;
        entries.iter().map(|entry| entry.number.map(|number| number.0)).collect()
    }

    /// Whether any column of any table holds this text.
    fn holds(&self, text: &str) -> bool {
        let file = self.file.folder.path().join("store.db");
        let connection = rusqlite::Connection::open(file).unwrap();
        let mut tables =
            connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").unwrap();
        let tables = tables.query_map([], |row| row.get::<_, String>(0)).unwrap();
        tables.map(Result::unwrap).any(|table| {
            let mut rows = connection.prepare(&format!("SELECT * FROM {table}")).unwrap();
            let columns = rows.column_count();
            let rows = rows.query_map([], |row| {
                Ok((0..columns).any(|at| {
                    row.get_ref(at).is_ok_and(|v| v.as_str().is_ok_and(|v| v.contains(text)))
                }))
            });
            rows.unwrap().any(|found| found.unwrap())
        })
    }
}

#[tokio::test]
async fn versions_and_operations_go_by_number_and_age_and_nothing_that_is_not_asked_for() {
    let shop = shop().await;
    created(&shop.engine.editor("anna"), &product("1")).await;
    for round in 0..5 {
        shop.rename("1", &format!("Chair {round}")).await;
        shop.work("1", "thumbnail", round).await;
        shop.work("1", "searchIndex", round).await;
    }
    shop.clock.advance(30 * DAY).await;
    shop.rename("1", "Bench").await;

    assert_eq!(shop.prune(ask()).await, Pruned::default());
    let dry = PruneAsk { keep_versions: Some(3), dry_run: true, ..ask() };
    assert_eq!((shop.prune(dry).await.versions, shop.numbers("1").await.len()), (3, 17));
    let young =
        PruneAsk { versions_older: Some(60 * DAY), operations_older: Some(60 * DAY), ..ask() };
    assert_eq!(shop.prune(young).await, Pruned::default());
    // The first version stays: it made `images`, which nobody changed since.
    let pruned = shop.prune(PruneAsk { keep_versions: Some(3), ..ask() }).await;
    assert_eq!((pruned.versions, pruned.operations), (3, 0));
    let pruned = shop.prune(PruneAsk { operations_older: Some(20 * DAY), ..ask() }).await;
    assert_eq!((pruned.versions, pruned.operations), (0, 8));
    assert_eq!(shop.numbers("1").await, [Some(7), None, None, Some(6), Some(5), Some(1)]);
    let blamed =
        shop.engine.blame(&product("1"), &[path("thumbnail"), path("images")]).await.unwrap();
    assert_eq!(blamed[&path("thumbnail")].changed[0].new, json!(4).into());
    assert_eq!(blamed[&path("images")].number.unwrap().0, 1);
}

#[tokio::test]
async fn the_base_window_holds_whatever_is_asked_and_the_last_version_always_stays() {
    let shop = shop().await;
    created(&shop.engine.editor("anna"), &product("1")).await;
    shop.rename("1", "a").await;
    shop.rename("1", "b").await;
    shop.clock.advance(6 * DAY).await;
    let all = || PruneAsk {
        keep_versions: Some(0),
        versions_older: Some(Duration::ZERO),
        operations_older: Some(Duration::ZERO),
        ..ask()
    };

    assert_eq!(shop.prune(all()).await, Pruned::default());
    let narrow = PruneAsk { base_window: DAY, ..all() };
    assert_eq!(shop.prune(narrow).await.versions, 1);
    assert_eq!(shop.numbers("1").await, [Some(3), Some(1)]);
}

/// A form from before the window: its base is not known, and is never taken to be another one.
async fn late_form(options: SqliteOptions) -> (Shop, String, Option<fieldlease::entity::Value>) {
    let shop = shop_with(options).await;
    let anna = shop.engine.editor("anna");
    let token = created(&anna, &product("1")).await;
    shop.rename("1", "second").await;
    shop.clock.advance(30 * DAY).await;
    shop.rename("1", "third").await;
    shop.prune(PruneAsk { keep_versions: Some(1), ..ask() }).await;
    let late = anna.save(&product("1")).token(token).set("name", "mine").send().await.unwrap();
    let refused = refused(late);
    let plan = refused.plan.unwrap();
    let rule = plan.conflicts().next().map(|(_, conflict)| conflict.rule.to_owned()).unwrap();
    let query = BaseQuery {
        path: path("name"),
        scope: ScopeName::parse("editor").unwrap(),
        version: ScopeVersion(1),
    };
    let base = shop.file.store.bases(&product("1"), &[query]).await.unwrap().remove(&path("name"));
    (shop, rule, base)
}

#[tokio::test]
async fn a_form_whose_base_was_pruned_is_told_so_and_never_compared_with_another_value() {
    let (_shop, rule, base) = late_form(SqliteOptions::default()).await;
    assert_eq!((rule.as_str(), base), ("base_unknown", None));

    // Without the mark the first change that is left would pass for the base.
    let text = include_str!("../../backends/unfenced/no_pruned_mark.sql");
    let (_shop, rule, base) =
        late_form(SqliteOptions::default().statements(Statements::with(text).unwrap())).await;
    assert_ne!(rule, "base_unknown");
    assert_eq!(base, Some(json!("second").into()));
}

#[tokio::test]
async fn pruning_goes_in_bounded_steps_over_all_records_and_beside_saves() {
    let shop = shop().await;
    for id in 0..7 {
        let id = id.to_string();
        created(&shop.engine.editor("anna"), &product(&id)).await;
        for round in 0..6 {
            shop.work(&id, "thumbnail", round).await;
        }
    }
    shop.clock.advance(30 * DAY).await;

    let (mut steps, mut removed, mut after) = (0, 0, Some(0));
    while let Some(from) = after {
        let step = PruneAsk { operations_older: Some(DAY), after: from, most: 4, ..ask() };
        let pruned = shop.prune(step).await;
        assert!(pruned.operations <= 4);
        shop.work("3", "checksum", steps).await;
        (steps, removed, after) = (steps + 1, removed + pruned.operations, pruned.next);
    }

    assert_eq!(removed, 7 * 5);
    assert!(steps >= 9, "{steps}");
}

#[tokio::test]
async fn a_tombstone_goes_only_when_it_is_asked_for_and_old() {
    let shop = shop().await;
    for id in ["1", "2"] {
        created(&shop.engine.editor("anna"), &product(id)).await;
    }
    saved(shop.engine.editor("anna").delete(&product("1")).send().await.unwrap());
    shop.clock.advance(30 * DAY).await;

    let kept = shop.prune(PruneAsk { keep_versions: Some(1), ..ask() }).await;
    assert_eq!((kept.versions, shop.numbers("1").await), (1, vec![Some(2)]));
    let young = shop.prune(PruneAsk { tombstones_older: Some(60 * DAY), ..ask() }).await;
    assert_eq!(young.tombstones, 0);
    let gone = shop.prune(PruneAsk { tombstones_older: Some(20 * DAY), ..ask() }).await;
    assert_eq!(gone.tombstones, 1);
    assert!(shop.file.store.load(&product("1")).await.unwrap().is_none());
    assert!(shop.file.store.load(&product("2")).await.unwrap().is_some());
}

fn erase(what: Erase) -> EraseAsk {
    EraseAsk { what, by: "boss".into(), reason: "request 7".into(), dry_run: false }
}

#[tokio::test]
async fn an_erased_record_leaves_no_value_anywhere_in_the_file_and_a_proof() {
    let shop = shop().await;
    let anna = shop.engine.editor("anna");
    let token = created(&anna, &product("1")).await;
    shop.rename("1", "Confidential-name").await;
    let worker = shop
        .engine
        .worker("w")
        .save(&product("1"))
        .set("thumbnail", "Confidential-file")
        .job("Confidential-job");
    saved(worker.send().await.unwrap());
    assert!(shop.holds("Confidential"));

    let dry = EraseAsk { dry_run: true, ..erase(Erase::Entity(product("1"))) };
    assert_eq!(shop.engine.erase(&dry).await.unwrap().unwrap().saves, 3);
    assert_eq!(shop.file.value(&product("1"), "name").await, json!("Confidential-name"));
    let erased = shop.engine.erase(&erase(Erase::Entity(product("1")))).await.unwrap().unwrap();
    let unknown = shop.engine.erase(&erase(Erase::Entity(product("9")))).await.unwrap();

    assert_eq!((erased.saves, unknown), (3, None));
    let entries = shop.file.history(&product("1")).await;
    assert_eq!(entries.len(), 3);
    for entry in &entries {
        assert!(entry.changed.is_empty());
        match &entry.trace {
            Trace::Version { state, .. } => assert!(state.is_empty()),
            Trace::Operation(detail) => assert_eq!(detail.job, None),
        }
    }
    let save = anna.save(&product("1")).token(token).set("name", "x").send().await.unwrap();
    assert_eq!(refused(save).why.code(), "gone");
    let nameless = EraseAsk { reason: " ".into(), ..erase(Erase::Entity(product("1"))) };
    assert_eq!(shop.engine.erase(&nameless).await.unwrap_err().code(), "reason_missing");
    assert!(!shop.holds("Confidential") && shop.holds("request 7"));
}

#[tokio::test]
async fn an_erased_writer_has_no_name_left_and_what_it_wrote_stays() {
    let shop = shop().await;
    created(&shop.engine.editor("dorothea"), &product("1")).await;
    let behalf = Writer { on_behalf_of: Some("dorothea".into()), ..Writer::worker("scheduler") };
    let save = shop.engine.session(behalf).save(&product("1")).set("thumbnail", "t");
    saved(save.send().await.unwrap());
    saved(shop.engine.worker("dorothea").save(&product("1")).set("width", 1).send().await.unwrap());

    let what = Erase::Writer(Writer::editor("dorothea"));
    let erased = shop.engine.erase(&erase(what)).await.unwrap().unwrap();

    assert_eq!((erased.saves, erased.values), (2, 3));
    let writers: Vec<String> =
        shop.file.history(&product("1")).await.iter().map(|e| e.writer.to_string()).collect();
    assert_eq!(writers, ["worker `dorothea`", "worker `scheduler`", "editor `erased`"]);
    assert_eq!(shop.file.value(&product("1"), "name").await, json!("Chair"));
    let loaded: Option<fieldlease::snapshot::Snapshot> =
        SqliteStore::load(&shop.file.store, &EntityRef::new("Product", "1").unwrap())
            .await
            .unwrap();
    assert!(
        loaded.unwrap().stamps.values().all(|stamp| stamp.writer != Writer::editor("dorothea"))
    );
}
