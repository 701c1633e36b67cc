//! Saves and jobs with keys: done once, however often they are asked for (RULES 31, 32).

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use fieldlease::{
    engine::{Changes, Engine, Failure, Job, Outcome, Replayed, RunError, Session},
    entity::EntityRef,
    error::Error,
    idempotency::{BeginAsk, IdempotencyStore, KeyState},
    key::{ApiKey, Attempt, Begin, HashAlgorithm, JobKey, Owner, RequestHash},
    testing::{Fault, flaky::Op},
};
use serde_json::{Value as Json, json};

use super::support::{File, Hands, created, path, product, refused, saved};

fn api(text: &str) -> ApiKey {
    ApiKey::new(text).unwrap()
}

fn replayed(outcome: Outcome) -> Replayed {
    match outcome {
        Outcome::Replayed(replayed) => *replayed,
        other => panic!("not replayed: {other:?}"),
    }
}

async fn chair(engine: &Engine) -> EntityRef {
    let chair = product("42");
    created(&engine.editor("anna"), &chair).await;
    chair
}

async fn keys(engine: &Engine) -> Vec<(String, KeyState, u64)> {
    let listed = engine.keys(None, 100).await.unwrap();
    listed.iter().map(|key| (key.key.name().to_owned(), key.state, key.attempt)).collect()
}

#[tokio::test]
async fn a_request_sent_again_is_answered_what_the_first_was_and_done_once() {
    let file = File::new();
    let engine = file.builder(super::support::PRODUCT).token_secret("0123456789abcdef");
    let engine = engine.build().await.unwrap();
    let chair = chair(&engine).await;
    let anna = engine.editor("anna");
    let token = anna.load(&chair).await.unwrap().unwrap().token;
    let save = || {
        let save = anna.save(&chair).token(token.clone()).set("name", "Stool").add("stock", 3);
        save.api_key(api("k1"))
    };

    let first = saved(save().send().await.unwrap());
    let again = replayed(save().send().await.unwrap());
    // Others move on; the answer stays.
    saved(engine.editor("ben").save(&chair).set("description", "tall").send().await.unwrap());
    let later = replayed(save().send().await.unwrap());

    assert_eq!(again.answer.to_string(), first.to_json().to_string());
    assert_eq!(later, again);
    assert_eq!(again.effect.unwrap().operation, first.operation);
    assert_eq!(file.value(&chair, "stock").await, 3);
    assert_eq!(file.counts(&chair).await, (3, 0));
    // The token of a replay is as good as that of the first answer.
    let token = again.answer["edit_token"].as_str().unwrap().to_owned();
    saved(anna.save(&chair).token(token).set("name", "Bench").send().await.unwrap());
}

#[tokio::test]
async fn a_key_of_another_request_is_a_mismatch_before_anything_else_is_looked_at() {
    let file = File::new();
    let engine = file.engine().await;
    let (chair, anna) = (chair(&engine).await, engine.editor("anna"));
    saved(anna.save(&chair).set("stock", 1).api_key(api("k")).send().await.unwrap());

    let before = file.history(&chair).await.len();
    let saves = [
        anna.save(&chair).set("description", "other"),
        // What is the same value as the stored one, what is refused, and what is not this writer's.
        anna.save(&chair).set("name", "Chair"),
        anna.save(&chair).set("thumbnail", "t"),
        anna.save(&product("7")).set("name", "x"),
    ];
    for save in saves {
        let outcome = save.api_key(api("k")).send().await.unwrap();
        assert_eq!(outcome.code(), "key_mismatch");
    }
    assert_eq!(file.history(&chair).await.len(), before);
    // Another writer's key is another key.
    let ben = engine.editor("ben").save(&chair).set("description", "other");
    saved(ben.api_key(api("k")).send().await.unwrap());
}

