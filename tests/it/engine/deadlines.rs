//! What takes too long: rules not in effect yet, predecessors, waiting at a shutdown, a runtime that ends.

use std::time::Duration;

use fieldlease::{
    engine::{Changes, Claiming, Engine, OnChangedRegistry},
    entity::EntityType,
    error::Error,
    registry::OnBusy,
    store::RegistryStore,
    testing::{Fault, Gate, flaky::Op},
};
use serde_json::json;

use super::support::{File, Hands, PRODUCT, created, product, saved};

const HOUR: Duration = Duration::from_secs(3_600);

fn with_more() -> String {
    PRODUCT.replace("images]\n", "images, video]\n")
}

/// The store goes by the wall clock, so the rules of an hour from now stay out of effect here.
#[tokio::test]
async fn rules_that_take_long_to_take_effect_end_a_save_at_its_deadline() {
    let hands = Hands::new();
    created(&hands.process().await.engine.editor("anna"), &product("42")).await;
    let later = |builder: fieldlease::engine::EngineBuilder| {
        builder.on_changed_registry(OnChangedRegistry::Activate).activation_delay(HOUR)
    };
    let process = hands.process_of(&with_more(), |_| {}, later).await;
    let (anna, worker) = (process.engine.editor("anna"), process.engine.worker("w"));

    let chair = product("42");
    let editor = tokio::spawn(anna.save(&chair).set("video", "v").send());
    let leased = tokio::spawn(worker.save(&chair).set("thumbnail", "t").send());
    let claim = tokio::spawn(worker.claim(&chair, ["search"]).send());
    for _ in 0..150 {
        hands.pass(Duration::from_millis(100)).await;
    }

    assert!(editor.is_finished() && leased.is_finished() && claim.is_finished());
    assert_eq!(editor.await.unwrap().unwrap_err().code(), "unavailable");
    assert_eq!(leased.await.unwrap().unwrap_err().code(), "unavailable");
    assert_eq!(claim.await.unwrap().unwrap_err().code(), "unavailable");
    assert_eq!(process.engine.leases(None, None, 10).await.unwrap().0, vec![]);
}

#[tokio::test]
async fn a_run_that_begins_while_its_rules_take_effect_waits_for_them() {
    let file = File::new();
    created(&file.engine().await.editor("anna"), &product("42")).await;
    let next = file.builder(&with_more()).on_changed_registry(OnChangedRegistry::Activate);
    let next = next.activation_delay(Duration::from_millis(300)).build().await.unwrap();

    let job = |_| async { Ok::<_, Error>(Changes::new().set("thumbnail", "t")) };
    saved(next.worker("w").run(&product("42"), ["media"], job).await.unwrap());
}

#[tokio::test]
async fn a_start_that_is_refused_puts_nothing_in_force() {
    let file = File::new();
    file.engine().await;
    let text = format!("{}  Album:\n    editor_owned: [title]\n", with_more());

    let refused = file.builder(&text).build().await.err().unwrap();

    assert_eq!(refused.code(), "registry_changed");
    let album = EntityType::new("Album").unwrap();
    assert!(file.store.active(&album).await.unwrap().is_none());
}

#[tokio::test]
async fn a_save_that_waited_for_the_one_before_it_has_its_whole_time() {
    let hands = Hands::new();
    let process = hands.process().await;
    let chair = product("42");
    created(&process.engine.editor("anna"), &chair).await;
    let worker = process.engine.worker("w");
    let claim = worker.claim(&chair, ["search"]).send().await.unwrap();
    let Claiming::Claimed(claim) = claim else { panic!("{claim:?}") };
    let gates = [Gate::new(), Gate::new()];
    for gate in &gates {
        process.records().next(Op::Commit, Fault::HoldRequest(gate.clone()));
    }

    let first = tokio::spawn(claim.save().set("searchIndex", "1").send());
    hands.settle().await;
    let second = tokio::spawn(claim.save().set("searchIndex", "2").send());
    hands.pass(Duration::from_secs(8)).await;
    gates[0].open();
    hands.pass(Duration::from_secs(8)).await;
    gates[1].open();

    saved(first.await.unwrap().unwrap());
    saved(second.await.unwrap().unwrap());
    assert_eq!(hands.file.value(&chair, "searchIndex").await, json!("2"));
}

#[tokio::test]
async fn a_shutdown_does_not_spend_its_time_on_a_save_that_waits_for_a_lease_of_this_process() {
    let hands = Hands::new();
    let process = hands.process().await;
    let chair = product("42");
    created(&process.engine.editor("anna"), &chair).await;
    let worker = process.engine.worker("w");
    let claim = worker.claim(&chair, ["media"]).send().await.unwrap();
    let wait = OnBusy::Wait(Duration::from_secs(60));
    let other = process.engine.worker("other").save(&chair).set("thumbnail", "t").on_busy(wait);
    let other = tokio::spawn(other.send());
    hands.settle().await;

    let engine = process.engine.clone();
    let shutdown = tokio::spawn(async move { engine.shutdown(Duration::from_secs(5)).await });
    hands.pass(Duration::from_secs(6)).await;
    let report = shutdown.await.unwrap();

    assert_eq!(other.await.unwrap().unwrap_err().code(), "unavailable");
    assert_eq!(report.failed, 0, "{report:?}");
    assert_eq!(process.engine.leases(None, None, 10).await.unwrap().0, vec![]);
    drop(claim);
}

/// The commit is on its way when the runtime of the save ends: nobody can say that nothing was done.
#[test]
fn a_runtime_that_ends_during_a_commit_leaves_its_outcome_unknown() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (own, other) = (runtime(), runtime());
    let (hands, process) = other.block_on(async {
        let hands = Hands::new();
        let process = hands.process().await;
        created(&process.engine.editor("anna"), &product("42")).await;
        (hands, process)
    });
    let gate = Gate::new();
    process.records().next(Op::Commit, Fault::HoldReply(gate.clone()));
    let loaded = other.block_on(process.engine.editor("anna").load(&product("42")));
    let token = loaded.unwrap().unwrap().token;
    let save = process.engine.editor("anna").save(&product("42")).token(token).set("name", "Stool");
    let handle = own.handle().clone();
    let caller = std::thread::spawn(move || handle.block_on(save.send()));
    other.block_on(async {
        while hands.file.value(&product("42"), "name").await != json!("Stool") {
            tokio::task::yield_now().await;
        }
    });

    own.shutdown_background();
    let error = caller.join().unwrap().unwrap_err();

    let Error::OutcomeUnknown(operation) = error else { panic!("{error:?}") };
    let newest = other.block_on(hands.file.history(&product("42")));
    assert_eq!(newest[0].operation, operation);
}

#[tokio::test]
async fn an_engine_that_is_dropped_while_a_save_runs_finishes_the_save() {
    let file = File::new();
    let chair = product("42");
    let engine: Engine = file.engine().await;
    let token = created(&engine.editor("anna"), &chair).await;
    let save = engine.editor("anna").save(&chair).token(token).set("name", "Stool");
    let save = tokio::spawn(save.send());
    tokio::task::yield_now().await;

    drop(engine);

    saved(save.await.unwrap().unwrap());
    assert_eq!(file.value(&chair, "name").await, json!("Stool"));
}
