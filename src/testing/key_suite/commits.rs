//! Keys completed by saves, in the transaction of the effect (transitions T1, T2 and T6; RULES 24, 31, 32).

use std::{collections::BTreeMap, time::Duration};

use serde_json::json;

use crate::{
    commit::{Commit, Committed, Expect, KeyMode, Refusal},
    entity::{EntityRef, Writer},
    key::{Attempt, Begin, Effect, Ending, Finish, Finished},
    path::Path,
    testing::{
        key_suite::{
            Rig, Verdict,
            build::{DAY, LONG, SHORT, done, job, keyed, owner, work},
            promises,
        },
        store_suite::build::{
            Step, creation, product, same, save, save_under, scope, text_of, token,
        },
    },
    token::{OperationId, ScopeVersion, VersionNumber},
};

promises![
    a_save_completes_its_attempt_and_repeats_are_answered_what_it_did,
    an_editors_save_answers_its_version_again,
    an_apply_once_key_is_acquired_and_completed_by_its_save,
    a_repeat_is_answered_before_anything_else_is_compared,
    a_refused_save_leaves_the_key_as_it_was,
    a_zombie_writes_nothing_anywhere,
    a_commit_after_its_lease_is_applied_when_nobody_took_over,
    another_group_that_moved_is_no_reason,
    a_live_attempt_of_another_keeps_apply_out,
    apply_takes_over_a_stale_attempt,
    apply_waits_for_a_failure_to_be_due,
    another_hash_writes_nothing,
    an_expired_key_is_used_again_by_apply,
    a_record_is_created_once_however_often_it_is_asked_for,
    identical_saves_at_once_take_effect_once,
    the_same_commit_sent_by_four_connections_takes_effect_once,
    an_operation_that_took_effect_is_told_before_its_key,
    a_key_is_completed_by_exactly_one_operation,
    input_stamps_are_kept_with_the_effect,
    a_batch_with_one_key_twice_applies_the_rest,
];

fn worker() -> Writer {
    Writer::worker("thumbnailer")
}

/// A save of `media.width` on what is stored now.
async fn width(rig: &Rig, entity: &EntityRef, to: u64) -> Step<Commit> {
    let seen = rig.stores.seen(entity).await?;
    save(&seen, &worker(), &[("media.width", json!(to))])
}

async fn made(rig: &Rig) -> Step<EntityRef> {
    let values = [("media.width", json!(0)), ("content.text", json!("a"))];
    Ok(rig.stores.made("1", &values).await?.entity)
}

/// The operation of each save of the record, newest first.
async fn operations(rig: &Rig, entity: &EntityRef) -> Step<Vec<OperationId>> {
    Ok(rig.stores.entries(entity).await?.iter().map(|entry| entry.operation).collect())
}

fn finished(commit: &Commit, versions: &[(&str, u64)], number: Option<u64>) -> Step<Finished> {
    let mut after = BTreeMap::new();
    for (name, version) in versions {
        after.insert(scope(name)?, ScopeVersion(*version));
    }
    Ok(Finished {
        ending: Ending::Completed,
        result: commit.key.as_ref().map(|key| key.result.clone()).unwrap_or_default(),
        effect: Some(Effect {
            operation: commit.operation,
            versions: after,
            number: number.map(VersionNumber),
            incarnation: crate::token::Incarnation(1),
        }),
        inputs: None,
    })
}

async fn a_save_completes_its_attempt_and_repeats_are_answered_what_it_did(rig: Rig) -> Verdict {
    let (entity, key) = (made(&rig).await?, job("k")?);
    let attempt = rig.acquired(&key, work(1)).await?;
    let commit = width(&rig, &entity, 2).await?;
    let commit = keyed(commit, &key, work(1), KeyMode::Claimed(attempt));

    rig.stores.applied(&commit).await?;

    let wanted = finished(&commit, &[("media", 2)], None)?;
    same("the repeat", rig.replayed(&key, work(1)).await?, wanted.clone())?;
    // Later saves change the record, not the answer.
    rig.stores.applied(&width(&rig, &entity, 3).await?).await?;
    same("the repeat after more saves", rig.replayed(&key, work(1)).await?, wanted)
}