#[tokio::test]
async fn what_was_refused_leaves_the_key_free() {
    let file = File::new();
    let engine = file.engine().await;
    let (chair, anna) = (chair(&engine).await, engine.editor("anna"));
    let old = anna.load(&chair).await.unwrap().unwrap().token;
    let ben = engine.editor("ben").save(&chair).token(old.clone()).set("name", "Stool");
    saved(ben.send().await.unwrap());

    let conflict = anna.save(&chair).token(old).set("name", "Bench").api_key(api("conflict"));
    let denied = anna.save(&chair).set("thumbnail", "t").api_key(api("denied"));
    let missing = anna.save(&product("7")).set("name", "x").api_key(api("missing"));
    for (save, code) in [(conflict, "conflict"), (denied, "denied"), (missing, "not_found")] {
        assert_eq!(save.send().await.unwrap().code(), code);
    }

    assert_eq!(keys(&engine).await, vec![]);
    // Resolved: the same key with what is right now.
    let token = anna.load(&chair).await.unwrap().unwrap().token;
    let save = anna.save(&chair).token(token).set("name", "Bench").api_key(api("conflict"));
    saved(save.send().await.unwrap());
}

#[tokio::test]
async fn a_save_that_finds_nothing_to_do_completes_its_key() {
    let file = File::new();
    let engine = file.engine().await;
    let (chair, anna) = (chair(&engine).await, engine.editor("anna"));
    let save = || anna.save(&chair).set("name", "Chair").api_key(api("k"));

    let first = match save().send().await.unwrap() {
        Outcome::Unchanged(same) => *same,
        other => panic!("{other:?}"),
    };
    let token = anna.load(&chair).await.unwrap().unwrap().token;
    saved(anna.save(&chair).token(token).set("name", "Stool").send().await.unwrap());
    let again = replayed(save().send().await.unwrap());

    assert_eq!(again.answer.to_string(), first.to_json().to_string());
    assert_eq!(again.effect, None);
    assert_eq!(file.value(&chair, "name").await, "Stool");
}

#[tokio::test]
async fn creating_and_deleting_with_a_key_happens_once() {
    let file = File::new();
    let engine = file.engine().await;
    let (entity, anna) = (product("new"), engine.editor("anna"));
    let create = || anna.create(&entity).set("name", "Lamp").api_key(api("k"));
    let delete = || anna.delete(&entity).api_key(api("k"));

    let first = saved(create().send().await.unwrap());
    assert_eq!(replayed(create().send().await.unwrap()).answer, first.to_json());
    let gone = saved(delete().send().await.unwrap());
    assert_eq!(replayed(delete().send().await.unwrap()).answer, gone.to_json());
    // It is gone, and its creation is still answered as it was.
    assert_eq!(replayed(create().send().await.unwrap()).answer, first.to_json());
    assert_eq!(file.counts(&entity).await, (2, 0));
}

#[tokio::test]
async fn identical_requests_at_once_take_effect_once_and_all_are_answered() {
    let file = File::new();
    let engine = file.engine().await;
    let chair = chair(&engine).await;

    let calls: Vec<_> = (0..32)
        .map(|_| {
            let save = engine.editor("anna").save(&chair).add("stock", 1).api_key(api("k"));
            tokio::spawn(save.send())
        })
        .collect();
    let mut codes = Vec::new();
    for call in calls {
        codes.push(call.await.unwrap().unwrap().code());
    }

    codes.sort_unstable();
    assert_eq!(codes[0], "applied");
    assert!(codes[1..].iter().all(|code| *code == "replayed"), "{codes:?}");
    assert_eq!(file.value(&chair, "stock").await, 1);
}

#[tokio::test]
async fn a_delivery_that_comes_twice_is_applied_once() {
    let file = File::new();
    let engine = file.engine().await;
    let (chair, worker) = (chair(&engine).await, engine.worker("previewer"));
    let loaded = worker.load(&chair).await.unwrap().unwrap();
    let key = || JobKey::new("preview").of(&loaded).input("images");
    let apply = |value: &str| {
        let save = worker.apply(&chair).seen(&loaded).set("preview", value);
        save.job_key(key())
    };

    let first = saved(apply("a").send().await.unwrap());
    let again = replayed(apply("computed a little differently").send().await.unwrap());

    assert_eq!(again.answer, first.to_json());
    assert_eq!(file.value(&chair, "preview").await, "a");
    assert_eq!(file.counts(&chair).await, (1, 1));
}

async fn set_images(engine: &Engine, chair: &EntityRef, image: &str) {
    let anna = engine.editor("anna");
    let token = anna.load(chair).await.unwrap().unwrap().token;
    let save = anna.save(chair).token(token).set("images", vec![image]);
    saved(save.send().await.unwrap());
}

