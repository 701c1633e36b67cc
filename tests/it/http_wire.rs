//! What a hostile or clumsy client may send: every answer is a problem with a stable code, never a 500, never a hang.

use std::{
    io::{Read, Write},
    net::Shutdown,
};

use serde_json::{Value as Json, json};

use crate::service::{Answer, Service, read_answer};

const PRODUCT: &str = "/v1/entities/Product/1";
const SAVE: &str = "/v1/entities/Product/1/save";
const LEASES: &str = "/v1/leases";

/// One request as bytes; the body's length is added unless the headers say how it comes.
fn request(method: &str, route: &str, headers: &[&str], body: &[u8]) -> Vec<u8> {
    let mut head = format!("{method} {route} HTTP/1.1\r\nhost: x\r\n");
    for line in headers {
        head.push_str(line);
        head.push_str("\r\n");
    }
    let framed =
        headers.iter().any(|line| line.starts_with("transfer-") || line.starts_with("content-l"));
    if !framed {
        head.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    [head.as_bytes(), body].concat()
}

fn send(service: &Service, method: &str, route: &str, more: &[&str], body: &[u8]) -> Answer {
    let headers = [&["authorization: Bearer boss", "connection: close"], more].concat();
    let answer = service.raw(&request(method, route, &headers, body));
    answer.unwrap_or_else(|| panic!("no answer to {method} {route} {more:?}"))
}

const JSON: &[&str] = &["content-type: application/json"];

#[test]
fn every_bad_body_is_refused_with_its_code() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));
    let big_path = "a".repeat(5_000);
    let cases: &[(&[&str], &[u8], u16, &str)] = &[
        (&[], b"{}", 415, "media_type"),
        (&["content-type: text/json"], b"{}", 415, "media_type"),
        (&["content-type: application/x-www-form-urlencoded"], b"changes=1", 415, "media_type"),
        (&["content-type: multipart/form-data; boundary=x"], b"--x--", 415, "media_type"),
        (&["content-type: application/json, text/plain"], b"{}", 415, "media_type"),
        (&["content-type: \u{ff}"], b"{}", 415, "media_type"),
        (JSON, b"", 400, "not_json"),
        (JSON, b" ", 400, "not_json"),
        (JSON, b"{", 400, "not_json"),
        (JSON, b"{}{}", 400, "not_json"),
        (JSON, b"\xef\xbb\xbf{}", 400, "not_json"),
        (JSON, b"{\"changes\": {\"name\": \"\xff\"}}", 400, "not_json"),
        (JSON, b"{'changes': {}}", 400, "not_json"),
        (JSON, b"{\"changes\": {\"name\": \"a\nb\"}}", 400, "not_json"),
        (JSON, b"[]", 400, "bad_body"),
        (JSON, b"[null, {\"name\": \"x\"}]", 400, "bad_body"),
        (JSON, b"null", 400, "bad_body"),
        (JSON, b"\"save\"", 400, "bad_body"),
        (JSON, b"{\"changes\": null}", 400, "bad_body"),
        (JSON, b"{\"changes\": {\"\": 1}}", 400, "path_empty"),
        (JSON, b"{\"changes\": {\"a..b\": 1}}", 400, "empty_segment"),
        (JSON, b"{\"changes\": {\"*\": 1}}", 400, "pattern_in_path"),
        (JSON, b"{\"add\": {\"stock\": 9223372036854775808}}", 400, "bad_body"),
        (JSON, b"{\"add\": {\"stock\": \"1\"}}", 400, "bad_body"),
        (JSON, b"{\"edit_token\": 1}", 400, "bad_body"),
        (JSON, b"{\"edit_token\": \"\"}", 400, "token_malformed"),
        (JSON, b"{\"edit_token\": \"\\u0000\"}", 400, "token_malformed"),
        (JSON, b"{\"lease\": \"\"}", 404, "lease_unknown"),
        (JSON, b"{\"lease\": \"../../etc\"}", 404, "lease_unknown"),
        (JSON, b"{\"apply\": true, \"unordered\": true}", 400, "apply_editor"),
        (JSON, b"{\"unordered\": true}", 400, "bad_body"),
        (JSON, b"{\"inputs\": {\"name\": \"x\"}}", 400, "bad_body"),
    ];

    for (headers, body, status, code) in cases {
        let answer = send(&service, "POST", SAVE, headers, body);
        let shown = String::from_utf8_lossy(body);
        assert_eq!((answer.status, answer.code()), (*status, *code), "{headers:?} {shown}");
    }
    let long = json!({"changes": {big_path: 1}}).to_string();
    assert_eq!(send(&service, "POST", SAVE, JSON, long.as_bytes()).status, 400);
    let upper = ["content-type: Application/JSON; charset=utf-8"];
    assert_eq!(send(&service, "POST", SAVE, &upper, b"{}").status, 200);
}

