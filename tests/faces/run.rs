//! `run`: admission, policies, and what the command is told.

use std::fs;

use serde_json::json;

use crate::{
    command::{Place, Running},
    servers::{Flavour, Server, until},
};

/// Holds the lease until told to go.
const HOLD: &str = "echo $$ > held; while [ ! -e go ]; do sleep 0.02; done";

fn holder(place: &Place) -> Running {
    let holder = place.shell(&["--label", "first"], HOLD);
    place.written("held");
    holder
}

fn let_go(place: &Place, holder: Running) {
    fs::write(place.file("go"), "x").unwrap();
    assert_eq!(holder.ended().code, Some(0));
}

#[test]
fn runs_of_one_group_never_overlap_and_all_get_their_turn() {
    let place = Place::new();
    let script = "mkdir busy || echo overlap >> bad; sleep 0.05; rmdir busy; echo x >> done";

    let runs: Vec<Running> =
        (0..8).map(|_| place.shell(&["--on-busy", "wait 1m"], script)).collect();

    for run in runs {
        let ran = run.ended();
        assert_eq!((ran.code, &*ran.out, &*ran.err), (Some(0), "", ""));
    }
    assert_eq!(place.text("bad"), "");
    assert_eq!(place.text("done").lines().count(), 8);
    place.is_clean();
}

#[test]
fn who_finds_it_held_skips_fails_or_gives_up_in_time_and_says_who_holds_it() {
    let place = Place::new();
    let first = holder(&place);

    let skipped = place.shell(&["--on-busy", "skip"], "echo ran > ran").ended();
    assert_eq!((skipped.code, &*skipped.out, &*skipped.err), (Some(121), "", ""));
    let told = place.shell(&["--on-busy", "skip", "--json"], "echo ran > ran").ended();
    assert_eq!(told.step("skipped")["held_by"][0]["label"], "first");
    for (policy, code) in [("fail", 6), ("wait 100ms", 122), ("retry 2 backoff 10ms..20ms", 122)] {
        let ran = place.shell(&["--on-busy", policy], "echo ran > ran").ended();
        assert_eq!((ran.code, &*ran.out), (Some(code), ""), "{policy}");
        assert!(ran.err.contains("held by first (main"), "{policy}: {}", ran.err);
        assert!(ran.err.contains("`fieldlease leases show Job/a main`"), "{}", ran.err);
    }
    let url = place.server.url();
    let named = place.shell(&["--on-busy", "fail", "--redis", &format!("{url}/0")], "true").ended();
    assert!(named.err.contains("show Job/a main --redis ...`"), "{}", named.err);
    let both = ["run", "Job/a", "other", "main", "--on-busy", "skip", "--", "true"];
    assert_eq!(place.ran(&both).code, Some(121), "all or none");
    let other = ["run", "Job/a", "other", "--on-busy", "fail", "--", "true"];
    assert_eq!(place.ran(&other).code, Some(0), "another group is free");
    assert_eq!(place.text("ran"), "");

    let_go(&place, first);
    place.is_clean();
}

#[test]
fn who_waits_gets_it_when_the_holder_ends() {
    let place = Place::new();
    let first = holder(&place);
    let second = place.shell(&["--on-busy", "wait 1m", "--json"], "echo ran > ran");
    until("it stands in line", || {
        place.leases().first().is_some_and(|holder| holder["waiting"] == 1)
    });
    assert_eq!(place.text("ran"), "");

    let_go(&place, first);

    let second = second.ended();
    assert_eq!((second.code, &*place.text("ran")), (Some(0), "ran"));
    assert!(second.step("acquired")["waited_ms"].as_u64().unwrap() > 0);
    place.is_clean();
}

#[test]
fn who_waited_in_vain_is_told_how_long_it_is_held_now() {
    let place = Place::new();
    let first = holder(&place);

    let ran = place.shell(&["--on-busy", "wait 3s"], "true").ended();

    assert_eq!(ran.code, Some(122));
    let age = ran.err.split_once("for ").and_then(|(_, rest)| rest.split_once(" s)"));
    let age: u64 = age.unwrap().0.parse().unwrap();
    assert!(age >= 2, "{}", ran.err);
    let_go(&place, first);
}