/// A preview job as a queue delivers it: made when the image changed, with a key of the stamps of that moment.
async fn preview(worker: &Session, chair: &EntityRef) -> &'static str {
    let loaded = worker.load(chair).await.unwrap().unwrap();
    let key = JobKey::new("preview").of(&loaded).input("images");
    let image = loaded.get("images").unwrap()[0].clone();
    let save = worker.apply(chair).seen(&loaded).set("preview", image).job_key(key);
    save.send().await.unwrap().code()
}

#[tokio::test]
async fn an_image_that_was_a_then_b_then_a_again_is_worked_on_three_times() {
    let file = File::new();
    let engine = file.engine().await;
    let (chair, worker) = (chair(&engine).await, engine.worker("previewer"));

    for image in ["a", "b", "a"] {
        set_images(&engine, &chair, image).await;
        assert_eq!(preview(&worker, &chair).await, "applied");
        assert_eq!(preview(&worker, &chair).await, "replayed");
        assert_eq!(file.value(&chair, "preview").await, image);
    }
}

/// The negative control of the case above: with keys of content alone, the third would be answered the first.
#[tokio::test]
async fn a_key_of_content_whose_content_came_back_is_superseded_and_not_replayed() {
    let file = File::new();
    let engine = file.engine().await;
    let (chair, worker) = (chair(&engine).await, engine.worker("previewer"));
    let deliver = async |image: &str| {
        let loaded = worker.load(&chair).await.unwrap().unwrap();
        let key = JobKey::new("preview").about(&chair).input("images").content(image);
        let save = worker.apply(&chair).seen(&loaded).set("preview", image).job_key(key);
        save.send().await.unwrap()
    };

    set_images(&engine, &chair, "a").await;
    saved(deliver("a").await);
    replayed(deliver("a").await);
    set_images(&engine, &chair, "b").await;
    saved(deliver("b").await);
    set_images(&engine, &chair, "a").await;
    let third = refused(deliver("a").await);

    assert_eq!(third.why.code(), "superseded_key");
    assert_eq!(file.value(&chair, "preview").await, "b");
    assert_eq!(preview(&worker, &chair).await, "applied");
}

#[tokio::test]
async fn a_result_from_old_inputs_leaves_its_key_free() {
    let file = File::new();
    let engine = file.engine().await;
    let (chair, worker) = (chair(&engine).await, engine.worker("previewer"));
    let old = worker.load(&chair).await.unwrap().unwrap();
    set_images(&engine, &chair, "new").await;

    let key = JobKey::new("preview").of(&old).input("images");
    let late = worker.apply(&chair).seen(&old).set("preview", "old").job_key(key);

    assert_eq!(late.send().await.unwrap().code(), "stale_input");
    assert_eq!(keys(&engine).await, vec![]);
}

fn counted(
    runs: &Arc<AtomicU32>,
) -> impl FnMut(Job) -> std::future::Ready<Result<Changes, Error>> + use<> {
    let runs = runs.clone();
    move |job| {
        let run = runs.fetch_add(1, Ordering::SeqCst) + 1;
        std::future::ready(Ok(job.changes().set("thumbnail", run)))
    }
}

#[tokio::test]
async fn a_job_with_a_key_runs_once_however_often_it_is_delivered() {
    let file = File::new();
    let engine = file.engine().await;
    let (chair, worker) = (chair(&engine).await, engine.worker("thumbnailer"));
    let (runs, key) = (Arc::new(AtomicU32::new(0)), JobKey::text("t/42/1").unwrap());

    let run = || worker.run(&chair, ["media"], counted(&runs)).job_key(key.clone());
    let first = saved(run().await.unwrap());
    let again = replayed(run().await.unwrap());

    assert_eq!(again.answer, first.to_json());
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!(file.counts(&chair).await, (1, 1));
    assert_eq!(keys(&engine).await, vec![("t/42/1".to_owned(), KeyState::Completed, 1)]);
}

