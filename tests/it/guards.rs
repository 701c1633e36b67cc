//! Version guards over HTTP, and what is left of them when a worker is killed.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::{Value as Json, json};

use crate::service::{Service, request};

const GUARDS: &str = "/v1/version-guards";
/// Names the service for the worker that is to be killed.
const ADDRESS: &str = "FIELDLEASE_TEST_GUARD_SERVICE";

fn product() -> Json {
    json!({"type": "Product", "id": "1"})
}

fn open(service: &Service, token: &str) -> String {
    let opened = service.post(token, GUARDS, json!({"entity": product()}));
    assert_eq!(opened.status, 201, "{opened:?}");
    opened.text("id")
}

fn look(service: &Service, token: &str, id: &str) -> (Json, Json) {
    let answer = service.get(token, &format!("{GUARDS}/{id}"));
    assert_eq!(answer.status, 200, "{answer:?}");
    (answer.body["makes_version"].clone(), answer.body["known"].clone())
}

#[test]
fn a_hook_learns_what_the_save_of_an_id_is() {
    let service = Service::start();

    let opened = service.post("thumbs", GUARDS, json!({"entity": product(), "ttl_ms": 60_000}));
    assert_eq!(opened.status, 201);
    assert_eq!(opened.body["makes_version"], json!(false));
    assert_eq!(opened.body["expires_in_ms"], json!(60_000));
    let worker = opened.text("id");
    let editor = open(&service, "anna");

    assert_ne!(worker, editor);
    // An editor saves the same record at the same time: another id, another answer.
    assert_eq!(look(&service, "ben", &worker), (json!(false), json!(true)));
    assert_eq!(look(&service, "ben", &editor), (json!(true), json!(true)));
    let route = format!("{GUARDS}/{worker}");
    let closed = service.call("thumbs", "DELETE", &route, None);
    assert_eq!((closed.status, &closed.body), (200, &json!({"closed": true})));
    assert_eq!(look(&service, "ben", &worker), (json!(true), json!(false)));
    assert_eq!(service.call("thumbs", "DELETE", &route, None).code(), "guard_unknown");
    let keep = service.post("thumbs", &format!("{route}/keep"), json!({}));
    assert_eq!(keep.code(), "guard_unknown", "keeping puts nothing up");
}

#[test]
fn what_is_no_id_of_a_guard_makes_a_version() {
    let service = Service::start();
    let id = open(&service, "thumbs");
    let short = id.split_at(31).0;
    let cases = [
        "00000000000000000000000000000000",
        "x",
        "%00",
        "%ff",
        "%2e%2e",
        short,
        &format!("{id}0"),
        &format!("{short}g"),
    ];

    for case in cases {
        assert_eq!(look(&service, "probe", case), (json!(true), json!(false)), "{case}");
        for (method, route) in [("DELETE", ""), ("POST", "/keep")] {
            let answer = service.call("thumbs", method, &format!("{GUARDS}/{case}{route}"), None);
            assert_eq!(answer.code(), "guard_unknown", "{method} {case}");
        }
    }
    assert_eq!(look(&service, "probe", &id), (json!(false), json!(true)), "any token may ask");
    assert_eq!(look(&service, "probe", &id.to_uppercase()), (json!(false), json!(true)));
}

#[test]
fn only_the_writer_that_opened_a_guard_keeps_and_closes_it() {
    let service = Service::start();
    let id = open(&service, "thumbs");

    for token in ["thumbs2", "anna", "boss", "probe"] {
        for (method, route) in [("DELETE", ""), ("POST", "/keep")] {
            let answer = service.call(token, method, &format!("{GUARDS}/{id}{route}"), None);
            assert_eq!(answer.code(), "forbidden", "{token} {method}");
        }
    }
    assert_eq!(look(&service, "anna", &id), (json!(false), json!(true)));

    // Another token of the same writer.
    let kept = service.post("thumbs-new", &format!("{GUARDS}/{id}/keep"), json!({"ttl_ms": 5_000}));
    assert_eq!((kept.status, &kept.body), (200, &json!({"expires_in_ms": 5_000})));
    assert_eq!(service.call("thumbs-new", "DELETE", &format!("{GUARDS}/{id}"), None).status, 200);
}

#[test]
fn a_guard_is_opened_for_known_types_and_times_only() {
    let service = Service::start();
    let cases = [
        ("thumbs", json!({"entity": product(), "ttl_ms": 99}), "bad_body"),
        ("thumbs", json!({"entity": product(), "ttl_ms": 3_600_001}), "bad_body"),
        ("thumbs", json!({"entity": product(), "ttl_ms": -1}), "bad_body"),
        ("thumbs", json!({"entity": product(), "kind": "editor"}), "bad_body"),
        ("thumbs", json!({}), "bad_body"),
        ("thumbs", json!({"entity": {"type": "Nothing", "id": "1"}}), "unknown_type"),
        ("orders", json!({"entity": product()}), "forbidden"),
    ];

    for (token, body, code) in cases {
        assert_eq!(service.post(token, GUARDS, body.clone()).code(), code, "{body}");
    }
}

/// Not a test by itself: the worker that the test below kills.
#[test]
fn a_worker_that_keeps_its_guard_until_it_is_killed() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    let call = |route: &str, body: Json| {
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        let text = request("thumbs", "POST", route, &[], Some(body));
        stream.write_all(text.as_bytes()).unwrap();
        crate::service::read_answer(&mut stream).unwrap()
    };
    let id = call(GUARDS, json!({"entity": product(), "ttl_ms": 500})).text("id");
    writeln!(std::io::stderr(), "guard {id}").unwrap();
    loop {
        let kept = call(&format!("{GUARDS}/{id}/keep"), json!({"ttl_ms": 500}));
        assert_eq!(kept.status, 200);
        pause(50);
    }
}

#[test]
fn a_killed_worker_does_not_leave_versioning_off() {
    let service = Service::start();
    let mut worker = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "guards::a_worker_that_keeps_its_guard_until_it_is_killed"])
        .arg("--nocapture")
        .env(ADDRESS, service.address.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(worker.stderr.take().unwrap());
    let mut lines = said.lines().map(Result::unwrap);
    let id = lines.find_map(|line| line.strip_prefix("guard ").map(str::to_owned)).unwrap();
    for _ in 0..20 {
        assert_eq!(look(&service, "anna", &id), (json!(false), json!(true)), "kept while it lives");
        pause(50);
    }

    worker.kill().unwrap();
    worker.wait().unwrap();

    let mut looks = 0;
    while look(&service, "anna", &id) == (json!(false), json!(true)) {
        looks += 1;
        assert!(looks < 600, "still up long after its time");
        pause(50);
    }
    assert_eq!(look(&service, "anna", &id), (json!(true), json!(false)));
}

#[expect(clippy::disallowed_methods, reason = "another process runs in real time")]
fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}