#[test]
fn a_policy_that_the_shell_has_divided_is_to_be_put_in_quotes() {
    let place = Place::new();

    for (policy, help) in [
        (&["wait", "5s"][..], "--on-busy 'wait 5s'"),
        (&["retry", "3"], "--on-busy 'wait 5s'"),
        (&["maybe"], "write skip, fail"),
    ] {
        let ran = place.shell(&[&["--on-busy"], policy].concat(), "true").ended();
        assert_eq!((ran.code, ran.err.contains(help)), (Some(7), true), "{ran:?}");
        assert!(!ran.err.contains("enqueue"), "{ran:?}");
    }
}

/// Whoever is told to stop while it waits is no longer in anybody's way.
#[test]
fn a_waiter_that_is_told_to_stop_leaves_the_line() {
    let place = Place::new();
    let first = holder(&place);
    let second = place.shell(&["--on-busy", "wait 1m"], "echo ran > ran");
    let waiting =
        |count: u32| place.leases().first().is_some_and(|holder| holder["waiting"] == count);
    until("it stands in line", || waiting(1));

    second.signal("TERM");

    assert_eq!(second.ended().code, Some(143));
    assert!(waiting(0), "{:?}", place.leases());
    let_go(&place, first);
    assert_eq!(place.text("ran"), "");
    place.is_clean();
}

#[test]
fn the_command_is_told_what_it_holds_and_nothing_secret() {
    let place = Place::new();
    let script = "env | grep ^FIELDLEASE_ | sort > said";
    let args =
        ["run", "Job/a b", "two", "one[l=de]", "--ttl", "5s", "--json", "--", "sh", "-c", script];

    let ran = place.ran(&args);

    assert_eq!(ran.code, Some(0), "{ran:?}");
    let fence = ran.step("acquired")["fence"].as_str().unwrap().to_owned();
    let expected = [
        "FIELDLEASE_ENTITY=Job/a b".to_owned(),
        format!("FIELDLEASE_FENCE={fence}"),
        "FIELDLEASE_GROUPS=one[l=de] two".to_owned(),
        "FIELDLEASE_TTL_MS=5000".to_owned(),
    ];
    assert_eq!(place.text("said").lines().collect::<Vec<_>>(), expected);
    let steps: Vec<_> = ran.steps().iter().map(|step| step["event"].clone()).collect();
    assert_eq!(steps, ["acquired", "started", "ended", "released"]);
    assert_eq!(ran.step("ended")["exit"], 0);
    assert_eq!(ran.step("released")["lease"], "released");
    assert_eq!(ran.step("acquired")["groups"], json!(["one[l=de]", "two"]));
}

#[test]
fn the_fence_grows_from_holder_to_holder_whatever_they_hold() {
    let place = Place::new();
    let mut fences = Vec::new();

    for groups in [&["main"][..], &["main"], &["main", "other"], &["main"], &["other"]] {
        let script = ["--", "sh", "-c", "echo $FIELDLEASE_FENCE"];
        let ran = place.ran(&[&["run", "Job/a"], groups, &script].concat());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        fences.push(ran.out.trim().parse::<u64>().unwrap());
    }

    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
}

#[test]
fn the_whole_entity_keeps_everybody_away() {
    let place = Place::new();
    let registry = "field_ownership: {Job: {editor_owned: [note], system_owned: \
        {main: {fields: [a], on_busy: skip}, other: {fields: [b], on_busy: fail}}}}";
    fs::write(place.file("registry.yaml"), registry).unwrap();
    let whole = ["run", "Job/a", "--whole", "--registry", "registry.yaml", "--json", "--"];
    let held = place.start(&[&whole[..], &["sh", "-c", HOLD]].concat());
    place.written("held");

    for (group, code) in [("main", 121), ("other", 6)] {
        let ran = place.ran(&["run", "Job/a", group, "--registry", "registry.yaml", "--", "true"]);
        assert_eq!(ran.code, Some(code), "{group}: {ran:?}");
    }

    fs::write(place.file("go"), "x").unwrap();
    let ran = held.ended();
    assert_eq!((ran.code, &ran.step("acquired")["groups"]), (Some(0), &json!(["main", "other"])));
    place.is_clean();
}

