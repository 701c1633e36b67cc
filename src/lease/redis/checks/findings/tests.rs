use super::*;
use crate::lease::redis::checks::facts::ClockFacts;

/// A server as it should be, changed: `info` and `settings` as `name=value`.
fn facts(info: &[&str], settings: &[&str]) -> Facts {
    let mut facts = Facts { node: "h:1".to_owned(), ..Facts::default() };
    let standard = ["redis_version=8.4.0", "role=master", "maxmemory_policy=noeviction"];
    for line in standard.iter().chain(info) {
        let (name, value) = line.split_once('=').unwrap();
        facts.info.insert(name.to_owned(), value.to_owned());
    }
    for line in ["appendfsync=everysec", "save=", "min-replicas-to-write=0"].iter().chain(settings)
    {
        let (name, value) = line.split_once('=').unwrap();
        facts.settings.insert(name.to_owned(), value.to_owned());
    }
    facts
}

fn codes(facts: &Facts) -> Vec<(Level, &'static str)> {
    let found = findings(facts, "fl");
    assert!(found.iter().all(|finding| !finding.remedy.is_empty() && finding.place == "h:1"));
    let told = found.iter().map(|finding| (finding.level, finding.code));
    told.filter(|(_, code)| *code != "persistence").collect()
}

#[test]
fn facts_mean_what_they_mean() {
    use Level::{Info, Refuse, Warn};
    type Row = (&'static [&'static str], &'static [&'static str], &'static [(Level, &'static str)]);
    let table: &[Row] = &[
        (&[], &[], &[]),
        (&["maxmemory_policy=allkeys-lru"], &[], &[(Refuse, "evicts")]),
        (&["maxmemory_policy=volatile-ttl"], &[], &[(Refuse, "evicts")]),
        (&["evicted_keys=3"], &[], &[(Warn, "evicted")]),
        (&["maxmemory=1000", "used_memory=901"], &[], &[(Warn, "nearly_full")]),
        (&["maxmemory=1000", "used_memory=900"], &[], &[]),
        (&["role=slave"], &[], &[(Refuse, "replica")]),
        (&["role=active-replica"], &[], &[(Refuse, "replica")]),
        (&["connected_slaves=2"], &[], &[(Warn, "failover")]),
        (&["connected_slaves=2"], &["min-replicas-to-write=1"], &[(Info, "failover")]),
        (&["aof_last_write_status=err"], &[], &[(Warn, "disk")]),
        (&["redis_version=6.0.16"], &[], &[(Refuse, "too_old")]),
        (&["redis_version=5.0.3"], &[], &[(Refuse, "too_old")]),
        (&["redis_version=6.2.14"], &[], &[(Warn, "lua_faults")]),
        (&["redis_version=6.2.20"], &[], &[]),
        (
            &["redis_version=6.2.20"],
            &["min-replicas-to-write=1"],
            &[(Warn, "scripts_unacknowledged")],
        ),
        (&["redis_version=7.0.15"], &[], &[(Warn, "lua_faults")]),
        (&["redis_version=7.2.10"], &[], &[(Warn, "lua_faults")]),
        (&["redis_version=7.2.11"], &[], &[]),
        (&["redis_version=8.2.1"], &[], &[(Warn, "lua_faults")]),
        (&["redis_version=8.2.2"], &[], &[]),
        (&["redis_version=9.0.0"], &[], &[]),
        // Valkey says which Redis it is like.
        (&["redis_version=7.2.4", "valkey_version=9.1.2"], &[], &[]),
        (&["redis_version=7.2.4", "valkey_version=8.1.3"], &[], &[(Warn, "lua_faults")]),
        (&["redis_version=nonsense"], &[], &[]),
    ];

    for (info, settings, want) in table {
        assert_eq!(codes(&facts(info, settings)), *want, "{info:?} {settings:?}");
    }
}

#[test]
fn what_a_restart_forgets_is_said_by_what_is_written() {
    let table: [(&[&str], &[&str], &str); 5] = [
        (&[], &[], "every lease"),
        (&[], &["save=3600 1"], "since its last snapshot"),
        (&["aof_enabled=1"], &[], "the last second or two"),
        (&["aof_enabled=1"], &["appendfsync=no"], "half a minute"),
        (&["aof_enabled=1"], &["appendfsync=always"], "forgets nothing"),
    ];

    for (info, settings, want) in table {
        let found = findings(&facts(info, settings), "fl");
        let said = found.iter().find(|finding| finding.code == "persistence").unwrap();
        assert!(said.message.contains(want), "{}", said.message);
    }
}

#[test]
fn permissions_clocks_clusters_and_keys_are_judged() {
    use Level::{Info, Refuse, Warn};
    let mut hidden = Facts { node: "h:1".to_owned(), ..Facts::default() };
    assert_eq!(codes(&hidden), [(Info, "hidden")]);
    hidden.denied = vec!["HSET".to_owned(), "keys".to_owned()];
    hidden.no_scripts = Some("NOPERM".to_owned());
    assert_eq!(codes(&hidden), [(Refuse, "denied"), (Refuse, "no_scripts"), (Info, "hidden")]);

    let clock = |ahead_ms, jumped_ms, within_ms| {
        let clock = Some(ClockFacts { ahead_ms, jumped_ms, within_ms });
        codes(&Facts { clock, ..facts(&[], &[]) })
    };
    assert_eq!(clock(4_000, -90, 1), []);
    assert_eq!(clock(-6_000, 0, 1), [(Info, "clock_apart")]);
    assert_eq!(clock(0, 3_000, 1), [(Warn, "clock_jump")]);
    assert_eq!(clock(0, -3_000, 2_950), [], "it was not seen more exactly");

    let cluster =
        |state: &str| codes(&Facts { cluster_state: Some(state.to_owned()), ..facts(&[], &[]) });
    assert_eq!(cluster("ok"), [(Info, "cluster")]);
    assert_eq!(cluster("fail"), [(Refuse, "cluster_down"), (Info, "cluster")]);

    let sample = Sample {
        permitted: true,
        foreign: vec!["fl:x\n".to_owned()],
        wrong: vec![("fl:{A:1}:h".to_owned(), "list".to_owned())],
        strange: vec!["fl:{A:1}:g:m".to_owned()],
        ..Sample::default()
    };
    let facts = Facts { sample: Some(sample), ..facts(&[], &[]) };
    let refused = ["foreign_keys", "wrong_type", "other_form"].map(|code| (Refuse, code));
    assert_eq!(codes(&facts), refused);
    assert!(findings(&facts, "fl").iter().all(|finding| !finding.message.contains('\n')));
}
