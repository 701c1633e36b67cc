//! Waiting saves and events of whole engines on one database.

use std::sync::Arc;

use fieldlease::{
    clock::SystemClock,
    engine::{Claiming, Engine, Outcome},
    entity::Value,
    lease::memory::MemoryLeases,
    registry::{self, Limits},
    store::{RecordStore, mysql::MysqlStore},
    strategy::Strategies,
};
use serde_json::json;

use super::{database, save::*};

const RULES: &str = "\
field_ownership:
  Product:
    editor_owned: [name, images]
    system_owned:
      preview: {fields: [preview], derived_from: [images], ttl: 10s}
    shared:
      count: {strategy: counter, group: counts, locking: lease, on_busy: enqueue, ttl: 10s}
";

async fn engine(store: &Arc<MysqlStore>, leases: &Arc<MemoryLeases>) -> Engine {
    let (rules, _) = registry::load(RULES.as_bytes(), &Strategies::standard(), &Limits::default());
    let builder = Engine::builder(Arc::new(rules.unwrap())).source(RULES).store(store.clone());
    builder.leases(leases.clone()).build().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn engines_that_run_one_queue_make_every_save_once_and_tell_of_inputs_in_their_commits() {
    let (database, store) = database::fresh().await;
    let leases = Arc::new(MemoryLeases::new(Arc::new(SystemClock)));
    let (one, two) = (engine(&store, &leases).await, engine(&store, &leases).await);
    let anna = one.editor("anna");
    let made = anna.create(&product("1")).set("name", "Chair").send().await.unwrap();
    assert_eq!(made.code(), "applied");
    let holder = one.worker("holder").claim(&product("1"), ["counts"]).send().await.unwrap();
    let Claiming::Claimed(claim) = holder else { panic!("{holder:?}") };
    for _ in 0..30 {
        let queued = one.worker("w").save(&product("1")).add("count", 1).send().await.unwrap();
        assert!(matches!(queued, Outcome::Queued(_)), "{queued:?}");
    }
    let waiting = one.drain_queue().await.unwrap();
    assert_eq!((waiting.applied, waiting.refused), (0, 0));
    claim.release().await;

    let drain = |engine: Engine| async move {
        while !engine.queue(None, 0, 1).await.unwrap().is_empty() {
            engine.drain_queue().await.unwrap();
        }
    };
    let both = (tokio::spawn(drain(one.clone())), tokio::spawn(drain(two)));
    both.0.await.unwrap();
    both.1.await.unwrap();

    let after = store.load(&product("1")).await.unwrap().unwrap();
    assert_eq!(after.record.get(&path("count")), Value::Present(json!(30)));
    assert_eq!(database.number("SELECT COUNT(*) FROM fl_queue_scope"), 0);
    let before = one.events(0, 100).await.unwrap();
    let token = anna.load(&product("1")).await.unwrap().unwrap().token;
    let saved = anna.save(&product("1")).token(token).set("images", vec!["n.jpg"]).send().await;
    let Outcome::Applied(saved) = saved.unwrap() else { panic!() };
    let told = one.events(before.last().map_or(0, |told| told.event), 100).await.unwrap();
    let inputs = json!({ "images": saved.operation });
    assert_eq!((told.len(), told[0].operation), (1, saved.operation));
    let body = json!({"group": "preview", "inputs": inputs, "reason": "input_changed"});
    assert_eq!(told[0].body, body);
}