#[tokio::test]
async fn a_job_that_runs_keeps_other_deliveries_out_as_long_as_it_takes() {
    let hands = Hands::new();
    let clock = hands.clock.clone();
    let options = fieldlease::store::sqlite::SqliteOptions::default().clock(clock);
    let hands = Hands { file: File::with(options), ..hands };
    let process = hands.process().await;
    let chair = chair(&process.engine).await;
    let key = JobKey::text("t/42/1").unwrap();
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    let gone = Arc::new(tokio::sync::Mutex::new(Some(gone)));

    let (worker, entity, mine) = (process.engine.worker("thumbnailer"), chair.clone(), key.clone());
    let task = tokio::spawn(async move {
        let job = move |job: Job| {
            let gone = gone.clone();
            async move {
                let gone = gone.lock().await.take().unwrap();
                gone.await.unwrap();
                Ok::<_, Error>(job.changes().set("thumbnail", "slow"))
            }
        };
        worker.run(&entity, ["media"], job).job_key(mine).await
    });
    for _ in 0..8 {
        hands.pass(Duration::from_secs(29)).await;
    }

    let other = process.engine.worker("thumbnailer");
    let second = other.run(&chair, ["media"], counted(&Arc::default())).job_key(key.clone());
    assert_eq!(second.await.unwrap().code(), "in_progress");
    let applied = other.save(&chair).set("thumbnail", "fast").job_key(key);
    assert_eq!(applied.send().await.unwrap().code(), "in_progress");
    go.send(()).unwrap();
    saved(task.await.unwrap().unwrap());
    assert_eq!(hands.file.value(&chair, "thumbnail").await, "slow");
}

#[tokio::test]
async fn a_job_that_fails_is_tried_again_when_due_and_fails_for_good_after_enough() {
    let hands = Hands::new();
    let clock = hands.clock.clone();
    let options = fieldlease::store::sqlite::SqliteOptions::default().clock(clock);
    let hands = Hands { file: File::with(options), ..hands };
    let process =
        hands.process_of(super::support::PRODUCT, |_| {}, |builder| builder.key_attempts(3)).await;
    let (chair, worker) = (chair(&process.engine).await, process.engine.worker("printer"));
    let key = JobKey::text("p/1").unwrap();
    let run = || {
        let job = |_: Job| std::future::ready(Err::<Changes, _>("no paper"));
        worker.run(&chair, ["media"], job).job_key(key.clone())
    };

    for (attempt, wait) in [(1, 1), (2, 4)] {
        assert!(matches!(run().await, Err(RunError::Job("no paper"))), "{attempt}");
        assert_eq!(run().await.unwrap().code(), "in_progress", "{attempt}");
        hands.pass(Duration::from_secs(wait)).await;
    }
    assert!(matches!(run().await, Err(RunError::Job("no paper"))));
    hands.pass(Duration::from_secs(3_600)).await;

    let failed = replayed(run().await.unwrap());
    assert_eq!(failed.failed.as_deref(), Some("gave up after 3 attempts: job"));
    assert_eq!(failed.answer, Json::Null);
}

#[tokio::test]
async fn a_job_says_what_its_errors_mean_for_the_key() {
    let file = File::new();
    let engine = file.engine().await;
    let (chair, worker) = (chair(&engine).await, engine.worker("printer"));
    let run = |name: &'static str, means: Failure| {
        let job = |_: Job| std::future::ready(Err::<Changes, _>("torn"));
        let key = JobKey::text(name).unwrap();
        worker.run(&chair, ["media"], job).job_key(key).failing(move |_| means.clone())
    };

    for (name, means) in [
        ("final", Failure::Final("no such image".to_owned())),
        ("retry", Failure::Retry("disk".to_owned())),
        ("release", Failure::Release),
    ] {
        assert!(matches!(run(name, means).await, Err(RunError::Job("torn"))), "{name}");
    }

    let listed = engine.keys(None, 10).await.unwrap();
    let states: Vec<_> =
        listed.iter().map(|key| (key.key.name(), key.state, key.class.as_deref())).collect();
    let wanted = [("final", KeyState::Failed, None), ("retry", KeyState::Retry, Some("disk"))];
    assert_eq!(states, wanted);
    let again = replayed(run("final", Failure::Release).await.unwrap());
    assert_eq!(again.failed.as_deref(), Some("no such image"));
}

