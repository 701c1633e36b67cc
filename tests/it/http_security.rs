//! Who may do what over HTTP, what one request may cost, and what is never told.

use std::io::{Read, Write};

use serde_json::{Value as Json, json};

use crate::service::{Service, TOKENS, binary, read_answer, refused, token_file};

const PRODUCT: &str = "/v1/entities/Product/1";
const SAVE: &str = "/v1/entities/Product/1/save";

/// Every route but `/healthz`, with a method it knows.
const ROUTES: &[(&str, &str)] = &[
    ("GET", PRODUCT),
    ("POST", PRODUCT),
    ("DELETE", PRODUCT),
    ("POST", SAVE),
    ("POST", "/v1/entities/Product/1/plan"),
    ("GET", "/v1/entities/Product/1/history"),
    ("GET", "/v1/entities/Product/1/blame"),
    ("GET", "/v1/leases"),
    ("POST", "/v1/leases"),
    ("POST", "/v1/leases/break"),
    ("POST", "/v1/leases/00000000000000000000000000000000/renew"),
    ("DELETE", "/v1/leases/00000000000000000000000000000000"),
    ("POST", "/v1/version-guards"),
    ("GET", "/v1/version-guards/00000000000000000000000000000000"),
    ("DELETE", "/v1/version-guards/00000000000000000000000000000000"),
    ("POST", "/v1/version-guards/00000000000000000000000000000000/keep"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
    ("GET", "/nothing"),
];

#[test]
fn only_the_health_route_answers_without_a_token() {
    let service = Service::start();

    for (method, route) in ROUTES {
        for token in ["", "wrong", &crate::service::sha256("anna")] {
            let answer = service.call(token, method, route, None);
            assert_eq!((answer.status, answer.code()), (401, "unauthorized"), "{method} {route}");
            assert!(answer.header("www-authenticate").is_some());
        }
        let twice = [("authorization", "Bearer wrong")];
        let answer = service.call_with("anna", method, route, &twice, None);
        assert_eq!(answer.status, 401, "{method} {route}");
    }
    assert_eq!(service.get("", "/healthz").status, 200);
    assert_eq!(service.get("probe", "/readyz").status, 200);
    assert_eq!(service.get("probe", PRODUCT).code(), "forbidden", "a probe is for nothing else");
}

#[test]
fn a_listener_for_the_network_without_tokens_does_not_start() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = binary(dir.path());
    command.args(["serve", "--json", "--listen", "0.0.0.0:0"]);

    let (code, said) = refused(command);

    assert_eq!((code, &said["error"]), (Some(7), &json!("tokens_missing")));
    assert!(!dir.path().join("data").exists());
}

/// Every token tries every field: only the diagonal is written.
#[test]
fn a_token_writes_the_fields_of_its_kind_and_groups_and_no_others() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));
    let fields = ["description", "thumbnail", "cost", "note"];
    let may = |token: &str, field: &str| match token {
        "anna" | "anna2" | "ben" | "boss" => field == "description",
        "thumbs" | "thumbs-new" | "thumbs2" => field == "thumbnail",
        "prices" => field == "cost",
        "any" => matches!(field, "thumbnail" | "cost"),
        _ => false,
    };

    for (number, (token, _)) in TOKENS.iter().enumerate() {
        for field in fields {
            let seen = service.get("any", PRODUCT).text("edit_token");
            let body = json!({"changes": {field: number}, "edit_token": seen});
            let saved = service.post(token, SAVE, body);
            if may(token, field) {
                assert_eq!(saved.status, 200, "{token} {field}: {saved:?}");
            } else {
                assert_eq!(saved.status, 403, "{token} {field}: {saved:?}");
                assert!(matches!(saved.code(), "denied" | "forbidden"));
            }
        }
    }
}

#[test]
fn nothing_but_the_token_says_who_is_writing() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));
    let posing = [
        ("fieldlease-writer", "editor anna"),
        ("x-forwarded-user", "anna"),
        ("x-remote-user", "anna"),
        ("cookie", "writer=anna"),
        ("from", "anna"),
    ];

    let body = json!({"changes": {"thumbnail": "x"}});
    let saved = service.call_with("thumbs", "POST", SAVE, &posing, Some(body));
    assert_eq!(saved.body["version"], json!(null), "{saved:?}");
    for member in ["writer", "kind", "name", "user", "groups", "no_version", "version", "operation"]
    {
        let body =
            json!({"changes": {"thumbnail": "y"}, member: {"kind": "editor", "name": "anna"}});
        let refused = service.post("thumbs", SAVE, body);
        assert_eq!((refused.status, refused.code()), (400, "bad_body"), "{member}");
    }
    let history = service.get("anna", "/v1/entities/Product/1/history?limit=1");
    assert_eq!(history.body["entries"][0]["writer"], json!({"kind": "worker", "name": "thumbs"}));
}

