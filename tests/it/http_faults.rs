//! Faults around the service: stops, clients that go away, no descriptors, no store, no port.

use std::{
    io::{Read, Write},
    net::TcpListener,
    path::Path,
    process::Command,
};

use serde_json::json;

use crate::service::{REGISTRY, Service, binary, read_answer, refused, signal};

const PRODUCT: &str = "/v1/entities/Product/1";
const SAVE: &str = "/v1/entities/Product/1/save";

/// A request whose head is in its handler and whose body is still to come.
fn in_flight(service: &Service, body: &str) -> std::net::TcpStream {
    let mut stream = service.connect();
    let head = format!(
        "POST {SAVE} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer any\r\n\
         content-type: application/json\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut asked = [0; 25];
    stream.read_exact(&mut asked).unwrap();
    assert!(asked.starts_with(b"HTTP/1.1 100"));
    stream
}

#[test]
fn a_request_in_flight_at_a_stop_is_answered_and_no_new_one_is_taken() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));
    let body = r#"{"add": {"stock": 1}}"#;
    let mut stream = in_flight(&service, body);

    signal(service.pid(), "TERM");
    let address = service.address;
    // Each try is a connection; the listener is closed as soon as the signal is heard.
    let closed = (0..100_000).any(|_| std::net::TcpStream::connect(address).is_err());
    assert!(closed, "{}", service.log());
    stream.write_all(body.as_bytes()).unwrap();
    let answer = read_answer(&mut stream).unwrap();

    assert_eq!(answer.status, 200, "{answer:?}");
    let (well, dir) = service.ended();
    assert!(well);
    let service = Service::start_in(dir, &[]);
    assert_eq!(service.get("any", PRODUCT).body["fields"]["stock"], 1);
}

#[test]
fn a_request_that_never_ends_does_not_hold_up_a_stop_longer_than_the_grace() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Service::command(dir.path());
    command.env("FIELDLEASE_GRACE_S", "0").env("FIELDLEASE_BODY_TIME_MS", "600000");
    let service = Service::spawn(dir, command);
    service.product("1", json!({"name": "Stool"}));
    let mut stream = in_flight(&service, r#"{"add": {"stock": 1}}"#);

    let (well, dir) = service.stop();

    assert!(well);
    assert!(read_answer(&mut stream).is_none());
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
    assert!(log.contains("\"cut\":") && !log.contains("\"cut\":0"), "{log}");
}

/// Told where it listens, a client may stop it: no moment after that is too early.
#[test]
fn a_stop_right_after_the_start_is_as_gentle_as_any() {
    for _ in 0..10 {
        let (well, dir) = Service::start().stop();
        assert!(well, "{}", std::fs::read_to_string(dir.path().join("log")).unwrap());
    }
}

#[test]
fn a_start_that_fails_leaves_the_rules_in_force_alone() {
    let (_, dir) = Service::start().stop();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let changed = REGISTRY.replace("[name, description]", "[name]");
    std::fs::write(dir.path().join("registry.yaml"), changed).unwrap();

    let mut command = Service::command(dir.path());
    command.args(["--listen", &address]);
    let (code, said) = refused(command);

    assert_eq!((code, &said["error"]), (Some(8), &json!("unavailable")));
    assert!(said["message"].as_str().unwrap().contains(&address), "{said}");
    let service = Service::start_in(dir, &[]);
    assert!(service.log().contains("description: owner editor -> deny"), "{}", service.log());
}

#[test]
fn settings_that_cannot_be_used_are_refused_by_name() {
    let start = |change: &dyn Fn(&mut Command, &Path)| {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Service::command(dir.path());
        change(&mut command, dir.path());
        let (code, said) = refused(command);
        (code, said["error"].as_str().unwrap().to_owned(), said["message"].to_string())
    };

    let (code, error, message) = start(&|command, _| {
        use std::os::unix::ffi::OsStrExt;
        let secret = std::ffi::OsStr::from_bytes(b"canary-secret-\xff-123");
        command.env("FIELDLEASE_TOKEN_SECRET", secret);
    });
    assert_eq!((code, &*error), (Some(7), "settings"));
    assert!(message.contains("FIELDLEASE_TOKEN_SECRET") && !message.contains("canary"));
    let (code, error, _) = start(&|command, dir| {
        command.arg("--tokens").arg(dir.join("none.yaml"));
    });
    assert_eq!((code, &*error), (Some(7), "token_file"));
    let (code, error, _) = start(&|command, dir| {
        command.arg("--registry").arg(dir.join("none.yaml"));
    });
    assert_eq!((code, &*error), (Some(3), "no_such_file"));
    let (code, error, _) = start(&|command, dir| {
        command.arg("--audit").arg(dir);
    });
    assert_eq!((code, &*error), (Some(7), "audit_file"));
    let (code, error, message) = start(&|command, dir| {
        std::fs::write(dir.join("registry.yaml"), "field_ownership: {A: {editor_owned: [a, a]}}")
            .unwrap();
        command.current_dir(dir);
    });
    assert_eq!((code, &*error), (Some(1), "registry_faulty"), "{message}");
    let (code, error, _) = start(&|command, _| {
        command.arg("--listen").arg("127.0.0.1");
    });
    assert_eq!((code, &*error), (Some(2), "usage"));
}

