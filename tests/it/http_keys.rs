//! Idempotency over HTTP: a request that is sent again is answered what the first was, byte for byte.

use std::io::{Read, Write};

use serde_json::{Value as Json, json};

use crate::service::{Answer, Service, answer, request};

const SAVE: &str = "/v1/entities/Product/1/save";

/// Sends it; answers everything that came back, and the body's bytes.
fn send(
    service: &Service,
    method: &str,
    route: &str,
    key: &str,
    body: Option<Json>,
) -> (Answer, String) {
    let request = request("anna", method, route, &[("idempotency-key", key)], body);
    raw(service, &request)
}

fn raw(service: &Service, request: &str) -> (Answer, String) {
    let mut stream = service.connect();
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let body = text.split_once("\r\n\r\n").unwrap().1.to_owned();
    (answer(&text).unwrap(), body)
}

#[test]
fn a_repeat_is_answered_byte_for_byte_and_says_so() {
    let service = Service::start();
    let token = service.product("1", json!({"name": "Chair", "stock": 0}));
    let body = json!({"edit_token": token, "changes": {"name": "Stool", "description": "caf\u{e9}"}, "add": {"stock": 2}});

    let (first, bytes) = send(&service, "POST", SAVE, "k-1", Some(body.clone()));
    let (again, same) = send(&service, "POST", SAVE, "k-1", Some(body));
    // Another spelling of the same request: order, escapes, white space.
    let spelled = format!(
        "{{ \"add\": {{\"stock\": 2}},\n \"changes\": {{\"n\\u0061me\": \"Stool\", \"description\": \"caf\\u00e9\"}}, \"edit_token\": \"{token}\" }}"
    );
    let head = request("anna", "POST", SAVE, &[("idempotency-key", "k-1")], None);
    let head = head.replace(
        "content-length: 0",
        &format!("content-type: application/json\r\ncontent-length: {}", spelled.len()),
    );
    let (third, spelled) = raw(&service, &(head + &spelled));

    assert_eq!((first.status, first.header("idempotency-replayed")), (200, None), "{first:?}");
    for (repeat, repeated) in [(again, same), (third, spelled)] {
        assert_eq!(repeat.status, 200);
        assert_eq!(repeat.header("idempotency-replayed"), Some("true"));
        assert_eq!(repeat.header("etag"), first.header("etag"));
        assert_eq!(repeated, bytes);
    }
    let now = service.get("anna", "/v1/entities/Product/1").body;
    assert_eq!((&now["fields"]["stock"], &now["version"]), (&json!(2), &json!(2)));
}

#[test]
fn a_create_and_a_delete_are_repeated_with_their_status_and_headers() {
    let service = Service::start();
    let route = "/v1/entities/Product/new";
    let body = json!({"changes": {"name": "Lamp"}});

    let (first, bytes) = send(&service, "POST", route, "k", Some(body.clone()));
    let (again, same) = send(&service, "POST", route, "k", Some(body));
    assert_eq!((first.status, again.status), (201, 201), "{again:?}");
    assert_eq!(again.header("location"), first.header("location"));
    assert_eq!(again.header("location"), Some(route));
    assert_eq!(same, bytes);
    // The same key for another operation is another key.
    let (gone, bytes) = send(&service, "DELETE", route, "k", None);
    let (again, same) = send(&service, "DELETE", route, "k", None);
    assert_eq!((gone.status, again.status), (200, 200), "{gone:?}");
    assert_eq!(same, bytes);
    assert_eq!(service.get("anna", route).status, 410);
}

