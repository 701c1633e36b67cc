//! Saves that wait: kept, in order, and gone exactly once (RULES 36).

use std::collections::BTreeMap;

use serde_json::json;

use crate::{
    commit::{Committed, Expect, Refusal},
    entity::{EntityRef, GroupName, Writer},
    scope::ScopeName,
    testing::{
        queue_suite::{
            Rig, Verdict,
            build::{item, notice, operations, seen},
            promises,
        },
        store_suite::build::{Step, same, scope, text_of},
    },
    token::ScopeVersion,
};

promises![
    an_item_comes_back_as_it_was_pushed,
    an_item_waits_behind_those_that_came_before_it_in_one_of_its_scopes,
    only_what_is_first_in_all_its_scopes_is_ready,
    the_same_scopes_of_another_record_are_others,
    waiting_saves_are_listed_in_order_of_one_record_or_of_all,
    an_operation_waits_once,
    an_effect_takes_its_item_out_and_the_next_is_ready,
    a_refused_effect_leaves_its_item,
    an_effect_without_its_item_is_refused_and_writes_nothing,
    an_effect_that_is_sent_again_is_told_that_it_was_made,
    an_item_is_removed_once_and_it_is_told_why,
    of_eight_that_make_one_item_at_once_exactly_one_does,
    of_an_effect_and_a_removal_at_once_exactly_one_happens,
    items_pushed_at_once_have_places_of_their_own,
];

async fn an_item_comes_back_as_it_was_pushed(rig: Rig) -> Verdict {
    let entity = EntityRef::new("Product", "a/b c\\0 ü").map_err(text_of)?;
    let before = rig.made("clock").await?;
    let before = rig.stores.seen(&before).await?.read_at;
    let mut pushed = item(&entity, &["media", "price"])?;
    let group = GroupName::new("translation").map_err(text_of)?;
    let split = ScopeName::split(group, vec![("locale".into(), "de,]\\".into())]);
    pushed.scopes.insert(split);
    pushed.writer = Writer { on_behalf_of: Some("anna 'o\"".into()), ..Writer::worker("thümb %") };
    pushed.body = json!({"text": "a\u{0}b\n\u{1F600}\\", "long": "x".repeat(200_000)}).to_string();

    rig.push(&pushed).await?;

    let found = rig.queue.waiting(None, 0, 10).await.map_err(text_of)?;
    let [found] = found.as_slice() else { return Err(format!("{} wait", found.len())) };
    if found.place == 0 || found.at < before {
        return Err(format!("its place is {} and its time {:?}", found.place, found.at));
    }
    (pushed.place, pushed.at) = (found.place, found.at);
    same("what waits", found.clone(), pushed.clone())?;
    let ready = rig.queue.ready(0, 10).await.map_err(text_of)?;
    same("what is ready", ready, vec![pushed])
}

async fn an_item_waits_behind_those_that_came_before_it_in_one_of_its_scopes(rig: Rig) -> Verdict {
    let entity = rig.made("1").await?;
    let mut before = Vec::new();

    for scopes in [&["media"][..], &["price"], &["media", "price"], &["content"], &["price"]] {
        before.push(rig.push(&item(&entity, scopes)?).await?);
    }

    same("how many wait before each", before, vec![0, 0, 2, 0, 2])
}

async fn only_what_is_first_in_all_its_scopes_is_ready(rig: Rig) -> Verdict {
    let entity = rig.made("1").await?;
    let media = item(&entity, &["media"])?;
    let both = item(&entity, &["media", "price"])?;
    let price = item(&entity, &["price"])?;
    for pushed in [&media, &both, &price] {
        rig.push(pushed).await?;
    }

    same("at first", rig.ready().await?, vec![media.operation])?;
    rig.remove(&media, &notice("queue_cancelled", 0)).await?;
    same("then", rig.ready().await?, vec![both.operation])?;
    rig.remove(&both, &notice("queue_cancelled", 0)).await?;
    same("at last", rig.ready().await?, vec![price.operation])
}

