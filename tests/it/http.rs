//! The service, route by route.

use serde_json::json;

use crate::service::Service;

const PRODUCT: &str = "/v1/entities/Product/1";

#[test]
fn an_editor_and_a_worker_save_one_record_and_leave_a_version_and_an_operation() {
    let service = Service::start();

    let made = service.post("anna", PRODUCT, json!({"changes": {"name": "Stool"}}));
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.header("location"), Some(PRODUCT));
    assert_eq!(made.body["version"], 1);
    let token = made.text("edit_token");
    let worker = service.post(
        "thumbs",
        "/v1/entities/Product/1/save",
        json!({"changes": {"thumbnail": "a.webp"}, "job": "j1"}),
    );
    assert_eq!(worker.status, 200, "{worker:?}");
    assert_eq!(worker.body["version"], json!(null));
    let editor = service.post(
        "anna",
        "/v1/entities/Product/1/save",
        json!({"changes": {"name": "Oak stool"}, "edit_token": token}),
    );
    assert_eq!(editor.status, 200, "{editor:?}");
    assert_eq!(editor.body["version"], 2);

    let loaded = service.get("anna", PRODUCT);
    assert_eq!(loaded.status, 200, "{loaded:?}");
    assert_eq!(loaded.body["fields"], json!({"name": "Oak stool", "thumbnail": "a.webp"}));
    assert_eq!(loaded.body["version"], 2);
    let history = service.get("anna", "/v1/entities/Product/1/history");
    let entries = history.body["entries"].as_array().unwrap();
    let numbers: Vec<_> = entries.iter().map(|entry| entry["version"].clone()).collect();
    assert_eq!(numbers, [json!(2), json!(null), json!(1)]);
    assert_eq!(entries[1]["detail"]["job"], "j1");
    assert_eq!(entries[1]["writer"], json!({"kind": "worker", "name": "thumbs"}));
    let blame = service.get("anna", "/v1/entities/Product/1/blame?path=thumbnail&path=name");
    assert_eq!(blame.body["paths"]["thumbnail"]["writer"]["name"], "thumbs");
    assert_eq!(blame.body["paths"]["name"]["version"], 2);
}

#[test]
fn every_refusal_has_its_status_and_its_code() {
    let service = Service::start();
    let token = service.product("1", json!({"name": "Stool", "price": 5}));
    let save = "/v1/entities/Product/1/save";
    let moved = service.post("any", save, json!({"changes": {"price": 6}}));
    // A worker that does not say what it saw changes a value it has not seen.
    assert_eq!((moved.status, moved.code()), (409, "conflict"));
    let moved = service.post("any", save, json!({"changes": {"price": 6}, "base": {"price": 5}}));
    assert_eq!(moved.status, 200, "{moved:?}");

    let cases = [
        (
            "anna",
            "POST",
            save,
            json!({"changes": {"thumbnail": "x"}, "edit_token": token}),
            403,
            "denied",
        ),
        (
            "thumbs",
            "POST",
            save,
            json!({"changes": {"name": "x"}, "base": {"name": "Stool"}}),
            403,
            "denied",
        ),
        ("thumbs", "POST", save, json!({"changes": {"cost": 1}}), 403, "denied"),
        (
            "anna",
            "POST",
            save,
            json!({"changes": {"price": 7}, "edit_token": token}),
            409,
            "conflict",
        ),
        ("anna", "POST", save, json!({"changes": {"name": "x"}}), 428, "token_required"),
        (
            "anna",
            "POST",
            "/v1/entities/Product/none/save",
            json!({"changes": {"name": "x"}}),
            404,
            "not_found",
        ),
        ("anna", "POST", PRODUCT, json!({"changes": {"name": "x"}}), 409, "exists"),
        ("any", "POST", "/v1/entities/Order/1", json!({"changes": {"state": "x"}}), 403, "denied"),
        ("anna", "POST", save, json!({"changes": {"a..b": 1}}), 400, "empty_segment"),
        (
            "anna",
            "POST",
            save,
            json!({"changes": {"name": "x"}, "edit_token": "x"}),
            400,
            "token_malformed",
        ),
        ("anna", "POST", save, json!({"chagnes": {}}), 400, "bad_body"),
        ("anna", "POST", "/v1/entities/Nothing/1/save", json!({}), 404, "unknown_type"),
        ("anna", "POST", "/v1/entities/no name/1/save", json!({}), 400, "?"),
        ("anna", "PATCH", save, json!({}), 405, "method_not_allowed"),
        ("anna", "POST", "/v1/nothing", json!({}), 404, "no_such_route"),
        (
            "anna",
            "POST",
            "/v1/leases/00000000000000000000000000000000/renew",
            json!({}),
            404,
            "lease_unknown",
        ),
    ];
    for (who, method, route, body, status, code) in cases {
        let route = route.replace(' ', "%20");
        let answer = service.call(who, method, &route, Some(body.clone()));
        assert_eq!(answer.status, status, "{who} {route} {body}: {answer:?}");
        if code != "?" {
            assert_eq!(answer.code(), code, "{who} {route} {body}: {answer:?}");
        }
    }
}

