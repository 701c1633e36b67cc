//! The command line, against golden files. `GOLDEN=write` writes them anew.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Stdio,
};

use serde_json::{Value as Json, json};

use crate::service::{REGISTRY, Service, binary};

struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Ran {
    fn lines(&self) -> Vec<Json> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn run_in(dir: &Path, args: &[&str], input: &str) -> Ran {
    let mut command = binary(dir);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A command that does not read its input may have closed it.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let ended = child.wait_with_output().unwrap();
    Ran {
        code: ended.status.code().unwrap(),
        out: String::from_utf8(ended.stdout).unwrap(),
        err: String::from_utf8(ended.stderr).unwrap(),
    }
}

/// Runs where the golden files are, so that paths in the output are the same everywhere.
fn run(args: &[&str], input: &str) -> Ran {
    run_in(&data("cli"), args, input)
}

#[test]
fn what_a_person_reads_is_as_in_the_golden_files() {
    let plan = r#"{"entity": "Product/1", "writer": {"kind": "editor", "name": "anna"},
        "record": {"name": "Stool", "price": 6, "thumbnail": "a.webp"},
        "saved_by": {"price": {"kind": "worker", "name": "erp"}},
        "changes": {"name": "Oak stool", "price": 7, "thumbnail": "mine.webp"}, "base": {"price": 5}}"#;
    let cases: &[(&str, &[&str], &str)] = &[
        ("help", &["--help"], ""),
        ("check-good", &["check", "registry.yaml"], ""),
        ("check-faulty", &["check", "faulty.yaml"], ""),
        ("check-faulty-json", &["check", "faulty.yaml", "--json"], ""),
        (
            "check-stdin",
            &["check", "-"],
            "field_ownership: {A: {editor_owned: [a], system_owned: [a]}}",
        ),
        ("check-missing", &["check", "missing.yaml"], ""),
        ("explain", &["explain", "registry.yaml", "Product", "stock"], ""),
        ("explain-denied", &["explain", "registry.yaml", "Product", "weight"], ""),
        ("explain-unknown", &["explain", "registry.yaml", "Produkt", "weight"], ""),
        ("diff", &["diff", "registry.yaml", "changed.yaml"], ""),
        ("diff-same", &["diff", "registry.yaml", "registry.yaml"], ""),
        ("plan", &["plan", "-", "--registry", "registry.yaml"], plan),
        (
            "merge",
            &["merge", "--strategy", "set_merge"],
            "{\"base\":[1],\"ours\":[1,2],\"theirs\":[1,3]}",
        ),
        ("merge-unknown", &["merge", "--strategy", "sum"], ""),
        ("history-nowhere", &["history", "Product/1"], ""),
        ("leases-no-token", &["leases", "list", "--url", "http://127.0.0.1:1"], ""),
    ];
    let bless = std::env::var("GOLDEN").as_deref() == Ok("write");

    for (name, args, input) in cases {
        let ran = run(args, input);
        let found = format!("{}{}exit {}\n", ran.out, ran.err, ran.code);
        assert!(!found.contains('\u{1b}'), "{name}: colours outside a terminal");
        let file = data("cli").join(format!("{name}.txt"));
        if bless {
            fs::write(&file, &found).unwrap();
        }
        let expected = fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn merge_answers_each_line_and_names_the_bad_ones() {
    let input = [
        r#"{"base":[1],"ours":[1,2],"theirs":[1,3]}"#,
        r#"{"base":1,"ours":null,"theirs":1}"#,
        r#"{"base":1,"theirs":1}"#,
        "not json",
        r#"{"base":1,"base":2}"#,
        r#"{"ours":1,"our_writer":{"kind":"admin","name":"x"}}"#,
        "",
        r#"{"base":1,"ours":2,"theirs":3,"our_writer":{"kind":"editor","name":"anna"}}"#,
    ]
    .join("\n");

    let ran = run(&["merge", "--strategy", "reject"], &input);

    let expected = [
        json!({"conflict": [""]}),
        json!({"merged": null}),
        json!({"absent": true}),
        json!({"error": "not_json", "line": 4}),
        json!({"error": "duplicate_name", "line": 5}),
        json!({"error": "bad_line", "line": 6}),
        json!({"conflict": [""]}),
    ];
    let mut found = ran.lines();
    for line in &mut found {
        if let Some(message) = line.as_object_mut().unwrap().remove("message") {
            assert!(message.as_str().unwrap().starts_with("line "), "{message}");
        }
    }
    assert_eq!(found, expected);
    assert_eq!(ran.code, 1);
    let merged = run(
        &["merge", "--strategy", "counter", "--option", "min=0"],
        "{\"base\":5,\"ours\":2,\"theirs\":4}\n{\"base\":5,\"ours\":6,\"theirs\":4}\n",
    );
    assert_eq!(merged.lines(), [json!({"merged": 1}), json!({"merged": 5})]);
    assert_eq!(merged.code, 0);
    assert_eq!(run(&["merge", "--strategy", "counter", "--option", "mni=0"], "").code, 7);
}

#[test]
fn merge_takes_objects_only_and_every_option_once() {
    let input = "[1,2,3,null,null]\n\"x\"\n[]\n";

    let lists = run(&["merge", "--strategy", "last_write_wins"], input);

    let codes: Vec<Json> = lists.lines().iter().map(|line| line["error"].clone()).collect();
    assert_eq!(codes, ["bad_line", "bad_line", "bad_line"]);
    assert!(lists.out.contains("a line is an object"), "{}", lists.out);
    assert!(!lists.out.contains("struct"), "{}", lists.out);
    assert_eq!(lists.code, 1);
    let twice = ["merge", "--strategy", "counter", "--option", "min=0", "--option", "min=1"];
    let twice = run(&twice, "");
    assert_eq!(twice.code, 7);
    assert!(twice.err.contains("`min` is given twice"), "{}", twice.err);
    let later = run(&["merge", "--strategy", "priority", "--json"], "{}\n");
    assert_eq!(later.code, 9);
    assert_eq!(later.lines()[0]["error"], "not_yet");
}

#[test]
fn merge_reads_a_line_that_never_ends_without_taking_it_all() {
    let long = format!("\"{}\"\n{{\"base\":1,\"ours\":2,\"theirs\":1}}\n", "x".repeat(3 << 20));

    let ran = run(&["merge", "--strategy", "reject"], &long);

    assert_eq!(ran.lines().len(), 2);
    assert_eq!(ran.lines()[0]["error"], "too_large");
    assert_eq!(ran.lines()[1], json!({"merged": 2}));
    assert_eq!(ran.code, 1);
}

/// The same table that the resolver is tested with, through the command.
#[test]
fn explain_answers_the_table_of_paths() {
    let table = fs::read_to_string(data("grammar/cases.jsonl")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut cases = 0;

    for line in table.lines().filter(|line| !line.trim().is_empty()) {
        let case: Json = serde_json::from_str(line).unwrap();
        let mut entities = case.get("others").cloned().unwrap_or_else(|| json!({}));
        entities["P"] = case["entity"].clone();
        // JSON is YAML.
        let registry = json!({"field_ownership": entities}).to_string();
        fs::write(dir.path().join("registry.yaml"), registry).unwrap();
        let path = case["path"].as_str().unwrap();
        let ran = run_in(dir.path(), &["explain", "registry.yaml", "P", "--json", "--", path], "");

        let answer: Json = serde_json::from_str(&ran.out).unwrap();
        let expected = case["expected"].as_object().unwrap();
        for (name, value) in expected {
            assert_eq!(answer.get(name), Some(value), "{line}: {answer}");
        }
        let failed = expected.contains_key("error");
        assert_eq!(ran.code != 0, failed, "{line}");
        let members: Vec<&String> = answer.as_object().unwrap().keys().collect();
        let known: &[&str] = match failed {
            true => &["error"],
            false => &["group", "owner", "pattern", "scope", "strategy", "unit"],
        };
        assert_eq!(members, known);
        cases += 1;
    }
    assert!(cases >= 50, "{cases}");
}

#[test]
fn warnings_alone_do_not_fail_a_check() {
    let warned = run(&["check", "-", "--json"], "field_ownership: {A: {shared: [a]}}");

    assert!(warned.lines().iter().all(|line| line["level"] == "warning"), "{}", warned.out);
    assert!(!warned.lines().is_empty());
    assert_eq!(warned.code, 0);
}

#[test]
fn the_schema_is_json_and_knows_the_sections() {
    let ran = run(&["schema", "--json"], "");

    let schema: Json = serde_json::from_str(&ran.out).unwrap();
    assert!(schema.to_string().contains("system_owned"));
    assert_eq!(ran.code, 0);
}

#[test]
fn history_and_blame_say_the_same_from_the_service_and_from_the_file() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));
    let save = "/v1/entities/Product/1/save";
    service.post("any", save, json!({"changes": {"cost": 3}, "job": "import"}));
    service.post("any", save, json!({"changes": {"width": 3}}));
    let (url, store) = (service.url(), service.store());
    fs::write(service.dir.path().join("token"), "anna\n").unwrap();
    let there = ["--url", &url, "--token-file", "token"];
    let here = ["--store", store.to_str().unwrap()];

    for command in ["history", "blame"] {
        let mut said = Vec::new();
        for source in [&there[..], &here[..]] {
            let args = [&[command, "Product/1", "--json"], source].concat();
            let ran = run_in(service.dir.path(), &args, "");
            assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
            said.push(ran.lines());
        }
        assert_eq!(said[0], said[1], "{command}");
        assert!(!said[0].is_empty());
    }
    let both = [&["history", "Product/1", "--json"], &there[..], &here[..]].concat();
    let both = run_in(service.dir.path(), &both, "");
    assert_eq!(
        (both.code, both.lines().is_empty()),
        (0, false),
        "a file named is read: {}",
        both.err
    );
    let text =
        run_in(service.dir.path(), &[&["history", "Product/1"], &there[..]].concat(), "").out;
    assert!(text.contains("2 system updates (any 2)") && text.contains("create"), "{text}");
    let text =
        run_in(service.dir.path(), &[&["blame", "Product/1", "cost"], &there[..]].concat(), "");
    assert!(text.out.starts_with("cost\n        worker"), "{}", text.out);
    let none = run_in(service.dir.path(), &["history", "Product/1", "--store", "none.db"], "");
    assert_eq!(none.code, 3);
    assert!(!service.dir.path().join("none.db").exists());
}