async fn the_same_scopes_of_another_record_are_others(rig: Rig) -> Verdict {
    let first = item(&rig.made("1").await?, &["media"])?;
    let second = item(&rig.made("2").await?, &["media"])?;
    let other = item(&EntityRef::new("Page", "1").map_err(text_of)?, &["media"])?;

    for pushed in [&first, &second, &other] {
        same("how many wait before it", rig.push(pushed).await?, 0)?;
    }

    let all = vec![first.operation, second.operation, other.operation];
    same("what is ready", rig.ready().await?, all)
}

async fn waiting_saves_are_listed_in_order_of_one_record_or_of_all(rig: Rig) -> Verdict {
    let (one, other) = (rig.made("1").await?, rig.made("2").await?);
    let mut pushed = Vec::new();
    for entity in [&one, &other, &one, &other, &one] {
        let item = item(entity, &["media"])?;
        rig.push(&item).await?;
        pushed.push(item);
    }

    let listed = |entity, after, most| {
        let queue = rig.queue.clone();
        async move { queue.waiting(entity, after, most).await.map_err(text_of) }
    };
    let all = operations(&pushed);
    same("all", operations(&listed(None, 0, 10).await?), all.clone())?;
    let first = listed(None, 0, 2).await?;
    let part = |from: usize, most: usize| all.iter().skip(from).take(most).copied().collect();
    same("the first two", operations(&first), part(0, 2))?;
    let after = first.last().map_or(0, |item| item.place);
    same("those after", operations(&listed(None, after, 10).await?), part(2, 9))?;
    let of_one = listed(Some(&one), 0, 10).await?;
    let wanted: Vec<_> = pushed.iter().filter(|item| item.entity == one).cloned().collect();
    same("those of one record", operations(&of_one), operations(&wanted))?;
    let ready = rig.queue.ready(first.first().map_or(0, |item| item.place), 10).await;
    same("what is ready after the first", operations(&ready.map_err(text_of)?), part(1, 1))
}

async fn an_operation_waits_once(rig: Rig) -> Verdict {
    let item = item(&rig.made("1").await?, &["media"])?;
    rig.push(&item).await?;

    if rig.queue.push(&item).await.is_ok() {
        return Err("it was pushed twice".to_owned());
    }

    same("what waits", rig.waiting().await?, vec![item.operation])
}

async fn an_effect_takes_its_item_out_and_the_next_is_ready(rig: Rig) -> Verdict {
    let entity = rig.made("1").await?;
    let (first, second) = (item(&entity, &["media"])?, item(&entity, &["media"])?);
    rig.push(&first).await?;
    rig.push(&second).await?;

    rig.stores.applied(&rig.effect(&first, 1).await?).await?;

    same("what waits", rig.waiting().await?, vec![second.operation])?;
    same("what is ready", rig.ready().await?, vec![second.operation])?;
    same("what was told", seen(&rig.told().await?), Vec::new())?;
    same(
        "the newest save",
        rig.stores.entries(&entity).await?.first().map(|e| e.operation),
        Some(first.operation),
    )
}

async fn a_refused_effect_leaves_its_item(rig: Rig) -> Verdict {
    let item = item(&rig.made("1").await?, &["media"])?;
    rig.push(&item).await?;
    let mut commit = rig.effect(&item, 1).await?;
    commit.scopes = BTreeMap::from([(scope("media")?, Expect::Version(ScopeVersion(7)))]);
    commit.events = vec![notice("requeue", 0)];

    rig.stores.refused(&commit, Refusal::Stale(vec![scope("media")?])).await?;

    same("what waits", rig.waiting().await?, vec![item.operation])?;
    same("what was told", seen(&rig.told().await?), Vec::new())
}

async fn an_effect_without_its_item_is_refused_and_writes_nothing(rig: Rig) -> Verdict {
    let item = item(&rig.made("1").await?, &["media"])?;
    rig.push(&item).await?;
    rig.remove(&item, &notice("queue_cancelled", 0)).await?;
    let told = rig.told().await?;
    let mut commit = rig.effect(&item, 1).await?;
    commit.events = vec![notice("requeue", 0)];

    rig.stores.refused(&commit, Refusal::NotQueued).await?;

    same("what was told", rig.told().await?, told)
}

