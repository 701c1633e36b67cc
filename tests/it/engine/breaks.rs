//! Leases broken by an operator, and holders that do not hear of it.

use std::time::Duration;

use fieldlease::{
    engine::{Claim, Claiming},
    registry::OnBusy,
    scope::ScopeName,
    testing::{Fault, Gate, flaky::Op},
};
use serde_json::json;

use super::support::{ByHand, Hands, created, product, saved};

async fn claimed(process: &ByHand, name: &str) -> Claim {
    let session = process.engine.worker(name);
    match session.claim(&product("42"), ["media"]).on_busy(OnBusy::Fail).send().await.unwrap() {
        Claiming::Claimed(claim) => claim,
        other => panic!("not claimed: {other:?}"),
    }
}

/// Its time to live has not passed, and no message reaches it: only asking the lease store tells.
#[tokio::test]
async fn a_holder_that_does_not_hear_that_its_lease_was_broken_writes_no_more() {
    for (successor_claims, successor_writes) in [(false, false), (true, false), (true, true)] {
        let hands = Hands::new();
        let (deaf, other) = (hands.deaf_process().await, hands.process().await);
        let chair = product("42");
        created(&other.engine.editor("anna"), &chair).await;
        let held = claimed(&deaf, "deaf").await;
        let media = ScopeName::parse("media").unwrap();

        let broken = other.engine.break_lease(&chair, &media, "it hangs").await.unwrap();
        let next = if successor_claims { Some(claimed(&other, "next").await) } else { None };
        if let Some(next) = next.as_ref().filter(|_| successor_writes) {
            saved(next.save().set("thumbnail", "next").send().await.unwrap());
        }
        let late = held.save().set("thumbnail", "deaf").send().await.unwrap();
        let again = held.save().set("thumbnail", "deaf").send().await.unwrap();

        assert_eq!(&*broken.unwrap().label, "deaf");
        assert_eq!((late.code(), again.code()), ("lost", "lost"), "{successor_claims}");
        assert!(held.lost().is_cancelled());
        if let Some(next) = next {
            let save = saved(next.save().set("width", 1).send().await.unwrap());
            assert_eq!(save.retries, 0, "the successor's claim was left alone");
        }
        assert_ne!(hands.file.value(&chair, "thumbnail").await, json!("deaf"));
    }
}

#[tokio::test]
async fn a_lease_store_that_does_not_answer_does_not_keep_a_displaced_holder_waiting() {
    let hands = Hands::new();
    let (a, b) = (hands.deaf_process().await, hands.process().await);
    let chair = product("42");
    created(&b.engine.editor("anna"), &chair).await;
    let held = claimed(&a, "a").await;
    let media = ScopeName::parse("media").unwrap();
    b.engine.break_lease(&chair, &media, "it hangs").await.unwrap();
    a.leases.script().always(Op::Inspect, Fault::LoseRequest);
    a.leases.script().always(Op::Renew, Fault::LoseRequest);

    let save = tokio::spawn(held.save().set("thumbnail", "a").send());
    hands.pass(Duration::from_secs(12)).await;

    assert!(save.is_finished(), "it waits for the lease store for ever");
    assert_ne!(save.await.unwrap().map(|outcome| outcome.code()).unwrap_or("error"), "applied");
}

/// The holder claims again between the two steps of a break, under a lease that is still there.
#[tokio::test]
async fn a_holder_that_claims_again_in_the_midst_of_a_break_is_shut_out_at_its_end() {
    let hands = Hands::new();
    let (deaf, other) = (hands.deaf_process().await, hands.process().await);
    let chair = product("42");
    created(&other.engine.editor("anna"), &chair).await;
    let held = claimed(&deaf, "deaf").await;
    let gate = Gate::new();
    other.leases.script().next(Op::BreakLease, Fault::HoldRequest(gate.clone()));
    let (engine, entity) = (other.engine.clone(), chair.clone());
    let media = ScopeName::parse("media").unwrap();
    let broken = tokio::spawn(async move { engine.break_lease(&entity, &media, "it hangs").await });
    hands.settle().await;

    let midst = saved(held.save().set("thumbnail", "midst").send().await.unwrap());
    gate.open();
    broken.await.unwrap().unwrap();
    let after = held.save().set("thumbnail", "after").send().await.unwrap();

    assert_eq!(midst.retries, 1, "the first step had voided its claim");
    assert_eq!(after.code(), "lost");
    assert_eq!(hands.file.value(&chair, "thumbnail").await, json!("midst"));
}
