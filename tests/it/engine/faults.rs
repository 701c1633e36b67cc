//! Pauses, late messages and lost answers: what the store accepts, and from whom.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Waker},
    time::Duration,
};

use fieldlease::{
    engine::{Claim, Claiming, Engine},
    error::Error,
    registry::OnBusy,
    store::sqlite::{SqliteOptions, Statements},
    testing::{Fault, Gate, flaky::Op},
};
use serde_json::{Value as Json, json};

use super::support::{ByHand, File, Hands, created, product, refused, saved};

const MEDIA: [&str; 1] = ["media"];
/// The time to live of `media` is 2 s.
const BEYOND_TTL: Duration = Duration::from_secs(3);

async fn claimed(process: &ByHand, name: &str) -> Claim {
    let session = process.engine.worker(name);
    match session.claim(&product("42"), MEDIA).on_busy(OnBusy::Fail).send().await.unwrap() {
        Claiming::Claimed(claim) => claim,
        other => panic!("not claimed: {other:?}"),
    }
}

/// The old holder's save is on its way when its machine stops; it arrives after a successor has claimed: before the
/// successor writes anything, or after that. Answers what became of the old save, and what is stored once it arrived.
async fn paused_holder(hands: &Hands, successor_writes_first: bool) -> (&'static str, Json) {
    let (old, new) = (hands.process().await, hands.process().await);
    let chair = product("42");
    created(&old.engine.editor("anna"), &chair).await;
    let old_claim = claimed(&old, "old").await;
    let (renewal, on_its_way) = (Gate::new(), Gate::new());
    old.leases.script().always(Op::Renew, Fault::HoldRequest(renewal.clone()));
    old.records().next(Op::Commit, Fault::HoldRequest(on_its_way.clone()));
    let old_save = tokio::spawn(old_claim.save().set("thumbnail", "old").send());
    hands.pass(BEYOND_TTL).await;

    let new_claim = claimed(&new, "new").await;
    if successor_writes_first {
        saved(new_claim.save().set("thumbnail", "new").send().await.unwrap());
    }
    on_its_way.open();
    let old_outcome = old_save.await.unwrap().unwrap().code();
    let stored = hands.file.value(&chair, "thumbnail").await;

    if old_outcome == "lost" {
        assert!(old_claim.lost().is_cancelled());
        assert_eq!(old_claim.save().set("width", 1).send().await.unwrap().code(), "lost");
        let last = saved(new_claim.save().set("thumbnail", "last").send().await.unwrap());
        assert_eq!(last.retries, 0);
    }
    new_claim.release().await;
    renewal.open();
    (old_outcome, stored)
}

#[tokio::test]
async fn a_holder_paused_beyond_its_lease_is_refused_before_and_after_its_successors_first_write() {
    assert_eq!(paused_holder(&Hands::new(), false).await, ("lost", json!(null)));
    assert_eq!(paused_holder(&Hands::new(), true).await, ("lost", json!("new")));
}

/// The negative control: what the fence and holder in the statement are there for.
#[tokio::test]
async fn without_fence_and_holder_compared_the_paused_holders_write_goes_through() {
    let text = include_str!("../../backends/unfenced/no_claim_compared.sql");
    let options = || SqliteOptions::default().statements(Statements::with(text).unwrap());
    let before = Hands::on(File::with(options()));

    assert_eq!(paused_holder(&before, false).await, ("applied", json!("old")));
}