#[test]
fn a_key_of_another_request_is_422_and_a_malformed_one_400() {
    let service = Service::start();
    service.product("1", json!({"name": "Chair"}));
    service.product("2", json!({"name": "Chair"}));
    let stock = |number: u64| Some(json!({"add": {"stock": number}}));
    assert_eq!(send(&service, "POST", SAVE, "k", stock(1)).0.status, 200);

    let other = send(&service, "POST", SAVE, "k", stock(2)).0;
    assert_eq!((other.status, other.code()), (422, "key_mismatch"));
    let elsewhere = send(&service, "POST", "/v1/entities/Product/2/save", "k", stock(1)).0;
    assert_eq!((elsewhere.status, elsewhere.code()), (422, "key_mismatch"));
    for bad in ["", "two words", "caf\u{e9}", &"k".repeat(256)] {
        let answer = send(&service, "POST", SAVE, bad, stock(1)).0;
        assert_eq!((answer.status, answer.code()), (400, "bad_key"), "{bad}");
    }
    let twice = [("idempotency-key", "a"), ("Idempotency-Key", "a")];
    let answer = service.call_with("anna", "POST", SAVE, &twice, stock(1));
    assert_eq!((answer.status, answer.code()), (400, "bad_key"));
    let (rounded, _) = send(
        &service,
        "POST",
        SAVE,
        "n",
        Some(json!({"changes": {"name": 9_007_199_254_740_993_u64}})),
    );
    assert_eq!((rounded.status, rounded.code()), (400, "number_not_exact"));
    let stock = service.get("anna", "/v1/entities/Product/1").body["fields"]["stock"].clone();
    assert_eq!(stock, json!(1));
    // Another writer's key is another key.
    let headers = [("idempotency-key", "k")];
    let ben = service.call_with("ben", "POST", SAVE, &headers, Some(json!({"add": {"stock": 5}})));
    assert_eq!(ben.status, 200, "{ben:?}");
}

#[test]
fn a_conflict_is_not_remembered_and_a_repeat_passes_its_own_precondition() {
    let service = Service::start();
    let old = service.product("1", json!({"name": "Chair"}));
    let fresh = service.get("ben", "/v1/entities/Product/1").text("edit_token");
    let ben = json!({"edit_token": fresh, "changes": {"name": "Stool"}});
    assert_eq!(service.post("ben", SAVE, ben).status, 200);

    let mine = |token: &str| Some(json!({"edit_token": token, "changes": {"name": "Bench"}}));
    let (conflict, _) = send(&service, "POST", SAVE, "k", mine(&old));
    assert_eq!((conflict.status, conflict.code()), (409, "conflict"));
    let next = conflict.text("edit_token");
    assert_eq!(send(&service, "POST", SAVE, "k", mine(&next)).0.status, 200);
    // If-Match names the record before the first call changed it.
    let etag = service.get("anna", "/v1/entities/Product/1").header("etag").unwrap().to_owned();
    let body = Some(json!({"changes": {"description": "tall"}}));
    let headers = [("if-match", &*etag), ("idempotency-key", "m")];
    let first = service.call_with("anna", "POST", SAVE, &headers, body.clone());
    let again = service.call_with("anna", "POST", SAVE, &headers, body);
    assert_eq!((first.status, again.status), (200, 200), "{again:?}");
    assert_eq!(again.body, first.body);
}

#[test]
fn a_job_delivered_twice_is_saved_once_and_a_random_key_is_refused() {
    let service = Service::start();
    service.product("1", json!({"name": "Chair"}));
    let save = |key: &str, value: &str| {
        service.post("thumbs", SAVE, json!({"job_key": key, "changes": {"thumbnail": value}}))
    };

    let first = save("thumbnail/1/a", "a.webp");
    let again = save("thumbnail/1/a", "a-again.webp");
    assert_eq!((first.status, again.status), (200, 200), "{first:?} {again:?}");
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(again.body, first.body);
    let random = save("7c9e6679-7425-40de-944b-e07fc1f90ae7", "b.webp");
    assert_eq!((random.status, random.code()), (400, "random_key"));
    let editor = json!({"job_key": "k", "changes": {"name": "x"}});
    let editor = service.post("anna", SAVE, editor);
    assert_eq!((editor.status, editor.code()), (400, "job_key_editor"));
    let both = json!({"job_key": "k", "changes": {"thumbnail": "x"}});
    let both = service.call_with("thumbs", "POST", SAVE, &[("idempotency-key", "k")], Some(both));
    assert_eq!((both.status, both.code()), (400, "two_keys"));
    let shown = service.get("thumbs", "/v1/entities/Product/1").body["fields"]["thumbnail"].clone();
    assert_eq!(shown, json!("a.webp"));
}

#[test]
fn a_repeat_survives_a_restart_of_the_service() {
    let service = Service::start();
    service.product("1", json!({"name": "Chair"}));
    let body = Some(json!({"add": {"stock": 1}}));
    let (_, bytes) = send(&service, "POST", SAVE, "k", body.clone());
    let (_, dir) = service.stop();

    let service = Service::start_in(dir, &[]);
    let (again, same) = send(&service, "POST", SAVE, "k", body);

    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(same, bytes);
}