#[tokio::test]
async fn a_job_that_did_not_happen_leaves_its_key_free() {
    let file = File::new();
    let engine = file.engine().await;
    let (chair, worker) = (chair(&engine).await, engine.worker("thumbnailer"));
    let key = |name| JobKey::text(name).unwrap();
    let job = || counted(&Arc::default());

    let busy = match engine.worker("other").claim(&chair, ["media"]).send().await.unwrap() {
        fieldlease::engine::Claiming::Claimed(claim) => claim,
        other => panic!("{other:?}"),
    };
    let skip = worker.run(&chair, ["media"], job()).on_busy(fieldlease::registry::OnBusy::Skip);
    assert_eq!(skip.job_key(key("skipped")).await.unwrap().code(), "skipped");
    busy.release().await;
    let missing = worker.run(&product("7"), ["media"], job()).job_key(key("missing"));
    assert_eq!(missing.await.unwrap().code(), "not_found");
    let foreign = |job: Job| std::future::ready(Ok::<_, Error>(job.changes().set("name", "mine")));
    let denied = worker.run(&chair, ["media"], foreign).job_key(key("denied"));
    assert_eq!(denied.await.unwrap().code(), "denied");
    let panics = {
        let (worker, chair, key) = (worker.clone(), chair.clone(), key("panicked"));
        tokio::spawn(async move {
            let job = |job: Job| async move {
                assert!(job.attempt() > 1, "the printer burns");
                Ok::<_, Error>(Changes::new())
            };
            worker.run(&chair, ["media"], job).job_key(key).await
        })
    };
    assert!(panics.await.unwrap_err().is_panic());
    engine.shutdown(Duration::from_secs(5)).await;

    assert_eq!(keys(&engine).await, vec![]);
}