async fn an_editors_save_answers_its_version_again(rig: Rig) -> Verdict {
    let (entity, key) = (made(&rig).await?, job("k")?);
    let seen = rig.stores.seen(&entity).await?;
    let values = [("content.text", json!("b")), ("media.width", json!(1))];
    let commit = save(&seen, &Writer::editor("anna"), &values)?;
    let commit = keyed(commit, &key, work(1), KeyMode::Once(owner()));

    rig.stores.applied(&commit).await?;

    let wanted = finished(&commit, &[("content", 2), ("media", 2)], Some(2))?;
    same("the repeat", rig.replayed(&key, work(1)).await?, wanted)
}

async fn an_apply_once_key_is_acquired_and_completed_by_its_save(rig: Rig) -> Verdict {
    let (entity, key) = (made(&rig).await?, job("k")?);
    let mut first = width(&rig, &entity, 1).await?;
    first.scopes.insert(scope("media")?, Expect::Unread);
    let first = keyed(first, &key, work(1), KeyMode::Once(owner()));
    rig.stores.applied(&first).await?;

    let mut second = width(&rig, &entity, 2).await?;
    second.scopes.insert(scope("media")?, Expect::Unread);
    let second = keyed(second, &key, work(1), KeyMode::Once(owner()));

    let told = Refusal::KeyReplay(Box::new(finished(&first, &[("media", 2)], None)?));
    rig.refused(&second, told).await?;
    same("the attempts", rig.listed().await?.first().map(|key| key.attempt), Some(1))
}

async fn a_repeat_is_answered_before_anything_else_is_compared(rig: Rig) -> Verdict {
    let (entity, key) = (made(&rig).await?, job("k")?);
    let stale = width(&rig, &entity, 1).await?;
    let first = keyed(width(&rig, &entity, 2).await?, &key, work(1), KeyMode::Once(owner()));
    rig.stores.applied(&first).await?;
    let told = || finished(&first, &[("media", 2)], None).map(Box::new).map(Refusal::KeyReplay);

    let stale = keyed(stale, &key, work(1), KeyMode::Once(owner()));
    let mut lawless = keyed(stale.clone(), &key, work(1), KeyMode::Once(owner()));
    lawless.operation = crate::testing::store_suite::build::operation();
    lawless.generation = crate::token::Generation([9; 32]);
    let mut nowhere = lawless.clone();
    nowhere.entity = product("never")?;

    rig.refused(&stale, told()?).await?;
    rig.refused(&lawless, told()?).await?;
    rig.refused(&nowhere, told()?).await
}

async fn a_refused_save_leaves_the_key_as_it_was(rig: Rig) -> Verdict {
    let (entity, once, claimed) = (made(&rig).await?, job("once")?, job("claimed")?);
    let attempt = rig.acquired(&claimed, work(1)).await?;
    let media = scope("media")?;
    let commits = [
        keyed(width(&rig, &entity, 5).await?, &once, work(1), KeyMode::Once(owner())),
        keyed(width(&rig, &entity, 5).await?, &claimed, work(1), KeyMode::Claimed(attempt)),
    ];
    rig.stores.applied(&width(&rig, &entity, 1).await?).await?;

    for mut commit in commits {
        rig.refused(&commit, Refusal::Stale(vec![media.clone()])).await?;
        // Refused after the scopes were raised: at the inputs, the last thing compared.
        commit.scopes.insert(media.clone(), Expect::Version(ScopeVersion(2)));
        let input = Path::parse("content.text").map_err(text_of)?;
        commit.inputs.insert(input.clone(), None);
        rig.refused(&commit, Refusal::InputMoved(vec![input])).await?;
        commit.inputs.clear();
        commit.entity = product("never")?;
        rig.refused(&commit, Refusal::NotFound).await?;
    }

    let names: Vec<_> = rig.listed().await?.iter().map(|key| key.key.name().to_owned()).collect();
    same("the keys", names, vec!["claimed".to_owned()])?;
    let again = width(&rig, &entity, 7).await?;
    let again = keyed(again, &claimed, work(1), KeyMode::Claimed(attempt));
    rig.stores.applied(&again).await?;
    Ok(())
}

