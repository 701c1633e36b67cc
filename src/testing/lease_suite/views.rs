//! Looking, and breaking.

use super::{Ear, Rig, TTL, Verdict, holds, ms, promises, same, scope};
use crate::lease::{Release, Renewal, Wake};

promises! {
    "a holder is shown with name, times and waiters" => shown;
    "all holders are listed page by page, none twice and none left out" => pages;
    "a cursor that is none of ours is refused" => bad_cursor;
    "a broken lease is gone, and its holder is told" => broken;
    "breaking what nobody holds answers nobody" => broken_nobody;
    "breaking grants to the next waiter" => broken_with_waiter;
}

async fn shown(rig: Rig) -> Verdict {
    let mut ask = rig.ask("1", &["media", "search"])?;
    ask.label = "thumbnailer".into();
    rig.granted(&ask).await?;
    let mut waiter = rig.ask("1", &["media"])?;
    waiter.queue = true;
    rig.place(&waiter).await?;
    rig.time.pass(ms(1_000)).await;
    let held = rig.inspect(Some(ask.extent.entity())).await?;
    let names: Vec<String> = held.iter().map(|held| held.scope.name.to_string()).collect();
    same("scopes", &names, &vec!["media".to_owned(), "search".to_owned()])?;
    for held in &held {
        same("label", &&*held.label, &"thumbnailer")?;
        let left = held.remaining;
        holds(&format!("remaining {left:?}"), left <= TTL - ms(900) && left > TTL - ms(1_300))?;
        holds(&format!("held {:?}", held.held), held.held >= ms(950) && held.held < ms(1_300))?;
    }
    let waiting: Vec<u32> = held.iter().map(|held| held.waiting).collect();
    same("waiting", &waiting, &vec![1, 0])
}

async fn pages(rig: Rig) -> Verdict {
    for n in 0..7 {
        rig.granted(&rig.ask(&format!("id\n{n}"), &["media", "search"])?).await?;
    }
    let (mut seen, mut cursor) = (Vec::new(), None);
    for _ in 0..10 {
        let page = rig.store.inspect(None, cursor.as_deref(), 3).await;
        let (holders, next) = page.map_err(|error| error.to_string())?;
        holds("a page has at most what was asked for", holders.len() <= 3)?;
        seen.extend(holders.into_iter().map(|holder| holder.scope));
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    same("all of them", &seen.len(), &14)?;
    let mut sorted = seen.clone();
    sorted.sort();
    sorted.dedup();
    same("in order and once", &seen, &sorted)
}

async fn bad_cursor(rig: Rig) -> Verdict {
    rig.granted(&rig.ask("1", &["media"])?).await?;
    let answer = rig.store.inspect(None, Some("nonsense"), 3).await;
    same("answer", &answer.map(drop).map_err(|error| error.code()), &Err("bad_cursor"))
}

async fn broken(rig: Rig) -> Verdict {
    let ear = Ear::open(&rig).await;
    let ask = rig.ask("1", &["media", "search"])?;
    rig.granted(&ask).await?;
    ear.heard(&rig).await;
    let broken = rig.store.break_lease(&scope(&ask)?, "stuck").await;
    let broken = broken.map_err(|error| error.to_string())?;
    same("who it was", &broken.map(|held| held.label), &Some("worker".into()))?;
    let heard = ear.heard(&rig).await;
    holds(&format!("heard {heard:?}"), heard.contains(&Wake::Broken(ask.token)))?;
    same("its renewal", &rig.renew(&ask, TTL).await?, &Renewal::Lost)?;
    same("its release", &rig.release(&ask).await?, &Release::Lost)?;
    rig.nothing_left().await
}

async fn broken_nobody(rig: Rig) -> Verdict {
    let ask = rig.ask("1", &["media"])?;
    rig.granted(&rig.ask("1", &["search"])?).await?;
    let broken = rig.store.break_lease(&scope(&ask)?, "stuck").await;
    same("who it was", &broken.map_err(|error| error.to_string())?, &None)?;
    same("still held", &rig.inspect(None).await?.len(), &1)
}

async fn broken_with_waiter(rig: Rig) -> Verdict {
    let (ask, mut waiter) = (rig.ask("1", &["media"])?, rig.ask("1", &["media"])?);
    rig.granted(&ask).await?;
    waiter.queue = true;
    rig.place(&waiter).await?;
    let broken = rig.store.break_lease(&scope(&ask)?, "stuck").await;
    holds("somebody was broken", broken.map_err(|error| error.to_string())?.is_some())?;
    rig.granted(&waiter).await
}