#[test]
fn leases_are_shown_and_broken_and_refusals_have_their_exit() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));
    let ask = json!({"entity": {"type": "Product", "id": "1"}, "groups": ["media"]});
    service.post("thumbs", "/v1/leases", ask);
    let dir = service.dir.path();
    let run = |token: &str, args: &[&str]| {
        fs::write(dir.join("token"), token).unwrap();
        let url = service.url();
        run_in(dir, &[args, &["--url", &url, "--token-file", "token"]].concat(), "")
    };

    let shown = run("anna", &["leases", "show", "Product/1"]);
    assert!(shown.out.contains("media") && shown.out.contains("thumbs"), "{}", shown.out);
    let listed = run("anna", &["leases", "list", "--json"]);
    assert_eq!(listed.lines()[0]["scope"], "media");
    let end = ["leases", "break", "Product/1", "media", "--reason", "hangs"];
    assert_eq!(run("anna", &end).code, 4);
    assert_eq!(run("wrong", &end).code, 4);
    assert_eq!(run("boss", &end).code, 0);
    assert_eq!(run("anna", &["leases", "show", "Product/1"]).out, "no leases are held\n");
    let plan = r#"{"entity": "Product/1", "changes": {"thumbnail": 1}}"#;
    fs::write(dir.join("plan.json"), plan).unwrap();
    let denied = run("anna", &["plan", "plan.json", "--json"]);
    assert_eq!(denied.code, 4, "{}", denied.out);
    let url = ["leases", "list", "--url", "http://127.0.0.1:1", "--token-file", "token"];
    assert_eq!(run_in(dir, &url, "").code, 8);
}

