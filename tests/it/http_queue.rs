//! Waiting saves and events over HTTP, and what a killed service leaves of them.

use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::service::{REGISTRY, Service};

const SAVE: &str = "/v1/entities/Product/1/save";

fn service() -> Service {
    let dir = tempfile::tempdir().unwrap();
    let registry = REGISTRY.replace("on_busy: fail", "on_busy: enqueue");
    std::fs::write(dir.path().join("registry.yaml"), registry).unwrap();
    Service::start_in(dir, &[])
}

fn lease(service: &Service) -> String {
    let ask =
        json!({"entity": {"type": "Product", "id": "1"}, "groups": ["media"], "ttl_ms": 60000});
    let answer = service.post("thumbs", "/v1/leases", ask);
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.text("lease")
}

fn field(service: &Service, name: &str) -> Json {
    service.get("anna", "/v1/entities/Product/1").body["fields"][name].clone()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a service in a process of its own knows only real time"
)]
fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..600 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("not within 30 s: {what}");
}

#[test]
fn a_queued_save_survives_the_kill_of_its_service_and_is_made_once() {
    let first = service();
    first.product("1", json!({"name": "Stool"}));
    lease(&first);
    let queued = first.post("thumbs2", SAVE, json!({"changes": {"thumbnail": "a.webp"}}));
    assert_eq!((queued.status, &queued.body["outcome"]), (202, &json!("queued")), "{queued:?}");
    let operation = queued.text("operation");
    let waiting = first.get("anna", "/v1/queue").body["waiting"].clone();
    assert_eq!(
        (&waiting[0]["operation"], &waiting[0]["scopes"]),
        (&json!(operation), &json!(["media"]))
    );
    crate::service::signal(first.pid(), "KILL");
    let (_, dir) = first.ended();

    // Its leases are gone with it, so the save has its turn.
    let second = Service::start_in(dir, &[]);
    until("the queued save was made", || field(&second, "thumbnail") == json!("a.webp"));

    assert_eq!(second.get("anna", "/v1/queue").body["waiting"], json!([]));
    let history = second.get("anna", "/v1/entities/Product/1/history").body["entries"].clone();
    let made: Vec<&Json> = history.as_array().unwrap().iter().map(|e| &e["operation"]).collect();
    assert_eq!(made.iter().filter(|made| ***made == json!(operation)).count(), 1);
    let again = second.post("thumbs2", &format!("/v1/queue/{operation}/cancel"), json!({}));
    assert_eq!((again.status, again.code()), (404, "not_queued"));
}

#[test]
fn a_lease_that_is_given_back_wakes_the_queue_and_only_its_writer_cancels_a_save() {
    let service = service();
    service.product("1", json!({"name": "Stool"}));
    let held = lease(&service);
    let first = service.post("thumbs2", SAVE, json!({"changes": {"thumbnail": "a.webp"}}));
    let second = service.post("thumbs2", SAVE, json!({"changes": {"width": 7}}));
    assert_eq!((first.status, second.status, &second.body["place"]), (202, 202, &json!(2)));
    let cancel = format!("/v1/queue/{}/cancel", second.text("operation"));

    let foreign = service.post("thumbs", &cancel, json!({}));
    assert_eq!((foreign.status, foreign.code()), (403, "forbidden"));
    assert_eq!(service.post("thumbs2", &cancel, json!({})).status, 200);
    service.call("thumbs", "DELETE", &format!("/v1/leases/{held}"), None);
    until("the first save was made", || field(&service, "thumbnail") == json!("a.webp"));

    assert_eq!(field(&service, "width"), json!(null));
    let events = service.get("anna", "/v1/events?after=0").body;
    assert_eq!(events["events"][0]["kind"], "queue_cancelled", "{events}");
    let next = events["next"].as_u64().unwrap();
    let mut stream = service.connect();
    let head = format!(
        "GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer anna\r\nAccept: text/event-stream\r\nLast-Event-ID: {}\r\nConnection: close\r\n\r\n",
        next - 1
    );
    std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut stream, &mut text).unwrap();
    assert!(text.contains(&format!("id: {next}\nevent: queue_cancelled\ndata: {{")), "{text}");
}
