//! Who acquires a key (transitions T1, T2, T3 and T10).

use std::time::Duration;

use crate::{
    entity::Writer,
    idempotency::BeginAsk,
    key::{ApiKey, Attempt, Begin, Finish, JobKey, Key, LEASE_MAX},
    testing::{
        key_suite::{
            Rig, Verdict,
            build::{DAY, LEASE, LONG, SHORT, done, in_progress, job, owner, work},
            promises,
        },
        store_suite::build::{Step, same, text_of},
    },
};

promises![
    a_key_nobody_used_is_acquired_as_attempt_1,
    a_live_attempt_keeps_others_out_and_says_for_how_long,
    a_stale_attempt_is_taken_over,
    another_hash_is_a_mismatch_in_every_state_and_changes_nothing,
    the_same_owner_asking_again_has_its_attempt,
    of_32_that_begin_at_once_exactly_one_acquires_and_all_are_answered,
    of_16_that_take_over_at_once_exactly_one_does,
    of_16_that_try_a_failure_again_at_once_exactly_one_does,
    a_failure_is_tried_again_when_it_is_due_and_not_before,
    an_expired_end_is_forgotten_and_attempts_count_on,
    peeking_says_what_beginning_would_and_writes_nothing,
    keys_of_other_kinds_scopes_and_names_are_other_keys,
    a_lease_without_end_is_refused,
];

async fn a_key_nobody_used_is_acquired_as_attempt_1(rig: Rig) -> Verdict {
    let (key, own) = (job("k")?, owner());

    let answer = rig.begin_as(&key, work(1), own).await?;

    let attempt = Attempt { owner: own, number: 1 };
    same("the answer", answer, Begin::Acquired { attempt, taken_over: false })
}

