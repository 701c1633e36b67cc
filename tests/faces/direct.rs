//! Looking at leases, and breaking them, in Redis itself; `race` and `bench` over it.

use serde_json::json;

use crate::command::Place;

#[test]
fn leases_are_shown_listed_and_broken_without_a_service() {
    let place = Place::new();
    let hold = "echo $$ > ready; exec sleep 60";
    let run = place.shell(&["--label", "first", "--json"], hold);
    place.written("ready");

    let shown = place.ran(&["leases", "show", "Job/a", "main"]);
    assert!(shown.out.contains("Job/a") && shown.out.contains("first"), "{shown:?}");
    let json = place.ran(&["leases", "show", "Job/a", "main", "--json"]).lines();
    assert_eq!((&json[0]["scope"], &json[0]["label"]), (&json!("main"), &json!("first")));
    crate::servers::until("it is old enough to be listed", || {
        place.ran(&["leases", "list", "--json"]).lines()
            == place.ran(&["leases", "show", "Job/a", "--json"]).lines()
            || !place.ran(&["leases", "list", "--json"]).lines().is_empty()
    });
    let other = place.ran(&["leases", "show", "Job/a", "main", "--namespace", "other"]);
    assert_eq!(
        (other.code, &*other.out),
        (Some(0), "no leases are held under the namespace other\n")
    );

    let mut end = vec!["leases", "break", "Job/a", "main", "--reason", "hangs", "--json"];
    let refused = place.ran(&end);
    assert_eq!((refused.code, &refused.lines()[0]["error"]), (Some(7), &json!("unfenced")));
    assert_eq!(place.leases().len(), 1);
    end.push("--force-unfenced");
    let broken = place.ran(&end);
    assert_eq!(broken.code, Some(0), "{broken:?}");
    assert_eq!(broken.lines()[0]["broken"]["label"], "first");
    assert_eq!(broken.lines()[0]["fenced"], false);
    let nobody = place.ran(&end);
    assert_eq!((nobody.code, &nobody.lines()[0]["broken"]), (Some(3), &json!(null)));
    end.retain(|arg| *arg != "--json");
    let nobody = place.ran(&end);
    assert_eq!((nobody.code, &*nobody.out), (Some(3), "nobody held it\n"));

    assert_eq!(run.ended().code, Some(123));
    place.is_clean();
}

#[test]
fn leases_are_asked_of_one_place_and_who_names_none_is_told_of_both() {
    let place = Place::new();
    let url = place.server.url();
    let service = "http://127.0.0.1:1";

    let both = place.ran(&["leases", "list", "--url", service, "--redis", &url]);
    assert_eq!((both.code, both.err.contains("error[usage]")), (Some(2), true), "{both:?}");
    let mut around = place.command(&["leases", "list", "--redis", &url]);
    let around = around.env("FIELDLEASE_URL", service).output().unwrap();
    assert_eq!(around.status.code(), Some(0), "what is named goes before the environment");
    let mut neither = place.command(&["leases", "list"]);
    let neither = neither.env_remove("FIELDLEASE_REDIS").output().unwrap();
    let said = String::from_utf8(neither.stderr).unwrap();
    assert!(said.contains("--url") && said.contains("--redis"), "{said}");
}

#[test]
fn a_wrong_command_line_names_the_arguments_and_leaves_standard_output_to_the_command() {
    let place = Place::new();

    let missing = place.ran(&["leases", "break", "Job/a", "main", "--json"]);
    let message = missing.lines()[0]["message"].as_str().unwrap().to_owned();
    assert_eq!((missing.code, message.contains("--reason")), (Some(2), true), "{message}");
    for args in [&["run", "--json", "Job/a"][..], &["--json", "run", "Job/a", "--nothing"]] {
        let ran = place.ran(args);
        assert_eq!((ran.code, &*ran.out), (Some(2), ""), "{args:?}");
        assert_eq!(ran.step("failed")["error"], "usage", "{args:?}");
    }
}

#[test]
fn a_password_is_in_nothing_that_is_printed() {
    let place = Place::new();
    let secret = "redis://:s3cret@127.0.0.1:1";
    let commands: [&[&str]; 6] = [
        &["leases", "list"],
        &["run", "Job/a", "main", "--", "true"],
        &["run", "--help"],
        &["bench", "leases", "--seconds", "0.1"],
        &["race", "--saves", "1", "--leases", secret],
        &["serve", "--leases", secret],
    ];

    for args in commands {
        for json in [&[][..], &["--json"]] {
            let mut command = place.command(&[json, args].concat());
            let ran = command.env("FIELDLEASE_REDIS", secret).output().unwrap();
            let said = String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap();
            assert!(!said.contains("s3cret"), "{args:?}: {said}");
            let expected = if args.contains(&"--help") { 0 } else { 8 };
            assert_eq!(ran.status.code(), Some(expected), "{args:?}: {said}");
        }
    }
}

#[test]
fn a_race_over_redis_is_judged_as_one_in_memory_and_leaves_nothing() {
    let place = Place::new();

    let url = place.server.url();
    let ran = place.ran(&["race", "--leases", &url, "--saves", "200", "--records", "2", "--json"]);

    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.lines()[0]["engine"]["lost_updates"], 0);
    assert!(place.server.commandstats().contains_key("set"), "no lease was asked for");
    place.is_clean();
}

#[test]
fn benchmarks_print_the_line_all_lock_benchmarks_print() {
    let place = Place::new();
    let bench = |more: &[&str]| {
        let ran = place.ran(&[&["bench", "leases"], more].concat());
        assert_eq!((ran.code, ran.lines().len()), (Some(0), 1), "{more:?}: {ran:?}");
        (ran.lines().remove(0), ran.out)
    };

    for (more, peer, mode, tasks) in [
        (&["--tasks", "4", "--seconds", "0.2"][..], "fieldlease", "own-key", 4),
        (&["--mode", "one-key", "--tasks", "8", "--seconds", "0.2"], "fieldlease", "one-key", 8),
        (&["--peer", "bare", "--tasks", "2", "--seconds", "0.2"], "bare", "own-key", 2),
    ] {
        let (line, text) = bench(more);
        let begin = format!("{{\"peer\":\"{peer}\",\"mode\":\"{mode}\",\"concurrency\":{tasks},");
        assert!(text.starts_with(&begin), "{text}");
        assert!(line["cycles_per_s"].as_u64().unwrap() > 0, "{line}");
        assert!(line["p50_us"].as_u64().unwrap() <= line["p99_us"].as_u64().unwrap(), "{line}");
        assert_eq!(line.as_object().unwrap().len(), 6, "{line}");
    }
    let (held, _) = bench(&["--held", "50", "--ttl-ms", "1000", "--seconds", "2"]);
    assert_eq!((&held["held"], &held["lost"]), (&json!(50), &json!(0)));
    assert!(held["renewed"].as_u64().unwrap() >= 50, "{held}");
    assert!(held["bytes_of_one_key"].as_u64().is_some(), "{held}");
    let no_floor = place.ran(&["bench", "leases", "--peer", "bare", "--mode", "one-key"]);
    assert_eq!(no_floor.code, Some(7));
    place.is_clean();
}
