//! A worker that keeps its runtime busy for longer than its lease still holds it: renewals have a thread of their own.

use std::{sync::Arc, time::Duration};

use fieldlease::{
    clock::{Clock, SystemClock},
    engine::Engine,
    hold::{Background, Settings},
    lease::memory::MemoryLeases,
};
use serde_json::json;

use crate::{
    child::claimed,
    killed_holder::file,
    support::{PRODUCT, product, registry_of, saved},
};

const TTL: Duration = Duration::from_millis(900);

async fn engine(background: Background) -> (crate::support::File, Engine) {
    let (file, _) = file().await;
    let clock = Arc::new(SystemClock);
    let builder = Engine::builder(registry_of(PRODUCT)).source(PRODUCT).store(file.store.clone());
    let settings = Settings { background, ..Settings::default() };
    let builder = builder.leases(Arc::new(MemoryLeases::new(clock))).lease_settings(settings);
    (file, builder.build().await.unwrap())
}

/// Nothing else runs on this runtime until it returns.
fn busy() {
    let end = SystemClock.now().plus(3 * TTL);
    while SystemClock.now() < end {
        std::hint::spin_loop();
    }
}

#[tokio::test]
async fn a_worker_that_blocks_its_runtime_keeps_its_lease() {
    let (file, engine) = engine(Background::Thread).await;
    let claim = claimed(&engine.worker("busy"), Some(TTL)).await;

    busy();

    assert!(!claim.lost().is_cancelled());
    saved(claim.save().set("thumbnail", "done").send().await.unwrap());
    assert_eq!(file.value(&product("42"), "thumbnail").await, json!("done"));
}

/// The control: with renewals on the blocked runtime the lease is lost, its holder told, and nothing written.
#[tokio::test]
async fn without_a_thread_for_renewals_the_lease_is_lost_and_nothing_is_written() {
    let (file, engine) = engine(Background::Runtime).await;
    let claim = claimed(&engine.worker("busy"), Some(TTL)).await;

    busy();
    let outcome = claim.save().set("thumbnail", "late").send().await.unwrap();

    assert_eq!(outcome.code(), "lost");
    assert!(claim.lost().is_cancelled());
    assert_eq!(file.value(&product("42"), "thumbnail").await, json!(null));
}
