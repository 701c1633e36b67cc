//! Saves that wait for a lease, and events: order, exactly once, refusals, cancelling, and who is told what.

use std::sync::Arc;

use fieldlease::{
    commit::Trace,
    engine::{Claiming, Drained, Engine, Outcome, Session},
    error::Error,
    queue::{QueueStore, Told},
    registry::OnBusy,
    token::OperationId,
};
use serde_json::{Value as Json, json};
use tokio_util::sync::CancellationToken;

use super::support::{File, Hands, PRODUCT, created, product, refused, saved};

const RULES: &str = "\
field_ownership:
  Product:
    editor_owned: [name, images]
    system_owned:
      media: {fields: [thumbnail, width], on_busy: enqueue, ttl: 10s}
      price: {fields: [cost], on_busy: enqueue, ttl: 10s}
      preview: {fields: [preview], derived_from: [images], ttl: 10s}
    shared:
      count: {strategy: counter, group: counts, locking: lease, on_busy: enqueue, ttl: 10s}
";

struct Shop {
    file: File,
    engine: Engine,
}

async fn shop() -> Shop {
    let file = File::new();
    let engine = file.builder(RULES).build().await.unwrap();
    created(&engine.editor("anna"), &product("1")).await;
    Shop { file, engine }
}

fn operation(outcome: &Outcome) -> OperationId {
    match outcome {
        Outcome::Queued(queued) => queued.operation,
        other => panic!("not queued: {other:?}"),
    }
}

impl Shop {
    async fn hold(&self, scopes: &[&str]) -> fieldlease::engine::Claim {
        match self.engine.worker("holder").claim(&product("1"), scopes).send().await.unwrap() {
            Claiming::Claimed(claim) => claim,
            other => panic!("{other:?}"),
        }
    }

    fn worker(&self, name: &str) -> Session {
        self.engine.worker(name)
    }

    async fn set(&self, name: &str, field: &str, value: Json) -> Outcome {
        let worker = self.worker(name);
        let seen = worker.load(&product("1")).await.unwrap().unwrap();
        worker
            .save(&product("1"))
            .token(seen.token)
            .set(field, value)
            .job(name)
            .send()
            .await
            .unwrap()
    }

    async fn value(&self, field: &str) -> Json {
        self.file.value(&product("1"), field).await
    }

    async fn events(&self) -> Vec<Told> {
        self.engine.events(0, 100).await.unwrap()
    }
}

fn drained(applied: usize, refused: usize, waiting: usize) -> Drained {
    Drained { applied, refused, unchanged: 0, waiting }
}

