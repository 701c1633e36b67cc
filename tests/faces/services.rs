//! Several services over one server of leases.

use serde_json::{Value as Json, json};

use crate::{
    command::Place,
    servers::{Flavour, Server, Setup, until},
    service::Service,
};

fn service(server: &Server) -> Service {
    let service = Service::start_in(tempfile::tempdir().unwrap(), &["--leases", &server.url()]);
    service.product("1", json!({"name": "Stool"}));
    service
}

fn ask(wait_ms: u32) -> Json {
    json!({"entity": {"type": "Product", "id": "1"}, "groups": ["media"], "wait_ms": wait_ms})
}

#[test]
fn two_services_keep_each_others_workers_apart_and_list_each_others_leases() {
    let place = Place::new();
    let (one, two) = (service(&place.server), service(&place.server));

    let held = one.post("thumbs", "/v1/leases", ask(0));
    assert_eq!(held.status, 201, "{held:?}");
    let busy = two.post("thumbs2", "/v1/leases", ask(0));
    assert_eq!((busy.status, busy.code()), (423, "leased"));
    assert_eq!(busy.body["held_by"][0]["label"], "thumbs");
    let other =
        json!({"entity": {"type": "Product", "id": "1"}, "groups": ["pricing"], "wait_ms": 0});
    assert_eq!(two.post("prices", "/v1/leases", other).status, 201, "another group is free");

    let listed = |service: &Service| service.get("anna", "/v1/leases?entity=Product/1").body;
    for service in [&one, &two] {
        let leases = listed(service)["leases"].as_array().unwrap().clone();
        let scopes: Vec<_> = leases.iter().map(|lease| lease["scope"].clone()).collect();
        assert_eq!(scopes, ["media", "pricing"], "{leases:?}");
    }
    let command = place.ran(&["run", "Product/1", "media", "--on-busy", "skip", "--", "true"]);
    assert_eq!(command.code, Some(121), "a command is kept away too");

    let waiting = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| two.post("thumbs2", "/v1/leases", ask(20_000)));
        until("it stands in line", || listed(&one)["leases"][0]["waiting"] == 1);
        let lease = format!("/v1/leases/{}", held.text("lease"));
        assert_eq!(one.call("thumbs", "DELETE", &lease, None).status, 200);
        waiter.join().unwrap()
    });
    assert_eq!(waiting.status, 201, "{waiting:?}");

    let end =
        json!({"entity": {"type": "Product", "id": "1"}, "scope": "media", "reason": "a test"});
    let broken = one.post("boss", "/v1/leases/break", end);
    assert_eq!(broken.body["broken"]["label"], "thumbs2", "{broken:?}");
    until("its holder hears of it", || {
        let lease = format!("/v1/leases/{}/renew", waiting.text("lease"));
        two.call("thumbs2", "POST", &lease, None).status != 200
    });

    assert!(one.stop().0 && two.stop().0);
    place.is_clean();
}

#[test]
fn a_version_guard_opened_at_one_service_is_known_at_another() {
    let place = Place::new();
    let (one, two) = (service(&place.server), service(&place.server));
    let body = json!({"entity": {"type": "Product", "id": "1"}, "ttl_ms": 60_000});
    let opened = one.post("thumbs", "/v1/version-guards", body);
    assert_eq!(opened.status, 201, "{opened:?}");
    let guard = format!("/v1/version-guards/{}", opened.text("id"));
    let look = |service: &Service| {
        let answer = service.get("anna", &guard).body;
        (answer["makes_version"].clone(), answer["known"].clone())
    };

    assert_eq!(
        [look(&one), look(&two)],
        [(json!(false), json!(true)), (json!(false), json!(true))]
    );

    assert_eq!(one.call("thumbs", "DELETE", &guard, None).status, 200);
    assert_eq!(look(&two), (json!(true), json!(false)));
    assert!(one.stop().0 && two.stop().0);
    place.is_clean();
}

