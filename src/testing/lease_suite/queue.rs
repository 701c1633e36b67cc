//! Waiting in line.

use std::time::Duration;

use super::{Ear, Rig, TTL, Verdict, holds, ms, promises, same};
use crate::{
    lease::{Acquire, Ask, Release, Renewal, Wake},
    table::PLACE_TTL,
    token::HolderToken,
};

promises! {
    "waiters are served in the order they came" => first_come;
    "a release grants to the next waiter and wakes it alone" => direct_grant;
    "a newcomer does not pass the queue" => no_passing;
    "waiters of another scope are left alone" => other_scopes;
    "a repeated acquire keeps its place" => same_place;
    "a released place is forgotten, and the next moves up" => cancelled;
    "a place that is not renewed is gone after its time" => dead_waiter;
    "a renewed place lives on, whatever ttl the renewal names" => renewed_place;
    "a renewed place is told when what stands in its way ends" => told_when;
    "a renewal of a place tells that it has been granted meanwhile" => granted_meanwhile;
    "a dead waiter that was granted costs one place's time, not a ttl" => dead_head;
    "a confirmed grant lasts its whole time to live" => confirmed_grant;
    "a waiter for several scopes keeps them from being taken by later ones" => several;
    "a whole-entity waiter waits for all and is not passed" => whole_waiter;
    "a queue moves on when the holder's lease ends" => expiry;
    "a new waiter is announced to the holder" => announced;
    "a subscription begins with a look at everything" => check_all;
    "nobody is woken after a subscription has ended" => unsubscribed;
}

fn queued(mut ask: Ask) -> Ask {
    ask.queue = true;
    ask
}

/// A holder of `groups` and so many waiters for them.
async fn line(rig: &Rig, groups: &[&str], waiters: usize) -> Result<(Ask, Vec<Ask>), String> {
    let holder = rig.ask("1", groups)?;
    rig.granted(&holder).await?;
    let mut line = Vec::new();
    for at in 0..waiters {
        let waiter = queued(rig.ask("1", groups)?);
        same("place", &rig.place(&waiter).await?, &u32::try_from(at + 1).unwrap_or(0))?;
        line.push(waiter);
    }
    Ok((holder, line))
}

fn grants(heard: &[Wake]) -> Vec<HolderToken> {
    let granted = heard.iter().filter_map(|wake| match wake {
        Wake::Granted(token) | Wake::Try(token) => Some(*token),
        _ => None,
    });
    granted.collect()
}

async fn first_come(rig: Rig) -> Verdict {
    let (holder, waiters) = line(&rig, &["media"], 5).await?;
    let mut before = holder;
    for waiter in waiters {
        same("released", &rig.release(&before).await?, &Release::Released)?;
        rig.granted(&waiter).await?;
        before = waiter;
    }
    rig.release(&before).await?;
    rig.nothing_left().await
}

async fn direct_grant(rig: Rig) -> Verdict {
    let ear = Ear::open(&rig).await;
    let (holder, waiters) = line(&rig, &["media"], 3).await?;
    ear.heard(&rig).await;
    rig.release(&holder).await?;
    let first: Vec<HolderToken> = waiters.iter().take(1).map(|ask| ask.token).collect();
    same("woken", &grants(&ear.heard(&rig).await), &first)?;
    rig.held(&rig.ask("1", &["media"])?).await.map(drop)
}

async fn no_passing(rig: Rig) -> Verdict {
    let (holder, waiters) = line(&rig, &["media"], 1).await?;
    rig.release(&holder).await?;
    rig.held(&rig.ask("1", &["media"])?).await?;
    for waiter in waiters {
        rig.granted(&waiter).await?;
    }
    Ok(())
}

async fn other_scopes(rig: Rig) -> Verdict {
    let ear = Ear::open(&rig).await;
    let media = rig.ask("1", &["media"])?;
    rig.granted(&media).await?;
    let _search = line(&rig, &["search"], 2).await?;
    ear.heard(&rig).await;
    rig.release(&media).await?;
    same("woken", &grants(&ear.heard(&rig).await), &Vec::new())
}

