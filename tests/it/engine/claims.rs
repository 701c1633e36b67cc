//! Claims: who waits for whom, and what is saved under them.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use fieldlease::{
    engine::{Changes, Claim, Claiming},
    error::Error,
    hold::Released,
    registry::OnBusy,
    scope::ScopeName,
};
use serde_json::json;
use tokio::sync::Barrier;

use super::support::{File, created, path, product, refused, saved};

fn claimed(claiming: Claiming) -> Claim {
    match claiming {
        Claiming::Claimed(claim) => claim,
        other => panic!("not claimed: {other:?}"),
    }
}

/// Jobs that can only end when all of them are inside at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn different_groups_of_one_record_and_different_records_overlap_in_time() {
    let file = File::new();
    let engine = file.engine().await;
    for id in ["1", "2"] {
        created(&engine.editor("anna"), &product(id)).await;
    }
    let places = [
        ("1", "media", "thumbnail"),
        ("1", "search", "searchIndex"),
        ("1", "translation[locale=de]", "title@locale=de"),
        ("1", "translation[locale=fr]", "title@locale=fr"),
        ("2", "media", "thumbnail"),
    ];
    let all_inside = Arc::new(Barrier::new(places.len() + 1));

    let jobs = places.map(|(id, scope, field)| {
        let (worker, all_inside) = (engine.worker(field), all_inside.clone());
        tokio::spawn(async move {
            let work = |_| {
                let all_inside = all_inside.clone();
                async move {
                    all_inside.wait().await;
                    Ok::<_, Error>(Changes::new().set(field, "done"))
                }
            };
            saved(worker.run(&product(id), [scope], work).await.unwrap())
        })
    });
    all_inside.wait().await;
    // An editor waits for none of them.
    let loaded = engine.editor("anna").load(&product("1")).await.unwrap().unwrap();
    let save = engine.editor("anna").save(&product("1")).token(loaded.token).set("name", "Stool");
    saved(save.send().await.unwrap());
    for job in jobs {
        job.await.unwrap();
    }

    assert_eq!(file.value(&product("1"), "title@locale=fr").await, json!("done"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn jobs_of_one_group_of_one_record_follow_each_other_and_each_sees_the_one_before() {
    let file = File::new();
    let engine = file.engine().await;
    let chair = product("42");
    created(&engine.editor("anna"), &chair).await;
    let inside = Arc::new(AtomicUsize::new(0));

    let jobs = (0..8).map(|_| {
        let (worker, chair, inside) = (engine.worker("adder"), chair.clone(), inside.clone());
        tokio::spawn(async move {
            let work = |job: fieldlease::engine::Job| {
                let inside = inside.clone();
                async move {
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two inside at once");
                    tokio::task::yield_now().await;
                    let width = job.get("width").and_then(|width| width.as_i64()).unwrap_or(0);
                    inside.fetch_sub(1, Ordering::SeqCst);
                    Ok::<_, Error>(job.changes().set("width", width + 1))
                }
            };
            saved(worker.run(&chair, ["media"], work).await.unwrap())
        })
    });
    for job in jobs.collect::<Vec<_>>() {
        job.await.unwrap();
    }

    assert_eq!(file.value(&chair, "width").await, json!(8));
}

#[tokio::test]
async fn saves_under_one_claim_follow_each_other_and_may_touch_shared_fields() {
    let file = File::new();
    let engine = file.engine().await;
    let chair = product("42");
    created(&engine.editor("anna"), &chair).await;
    let worker = engine.worker("thumbnailer");
    let claim = claimed(worker.claim(&chair, ["media"]).send().await.unwrap());

    saved(claim.save().set("thumbnail", "1").add("stock", 3).send().await.unwrap());
    let other = engine.worker("shop").save(&chair).add("stock", 2).send().await.unwrap();
    saved(other);
    let second = claim.save().set("thumbnail", "2").add("stock", 1).set("width", 8);
    let second = saved(second.send().await.unwrap());

    assert_eq!(second.retries, 1, "the stock had moved, and only that was looked at again");
    assert_eq!(claim.get("thumbnail"), Some(json!("2")));
    assert_eq!(file.value(&chair, "stock").await, json!(6));
    assert_eq!(claim.release().await, Released::Released);
    assert_eq!(engine.leases(None, None, 10).await.unwrap().0, vec![]);
}

#[tokio::test]
async fn a_claim_is_for_its_own_scopes() {
    let file = File::new();
    let engine = file.engine().await;
    let chair = product("42");
    created(&engine.editor("anna"), &chair).await;
    let worker = engine.worker("thumbnailer");
    let claim = claimed(worker.claim(&chair, ["media"]).send().await.unwrap());

    let outside = claim.save().set("searchIndex", "x").send().await;
    let whole = claim.delete().send().await;
    let editor = engine.editor("anna").claim(&chair, ["media"]).send().await.unwrap();
    let faults = [
        (worker.claim(&chair, ["stock"]), "not_leased"),
        (worker.claim(&chair, ["nothing"]), "unknown_scope"),
        (worker.claim(&chair, ["translation"]), "unknown_scope"),
        (worker.claim(&chair, Vec::<&str>::new()), "no_scope"),
    ];

    assert_eq!(outside.unwrap_err().code(), "not_claimed");
    assert_eq!(refused(whole.unwrap()).why.code(), "denied");
    let Claiming::Refused(refused) = editor else { panic!("{editor:?}") };
    assert_eq!(refused.why.code(), "denied");
    for (claim, code) in faults {
        assert_eq!(claim.send().await.unwrap_err().code(), code);
    }
    let missing = worker.claim(&product("none"), ["media"]).send().await.unwrap();
    let Claiming::Refused(refused) = missing else { panic!("{missing:?}") };
    assert_eq!(refused.why.code(), "not_found");
    assert_eq!(engine.leases(None, None, 10).await.unwrap().0.len(), 1);
}

#[tokio::test]
async fn a_nested_acquisition_says_so_at_once_unless_it_is_meant() {
    let file = File::new();
    let engine = file.engine().await;
    let chair = product("42");
    created(&engine.editor("anna"), &chair).await;
    let worker = engine.worker("thumbnailer");
    let outer = claimed(worker.claim(&chair, ["media"]).send().await.unwrap());

    let again = worker.claim(&chair, ["media"]).send().await;
    let beside = worker.save(&chair).set("thumbnail", "x").send().await;
    let inner = claimed(worker.claim(&chair, ["media"]).reentrant().send().await.unwrap());
    saved(inner.save().set("thumbnail", "inner").send().await.unwrap());
    inner.release().await;

    assert_eq!(again.unwrap_err().code(), "already_held");
    assert_eq!(beside.unwrap_err().code(), "already_held");
    let stranger = engine.worker("other").claim(&chair, ["media"]).on_busy(OnBusy::Fail);
    assert!(matches!(stranger.send().await.unwrap(), Claiming::Busy(_)));
    // The inner save moved the scope: what the outer one computed before is not written over it.
    let stale = refused(outer.save().set("thumbnail", "outer").send().await.unwrap());
    assert!(matches!(stale.why.code(), "fenced" | "stale"), "{stale:?}");
    assert_eq!(outer.get("thumbnail"), Some(json!("inner")));
    saved(outer.save().set("thumbnail", "outer").send().await.unwrap());
}

#[tokio::test]
async fn a_whole_record_lease_keeps_every_leased_group_out_and_no_editor() {
    let file = File::new();
    let engine = file.engine().await;
    let chair = product("42");
    let token = created(&engine.editor("anna"), &chair).await;
    let importer = engine.worker("importer");
    let none = Vec::<&str>::new();
    let claim = claimed(importer.claim(&chair, none).whole().send().await.unwrap());

    for scope in ["media", "search", "translation[locale=de]"] {
        let other = engine.worker("other").claim(&chair, [scope]).on_busy(OnBusy::Fail);
        assert!(matches!(other.send().await.unwrap(), Claiming::Busy(_)), "{scope}");
    }
    let editor = engine.editor("anna").save(&chair).token(token).set("name", "Stool");
    saved(editor.send().await.unwrap());
    let save = claim.save().set("thumbnail", "t").set("title@locale=de", "Hocker");
    saved(save.send().await.unwrap());
    claim.release().await;

    assert_eq!(file.value(&chair, "title@locale=de").await, json!("Hocker"));
}

#[tokio::test]
async fn a_broken_lease_writes_no_more_and_the_reason_is_asked_for() {
    let file = File::new();
    let engine = file.engine().await;
    let chair = product("42");
    created(&engine.editor("anna"), &chair).await;
    let stuck = claimed(engine.worker("stuck").claim(&chair, ["media"]).send().await.unwrap());
    let media = ScopeName::parse("media").unwrap();

    let without = engine.break_lease(&chair, &media, " ").await;
    let broken = engine.break_lease(&chair, &media, "it hangs").await.unwrap();
    let early = stuck.save().set("thumbnail", "stuck").send().await.unwrap();
    let next = claimed(engine.worker("next").claim(&chair, ["media"]).send().await.unwrap());
    saved(next.save().set("thumbnail", "next").send().await.unwrap());
    let late = stuck.save().set("thumbnail", "stuck").send().await.unwrap();

    assert_eq!(without.unwrap_err().code(), "reason_missing");
    assert_eq!(&*broken.unwrap().label, "stuck");
    assert_eq!((early.code(), late.code()), ("lost", "lost"));
    assert_eq!(file.value(&chair, "thumbnail").await, json!("next"));
    let blame = engine.blame(&chair, &[path("thumbnail")]).await.unwrap();
    assert_eq!(&*blame[&path("thumbnail")].writer.name, "next");
}

#[tokio::test]
async fn a_dropped_claim_gives_its_lease_back_and_shutdown_leaves_none() {
    let file = File::new();
    let engine = file.engine().await;
    let chair = product("42");
    created(&engine.editor("anna"), &chair).await;
    drop(claimed(engine.worker("first").claim(&chair, ["media"]).send().await.unwrap()));

    let second = claimed(engine.worker("second").claim(&chair, ["media"]).send().await.unwrap());
    engine.shutdown(std::time::Duration::from_secs(5)).await;

    assert!(second.lost().is_cancelled());
    assert!(engine.worker("third").claim(&chair, ["media"]).send().await.is_err());
    assert_eq!(
        engine.editor("anna").save(&chair).set("name", "x").send().await.unwrap_err().code(),
        "unavailable"
    );
}