#[test]
fn every_bad_address_is_refused_with_its_code() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));
    let long = format!("/v1/entities/Product/{}", "x".repeat(257));
    let cases: &[(&str, &str, u16, &str)] = &[
        ("GET", "/v1/entities/Product/%ff", 400, "bad_address"),
        ("GET", "/v1/entities/%ff/1", 400, "bad_address"),
        ("GET", "/v1/entities/Product/%00", 404, "not_found"),
        ("GET", "/v1/entities/Product/%2e%2e", 404, "not_found"),
        ("GET", "/v1/entities/Product/..", 404, "not_found"),
        ("GET", "/v1/entities/../../etc/passwd", 404, "no_such_route"),
        ("GET", "/v1/entities/Product/..%2f..%2fetc", 404, "not_found"),
        ("GET", "/v1/entities/Product/%", 404, "not_found"),
        ("GET", "/v1/entities/Product/", 404, "no_such_route"),
        ("GET", "/v1/entities//1", 400, "bad_name"),
        ("GET", "/v1/entities/Product/1/", 404, "no_such_route"),
        ("GET", "/v1/entities/Product/1/save", 405, "method_not_allowed"),
        ("GET", "//v1/entities/Product/1", 404, "no_such_route"),
        ("GET", "/V1/entities/Product/1", 404, "no_such_route"),
        ("GET", "/v1/entities/product/1", 404, "unknown_type"),
        ("GET", "/v1/entities/Pro%00duct/1", 400, "bad_name"),
        ("GET", &long, 400, "bad_name"),
        ("GET", "/v1/entities/Nothing/1/history", 404, "unknown_type"),
        ("GET", "/v1/entities/Nothing/1/blame", 404, "unknown_type"),
        ("GET", "/v1/entities/Product/none/history", 404, "not_found"),
        ("GET", "/v1/entities/Product/none/blame", 404, "not_found"),
        ("GET", "/v1/entities/Product/none/blame?path=name", 404, "not_found"),
        ("GET", "/v1/entities/Product/1?with=owner", 400, "bad_query"),
        ("GET", "/v1/entities/Product/1?with=%ff", 400, "bad_query"),
        ("GET", "/v1/entities/Product/1?x", 400, "bad_query"),
        ("GET", "/v1/entities/Product/1/history?limit=-1", 400, "bad_query"),
        ("GET", "/v1/entities/Product/1/history?limit=1e3", 400, "bad_query"),
        ("GET", "/v1/entities/Product/1/history?limit=1&limit=2", 400, "bad_query"),
        ("GET", "/v1/entities/Product/1/history?before=1", 400, "bad_query"),
        ("GET", "/v1/entities/Product/1/blame?path=%ff", 400, "bad_query"),
        ("GET", "/v1/entities/Product/1/blame?path=a..b", 400, "empty_segment"),
        ("GET", "/v1/leases?entity=Product", 400, "bad_name"),
        ("GET", "/v1/leases?entity=Nothing/1", 404, "unknown_type"),
        ("GET", "/v1/leases?entity=Product/1&cursor=x", 400, "bad_query"),
        ("POST", "/v1/leases/%ff/renew", 400, "bad_address"),
        ("DELETE", "/v1/leases/%ff", 400, "bad_address"),
        ("DELETE", "/v1/leases/%00", 404, "lease_unknown"),
        ("DELETE", "/v1/leases/..", 404, "lease_unknown"),
        ("GET", "/v1/leases/00000000000000000000000000000000", 405, "method_not_allowed"),
        ("get", PRODUCT, 405, "method_not_allowed"),
        ("PUT", PRODUCT, 405, "method_not_allowed"),
        ("PATCH", PRODUCT, 405, "method_not_allowed"),
        ("OPTIONS", PRODUCT, 405, "method_not_allowed"),
        ("TRACE", PRODUCT, 405, "method_not_allowed"),
        ("BREW", PRODUCT, 405, "method_not_allowed"),
        ("POST", "/healthz", 405, "method_not_allowed"),
        ("OPTIONS", "*", 404, "no_such_route"),
        ("GET", "http://elsewhere/v1/nothing", 404, "no_such_route"),
    ];

    for (method, route, status, code) in cases {
        let answer = send(&service, method, route, &[], b"");
        assert_eq!((answer.status, answer.code()), (*status, *code), "{method} {route}");
        let allowed = answer.header("allow");
        assert_eq!(allowed.is_some(), *status == 405, "{method} {route}: {allowed:?}");
    }
    let connect = service.raw(&request("CONNECT", "x:1", &["connection: close"], b"")).unwrap();
    assert!(connect.status < 500, "{connect:?}");
    assert!(!service.log().contains("panicked"), "{}", service.log());
}