async fn an_effect_that_is_sent_again_is_told_that_it_was_made(rig: Rig) -> Verdict {
    let item = item(&rig.made("1").await?, &["media"])?;
    rig.push(&item).await?;
    let mut commit = rig.effect(&item, 1).await?;
    commit.events = vec![notice("requeue", 0)];
    rig.stores.applied(&commit).await?;

    same("the answer", rig.stores.commit(&commit).await?, Committed::AlreadyApplied)?;

    same("how many were told", rig.told().await?.len(), 1)
}

async fn an_item_is_removed_once_and_it_is_told_why(rig: Rig) -> Verdict {
    let (entity, why) = (rig.made("1").await?, notice("queue_refused", 3));
    let item = item(&entity, &["media"])?;
    rig.push(&item).await?;

    same("the first time", rig.remove(&item, &why).await?, true)?;
    same("the second time", rig.remove(&item, &why).await?, false)?;

    same("what waits", rig.waiting().await?, Vec::new())?;
    let wanted = vec![(entity, why.kind, item.operation, why.body.to_string())];
    same("what was told", seen(&rig.told().await?), wanted)
}

async fn of_eight_that_make_one_item_at_once_exactly_one_does(rig: Rig) -> Verdict {
    let entity = rig.made("1").await?;
    for round in 1..=6 {
        let item = item(&entity, &["media"])?;
        rig.push(&item).await?;
        let mut tasks = Vec::new();
        for number in 0..8 {
            // Each with an operation of its own: only the item keeps them apart. And nothing else is compared.
            let mut commit = rig.effect(&item, round * 10 + number).await?;
            commit.operation = crate::testing::store_suite::build::operation();
            commit.scopes.insert(scope("media")?, Expect::Unread);
            let stores = rig.stores.clone();
            tasks.push(tokio::spawn(async move { stores.commit(&commit).await }));
        }
        let (mut applied, mut late) = (0, 0);
        for task in tasks {
            match task.await.map_err(text_of)?? {
                Committed::Applied { .. } => applied += 1,
                Committed::Refused(Refusal::NotQueued) => late += 1,
                other => return Err(format!("{other:?}")),
            }
        }
        same("how many made it and how many came late", (applied, late), (1, 7))?;
    }
    same("how many saves there are", rig.stores.entries(&entity).await?.len(), 7)
}

async fn of_an_effect_and_a_removal_at_once_exactly_one_happens(rig: Rig) -> Verdict {
    let entity = rig.made("1").await?;
    let mut removed = 0;
    for round in 1..=20 {
        let item = item(&entity, &["media"])?;
        rig.push(&item).await?;
        let commit = rig.effect(&item, round).await?;
        let (stores, other) = (rig.stores.clone(), rig.clone());
        let effect = tokio::spawn(async move { stores.commit(&commit).await });
        let removal =
            tokio::spawn(async move { other.remove(&item, &notice("queue_cancelled", 0)).await });
        let (effect, removal) = (effect.await.map_err(text_of)??, removal.await.map_err(text_of)??);
        match (&effect, removal) {
            (Committed::Applied { .. }, false) => {}
            (Committed::Refused(Refusal::NotQueued), true) => removed += 1,
            both => return Err(format!("effect and removal: {both:?}")),
        }
    }
    same("how many were told", rig.told().await?.len(), removed)?;
    same("how many saves there are", rig.stores.entries(&entity).await?.len(), 21 - removed)
}

async fn items_pushed_at_once_have_places_of_their_own(rig: Rig) -> Verdict {
    let entity = rig.made("1").await?;
    let items = (0..12).map(|_| item(&entity, &["media"])).collect::<Step<Vec<_>>>()?;
    let tasks: Vec<_> = items
        .into_iter()
        .map(|item| {
            let rig = rig.clone();
            tokio::spawn(async move { rig.push(&item).await })
        })
        .collect();
    let mut before = Vec::new();
    for task in tasks {
        before.push(task.await.map_err(text_of)??);
    }
    before.sort_unstable();

    same("how many wait before each", before, (0..12).collect())?;
    let mut made = 0;
    while let Some(first) = rig.queue.ready(0, 10).await.map_err(text_of)?.first() {
        rig.stores.applied(&rig.effect(first, made + 1).await?).await?;
        made += 1;
    }
    same("how many were made, one after the other", made, 12)
}
