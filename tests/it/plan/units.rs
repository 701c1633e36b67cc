//! Values above and below units.

use super::*;

#[test]
fn a_map_above_units_is_split_and_parts_of_a_unit_are_one_value() {
    let entity = "
editor_owned: [size, 'seo.**']
system_owned: {erp: [size.weight, price.amount, price.currency]}
";
    let mut world = World::with(entity, [("size", json!({"w": 1, "h": 2, "weight": 9}))]);
    let token = world.token();

    let form = changes([
        ("size", json!({"w": 5, "h": 2, "weight": 9})),
        ("seo", json!({"a": 1, "b": {"c": 2}})),
    ]);
    let (split, token2) = world.edit("anna", &token, &form);
    let part = changes([("size.h", json!(7))]);
    let (part, _) = world.edit("anna", &token2, &part);
    let (stale, _) = world.edit("ben", &token2, &changes([("size.w", json!(8))]));

    assert_eq!(refused(&split), "applied", "{}", report_text(&split));
    assert_eq!(
        codes(&split).keys().map(String::as_str).collect::<Vec<_>>(),
        ["seo.a", "seo.b.c", "size", "size.weight"]
    );
    assert_eq!(codes(&split)["size.weight"], "unchanged");
    assert_eq!(refused(&part), "applied");
    assert_eq!(world.get("size"), json!({"w": 5, "h": 7, "weight": 9}));
    assert_eq!(refused(&stale), "conflict", "one value, two writers");
    assert_eq!(code(&stale, "size"), "conflict");
}

#[test]
fn a_scalar_or_removal_above_units_needs_the_right_to_all_of_them() {
    let entity = "
editor_owned: [seo.title, seo.slug, size]
system_owned: {erp: [size.weight]}
";
    let mut world = World::with(
        entity,
        [("seo", json!({"title": "a", "slug": "b"})), ("size", json!({"w": 1, "weight": 9}))],
    );
    let token = world.token();
    let unset = |at: &str| BTreeMap::from([(path(at), Change::Unset)]);

    let (all, token) = world.edit("anna", &token, &unset("seo"));
    let (denied, _) = world.edit("anna", &token, &unset("size"));
    let (null, _) = world.edit("anna", &token, &changes([("size", json!(null))]));

    assert_eq!(refused(&all), "applied", "{}", report_text(&all));
    assert_eq!(codes(&all).len(), 2);
    assert_eq!(world.get("seo"), json!("-"), "{:?}", all.patch);
    for plan in [denied, null] {
        assert!(matches!(
            plan.decision(&path("size")),
            Some(Decision::Denied { rule: DenyRule::Below, .. })
        ));
    }
}

#[test]
fn a_removal_of_leaves_that_stand_for_themselves_takes_them_all() {
    let mut world =
        World::with("editor_owned: ['seo.**']", [("seo", json!({"a": 1, "b": {"c": 2}}))]);
    let token = world.token();

    let (plan, _) = world.edit("anna", &token, &BTreeMap::from([(path("seo"), Change::Unset)]));

    assert_eq!(refused(&plan), "applied");
    assert!(world.snapshot.record.is_empty(), "{:?}", world.snapshot.record);
}

#[test]
fn requests_that_contradict_themselves_are_invalid() {
    let entity = "
editor_owned: [images, alt@locale, seo.title, 'gallery.*.caption', 'gallery.#keys']
collections: {gallery: uid}
";
    let world = World::with(entity, [("images", json!({"a": 1})), ("seo", json!("text"))]);
    let (anna, token) = (anna(), world.token());
    let set = |at: &str, json: Json| (path(at), Change::Set(json));
    let cases = [
        ("overlapping_changes", vec![set("images", json!({"a": 2})), set("images.a", json!(3))]),
        ("axis_required", vec![set("alt", json!("x"))]),
        ("marker_below_unit", vec![set("images.#keys", json!(["b"]))]),
        ("not_a_map", vec![set("seo.title", json!("x"))]),
        ("keys_not_a_list", vec![set("gallery.#keys", json!([1]))]),
        ("item_key_twice", vec![set("gallery", json!([{"uid": 1}, {"uid": "1"}]))]),
        ("not_a_unit", vec![(path("gallery"), Change::Add(1))]),
    ];
    for (expected, list) in cases {
        let list = list.into_iter().collect();

        let plan = world.plan(input(&world, &anna, Seen::Token(&token), &list));

        let found = plan.decisions.iter().filter_map(|decided| match &decided.decision {
            Decision::Invalid { code, .. } => Some(*code),
            _ => None,
        });
        assert_eq!(found.collect::<Vec<_>>(), [expected], "{plan:?}");
        assert_eq!(refused(&plan), "invalid");
    }
}

#[test]
fn a_value_above_units_does_not_bury_what_came_into_being_below_it() {
    let mut world = World::new("editor_owned: ['seo.**']");
    let token = world.token();
    world.edit("ben", &token, &changes([("seo.b.c", json!("ben's"))]));
    let form = changes([("seo", json!({"b": null}))]);

    let (late, _) = world.edit("anna", &token, &form);
    let stored = world.get("seo.b.c");
    let token = world.token();
    let (seen, _) = world.edit("anna", &token, &form);

    assert_eq!(refused(&late), "conflict", "{}", report_text(&late));
    let (at, conflict) = late.conflicts().next().unwrap();
    assert_eq!((at.as_str(), conflict.rule), ("seo.b", "created_below"));
    assert_eq!(conflict.at, ["c"]);
    assert_eq!(stored, json!("ben's"));
    assert_eq!(refused(&seen), "applied", "{}", report_text(&seen));
    assert_eq!(world.get("seo"), json!({"b": null}));
}

#[test]
fn the_nodes_above_a_value_are_written_with_it() {
    let mut world = World::new("editor_owned: ['seo.**']");

    let (plan, _) = world.edit("anna", &world.token(), &changes([("seo.b.c", json!(1))]));

    let node = || Some(json!({}));
    let expected = [("seo", node()), ("seo.b", node()), ("seo.b.c", Some(json!(1)))];
    assert_eq!(plan.patch, expected.map(|(at, leaf)| (path(at), leaf)).into());
}