#[test]
fn a_head_is_a_load_without_its_body() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));

    let loaded = send(&service, "GET", PRODUCT, &[], b"");
    let head = send(&service, "HEAD", PRODUCT, &[], b"");

    assert_eq!((head.status, head.body), (200, json!("")));
    let tag = loaded.header("etag").unwrap();
    for (wanted, status) in [
        (tag.to_owned(), 304),
        (format!("W/{tag}"), 304),
        (format!("\"x\", {tag}"), 304),
        ("*".to_owned(), 304),
        ("\"x\"".to_owned(), 200),
        (tag.trim_matches('"').to_owned(), 200),
    ] {
        let line = format!("if-none-match: {wanted}");
        assert_eq!(send(&service, "GET", PRODUCT, &[&line], b"").status, status, "{wanted}");
    }
}

#[test]
fn a_body_that_may_be_left_out_is_never_passed_over() {
    let service = Service::start();
    let token = service.product("1", json!({"name": "Stool"}));
    let moved = json!({"changes": {"name": "Oak stool"}, "edit_token": token});
    assert_eq!(service.post("anna", SAVE, moved).status, 200);
    let body = json!({"edit_token": token}).to_string();
    let delete =
        |more: &[&str], body: &str| send(&service, "DELETE", PRODUCT, more, body.as_bytes());

    // Read as nothing, the stale token would be a delete of what nobody has seen.
    assert_eq!(delete(&[], &body).code(), "media_type");
    assert_eq!(delete(JSON, &body).code(), "conflict");
    let chunked = ["transfer-encoding: chunked"];
    let frame = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    assert_eq!(delete(&chunked, &frame).code(), "media_type");
    assert_eq!(delete(JSON, "{\"lease\": \"x\"}").code(), "bad_body");
    assert_eq!(delete(JSON, "{\"edit_tokn\": \"x\"}").code(), "bad_body");
    // A client that says a type for the body it does not send means no body.
    assert_eq!(delete(JSON, "").status, 200);
}

