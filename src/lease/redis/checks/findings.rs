//! What facts mean. A plain function: the same facts, the same findings.

use crate::lease::redis::checks::{Finding, Level, facts::Facts, sample::Sample};

/// Clocks further apart than this are told. Leases do not depend on it, orders of weak fences do a little.
const AHEAD_MAX_MS: i64 = 5_000;
/// More than this beyond what could be measured is a clock that was set.
const JUMP_MAX_MS: i64 = 100;
/// Most of its memory a server should use.
const FULL_PERCENT: u64 = 90;

/// Releases with every known fault of Lua mended (CVE-2024-31449, CVE-2024-46981, CVE-2025-49844 and its kin), by line;
/// later lines have them all. Redis 7.0 has none: its distributors mend it under the same number.
const REDIS_MENDED: &[(u32, u32, Option<u32>)] = &[
    (6, 2, Some(20)),
    (7, 0, None),
    (7, 2, Some(11)),
    (7, 4, Some(6)),
    (8, 0, Some(4)),
    (8, 2, Some(2)),
];
const VALKEY_MENDED: &[(u32, u32, Option<u32>)] =
    &[(7, 2, Some(11)), (8, 0, Some(6)), (8, 1, Some(4))];

/// Everything worth saying about a server.
pub(crate) fn findings(facts: &Facts, namespace: &str) -> Vec<Finding> {
    let mut judge = Judge { facts, namespace, found: Vec::new() };
    judge.version();
    judge.permissions();
    judge.memory();
    judge.role();
    judge.persistence();
    judge.replicas();
    judge.clock();
    judge.cluster();
    if let Some(sample) = &facts.sample {
        judge.keys(sample);
    }
    judge.found
}

struct Judge<'a> {
    facts: &'a Facts,
    namespace: &'a str,
    found: Vec<Finding>,
}