async fn same_place(rig: Rig) -> Verdict {
    let (_holder, waiters) = line(&rig, &["media"], 3).await?;
    for (at, waiter) in waiters.iter().enumerate() {
        same("place", &rig.place(waiter).await?, &u32::try_from(at + 1).unwrap_or(0))?;
    }
    Ok(())
}

async fn cancelled(rig: Rig) -> Verdict {
    let (holder, waiters) = line(&rig, &["media"], 3).await?;
    let [first, second, third] = waiters.as_slice() else { return Err("three waiters".into()) };
    same("first leaves", &rig.release(first).await?, &Release::Released)?;
    same("second moved up", &rig.place(second).await?, &1)?;
    same("first is forgotten", &rig.release(first).await?, &Release::Lost)?;
    rig.release(second).await?;
    rig.release(&holder).await?;
    rig.granted(third).await?;
    rig.release(third).await?;
    rig.nothing_left().await
}

async fn dead_waiter(rig: Rig) -> Verdict {
    let (holder, waiters) = line(&rig, &["media"], 2).await?;
    let [_, second] = waiters.as_slice() else { return Err("two waiters".into()) };
    rig.time.pass(PLACE_TTL / 2).await;
    placed(&rig, second).await?;
    rig.time.pass(PLACE_TTL / 2 + ms(100)).await;
    same("second moved up", &rig.place(second).await?, &1)?;
    rig.release(&holder).await?;
    rig.granted(second).await
}

async fn renewed_place(rig: Rig) -> Verdict {
    let (holder, waiters) = line(&rig, &["media"], 1).await?;
    for _ in 0..6 {
        rig.time.pass(PLACE_TTL - ms(300)).await;
        same("holder", &rig.renew(&holder, TTL).await?, &Renewal::Renewed)?;
        for waiter in &waiters {
            placed(&rig, waiter).await?;
        }
    }
    rig.time.pass(PLACE_TTL + ms(100)).await;
    for waiter in &waiters {
        same("too late", &rig.renew(waiter, TTL).await?, &Renewal::Lost)?;
    }
    Ok(())
}

/// Renews a place, and answers when to ask again.
async fn placed(rig: &Rig, waiter: &Ask) -> Result<Duration, String> {
    match rig.renew(waiter, TTL).await? {
        Renewal::Placed { again: Some(again) } => Ok(again),
        other => Err(format!("the renewal of a place was {other:?}")),
    }
}

async fn told_when(rig: Rig) -> Verdict {
    let between = |what: &str, got: Duration, from: Duration, to: Duration| {
        holds(&format!("{what}: {got:?}, want {from:?} to {to:?}"), got > from && got <= to)
    };
    let (holder, waiters) = line(&rig, &["media"], 2).await?;
    let [first, second] = waiters.as_slice() else { return Err("two waiters".into()) };
    rig.time.pass(ms(1_000)).await;
    for waiter in [first, second] {
        let again = placed(&rig, waiter).await?;
        between("behind a holder", again, TTL - ms(1_300), TTL - ms(1_000))?;
    }
    rig.release(&holder).await?;
    // The first never confirms its grant, and the next one is told when that ends.
    rig.time.pass(ms(500)).await;
    let again = placed(&rig, second).await?;
    between("behind a grant", again, PLACE_TTL - ms(800), PLACE_TTL - ms(500))?;
    rig.time.pass(again + ms(5)).await;
    rig.granted(second).await
}

async fn granted_meanwhile(rig: Rig) -> Verdict {
    let (holder, waiters) = line(&rig, &["media"], 2).await?;
    let [first, second] = waiters.as_slice() else { return Err("two waiters".into()) };
    placed(&rig, first).await?;
    rig.release(&holder).await?;
    same("granted", &rig.renew(first, TTL).await?, &Renewal::Renewed)?;
    placed(&rig, second).await?;
    rig.granted(first).await
}