#[test]
fn a_conflict_carries_the_plan_and_a_token_that_resolves_it() {
    let service = Service::start();
    let token = service.product("1", json!({"price": 5}));
    let save = "/v1/entities/Product/1/save";
    service.post("any", save, json!({"changes": {"price": 6}, "base": {"price": 5}}));

    let refused = service.post("anna", save, json!({"changes": {"price": 7}, "edit_token": token}));
    assert_eq!(refused.code(), "conflict");
    let report = refused.body["plan"].to_string();
    for expected in ["price", "\"any\"", "5", "6", "7"] {
        assert!(report.contains(expected), "{expected}: {report}");
    }
    let next = refused.text("edit_token");
    let resolved = service.post("anna", save, json!({"changes": {"price": 7}, "edit_token": next}));

    assert_eq!(resolved.status, 200, "{resolved:?}");
}

#[test]
fn force_needs_the_permission_and_a_reason_and_leaves_it_in_the_history() {
    let service = Service::start();
    let token = service.product("1", json!({"price": 5}));
    let save = "/v1/entities/Product/1/save";
    service.post("any", save, json!({"changes": {"price": 6}, "base": {"price": 5}}));
    let force = json!({
        "changes": {"price": 7}, "edit_token": token, "force": ["price"], "reason": "agreed by phone",
    });

    assert_eq!(service.post("anna", save, force.clone()).code(), "forbidden");
    let forced = service.post("boss", save, force);

    assert_eq!(forced.status, 200, "{forced:?}");
    let history = service.get("boss", "/v1/entities/Product/1/history?limit=1");
    assert_eq!(history.body["entries"][0]["reason"], "agreed by phone");
}

#[test]
fn entity_tags_answer_304_and_412_and_nothing_else_does() {
    let service = Service::start();
    let token = service.product("1", json!({"name": "Stool"}));
    let save = "/v1/entities/Product/1/save";
    let loaded = service.get("anna", PRODUCT);
    let tag = loaded.header("etag").unwrap().to_owned();

    let same = service.call_with("anna", "GET", PRODUCT, &[("if-none-match", &tag)], None);
    assert_eq!(same.status, 304);
    let body = json!({"changes": {"name": "Oak stool"}});
    let matched = service.call_with("anna", "POST", save, &[("if-match", &tag)], Some(body));
    assert_eq!(matched.status, 200, "{matched:?}");
    assert_ne!(matched.header("etag"), Some(&*tag));
    let body = json!({"changes": {"description": "x"}, "edit_token": token});
    let stale = service.call_with("anna", "POST", save, &[("if-match", &tag)], Some(body.clone()));
    assert_eq!((stale.status, stale.code()), (412, "precondition_failed"));
    assert_eq!(service.post("anna", save, body).status, 200, "another field is no conflict");
    let changed = service.call_with("anna", "GET", PRODUCT, &[("if-none-match", &tag)], None);
    assert_eq!(changed.status, 200);
}