/// A is granted and stalls; its lease expires; B is granted and claims; then A's claim arrives (RULES 11, 12).
#[tokio::test]
async fn a_claim_that_arrives_late_is_not_used_and_the_live_holder_sends_the_same_values_again() {
    let hands = Hands::new();
    let (a, b) = (hands.process().await, hands.process().await);
    let chair = product("42");
    created(&a.engine.editor("anna"), &chair).await;
    let (renewal, late) = (Gate::new(), Gate::new());
    a.leases.script().always(Op::Renew, Fault::HoldRequest(renewal));
    a.records().next(Op::Claim, Fault::HoldRequest(late.clone()));
    let a_session = a.engine.worker("a");
    let a_claim = tokio::spawn(a_session.claim(&chair, MEDIA).send());
    hands.pass(BEYOND_TTL).await;

    let b_claim = claimed(&b, "b").await;
    let fences = b_claim.fences();
    late.open();
    let a_claim = a_claim.await.unwrap().unwrap();
    let b_save = saved(b_claim.save().set("thumbnail", "b").send().await.unwrap());

    assert!(matches!(a_claim, Claiming::Lost(_)), "{a_claim:?}");
    assert_eq!(b_save.retries, 1);
    assert!(b_claim.fences() > fences, "B has claimed again");
    assert_eq!(hands.file.value(&chair, "thumbnail").await, json!("b"));
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_asked_for_and_never_sent_blindly_again() {
    let hands = Hands::new();
    let process = hands.process().await;
    let chair = product("42");
    let token = created(&process.engine.editor("anna"), &chair).await;
    let save = |name: &str| {
        process.engine.editor("anna").save(&chair).token(token.clone()).set("name", name).send()
    };
    let sent = process.records().sent(Op::Commit);

    process.records().next(Op::Commit, Fault::BreakReply);
    let applied = saved(save("applied").await.unwrap());
    assert_eq!(process.records().sent(Op::Commit), sent + 1);
    assert!(applied.version.is_some());

    process.records().next(Op::Commit, Fault::RefuseRequest);
    let again = process.engine.editor("anna").save(&chair).token(applied.token).set("name", "2");
    let again = saved(again.send().await.unwrap());
    assert_eq!(process.records().sent(Op::Commit), sent + 3);
    assert_eq!(again.retries, 1);
    assert_eq!(hands.file.counts(&chair).await, (3, 0));
}

#[tokio::test]
async fn an_outcome_nobody_can_tell_is_an_error_at_the_save_deadline() {
    let hands = Hands::new();
    let process = hands.process().await;
    let chair = product("42");
    let token = created(&process.engine.editor("anna"), &chair).await;
    process.records().next(Op::Commit, Fault::BreakReply);
    process.records().always(Op::Resolve, Fault::RefuseRequest);

    let save = process.engine.editor("anna").save(&chair).token(token).set("name", "Stool");
    let save = tokio::spawn(save.send());
    hands.pass(Duration::from_secs(11)).await;
    let error = save.await.unwrap().unwrap_err();

    let Error::OutcomeUnknown(operation) = error else { panic!("{error:?}") };
    assert_eq!(hands.file.history(&chair).await[0].operation, operation);
}

#[tokio::test]
async fn a_store_that_does_not_answer_ends_a_save_at_its_deadline_and_gives_the_lease_back() {
    let hands = Hands::new();
    let process = hands.process().await;
    let chair = product("42");
    created(&process.engine.editor("anna"), &chair).await;
    process.records().next(Op::Claim, Fault::LoseRequest);

    let worker = process.engine.worker("thumbnailer");
    let save = tokio::spawn(worker.save(&chair).set("thumbnail", "t").send());
    hands.pass(Duration::from_secs(11)).await;

    assert_eq!(save.await.unwrap().unwrap_err().code(), "unavailable");
    assert_eq!(process.engine.leases(None, None, 10).await.unwrap().0, vec![]);
    saved(worker.save(&chair).set("thumbnail", "t").send().await.unwrap());
}

#[tokio::test]
async fn a_save_that_is_always_overtaken_gives_up_and_says_so() {
    let file = File::new();
    let hands = Hands { file, ..Hands::new() };
    let process = hands.process().await;
    let other = hands.file.engine().await;
    let chair = product("42");
    let token = created(&process.engine.editor("anna"), &chair).await;

    // Every commit of ours waits until another editor has saved another field.
    let mut gates = Vec::new();
    for _ in 0..8 {
        let gate = Gate::new();
        process.records().next(Op::Commit, Fault::HoldRequest(gate.clone()));
        gates.push(gate);
    }
    let save = process.engine.editor("anna").save(&chair).token(token).set("name", "Stool");
    let save = tokio::spawn(save.send());
    let sent = process.records().sent(Op::Commit);
    for (index, gate) in gates.into_iter().enumerate() {
        for _ in 0..50 {
            if process.records().sent(Op::Commit) > sent + index {
                break;
            }
            hands.pass(Duration::from_millis(100)).await;
        }
        assert!(!save.is_finished(), "{index}: {:?}", save.await);
        let loaded = other.editor("ben").load(&chair).await.unwrap().unwrap();
        let ben = other.editor("ben").save(&chair).token(loaded.token);
        saved(ben.set("description", format!("{index}")).send().await.unwrap());
        gate.open();
    }
    let error = save.await.unwrap().unwrap_err();

    assert!(matches!(error, Error::Contended { attempts: 8 }), "{error:?}");
    assert_eq!(hands.file.value(&chair, "name").await, json!("Chair"));
}

/// The caller goes away after every possible number of polls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_goes_away_at_any_await_never_leaves_half_a_save() {
    let file = File::new();
    let chair = product("42");
    created(&file.engine().await.editor("anna"), &chair).await;
    let mut applied = 0;

    for polls in 0..24 {
        for worker in [false, true] {
            let engine = file.engine().await;
            let before = file.counts(&chair).await;
            let value = format!("{polls}-{worker}");
            if worker {
                let job = |job: fieldlease::engine::Job| {
                    let changes = job.changes().set("thumbnail", value.clone());
                    async move { Ok::<_, Error>(changes) }
                };
                let session = engine.worker("thumbnailer");
                let run = session.run(&chair, MEDIA, job).into_future();
                poll_and_drop(run, polls).await;
            } else {
                let token = engine.editor("anna").load(&chair).await.unwrap().unwrap().token;
                let save = engine.editor("anna").save(&chair).token(token);
                poll_and_drop(save.set("name", value.clone()).send(), polls).await;
            }
            engine.shutdown(Duration::from_secs(10)).await;

            let after = file.counts(&chair).await;
            let field = if worker { "thumbnail" } else { "name" };
            let written = file.value(&chair, field).await == json!(value);
            let records = (usize::from(written && !worker), usize::from(written && worker));
            assert_eq!(after, (before.0 + records.0, before.1 + records.1), "{value}");
            assert!(
                written || worker || polls == 0,
                "a save that began goes on without its caller"
            );
            applied += usize::from(written);
            free(&file.engine().await).await;
        }
    }

    assert!(applied > 0, "no save came to its end");
}