#[test]
fn a_worker_never_makes_a_version_and_an_editor_always_does() {
    let service = Service::start();
    let versions = |route: &str| {
        let history = service.get("anna", &format!("{route}/history"));
        let entries = history.body["entries"].as_array().unwrap().clone();
        entries.iter().filter(|entry| !entry["version"].is_null()).count()
    };

    let made = service.post("thumbs", "/v1/entities/Product/w", json!({"changes": {"width": 1}}));
    assert_eq!(made.status, 201, "{made:?}");
    let save = "/v1/entities/Product/w/save";
    assert_eq!(service.post("any", save, json!({"changes": {"cost": 1}})).status, 200);
    assert_eq!(service.post("any", save, json!({"add": {"stock": 2}})).status, 200);
    assert_eq!(versions("/v1/entities/Product/w"), 0);
    assert_eq!(service.post("anna", save, json!({"add": {"stock": 2}})).status, 200);
    assert_eq!(versions("/v1/entities/Product/w"), 1);
    assert_eq!(service.call("thumbs", "DELETE", "/v1/entities/Product/w", None).status, 403);
}

#[test]
fn a_lease_belongs_to_its_writer_even_when_its_name_is_known() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));
    let ask = json!({"entity": {"type": "Product", "id": "1"}, "groups": ["media"]});
    let lease = service.post("thumbs", "/v1/leases", ask).text("lease");
    let renew = format!("/v1/leases/{lease}/renew");
    let release = format!("/v1/leases/{lease}");
    let save = json!({"changes": {"thumbnail": "x"}, "lease": lease});

    for (token, _) in TOKENS.iter().filter(|(token, _)| !token.starts_with("thumbs")) {
        assert_eq!(service.post(token, &renew, json!({})).code(), "lease_unknown", "{token}");
        assert_eq!(
            service.call(token, "DELETE", &release, None).code(),
            "lease_unknown",
            "{token}"
        );
        let saved = service.post(token, SAVE, save.clone());
        assert!(matches!(saved.code(), "lease_unknown" | "forbidden"), "{token}: {saved:?}");
    }
    assert_eq!(service.post("thumbs2", &renew, json!({})).code(), "lease_unknown");
    // A rotated token of the same writer goes on with it.
    assert_eq!(service.post("thumbs-new", &renew, json!({})).status, 200);
    assert_eq!(service.post("thumbs-new", SAVE, save).status, 200);
    assert_eq!(service.call("thumbs", "DELETE", &release, None).status, 200);
    let whole = json!({"entity": {"type": "Product", "id": "1"}, "whole": true});
    assert_eq!(service.post("thumbs", "/v1/leases", whole).code(), "denied");
    let foreign = json!({"entity": {"type": "Product", "id": "1"}, "groups": ["pricing"]});
    assert_eq!(service.post("thumbs", "/v1/leases", foreign).code(), "denied");
    let system = json!({"entity": {"type": "Product", "id": "1"}, "groups": ["media"]});
    assert_eq!(service.post("anna", "/v1/leases", system).status, 403);
}

#[test]
fn lease_names_are_128_random_bits() {
    let service = Service::start();
    let mut seen = std::collections::BTreeSet::new();
    let mut ones = 0;
    for number in 0..64 {
        let id = number.to_string();
        service.product(&id, json!({"name": "x"}));
        let ask = json!({"entity": {"type": "Product", "id": id}, "groups": ["media"]});
        let lease = service.post("thumbs", "/v1/leases", ask).text("lease");
        assert_eq!(lease.len(), 32);
        ones += u128::from_str_radix(&lease, 16).unwrap().count_ones();
        assert!(seen.insert(lease));
    }
    // 8192 fair bits: farther from the middle than this is a chance below one in a million million.
    assert!((3_770..=4_422).contains(&ones), "{ones}");
}

