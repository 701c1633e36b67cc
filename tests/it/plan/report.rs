//! The report as text and JSON.

use super::*;

#[test]
fn a_conflict_reads_as_a_person_would_want_it() {
    let mut world = World::with(
        PRODUCT,
        [("name", json!("Lamp")), ("seo", json!("Spring sale | Shop")), ("stock", json!(5))],
    );
    let token = world.token();
    world.work("seo-suggest", &changes([("seo", json!("Up to 30 % off")), ("stock", json!(4))]));
    let form = changes([
        ("name", json!("Desk lamp")),
        ("seo", json!("Spring sale 2026 | Shop")),
        ("stock", json!(7)),
        ("thumbnail", json!("mine")),
    ]);

    let (plan, _) = world.edit("anna", &token, &form);

    golden("conflict.txt", &report_text(&plan));
    let json = serde_json::to_string_pretty(&report_json(&plan)).unwrap();
    golden("conflict.json", &format!("{json}\n"));
}

#[test]
fn an_applied_save_reads_as_what_would_change() {
    let mut world = gallery();
    let token = world.token();
    world.edit("ben", &token, &changes([("gallery.a.caption", json!("ben's"))]));
    let form = BTreeMap::from([
        (path("gallery.a"), Change::Unset),
        (path("gallery.b.caption"), Change::Set(json!("c2"))),
    ]);

    let (plan, _) = world.edit("anna", &token, &form);

    golden("applied.txt", &report_text(&plan));
    let json = serde_json::to_string_pretty(&report_json(&plan)).unwrap();
    golden("applied.json", &format!("{json}\n"));
}

/// Compares with a committed file; `GOLDEN=write` writes it anew.
fn golden(name: &str, text: &str) {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/plan").join(name);
    if std::env::var("GOLDEN").as_deref() == Ok("write") {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&file).unwrap_or_default(), "{}", file.display());
}

#[test]
fn a_base_nobody_knows_is_told_apart_from_one_that_was_absent() {
    let world = World::with(PRODUCT, [("name", json!("Lamp"))]);
    let (anna, list) = (anna(), changes([("name", json!("x"))]));
    let absent = BTreeMap::from([(path("name"), Value::Absent)]);

    let unknown = world.plan(input(&world, &anna, Seen::Nothing, &list));
    let absent = PlanInput { sent_bases: &absent, ..input(&world, &anna, Seen::Nothing, &list) };
    let absent = world.plan(absent);

    let told = |plan: &Plan| report_json(plan)["paths"][0].clone();
    assert_eq!(
        (told(&unknown)["base_known"].clone(), told(&unknown).get("base")),
        (json!(false), None)
    );
    assert_eq!((told(&absent).get("base_known"), told(&absent).get("base")), (None, None));
}