/// Polls a future so often, letting everything else run in between, and drops it.
async fn poll_and_drop<F: Future>(future: F, polls: u32) {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..polls {
        if future.as_mut().poll(&mut context).is_ready() {
            return;
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }
}

/// Nobody is blocked by what a dropped caller left.
async fn free(engine: &Engine) {
    let claim = engine.worker("next").claim(&product("42"), MEDIA).on_busy(OnBusy::Fail);
    match claim.send().await.unwrap() {
        Claiming::Claimed(claim) => drop(claim.release().await),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_panic_in_a_hook_reaches_the_caller_and_leaves_no_lease_and_no_write() {
    struct Broken;
    impl fieldlease::engine::Validator for Broken {
        fn validate<'a>(
            &'a self,
            proposal: fieldlease::engine::Proposal<'a>,
        ) -> fieldlease::clock::BoxFuture<
            'a,
            fieldlease::error::Result<Vec<fieldlease::engine::Objection>>,
        > {
            assert!(proposal.record.stored(&super::support::path("thumbnail")).is_none(), "boom");
            Box::pin(async { Ok(Vec::new()) })
        }
    }
    let file = File::new();
    let builder = file.builder(super::support::PRODUCT).validator(std::sync::Arc::new(Broken));
    let engine = builder.build().await.unwrap();
    let chair = product("42");
    created(&engine.editor("anna"), &chair).await;
    let before = file.counts(&chair).await;

    let worker = engine.worker("thumbnailer");
    let save = tokio::spawn(worker.save(&chair).set("thumbnail", "t").send());
    let panic = save.await.unwrap_err();

    assert!(panic.is_panic());
    assert_eq!(file.counts(&chair).await, before);
    let next = engine.worker("next").save(&chair).set("width", 1).send().await.unwrap();
    saved(next);
    let unseen = engine.editor("ben").save(&chair).set("name", "x").send().await.unwrap();
    refused(unseen);
}
