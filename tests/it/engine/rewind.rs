//! Restoring versions and undoing jobs: what comes back, what stays, and what happens while others save.

use std::collections::BTreeMap;

use fieldlease::{
    commit::{Lifecycle, Trace},
    engine::{Engine, Outcome, Rewind, Session, UndoOf},
    error::Error,
    token::VersionNumber,
};
use serde_json::{Value as Json, json};

use super::support::{File, path, product, refused, saved};

const RULES: &str = "\
field_ownership:
  Product:
    lifecycle: {create: [editor], delete: [editor]}
    axes: {locale: any}
    editor_owned: [name, title@locale, price, specs, gallery.#keys, gallery.#order, gallery.*.caption, gallery.*.alt@locale]
    system_owned:
      media: {fields: [gallery.*.thumb, specs.weight, width], on_busy: wait 5s}
      index: [searchText]
      rows: ['rows.#keys', 'rows.*.size']
    shared:
      tags: set_merge
      note: last_write_wins
      stock: {strategy: counter, group: stock}
";

struct Shop {
    file: File,
    engine: Engine,
    anna: Session,
}

async fn shop() -> Shop {
    let file = File::new();
    let engine = file.builder(RULES).build().await.unwrap();
    let anna = engine.editor("anna");
    Shop { file, engine, anna }
}

impl Shop {
    /// An editor's save on what there is; answers the number of its version.
    async fn edit(&self, changes: Json) -> VersionNumber {
        let loaded = self.anna.load(&product("1")).await.unwrap();
        let save = match loaded {
            Some(loaded) if loaded.deleted_at.is_none() => {
                self.anna.save(&product("1")).token(loaded.token)
            }
            _ => self.anna.create(&product("1")),
        };
        let changes = changes.as_object().unwrap().clone().into_iter();
        let save = changes.fold(save, |save, (at, value)| match value {
            Json::Null => save.unset(at),
            value => save.set(at, value),
        });
        saved(save.send().await.unwrap()).version.unwrap()
    }

    async fn work(&self, job: &str, changes: Json) -> fieldlease::token::OperationId {
        let worker = self.engine.worker("w");
        let loaded = worker.load(&product("1")).await.unwrap().unwrap();
        let save = worker.save(&product("1")).seen(&loaded).job(job);
        let changes = changes.as_object().unwrap().clone().into_iter();
        let save = changes.fold(save, |save, (at, value)| match value {
            Json::Null => save.unset(at),
            value => save.set(at, value),
        });
        saved(save.send().await.unwrap()).operation
    }

    async fn restore(&self, number: VersionNumber) -> Rewind {
        self.anna.restore(&product("1"), number).prepare().await.unwrap()
    }

    async fn fields(&self) -> BTreeMap<String, Json> {
        let loaded = self.anna.load(&product("1")).await.unwrap().unwrap();
        loaded.fields.into_iter().map(|(path, value)| (path.to_string(), value)).collect()
    }
}

fn all(fields: Json) -> BTreeMap<String, Json> {
    fields.as_object().unwrap().clone().into_iter().collect()
}

#[tokio::test]
async fn a_restored_version_is_a_new_version_that_never_touches_what_workers_wrote() {
    let shop = shop().await;
    let first = shop
        .edit(json!({"name": "Chair", "price": {"amount": 5, "tax": {"rate": 19}}, "title@locale=de": "Stuhl", "tags": ["a"], "note": "n1"}))
        .await;
    shop.work("j", json!({"width": 80, "specs.weight": 7, "searchText": "chair"})).await;
    shop.edit(json!({"name": "Bench", "price": {"amount": 9}, "title@locale=de": null, "title@locale=fr": "Banc", "specs": {"wood": "oak"}, "tags": ["a", "b"], "note": "n2"}))
        .await;
    shop.work("j", json!({"width": 81})).await;

    let rewind = shop.restore(first).await;
    let outcome = saved(rewind.save.send().await.unwrap());

    assert_eq!(rewind.left, BTreeMap::new());
    assert_eq!(outcome.version, Some(VersionNumber(3)));
    assert_eq!(
        shop.fields().await,
        all(
            json!({"name": "Chair", "price": {"amount": 5, "tax": {"rate": 19}}, "title@locale=de": "Stuhl",
            "width": 81, "specs.weight": 7, "searchText": "chair", "tags": ["a", "b"], "note": "n2"})
        )
    );
    let entry = &shop.file.history(&product("1")).await[0];
    let Trace::Version { reason, .. } = &entry.trace else { panic!("{entry:?}") };
    assert_eq!(reason.as_deref(), Some("version 1 restored"));
    let again = shop.restore(first).await.save.send().await.unwrap();
    assert!(matches!(again, Outcome::Unchanged(_)), "{again:?}");
}

#[tokio::test]
async fn items_come_back_with_what_editors_wrote_and_new_ones_go() {
    let shop = shop().await;
    let first = shop
        .edit(json!({"name": "Chair", "gallery.#keys": ["a", "b", "empty"], "gallery.#order": ["b", "a", "empty"],
            "gallery.a.caption": "front", "gallery.a.alt@locale=de": "vorn"}))
        .await;
    shop.work("j", json!({"gallery.a.thumb": "a.webp", "gallery.b.thumb": "b.webp"})).await;
    shop.edit(json!({"gallery.#keys": ["b", "c"], "gallery.#order": ["c", "b"], "gallery.c.caption": "new", "gallery.b.caption": "side"}))
        .await;
    shop.work("j", json!({"gallery.c.thumb": "c.webp"})).await;

    let rewind = shop.restore(first).await;
    saved(rewind.save.send().await.unwrap());

    assert_eq!(rewind.left, BTreeMap::new());
    let record = shop.file.history(&product("1")).await;
    let Trace::Version { state, .. } = &record[0].trace else { panic!() };
    assert_eq!(state.item_keys(&path("gallery")), ["a", "b", "empty"]);
    assert_eq!(shop.file.value(&product("1"), "gallery.#keys").await, json!(["a", "b", "empty"]));
    assert_eq!(shop.file.value(&product("1"), "gallery.#order").await, json!(["b", "a", "empty"]));
    assert_eq!(shop.file.value(&product("1"), "gallery.a.caption").await, json!("front"));
    assert_eq!(shop.file.value(&product("1"), "gallery.a.alt@locale=de").await, json!("vorn"));
    assert_eq!(shop.file.value(&product("1"), "gallery.a.thumb").await, Json::Null);
    assert_eq!(shop.file.value(&product("1"), "gallery.b.thumb").await, json!("b.webp"));
    assert_eq!(shop.file.value(&product("1"), "gallery.b.caption").await, Json::Null);
    assert_eq!(shop.file.value(&product("1"), "gallery.c.thumb").await, Json::Null);
}

#[tokio::test]
async fn one_field_or_one_language_can_be_restored_alone() {
    let shop = shop().await;
    let first = shop
        .edit(json!({"name": "Chair", "title@locale=de": "Stuhl", "title@locale=fr": "Chaise", "gallery.#keys": ["a"], "gallery.a.caption": "x"}))
        .await;
    shop.edit(json!({"name": "Bench", "title@locale=de": "Bank", "title@locale=fr": "Banc", "gallery.#keys": []})).await;
    let restore = || shop.anna.restore(&product("1"), first);

    let only = restore().only(["title@locale=de"]).prepare().await.unwrap();
    saved(only.save.send().await.unwrap());
    assert_eq!(
        shop.fields().await,
        all(
            json!({"name": "Bench", "gallery": {}, "title@locale=de": "Stuhl", "title@locale=fr": "Banc"})
        )
    );
    let item = restore().only(["gallery.a"]).prepare().await.unwrap();
    saved(item.save.send().await.unwrap());
    assert_eq!(shop.file.value(&product("1"), "gallery.a.caption").await, json!("x"));
}

#[tokio::test]
async fn a_deleted_record_comes_back_from_its_last_version() {
    let shop = shop().await;
    shop.edit(json!({"name": "Chair", "gallery.#keys": ["a", "b"], "gallery.a.caption": "front"}))
        .await;
    shop.work("j", json!({"width": 80})).await;
    let deleted = saved(shop.anna.delete(&product("1")).send().await.unwrap()).version.unwrap();
    let gone = shop.restore(VersionNumber(1)).await;
    let rewind = shop.restore(deleted).await;

    let back = saved(rewind.save.send().await.unwrap());

    assert_eq!(back.incarnation.0, 2);
    assert_eq!(
        shop.fields().await,
        all(json!({"name": "Chair", "gallery.a.caption": "front", "gallery.b": {}}))
    );
    assert_eq!(shop.file.value(&product("1"), "gallery.#keys").await, json!(["a", "b"]));
    assert_eq!(shop.file.history(&product("1")).await[0].lifecycle, Lifecycle::Create);
    // Somebody was faster.
    assert_eq!(refused(gone.save.send().await.unwrap()).why.code(), "exists");
}

#[tokio::test]
async fn a_shared_field_is_restored_when_named_and_a_counter_never() {
    let shop = shop().await;
    let first = shop.edit(json!({"name": "Chair", "note": "n1", "tags": ["a"]})).await;
    shop.work("j", json!({"note": "n2", "tags": ["a", "b"]})).await;
    let second = shop.edit(json!({"name": "Bench"})).await;
    shop.work("j", json!({"note": "n3", "tags": ["b"]})).await;
    let restore = |number| shop.anna.restore(&product("1"), number);

    let to_second = restore(second).shared(["note", "tags"]).prepare().await.unwrap();
    saved(to_second.save.send().await.unwrap());
    assert_eq!(shop.file.value(&product("1"), "note").await, json!("n2"));
    assert_eq!(shop.file.value(&product("1"), "tags").await, json!(["a", "b"]));
    let to_first = restore(first).shared(["note", "tags"]).prepare().await.unwrap();
    saved(to_first.save.send().await.unwrap());
    assert_eq!(shop.file.value(&product("1"), "note").await, json!("n1"));
    assert_eq!(shop.file.value(&product("1"), "tags").await, json!(["a"]));
    assert_eq!(shop.file.value(&product("1"), "name").await, json!("Chair"));

    for (named, code) in
        [("stock", "restore_counter"), ("width", "not_shared"), ("name", "not_shared")]
    {
        let error = restore(first).shared([named]).prepare().await.err().unwrap();
        assert_eq!(error.code(), code, "{named}");
    }
    let unknown =
        shop.anna.restore(&product("1"), VersionNumber(99)).prepare().await.err().unwrap();
    assert_eq!(unknown.code(), "version_unknown");
    let worker =
        shop.engine.worker("w").restore(&product("1"), first).prepare().await.err().unwrap();
    assert_eq!(worker.code(), "restore_worker");
}

/// Workers save all the while; the restore is never in their way, nor they in its.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_restore_while_workers_save_loses_neither() {
    let shop = shop().await;
    let first = shop.edit(json!({"name": "Chair 0"})).await;
    let mut workers = Vec::new();
    for field in ["width", "searchText"] {
        let worker = shop.engine.worker(field);
        workers.push(tokio::spawn(async move {
            for round in 1..=30 {
                let save = worker.save(&product("1")).set(field, round);
                let loaded = worker.load(&product("1")).await.unwrap().unwrap();
                saved(save.seen(&loaded).send().await.unwrap());
            }
        }));
    }
    for round in 1..=15 {
        shop.edit(json!({"name": format!("Chair {round}")})).await;
        saved(shop.restore(first).await.save.send().await.unwrap());
        assert_eq!(shop.file.value(&product("1"), "name").await, json!("Chair 0"));
    }
    for worker in workers {
        worker.await.unwrap();
    }

    assert_eq!(shop.fields().await, all(json!({"name": "Chair 0", "width": 30, "searchText": 30})));
    assert_eq!(shop.file.counts(&product("1")).await, (31, 60));
}

