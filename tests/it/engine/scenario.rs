//! Editors and workers on one record: what history shows afterwards.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use fieldlease::{
    engine::{Changes, Outcome},
    error::Error,
    registry::OnBusy,
};
use serde_json::json;

use super::support::{File, created, product, saved};

const REACTING: [(&str, &str, &str); 6] = [
    ("thumbnailer", "media", "thumbnail"),
    ("indexer", "search", "searchIndex"),
    ("checker", "check", "checksum"),
    ("syncer", "sync", "lastSync"),
    ("writer", "seo", "seoText"),
    ("feeder", "feed", "feedState"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_editor_save_with_six_workers_reacting_makes_one_version_and_six_records() {
    let file = File::new();
    let engine = file.engine().await;
    let chair = product("42");
    let token = created(&engine.editor("anna"), &chair).await;
    let (versions, records) = file.counts(&chair).await;

    let save = engine.editor("anna").save(&chair).token(token).set("name", "Armchair");
    saved(save.send().await.unwrap());
    let workers = REACTING.map(|(name, group, field)| {
        let (worker, chair) = (engine.worker(name), chair.clone());
        tokio::spawn(async move {
            let job = |job: fieldlease::engine::Job| async move {
                Ok::<_, Error>(job.changes().set(field, job.get("name").unwrap()))
            };
            saved(worker.run(&chair, [group], job).await.unwrap())
        })
    });
    for worker in workers {
        assert_eq!(worker.await.unwrap().version, None);
    }

    assert_eq!(file.counts(&chair).await, (versions + 1, records + 6));
    for (_, _, field) in REACTING {
        assert_eq!(file.value(&chair, field).await, json!("Armchair"));
    }
}

#[tokio::test]
async fn a_save_that_changes_nothing_leaves_neither_version_nor_record() {
    let file = File::new();
    let engine = file.engine().await;
    let chair = product("42");
    let token = created(&engine.editor("anna"), &chair).await;
    let before = file.counts(&chair).await;

    let same = engine.editor("anna").save(&chair).token(token).set("name", "Chair").send().await;

    assert_eq!(same.unwrap().code(), "unchanged");
    assert_eq!(file.counts(&chair).await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn four_workers_with_a_hundred_jobs_and_policy_skip_never_overlap() {
    let file = File::new();
    let engine = file.engine().await;
    let chair = product("42");
    created(&engine.editor("anna"), &chair).await;
    let before = file.counts(&chair).await;
    let inside = Arc::new(AtomicUsize::new(0));

    let workers = (0..4).map(|worker| {
        let (session, chair, inside) =
            (engine.worker(&format!("worker-{worker}")), chair.clone(), inside.clone());
        tokio::spawn(async move {
            let mut counts = (0, 0);
            for job in 0..25 {
                let inside = inside.clone();
                let work = move |_| {
                    let inside = inside.clone();
                    async move {
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two inside at once");
                        tokio::task::yield_now().await;
                        inside.fetch_sub(1, Ordering::SeqCst);
                        Ok::<_, Error>(Changes::new().set("thumbnail", format!("{worker}-{job}")))
                    }
                };
                let run = session.run(&chair, ["media"], work).on_busy(OnBusy::Skip);
                match run.await.unwrap() {
                    Outcome::Applied(_) => counts.0 += 1,
                    Outcome::Skipped(_) => counts.1 += 1,
                    other => panic!("{other:?}"),
                }
            }
            counts
        })
    });
    let (mut applied, mut skipped) = (0, 0);
    for worker in workers.collect::<Vec<_>>() {
        let counts = worker.await.unwrap();
        applied += counts.0;
        skipped += counts.1;
    }

    assert_eq!(applied + skipped, 100);
    assert!(applied > 0);
    assert_eq!(file.counts(&chair).await, (before.0, before.1 + applied));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_engines_on_one_file_with_leases_of_their_own_lose_no_update() {
    let file = File::new();
    let chair = product("42");
    created(&file.engine().await.editor("anna"), &chair).await;
    let engines = [file.engine().await, file.engine().await];

    let tasks = engines.map(|engine| {
        let chair = chair.clone();
        tokio::spawn(async move {
            let mut done = 0;
            for _ in 0..20 {
                let add = |job: fieldlease::engine::Job| async move {
                    let width = job.get("width").and_then(|width| width.as_i64()).unwrap_or(0);
                    Ok::<_, Error>(job.changes().set("width", width + 1))
                };
                let run = engine.worker("adder").run(&chair, ["media"], add).attempts(50);
                if run.await.unwrap().saved().is_some() {
                    done += 1;
                }
            }
            done
        })
    });
    let mut done = 0;
    for task in tasks {
        done += task.await.unwrap();
    }

    assert!(done > 0);
    assert_eq!(file.value(&chair, "width").await, json!(done));
}