#[tokio::test]
async fn a_save_that_finds_its_lease_held_waits_and_is_made_once_when_it_is_free() {
    let shop = shop().await;
    let claim = shop.hold(&["media"]).await;

    let queued = shop.set("w", "thumbnail", json!("a.webp")).await;
    let Outcome::Queued(place) = &queued else { panic!("{queued:?}") };
    assert_eq!((place.place, queued.code()), (1, "queued"));
    assert_eq!(shop.engine.drain_queue().await.unwrap(), drained(0, 0, 1));
    assert_eq!(shop.value("thumbnail").await, Json::Null);
    let waiting = shop.engine.queue(Some(&product("1")), 0, 10).await.unwrap();
    assert_eq!((waiting.len(), waiting[0].operation), (1, place.operation));
    claim.release().await;
    assert_eq!(shop.engine.drain_queue().await.unwrap(), drained(1, 0, 0));

    assert_eq!(shop.engine.drain_queue().await.unwrap(), Drained::default());
    assert_eq!(shop.value("thumbnail").await, json!("a.webp"));
    let entry = &shop.file.history(&product("1")).await[0];
    assert_eq!((entry.operation, &*entry.writer.name), (place.operation, "w"));
    let Trace::Operation(detail) = &entry.trace else { panic!() };
    assert_eq!(detail.job.as_deref(), Some("w"));
    assert!(shop.engine.queue(None, 0, 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn saves_of_one_scope_run_in_the_order_they_came_and_a_conflict_lets_the_next_one_go_on() {
    let shop = shop().await;
    let claim = shop.hold(&["media"]).await;
    let first = operation(&shop.set("a", "thumbnail", json!("a")).await);
    let second = operation(&shop.set("b", "thumbnail", json!("b")).await);
    let third = operation(&shop.set("c", "width", json!(3)).await);
    let places: Vec<u64> =
        shop.engine.queue(None, 0, 9).await.unwrap().iter().map(|i| i.place).collect();
    assert!(places.is_sorted() && places.len() == 3);
    claim.release().await;

    let stop = CancellationToken::new();
    let run = tokio::spawn({
        let (engine, stop) = (shop.engine.clone(), stop.clone());
        async move { engine.run_queue(stop).await }
    });
    while !shop.engine.queue(None, 0, 9).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    stop.cancel();
    run.await.unwrap();

    // `b` had seen no thumbnail, and there is one by now.
    assert_eq!((shop.value("thumbnail").await, shop.value("width").await), (json!("a"), json!(3)));
    let made: Vec<OperationId> =
        shop.file.history(&product("1")).await.iter().map(|entry| entry.operation).collect();
    assert_eq!(made[..2], [third, first]);
    let told = shop.events().await;
    let refused: Vec<&Told> = told.iter().filter(|told| told.kind == "queue_refused").collect();
    assert_eq!((refused.len(), refused[0].operation), (1, second));
    assert_eq!(refused[0].body["code"], "conflict");
}

#[tokio::test]
async fn a_save_of_two_scopes_is_behind_both_and_keeps_its_place_in_both() {
    let shop = shop().await;
    let (media, price) = (shop.hold(&["media"]).await, shop.hold(&["price"]).await);
    operation(&shop.set("a", "thumbnail", json!("a")).await);
    let worker = shop.worker("b");
    let token = worker.load(&product("1")).await.unwrap().unwrap().token;
    let both = worker.save(&product("1")).token(token).set("width", 1).set("cost", 1);
    let Outcome::Queued(both) = both.send().await.unwrap() else { panic!() };
    let behind = shop.set("c", "cost", json!(2)).await;
    assert_eq!(both.place, 2);

    price.release().await;
    // `media` is held: what waits for both cannot run, and what is behind it does not pass.
    assert_eq!(shop.engine.drain_queue().await.unwrap(), drained(0, 0, 1));
    assert_eq!(shop.value("cost").await, Json::Null);
    media.release().await;
    for _ in 0..3 {
        shop.engine.drain_queue().await.unwrap();
    }
    assert_eq!(shop.value("cost").await, json!(1));
    assert_eq!(shop.events().await.last().unwrap().operation, operation(&behind));
}

#[tokio::test]
async fn a_cancelled_save_never_runs_and_a_save_that_ran_cannot_be_cancelled() {
    let shop = shop().await;
    let claim = shop.hold(&["media"]).await;
    let first = operation(&shop.set("a", "thumbnail", json!("a")).await);
    let second = operation(&shop.set("b", "width", json!(2)).await);

    assert!(shop.engine.cancel_queued(first).await.unwrap());
    assert!(!shop.engine.cancel_queued(first).await.unwrap());
    claim.release().await;
    shop.engine.drain_queue().await.unwrap();

    assert!(!shop.engine.cancel_queued(second).await.unwrap());
    assert_eq!((shop.value("thumbnail").await, shop.value("width").await), (Json::Null, json!(2)));
    let kinds: Vec<String> = shop.events().await.iter().map(|told| told.kind.clone()).collect();
    assert!(kinds.contains(&"queue_cancelled".to_owned()), "{kinds:?}");
}

/// Two processes over one file run the same queue: every count is there once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn several_processes_that_run_one_queue_make_every_save_once() {
    let shop = shop().await;
    let other = shop.file.builder(RULES).build().await.unwrap();
    let claim = shop.hold(&["counts"]).await;
    for _ in 0..40 {
        let outcome = shop.worker("w").save(&product("1")).add("count", 1).send().await.unwrap();
        operation(&outcome);
    }
    claim.release().await;

    let (one, two) = (shop.engine.clone(), other.clone());
    let drain = |engine: Engine| async move {
        while !engine.queue(None, 0, 1).await.unwrap().is_empty() {
            engine.drain_queue().await.unwrap();
        }
    };
    let both = (tokio::spawn(drain(one)), tokio::spawn(drain(two)));
    both.0.await.unwrap();
    both.1.await.unwrap();

    assert_eq!(shop.value("count").await, json!(40));
    assert!(shop.events().await.iter().all(|told| told.kind != "queue_refused"));
}

#[tokio::test]
async fn an_editor_is_never_queued_and_a_store_without_a_queue_says_so() {
    let shop = shop().await;
    let anna = shop.engine.editor("anna").save(&product("1")).set("name", "x");
    let error = anna.on_busy(OnBusy::Enqueue).send().await.unwrap_err();
    assert_eq!(error.code(), "enqueue_editor");

    let hands = Hands::new();
    let process = hands.process_of(PRODUCT, |_| {}, |builder| builder).await;
    let none = process.engine.drain_queue().await.unwrap_err();
    assert!(matches!(none, Error::NotYet { .. }), "{none:?}");
}

#[tokio::test]
async fn whoever_changes_an_input_tells_in_its_own_commit_who_has_to_compute_again() {
    let shop = shop().await;
    let anna = shop.engine.editor("anna");
    let before = shop.events().await.len();
    let token = anna.load(&product("1")).await.unwrap().unwrap().token;
    let name = saved(anna.save(&product("1")).token(token).set("name", "x").send().await.unwrap());
    assert_eq!(shop.events().await.len(), before);
    let old = shop.worker("p").load(&product("1")).await.unwrap().unwrap();
    let images = anna.save(&product("1")).token(name.token).set("images", vec!["n.jpg"]);
    let images = saved(images.send().await.unwrap());

    let told = shop.events().await.pop().unwrap();
    assert_eq!((told.kind.as_str(), told.operation), ("requeue", images.operation));
    let inputs = json!({"images": images.operation});
    assert_eq!(told.body, json!({"group": "preview", "inputs": inputs, "reason": "input_changed"}));
    // A result of the former images is dropped, and that is told too.
    let stale = shop.worker("p").apply(&product("1")).seen(&old).set("preview", "old");
    assert_eq!(refused(stale.send().await.unwrap()).why.code(), "stale_input");
    let told = shop.events().await.pop().unwrap();
    assert_eq!(told.body, json!({"group": "preview", "inputs": inputs, "reason": "stale_result"}));
    // A refused save tells nothing of inputs it did not change.
    let count = shop.events().await.len();
    let lost = anna.save(&product("1")).set("images", vec!["z.jpg"]).send().await.unwrap();
    assert_eq!(refused(lost).why.code(), "conflict");
    assert_eq!(shop.events().await.len(), count);
}

#[tokio::test]
async fn a_reader_goes_on_where_it_acknowledged_and_never_back() {
    let shop = shop().await;
    for round in 0..5 {
        let anna = shop.engine.editor("anna");
        let token = anna.load(&product("1")).await.unwrap().unwrap().token;
        let save = anna.save(&product("1")).token(token).set("images", vec![round.to_string()]);
        saved(save.send().await.unwrap());
    }
    let all = shop.events().await;
    let numbers: Vec<u64> = all.iter().map(|told| told.event).collect();
    assert!(numbers.is_sorted() && numbers.len() >= 5);

    assert_eq!(shop.engine.acknowledge("r", None).await.unwrap(), 0);
    assert_eq!(shop.engine.acknowledge("r", Some(numbers[2])).await.unwrap(), numbers[2]);
    assert_eq!(shop.engine.acknowledge("r", Some(1)).await.unwrap(), numbers[2]);
    let rest = shop.engine.events(numbers[2], 100).await.unwrap();
    assert_eq!(rest, all[3..]);
    let store: &Arc<_> = &shop.file.store;
    assert!(store.ready(0, 10).await.unwrap().is_empty());
}