/// Whatever goes wrong, a program gets one line of JSON with a code, and the exit that belongs to it.
#[test]
fn every_failure_is_json_for_those_who_asked_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let good = "a-token-of-somebody";
    for (name, text) in [("token", good), ("empty", ""), ("binary", "\u{e9}"), ("two", "a b")] {
        fs::write(dir.path().join(name), text).unwrap();
    }
    let dead = "http://127.0.0.1:1";
    let cases: &[(&[&str], i32, &str)] = &[
        (&["leases", "list", "--url", dead, "--token-file", "token"], 8, "unavailable"),
        (&["history", "Product/1", "--url", dead, "--token-file", "token"], 8, "unavailable"),
        (&["leases", "list", "--url", dead, "--token-file", "none"], 3, "no_such_file"),
        (&["leases", "list", "--url", dead, "--token-file", "."], 8, "unreadable"),
        (&["leases", "list", "--url", dead, "--token-file", "empty"], 7, "no_token"),
        (&["leases", "list", "--url", dead, "--token-file", "binary"], 7, "bad_token"),
        (&["leases", "list", "--url", dead, "--token-file", "two"], 7, "bad_token"),
        (&["leases", "list", "--url", dead], 7, "no_token"),
        (&["leases", "list", "--url", "127.0.0.1:1", "--token-file", "token"], 7, "bad_url"),
        (&["leases", "list", "--url", "https://x", "--token-file", "token"], 7, "bad_url"),
        (&["leases", "list", "--url", "http://a:b@x", "--token-file", "token"], 7, "bad_url"),
        (&["leases", "list", "--token-file", "token"], 7, "no_service"),
        (&["history", "Product", "--url", dead, "--token-file", "token"], 7, "bad_name"),
        (
            &["history", "Product/1", "--before", "x", "--url", dead, "--token-file", "token"],
            7,
            "bad_operation",
        ),
        (
            &["blame", "Product/1", "a..b", "--url", dead, "--token-file", "token"],
            7,
            "empty_segment",
        ),
        (&["history", "Product/1", "--limit", "0"], 2, "usage"),
        (&["history"], 2, "usage"),
        (&["histroy"], 2, "usage"),
        (&["leases", "break", "Product/1", "media"], 2, "usage"),
        (&["check", "none.yaml"], 3, "no_such_file"),
        (&["plan", "none.json"], 3, "no_such_file"),
    ];

    for (args, code, error) in cases {
        let ran = run_in(dir.path(), &[args, &["--json"][..]].concat(), "");
        assert_eq!(ran.code, *code, "{args:?}: {}{}", ran.out, ran.err);
        assert_eq!(ran.lines().len(), 1, "{args:?}: {}", ran.out);
        assert_eq!(ran.lines()[0]["error"], *error, "{args:?}: {}", ran.out);
        assert_eq!(ran.err, "", "{args:?}");
        assert!(!ran.out.contains(good), "{args:?}: {}", ran.out);
        let text = run_in(dir.path(), args, "");
        assert_eq!((text.code, &*text.out), (*code, ""), "{args:?}");
        assert!(text.err.starts_with("error"), "{args:?}: {}", text.err);
    }
    let help = run_in(dir.path(), &["history", "--help", "--json"], "");
    assert!(help.code == 0 && help.out.contains("Examples:"), "{}", help.out);
}

