//! Taking, renewing, ending and giving back.

use std::time::Duration;

use super::{Rig, TTL, Verdict, holds, ms, promises, same, scope, show};
use crate::lease::{Acquire, Ask, Release, Renewal};

promises! {
    "one scope has one holder" => one_holder;
    "different scopes and entities do not meet" => disjoint;
    "several scopes are taken together or not at all" => all_or_nothing;
    "ids that look alike are different entities" => hostile_ids;
    "a repeated acquire finds its own grant and renews it" => repeated;
    "a lease ends after its time to live" => expiry;
    "a renewal counts from when it arrives" => renewal;
    "a renewal never creates a lease" => no_resurrection;
    "a renewal of a successor's lease is lost" => foreign_renewal;
    "a batch answers each request, in order" => batch;
    "a late release leaves the successor alone" => late_release;
    "a second release is lost" => double_release;
    "an order is told when it is asked for, and stays" => order;
    "orders grow from grant to grant, however the one before ended" => orders_grow;
    "a whole entity excludes every scope and is excluded by each" => whole;
    "a split scope is one of its own, and a whole entity covers it" => split;
    "times to live outside of the bounds are refused and write nothing" => ttl_bounds;
    "a time to live is kept in whole milliseconds" => ttl_precision;
    "a remaining time above the group's maximum is cut" => clamp;
    "a renewal of no time at all is never sent on" => zero_renewal;
}

async fn one_holder(rig: Rig) -> Verdict {
    let (a, b) = (rig.ask("1", &["media"])?, rig.ask("1", &["media"])?);
    rig.granted(&a).await?;
    let by = rig.held(&b).await?;
    same("holders named", &by.len(), &1)?;
    same("released", &rig.release(&a).await?, &Release::Released)?;
    rig.granted(&b).await?;
    rig.release(&b).await?;
    rig.nothing_left().await
}

async fn disjoint(rig: Rig) -> Verdict {
    for (id, group) in [("1", "media"), ("1", "search"), ("2", "media"), ("2", "search")] {
        rig.granted(&rig.ask(id, &[group])?).await?;
    }
    Ok(())
}

async fn all_or_nothing(rig: Rig) -> Verdict {
    let (search, both) = (rig.ask("1", &["search"])?, rig.ask("1", &["media", "search"])?);
    rig.granted(&search).await?;
    let by = rig.held(&both).await?;
    same("in the way", &by.first().map(|by| by.scope.name.to_string()), &Some("search".into()))?;
    rig.granted(&rig.ask("1", &["media"])?).await?;
    let other = rig.ask("2", &["media", "search"])?;
    rig.granted(&other).await?;
    rig.held(&rig.ask("2", &["search"])?).await?;
    rig.release(&other).await?;
    rig.granted(&rig.ask("2", &["search"])?).await
}

async fn hostile_ids(rig: Rig) -> Verdict {
    let long = "\u{e9}".repeat(128);
    let ids =
        ["", "a{b}c", "abc", "{}", "}x{", "a:b", "a", "a\0", "a\n", "b:media", "a%7Bb", &long];
    for id in ids {
        rig.granted(&rig.ask(id, &["media"])?).await.map_err(|what| format!("{id:?}: {what}"))?;
    }
    same("held", &rig.inspect(None).await?.len(), &ids.len())
}

async fn repeated(rig: Rig) -> Verdict {
    let a = rig.ask("1", &["media", "search"])?;
    rig.granted(&a).await?;
    rig.time.pass(TTL - ms(500)).await;
    rig.granted(&a).await?;
    rig.time.pass(TTL - ms(500)).await;
    rig.held(&rig.ask("1", &["media"])?).await?;
    same("released", &rig.release(&a).await?, &Release::Released)?;
    rig.nothing_left().await
}

async fn expiry(rig: Rig) -> Verdict {
    let (a, b) = (rig.ask("1", &["media"])?, rig.ask("1", &["media"])?);
    rig.granted(&a).await?;
    rig.time.pass(TTL - ms(100)).await;
    rig.held(&b).await?;
    rig.time.pass(ms(150)).await;
    rig.granted(&b).await
}

async fn renewal(rig: Rig) -> Verdict {
    let (a, b) = (rig.ask("1", &["media"])?, rig.ask("1", &["media"])?);
    rig.granted(&a).await?;
    rig.time.pass(TTL / 2).await;
    same("renewed", &rig.renew(&a, TTL).await?, &Renewal::Renewed)?;
    rig.time.pass(TTL - ms(100)).await;
    rig.held(&b).await?;
    rig.time.pass(ms(150)).await;
    rig.granted(&b).await
}