async fn a_zombie_writes_nothing_anywhere(rig: Rig) -> Verdict {
    let (entity, key) = (made(&rig).await?, job("k")?);
    let zombie = rig.acquired(&key, work(1)).await?;
    rig.pass(LONG).await?;
    let attempt = rig.acquired(&key, work(1)).await?;
    let dead = |commit| keyed(commit, &key, work(1), KeyMode::Claimed(zombie));

    // While its successor is at it.
    rig.refused(&dead(width(&rig, &entity, 1).await?), Refusal::KeyLost).await?;
    let commit = width(&rig, &entity, 2).await?;
    let commit = keyed(commit, &key, work(1), KeyMode::Claimed(attempt));
    rig.stores.applied(&commit).await?;
    // After its successor has completed, at the right version.
    rig.refused(&dead(width(&rig, &entity, 3).await?), Refusal::KeyLost).await?;
    // Nobody else's pair of owner and number does either, and the key completes once.
    let impostors = [
        attempt,
        Attempt { owner: zombie.owner, number: 2 },
        Attempt { owner: owner(), number: 2 },
    ];
    for impostor in impostors {
        let commit = width(&rig, &entity, 4).await?;
        let commit = keyed(commit, &key, work(1), KeyMode::Claimed(impostor));
        rig.refused(&commit, Refusal::KeyLost).await?;
    }
    // A key nobody ever began is nobody's.
    let commit = width(&rig, &entity, 5).await?;
    let commit = keyed(commit, &job("never")?, work(1), KeyMode::Claimed(attempt));
    rig.refused(&commit, Refusal::KeyLost).await
}

async fn a_commit_after_its_lease_is_applied_when_nobody_took_over(rig: Rig) -> Verdict {
    let (entity, key) = (made(&rig).await?, job("k")?);
    let attempt = rig.acquired(&key, work(1)).await?;
    rig.pass(LONG).await?;

    let commit = width(&rig, &entity, 2).await?;
    rig.stores.applied(&keyed(commit, &key, work(1), KeyMode::Claimed(attempt))).await?;

    rig.replayed(&key, work(1)).await?;
    Ok(())
}

async fn another_group_that_moved_is_no_reason(rig: Rig) -> Verdict {
    let (entity, key) = (made(&rig).await?, job("k")?);
    let attempt = rig.acquired(&key, work(1)).await?;
    let holder = token();
    let claim = rig.stores.claimed(&entity, &["media"], holder).await?;
    let seen = rig.stores.seen(&entity).await?;
    let editor = save(&seen, &Writer::editor("anna"), &[("content.text", json!("b"))])?;
    rig.stores.applied(&editor).await?;

    let commit = save_under(&claim, holder, &[("media.width", json!(9))])?;
    let commit = keyed(commit, &key, work(1), KeyMode::Claimed(attempt));
    rig.stores.applied(&commit).await?;

    let after = rig.stores.seen(&entity).await?;
    same("media", after.version(&scope("media")?), ScopeVersion(2))?;
    same("content", after.version(&scope("content")?), ScopeVersion(2))?;
    same("the number of versions", after.number, VersionNumber(2))
}

async fn a_live_attempt_of_another_keeps_apply_out(rig: Rig) -> Verdict {
    let (entity, key) = (made(&rig).await?, job("k")?);
    rig.acquired(&key, work(1)).await?;
    rig.pass(SHORT).await?;

    let commit = width(&rig, &entity, 2).await?;
    rig.busy(&keyed(commit, &key, work(1), KeyMode::Once(owner()))).await
}

async fn apply_takes_over_a_stale_attempt(rig: Rig) -> Verdict {
    let (entity, key) = (made(&rig).await?, job("k")?);
    let zombie = rig.acquired(&key, work(1)).await?;
    rig.pass(LONG).await?;

    let commit = width(&rig, &entity, 2).await?;
    rig.stores.applied(&keyed(commit, &key, work(1), KeyMode::Once(owner()))).await?;

    same("the attempts", rig.listed().await?.first().map(|key| key.attempt), Some(2))?;
    let commit = width(&rig, &entity, 3).await?;
    let commit = keyed(commit, &key, work(1), KeyMode::Claimed(zombie));
    rig.refused(&commit, Refusal::KeyLost).await
}