impl Judge<'_> {
    fn add(
        &mut self,
        level: Level,
        code: &'static str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let (place, message, remedy) = (self.facts.node.clone(), message.into(), remedy.into());
        self.found.push(Finding { level, code, place, message, remedy });
    }

    fn info(&self, name: &str) -> Option<&str> {
        self.facts.info.get(name).map(String::as_str)
    }

    fn number(&self, name: &str) -> u64 {
        self.info(name).and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    fn version(&mut self) {
        let valkey = self.info("valkey_version").and_then(version);
        let redis = self.info("redis_version").and_then(version);
        let Some((name, at, mended)) = valkey
            .map(|at| ("Valkey", at, VALKEY_MENDED))
            .or_else(|| redis.map(|at| ("Redis", at, REDIS_MENDED)))
        else {
            return;
        };
        let (major, minor, patch) = at;
        if name == "Redis" && (major, minor) < (6, 2) {
            let message = format!("Redis {major}.{minor}.{patch} is older than 6.2");
            self.add(Level::Refuse, "too_old", message, "use Redis 6.2 or later, or Valkey");
            return;
        }
        let line = mended.iter().find(|line| (line.0, line.1) == (major, minor));
        let first = mended.first().map(|line| (line.0, line.1));
        let last = mended.last().map(|line| (line.0, line.1));
        let (faulty, remedy) = match line {
            Some((_, _, Some(least))) => {
                (patch < *least, format!("update it to {major}.{minor}.{least} or later"))
            }
            Some((_, _, None)) => (
                true,
                "use a later line; or make sure that its distributor has mended it under the same number"
                    .to_owned(),
            ),
            // A line between those known, which got no release of its own.
            None => (
                Some((major, minor)) > first && Some((major, minor)) < last,
                "use a later line".to_owned(),
            ),
        };
        if faulty {
            let message = format!(
                "{name} {major}.{minor}.{patch} has known faults in Lua (CVE-2025-49844 and its kin): whoever may run scripts may take the server over"
            );
            self.add(Level::Warn, "lua_faults", message, remedy);
        }
    }

    fn permissions(&mut self) {
        let denied = self.facts.denied.clone();
        if !denied.is_empty() {
            let message = format!("this user may not use what leases need: {}", denied.join(", "));
            let remedy = format!(
                "permit it: keys `~{0}:*`, channels `&{0}:*` and the commands of the line that `fieldlease doctor` prints",
                self.namespace
            );
            self.add(Level::Refuse, "denied", message, remedy);
        }
        if let Some(why) = self.facts.no_scripts.clone() {
            let message = format!("scripts do not run: {why}");
            self.add(Level::Refuse, "no_scripts", message, "permit EVAL and EVALSHA");
        }
        let mut hidden = Vec::new();
        if self.facts.info.is_empty() {
            hidden.push("eviction, memory, version, persistence and replicas (INFO)");
        }
        if self.facts.settings.is_empty() {
            hidden.push(
                "acknowledgements of replicas and how often it is written to disk (CONFIG GET)",
            );
        }
        if self.facts.sample.as_ref().is_some_and(|sample| !sample.permitted) {
            hidden.push("keys of others (SCAN)");
        }
        if !hidden.is_empty() {
            let message = format!("could not be checked: {}", hidden.join("; "));
            let remedy = "permit these commands for a moment, or look by hand";
            self.add(Level::Info, "hidden", message, remedy);
        }
    }

    fn memory(&mut self) {
        if let Some(policy) = self.info("maxmemory_policy").filter(|policy| *policy != "noeviction")
        {
            let how = match policy.starts_with("volatile") {
                true => "only keys that end by themselves, so the leases go first",
                false => "leases among other keys",
            };
            let message = format!(
                "`maxmemory-policy` is `{policy}`: when its memory is full, it removes {how}, without a word"
            );
            let remedy = "`CONFIG SET maxmemory-policy noeviction`, and in its file; give a cache a server of its own";
            self.add(Level::Refuse, "evicts", message, remedy);
        }
        let evicted = self.number("evicted_keys");
        if evicted > 0 {
            let message = format!("it has removed {evicted} keys for memory since it was started");
            self.add(Level::Warn, "evicted", message, "give it more memory, or fewer tenants");
        }
        let (used, most) = (self.number("used_memory"), self.number("maxmemory"));
        if most > 0 && used.saturating_mul(100) > most.saturating_mul(FULL_PERCENT) {
            let message = format!(
                "it uses {used} of {most} bytes: when it is full, nobody is granted a lease"
            );
            self.add(
                Level::Warn,
                "nearly_full",
                message,
                "raise `maxmemory`, or remove what fills it",
            );
        }
    }

    fn role(&mut self) {
        if let Some(role) = self.info("role").filter(|role| *role != "master") {
            let message = format!(
                "its role is `{role}`: it refuses writes, or takes them beside another primary"
            );
            self.add(Level::Refuse, "replica", message, "name the one primary, or its sentinels");
        }
    }

    fn persistence(&mut self) {
        if self.facts.info.is_empty() {
            return;
        }
        let append = self.info("aof_enabled") == Some("1");
        let sync = self.facts.settings.get("appendfsync").map(String::as_str);
        let saves = self.facts.settings.get("save").is_some_and(|save| !save.is_empty());
        let lost = match (append, sync) {
            (true, Some("always")) => "nothing that was granted",
            (true, Some("no")) => "what the system had not written, often half a minute",
            (true, _) => "the last second or two",
            (false, _) if saves => "everything since its last snapshot, often minutes",
            (false, _) => "every lease",
        };
        let message = format!(
            "a restart forgets {lost}; the claim in the record store decides then, and no save is lost"
        );
        let remedy = match lost.starts_with("nothing") {
            true => "none needed",
            false => {
                "for leases without claims (`run`): `appendonly yes` and `appendfsync always`, or stay down for one time to live after a crash"
            }
        };
        self.add(Level::Info, "persistence", message, remedy);
        if self.info("aof_last_write_status") == Some("err")
            || self.info("rdb_last_bgsave_status") == Some("err")
        {
            let message = "it could not write to its disk: it refuses leases while that lasts";
            self.add(Level::Warn, "disk", message, "look at its log, and at the space on its disk");
        }
    }

    fn replicas(&mut self) {
        let replicas = self.number("connected_slaves");
        let setting = |name: &str| self.facts.settings.get(name).map(String::as_str);
        let least = setting("min-replicas-to-write").or(setting("min-slaves-to-write"));
        let old = self.info("redis_version").and_then(version).is_some_and(|(major, ..)| major < 7);
        if least.is_some_and(|least| least != "0") && old {
            let message = "before Redis 7 scripts are not held back by `min-replicas-to-write`";
            self.add(
                Level::Warn,
                "scripts_unacknowledged",
                message,
                "use Redis 7 or later, or Valkey",
            );
        }
        if replicas == 0 {
            return;
        }
        let message = format!(
            "it has {replicas} replicas, which hear of a lease after it was granted: a failover forgets the last ones, and they may be granted twice"
        );
        match least {
            Some("0") => self.add(
                Level::Warn,
                "failover",
                message + ", for as long as a primary that is cut off does not notice",
                "set `min-replicas-to-write 1` and `min-replicas-max-lag`, so that a primary that is cut off stops granting; claims keep saves safe",
            ),
            _ => self.add(Level::Info, "failover", message, "none needed for saves: their claims decide"),
        }
    }

    fn clock(&mut self) {
        let Some(clock) = self.facts.clock else { return };
        if clock.ahead_ms.abs() > AHEAD_MAX_MS {
            let (by, way) = (
                clock.ahead_ms.abs() / 1_000,
                if clock.ahead_ms > 0 { "ahead of" } else { "behind" },
            );
            let message = format!("its clock is {by} s {way} ours; leases do not compare clocks");
            self.add(Level::Info, "clock_apart", message, "let both follow a time server");
        }
        if clock.jumped_ms.abs() > JUMP_MAX_MS.saturating_add(clock.within_ms) {
            let message = format!(
                "its clock was set by about {} ms while it was looked at: leases end early or late by that",
                clock.jumped_ms
            );
            let remedy = "let its time server adjust the clock by slewing, never by steps";
            self.add(Level::Warn, "clock_jump", message, remedy);
        }
    }

    fn cluster(&mut self) {
        let Some(state) = self.facts.cluster_state.clone() else { return };
        if state != "ok" {
            let message = format!(
                "the state of its cluster is `{state}`: some or all slots are served by nobody"
            );
            self.add(
                Level::Refuse,
                "cluster_down",
                message,
                "see `CLUSTER INFO` and `CLUSTER NODES`",
            );
        }
        let message = "a record lives in one slot; a message to a waiter passes through every node of the cluster";
        self.add(
            Level::Info,
            "cluster",
            message,
            "none needed below thousands of hand-overs a second",
        );
    }

    fn keys(&mut self, sample: &Sample) {
        let remedy = "choose another namespace, or remove them";
        let of = match sample.complete {
            true => String::new(),
            false => format!(" (of {} that were looked at)", sample.looked),
        };
        if !sample.foreign.is_empty() {
            let message = format!(
                "somebody else keeps keys under `{}:`{of}: {}",
                self.namespace,
                shown(&sample.foreign)
            );
            self.add(Level::Refuse, "foreign_keys", message, remedy);
        }
        if !sample.wrong.is_empty() {
            let wrong: Vec<String> =
                sample.wrong.iter().map(|(key, kind)| format!("{key} is a {kind}")).collect();
            let message = format!("keys of ours hold something else{of}: {}", shown(&wrong));
            self.add(Level::Refuse, "wrong_type", message, remedy);
        }
        if !sample.strange.is_empty() {
            let message = format!(
                "leases are written in a form this version does not know{of}: {}",
                shown(&sample.strange)
            );
            let remedy = "do not run two versions with different forms under one namespace";
            self.add(Level::Refuse, "other_form", message, remedy);
        }
    }
}

/// Names of keys are somebody else's words.
fn shown(names: &[String]) -> String {
    let names: Vec<String> =
        names.iter().map(|name| format!("`{}`", name.escape_debug())).collect();
    names.join(", ")
}

fn version(text: &str) -> Option<(u32, u32, u32)> {
    let mut parts = text.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??, parts.next().flatten().unwrap_or(0)))
}

#[cfg(test)]
mod tests;