#[test]
fn what_is_not_one_http_request_is_cut_off() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));
    let auth = "authorization: Bearer any\r\ncontent-type: application/json";
    let body = r#"{"add": {"stock": 1}}"#;
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let cases = [
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        "\0\0\0\0".to_owned(),
        "GET / HTTP/9.9\r\n\r\n".to_owned(),
        "GET /\r\n\r\n".to_owned(),
        format!(
            "POST {SAVE} HTTP/1.1\r\nhost: x\r\n{auth}\r\ncontent-length: 1\r\ncontent-length: 21\r\n\r\n{body}"
        ),
        format!("POST {SAVE} HTTP/1.1\r\nhost: x\r\n{auth}\r\ncontent-length: -1\r\n\r\n{body}"),
        format!("POST {SAVE} HTTP/1.1\r\nhost: x\r\n{auth}\r\ncontent-length: 21,21\r\n\r\n{body}"),
        format!(
            "POST {SAVE} HTTP/1.1\r\nhost: x\r\n{auth}\r\ntransfer-encoding: gzip\r\n\r\n{chunked}"
        ),
        format!(
            "POST {SAVE} HTTP/1.1\r\nhost: x\r\n{auth}\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{body}\r\n0\r\n\r\n"
        ),
        format!("POST {SAVE} HTTP/1.1\r\nhost: x\r\n{auth}\r\n content-length: 21\r\n\r\n{body}"),
        format!("POST {SAVE} HTTP/1.1\r\nhost : x\r\n{auth}\r\ncontent-length: 21\r\n\r\n{body}"),
    ];

    for bytes in &cases {
        let mut stream = service.connect();
        stream.write_all(bytes.as_bytes()).unwrap();
        if let Some(answer) = read_answer(&mut stream) {
            assert!((400..500).contains(&answer.status), "{bytes}: {answer:?}");
        }
    }
    let stock = &service.get("any", PRODUCT).body["fields"]["stock"];
    assert!(stock.is_null(), "{stock}");
}

/// A proxy that reads the length and a service that reads the chunks would see two different requests.
#[test]
fn a_body_with_two_lengths_is_one_request_or_none() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));
    let hidden = String::from_utf8(request(
        "POST",
        SAVE,
        &["authorization: Bearer any", "content-type: application/json"],
        br#"{"add": {"stock": 1}}"#,
    ))
    .unwrap();
    let bytes = format!(
        "GET /healthz HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\ntransfer-encoding: chunked\r\n\r\n\
         0\r\n\r\n{hidden}",
        hidden.len() + 5
    );

    let mut stream = service.connect();
    stream.write_all(bytes.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut all = String::new();
    let _ = stream.read_to_string(&mut all);

    let stock = &service.get("any", PRODUCT).body["fields"]["stock"];
    assert!(stock.is_null(), "the hidden request was served: {all}");
}

#[test]
fn requests_on_one_connection_are_answered_in_their_order() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));
    let auth = "authorization: Bearer any";
    let add = |amount: i64| {
        let body = json!({"add": {"stock": amount}}).to_string();
        request("POST", SAVE, &[auth, JSON[0]], body.as_bytes())
    };
    let last = request("GET", PRODUCT, &[auth, "connection: close"], b"");
    let nobody = request("GET", PRODUCT, &["authorization: Bearer wrong"], b"");
    let bytes = [add(1), nobody, add(10), last].concat();

    let mut stream = service.connect();
    stream.write_all(&bytes).unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();

    let statuses: Vec<&str> =
        all.split("HTTP/1.1 ").skip(1).map(|answer| answer.split(' ').next().unwrap()).collect();
    assert_eq!(statuses, ["200", "401", "200", "200"], "{all}");
    assert!(all.contains("\"stock\":11"), "{all}");
}

#[test]
fn a_client_that_waits_for_a_word_before_its_body_gets_the_refusal_instead() {
    let service = Service::start();
    let refused = [
        ("authorization: Bearer wrong", JSON[0], 401, "unauthorized"),
        ("authorization: Bearer any", "content-type: text/plain", 415, "media_type"),
    ];

    for (auth, kind, status, code) in refused {
        let headers = [auth, kind, "expect: 100-continue", "content-length: 1000000"];
        let mut stream = service.connect();
        stream.write_all(&request("POST", SAVE, &headers, b"")).unwrap();
        let answer = read_answer(&mut stream).unwrap();
        assert_eq!((answer.status, answer.code()), (status, code));
    }
    let headers = ["authorization: Bearer any", JSON[0], "transfer-encoding: chunked"];
    let mut stream = service.connect();
    stream.write_all(&request("POST", SAVE, &headers, b"5\r\n{\"add")).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    if let Some(answer) = read_answer(&mut stream) {
        assert_eq!(answer.status, 400, "{answer:?}");
    }
}