async fn apply_waits_for_a_failure_to_be_due(rig: Rig) -> Verdict {
    let (entity, key) = (made(&rig).await?, job("k")?);
    let attempt = rig.acquired(&key, work(1)).await?;
    let retry = Finish::Retry { class: "io".to_owned(), after: SHORT };
    rig.finished(&key, attempt, &retry).await?;

    let commit = width(&rig, &entity, 2).await?;
    let commit = keyed(commit, &key, work(1), KeyMode::Once(owner()));
    rig.busy(&commit).await?;
    rig.pass(LONG).await?;
    rig.stores.applied(&commit).await?;
    same("the attempts", rig.listed().await?.first().map(|key| key.attempt), Some(2))
}

async fn another_hash_writes_nothing(rig: Rig) -> Verdict {
    let entity = made(&rig).await?;
    let keys = [job("pending")?, job("stale")?, job("completed")?, job("retry")?];
    let [pending, stale, completed, retry] = &keys;
    rig.acquired(stale, work(1)).await?;
    rig.pass(LONG).await?;
    rig.acquired(pending, work(1)).await?;
    let attempt = rig.acquired(completed, work(1)).await?;
    rig.finished(completed, attempt, &done()).await?;
    let attempt = rig.acquired(retry, work(1)).await?;
    let how = Finish::Retry { class: "io".to_owned(), after: Duration::ZERO };
    rig.finished(retry, attempt, &how).await?;

    for key in &keys {
        let commit = width(&rig, &entity, 2).await?;
        let commit = keyed(commit, key, work(2), KeyMode::Once(owner()));
        rig.refused(&commit, Refusal::KeyMismatch).await?;
    }
    Ok(())
}

async fn an_expired_key_is_used_again_by_apply(rig: Rig) -> Verdict {
    let (entity, key) = (made(&rig).await?, job("k")?);
    let first = keyed(width(&rig, &entity, 1).await?, &key, work(1), KeyMode::Once(owner()));
    rig.stores.applied(&first).await?;
    rig.pass(DAY + SHORT).await?;

    let second = keyed(width(&rig, &entity, 2).await?, &key, work(2), KeyMode::Once(owner()));
    rig.stores.applied(&second).await?;

    same(
        "the repeat",
        rig.replayed(&key, work(2)).await?,
        finished(&second, &[("media", 3)], None)?,
    )?;
    same("the first work", rig.begin(&key, work(1)).await?, Begin::Mismatch)?;
    same("the attempts", rig.listed().await?.first().map(|key| key.attempt), Some(2))
}

async fn a_record_is_created_once_however_often_it_is_asked_for(rig: Rig) -> Verdict {
    let (entity, key) = (product("new")?, job("k")?);
    let creation = || -> Step<Commit> {
        let commit = creation(&entity, None, &[("content.text", json!("a"))])?;
        Ok(keyed(commit, &key, work(1), KeyMode::Once(owner())))
    };
    let first = creation()?;
    rig.stores.applied(&first).await?;

    let told = finished(&first, &[("content", 1)], Some(1))?;
    rig.refused(&creation()?, Refusal::KeyReplay(Box::new(told))).await
}

/// Sends all at once; answers how many were applied, and what the others were told.
async fn together(rig: &Rig, commits: Vec<Commit>) -> Step<(usize, Vec<Committed>)> {
    let calls = commits.into_iter().map(|commit| {
        let rig = rig.clone();
        tokio::spawn(async move { rig.stores.commit(&commit).await })
    });
    let calls: Vec<_> = calls.collect();
    let (mut applied, mut others) = (0, Vec::new());
    for call in calls {
        match call.await.map_err(text_of)?? {
            Committed::Applied { .. } => applied += 1,
            other => others.push(other),
        }
    }
    Ok((applied, others))
}

async fn identical_saves_at_once_take_effect_once(rig: Rig) -> Verdict {
    let entity = made(&rig).await?;
    for round in 0..6 {
        let key = job(&format!("k{round}"))?;
        let before = rig.stores.seen(&entity).await?.version(&scope("media")?);
        let mut commits = Vec::new();
        for _ in 0..12 {
            let mut commit = width(&rig, &entity, 100 + round).await?;
            commit.scopes.insert(scope("media")?, Expect::Unread);
            commits.push(keyed(commit, &key, work(1), KeyMode::Once(owner())));
        }

        let (applied, others) = together(&rig, commits).await?;

        same("how many were applied", applied, 1)?;
        let wanted = Box::new(rig.replayed(&key, work(1)).await?);
        for other in others {
            same(
                "what a duplicate is told",
                other,
                Committed::Refused(Refusal::KeyReplay(wanted.clone())),
            )?;
        }
        let after = rig.stores.seen(&entity).await?.version(&scope("media")?);
        same("the version", after, before.next())?;
    }
    Ok(())
}