#[test]
fn tokens_rotate_under_load_and_a_revoked_one_ends_at_once() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));
    let file = service.dir.path().join("tokens.yaml");
    let anna = "kind: editor, name: anna";

    for round in 0..20 {
        let (old, new) = (format!("t{round}"), format!("t{}", round + 1));
        std::fs::write(&file, token_file(&[(&old, anna), (&new, anna)])).unwrap();
        assert_eq!(service.get(&old, PRODUCT).status, 200);
        assert_eq!(service.get(&new, PRODUCT).status, 200);
        std::fs::write(&file, token_file(&[(&new, anna)])).unwrap();
        assert_eq!(service.get(&old, PRODUCT).status, 401);
    }
}

#[test]
fn one_writer_may_not_have_all_the_requests() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));
    // Bodies that never end keep their requests in flight.
    let open: Vec<_> = (0..64)
        .map(|_| {
            let mut stream = service.connect();
            let head = format!(
                "POST {SAVE} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer anna\r\n\
                 content-type: application/json\r\nexpect: 100-continue\r\ncontent-length: 10\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).unwrap();
            // The service asks for the body: the request is in its handler.
            let mut asked = [0; 12];
            stream.read_exact(&mut asked).unwrap();
            assert_eq!(&asked, b"HTTP/1.1 100");
            stream
        })
        .collect();

    let refused = service.get("anna2", PRODUCT);
    assert_eq!((refused.status, refused.code()), (429, "too_many_requests"));
    assert_eq!(service.get("ben", PRODUCT).status, 200, "another writer is served");
    drop(open);
}

#[test]
fn what_is_too_large_is_refused_at_the_limit_and_one() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));
    let head = |more: &str| {
        format!(
            "POST {SAVE} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer anna\r\n\
             content-type: application/json\r\n{more}\r\n"
        )
    };
    let body = |bytes: usize| {
        let frame = r#"{"changes":{"description":""}}"#.len();
        format!(r#"{{"changes":{{"description":"{}"}}}}"#, "x".repeat(bytes - frame))
    };
    let limit = 1 << 20;

    for (bytes, status) in [(limit, 200), (limit + 1, 413)] {
        let body = body(bytes);
        let length = head(&format!("content-length: {bytes}\r\n"));
        let answer = service.raw(format!("{length}{body}").as_bytes()).unwrap();
        assert_eq!(answer.status, status, "{:?}", answer.head);
        let chunked = head("transfer-encoding: chunked\r\n");
        let chunked = format!("{chunked}{bytes:x}\r\n{body}\r\n0\r\n\r\n");
        let answer = service.raw(chunked.as_bytes()).unwrap();
        assert_eq!(answer.status, status, "{:?}", answer.head);
    }
    let uri = |bytes: usize| {
        let route = format!("{PRODUCT}?with={}", "x".repeat(bytes - PRODUCT.len() - 6));
        service.get("anna", &route).status
    };
    assert_eq!((uri(8 << 10), uri((8 << 10) + 1)), (400, 414));
    let huge = service.get("anna", &format!("/{}", "x".repeat(65_000)));
    assert!(matches!(huge.status, 414 | 431), "{huge:?}");
    let with = |count: usize, bytes: usize| {
        let value = "x".repeat(bytes);
        let headers: Vec<_> = (0..count).map(|_| ("x-a", &*value)).collect();
        service.call_with("anna", "GET", PRODUCT, &headers, None).status
    };
    assert_eq!(with(10, 10), 200);
    assert_eq!(with(60, 10), 200);
    assert_eq!(with(61, 10), 431);
    assert_eq!(with(200, 10), 431);
    assert_eq!(with(1, 17 << 10), 431);
    let text = service.call_with("anna", "POST", SAVE, &[("content-type", "text/plain")], None);
    assert_eq!((text.status, text.code()), (415, "media_type"));
}

#[test]
fn slow_clients_are_cut_off_and_the_others_are_served() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Service::command(dir.path());
    command.env("FIELDLEASE_HEAD_TIME_MS", "300").env("FIELDLEASE_BODY_TIME_MS", "300");
    let service = Service::spawn(dir, command);
    let head = format!(
        "POST {SAVE} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer any\r\n\
         content-type: application/json\r\ncontent-length: 100\r\n\r\n{{"
    );

    let mut silent = service.connect();
    let mut slow_heads: Vec<_> = (0..200)
        .map(|_| {
            let mut stream = service.connect();
            stream.write_all(b"GET / HTTP/1.1\r\nhost:").unwrap();
            stream
        })
        .collect();
    let mut slow_body = service.connect();
    slow_body.write_all(head.as_bytes()).unwrap();

    assert_eq!(service.get("anna", "/readyz").status, 200);
    let answer = read_answer(&mut slow_body).unwrap();
    assert_eq!((answer.status, answer.code()), (408, "body_timeout"));
    for stream in slow_heads.iter_mut().chain([&mut silent]) {
        // Closed by the service: an end or a reset, never the patience of this test.
        let mut rest = Vec::new();
        let ended = stream.read_to_end(&mut rest);
        let waited = ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        assert!(!waited);
    }
}