async fn dead_head(rig: Rig) -> Verdict {
    let (holder, waiters) = line(&rig, &["media"], 3).await?;
    let [_dead, _also_dead, last] = waiters.as_slice() else { return Err("three".into()) };
    rig.time.pass(ms(500)).await;
    rig.renew(last, TTL).await?;
    rig.release(&holder).await?;
    rig.time.pass(PLACE_TTL / 2).await;
    rig.place(last).await?;
    rig.time.pass(PLACE_TTL / 2 + ms(100)).await;
    rig.granted(last).await
}

async fn confirmed_grant(rig: Rig) -> Verdict {
    let (holder, waiters) = line(&rig, &["media"], 2).await?;
    let [first, second] = waiters.as_slice() else { return Err("two".into()) };
    rig.release(&holder).await?;
    rig.time.pass(PLACE_TTL / 2).await;
    same("confirmed", &rig.renew(first, TTL).await?, &Renewal::Renewed)?;
    rig.renew(second, TTL).await?;
    let mut passed = ms(0);
    while passed < TTL - PLACE_TTL {
        rig.time.pass(PLACE_TTL / 2).await;
        passed += PLACE_TTL / 2;
        rig.place(second).await?;
    }
    holds("the grant lasted", rig.renew(first, TTL).await? == Renewal::Renewed)
}

async fn several(rig: Rig) -> Verdict {
    let a = rig.ask("1", &["a"])?;
    rig.granted(&a).await?;
    let both = queued(rig.ask("1", &["a", "b"])?);
    rig.place(&both).await?;
    let b = queued(rig.ask("1", &["b"])?);
    rig.place(&b).await?;
    rig.granted(&rig.ask("1", &["c"])?).await?;
    rig.release(&a).await?;
    rig.granted(&both).await?;
    rig.place(&b).await?;
    rig.release(&both).await?;
    rig.granted(&b).await
}

async fn whole_waiter(rig: Rig) -> Verdict {
    let (media, search) = (rig.ask("1", &["media"])?, rig.ask("1", &["search"])?);
    rig.granted(&media).await?;
    rig.granted(&search).await?;
    let all = queued(rig.ask("1", &["whole"])?);
    rig.place(&all).await?;
    rig.held(&rig.ask("1", &["prices"])?).await?;
    rig.release(&media).await?;
    rig.place(&all).await?;
    rig.release(&search).await?;
    rig.granted(&all).await
}

async fn expiry(rig: Rig) -> Verdict {
    let mut holder = rig.ask("1", &["media"])?;
    holder.ttl = ms(1_000);
    rig.granted(&holder).await?;
    let waiter = queued(rig.ask("1", &["media"])?);
    rig.place(&waiter).await?;
    rig.time.pass(ms(1_050)).await;
    rig.granted(&waiter).await
}

async fn announced(rig: Rig) -> Verdict {
    let ear = Ear::open(&rig).await;
    let (holder, _waiters) = line(&rig, &["media"], 1).await?;
    let heard = ear.heard(&rig).await;
    holds(&format!("heard {heard:?}"), heard.contains(&Wake::Wanted(holder.token)))?;
    let other = rig.ask("2", &["media"])?;
    rig.granted(&other).await?;
    rig.held(&rig.ask("2", &["media"])?).await?;
    let heard = ear.heard(&rig).await;
    holds("nobody waits for the other", !heard.contains(&Wake::Wanted(other.token)))
}

async fn check_all(rig: Rig) -> Verdict {
    let ear = Ear::open(&rig).await;
    let heard = ear.heard(&rig).await;
    same("first", &heard.first(), &Some(&Wake::CheckAll))
}

async fn unsubscribed(rig: Rig) -> Verdict {
    let ear = Ear::open(&rig).await;
    let (holder, waiters) = line(&rig, &["media"], 1).await?;
    ear.heard(&rig).await;
    ear.task.abort();
    rig.time.pass(ms(50)).await;
    rig.release(&holder).await?;
    same("heard", &ear.heard(&rig).await, &Vec::new())?;
    for waiter in &waiters {
        let answer = rig.acquire(waiter).await?;
        same("granted all the same", &answer, &Acquire::Granted { order: None })?;
    }
    Ok(())
}
