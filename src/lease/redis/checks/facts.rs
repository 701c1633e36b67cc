//! What a server says about itself.

use std::{collections::BTreeMap, time::Duration};

use redis::{Cmd, Value};

use crate::{
    clock::{Clock, Moment},
    lease::redis::{
        RedisOptions,
        checks::{
            acl::TRIED,
            ask,
            sample::{Sample, sample},
        },
        fault::Fault,
        keys::Keys,
        link::Link,
        node::NodeName,
        slots::slot,
        stream::text_of,
    },
    token::HolderToken,
};

/// How closely to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// A few round trips, for a connect.
    Quick,
    /// Looks at keys and subscribes too, and watches the clock for a moment.
    Thorough,
}

/// How long the clock is watched.
const WATCHED: Duration = Duration::from_millis(500);
/// Settings that say what is lost when; each may be hidden.
const SETTINGS: &[&str] = &["appendfsync", "save", "min-replicas-to-write", "min-slaves-to-write"];

/// What is known about one server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) node: String,
    /// What `INFO` says; empty when it is forbidden.
    pub(crate) info: BTreeMap<String, String>,
    /// Settings by name; without those it does not know or show.
    pub(crate) settings: BTreeMap<String, String>,
    /// What the user may not do: commands, `keys`, `channels`.
    pub(crate) denied: Vec<String>,
    /// Why no script runs.
    pub(crate) no_scripts: Option<String>,
    /// What `CLUSTER INFO` says of the state of a cluster.
    pub(crate) cluster_state: Option<String>,
    pub(crate) clock: Option<ClockFacts>,
    /// Only after a thorough look.
    pub(crate) sample: Option<Sample>,
}

/// The server's clock beside ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockFacts {
    /// How far it is ahead of our wall clock.
    pub(crate) ahead_ms: i64,
    /// How much more time passed there than here, and how exactly that is known.
    pub(crate) jumped_ms: i64,
    pub(crate) within_ms: i64,
}

/// Asks one node everything.
pub(crate) async fn gather(
    link: &Link,
    node: &NodeName,
    keys: &Keys,
    options: &RedisOptions,
    depth: Depth,
) -> Facts {
    let clock = &*options.clock;
    let first = time(link, node, clock).await;
    let mut facts = Facts { node: node.to_string(), ..Facts::default() };
    if let Ok(text) = ask(link, node, &["INFO"]).await {
        facts.info = lines(&text_of(&text).unwrap_or_default());
    }
    for setting in SETTINGS {
        // Several patterns in one command are not known everywhere.
        if let Ok(answer) = ask(link, node, &["CONFIG", "GET", setting]).await {
            facts.settings.extend(pairs(&answer));
        }
    }
    let script = ask(link, node, &["EVAL", "return 1", "0"]).await;
    facts.no_scripts = script.err().map(|fault| fault.to_string());
    let probe = HolderToken::new(&*options.entropy).to_string();
    facts.denied = denied(link, keys, &probe).await;
    if facts.info.get("redis_mode").is_some_and(|mode| mode == "cluster") {
        let state = ask(link, node, &["CLUSTER", "INFO"]).await.ok();
        let state = state.and_then(|state| text_of(&state)).map(|text| lines(&text));
        facts.cluster_state = state.and_then(|mut state| state.remove("cluster_state"));
    }
    if depth == Depth::Thorough {
        if let Err(fault) = link.subscribe(&keys.inbox(&probe)).await
            && let Some(what) = refused("SUBSCRIBE", &fault)
        {
            facts.denied.push(what);
        }
        facts.sample = Some(sample(link, node, &options.namespace).await);
        clock.sleep_until(clock.now().plus(WATCHED)).await;
    }
    let last = time(link, node, clock).await;
    facts.clock = first.zip(last).map(|(first, last)| compare(first, last));
    facts.denied.sort();
    facts.denied.dedup();
    facts
}

/// A look at a clock: ours before and after, its, and our wall clock, the last two in microseconds.
#[derive(Clone, Copy)]
struct Look {
    before: Moment,
    after: Moment,
    theirs: i64,
    wall: i64,
}

async fn time(link: &Link, node: &NodeName, clock: &dyn Clock) -> Option<Look> {
    let before = clock.now();
    let Ok(Value::Array(parts)) = ask(link, node, &["TIME"]).await else { return None };
    let (after, wall) = (clock.now(), clock.wall().0);
    let [seconds, micros] = parts.as_slice() else { return None };
    let number = |value: &Value| text_of(value)?.parse::<i64>().ok();
    let theirs = number(seconds)?.checked_mul(1_000_000)?.checked_add(number(micros)?)?;
    Some(Look { before, after, theirs, wall })
}