#[test]
fn a_plan_says_what_a_save_would_do_and_does_nothing() {
    let service = Service::start();
    let token = service.product("1", json!({"name": "Stool"}));
    let before = service.get("anna", PRODUCT).body;

    let body = json!({"changes": {"name": "Oak stool", "thumbnail": "x"}, "edit_token": token});
    let planned = service.post("anna", "/v1/entities/Product/1/plan", body);

    assert_eq!(planned.status, 200, "{planned:?}");
    let report = planned.body["plan"].to_string();
    assert!(report.contains("denied") && report.contains("thumbnail"), "{report}");
    // One that would be accepted does nothing either.
    let body = json!({"changes": {"name": "Oak stool"}, "edit_token": token});
    let planned = service.post("anna", "/v1/entities/Product/1/plan", body);
    assert_eq!(planned.body["plan"]["verdict"], "apply", "{planned:?}");
    assert_eq!(service.get("anna", PRODUCT).body, before);
    let history = service.get("anna", "/v1/entities/Product/1/history");
    assert_eq!(history.body["entries"].as_array().unwrap().len(), 1);
}

#[test]
fn a_shown_box_that_posts_nothing_is_removed() {
    let service = Service::start();
    let token = service.product("1", json!({"name": "Stool", "description": "round"}));

    let body = json!({"changes": {"name": "Stool"}, "shown": ["name", "description"], "edit_token": token});
    let saved = service.post("anna", "/v1/entities/Product/1/save", body);

    assert_eq!(saved.status, 200, "{saved:?}");
    assert_eq!(service.get("anna", PRODUCT).body["fields"], json!({"name": "Stool"}));
}

#[test]
fn a_deleted_record_is_gone_until_it_is_made_again() {
    let service = Service::start();
    let token = service.product("1", json!({"name": "Stool"}));
    let save = "/v1/entities/Product/1/save";

    assert_eq!(service.call("any", "DELETE", PRODUCT, None).code(), "denied");
    // Clients that announce JSON and send no body mean no body.
    let json = [("content-type", "application/json")];
    let deleted = service.call_with("anna", "DELETE", PRODUCT, &json, None);
    assert_eq!(deleted.status, 200, "{deleted:?}");
    assert_eq!(service.get("anna", PRODUCT).code(), "gone");
    let body = json!({"changes": {"name": "x"}, "edit_token": token});
    assert_eq!(service.post("anna", save, body.clone()).code(), "gone");
    let made = service.post("anna", PRODUCT, json!({"changes": {"name": "Chair"}}));
    assert_eq!(made.body["incarnation"], 2, "{made:?}");
    assert_eq!(service.post("anna", save, body).code(), "recreated");
}

#[test]
fn any_id_in_utf8_names_a_record_of_its_own() {
    let service = Service::start();
    let ids = ["a/b", "a%2Fb", "{}:*", "\u{1f6cb}", "line\nbreak", "nul\0", "..", "ümlaut", "a b"];

    for id in ids {
        let entity = fieldlease::entity::EntityRef::new("Product", id).unwrap();
        let route = fieldlease::server::address(&entity);
        let made = service.post("anna", &route, json!({"changes": {"name": id}}));
        assert_eq!(made.status, 201, "{id:?}: {made:?}");
        assert_eq!(made.header("location"), Some(&*route));
    }
    for id in ids {
        let entity = fieldlease::entity::EntityRef::new("Product", id).unwrap();
        let loaded = service.get("anna", &fieldlease::server::address(&entity));
        assert_eq!(loaded.body["fields"]["name"], id, "{loaded:?}");
        assert_eq!(loaded.body["entity"]["id"], id);
    }
    assert_eq!(service.get("anna", "/v1/entities/Product/%ff").code(), "bad_address");
    let long = format!("/v1/entities/Product/{}", "x".repeat(257));
    assert_eq!(service.get("anna", &long).code(), "bad_name");
}