/// Whatever is wrong is told before a lease is taken or a command is started, on standard error.
#[test]
fn what_cannot_be_asked_for_is_refused_before_anything_is_taken() {
    let place = Place::new();
    let registry = "field_ownership: {Job: {editor_owned: [note], system_owned: \
        {main: {fields: [a]}, texts: {fields: ['t@locale'], split_by: [locale]}}, \
        axes: {locale: any}}}";
    fs::write(place.file("registry.yaml"), registry).unwrap();
    fs::write(place.file("text"), "x").unwrap();
    let with = |rest: &[&'static str]| [&["run", "Job/a", "main"], rest, &["--", "true"]].concat();
    let registry = ["--registry", "registry.yaml", "--", "true"];
    let cases: Vec<(Vec<&str>, i32, &str)> = vec![
        (with(&["--on-busy", "maybe"]), 7, "unknown_word"),
        (with(&["--on-busy", "wait 5"]), 7, "bad_duration"),
        (with(&["--on-busy", "enqueue"]), 7, "bad_on_busy"),
        (with(&["--ttl", "10"]), 7, "bad_duration"),
        (with(&["--ttl", "1ms"]), 7, "out_of_range"),
        (with(&["--max-hold", "x"]), 7, "bad_duration"),
        (with(&["--kill-after", "never"]), 7, "bad_duration"),
        (with(&["--signal-on-loss", "WINCH"]), 7, "bad_signal"),
        (with(&["--registry", "none.yaml"]), 3, "no_such_file"),
        (with(&["--redis", "gopher://x"]), 7, "bad_url"),
        (with(&["--redis", "redis://127.0.0.1:1"]), 8, "unavailable"),
        (with(&["--redis", "memory"]), 7, "no_redis"),
        (with(&["--namespace", "a b"]), 7, "bad_namespace"),
        (vec!["run", "Job", "main", "--", "true"], 7, "bad_name"),
        (vec!["run", "Job/a", "--", "true"], 7, "no_groups"),
        (vec!["run", "Job/a", "a[", "--", "true"], 7, "bad_scope"),
        (vec!["run", "Job/a", "main", "--", "no-such-command"], 127, "not_a_command"),
        (vec!["run", "Job/a", "main", "--", "./text"], 126, "not_executable"),
        ([&["run", "Job/a", "editor"], &registry[..]].concat(), 7, "bad_scope"),
        ([&["run", "Job/a", "texts"], &registry[..]].concat(), 7, "bad_scope"),
        ([&["run", "Job/a", "none"], &registry[..]].concat(), 7, "bad_scope"),
        ([&["run", "Jbo/a", "main"], &registry[..]].concat(), 3, "unknown_type"),
        ([&["run", "Job/a", "main", "--whole"], &registry[..]].concat(), 7, "bad_scope"),
    ];

    for (args, code, error) in cases {
        let at = args.iter().position(|arg| *arg == "--").unwrap();
        let (before, after) = args.split_at(at);
        let ran = place.ran(&[before, &["--json"], after].concat());
        assert_eq!((ran.code, &*ran.out), (Some(code), ""), "{args:?}: {}", ran.err);
        assert_eq!(ran.step("failed")["error"], error, "{args:?}: {}", ran.err);
        let text = place.ran(&args);
        assert_eq!((text.code, &*text.out), (Some(code), ""), "{args:?}");
        assert!(text.err.contains(&format!("error[{error}]")), "{args:?}: {}", text.err);
    }
    assert_eq!(place.server.keys(), Vec::<String>::new());
    let mut nowhere = place.command(&with(&[]));
    let nowhere = nowhere.env_remove("FIELDLEASE_REDIS").output().unwrap();
    assert_eq!(nowhere.status.code(), Some(7));
    let said = String::from_utf8(nowhere.stderr).unwrap();
    assert!(said.contains("FIELDLEASE_REDIS") && said.contains("between processes"), "{said}");
}

#[test]
fn most_of_several_independent_servers_are_enough_to_keep_runs_apart() {
    let place = Place::new();
    let more = [Flavour::Redis62, Flavour::Valkey9].map(|flavour| Server::start(flavour, &[]));
    let addresses = [place.server.address(), more[0].address(), more[1].address()];
    let url = format!("redis+quorum://{}", addresses.join(","));
    let holder = place.shell(&["--redis", &url, "--label", "first"], HOLD);
    place.written("held");

    more[0].kill();

    let other = place.shell(&["--redis", &url, "--on-busy", "fail"], "echo ran > ran").ended();
    assert_eq!(other.code, Some(6), "{other:?}");
    assert!(other.err.contains("held by first"), "{}", other.err);
    let_go(&place, holder);
    let next = place.shell(&["--redis", &url], "echo $FIELDLEASE_FENCE").ended();
    assert_eq!(next.code, Some(0), "{next:?}");
    assert!(next.out.trim().parse::<u64>().is_ok(), "{next:?}");
}