#[tokio::test]
async fn a_restore_prepared_before_another_editor_saved_is_a_conflict() {
    let shop = shop().await;
    let first = shop.edit(json!({"name": "Chair"})).await;
    let second = shop.edit(json!({"name": "Bench"})).await;
    let form = shop.anna.load(&product("1")).await.unwrap().unwrap().token;
    let rewind = shop.restore(first).await;
    shop.edit(json!({"name": "Stool"})).await;

    let late = refused(rewind.save.send().await.unwrap());
    let shown = shop.anna.restore(&product("1"), first).token(form).prepare().await.unwrap();
    let shown = refused(shown.save.send().await.unwrap());

    assert_eq!((late.why.code(), shown.why.code()), ("conflict", "conflict"));
    assert_eq!(second, VersionNumber(2));
    assert_eq!(shop.file.value(&product("1"), "name").await, json!("Stool"));
}

#[tokio::test]
async fn what_stood_in_an_item_a_worker_removed_is_left_and_named() {
    let file = File::new();
    let rules = "field_ownership:\n  Product:\n    editor_owned: [name, 'rows.*.label']\n    system_owned:\n      erp: ['rows.#keys']\n";
    let engine = file.builder(rules).build().await.unwrap();
    let (anna, erp) = (engine.editor("anna"), engine.worker("erp"));
    saved(anna.create(&product("1")).set("name", "Chair").send().await.unwrap());
    saved(erp.save(&product("1")).include("rows.#keys", ["x"]).send().await.unwrap());
    let labelled = anna
        .save(&product("1"))
        .set("rows.x.label", "X")
        .base("rows.x.label", fieldlease::entity::Value::Absent);
    let number = saved(labelled.send().await.unwrap()).version.unwrap();
    saved(erp.save(&product("1")).exclude("rows.#keys", ["x"]).send().await.unwrap());

    let rewind = anna.restore(&product("1"), number).prepare().await.unwrap();

    assert_eq!(rewind.left, [(path("rows.x.label"), "parent_gone")].into_iter().collect());
    assert!(matches!(rewind.save.send().await.unwrap(), Outcome::Unchanged(_)));
}