/// A wrong port may lead to anything that speaks HTTP: none of it is an empty history.
#[test]
fn an_answer_of_some_other_server_is_no_answer() {
    let answers = [
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n<xml>",
        "HTTP/1.1 200 OK\r\ncontent-length: 14\r\n\r\n{\"entries\": 1}",
        "HTTP/1.1 502 Bad Gateway\r\ncontent-length: 14\r\n\r\n{\"error\": \"x\"}",
        "HTTP/1.1 301 Moved\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 204 No Content\r\n\r\n",
        "SSH-2.0-OpenSSH_9.9\r\n",
        "",
    ];
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("token"), "x").unwrap();

    for answer in answers {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = [0; 4_096];
            let _ = std::io::Read::read(&mut stream, &mut head);
            let _ = stream.write_all(answer.as_bytes());
        });
        let args = ["history", "Product/1", "--json", "--url", &url, "--token-file", "token"];
        let ran = run_in(dir.path(), &args, "");
        server.join().unwrap();
        assert_eq!(ran.code, 8, "{answer}: {}{}", ran.out, ran.err);
        assert_eq!(ran.lines()[0]["error"], "unavailable", "{answer}");
    }
}

#[test]
fn a_token_never_travels_through_a_proxy() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));
    fs::write(service.dir.path().join("token"), "anna").unwrap();
    let mut command = binary(service.dir.path());
    for name in ["http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"] {
        command.env(name, "http://127.0.0.1:1");
    }
    let url = service.url();
    command.args(["history", "Product/1", "--url", &url, "--token-file", "token"]);

    let ended = command.output().unwrap();

    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn a_record_that_never_was_is_not_found_by_service_and_file() {
    let service = Service::start();
    let (url, store) = (service.url(), service.store());
    fs::write(service.dir.path().join("token"), "anna").unwrap();

    for source in
        [&["--url", &*url, "--token-file", "token"][..], &["--store", store.to_str().unwrap()]]
    {
        for command in [
            &["history", "Product/9"][..],
            &["blame", "Product/9"],
            &["blame", "Product/9", "name"],
        ] {
            let ran = run_in(service.dir.path(), &[command, source, &["--json"]].concat(), "");
            assert_eq!(
                (ran.code, &ran.lines()[0]["error"]),
                (3, &json!("not_found")),
                "{}",
                ran.out
            );
        }
    }
    fs::write(service.dir.path().join("token"), "wrong").unwrap();
    let args = ["history", "Product/9", "--json", "--url", &url, "--token-file", "token"];
    let ran = run_in(service.dir.path(), &args, "");
    assert_eq!((ran.code, &ran.lines()[0]["code"]), (4, &json!("unauthorized")));
}