#[test]
fn a_lease_is_taken_saved_under_renewed_and_given_back() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));
    let ask = json!({"entity": {"type": "Product", "id": "1"}, "groups": ["media"]});

    let granted = service.post("thumbs", "/v1/leases", ask.clone());
    assert_eq!(granted.status, 201, "{granted:?}");
    let lease = granted.text("lease");
    assert_eq!(granted.body["fields"]["name"], "Stool");
    assert_eq!(granted.body["fences"]["media"], 1);

    let busy = service.post("thumbs2", "/v1/leases", ask.clone());
    assert_eq!((busy.status, busy.code()), (423, "leased"));
    assert_eq!(busy.body["held_by"][0]["label"], "thumbs");
    assert!(busy.header("retry-after").is_some());
    let body = json!({"changes": {"thumbnail": "b"}});
    let locked = service.post("thumbs2", "/v1/entities/Product/1/save", body);
    assert_eq!((locked.status, locked.code()), (423, "leased"));
    let other = json!({"entity": {"type": "Product", "id": "1"}, "groups": ["pricing"]});
    assert_eq!(
        service.post("prices", "/v1/leases", other).status,
        201,
        "another group never waits"
    );

    let body = json!({"changes": {"thumbnail": "a"}, "lease": lease});
    let saved = service.post("thumbs", "/v1/entities/Product/1/save", body.clone());
    assert_eq!(saved.status, 200, "{saved:?}");
    let renew = format!("/v1/leases/{lease}/renew");
    let renewed = service.post("thumbs", &renew, json!({"ttl_ms": 60_000}));
    assert_eq!(renewed.body, json!({"expires_in_ms": 60_000}));
    let listed = service.get("anna", "/v1/leases?entity=Product/1");
    assert_eq!(listed.body["leases"].as_array().unwrap().len(), 2, "{listed:?}");

    let released = service.call("thumbs", "DELETE", &format!("/v1/leases/{lease}"), None);
    assert_eq!(released.body, json!({"released": true}));
    let late = service.post("thumbs", "/v1/entities/Product/1/save", body);
    assert_eq!(late.code(), "lease_unknown");
    assert_eq!(service.post("thumbs", &renew, json!({})).code(), "lease_unknown");
    assert_eq!(service.post("thumbs2", "/v1/leases", ask).status, 201);
}

#[test]
fn a_lease_its_client_forgets_ends_after_the_time_it_asked_for() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));
    let entity = json!({"type": "Product", "id": "1"});
    let ask = json!({"entity": entity, "groups": ["media"], "ttl_ms": 100});
    assert_eq!(service.post("thumbs", "/v1/leases", ask).status, 201);

    // The next one waits in the queue and is served as soon as the first has ended.
    let ask = json!({"entity": entity, "groups": ["media"], "wait_ms": 20_000});
    let next = service.post("thumbs2", "/v1/leases", ask);

    assert_eq!(next.status, 201, "{next:?}");
    assert_eq!(next.body["fences"]["media"], 2);
}

#[test]
fn a_broken_lease_writes_no_more_and_breaking_needs_permission_and_reason() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));
    let entity = json!({"type": "Product", "id": "1"});
    let ask = json!({"entity": entity, "groups": ["media"]});
    let lease = service.post("thumbs", "/v1/leases", ask).text("lease");
    let mut body = json!({"entity": entity, "scope": "media", "reason": "hangs"});

    assert_eq!(service.post("anna", "/v1/leases/break", body.clone()).code(), "forbidden");
    body["reason"] = json!(" ");
    assert_eq!(service.post("boss", "/v1/leases/break", body.clone()).code(), "reason_missing");
    body["reason"] = json!("hangs");
    let broken = service.post("boss", "/v1/leases/break", body);
    assert_eq!(broken.body["broken"]["label"], "thumbs", "{broken:?}");

    let body = json!({"changes": {"thumbnail": "late"}, "lease": lease});
    let late = service.post("thumbs", "/v1/entities/Product/1/save", body);
    assert_eq!(late.status, 409, "{late:?}");
    assert_eq!(service.get("anna", PRODUCT).body["fields"], json!({"name": "Stool"}));
}

