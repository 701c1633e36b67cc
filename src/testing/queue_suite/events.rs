//! Events: told with what they tell of, pulled in order, none passed over (RULES 26).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::{
    commit::{Commit, Committed, Expect, Notice},
    entity::EntityRef,
    queue::Told,
    testing::{
        queue_suite::{
            Rig, Verdict,
            build::{notice, seen, worker},
            promises,
        },
        store_suite::build::{Step, deletion, operation, product, same, save, scope, text_of},
    },
    token::OperationId,
};

promises![
    a_save_tells_its_events_in_their_order,
    a_creation_and_a_deletion_tell_theirs_too,
    an_event_says_when_and_anything_that_is_json,
    events_of_no_save_are_told_too,
    events_are_pulled_in_order_and_by_pieces,
    events_of_one_record_come_in_the_order_of_its_saves,
    a_reader_who_follows_passes_over_no_event_of_twelve_writers,
    two_readers_see_the_same_numbers,
    a_reader_comes_as_far_as_it_says_and_never_back,
];

/// A save of `media.width` on what is stored now, with these events.
async fn telling(rig: &Rig, entity: &EntityRef, to: u64, events: &[(&str, usize)]) -> Step<Commit> {
    let seen = rig.stores.seen(entity).await?;
    let mut commit = save(&seen, &worker(), &[("media.width", json!(to))])?;
    commit.events = events.iter().map(|(kind, number)| notice(kind, *number)).collect();
    Ok(commit)
}

async fn a_save_tells_its_events_in_their_order(rig: Rig) -> Verdict {
    let entity = rig.made("1").await?;
    let events = [("requeue", 1), ("other", 2), ("requeue", 3)];
    let commit = telling(&rig, &entity, 1, &events).await?;

    rig.stores.applied(&commit).await?;

    let wanted = commit.events.iter().map(|event| {
        (entity.clone(), event.kind.clone(), commit.operation, event.body.to_string())
    });
    same("what was told", seen(&rig.told().await?), wanted.collect())
}

async fn a_creation_and_a_deletion_tell_theirs_too(rig: Rig) -> Verdict {
    let entity = rig.made("1").await?;
    let seen = rig.stores.seen(&entity).await?;
    let mut gone = deletion(&seen)?;
    gone.events = vec![notice("gone", 1)];
    rig.stores.applied(&gone).await?;
    let tombstone = rig.stores.seen(&entity).await?;
    let values = [("media.width", json!(1))];
    let mut back =
        crate::testing::store_suite::build::creation(&entity, Some(&tombstone), &values)?;
    back.events = vec![notice("back", 2)];
    rig.stores.applied(&back).await?;

    let kinds: Vec<String> = rig.told().await?.into_iter().map(|told| told.kind).collect();
    same("what was told", kinds, vec!["gone".to_owned(), "back".to_owned()])
}

async fn an_event_says_when_and_anything_that_is_json(rig: Rig) -> Verdict {
    let entity = EntityRef::new("Product", "a/b c\\0 ü").map_err(text_of)?;
    rig.stores.made("a/b c\\0 ü", &[("media.width", json!(0))]).await?;
    let before = rig.stores.seen(&entity).await?.read_at;
    let mut commit = telling(&rig, &entity, 1, &[("requeue", 0)]).await?;
    let body = json!({"text": "a\u{0}b\n\u{1F600}\\u0000\\", "list": [1.5, -0.0, null, {"x": []}]});
    commit.events = vec![Notice { kind: "requeue".to_owned(), body: body.clone() }];

    rig.stores.applied(&commit).await?;

    let told = rig.told().await?;
    let [told] = told.as_slice() else { return Err(format!("{} were told", told.len())) };
    same("the body", told.body.to_string(), body.to_string())?;
    same("the record", told.entity.clone(), entity)?;
    if told.at < before || told.event == 0 {
        return Err(format!("told at {:?} as {}", told.at, told.event));
    }
    Ok(())
}

async fn events_of_no_save_are_told_too(rig: Rig) -> Verdict {
    let (entity, unknown) = (rig.made("1").await?, product("2")?);
    let of = operation();

    rig.outbox
        .tell(&entity, of, &[notice("requeue", 1), notice("requeue", 2)])
        .await
        .map_err(text_of)?;
    rig.outbox.tell(&unknown, of, &[notice("requeue", 3)]).await.map_err(text_of)?;
    rig.outbox.tell(&entity, of, &[]).await.map_err(text_of)?;

    let wanted = [(&entity, 1), (&entity, 2), (&unknown, 3)].map(|(entity, number)| {
        let body = json!({ "number": number }).to_string();
        (entity.clone(), "requeue".to_owned(), of, body)
    });
    same("what was told", seen(&rig.told().await?), wanted.to_vec())
}

