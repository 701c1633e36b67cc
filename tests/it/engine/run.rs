//! `run` and `apply`: results of jobs, and when they are computed again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use fieldlease::{
    engine::{Changes, Job, Outcome, RunError},
    error::Error,
    version::VersionGuard,
};
use serde_json::json;

use super::support::{File, Hands, created, path, product, refused, saved};

#[derive(Debug, PartialEq)]
struct OutOfPaper;

#[tokio::test]
async fn a_jobs_own_error_comes_back_untouched_and_its_lease_is_given_back() {
    let file = File::new();
    let engine = file.engine().await;
    let chair = product("42");
    created(&engine.editor("anna"), &chair).await;

    let job = |_| async { Err::<Changes, _>(OutOfPaper) };
    let answer = engine.worker("printer").run(&chair, ["media"], job).await;

    let Err(RunError::Job(error)) = answer else { panic!("{answer:?}") };
    assert_eq!(error, OutOfPaper);
    assert_eq!(engine.leases(None, None, 10).await.unwrap().0, vec![]);
}

#[tokio::test]
async fn a_panic_in_a_job_reaches_the_caller_and_the_next_worker_is_not_blocked() {
    let file = File::new();
    let engine = file.engine().await;
    let chair = product("42");
    created(&engine.editor("anna"), &chair).await;
    let worker = engine.worker("printer");
    let entity = chair.clone();

    let task = tokio::spawn(async move {
        let job = |job: Job| async move {
            assert!(job.attempt() > 1, "the printer burns");
            Ok::<_, Error>(Changes::new())
        };
        worker.run(&entity, ["media"], job).await
    });

    assert!(task.await.unwrap_err().is_panic());
    let next = engine.worker("next").run(&chair, ["media"], |_| async {
        assert_eq!(VersionGuard::makes_version(), Some(false));
        Ok::<_, Error>(Changes::new().set("thumbnail", "t"))
    });
    saved(next.await.unwrap());
}

#[tokio::test]
async fn a_job_whose_lease_is_lost_runs_again_under_a_new_one() {
    let hands = Hands::new();
    let process = hands.process().await;
    let chair = product("42");
    created(&process.engine.editor("anna"), &chair).await;
    process
        .leases
        .script()
        .always(fieldlease::testing::flaky::Op::Renew, fieldlease::testing::Fault::RefuseRequest);
    let runs = Arc::new(AtomicU32::new(0));

    let worker = process.engine.worker("thumbnailer");
    let (entity, counted) = (chair.clone(), runs.clone());
    let task = tokio::spawn(async move {
        let job = move |job: Job| {
            let counted = counted.clone();
            async move {
                counted.fetch_add(1, Ordering::SeqCst);
                if job.attempt() == 1 {
                    job.lost().cancelled().await;
                }
                Ok::<_, Error>(Changes::new().set("thumbnail", job.attempt()))
            }
        };
        worker.run(&entity, ["media"], job).job("job-1").await
    });
    // Past the first lease, and not past the second, which was granted on the way.
    hands.pass(Duration::from_millis(2_500)).await;
    let outcome = saved(task.await.unwrap().unwrap());

    assert_eq!(runs.load(Ordering::SeqCst), 2);
    assert_eq!(hands.file.value(&chair, "thumbnail").await, json!(2));
    assert_eq!(hands.file.history(&chair).await[0].operation, outcome.operation);
    assert_eq!(hands.file.counts(&chair).await, (1, 1));
}

#[tokio::test]
async fn a_job_whose_inputs_moved_runs_again_on_the_new_ones_and_not_for_ever() {
    let file = File::new();
    let engine = file.engine().await;
    let chair = product("42");
    created(&engine.editor("anna"), &chair).await;

    for (moves, last) in [(1, "applied"), (9, "stale_input")] {
        let runs = AtomicU32::new(0);
        let job = |job: Job| {
            let (engine, chair, runs) = (engine.clone(), chair.clone(), &runs);
            async move {
                let run = runs.fetch_add(1, Ordering::SeqCst);
                if run < moves {
                    let anna = engine.editor("anna");
                    let token = anna.load(&chair).await?.unwrap().token;
                    let images = vec![format!("{moves}-{run}.jpg")];
                    saved(anna.save(&chair).token(token).set("images", images).send().await?);
                }
                let preview = format!("{} in run {run}", job.get("images").unwrap());
                Ok::<_, Error>(job.changes().set("preview", preview))
            }
        };
        let outcome = engine.worker("previewer").run(&chair, ["preview"], job).await.unwrap();

        assert_eq!(outcome.code(), last, "{outcome:?}");
        assert_eq!(runs.load(Ordering::SeqCst), (moves + 1).min(3));
        assert_eq!(file.value(&chair, "preview").await, json!("[\"1-0.jpg\"] in run 1"));
    }
    assert_eq!(engine.leases(None, None, 10).await.unwrap().0, vec![]);
}

#[tokio::test]
async fn an_apply_into_a_claimed_group_makes_the_holders_job_run_again() {
    let file = File::new();
    let engine = file.engine().await;
    let chair = product("42");
    created(&engine.editor("anna"), &chair).await;

    let job = |job: Job| {
        let (engine, chair) = (engine.clone(), chair.clone());
        async move {
            if job.attempt() == 1 {
                let apply = engine.worker("other").apply(&chair).unordered().set("width", 7);
                saved(apply.send().await?);
            }
            let width = job.get("width").and_then(|width| width.as_i64()).unwrap_or(0);
            Ok::<_, Error>(job.changes().set("width", width + 1))
        }
    };
    saved(engine.worker("adder").run(&chair, ["media"], job).await.unwrap());

    assert_eq!(file.value(&chair, "width").await, json!(8));
}

#[tokio::test]
async fn an_applied_result_never_replaces_one_of_newer_inputs() {
    let file = File::new();
    let engine = file.engine().await;
    let chair = product("42");
    let anna = engine.editor("anna");
    let worker = engine.worker("previewer");
    created(&anna, &chair).await;
    let early = anna.load(&chair).await.unwrap().unwrap();
    let stamps = early.inputs(&[path("preview")]);
    let images = anna.save(&chair).token(early.token.clone()).set("images", vec!["c.jpg"]);
    saved(images.send().await.unwrap());
    let late = anna.load(&chair).await.unwrap().unwrap();

    let newer = worker.apply(&chair).seen(&late).set("preview", "c").send().await.unwrap();
    let older = worker.apply(&chair).inputs(stamps).set("preview", "a").send().await.unwrap();

    saved(newer);
    assert_eq!(refused(older).why.code(), "stale_input");
    assert_eq!(file.value(&chair, "preview").await, json!("c"));
}

#[tokio::test]
async fn apply_is_for_a_workers_own_groups() {
    let file = File::new();
    let engine = file.engine().await;
    let chair = product("42");
    created(&engine.editor("anna"), &chair).await;
    let worker = engine.worker("w");

    let ordered = worker.apply(&chair).inputs([].into()).set("thumbnail", "t").send().await;
    let editors = worker.apply(&chair).unordered().set("name", "x").send().await.unwrap();
    let own = worker.apply(&chair).unordered().set("thumbnail", "t").send().await.unwrap();

    assert!(!matches!(ordered, Ok(Outcome::Applied(_))), "{ordered:?}");
    assert_eq!(refused(editors).why.code(), "denied");
    saved(own);
}