#[test]
fn a_stop_gives_leases_back_and_the_next_service_goes_on() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));
    let ask = json!({"entity": {"type": "Product", "id": "1"}, "groups": ["media"]});
    assert_eq!(service.post("thumbs", "/v1/leases", ask.clone()).status, 201);

    let (well, dir) = service.stop();
    assert!(well);
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
    assert!(log.contains("\"leases\":1"), "{log}");
    let service = Service::start_in(dir, &[]);

    assert_eq!(service.get("anna", PRODUCT).body["fields"]["name"], "Stool");
    assert_eq!(service.post("thumbs2", "/v1/leases", ask).body["fences"]["media"], 2);
}

#[test]
fn a_changed_registry_is_put_in_force_at_the_start_and_the_change_is_told() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));
    let dir = service.stop().1;
    let changed = crate::service::REGISTRY.replace("[name, description]", "[name]");
    std::fs::write(dir.path().join("registry.yaml"), changed).unwrap();

    let service = Service::start_in(dir, &[]);

    assert!(service.log().contains("description: owner editor -> deny"), "{}", service.log());
    let token = service.get("anna", PRODUCT).text("edit_token");
    let save = "/v1/entities/Product/1/save";
    let body = json!({"changes": {"description": "x"}, "edit_token": token});
    assert_eq!(service.post("anna", save, body).code(), "denied");
    let body = json!({"changes": {"name": "Oak stool"}, "edit_token": token});
    assert_eq!(service.post("anna", save, body).status, 200);
}

#[test]
fn the_first_start_of_a_new_user_makes_tokens_and_a_record_and_its_commands_work() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = crate::service::binary(dir.path());
    command.args(["serve", "--json", "--listen", "127.0.0.1:0"]);
    let service = Service::spawn(dir, command);
    let token = |name: &str| std::fs::read_to_string(service.dir.path().join(name)).unwrap();
    let (editor, worker) = (token("data/editor.token"), token("data/worker.token"));
    let save = "/v1/entities/Product/1/save";

    for _ in 0..2 {
        let body = json!({"changes": {"description": "Solid oak, oiled."}});
        assert_eq!(service.post(&editor, save, body).status, 200);
        let body = json!({"changes": {"thumbnail": "chair.webp"}});
        assert_eq!(service.post(&worker, save, body).status, 200);
    }
    let history = service.get(&editor, "/v1/entities/Product/1/history");

    assert_eq!(history.body["entries"].as_array().unwrap().len(), 3, "{history:?}");
}