async fn no_resurrection(rig: Rig) -> Verdict {
    let a = rig.ask("1", &["media"])?;
    same("never held", &rig.renew(&a, TTL).await?, &Renewal::Lost)?;
    rig.nothing_left().await?;
    rig.granted(&a).await?;
    rig.time.pass(TTL + ms(50)).await;
    same("ended", &rig.renew(&a, TTL).await?, &Renewal::Lost)?;
    rig.nothing_left().await?;
    let b = rig.ask("1", &["media"])?;
    rig.granted(&b).await?;
    rig.release(&b).await?;
    same("released", &rig.renew(&b, TTL).await?, &Renewal::Lost)?;
    rig.nothing_left().await
}

async fn foreign_renewal(rig: Rig) -> Verdict {
    let (a, b) = (rig.ask("1", &["media"])?, rig.ask("1", &["media"])?);
    rig.granted(&a).await?;
    rig.time.pass(TTL + ms(50)).await;
    rig.granted(&b).await?;
    rig.time.pass(TTL / 2).await;
    same("the former holder", &rig.renew(&a, TTL).await?, &Renewal::Lost)?;
    rig.time.pass(TTL / 2 + ms(50)).await;
    // The successor's time was not prolonged by it.
    rig.granted(&rig.ask("1", &["media"])?).await
}

async fn batch(rig: Rig) -> Verdict {
    let (a, gone, c) =
        (rig.ask("1", &["media"])?, rig.ask("2", &["media"])?, rig.ask("1", &["x"])?);
    rig.granted(&a).await?;
    rig.granted(&c).await?;
    let renew =
        |ask: &Ask| crate::lease::Renew { extent: ask.extent.clone(), token: ask.token, ttl: TTL };
    let answers = rig.store.renew(&[renew(&a), renew(&gone), renew(&c)]).await;
    same("answers", &answers, &vec![Renewal::Renewed, Renewal::Lost, Renewal::Renewed])?;
    same("no requests", &rig.store.renew(&[]).await, &Vec::new())
}

async fn late_release(rig: Rig) -> Verdict {
    let (a, b) = (rig.ask("1", &["media", "search"])?, rig.ask("1", &["media"])?);
    rig.granted(&a).await?;
    rig.time.pass(TTL + ms(50)).await;
    rig.granted(&b).await?;
    same("late", &rig.release(&a).await?, &Release::Lost)?;
    let by = rig.held(&rig.ask("1", &["media"])?).await?;
    let left = by.first().map(|by| by.remaining).unwrap_or_default();
    holds("the successor's time was not shortened", left > TTL - ms(200) && left <= TTL)
}

async fn double_release(rig: Rig) -> Verdict {
    let a = rig.ask("1", &["media"])?;
    rig.granted(&a).await?;
    same("first", &rig.release(&a).await?, &Release::Released)?;
    same("second", &rig.release(&a).await?, &Release::Lost)
}

/// Asks for the order, with a token that holds or is granted.
async fn order_of(rig: &Rig, ask: &Ask) -> Result<u64, String> {
    match rig.acquire(&Ask { order: true, ..ask.clone() }).await? {
        Acquire::Granted { order: Some(order) } => Ok(order),
        other => Err(format!("{} got no order: {other:?}", show(ask))),
    }
}

async fn order(rig: Rig) -> Verdict {
    let (mut a, mut b) = (rig.ask("1", &["media"])?, rig.ask("2", &["media", "search"])?);
    (a.ttl, b.ttl) = (ms(1_000), ms(1_000));
    same("not asked for", &rig.acquire(&a).await?, &Acquire::Granted { order: None })?;
    for ask in [&a, &b] {
        let first = order_of(&rig, ask).await?;
        holds(&format!("{first} is below 2^53"), first < 1 << 53)?;
        rig.time.pass(ms(600)).await;
        same("asked again", &order_of(&rig, ask).await?, &first)?;
        // It renews as every acquire does.
        rig.time.pass(ms(600)).await;
        same("renewed", &rig.renew(ask, TTL).await?, &Renewal::Renewed)?;
        same("after a renewal", &order_of(&rig, ask).await?, &first)?;
    }
    Ok(())
}

async fn orders_grow(rig: Rig) -> Verdict {
    let mut last = 0;
    for (groups, end) in [
        (&["media"][..], "released"),
        (&["media"], "ended"),
        (&["media", "search"], "broken"),
        (&["search"], "released"),
        (&["whole"], "left to a waiter"),
        (&["media"], "released"),
        (&["translation[locale=de]", "media"], "released"),
        (&["media"], "released"),
    ] {
        let ask = Ask { ttl: ms(1_000), ..rig.ask("1", groups)? };
        let order = order_of(&rig, &ask).await?;
        holds(&format!("{groups:?}: {order} after {last}"), order > last)?;
        last = order;
        match end {
            "ended" => rig.time.pass(ms(1_050)).await,
            "broken" => {
                let broken = rig.store.break_lease(&scope(&ask)?, "stuck").await;
                holds("broken", broken.map_err(|error| error.to_string())?.is_some())?;
            }
            "released" => same(end, &rig.release(&ask).await?, &Release::Released)?,
            _ => {
                let waiter = Ask { queue: true, ..rig.ask("1", &["search"])? };
                rig.place(&waiter).await?;
                rig.release(&ask).await?;
                let order = order_of(&rig, &waiter).await?;
                holds(&format!("the waiter: {order} after {last}"), order > last)?;
                last = order;
                rig.release(&waiter).await?;
            }
        }
    }
    rig.nothing_left().await
}