#[test]
fn a_waiting_client_that_goes_away_gets_no_lease() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));
    let mut ask = json!({"entity": {"type": "Product", "id": "1"}, "groups": ["media"]});
    let lease = service.post("thumbs", LEASES, ask.clone()).text("lease");
    // Given to a client that is gone, it would be kept for a day.
    let body = json!({"entity": ask["entity"], "groups": ["media"], "wait_ms": 30_000, "ttl_ms": 86_400_000});
    let body = body.to_string();
    let length = format!("content-length: {}", body.len());
    let headers = ["authorization: Bearer thumbs2", JSON[0], "expect: 100-continue", &length];
    let mut stream = service.connect();
    stream.write_all(&request("POST", LEASES, &headers, b"")).unwrap();
    let mut asked = [0; 25];
    stream.read_exact(&mut asked).unwrap();
    assert!(asked.starts_with(b"HTTP/1.1 100"));
    stream.write_all(body.as_bytes()).unwrap();
    // Round trips during which the request comes to wait for the lease, and then is seen to be gone.
    let look = || (0..50).for_each(|_| assert_eq!(service.get("anna", LEASES).status, 200));
    look();
    drop(stream);
    look();
    let released = service.call("thumbs", "DELETE", &format!("{LEASES}/{lease}"), None);
    assert_eq!(released.status, 200, "{released:?}");

    ask["wait_ms"] = json!(10_000);
    assert_eq!(service.post("any", LEASES, ask).status, 201);
}

#[test]
fn leases_are_not_to_be_had_by_asking_oddly() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));
    service.product("2", json!({"name": "Chair"}));
    let entity = json!({"type": "Product", "id": "1"});
    let media = |more: Json| {
        let mut ask = json!({"entity": entity, "groups": ["media"]});
        ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ask
    };
    let cases = [
        (json!({}), 400, "bad_body"),
        (json!({"entity": "Product/1", "groups": ["media"]}), 400, "bad_body"),
        (json!({"entity": ["Product", "1"], "groups": ["media"]}), 400, "bad_body"),
        (
            json!({"entity": {"type": "Product", "id": "1", "x": 1}, "groups": ["media"]}),
            400,
            "bad_body",
        ),
        (json!([{"type": "Product", "id": "1"}, ["media"]]), 400, "bad_body"),
        (json!({"entity": {"type": "Product"}, "groups": ["media"]}), 400, "bad_body"),
        (json!({"entity": entity}), 400, "bad_body"),
        (json!({"entity": entity, "groups": []}), 400, "bad_body"),
        (json!({"entity": entity, "groups": "media"}), 400, "bad_body"),
        (json!({"entity": entity, "groups": ["media"], "whole": true}), 400, "bad_body"),
        (json!({"entity": entity, "groups": ["nothing"]}), 400, "unknown_scope"),
        (json!({"entity": entity, "groups": ["editor"]}), 400, "not_leased"),
        (json!({"entity": entity, "groups": ["media[locale=de]"]}), 400, "unknown_scope"),
        (json!({"entity": entity, "groups": ["media["]}), 400, "bad_scope"),
        (
            json!({"entity": {"type": "Nothing", "id": "1"}, "groups": ["media"]}),
            404,
            "unknown_type",
        ),
        (
            json!({"entity": {"type": "Product", "id": "none"}, "groups": ["media"]}),
            404,
            "not_found",
        ),
        (json!({"entity": {"type": "Pro duct", "id": "1"}, "groups": ["media"]}), 400, "bad_body"),
        (media(json!({"ttl_ms": 99})), 400, "bad_body"),
        (media(json!({"ttl_ms": 0})), 400, "bad_body"),
        (media(json!({"ttl_ms": -1})), 400, "bad_body"),
        (media(json!({"ttl_ms": 1.5})), 400, "bad_body"),
        (media(json!({"ttl_ms": u64::MAX})), 400, "bad_body"),
        (media(json!({"ttl_ms": 86_400_001})), 400, "bad_body"),
        (media(json!({"wait_ms": 30_001})), 400, "bad_body"),
        (media(json!({"wait_ms": -1})), 400, "bad_body"),
        (media(json!({"holder": "x"})), 400, "bad_body"),
    ];
    for (ask, status, code) in cases {
        let answer = service.post("any", LEASES, ask.clone());
        assert_eq!((answer.status, answer.code()), (status, code), "{ask}");
    }
    assert_eq!(service.get("any", LEASES).body["leases"], json!([]), "none was given");

    let lease = service.post("any", LEASES, media(json!({}))).text("lease");
    let renew = format!("{LEASES}/{lease}/renew");
    for body in [json!({"ttl_ms": 99}), json!({"ttl_ms": -1}), json!({"ttl": 1}), json!([])] {
        assert_eq!(service.post("any", &renew, body.clone()).code(), "bad_body", "{body}");
    }
    let twice = service.post("any", LEASES, media(json!({"wait_ms": 0})));
    assert_eq!((twice.status, twice.code()), (423, "leased"));
    let under = json!({"changes": {"thumbnail": 1}, "lease": lease});
    let elsewhere = service.post("any", "/v1/entities/Product/2/save", under.clone());
    assert_eq!((elsewhere.status, elsewhere.code()), (404, "lease_unknown"));
    assert_eq!(service.post("any", SAVE, under.clone()).status, 200);
    // A field of another group takes a lease of its own for the length of the save.
    let both = json!({"changes": {"thumbnail": 2, "cost": 1}, "lease": lease});
    let wider = service.post("any", SAVE, both);
    assert!(wider.status < 500, "{wider:?}");
    let release = format!("{LEASES}/{lease}");
    assert_eq!(service.call("any", "DELETE", &release, None).status, 200);
    assert_eq!(service.call("any", "DELETE", &release, None).code(), "lease_unknown");
    assert_eq!(service.post("any", &renew, json!({})).code(), "lease_unknown");
    assert_eq!(service.post("any", SAVE, under).code(), "lease_unknown");
}