#[test]
fn a_body_that_two_readers_could_take_differently_is_refused() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));
    let send = |body: &str| {
        let head = format!(
            "POST {SAVE} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer any\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        service.raw(head.as_bytes()).unwrap()
    };
    let deep = "[".repeat(50_000) + &"]".repeat(50_000);
    let wide = vec!["1"; 100_001].join(",");

    let cases = [
        (r#"{"changes": {"cost": 1}, "changes": {"cost": 2}}"#.to_owned(), "duplicate_name"),
        (r#"{"changes": {"cost": {"a": 1, "a": 2}}}"#.to_owned(), "duplicate_name"),
        (format!(r#"{{"changes": {{"cost": {deep}}}}}"#), "too_deep"),
        (format!(r#"{{"changes": {{"cost": [{wide}]}}}}"#), "too_many_nodes"),
        (r#"{"changes": {"cost": 18446744073709551616}}"#.to_owned(), "number_not_exact"),
        (r#"{"changes": {"cost": "\ud800"}}"#.to_owned(), "not_json"),
        (r#"{"changes": {"cost": NaN}}"#.to_owned(), "not_json"),
        (String::new(), "not_json"),
    ];
    for (body, code) in cases {
        let answer = send(&body);
        assert_eq!((answer.status, answer.code()), (400, code));
    }
    assert_eq!(send(r#"{"changes": {"cost": 9007199254740993}}"#).status, 200);
    let loaded = service.get("any", PRODUCT);
    assert_eq!(loaded.body["fields"]["cost"].to_string(), "9007199254740993");
}

#[test]
fn logs_hold_no_control_characters_values_or_tokens() {
    let dir = tempfile::tempdir().unwrap();
    let audit = dir.path().join("audit.jsonl");
    let mut command = Service::command(dir.path());
    command.env("FIELDLEASE_TOKEN_SECRET", "canary-secret-0123").env("FIELDLEASE_LOG", "debug");
    command.arg("--audit").arg(&audit);
    let service = Service::spawn(dir, command);
    let id = "a\nb\u{1b}[2J\u{202e}c";
    let entity = fieldlease::entity::EntityRef::new("Product", id).unwrap();
    let route = fieldlease::server::address(&entity);
    let value = "canary-value";

    let mut told = String::new();
    let made = service.post("boss", &route, json!({"changes": {"name": "x"}}));
    told.push_str(&made.body.to_string());
    let ask = json!({"entity": entity, "groups": ["media"]});
    let lease = service.post("thumbs", "/v1/leases", ask).text("lease");
    service.post(
        "thumbs",
        &format!("{route}/save"),
        json!({"changes": {"width": value}, "lease": lease}),
    );
    for body in [json!({"changes": {"cost": value}}), json!({"changes": {value: 1}}), json!([])] {
        service.post("thumbs", &format!("{route}/save?x={value}"), body);
    }
    service.post("thumbs", &format!("/v1/leases/{lease}/renew"), json!({}));
    service.call("thumbs", "DELETE", &format!("/v1/leases/{lease}"), None);
    told.push_str(&service.get("boss", "/metrics").body.to_string());
    told.push_str(&service.get("canary-token", &route).body.to_string());
    let dir = service.stop().1;

    let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
    let audit = std::fs::read_to_string(&audit).unwrap();
    assert!(log.contains("request") && audit.contains("lease_granted"), "{log}{audit}");
    for text in [&log, &audit] {
        assert!(text.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'));
        assert!(!text.contains(value) && !text.contains(&lease));
        assert!(text.lines().all(|line| serde_json::from_str::<Json>(line).is_ok()), "{text}");
    }
    for text in [&log, &audit, &told] {
        assert!(!text.contains("canary-secret") && !text.contains("canary-token"));
    }
}

#[test]
fn no_caller_makes_the_number_of_series_grow() {
    let service = Service::start();
    let series = || {
        let page = service.get("boss", "/metrics");
        assert_eq!(page.status, 200, "{page:?}");
        let page = page.body.as_str().unwrap().to_owned();
        let lines: std::collections::BTreeSet<String> = page
            .lines()
            .filter(|line| line.starts_with("fieldlease"))
            .map(|line| line.rsplit_once(' ').unwrap().0.to_owned())
            .collect();
        lines
    };
    let touch = |id: &str| {
        let route = format!("/v1/entities/Product/{id}");
        service.post("boss", &route, json!({"changes": {"name": id}}));
        service.post("thumbs", &format!("{route}/save"), json!({"changes": {"width": 1}}));
        service.post("thumbs", &format!("{route}/save"), json!({"changes": {id: 1}}));
        service.get("boss", &format!("/v1/entities/T{id}/{id}"));
        service.get("boss", &format!("/{id}"));
    };
    touch("first");
    let before = series();

    for number in 0..100 {
        touch(&format!("id-{number}"));
    }
    let scrapes = std::thread::scope(|scope| {
        let scrapes: Vec<_> = (0..30).map(|_| scope.spawn(series)).collect();
        scrapes.into_iter().map(|scrape| scrape.join().unwrap()).collect::<Vec<_>>()
    });

    assert!(before.iter().any(|line| line.contains("entity_type=\"Product\"")), "{before:?}");
    for after in scrapes {
        assert_eq!(after, before);
    }
    assert_eq!(service.get("anna", "/metrics").code(), "forbidden");
}

#[test]
fn refusals_tell_nothing_of_the_inside() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));
    let mut told = Vec::new();
    let bodies = [
        json!({}),
        json!([]),
        json!(null),
        json!({"changes": {"name": {"$ne": 1}}}),
        json!({"changes": {"x'; DROP TABLE fl_record; --": 1}}),
        json!({"edit_token": "1n' OR 1=1"}),
        json!({"entity": {"type": "Product", "id": "'; --"}, "groups": ["'"]}),
        json!({"entity": {"type": "x\"y", "id": "1"}, "scope": "[", "reason": "x"}),
        json!({"add": {"stock": i64::MAX}}),
        json!({"changes": {"name": 1}, "base": {"name": 1}, "force": ["name"], "reason": "\u{0}"}),
    ];
    for (method, route) in ROUTES {
        for body in &bodies {
            let answer = service.call("boss", method, route, Some(body.clone()));
            assert!(answer.status < 500, "{method} {route} {body}: {answer:?}");
            told.push(answer.body.to_string());
        }
    }
    for query in ["?before=x", "?limit=-1", "?cursor=%00", "?with='", "?path=a..b", "?entity='"] {
        for (_, route) in ROUTES {
            let answer = service.get("boss", &format!("{route}{query}"));
            assert!(answer.status < 500, "{route}{query}: {answer:?}");
            told.push(answer.body.to_string());
        }
    }

    for text in told {
        for word in
            ["SELECT", "sqlite", "rusqlite", ".rs:", "panicked", "fl_record\\", "/data", "serde"]
        {
            assert!(!text.contains(word), "{word}: {text}");
        }
    }
    assert!(!service.log().contains("panicked"));
}

#[test]
fn a_token_of_another_type_learns_nothing_of_a_record() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));
    let ask = json!({"entity": {"type": "Product", "id": "1"}, "groups": ["media"]});
    service.post("thumbs", "/v1/leases", ask.clone());

    for id in ["1", "none"] {
        let route = format!("/v1/entities/Product/{id}");
        let asked = [
            service.get("orders", &route),
            service.get("orders", &format!("{route}/history")),
            service.get("orders", &format!("{route}/blame")),
            service.post("orders", &route, json!({})),
            service.post("orders", &format!("{route}/save"), json!({"changes": {"thumbnail": 1}})),
            service.post("orders", &format!("{route}/plan"), json!({})),
            service.call("orders", "DELETE", &route, None),
            service.get("orders", &format!("/v1/leases?entity=Product/{id}")),
        ];
        for answer in asked {
            assert_eq!((answer.status, answer.code()), (403, "forbidden"), "{answer:?}");
            assert!(!answer.body.to_string().contains("thumbs"));
        }
    }
    assert_eq!(service.post("orders", "/v1/leases", ask).code(), "forbidden");
    let listed = service.get("orders", "/v1/leases");
    assert_eq!(listed.body["leases"], json!([]));
    let busy = service.post("thumbs2", SAVE, json!({"changes": {"thumbnail": 1}}));
    assert_eq!(busy.body["held_by"][0]["label"], "thumbs", "{busy:?}");
}