#[test]
fn a_first_start_that_finds_an_empty_token_does_not_let_everybody_in() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("data")).unwrap();
    std::fs::write(dir.path().join("data/editor.token"), "").unwrap();
    let mut command = binary(dir.path());
    command.args(["serve", "--json", "--listen", "127.0.0.1:0"]);

    let (code, said) = refused(command);

    assert_eq!((code, &said["error"]), (Some(7), &json!("token_file")));
}

#[test]
fn a_token_file_that_is_gone_lets_nobody_in_and_a_broken_one_changes_nothing() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));
    let file = service.dir.path().join("tokens.yaml");
    let text = std::fs::read_to_string(&file).unwrap();

    std::fs::write(&file, "tokens: [").unwrap();
    assert_eq!(service.get("anna", PRODUCT).status, 200);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(service.get("anna", PRODUCT).code(), "unauthorized");
    assert_eq!(service.get("", "/healthz").status, 200);
    std::fs::write(&file, text).unwrap();
    assert_eq!(service.get("anna", PRODUCT).status, 200);
    let log = service.log();
    assert!(log.contains("stay in force") && log.contains("no token is good"), "{log}");
}

#[test]
fn a_stop_during_saves_loses_no_acknowledged_one() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));
    let pid = service.pid();

    let acknowledged = std::thread::scope(|scope| {
        let savers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut operations = Vec::new();
                    for round in 0..1_000 {
                        let body = json!({"add": {"stock": 1}}).to_string();
                        let head = format!(
                            "POST {SAVE} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
                             authorization: Bearer any\r\ncontent-type: application/json\r\n\
                             content-length: {}\r\n\r\n{body}",
                            body.len()
                        );
                        let Ok(mut stream) = std::net::TcpStream::connect(service.address) else {
                            break;
                        };
                        if stream.write_all(head.as_bytes()).is_err() {
                            break;
                        }
                        match read_answer(&mut stream) {
                            Some(answer) if answer.status == 200 => {
                                operations.push(answer.text("operation"));
                            }
                            Some(answer) => assert_eq!(answer.status, 503, "{answer:?}"),
                            None => break,
                        }
                        if round == 20 {
                            signal(pid, "TERM");
                        }
                    }
                    operations
                })
            })
            .collect();
        savers.into_iter().flat_map(|saver| saver.join().unwrap()).collect::<Vec<_>>()
    });
    let (well, dir) = service.stop();
    assert!(well);
    let service = Service::start_in(dir, &[]);

    assert!(acknowledged.len() >= 21);
    let stock = service.get("any", PRODUCT).body["fields"]["stock"].as_u64().unwrap();
    let mut kept = std::collections::BTreeSet::new();
    let mut before = String::new();
    loop {
        let page = service.get("any", &format!("{PRODUCT}/history?limit=200{before}"));
        for entry in page.body["entries"].as_array().unwrap() {
            kept.insert(entry["operation"].as_str().unwrap().to_owned());
        }
        let Some(next) = page.body["next"].as_str() else { break };
        before = format!("&before={next}");
    }
    assert!(acknowledged.iter().all(|operation| kept.contains(operation)));
    assert_eq!(u64::try_from(kept.len()).unwrap() - 1, stock, "one record per increment");
}

#[test]
fn a_client_that_goes_away_leaves_no_half_save() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));
    let body = json!({"changes": {"thumbnail": "x", "width": 1}, "add": {"stock": 1}}).to_string();
    let head = format!(
        "POST {SAVE} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer any\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );

    for _ in 0..20 {
        let mut stream = service.connect();
        stream.write_all(head.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Both).unwrap();
    }
    let last = service.post("any", SAVE, json!({"add": {"stock": 1}}));
    assert_eq!(last.status, 200, "nothing is blocked: {last:?}");
    let (well, dir) = service.stop();
    assert!(well);
    let service = Service::start_in(dir, &[]);

    let fields = service.get("any", PRODUCT).body["fields"].clone();
    let history = service.get("any", &format!("{PRODUCT}/history?limit=200"));
    let entries = history.body["entries"].as_array().unwrap();
    let operations = entries.iter().filter(|entry| entry["version"].is_null()).count();
    assert_eq!(fields["stock"], operations, "{fields}");
    assert_eq!(fields["thumbnail"].is_string(), fields["width"].is_number(), "{fields}");
}