async fn whole(rig: Rig) -> Verdict {
    let (all, search) = (rig.ask("1", &["whole"])?, rig.ask("1", &["search"])?);
    rig.granted(&all).await?;
    rig.held(&search).await?;
    rig.held(&rig.ask("1", &["whole"])?).await?;
    rig.granted(&rig.ask("2", &["search"])?).await?;
    rig.release(&all).await?;
    let media = rig.ask("1", &["media"])?;
    rig.granted(&media).await?;
    rig.held(&all).await?;
    rig.release(&media).await?;
    rig.granted(&all).await
}

async fn split(rig: Rig) -> Verdict {
    let (german, french) =
        (rig.ask("1", &["translation[locale=de]"])?, rig.ask("1", &["translation[locale=fr]"])?);
    rig.granted(&german).await?;
    rig.granted(&french).await?;
    rig.held(&rig.ask("1", &["translation[locale=de]"])?).await?;
    let all = rig.ask("1", &["whole"])?;
    rig.held(&all).await?;
    rig.release(&german).await?;
    rig.held(&all).await?;
    rig.release(&french).await?;
    rig.granted(&all).await?;
    rig.held(&german).await.map(drop)
}

async fn ttl_bounds(rig: Rig) -> Verdict {
    let (micros, day) = (Duration::from_micros, Duration::from_secs(24 * 60 * 60));
    let table = [
        (Duration::ZERO, Err("ttl_too_small")),
        (micros(999), Err("ttl_too_small")),
        (ms(1), Err("ttl_too_small")),
        (micros(99_999), Err("ttl_too_small")),
        (ms(100), Ok(())),
        (ms(500), Ok(())),
        (day, Ok(())),
        (day + ms(1), Err("ttl_too_large")),
        (ms(1 << 53), Err("ttl_too_large")),
        (ms(i64::MAX.unsigned_abs()), Err("ttl_too_large")),
        (Duration::MAX, Err("ttl_too_large")),
    ];
    for (ttl, want) in table {
        let mut ask = rig.ask("1", &["media"])?;
        (ask.ttl, ask.ttl_max) = (ttl, ttl.clamp(ms(100), day));
        let got = rig.store.acquire(&ask).await.map(drop).map_err(|error| error.code());
        same(&format!("ttl {ttl:?}"), &got, &want)?;
        if want.is_ok() {
            let held = rig.inspect(Some(ask.extent.entity())).await?;
            let left = held.first().map(|held| held.remaining).unwrap_or_default();
            holds(&format!("ttl {ttl:?} left {left:?}"), !left.is_zero() && left <= ttl)?;
            rig.release(&ask).await?;
        }
        rig.nothing_left().await?;
    }
    Ok(())
}

async fn ttl_precision(rig: Rig) -> Verdict {
    let mut ask = rig.ask("1", &["media"])?;
    ask.ttl = Duration::from_micros(1_500_700);
    rig.granted(&ask).await?;
    let held = rig.inspect(None).await?;
    let left = held.first().map(|held| held.remaining).unwrap_or_default();
    holds(&format!("left {left:?}"), left <= ms(1_500) && left > ms(1_450))
}

async fn clamp(rig: Rig) -> Verdict {
    let (mut long, mut short) = (rig.ask("1", &["media"])?, rig.ask("1", &["media"])?);
    long.ttl = Duration::from_secs(3_600);
    (short.ttl, short.ttl_max) = (ms(1_000), ms(1_000));
    rig.granted(&long).await?;
    let by = rig.held(&short).await?;
    let left = by.first().map(|by| by.remaining).unwrap_or_default();
    holds(&format!("left {left:?}"), left <= ms(1_000))?;
    rig.time.pass(ms(1_050)).await;
    rig.granted(&short).await
}

async fn zero_renewal(rig: Rig) -> Verdict {
    let a = rig.ask("1", &["media"])?;
    rig.granted(&a).await?;
    for ttl in [Duration::ZERO, Duration::from_micros(400), ms(99)] {
        let answer = rig.renew(&a, ttl).await?;
        holds(&format!("a renewal by {ttl:?} was {answer:?}"), answer == Renewal::Unknown)?;
    }
    rig.held(&rig.ask("1", &["media"])?).await.map_err(|what| format!("{what}, {}", show(&a)))?;
    Ok(())
}