async fn the_same_commit_sent_by_four_connections_takes_effect_once(rig: Rig) -> Verdict {
    let entity = made(&rig).await?;
    for round in 0..12 {
        let key = job(&format!("k{round}"))?;
        let attempt = rig.acquired(&key, work(1)).await?;
        let commit = width(&rig, &entity, 100 + round).await?;
        let commit = keyed(commit, &key, work(1), KeyMode::Claimed(attempt));

        let (applied, others) = together(&rig, vec![commit; 4]).await?;

        same("how many were applied", applied, 1)?;
        let told = others.iter().all(|other| {
            matches!(other, Committed::AlreadyApplied | Committed::Refused(Refusal::KeyLost))
        });
        same(&format!("what the others are told: {others:?}"), told, true)?;
    }
    same("the saves", operations(&rig, &entity).await?.len(), 13)
}

async fn an_operation_that_took_effect_is_told_before_its_key(rig: Rig) -> Verdict {
    let (entity, key) = (made(&rig).await?, job("k")?);
    let commit = keyed(width(&rig, &entity, 1).await?, &key, work(1), KeyMode::Once(owner()));
    rig.stores.applied(&commit).await?;

    // Its answer was lost, and it is sent again.
    same("the answer", rig.stores.commit(&commit).await?, Committed::AlreadyApplied)?;
    let resolved = rig.stores.records.resolve(commit.operation).await.map_err(text_of)?;
    same("whether it resolves", matches!(resolved, Some(Committed::Applied { .. })), true)
}

async fn a_key_is_completed_by_exactly_one_operation(rig: Rig) -> Verdict {
    let entity = made(&rig).await?;
    let mut completed = Vec::new();
    for number in 0..4 {
        let key = job(&format!("k{number}"))?;
        for _ in 0..3 {
            let commit = width(&rig, &entity, 10 + number).await?;
            let commit = keyed(commit, &key, work(1), KeyMode::Once(owner()));
            if let Committed::Applied { .. } = rig.stores.commit(&commit).await? {
                completed.push(commit.operation);
            }
        }
        let by = rig.replayed(&key, work(1)).await?.effect.map(|effect| effect.operation);
        same("the operation of the key", by, completed.last().copied())?;
    }

    let mut operations = operations(&rig, &entity).await?;
    // The creation has no key.
    operations.pop();
    operations.reverse();
    same("the operations", operations, completed)
}

async fn input_stamps_are_kept_with_the_effect(rig: Rig) -> Verdict {
    let (entity, key) = (made(&rig).await?, job("k")?);
    let seen = rig.stores.seen(&entity).await?;
    let input = Path::parse("content.text").map_err(text_of)?;
    let stamp = seen.stamps.get(&input).map(|stamp| stamp.operation);
    let inputs = Some([(input, stamp)].into());
    let mut commit = keyed(width(&rig, &entity, 1).await?, &key, work(1), KeyMode::Once(owner()));
    if let Some(key) = &mut commit.key {
        key.inputs.clone_from(&inputs);
    }

    rig.stores.applied(&commit).await?;

    same("the inputs", rig.replayed(&key, work(1)).await?.inputs, inputs)
}

async fn a_batch_with_one_key_twice_applies_the_rest(rig: Rig) -> Verdict {
    let mut answers = Vec::new();
    for (id, name) in [("1", "a"), ("2", "b"), ("3", "a"), ("4", "c")] {
        let entity = rig.stores.made(id, &[("media.width", json!(0))]).await?.entity;
        let commit =
            keyed(width(&rig, &entity, 1).await?, &job(name)?, work(1), KeyMode::Once(owner()));
        answers.push(match rig.stores.commit(&commit).await? {
            Committed::Applied { .. } => "applied",
            Committed::Refused(refusal) => refusal.code(),
            Committed::AlreadyApplied => "already",
        });
    }

    same("the answers", answers, vec!["applied", "applied", "key_replay", "applied"])
}
