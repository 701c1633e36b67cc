//! Inputs by wildcard, items with values of several owners, keys of every kind.

use fieldlease::{
    commit::Trace,
    engine::{Changes, Claiming, Job, Session},
    error::Error,
    registry::OnBusy,
    testing::{Fault, Gate, flaky::Op},
};
use serde_json::json;

use super::support::{File, Hands, path, product, refused, saved};

const GALLERY: &str = "\
field_ownership:
  Product:
    lifecycle: {create: [editor, importer], delete: [editor, importer]}
    axes: {locale: any}
    editor_owned: [name, extra, gallery.#keys, gallery.*.caption, prices.*]
    system_owned:
      media: {fields: [gallery.*.thumb, width], ttl: 2s}
      total: {fields: [total], derived_from: [prices.*], ttl: 2s}
      sheet: {fields: [sheet], derived_from: [gallery.*.caption], ttl: 2s}
      translation: {fields: [title@locale], split_by: [locale]}
      importer: [sku]
    shared:
      note: last_write_wins
      stock: {strategy: counter, group: stock, locking: lease}
";

async fn edit(session: &Session, changes: Changes) {
    let token = session.load(&product("42")).await.unwrap().unwrap().token;
    let save = session.save(&product("42")).token(token).changes(changes);
    saved(save.send().await.unwrap());
}

async fn gallery() -> (File, fieldlease::engine::Engine) {
    let file = File::new();
    let engine = file.builder(GALLERY).build().await.unwrap();
    let create = engine.editor("anna").create(&product("42")).set("name", "Chair");
    let create = create.set("prices", json!({"de": 10, "fr": 12}));
    let create = create.set("gallery.#keys", vec!["a", "b"]).set("gallery.a.caption", "front");
    saved(create.send().await.unwrap());
    (file, engine)
}

/// What stood above an item's values of one language goes out of sight with them.
#[tokio::test]
async fn a_removed_item_leaves_no_field_that_nobody_wrote() {
    let (_file, engine) = gallery().await;
    let anna = engine.editor("anna");
    edit(&anna, Changes::new().set("gallery.a.caption@locale=de", "vorn")).await;
    let shown = |loaded: fieldlease::engine::Loaded| {
        loaded.fields.keys().map(ToString::to_string).collect::<Vec<_>>()
    };
    let before = shown(anna.load(&product("42")).await.unwrap().unwrap());
    assert!(before.contains(&"gallery.a.caption@locale=de".to_owned()), "{before:?}");

    edit(&anna, Changes::new().unset("gallery.a.caption@locale=de")).await;
    let unset = shown(anna.load(&product("42")).await.unwrap().unwrap());
    edit(&anna, Changes::new().set("gallery.#keys", vec!["b"])).await;
    let removed = shown(anna.load(&product("42")).await.unwrap().unwrap());

    for after in [unset, removed] {
        assert!(!after.iter().any(|path| path.contains('@')), "{after:?}");
    }
}

/// A member that comes, goes or changes under a wildcard is an input that moved, also one that was not there when the
/// job read.
#[tokio::test]
async fn an_input_that_appears_under_a_wildcard_while_a_job_computes_makes_it_run_again() {
    let (file, engine) = gallery().await;
    let moves = [
        Changes::new().set("prices.it", 5),
        Changes::new().unset("prices.fr"),
        Changes::new().set("prices.de", 11),
    ];
    for (moved, total) in moves.into_iter().zip([27, 15, 16]) {
        let job = |job: Job| {
            let (anna, moved) = (engine.editor("anna"), moved.clone());
            async move {
                if job.attempt() == 1 {
                    edit(&anna, moved).await;
                }
                let prices = job.get("prices").unwrap();
                let prices = prices.as_object().unwrap().values();
                let total: i64 = prices.filter_map(|price| price.as_i64()).sum();
                Ok::<_, Error>(
                    Changes::new().set("total", format!("{total} in run {}", job.attempt())),
                )
            }
        };
        saved(engine.worker("adder").run(&product("42"), ["total"], job).await.unwrap());
        let stored = file.value(&product("42"), "total").await;
        assert_eq!(stored, json!(format!("{total} in run 2")));
    }
}

/// The same at the last moment: the commit is on its way when the member appears.
#[tokio::test]
async fn an_input_that_appears_under_a_wildcard_before_the_commit_arrives_refuses_it() {
    let hands = Hands::new();
    let process = hands.process_of(GALLERY, |_| {}, |builder| builder).await;
    let anna = process.engine.editor("anna");
    let create = anna.create(&product("42")).set("prices", json!({"de": 10}));
    saved(create.send().await.unwrap());
    let worker = process.engine.worker("adder");
    let claim = worker.claim(&product("42"), ["total"]).send().await.unwrap();
    let Claiming::Claimed(claim) = claim else { panic!("{claim:?}") };

    for apply in [false, true] {
        let loaded = anna.load(&product("42")).await.unwrap().unwrap();
        let gate = Gate::new();
        process.records().next(Op::Commit, Fault::HoldRequest(gate.clone()));
        let save = match apply {
            false => claim.save().set("total", 10),
            true => worker.apply(&product("42")).seen(&loaded).set("total", 10),
        };
        let save = tokio::spawn(save.send());
        hands.settle().await;
        edit(&anna, Changes::new().set(format!("prices.new{apply}"), 1)).await;
        gate.open();

        let outcome = save.await.unwrap().unwrap();
        assert_eq!(refused(outcome).why.code(), "stale_input", "{apply}");
    }
    assert_eq!(hands.file.value(&product("42"), "total").await, json!(null));
}

/// What else the editor changes is no input, and refuses nothing.
#[tokio::test]
async fn a_field_beside_the_inputs_that_changes_meanwhile_refuses_no_result() {
    let (file, engine) = gallery().await;

    let runs = std::sync::atomic::AtomicU32::new(0);
    let job = |_| {
        let (anna, runs) = (engine.editor("anna"), &runs);
        async move {
            runs.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            edit(&anna, Changes::new().set("name", "Stool").set("gallery.b.caption", "x")).await;
            Ok::<_, Error>(Changes::new().set("total", 22))
        }
    };
    saved(engine.worker("adder").run(&product("42"), ["total"], job).await.unwrap());

    assert_eq!(runs.into_inner(), 1);
    assert_eq!(file.value(&product("42"), "total").await, json!(22));
}

/// Whoever takes a computed field over says that its inputs do not matter.
#[tokio::test]
async fn a_computed_field_that_is_taken_over_is_written_whatever_became_of_its_inputs() {
    let (file, engine) = gallery().await;
    let anna = engine.editor("anna");
    let seen = anna.load(&product("42")).await.unwrap().unwrap();
    edit(&anna, Changes::new().set("prices.de", 11)).await;

    let save = anna.save(&product("42")).seen(&seen).set("total", 99);
    saved(save.force(["total"], "agreed by phone").send().await.unwrap());

    assert_eq!(file.value(&product("42"), "total").await, json!(99));
}

/// A scope that nobody has written yet is part of the record that is being deleted.
#[tokio::test]
async fn nobody_gets_any_lease_of_a_record_while_it_is_being_deleted() {
    let hands = Hands::new();
    let process = hands.process_of(GALLERY, |_| {}, |builder| builder).await;
    let anna = process.engine.editor("anna");
    saved(anna.create(&product("42")).set("name", "Chair").send().await.unwrap());
    let gate = Gate::new();
    process.records().next(Op::Commit, Fault::HoldRequest(gate.clone()));

    let delete = tokio::spawn(anna.delete(&product("42")).send());
    hands.settle().await;
    let mut busy = Vec::new();
    for scope in ["media", "translation[locale=fr]", "stock"] {
        let claim = process.engine.worker("w").claim(&product("42"), [scope]);
        let claim = claim.on_busy(OnBusy::Fail).send().await.unwrap();
        busy.push(matches!(claim, Claiming::Busy(_)));
    }
    gate.open();

    saved(delete.await.unwrap().unwrap());
    assert_eq!(busy, [true; 3]);
}

#[tokio::test]
async fn a_removed_item_takes_the_values_of_others_and_their_stamps_along() {
    let (file, engine) = gallery().await;
    let (anna, worker) = (engine.editor("anna"), engine.worker("thumbnailer"));
    let thumbs = |value: &str| {
        worker.save(&product("42")).set("gallery.a.thumb", value).set("gallery.b.thumb", value)
    };
    saved(thumbs("1").send().await.unwrap());
    let claim = worker.claim(&product("42"), ["media"]).send().await.unwrap();
    let Claiming::Claimed(claim) = claim else { panic!("{claim:?}") };

    edit(&anna, Changes::new().exclude("gallery.#keys", ["a"])).await;
    let partly = claim.save().set("gallery.a.thumb", "2").set("gallery.b.thumb", "2");
    let partly = saved(partly.send().await.unwrap());
    let whole = claim.save().set("gallery.a.thumb", "3").set("gallery.b.thumb", "3");
    let whole = refused(whole.all_or_nothing().send().await.unwrap());
    let nothing = refused(claim.save().set("gallery.a.thumb", "4").send().await.unwrap());

    let gone = partly.plan.decision(&path("gallery.a.thumb")).unwrap().code();
    assert_eq!(
        (gone, whole.why.code(), nothing.why.code()),
        ("parent_gone", "parent_gone", "parent_gone")
    );
    let loaded = anna.load(&product("42")).await.unwrap().unwrap();
    assert!(!loaded.snapshot.stamps.contains_key(&path("gallery.a.thumb")));
    assert!(!loaded.snapshot.stamps.contains_key(&path("gallery.a.caption")));
    assert_eq!(loaded.get("gallery.b.thumb"), Some(&json!("2")));
    let newest = &file.history(&product("42")).await[0];
    let Trace::Operation(detail) = &newest.trace else { panic!("{newest:?}") };
    assert_eq!(detail.left_out.get(&path("gallery.a.thumb")).unwrap(), "parent_gone");
    // An item of the same key is another item: nothing of the first is in it.
    edit(&anna, Changes::new().include("gallery.#keys", ["a"])).await;
    assert_eq!(file.value(&product("42"), "gallery.a.thumb").await, json!(null));
}

#[tokio::test]
async fn a_worker_that_may_creates_and_deletes_with_operation_records_only() {
    let file = File::new();
    let engine = file.builder(GALLERY).build().await.unwrap();
    let importer = engine.worker("importer");

    saved(importer.create(&product("42")).set("sku", "4711").send().await.unwrap());
    saved(
        engine.worker("t").save(&product("42")).set("title@locale=de", "x").send().await.unwrap(),
    );
    saved(importer.delete(&product("42")).send().await.unwrap());
    saved(importer.create(&product("42")).set("sku", "4712").send().await.unwrap());

    assert_eq!(file.counts(&product("42")).await, (0, 4));
    let save = engine.editor("anna").save(&product("42")).set("name", "Chair");
    assert_eq!(saved(save.send().await.unwrap()).version.unwrap().0, 1);
}

#[tokio::test]
async fn a_delete_waits_for_every_kind_of_holder_and_works_where_there_is_nothing_to_lease() {
    let (_file, engine) = gallery().await;
    let anna = engine.editor("anna");
    for scope in ["media", "translation[locale=de]", "stock"] {
        let claim = engine.worker("w").claim(&product("42"), [scope]).send().await.unwrap();
        let Claiming::Claimed(claim) = claim else { panic!("{claim:?}") };
        let delete = anna.delete(&product("42")).on_busy(OnBusy::Fail).send().await.unwrap();
        assert_eq!(delete.code(), "busy", "{scope}");
        claim.release().await;
    }
    saved(anna.delete(&product("42")).on_busy(OnBusy::Fail).send().await.unwrap());

    for text in [
        "field_ownership:\n  Product:\n    editor_owned: [name]\n",
        "field_ownership:\n  Product:\n    axes: {locale: any}\n    editor_owned: [name]\n    system_owned:\n      tr: {fields: [title@locale], split_by: [locale]}\n",
    ] {
        let file = File::new();
        let engine = file.builder(text).build().await.unwrap();
        let anna = engine.editor("anna");
        saved(anna.create(&product("42")).set("name", "x").send().await.unwrap());
        saved(anna.delete(&product("42")).send().await.unwrap());
        saved(anna.create(&product("42")).set("name", "y").send().await.unwrap());
        assert_eq!(file.counts(&product("42")).await, (3, 0));
    }
}

#[tokio::test]
async fn a_shared_field_with_a_lease_is_written_under_it_by_editors_and_workers_alike() {
    let (file, engine) = gallery().await;
    let (anna, worker) = (engine.editor("anna"), engine.worker("w"));
    let claim = worker.claim(&product("42"), ["stock", "media"]).send().await.unwrap();
    let Claiming::Claimed(claim) = claim else { panic!("{claim:?}") };

    let busy = anna.save(&product("42")).add("stock", 1).on_busy(OnBusy::Fail).send().await;
    let beside = anna.save(&product("42")).set("extra", "no lease is needed").send().await;
    saved(claim.save().add("stock", 2).set("note", "n").set("width", 3).send().await.unwrap());
    claim.release().await;
    let editor = anna.save(&product("42")).add("stock", 1).set("note", "m");
    let editor = saved(editor.send().await.unwrap());

    assert_eq!(busy.unwrap().code(), "busy");
    saved(beside.unwrap());
    assert!(editor.version.is_some());
    assert_eq!(file.value(&product("42"), "stock").await, json!(3));
    assert_eq!(engine.leases(None, None, 10).await.unwrap().0, vec![]);
}

/// Whatever is accepted can be read again: a record that cannot be loaded is worse than a refusal.
#[tokio::test]
async fn keys_and_values_of_every_kind_are_stored_whole_or_refused() {
    let (_file, engine) = gallery().await;
    let anna = engine.editor("anna");
    let mut deep_map = json!("end");
    let mut deep_list = json!("end");
    for _ in 0..150 {
        deep_map = json!({ "k": deep_map });
        deep_list = json!([deep_list]);
    }
    let values = [
        deep_map,
        deep_list,
        json!({"": 1, " ": 2, ".": 3, "a.b": 4, "#keys": 5, "@": 6, "\u{0}": 7, "*": 8, "\\e": 9}),
        json!({"x".repeat(300): 1}),
        json!({"x".repeat(250): {"y".repeat(250): {"z".repeat(250): {"w".repeat(250): {"v".repeat(250): 1}}}}}),
        json!({"a": {}, "b": [], "c": null, "d": [{"": {}}]}),
        json!([u64::MAX, i64::MIN, 1e308, -0.0, 0.1, "\u{10ffff}", ""]),
        json!({}),
        json!(null),
    ];
    let mut stored = 0;
    for value in values {
        let token = anna.load(&product("42")).await.unwrap().unwrap().token;
        let save = anna.save(&product("42")).token(token).set("extra", value.clone());
        match save.send().await {
            Ok(outcome) if outcome.code() == "applied" => {
                let loaded = anna.load(&product("42")).await.unwrap().unwrap();
                assert_eq!(loaded.get("extra"), Some(&value));
                stored += 1;
            }
            Ok(outcome) => assert_eq!(outcome.code(), "invalid", "{outcome:?}"),
            Err(error) => assert!(matches!(error, Error::Invalid { .. }), "{error:?}"),
        }
        engine.history(&product("42"), None, 100).await.unwrap();
    }
    assert!(stored >= 5, "{stored}");
}