#[test]
fn out_of_file_descriptors_is_survived_and_over_when_there_are_some_again() {
    let dir = tempfile::tempdir().unwrap();
    let plain = Service::command(dir.path());
    let mut command = Command::new("sh");
    command.current_dir(dir.path()).env_clear().env("PATH", "/usr/bin:/bin");
    command.arg("-c").arg("ulimit -n 48; exec \"$0\" \"$@\"").arg(plain.get_program());
    command.args(plain.get_args());
    let service = Service::spawn(dir, command);
    service.product("1", json!({"name": "Stool"}));

    let many: Vec<_> = (0..200).map(|_| service.connect()).collect();
    let mut answers = Vec::new();
    for _ in 0..5 {
        let mut stream = service.connect();
        let head = "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        let _ = stream.write_all(head.as_bytes());
        answers.push(stream);
    }
    drop(many);
    for mut stream in answers {
        if let Some(answer) = read_answer(&mut stream) {
            assert!(matches!(answer.status, 200 | 503), "{answer:?}");
        }
    }

    // The service closes what was dropped in its own time, and the store needs descriptors too: each try is a round
    // trip, and only an answer that says "not now" or none at all is tried again.
    let body = json!({"add": {"stock": 1}}).to_string();
    let head = format!(
        "POST {SAVE} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer any\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let saved = (0..10_000).find_map(|_| {
        let answer = service.raw(head.as_bytes())?;
        (answer.status != 503).then_some(answer)
    });
    assert_eq!(saved.map(|answer| answer.status), Some(200), "{}", service.log());
    assert_eq!(service.get("any", PRODUCT).body["fields"]["stock"], 1);
    assert!(service.log().contains("could not be accepted"), "{}", service.log());
    assert!(!service.log().contains("panicked"));
}

#[test]
fn a_store_that_cannot_be_had_is_refused_at_the_start() {
    let service = Service::start();
    let start = |dir: &Path, data: &Path| {
        let mut command = Service::command(dir);
        command.arg("--data").arg(data);
        let (code, said) = refused(command);
        (code, said["error"].as_str().unwrap().to_owned())
    };
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();

    let second = start(dir.path(), &service.dir.path().join("data"));
    assert_eq!(second, (Some(8), "store_in_use".to_owned()));
    let no_dir = start(dir.path(), &dir.path().join("file"));
    assert_eq!(no_dir, (Some(8), "unavailable".to_owned()));
    let not_ours = dir.path().join("other");
    std::fs::create_dir(&not_ours).unwrap();
    std::fs::write(not_ours.join("fieldlease.db"), "this is not a database, and never was one")
        .unwrap();
    let (code, error) = start(dir.path(), &not_ours);
    assert_eq!(code, Some(7), "{error}");
    assert_eq!(service.get("any", "/readyz").status, 200);
}

#[test]
fn a_store_that_vanishes_is_503_and_no_panic() {
    let service = Service::start();
    let token = service.product("1", json!({"name": "Stool"}));
    let data = service.dir.path().join("data");
    assert!(service.store().exists());
    std::fs::rename(&data, service.dir.path().join("away")).unwrap();

    let body = json!({"changes": {"name": "Oak stool"}, "edit_token": token});
    let saved = service.post("anna", SAVE, body.clone());
    assert_eq!((saved.status, saved.code()), (503, "unavailable"));
    assert!(saved.header("retry-after").is_some());
    let ready = service.get("anna", "/readyz");
    assert_eq!((ready.status, ready.code()), (503, "unavailable"), "not ready without a store");
    std::fs::rename(service.dir.path().join("away"), &data).unwrap();
    let saved = service.post("anna", SAVE, body);

    assert_eq!(saved.status, 200, "{saved:?}");
    assert!(!service.log().contains("panicked"));
}

#[test]
fn rules_that_are_not_done_yet_are_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let registry = REGISTRY.replace("  Order:\n", "  Order:\n    enforcement: observe\n");
    std::fs::write(dir.path().join("registry.yaml"), registry).unwrap();

    let (code, said) = refused(Service::command(dir.path()));

    assert_eq!((code, &said["error"]), (Some(9), &json!("not_yet")));
    assert!(said["message"].as_str().unwrap().contains("observe"), "{said}");
}