#[test]
fn a_service_without_its_lease_server_says_so_and_editors_go_on() {
    let place = Place::new();
    let service = service(&place.server);
    let up = |service: &Service| {
        let page = service.get("boss", "/metrics").body;
        let line = page
            .as_str()
            .unwrap()
            .lines()
            .find_map(|line| line.strip_prefix("fieldlease_lease_store_up "));
        line.map(str::to_owned)
    };
    let ready = service.get("probe", "/readyz");
    assert_eq!((ready.status, &ready.body["lease_store"]), (200, &json!("answers")));
    assert_eq!(up(&service).as_deref(), Some("1"));

    place.server.kill();
    until("it is not ready", || service.get("probe", "/readyz").status == 503);

    let ready = service.get("probe", "/readyz");
    assert_eq!((ready.code(), &ready.body["lease_store"]), ("unavailable", &json!("unavailable")));
    assert_eq!(up(&service).as_deref(), Some("0"));
    let refused = service.post("thumbs", "/v1/leases", ask(0));
    assert_eq!((refused.status, refused.code()), (503, "unavailable"));
    let token = service.get("anna", "/v1/entities/Product/1").text("edit_token");
    let body = json!({"changes": {"name": "Oak stool"}, "edit_token": token});
    let saved = service.post("anna", "/v1/entities/Product/1/save", body);
    assert_eq!(saved.status, 200, "{saved:?}");

    place.server.restart();
    until("it is ready again", || service.get("probe", "/readyz").status == 200);
    assert_eq!(service.post("thumbs", "/v1/leases", ask(0)).status, 201);
    assert!(service.stop().0);
}

#[test]
fn a_service_whose_lease_server_is_not_there_does_not_start_and_no_password_is_told() {
    let server = Setup::new(Flavour::Redis7).password("s3cret").start();
    let service = service(&server);
    assert_eq!(service.post("thumbs", "/v1/leases", ask(0)).status, 201);
    let log = service.log();
    assert!(!log.contains("s3cret"), "{log}");
    assert!(service.stop().0);
    let dir = tempfile::tempdir().unwrap();
    let wrong = server.url().replace("s3cret", "wr0ng");

    for url in [&*wrong, "redis://:wr0ng@127.0.0.1:1"] {
        let mut command = Service::command(dir.path());
        let ended = command.args(["--leases", url]).output().unwrap();
        let said = String::from_utf8([ended.stdout, ended.stderr].concat()).unwrap();
        assert!(!ended.status.success() && !said.contains("wr0ng"), "{said}");
    }
}

/// The server knows one place of a process and the name of its first holder; the service knows the rest.
#[test]
fn a_service_shows_the_holder_of_this_moment_and_everybody_who_waits_for_it() {
    let place = Place::new();
    let service = service(&place.server);
    let shown = || service.get("anna", "/v1/leases?entity=Product/1").body["leases"][0].clone();
    let release = |token: &str, held: &crate::service::Answer| {
        let lease = format!("/v1/leases/{}", held.text("lease"));
        assert_eq!(service.call(token, "DELETE", &lease, None).status, 200);
    };
    let first = service.post("thumbs", "/v1/leases", ask(0));
    assert_eq!(first.status, 201, "{first:?}");

    std::thread::scope(|scope| {
        let second = scope.spawn(|| service.post("thumbs2", "/v1/leases", ask(20_000)));
        until("one waits", || shown()["waiting"] == 1);
        let third = scope.spawn(|| service.post("any", "/v1/leases", ask(20_000)));
        until("both wait", || shown()["waiting"] == 2);
        assert_eq!(shown()["label"], "thumbs");

        release("thumbs", &first);
        let second = second.join().unwrap();
        assert_eq!((&shown()["label"], &shown()["waiting"]), (&json!("thumbs2"), &json!(1)));
        release("thumbs2", &second);
        let third = third.join().unwrap();
        assert_eq!((&shown()["label"], &shown()["waiting"]), (&json!("any"), &json!(0)));
        release("any", &third);
    });

    assert!(service.stop().0);
    place.is_clean();
}
