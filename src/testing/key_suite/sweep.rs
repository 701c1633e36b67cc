//! Removing and listing keys (transition T11).

use std::time::Duration;

use crate::{
    idempotency::KeyState,
    key::{ABANDONED_AFTER, Finish, SWEEP_AFTER},
    testing::{
        key_suite::{
            Rig, Verdict,
            build::{DAY, LONG, SHORT, done, job, work},
            promises,
        },
        store_suite::build::{Step, same, text_of},
    },
};

promises![
    sweeping_removes_what_expired_long_ago_and_nothing_else,
    attempts_nobody_finished_are_swept_after_weeks,
    a_sweep_removes_no_more_than_it_is_told,
    four_sweepers_at_once_remove_each_row_once,
    after_a_sweep_no_zombie_finishes,
    keys_are_listed_in_order_and_page_by_page,
    what_is_listed_says_where_a_key_stands,
];

async fn swept(rig: &Rig, most: u32) -> Step<u32> {
    rig.keys.sweep(most).await.map_err(text_of)
}

async fn names(rig: &Rig) -> Step<Vec<String>> {
    Ok(rig.listed().await?.iter().map(|listed| listed.key.name().to_owned()).collect())
}

async fn sweeping_removes_what_expired_long_ago_and_nothing_else(rig: Rig) -> Verdict {
    let failed = Finish::Failed { result: String::new(), retention: DAY };
    let retry = Finish::Retry { class: "io".to_owned(), after: Duration::ZERO };
    for (name, how) in [("completed", &done()), ("failed", &failed), ("retry", &retry)] {
        let attempt = rig.acquired(&job(name)?, work(1)).await?;
        rig.finished(&job(name)?, attempt, how).await?;
    }
    rig.acquired(&job("pending")?, work(1)).await?;

    rig.pass(DAY + SWEEP_AFTER - LONG).await?;
    same("how many went too early", swept(&rig, 100).await?, 0)?;
    rig.pass(LONG + SHORT).await?;
    same("how many went", swept(&rig, 100).await?, 2)?;
    same("what stayed", names(&rig).await?, vec!["pending".to_owned(), "retry".to_owned()])
}

async fn attempts_nobody_finished_are_swept_after_weeks(rig: Rig) -> Verdict {
    rig.acquired(&job("pending")?, work(1)).await?;
    let attempt = rig.acquired(&job("retry")?, work(1)).await?;
    let retry = Finish::Retry { class: "io".to_owned(), after: Duration::ZERO };
    rig.finished(&job("retry")?, attempt, &retry).await?;

    rig.pass(ABANDONED_AFTER - LONG).await?;
    same("how many went too early", swept(&rig, 100).await?, 0)?;
    rig.pass(LONG + LONG).await?;
    same("how many went", swept(&rig, 100).await?, 2)
}

/// So many ends that expired long ago.
async fn expired(rig: &Rig, many: u32) -> Verdict {
    for number in 0..many {
        let key = job(&format!("k{number:04}"))?;
        let attempt = rig.acquired(&key, work(1)).await?;
        rig.finished(&key, attempt, &done()).await?;
    }
    rig.pass(DAY + SWEEP_AFTER + LONG).await
}

async fn a_sweep_removes_no_more_than_it_is_told(rig: Rig) -> Verdict {
    expired(&rig, 5).await?;

    let counts = [swept(&rig, 3).await?, swept(&rig, 3).await?, swept(&rig, 3).await?];

    same("how many went each time", counts, [3, 2, 0])
}

async fn four_sweepers_at_once_remove_each_row_once(rig: Rig) -> Verdict {
    const ROWS: u32 = 120;
    expired(&rig, ROWS).await?;
    rig.acquired(&job("new")?, work(1)).await?;

    let sweepers = (0..4).map(|_| {
        let rig = rig.clone();
        tokio::spawn(async move {
            let (mut all, mut idle) = (0, 0);
            // A sweeper that finds every row taken by another may be told none for a moment.
            while idle < 3 {
                let now = swept(&rig, 7).await?;
                all += now;
                idle = if now == 0 { idle + 1 } else { 0 };
            }
            Ok::<u32, String>(all)
        })
    });
    let sweepers: Vec<_> = sweepers.collect();
    let mut all = 0;
    for sweeper in sweepers {
        all += sweeper.await.map_err(text_of)??;
    }

    same("how many they removed", all, ROWS)?;
    same("what stayed", names(&rig).await?, vec!["new".to_owned()])
}

async fn after_a_sweep_no_zombie_finishes(rig: Rig) -> Verdict {
    let key = job("k")?;
    let zombie = rig.acquired(&key, work(1)).await?;
    rig.pass(ABANDONED_AFTER + LONG).await?;
    same("how many went", swept(&rig, 100).await?, 1)?;

    same("whether a zombie renews", rig.renew(&key, zombie).await?, false)?;
    same("whether a zombie finishes", rig.finish(&key, zombie, &done()).await?, false)?;
    same("the keys", rig.listed().await?, Vec::new())?;
    rig.acquired(&key, work(1)).await?;
    same("whether a zombie finishes", rig.finish(&key, zombie, &done()).await?, false)
}

async fn keys_are_listed_in_order_and_page_by_page(rig: Rig) -> Verdict {
    for name in ["b", "a", "B", "_", "a1", "c"] {
        rig.acquired(&job(name)?, work(1)).await?;
    }

    let mut pages = Vec::new();
    let mut after = None;
    loop {
        let page = rig.keys.list(after.as_ref(), 4).await.map_err(text_of)?;
        let Some(last) = page.last() else { break };
        after = Some(last.key.clone());
        let names: Vec<_> = page.iter().map(|listed| listed.key.name().to_owned()).collect();
        pages.push(names.join(" "));
    }

    same("the pages", pages, vec!["B _ a a1".to_owned(), "b c".to_owned()])
}

async fn what_is_listed_says_where_a_key_stands(rig: Rig) -> Verdict {
    let failed = Finish::Failed { result: String::new(), retention: DAY };
    let retry = Finish::Retry { class: "io".to_owned(), after: DAY };
    for (name, how) in [("completed", &done()), ("failed", &failed), ("retry", &retry)] {
        let attempt = rig.acquired(&job(name)?, work(1)).await?;
        rig.finished(&job(name)?, attempt, how).await?;
    }
    rig.acquired(&job("pending")?, work(1)).await?;

    let listed = rig.listed().await?;

    let states: Vec<_> = listed
        .iter()
        .map(|key| (key.key.name().to_owned(), key.state, key.attempt, key.class.clone()))
        .collect();
    let wanted = vec![
        ("completed".to_owned(), KeyState::Completed, 1, None),
        ("failed".to_owned(), KeyState::Failed, 1, None),
        ("pending".to_owned(), KeyState::Pending, 1, None),
        ("retry".to_owned(), KeyState::Retry, 1, Some("io".to_owned())),
    ];
    same("the states", states, wanted)?;
    let later = listed.iter().all(|key| key.until > key.created_at);
    same("whether everything is to come", later, true)
}
