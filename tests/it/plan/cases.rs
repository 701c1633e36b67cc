//! Cases reported by users of content systems.

use super::*;

/// Everything but the ids of the sources: two writers on one record, in the order in which they arrive.
#[test]
fn the_cases_reported_by_users_end_as_they_should() {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/plan/cms.jsonl");
    let text = std::fs::read_to_string(file).unwrap();
    let cases: Vec<Json> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(cases.len(), 8);
    for case in &cases {
        let mut world = World::new(&registry_of(case));
        for (at, json) in case["loaded_base"]["data"].as_object().unwrap() {
            world.snapshot.record.set(&path(at), json);
        }
        let (token, loaded) = (world.token(), world.snapshot.clone());
        let (mut versions, mut operations) = (0, 0);
        for (index, who) in case["arrival"].as_array().unwrap().iter().enumerate() {
            let editor = who == "editor";
            let form = &case[if editor { "editor_edit" } else { "worker_edit" }]["submitted"];
            let form = form.as_object().unwrap().iter();
            let list = form.map(|(at, json)| (path(at), Change::Set(json.clone()))).collect();

            let plan = if editor {
                world.save(&anna(), Seen::Token(&token), &list)
            } else {
                world.save(&Writer::worker("job"), Seen::Record(&loaded), &list)
            };

            let expected = &case["expected"]["steps"][index];
            let id = format!("{} {}: {}", case["id"], who, report_text(&plan));
            let outcome = match plan.verdict {
                Verdict::Apply if editor => {
                    versions += 1;
                    "applied"
                }
                Verdict::Apply => {
                    operations += 1;
                    "applied"
                }
                Verdict::Refuse { code: "conflict", .. } => "conflict_409",
                Verdict::Refuse { code: "stale_input", .. } => {
                    operations += 1;
                    "dropped_stale_input"
                }
                _ => "other",
            };
            assert_eq!(json!(outcome), expected["outcome"], "{id}");
            if let Some(applied) = expected["applied"].as_array() {
                let mut changed: Vec<_> = plan.changed.iter().map(|c| json!(c.path)).collect();
                changed.sort_by_key(Json::to_string);
                assert_eq!(&changed, applied, "{id}");
            }
            for conflict in expected["conflicts"].as_array().into_iter().flatten() {
                let mut told = report_json(&plan)["paths"].as_array().unwrap().clone();
                told.retain(|told| told["decision"] == "conflict");
                assert_eq!(told.len(), 1, "{id}");
                for (key, ours) in
                    [("path", "path"), ("base", "base"), ("mine", "ours"), ("theirs", "theirs")]
                {
                    assert_eq!(conflict[key], told[0][ours], "{id}");
                }
            }
        }
        for (at, json) in case["expected"]["data"].as_object().unwrap() {
            assert!(same_set(&world.get(at), json), "{}: {at}: {}", case["id"], world.get(at));
        }
        assert_eq!(case["expected"]["cms_versions_created"], json!(versions), "{}", case["id"]);
        assert_eq!(case["expected"]["operation_records_written"], json!(operations));
    }
}

fn same_set(a: &Json, b: &Json) -> bool {
    let sorted = |json: &Json| {
        let mut list = json.as_array().cloned().unwrap_or_else(|| vec![json.clone()]);
        list.sort_by_key(Json::to_string);
        list
    };
    sorted(a) == sorted(b)
}

/// The case's own words for strategies and inputs are older than the registry's.
fn registry_of(case: &Json) -> String {
    let mut rules = case["ownership"].clone();
    if let Some(inputs) = case["worker_edit"]["derived_from"].as_object() {
        let group = case["worker_edit"]["group"].as_str().unwrap();
        let fields = rules["system_owned"][group].take();
        let inputs: Vec<_> = inputs.keys().collect();
        rules["system_owned"][group] = json!({ "fields": fields, "derived_from": inputs });
    }
    rules.to_string().replace("counter_delta", "counter")
}
