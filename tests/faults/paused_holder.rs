//! A holder that is stopped for longer than its lease writes nothing afterwards, and a save that is stopped inside
//! the database is whole before anybody else decides anything.

use fieldlease::{engine::Claiming, scope::ScopeName};
use serde_json::json;

use crate::{
    child::{Other, TTL, claimed, engine},
    killed_holder::{file, slow_down, speed_up, until_writing},
    pause,
    support::{product, saved},
};

/// When the successor writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Successor {
    /// There is none.
    None,
    /// After the old holder has tried: its claim alone must stand in the way.
    WritesAfter,
    WritesBefore,
}

/// The store refuses a save that was on its way; one that was not sent yet is not sent.
async fn paused_beyond_its_lease(role: &str, successor: Successor) {
    let (file, path) = file().await;
    let chair = product("42");
    let mut old = Other::start(role, &path);
    old.heard("reached");
    old.signal("STOP");
    pause(TTL * 2);

    let (engine, _) = engine(&path).await;
    let mut claim = None;
    if successor != Successor::None {
        claim = Some(claimed(&engine.worker("second"), None).await);
    }
    let write = async |claim: &fieldlease::engine::Claim| {
        saved(claim.save().set("thumbnail", "second").send().await.unwrap());
    };
    if let (Some(claim), Successor::WritesBefore) = (&claim, successor) {
        write(claim).await;
    }
    old.signal("CONT");
    old.go();
    let lost = old.heard("lost");
    let outcome = old.heard("outcome");
    if let (Some(claim), Successor::WritesAfter) = (&claim, successor) {
        assert_eq!(file.value(&chair, "thumbnail").await, json!(null), "nothing was written");
        write(claim).await;
    }

    let sent = usize::from(role.ends_with("on the way"));
    assert_eq!(outcome, format!("lost {sent}"), "{role}, {successor:?}");
    assert!(matches!(lost.as_str(), "Expired" | "NotOurs" | "Fenced"), "{lost}");
    let expected = if successor == Successor::None { json!(null) } else { json!("second") };
    assert_eq!(file.value(&chair, "thumbnail").await, expected);
    assert_eq!(file.counts(&chair).await, (1, usize::from(successor != Successor::None)));
    // It may take the lease again and repeat its work.
    if let Some(claim) = claim {
        claim.release().await;
    }
    old.go();
    assert_eq!(old.heard("again"), "applied");
    assert_eq!(file.value(&chair, "thumbnail").await, json!("first again"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_save_on_its_way_is_refused_in_the_instant_before_the_successors_first_write() {
    paused_beyond_its_lease("paused with its save on the way", Successor::WritesAfter).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_save_on_its_way_is_refused_after_the_successors_first_write() {
    paused_beyond_its_lease("paused with its save on the way", Successor::WritesBefore).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_save_not_sent_yet_is_not_sent_when_there_is_a_successor() {
    paused_beyond_its_lease("paused before it saves", Successor::WritesAfter).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_save_not_sent_yet_is_not_sent_even_if_nobody_else_wants_the_lease() {
    paused_beyond_its_lease("paused before it saves", Successor::None).await;
}

/// The control: without the fence in the statement, the database takes what the old holder sends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_fence_predicate_a_save_on_its_way_would_be_written() {
    let (file, path) = file().await;
    let mut old = Other::start("paused, unfenced, with its save on the way", &path);
    old.heard("reached");
    old.signal("STOP");
    pause(TTL * 2);
    let (engine, _) = engine(&path).await;
    let claim = claimed(&engine.worker("second"), None).await;

    old.signal("CONT");
    old.go();
    old.heard("outcome");

    assert_eq!(file.value(&product("42"), "thumbnail").await, json!("first"));
    drop(claim);
}

/// Between the comparison of the fence and the commit there is no window: both are one transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_save_paused_between_fence_check_and_commit_lets_nobody_claim_in_between() {
    let (file, path) = file().await;
    let media = ScopeName::parse("media").unwrap();
    let (engine, _) = engine(&path).await;
    let second = engine.worker("second");
    slow_down(&path, 5_000_000);
    let first = Other::start("stops Never", &path);
    first.heard("reached");
    until_writing(&path);
    first.signal("STOP");

    let in_between = second.claim(&product("42"), ["media"]).send().await;
    first.signal("CONT");
    let outcome = first.heard("outcome");
    speed_up(&path);
    let claim = match second.claim(&product("42"), ["media"]).send().await.unwrap() {
        Claiming::Claimed(claim) => claim,
        other => panic!("{other:?}"),
    };

    assert_eq!(in_between.unwrap_err().code(), "unavailable");
    assert_eq!(outcome, "applied");
    assert_eq!(claim.get("thumbnail"), Some(json!("first")), "the claim sees the whole save");
    assert_eq!(claim.record().version(&media).0, 1);
    assert_eq!(file.counts(&product("42")).await, (1, 1));
}