#[test]
fn breaking_what_is_not_there_leaves_no_trace() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));
    let ask = |kind: &str, id: &str, scope: &str| json!({"entity": {"type": kind, "id": id}, "scope": scope, "reason": "x"});
    let cases = [
        (ask("Nothing", "1", "media"), 404, "unknown_type"),
        (ask("Product", "none", "media"), 404, "not_found"),
        (ask("Product", "1", "nothing"), 400, "bad_scope"),
        (ask("Product", "1", "editor"), 400, "bad_scope"),
        (ask("Product", "1", "media[locale=de]"), 400, "bad_scope"),
    ];

    for (body, status, code) in cases {
        let answer = service.post("boss", "/v1/leases/break", body.clone());
        assert_eq!((answer.status, answer.code()), (status, code), "{body}");
    }
    let free = service.post("boss", "/v1/leases/break", ask("Product", "1", "media"));
    assert_eq!((free.status, &free.body), (200, &json!({"broken": null})));
}

#[test]
fn fifty_clients_at_once_lose_nothing() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));

    std::thread::scope(|scope| {
        for number in 0..50 {
            let service = &service;
            scope.spawn(move || {
                let route = format!("/v1/entities/Product/own-{number}");
                let made = service.post("anna", &route, json!({"changes": {"name": number}}));
                assert_eq!(made.status, 201, "{made:?}");
                for _ in 0..5 {
                    let body = json!({"add": {"stock": 1}});
                    // Too many at once is an answer too; nothing was done then.
                    let saved = (0..200)
                        .map(|_| service.post("any", SAVE, body.clone()))
                        .find(|answer| !matches!(answer.status, 429 | 503));
                    assert_eq!(saved.map(|answer| answer.status), Some(200));
                }
            });
        }
    });

    assert_eq!(service.get("any", PRODUCT).body["fields"]["stock"], 250);
    for number in 0..50 {
        let loaded = service.get("any", &format!("/v1/entities/Product/own-{number}"));
        assert_eq!(loaded.body["fields"]["name"], number);
    }
}