async fn events_are_pulled_in_order_and_by_pieces(rig: Rig) -> Verdict {
    let entity = rig.made("1").await?;
    for to in 1..=7 {
        rig.stores.applied(&telling(&rig, &entity, to, &[("requeue", 0)]).await?).await?;
    }

    let (mut after, mut pieces, mut all) = (0, Vec::new(), Vec::new());
    loop {
        let piece = rig.outbox.pull(after, 3).await.map_err(text_of)?;
        let Some(last) = piece.last() else { break };
        after = last.event;
        pieces.push(piece.len());
        all.extend(piece);
    }

    same("the pieces", pieces, vec![3, 3, 1])?;
    same("all of them at once", rig.told().await?, all.clone())?;
    same("whether their numbers rise", all.is_sorted_by(|one, next| one.event < next.event), true)
}

/// The operations of each record's saves, oldest first, and those its events tell of.
async fn compared(rig: &Rig, told: &[Told], entity: &EntityRef) -> Verdict {
    let mut saves: Vec<OperationId> =
        rig.stores.entries(entity).await?.iter().map(|entry| entry.operation).collect();
    saves.reverse();
    saves.remove(0);
    let events: Vec<OperationId> =
        told.iter().filter(|it| it.entity == *entity).map(|it| it.operation).collect();
    same(&format!("the events of {entity}"), events, saves)
}

async fn events_of_one_record_come_in_the_order_of_its_saves(rig: Rig) -> Verdict {
    let entity = rig.made("1").await?;
    let mut tasks = Vec::new();
    for number in 0..8 {
        let (rig, entity) = (rig.clone(), entity.clone());
        tasks.push(tokio::spawn(async move { blindly(&rig, &entity, number * 100, 8).await }));
    }
    for task in tasks {
        task.await.map_err(text_of)??;
    }

    compared(&rig, &rig.told().await?, &entity).await
}

/// Saves that compare nothing, each with an event.
async fn blindly(rig: &Rig, entity: &EntityRef, from: u64, most: u64) -> Verdict {
    for to in from..from + most {
        let mut commit = telling(rig, entity, to + 1, &[("requeue", 0)]).await?;
        commit.scopes = BTreeMap::from([(scope("media")?, Expect::Unread)]);
        match rig.stores.commit(&commit).await? {
            Committed::Applied { .. } => {}
            other => return Err(format!("{other:?}")),
        }
    }
    Ok(())
}

async fn a_reader_who_follows_passes_over_no_event_of_twelve_writers(rig: Rig) -> Verdict {
    let mut entities = Vec::new();
    for id in 0..12 {
        entities.push(rig.made(&id.to_string()).await?);
    }
    let tasks: Vec<_> = entities
        .iter()
        .map(|entity| {
            let (rig, entity) = (rig.clone(), entity.clone());
            tokio::spawn(async move { blindly(&rig, &entity, 0, 12).await })
        })
        .collect();

    let (mut after, mut told) = (0, Vec::new());
    loop {
        // Asked before the last look, so that what was committed before it is seen by it.
        let over = tasks.iter().all(tokio::task::JoinHandle::is_finished);
        let piece = rig.outbox.pull(after, 5).await.map_err(text_of)?;
        match piece.last() {
            Some(last) => after = last.event,
            None if over => break,
            None => tokio::task::yield_now().await,
        }
        told.extend(piece);
    }
    for task in tasks {
        task.await.map_err(text_of)??;
    }

    let numbers: BTreeSet<u64> = told.iter().map(|it| it.event).collect();
    same("how many events have a number of their own", numbers.len(), told.len())?;
    for entity in &entities {
        compared(&rig, &told, entity).await?;
    }
    same("what a late reader sees", rig.told().await?, told)
}

async fn two_readers_see_the_same_numbers(rig: Rig) -> Verdict {
    let entity = rig.made("1").await?;
    for to in 1..=20 {
        rig.stores.applied(&telling(&rig, &entity, to, &[("requeue", 0)]).await?).await?;
    }
    let pull = || {
        let outbox = rig.outbox.clone();
        tokio::spawn(async move { outbox.pull(0, 1_000).await })
    };

    let readers = [pull(), pull(), pull(), pull()];

    let wanted = rig.told().await?;
    same("how many there are", wanted.len(), 20)?;
    for reader in readers {
        let told = reader.await.map_err(text_of)?.map_err(text_of)?;
        same("what one saw", told, wanted.clone())?;
    }
    Ok(())
}

async fn a_reader_comes_as_far_as_it_says_and_never_back(rig: Rig) -> Verdict {
    let ack = |reader: &'static str, event| {
        let outbox = rig.outbox.clone();
        async move { outbox.ack(reader, event).await.map_err(text_of) }
    };

    same("at first", ack("search", None).await?, 0)?;
    same("as far as it says", ack("search", Some(7)).await?, 7)?;
    same("and not back", ack("search", Some(3)).await?, 7)?;
    same("asked again", ack("search", None).await?, 7)?;
    same("another one", ack("Search", None).await?, 0)?;
    same("further", ack("search", Some(9)).await?, 9)
}