#[tokio::test]
async fn undoing_a_job_writes_back_what_was_and_leaves_what_changed_since() {
    let shop = shop().await;
    shop.edit(json!({"name": "Chair", "note": "n1"})).await;
    shop.work("before", json!({"width": 80, "searchText": "old"})).await;
    shop.work(
        "import-17",
        json!({"width": 81, "searchText": "wrong", "note": "wrong", "specs.weight": 9}),
    )
    .await;
    shop.work("import-17", json!({"width": 82})).await;
    shop.work("after", json!({"searchText": "new", "specs": {}})).await;
    let worker = shop.engine.worker("w");

    let rewind = worker.undo(&product("1"), UndoOf::Job("import-17".into())).await.unwrap();
    let undone = saved(rewind.save.send().await.unwrap());

    assert_eq!(rewind.left, [(path("searchText"), "changed_since")].into_iter().collect());
    assert_eq!(undone.version, None);
    assert_eq!(
        shop.fields().await,
        all(json!({"name": "Chair", "note": "n1", "width": 80, "searchText": "new", "specs": {}}))
    );
    let Trace::Operation(detail) = &shop.file.history(&product("1")).await[0].trace else {
        panic!()
    };
    assert_eq!(detail.reason.as_deref(), Some("undo of job `import-17`"));
    // Undoing the undo.
    let redo = worker.undo(&product("1"), undone.operation).await.unwrap();
    saved(redo.save.send().await.unwrap());
    assert_eq!(shop.fields().await["width"], json!(82));
}