async fn a_live_attempt_keeps_others_out_and_says_for_how_long(rig: Rig) -> Verdict {
    let key = job("k")?;
    rig.acquired(&key, work(1)).await?;
    rig.pass(SHORT).await?;

    match rig.begin(&key, work(1)).await? {
        Begin::InProgress { retry_after } if retry_after > LEASE - SHORT => {
            Err(format!("the lease grew while time passed: {retry_after:?}"))
        }
        Begin::InProgress { retry_after } if retry_after > LEASE - SHORT - SHORT => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

async fn a_stale_attempt_is_taken_over(rig: Rig) -> Verdict {
    let (key, own) = (job("k")?, owner());
    rig.acquired(&key, work(1)).await?;
    rig.pass(LONG).await?;

    let answer = rig.begin_as(&key, work(1), own).await?;

    let attempt = Attempt { owner: own, number: 2 };
    same("the answer", answer, Begin::Acquired { attempt, taken_over: true })?;
    in_progress(&rig.begin(&key, work(1)).await?)
}

/// Brings a key into each state there is.
async fn in_every_state(rig: &Rig) -> Step<Vec<Key>> {
    let names = ["stale", "pending", "completed", "failed", "due", "not-due"];
    let keys: Vec<Key> = names.iter().map(|name| job(name)).collect::<Step<_>>()?;
    let retry = |after| Finish::Retry { class: "io".to_owned(), after };
    let failed = Finish::Failed { result: "no".to_owned(), retention: DAY };
    for key in &keys {
        let attempt = rig.acquired(key, work(1)).await?;
        let end = match key.name() {
            "completed" => done(),
            "failed" => failed.clone(),
            "due" => retry(Duration::ZERO),
            "not-due" => retry(DAY),
            _ => continue,
        };
        rig.finished(key, attempt, &end).await?;
    }
    rig.pass(LONG).await?;
    if let Some(pending) = keys.iter().find(|key| key.name() == "pending") {
        rig.acquired(pending, work(1)).await?;
    }
    Ok(keys)
}

async fn another_hash_is_a_mismatch_in_every_state_and_changes_nothing(rig: Rig) -> Verdict {
    let keys = in_every_state(&rig).await?;
    let before = rig.listed().await?;

    for key in &keys {
        same(&key.to_string(), rig.begin(key, work(2)).await?, Begin::Mismatch)?;
        let peeked = rig.keys.peek(key, work(2)).await.map_err(text_of)?;
        same(&key.to_string(), peeked, Some(Begin::Mismatch))?;
    }

    same("the keys", rig.listed().await?, before)?;
    // And the first hash is still the one that counts.
    match rig.begin(&job("completed")?, work(1)).await? {
        Begin::Replay(_) => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

async fn the_same_owner_asking_again_has_its_attempt(rig: Rig) -> Verdict {
    let (key, own) = (job("k")?, owner());
    let attempt = Attempt { owner: own, number: 1 };
    let wanted = Begin::Acquired { attempt, taken_over: false };

    same("the first answer", rig.begin_as(&key, work(1), own).await?, wanted.clone())?;
    same("the second answer", rig.begin_as(&key, work(1), own).await?, wanted.clone())?;
    rig.pass(LONG).await?;
    same("the answer after the lease", rig.begin_as(&key, work(1), own).await?, wanted)?;
    in_progress(&rig.begin(&key, work(1)).await?)?;
    rig.finished(&key, attempt, &done()).await?;
    match rig.begin_as(&key, work(1), own).await? {
        Begin::Replay(_) => Ok(()),
        other => Err(format!("its own work had ended, and it is told {other:?}")),
    }
}

/// How many of `most` that begin at once acquire; all must be answered.
async fn at_once(rig: &Rig, key: &Key, most: usize) -> Step<Vec<Attempt>> {
    let calls = (0..most).map(|_| {
        let (rig, key) = (rig.clone(), key.clone());
        tokio::spawn(async move { rig.begin(&key, work(1)).await })
    });
    let calls: Vec<_> = calls.collect();
    let mut acquired = Vec::new();
    for call in calls {
        match call.await.map_err(text_of)?? {
            Begin::Acquired { attempt, .. } => acquired.push(attempt),
            other => in_progress(&other)?,
        }
    }
    Ok(acquired)
}

async fn of_32_that_begin_at_once_exactly_one_acquires_and_all_are_answered(rig: Rig) -> Verdict {
    for round in 0..8 {
        let acquired = at_once(&rig, &job(&format!("k{round}"))?, 32).await?;

        let numbers: Vec<_> = acquired.iter().map(|attempt| attempt.number).collect();
        same("the attempts", numbers, vec![1])?;
    }
    Ok(())
}

async fn of_16_that_take_over_at_once_exactly_one_does(rig: Rig) -> Verdict {
    let keys: Vec<Key> = (0..8).map(|round| job(&format!("k{round}"))).collect::<Step<_>>()?;
    for key in &keys {
        rig.acquired(key, work(1)).await?;
    }
    rig.pass(LONG).await?;

    for key in &keys {
        let numbers: Vec<_> =
            at_once(&rig, key, 16).await?.iter().map(|attempt| attempt.number).collect();
        same("the attempts", numbers, vec![2])?;
    }
    Ok(())
}

async fn of_16_that_try_a_failure_again_at_once_exactly_one_does(rig: Rig) -> Verdict {
    let key = job("k")?;
    let attempt = rig.acquired(&key, work(1)).await?;
    let retry = Finish::Retry { class: "io".to_owned(), after: Duration::ZERO };
    rig.finished(&key, attempt, &retry).await?;
    rig.pass(SHORT).await?;

    let acquired = at_once(&rig, &key, 16).await?;

    let numbers: Vec<_> = acquired.iter().map(|attempt| attempt.number).collect();
    same("the attempts", numbers, vec![2])
}

async fn a_failure_is_tried_again_when_it_is_due_and_not_before(rig: Rig) -> Verdict {
    let key = job("k")?;
    let attempt = rig.acquired(&key, work(1)).await?;
    let retry = Finish::Retry { class: "io".to_owned(), after: LONG };
    rig.finished(&key, attempt, &retry).await?;

    match rig.begin(&key, work(1)).await? {
        Begin::RetryLater { retry_after } if retry_after <= LONG && retry_after > SHORT => {}
        other => return Err(format!("before it is due: {other:?}")),
    }
    rig.pass(LONG).await?;
    let again = rig.acquired(&key, work(1)).await?;
    same("the attempt", again.number, 2)?;
    same("whether the failed attempt may finish", rig.finish(&key, attempt, &done()).await?, false)
}

async fn an_expired_end_is_forgotten_and_attempts_count_on(rig: Rig) -> Verdict {
    let (completed, failed) = (job("completed")?, job("failed")?);
    let first = rig.acquired(&completed, work(1)).await?;
    rig.finished(&completed, first, &done()).await?;
    let attempt = rig.acquired(&failed, work(1)).await?;
    let end = Finish::Failed { result: "no".to_owned(), retention: DAY };
    rig.finished(&failed, attempt, &end).await?;

    rig.pass(DAY - LONG).await?;
    rig.replayed(&completed, work(1)).await?;
    rig.pass(LONG).await?;
    // Other work may use the key now.
    for key in [&completed, &failed] {
        same("the attempt", rig.acquired(key, work(2)).await?.number, 2)?;
        same("the first hash", rig.begin(key, work(1)).await?, Begin::Mismatch)?;
        in_progress(&rig.begin(key, work(2)).await?)?;
    }
    // Whoever had it before is nobody now.
    for how in [done(), Finish::Release] {
        same("whether a zombie may end it", rig.finish(&completed, first, &how).await?, false)?;
    }
    same("whether a zombie may renew", rig.renew(&completed, first).await?, false)
}

async fn peeking_says_what_beginning_would_and_writes_nothing(rig: Rig) -> Verdict {
    let keys = in_every_state(&rig).await?;
    let before = rig.listed().await?;

    let mut said = Vec::new();
    for key in keys.iter().chain([&job("nobody")?]) {
        let peeked = rig.keys.peek(key, work(1)).await.map_err(text_of)?;
        let word = match peeked {
            None => "acquires",
            Some(Begin::Replay(_)) => "replay",
            Some(Begin::InProgress { .. }) => "in progress",
            Some(Begin::RetryLater { .. }) => "later",
            Some(other) => return Err(format!("{key}: {other:?}")),
        };
        said.push((key.name().to_owned(), word));
    }

    let wanted = [
        ("stale", "acquires"),
        ("pending", "in progress"),
        ("completed", "replay"),
        ("failed", "replay"),
        ("due", "acquires"),
        ("not-due", "later"),
        ("nobody", "acquires"),
    ];
    let wanted = wanted.map(|(name, word)| (name.to_owned(), word)).to_vec();
    same("what was said", said, wanted)?;
    same("the keys", rig.listed().await?, before)
}

async fn keys_of_other_kinds_scopes_and_names_are_other_keys(rig: Rig) -> Verdict {
    let api = ApiKey::new("key").map_err(text_of)?;
    let other_job = |name: &str| -> Step<Key> {
        JobKey::text(name).map_err(text_of)?.key(&Writer::worker("importer")).map_err(text_of)
    };
    let keys = [
        job("key")?,
        // Bytes are compared: no case folding, no padding, no collation.
        job("KEY")?,
        job("key%20")?,
        job("key_")?,
        other_job("key")?,
        api.key(&Writer::worker("thumbnailer"), "save"),
        api.key(&Writer::worker("thumbnailer"), "create"),
        api.key(&Writer::editor("thumbnailer"), "save"),
        api.key(&Writer::editor("Thumbnailer"), "save"),
    ];

    for key in &keys {
        same(&key.to_string(), rig.acquired(key, work(1)).await?.number, 1)?;
    }

    same("how many there are", rig.listed().await?.len(), keys.len())
}

async fn a_lease_without_end_is_refused(rig: Rig) -> Verdict {
    let ask = |lease| -> Step<BeginAsk> {
        Ok(BeginAsk { key: job("k")?, hash: work(1), own: owner(), lease })
    };

    for lease in [Duration::ZERO, LEASE_MAX + Duration::from_micros(1), Duration::MAX] {
        match rig.keys.begin(&ask(lease)?).await {
            Err(error) if error.code() == "bad_lease" => {}
            other => return Err(format!("{lease:?}: {other:?}")),
        }
    }
    same("the keys", rig.listed().await?, Vec::new())?;
    rig.keys.begin(&ask(LEASE_MAX)?).await.map_err(text_of)?;
    Ok(())
}
