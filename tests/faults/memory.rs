//! With little memory, the service turns requests away and goes on: it does not end.
#![cfg(target_os = "linux")]

use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    net::TcpStream,
    process::Command,
    sync::Mutex,
};

use serde_json::{Value as Json, json};

use crate::{
    service::{Service, token_file},
    until,
};

/// KiB of address space; about 60 MiB of it are in use at rest.
const LIMIT_KIB: u64 = 700_000;
const WRITERS: usize = 8;
const SAVES: usize = 32;

#[test]
fn many_of_the_largest_bodies_at_once_are_turned_away_and_not_fatal() {
    let dir = tempfile::tempdir().unwrap();
    let tokens: Vec<_> = (0..WRITERS)
        .map(|number| (format!("t{number}"), format!("kind: editor, name: e{number}")))
        .collect();
    let tokens: Vec<_> = tokens.iter().map(|(token, rest)| (&**token, &**rest)).collect();
    fs::write(dir.path().join("tokens.yaml"), token_file(&tokens)).unwrap();
    let plain = Service::command(dir.path());
    let mut command = Command::new("sh");
    command.current_dir(dir.path()).env_clear().env("PATH", "/usr/bin:/bin");
    command.arg("-c").arg(format!("ulimit -v {LIMIT_KIB}; exec \"$0\" \"$@\""));
    command.arg(plain.get_program()).args(plain.get_args());
    let service = Service::spawn(dir, command);
    let body: Json = json!({"changes": {"name": vec![7; 99_000]}});
    let statuses = Mutex::new(BTreeMap::<u16, usize>::new());

    std::thread::scope(|scope| {
        for (writer, (token, _)) in tokens.iter().enumerate() {
            for save in 0..SAVES {
                let (service, body, statuses) = (&service, body.clone(), &statuses);
                scope.spawn(move || {
                    let route = format!("/v1/entities/Product/{writer}-{save}");
                    let status = service.post(token, &route, body).status;
                    *statuses.lock().unwrap().entry(status).or_default() += 1;
                });
            }
        }
    });
    let after = service.post("t0", "/v1/entities/Product/after", json!({"changes": {"name": "x"}}));

    let statuses = statuses.into_inner().unwrap();
    assert_eq!(after.status, 201, "{after:?} {}", service.log());
    assert!(statuses.keys().all(|status| matches!(status, 201 | 429 | 503)), "{statuses:?}");
    assert!(statuses.contains_key(&201), "{statuses:?}");
    assert!(statuses.contains_key(&429) || statuses.contains_key(&503), "{statuses:?}");
    assert!(!service.log().contains("panicked"), "{}", service.log());
}

/// A request that has said how long its body is and is asked for it: it is in its handler, and stays there.
fn open(service: &Service, token: &str) -> TcpStream {
    let mut stream = service.connect();
    let head = format!(
        "POST /v1/entities/Product/1/save HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\nexpect: 100-continue\r\ncontent-length: 65537\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut asked = [0; 12];
    stream.read_exact(&mut asked).unwrap();
    assert_eq!(&asked, b"HTTP/1.1 100");
    stream
}

#[test]
fn large_bodies_have_places_of_their_own_and_no_writer_has_all_of_them() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));
    let large = json!({"changes": {"thumbnail": "x".repeat(70_000)}});
    let save = "/v1/entities/Product/1/save";

    let held: Vec<_> =
        ["anna", "thumbs"].iter().flat_map(|token| (0..4).map(|_| open(&service, token))).collect();
    let own = service.post("thumbs", save, large.clone());
    let others = service.post("any", save, large.clone());
    let small = service.post("any", save, json!({"add": {"stock": 1}}));

    assert_eq!((own.status, own.code()), (429, "too_many_requests"), "{own:?}");
    assert_eq!((others.status, others.code()), (503, "unavailable"), "{others:?}");
    assert_eq!(others.header("retry-after"), Some("1"));
    assert_eq!(small.status, 200, "small saves are not in their way: {small:?}");
    drop(held);
    until("there is room again", || service.post("any", save, large.clone()).status == 200);
}