#[test]
fn a_reader_that_stops_early_is_no_fault() {
    let mut command = binary(&data("cli"));
    command.args(["schema"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());

    let ended = child.wait_with_output().unwrap();

    assert!(ended.status.success());
    assert!(ended.stderr.is_empty());
}

#[test]
fn a_faulty_registry_fails_the_check_though_nobody_reads_the_faults() {
    let mut command = binary(&data("cli"));
    command.args(["check", "faulty.yaml", "--json"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());

    let ended = child.wait_with_output().unwrap();

    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.is_empty());
}

#[test]
fn the_registry_of_these_tests_is_the_one_of_the_service() {
    assert_eq!(fs::read_to_string(data("cli/registry.yaml")).unwrap(), REGISTRY);
}

#[test]
fn every_exit_status_and_setting_is_in_the_book() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap();
    let (cli, http, settings) =
        (read("docs/cli.md"), read("docs/http.md"), read("docs/settings.md"));

    let help = run(&["--help"], "").out;
    let exits = help.split("Exit codes:\n").nth(1).unwrap();
    for line in exits.lines().filter(|line| !line.is_empty()) {
        let (number, rest) = line.trim().split_once("  ").unwrap();
        let (name, meaning) = rest.split_once(' ').unwrap();
        let row = format!("| {number} | `{name}` | {} |", meaning.trim());
        assert!(cli.contains(&row), "{row}");
    }
    for (code, status, _) in fieldlease::server::problem::STATUSES {
        let row =
            http.lines().find(|line| line.contains(&format!("`{code}`")) && line.starts_with("| "));
        let listed = row.is_some_and(|row| row.contains(&status.to_string()));
        assert!(listed || *code == "invalid", "{code} {status}");
    }
    for word in read("src/config.rs").split('"').filter(|word| word.starts_with("FIELDLEASE_")) {
        assert!(settings.contains(&format!("`{word}`")), "{word}");
    }
}