#[tokio::test]
async fn a_job_with_nothing_to_do_completes_its_key() {
    let file = File::new();
    let engine = file.engine().await;
    let (chair, worker) = (chair(&engine).await, engine.worker("thumbnailer"));
    let runs = Arc::new(AtomicU32::new(0));
    let run = || {
        let runs = runs.clone();
        let job = move |job: Job| {
            runs.fetch_add(1, Ordering::SeqCst);
            std::future::ready(Ok::<_, Error>(job.changes().unset("thumbnail")))
        };
        worker.run(&chair, ["media"], job).job_key(JobKey::text("t").unwrap())
    };

    assert_eq!(run().await.unwrap().code(), "unchanged");
    let again = replayed(run().await.unwrap());

    assert_eq!(again.answer["outcome"], "unchanged");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

/// A zombie: its key went to another while it was away. It is told, and writes nothing.
#[tokio::test]
async fn a_job_whose_key_was_taken_over_is_cancelled_and_writes_nothing() {
    let hands = Hands::new();
    let clock = hands.clock.clone();
    let options = fieldlease::store::sqlite::SqliteOptions::default().clock(clock);
    let hands = Hands { file: File::with(options), ..hands };
    let process = hands.process().await;
    let chair = chair(&process.engine).await;
    let (worker, entity) = (process.engine.worker("thumbnailer"), chair.clone());
    let task = tokio::spawn(async move {
        let job = |job: Job| async move {
            job.lost().cancelled().await;
            Ok::<_, Error>(job.changes().set("thumbnail", "zombie"))
        };
        worker.run(&entity, ["media"], job).job_key(JobKey::text("t").unwrap()).await
    });
    hands.pass(Duration::from_secs(1)).await;
    // The clock of the database leaps, and somebody takes over before the next renewal.
    let listed = process.engine.keys(None, 1).await.unwrap();
    let key = &listed[0].key;
    hands.clock.shift_wall(120_000_000);
    let hash = RequestHash::of_json(fieldlease::key::KeyKind::Job, "", "Product/42", &Json::Null);
    let ask = BeginAsk {
        key: key.clone(),
        hash: hash.unwrap(),
        own: Owner([7; 16]),
        lease: Duration::from_secs(60),
    };
    let begun = hands.file.store.begin(&ask).await.unwrap();
    let successor = Attempt { owner: Owner([7; 16]), number: 2 };
    assert_eq!(begun, Begin::Acquired { attempt: successor, taken_over: true });
    hands.pass(Duration::from_secs(31)).await;

    let told = refused(task.await.unwrap().unwrap());
    assert_eq!(told.why.code(), "key_lost");
    assert_eq!(hands.file.value(&chair, "thumbnail").await, Json::Null);
    assert_eq!(keys(&process.engine).await, vec![("t".to_owned(), KeyState::Pending, 2)]);
}

#[tokio::test]
async fn a_save_whose_answer_was_lost_is_found_by_its_key() {
    let hands = Hands::new();
    let process = hands.process().await;
    let chair = chair(&process.engine).await;
    let save = || {
        let anna = process.engine.editor("anna");
        anna.save(&chair).add("stock", 1).api_key(api("k"))
    };
    process.records().next(Op::Commit, Fault::LoseReply);
    process.records().always(Op::Resolve, Fault::LoseRequest);

    let task = tokio::spawn(save().send());
    hands.pass(Duration::from_secs(30)).await;
    let unknown = task.await.unwrap().unwrap_err();
    let again = replayed(save().send().await.unwrap());

    let Error::OutcomeUnknown(operation) = unknown else { panic!("{unknown}") };
    assert_eq!(again.effect.unwrap().operation, operation);
    assert_eq!(hands.file.value(&chair, "stock").await, 1);
}

#[tokio::test]
async fn a_worker_without_its_lease_is_answered_the_repeat_without_waiting_for_one() {
    let file = File::new();
    let engine = file.engine().await;
    let (chair, worker) = (chair(&engine).await, engine.worker("thumbnailer"));
    let save = || {
        let save = worker.save(&chair).set("thumbnail", "t");
        save.on_busy(fieldlease::registry::OnBusy::Fail).job_key(JobKey::text("t/1").unwrap())
    };
    saved(save().send().await.unwrap());
    let token = worker.load(&chair).await.unwrap().unwrap().token;
    saved(worker.save(&chair).token(token).set("thumbnail", "u").send().await.unwrap());

    let other = engine.worker("other").claim(&chair, ["media"]).send().await.unwrap();
    replayed(save().send().await.unwrap());

    drop(other);
    assert_eq!(file.value(&chair, "thumbnail").await, "u");
}

#[tokio::test]
async fn keys_that_cannot_be_meant_are_refused_with_the_reason() {
    let file = File::new();
    let engine = file.engine().await;
    let chair = chair(&engine).await;
    let (anna, worker) = (engine.editor("anna"), engine.worker("thumbnailer"));
    let job = || JobKey::text("t").unwrap();
    let exact = json!({"ean": 9_007_199_254_740_993_u64});

    let cases = [
        (anna.save(&chair).set("name", "x").job_key(job()), "job_key_editor"),
        (worker.save(&chair).set("thumbnail", "x").job_key(job()).api_key(api("k")), "two_keys"),
        (worker.save(&chair).set("thumbnail", "x").job_key(JobKey::new("t")), "bad_key"),
        (anna.save(&chair).set("name", exact).api_key(api("k")), "number_not_exact"),
    ];
    for (save, code) in cases {
        assert_eq!(save.send().await.unwrap_err().code(), code);
    }
    assert_eq!(keys(&engine).await, vec![]);
    assert_eq!(HashAlgorithm::parse("jcs-sha256/1"), Some(HashAlgorithm::JcsSha256));
    assert!(path("images").as_str() == "images");
}

#[tokio::test]
async fn keys_are_swept_once_nobody_can_ask_for_them() {
    let clock = Arc::new(fieldlease::testing::ManualClock::new());
    let options = fieldlease::store::sqlite::SqliteOptions::default().clock(clock.clone());
    let file = File::with(options);
    let builder = file.builder(super::support::PRODUCT).clock(clock.clone());
    let engine = builder.api_key_retention(Duration::from_secs(100)).build().await.unwrap();
    let (chair, anna) = (chair(&engine).await, engine.editor("anna"));
    let save = || anna.save(&chair).add("stock", 1).api_key(api("k"));
    saved(save().send().await.unwrap());

    clock.jump(Duration::from_secs(99));
    replayed(save().send().await.unwrap());
    assert_eq!(engine.sweep_keys(10).await.unwrap(), 0);
    clock.jump(Duration::from_secs(3_700));
    assert_eq!(engine.sweep_keys(10).await.unwrap(), 1);
    saved(save().send().await.unwrap());
    assert_eq!(file.value(&chair, "stock").await, 2);
}