#[tokio::test]
async fn undoing_one_operation_counts_a_counter_back_and_takes_new_items_away() {
    let shop = shop().await;
    shop.edit(json!({"name": "Chair"})).await;
    let worker = shop.engine.worker("w");
    saved(worker.save(&product("1")).add("stock", 10).send().await.unwrap());
    let save = worker.save(&product("1")).add("stock", -3).include("rows.#keys", ["x", "y"]);
    let operation = saved(save.set("rows.x.size", 5).send().await.unwrap()).operation;
    let loaded = worker.load(&product("1")).await.unwrap().unwrap();
    saved(worker.save(&product("1")).seen(&loaded).set("rows.y.size", 6).send().await.unwrap());

    let rewind = worker.undo(&product("1"), operation).await.unwrap();
    saved(rewind.save.send().await.unwrap());

    assert_eq!(rewind.left, [(path("rows.#keys"), "changed_since")].into_iter().collect());
    assert_eq!(shop.file.value(&product("1"), "stock").await, json!(10));
    assert_eq!(shop.file.value(&product("1"), "rows.#keys").await, json!(["y"]));
}

#[tokio::test]
async fn an_undo_has_the_rights_of_whoever_asks_and_knows_its_limits() {
    let shop = shop().await;
    shop.edit(json!({"name": "Chair"})).await;
    let operation = shop.work("j", json!({"width": 80})).await;

    let denied = shop.anna.undo(&product("1"), operation).await.unwrap();
    let forced = denied.save.clone().force(["width"], "bad import");
    assert_eq!(refused(denied.save.send().await.unwrap()).why.code(), "denied");
    saved(forced.send().await.unwrap());
    assert_eq!(shop.file.value(&product("1"), "width").await, Json::Null);

    let create = shop.file.history(&product("1")).await.last().unwrap().operation;
    let code = |error: Option<Error>| error.unwrap().code();
    assert_eq!(code(shop.anna.undo(&product("1"), create).await.err()), "undo_lifecycle");
    let unknown = UndoOf::Job("none".into());
    assert_eq!(code(shop.anna.undo(&product("1"), unknown).await.err()), "operation_unknown");
}
