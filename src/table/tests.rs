//! The automaton under random steps, and what the invariants say after each; then a few histories by hand.

use super::*;
use crate::{entity::EntityRef, scope::ScopeSet};

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn at(n: u64) -> Moment {
    Moment(ms(n))
}

fn token(n: u64) -> HolderToken {
    HolderToken(u128::from(n).to_be_bytes())
}

fn cover(names: &[&str]) -> Cover {
    let entity = EntityRef::new("Product", "1").unwrap();
    let whole = names == ["whole"];
    let names = if whole { &["a", "b"][..] } else { names };
    let names = names.iter().map(|name| ScopeName::parse(name).unwrap());
    Cover { whole, scopes: ScopeSet::new(entity, names) }
}

fn bid(n: u64, names: &[&str], queue: bool) -> Bid {
    Bid {
        token: token(n),
        cover: cover(names),
        ttl: ms(10_000),
        ttl_max: ms(60_000),
        label: format!("{n}").into(),
        queue,
    }
}

fn check(table: &Table, now: Moment, history: &str) {
    for (n, grant) in table.grants.iter().enumerate() {
        assert!(now < grant.until, "a grant that has ended\n{history}");
        for other in table.grants.iter().skip(n + 1) {
            assert!(!grant.cover.conflicts(&other.cover), "two holders\n{history}");
        }
    }
    for (n, place) in table.places.iter().enumerate() {
        let held = table.grants.iter().any(|grant| grant.cover.conflicts(&place.cover));
        let ahead = table.places.iter().take(n).any(|ahead| ahead.cover.conflicts(&place.cover));
        assert!(held || ahead, "a place that nothing stands before\n{history}");
        let twice = table.grants.iter().any(|grant| grant.token == place.token);
        assert!(!twice, "a token both held and queued\n{history}");
    }
}

#[test]
fn no_two_holders_and_no_forgotten_waiter_after_any_steps() {
    let covers: [&[&str]; 6] = [&["a"], &["b"], &["a", "b"], &["b", "c"], &["c"], &["whole"]];
    for seed in 1..=400_u64 {
        let (mut table, mut now, mut random) = (Table::default(), 1_000, seed);
        let mut history = format!("seed {seed}\n");
        let mut granted = BTreeSet::new();
        for _ in 0..200 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            now += random % 5 * (random / 11 % 700);
            let n = random / 31 % 12;
            let (names, queue) = (covers[usize::try_from(n % 6).unwrap()], random / 7 % 3 > 0);
            let mut effects = Vec::new();
            let before: Vec<HolderToken> = table.places.iter().map(|place| place.token).collect();
            match random / 101 % 8 {
                0..=3 => {
                    let answer = table.acquire(bid(n, names, queue), at(now), &mut effects);
                    history += &format!("{now}: acquire {n} {names:?} {queue}: {answer:?}\n");
                }
                4 | 5 => {
                    let known = table.renew(token(n), ms(10_000), at(now), &mut effects);
                    history += &format!("{now}: renew {n}: {known:?}\n");
                }
                6 => {
                    let known = table.release(token(n), at(now), &mut effects);
                    history += &format!("{now}: release {n}: {known}\n");
                    assert!(!table.release(token(n), at(now), &mut effects), "{history}");
                }
                _ => {
                    let scope = ScopeName::parse("b").unwrap();
                    let held = table.break_scope(&scope, at(now), &mut effects);
                    history += &format!("{now}: break b: {held:?}\n");
                }
            }
            history += &format!("  {effects:?}\n");
            check(&table, at(now), &history);
            for effect in effects {
                if let Effect::Granted(token) = effect {
                    assert!(before.contains(&token), "granted though never queued\n{history}");
                    granted.insert(token);
                }
            }
        }
        assert!(!granted.is_empty(), "the steps never granted from the queue\n{history}");
        table.advance(at(now + 60_000), &mut Vec::new());
        assert!(table.is_empty(), "{history}");
    }
}

#[test]
fn a_release_looks_no_further_than_it_has_to_and_misses_nobody() {
    let mut table = Table::default();
    let mut effects = Vec::new();
    let mut step = |table: &mut Table, n, names: &[&str]| {
        table.acquire(bid(n, names, true), at(0), &mut effects)
    };
    assert_eq!(step(&mut table, 1, &["a", "b"]), Answer::Granted);
    for (n, names) in [(2, &["a"][..]), (3, &["a"]), (4, &["c", "a"]), (5, &["b"]), (6, &["c"])] {
        assert!(matches!(step(&mut table, n, names), Answer::Held { .. }), "{n}");
    }

    let mut effects = Vec::new();
    assert!(table.release(token(1), at(0), &mut effects));

    let granted = [2, 5].map(|n| Effect::Granted(token(n)));
    assert!(granted.iter().all(|granted| effects.contains(granted)), "{effects:?}");
    // 6 wants what 4 stands in line for.
    assert!(!effects.contains(&Effect::Granted(token(6))), "{effects:?}");
    check(&table, at(0), "");
}

#[test]
fn the_queue_is_bounded() {
    let mut table = Table::default();
    let most = u64::try_from(PLACES_MAX).unwrap();
    let mut acquire = |n| table.acquire(bid(n, &["a"], true), at(0), &mut Vec::new());
    assert_eq!(acquire(0), Answer::Granted);
    for n in 1..=most {
        // Only the last answers are worth their cost.
        if n > 200 && n < most - 2 {
            continue;
        }
        assert!(matches!(acquire(n), Answer::Held { place: Some(_), .. }), "{n}");
    }
    let spare = Place {
        token: token(0),
        cover: cover(&["a"]),
        label: "".into(),
        ttl: ms(100),
        until: at(10_000),
    };
    while table.places.len() < PLACES_MAX {
        let n = u64::try_from(table.places.len()).unwrap() + 1_000_000;
        let Place { cover, label, ttl, until, .. } = &spare;
        let (cover, label) = (cover.clone(), label.clone());
        table.places.push_back(Place { token: token(n), cover, label, ttl: *ttl, until: *until });
    }

    let answer = table.acquire(bid(5_000_000, &["a"], true), at(0), &mut Vec::new());
    assert_eq!(answer, Answer::QueueFull);
    let without = table.acquire(bid(5_000_001, &["a"], false), at(0), &mut Vec::new());
    assert!(matches!(without, Answer::Held { place: None, .. }));
}

#[test]
fn a_cut_remaining_time_is_reported_once_with_what_was_found() {
    let mut table = Table::default();
    let mut effects = Vec::new();
    let long = Bid { ttl: ms(3_600_000), ttl_max: ms(3_600_000), ..bid(1, &["a", "b"], false) };
    table.acquire(long.clone(), at(0), &mut effects);
    let short = Bid { ttl: ms(500), ttl_max: ms(1_000), ..bid(2, &["a"], false) };

    table.acquire(short.clone(), at(100), &mut effects);
    table.acquire(short.clone(), at(100), &mut effects);

    let name = ScopeName::parse("a").unwrap();
    assert_eq!(effects, [Effect::Clamped { name, found: ms(3_599_900) }]);
    assert_eq!(table.acquire(short.clone(), at(1_100), &mut effects), Answer::Granted);
}