/// The service's lock keeps a second service away. A program that uses the library on the same file is not kept
/// away: the claims in the file keep both right.
#[test]
fn a_program_on_the_same_file_and_the_service_lose_nothing_of_each_other() {
    use std::sync::Arc;

    use fieldlease::{
        engine::{Engine, Outcome},
        error::Error,
        registry::{Limits, read, resolve},
        store::sqlite::SqliteStore,
        strategy::Strategies,
    };

    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));
    let raw = read(crate::service::REGISTRY.as_bytes(), &Limits::default()).0.unwrap();
    let registry = resolve(&raw, &Strategies::standard()).0.unwrap();
    let store = Arc::new(SqliteStore::open(service.store()).unwrap());
    let entity = fieldlease::entity::EntityRef::new("Product", "1").unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();

    std::thread::scope(|scope| {
        let over_http = scope.spawn(|| {
            for width in 0..50 {
                let seen = service.get("any", PRODUCT).text("edit_token");
                let body =
                    json!({"changes": {"width": width}, "add": {"stock": 1}, "edit_token": seen});
                // Giving up after several trials is an answer too; nothing was done then.
                let saved = (0..100)
                    .map(|_| service.post("any", "/v1/entities/Product/1/save", body.clone()))
                    .find(|answer| answer.status != 503);
                let saved = saved.unwrap();
                assert_eq!(saved.status, 200, "{saved:?}");
            }
        });
        runtime.block_on(async {
            let engine = Engine::builder(Arc::new(registry))
                .source(crate::service::REGISTRY)
                .store(store)
                .build()
                .await
                .unwrap();
            let worker = engine.worker("beside");
            for number in 0..50 {
                let seen = worker.load(&entity).await.unwrap().unwrap();
                let save =
                    worker.save(&entity).seen(&seen).set("thumbnail", number).add("stock", 1);
                let mut saved = save.clone().send().await;
                for _ in 0..100 {
                    if !matches!(saved, Err(Error::Contended { .. } | Error::Unavailable { .. })) {
                        break;
                    }
                    saved = save.clone().send().await;
                }
                assert!(matches!(saved, Ok(Outcome::Applied(_))), "{saved:?}");
            }
        });
        over_http.join().unwrap();
    });

    let fields = service.get("any", PRODUCT).body["fields"].clone();
    assert_eq!(fields, json!({"name": "Stool", "stock": 100, "thumbnail": 49, "width": 49}));
}

#[test]
fn a_version_is_restored_and_a_job_undone_with_the_rights_of_the_token() {
    let service = Service::start();
    let token = service.product("1", json!({"name": "Stool"}));
    let save = "/v1/entities/Product/1/save";
    let work = json!({"changes": {"thumbnail": "a.webp"}, "job": "j1"});
    assert_eq!(service.post("thumbs", save, work).status, 200);
    let edit = json!({"changes": {"name": "Bench", "description": "new"}, "edit_token": token});
    assert_eq!(service.post("anna", save, edit).status, 200);
    let (restore, undo) = ("/v1/entities/Product/1/restore", "/v1/entities/Product/1/undo");

    let planned = service.post("anna", restore, json!({"version": 1, "plan": true}));
    assert_eq!(planned.status, 200, "{planned:?}");
    assert_eq!(service.get("anna", PRODUCT).body["fields"]["name"], "Bench");
    let restored = service.post("anna", restore, json!({"version": 1}));
    assert_eq!((restored.status, &restored.body["version"]), (200, &json!(3)), "{restored:?}");
    let denied = service.post("anna", undo, json!({"job": "j1", "force": "x"}));
    assert_eq!((denied.status, denied.code()), (403, "forbidden"));
    let denied = service.post("anna", undo, json!({"job": "j1"}));
    assert_eq!((denied.status, denied.code()), (403, "denied"));
    let fields = service.get("anna", PRODUCT).body["fields"].clone();
    assert_eq!(fields, json!({"name": "Stool", "thumbnail": "a.webp"}));
    let forced = service.post("boss", undo, json!({"job": "j1", "force": "wrong pictures"}));
    assert_eq!((forced.status, &forced.body["left"]), (200, &json!({})), "{forced:?}");
    assert_eq!(service.get("anna", PRODUCT).body["fields"], json!({"name": "Stool"}));

    let cases = [
        ("anna", restore, json!({"version": 99}), 404, "version_unknown"),
        ("thumbs", restore, json!({"version": 1}), 400, "restore_worker"),
        ("anna", restore, json!({"version": 1, "shared": ["stock"]}), 400, "restore_counter"),
        ("anna", undo, json!({"job": "none"}), 404, "operation_unknown"),
        ("anna", undo, json!({}), 400, "bad_body"),
    ];
    for (who, route, body, status, code) in cases {
        let answer = service.post(who, route, body.clone());
        assert_eq!((answer.status, answer.code()), (status, code), "{body}");
    }
}
