//! Computed results over HTTP: stamps of inputs travel with the job and are compared when it saves.

use serde_json::{Value as Json, json};

use crate::service::{Service, TOKENS, token_file};

const PRODUCT: &str = "/v1/entities/Product/1";
const SAVE: &str = "/v1/entities/Product/1/save";

const RULES: &str = "field_ownership:
  Product:
    editor_owned: [name, description]
    system_owned:
      media: {fields: [thumbnail], on_busy: fail, derived_from: [name]}
      pricing: {fields: [cost], on_busy: fail}
";

fn start() -> Service {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("registry.yaml"), RULES).unwrap();
    std::fs::write(dir.path().join("tokens.yaml"), token_file(TOKENS)).unwrap();
    Service::start_in(dir, &[])
}

fn rename(service: &Service, name: &str) {
    let token = service.get("anna", PRODUCT).text("edit_token");
    let body = json!({"changes": {"name": name}, "edit_token": token});
    let saved = service.post("anna", SAVE, body);
    assert_eq!(saved.status, 200, "{saved:?}");
}

fn apply(inputs: &Json, value: &str) -> Json {
    json!({"apply": true, "inputs": inputs, "changes": {"thumbnail": value}})
}

#[test]
fn a_result_is_applied_as_long_as_its_inputs_are_those_it_was_computed_from() {
    let service = start();
    service.product("1", json!({"name": "Stool"}));
    let loaded = service.get("thumbs", &format!("{PRODUCT}?with=stamps&with=owners"));
    let stamps = loaded.body["stamps"].clone();
    assert_eq!(stamps["name"], loaded.body["owners"]["name"]["operation"]);

    let first = service.post("thumbs", SAVE, apply(&stamps, "a.webp"));
    assert_eq!(first.body["outcome"], "applied", "{first:?}");
    assert_eq!(first.body["version"], json!(null));
    // No version is compared: a second result from the same inputs is as good.
    assert_eq!(service.post("thumbs", SAVE, apply(&stamps, "b.webp")).status, 200);
    rename(&service, "Oak stool");
    let late = service.post("thumbs", SAVE, apply(&stamps, "old.webp"));

    assert_eq!((late.status, late.code()), (409, "stale_input"));
    let fields = service.get("thumbs", PRODUCT).body["fields"].clone();
    assert_eq!(fields, json!({"name": "Oak stool", "thumbnail": "b.webp"}));
    let fresh = service.get("thumbs", &format!("{PRODUCT}?with=stamps")).body["stamps"].clone();
    assert_eq!(service.post("thumbs", SAVE, apply(&fresh, "c.webp")).status, 200);
}

#[test]
fn a_claim_answers_the_stamps_and_fields_that_a_load_does() {
    let service = start();
    service.product("1", json!({"name": "Stool", "description": {"de": "rund"}}));
    let loaded = service.get("thumbs", &format!("{PRODUCT}?with=stamps"));
    let ask = json!({"entity": {"type": "Product", "id": "1"}, "groups": ["media"]});

    let claim = service.post("thumbs", "/v1/leases", ask);

    assert_eq!(claim.status, 201, "{claim:?}");
    for member in ["fields", "stamps", "entity"] {
        assert_eq!(claim.body[member], loaded.body[member], "{member}");
    }
    // The inputs of a result that is saved under the lease are those of the claim, or those the job carries.
    rename(&service, "Oak stool");
    let lease = claim.text("lease");
    let body =
        json!({"changes": {"thumbnail": "a"}, "lease": lease, "inputs": claim.body["stamps"]});
    let late = service.post("thumbs", SAVE, body);
    assert_eq!((late.status, late.code()), (409, "stale_input"));
}

#[test]
fn apply_is_for_computed_results_of_workers_only() {
    let service = start();
    service.product("1", json!({"name": "Stool"}));
    let plan = "/v1/entities/Product/1/plan";
    let set = |path: &str| json!({path: "x"});
    let cases = [
        (
            "thumbs",
            SAVE,
            json!({"apply": true, "changes": set("thumbnail")}),
            400,
            "inputs_missing",
        ),
        (
            "anna",
            SAVE,
            json!({"apply": true, "unordered": true, "changes": set("name")}),
            400,
            "apply_editor",
        ),
        (
            "anna",
            SAVE,
            json!({"apply": true, "inputs": {}, "changes": set("name")}),
            400,
            "apply_editor",
        ),
        (
            "prices",
            SAVE,
            json!({"apply": true, "unordered": true, "changes": set("thumbnail")}),
            403,
            "denied",
        ),
        (
            "prices",
            SAVE,
            json!({"apply": true, "inputs": {}, "changes": set("cost")}),
            400,
            "invalid",
        ),
        (
            "thumbs",
            SAVE,
            json!({"apply": true, "inputs": {}, "changes": set("thumbnail")}),
            409,
            "stale_input",
        ),
        ("thumbs", SAVE, json!({"apply": "yes"}), 400, "bad_body"),
        (
            "thumbs",
            SAVE,
            json!({"apply": true, "unordered": true, "lease": "x"}),
            404,
            "lease_unknown",
        ),
        ("thumbs", PRODUCT, json!({"apply": true, "unordered": true}), 400, "bad_body"),
        (
            "thumbs",
            plan,
            json!({"apply": true, "changes": set("thumbnail")}),
            400,
            "inputs_missing",
        ),
    ];

    for (who, route, body, status, code) in cases {
        let answer = service.post(who, route, body.clone());
        assert_eq!((answer.status, answer.code()), (status, code), "{who} {body}: {answer:?}");
    }
    let body = json!({"apply": true, "unordered": true, "changes": set("cost")});
    assert_eq!(service.post("prices", SAVE, body.clone()).status, 200);
    assert_eq!(service.post("prices", plan, body).status, 200);
}