fn compare(first: Look, last: Look) -> ClockFacts {
    let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    let ours = micros(last.after.since(first.before));
    let theirs = last.theirs.saturating_sub(first.theirs);
    let trips = micros(first.after.since(first.before)) + micros(last.after.since(last.before));
    ClockFacts {
        ahead_ms: last.theirs.saturating_sub(last.wall) / 1_000,
        jumped_ms: theirs.saturating_sub(ours) / 1_000,
        within_ms: trips / 1_000 + 1,
    }
}

/// `name:value` lines.
fn lines(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.trim_end().split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn pairs(answer: &Value) -> Vec<(String, String)> {
    match answer {
        Value::Array(parts) => {
            let pairs = parts.chunks_exact(2).filter_map(|pair| {
                let [name, value] = pair else { return None };
                Some((text_of(name)?, text_of(value)?))
            });
            pairs.collect()
        }
        Value::Map(pairs) => {
            let pairs = pairs.iter();
            pairs.filter_map(|(name, value)| Some((text_of(name)?, text_of(value)?))).collect()
        }
        _ => Vec::new(),
    }
}

/// Tries every command we need on a key of ours, in one round trip. It ends within a second even if it cannot be
/// removed again, and no command but the first would make one.
async fn denied(link: &Link, keys: &Keys, probe: &str) -> Vec<String> {
    let key = keys.probe(probe);
    let at = slot(key.as_bytes());
    let channel = keys.inbox(probe);
    // Without a key, these would make one that stays.
    let made = link.send(at, &command("SET", &key, &channel), None).await;
    let mut denied: Vec<String> = Vec::new();
    if let Err(fault) = &made {
        denied.extend(refused("SET", fault));
    }
    let safe = |name: &&&str| made.is_ok() || !matches!(**name, "HSET" | "HINCRBY");
    let tried: Vec<&str> = TRIED.iter().skip(1).filter(safe).copied().collect();
    let commands: Vec<(u16, Cmd)> =
        tried.iter().map(|name| (at, command(name, &key, &channel))).collect();
    let answers = link.send_all(&commands, None).await;
    for (name, answer) in tried.iter().zip(answers) {
        denied.extend(answer.err().and_then(|fault| refused(name, &fault)));
    }
    denied
}

fn command(name: &str, key: &str, channel: &str) -> Cmd {
    let mut command = redis::cmd(name);
    match name {
        "TIME" => {}
        "PUBLISH" => {
            command.arg(channel).arg("");
        }
        "EVALSHA" => {
            command.arg("0000000000000000000000000000000000000000").arg(0);
        }
        name => {
            command.arg(key);
            let rest: &[&str] = match name {
                "SET" => &["probe", "NX", "PX", "1000"],
                "PEXPIRE" => &["1000"],
                "SETRANGE" => &["0", ""],
                "HSET" => &["a", "b"],
                "HINCRBY" => &["a", "1"],
                "HGET" | "HDEL" | "ZREM" => &["a"],
                "ZADD" => &["XX", "0", "a"],
                "ZLEXCOUNT" | "ZRANGEBYLEX" => &["-", "+"],
                "ZRANGEBYSCORE" => &["0", "0"],
                _ => &[],
            };
            rest.iter().for_each(|word| {
                command.arg(*word);
            });
        }
    }
    command
}

/// What a refusal is about; `None` for an error that shows that the command is permitted.
fn refused(name: &str, fault: &Fault) -> Option<String> {
    if fault.message.contains("unknown command") {
        return Some(name.to_owned());
    }
    if fault.code != "NOPERM" {
        return None;
    }
    Some(if fault.message.contains(" key") {
        "keys".to_owned()
    } else if fault.message.contains(" channel") {
        "channels".to_owned()
    } else {
        name.to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_is_told_from_one_that_runs() {
        let look = |before: u64, after: u64, theirs: i64| Look {
            before: Moment(Duration::from_millis(before)),
            after: Moment(Duration::from_millis(after)),
            theirs: theirs * 1_000,
            wall: 0,
        };
        // Two looks and how much more passed there, in ms.
        let table = [
            (look(0, 2, 1_001), look(500, 502, 1_501), -2),
            (look(0, 2, 1_001), look(500, 502, 61_501), 59_998),
            (look(0, 2, 100_001), look(500, 502, 501), -100_002),
        ];

        for (first, last, jumped) in table {
            let facts = compare(first, last);
            assert_eq!((facts.jumped_ms, facts.within_ms), (jumped, 5));
        }
    }
}
