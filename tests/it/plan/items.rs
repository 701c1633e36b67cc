//! Items of collections, and who makes and removes them.

use super::*;

#[test]
fn a_workers_write_into_a_removed_block_is_dropped_and_never_makes_it_again() {
    let mut world = gallery();
    let claimed = world.snapshot.clone();
    let token = world.token();
    let remove = BTreeMap::from([(path("gallery.a"), Change::Unset)]);
    let (removed, _) = world.edit("anna", &token, &remove);

    let late = changes([("gallery.a.thumb", json!("t")), ("gallery.b.thumb", json!("t"))]);
    let late = world.save(&Writer::worker("m"), Seen::Record(&claimed), &late);

    assert_eq!(refused(&removed), "applied", "{}", report_text(&removed));
    assert_eq!(removed.removed_items, [path("gallery.a")]);
    assert_eq!(code(&removed, "gallery.#keys"), "write");
    assert_eq!(code(&late, "gallery.a.thumb"), "parent_gone");
    assert_eq!(refused(&late), "applied");
    assert_eq!(late.parents, [path("gallery.b")]);
    assert_eq!(world.get("gallery.#keys"), json!(["b"]));
}

#[test]
fn a_persons_write_into_a_block_another_person_removed_is_refused() {
    let mut world = gallery();
    let token = world.token();
    world.edit(
        "ben",
        &token,
        &BTreeMap::from([(path("gallery.#keys"), Change::Set(json!(["b"])))]),
    );

    let (late, _) = world.edit("anna", &token, &changes([("gallery.a.caption", json!("new"))]));
    let (filled, _) =
        world.edit("anna", &token, &changes([("gallery.a.alt@locale=de", json!("new"))]));
    let mut fresh = world.token();
    let (made, next) = world.edit("anna", &fresh, &changes([("gallery.c.caption", json!("new"))]));
    fresh = next;
    let (in_it, _) =
        world.edit("anna", &fresh, &changes([("gallery.c.alt@locale=de", json!("x"))]));

    assert_eq!(refused(&late), "parent_gone", "{}", report_text(&late));
    assert_eq!(refused(&filled), "parent_gone", "a field nobody had filled yet");
    assert_eq!(refused(&made), "applied");
    assert_eq!(code(&made, "gallery.#keys"), "write");
    assert_eq!(world.get("gallery.#keys"), json!(["b", "c"]));
    assert_eq!(codes(&in_it).len(), 1);
}

#[test]
fn two_people_may_each_add_a_block_and_what_a_removal_buries_is_named() {
    let mut world = gallery();
    let token = world.token();
    let keys = |list: Json| changes([("gallery.#keys", list)]);
    world.edit("ben", &token, &keys(json!(["a", "b", "x"])));
    world.edit("ben", &world.token(), &changes([("gallery.a.caption", json!("ben's"))]));

    let (added, _) = world.edit("anna", &token, &keys(json!(["b", "y"])));

    assert_eq!(refused(&added), "applied", "{}", report_text(&added));
    assert_eq!(world.get("gallery.#keys"), json!(["b", "x", "y"]));
    let written = added.decision(&path("gallery.#keys")).unwrap().written().unwrap();
    assert_eq!(written.lost, [Value::Present(json!("ben's"))]);
    assert_eq!(world.get("gallery.y"), json!({}));
}

#[test]
fn workers_do_not_create_blocks_and_creating_a_record_follows_the_same_rules() {
    let world = World::new(GALLERY);
    let seen = world.snapshot.clone();
    let (anna, worker) = (anna(), Writer::worker("m"));
    let list = changes([("gallery.z.thumb", json!("t"))]);

    let plan = world.plan(input(&world, &worker, Seen::Record(&seen), &list));
    let missing = Snapshot::missing(world.snapshot.entity.clone());
    let caption = changes([("gallery.z.caption", json!("t"))]);
    let create = PlanInput {
        intent: Intent::Create,
        ..PlanInput::new(world.rules(), &anna, &missing, &caption)
    };
    let create = plan_of(&create);

    assert_eq!(refused(&plan), "parent_gone");
    assert_eq!(refused(&create), "applied", "{}", report_text(&create));
    assert_eq!(create.patch.len(), 3, "{:?}", create.patch);
}

#[test]
fn a_list_with_item_keys_is_items() {
    let mut world = gallery();
    let token = world.token();
    let list = json!([{"uid": "b", "caption": "B"}, {"uid": "n", "caption": "N"}]);

    let (plan, _) = world.edit("anna", &token, &changes([("gallery", list)]));

    assert_eq!(refused(&plan), "applied", "{}", report_text(&plan));
    assert_eq!(world.get("gallery.#keys"), json!(["b", "n"]));
    assert_eq!(world.get("gallery.#order"), json!(["b", "n"]));
    assert_eq!(world.get("gallery.b.file"), json!("f1"));
    assert_eq!(world.get("gallery.n.caption"), json!("N"));
}

const LOCAL: &str = "
editor_owned: ['tabs.#keys@locale', 'tabs.*.text@locale', 'tabs.*.note@locale']
";

#[test]
fn an_item_removed_on_one_axis_value_goes_with_its_stamps_and_stays_on_the_others() {
    let mut world = World::new(LOCAL);
    let both = changes([
        ("tabs.a.text@locale=de", json!("eins")),
        ("tabs.b.text@locale=de", json!("zwei")),
        ("tabs.a.text@locale=en", json!("one")),
    ]);
    world.edit("ben", &world.token(), &both);
    let token = world.token();
    world.edit("ben", &token, &changes([("tabs.a.text@locale=en", json!("first"))]));
    let remove = changes([("tabs.#keys@locale=de", json!(["b"]))]);

    let (removed, _) = world.edit("ben", &token, &remove);
    let (late, _) = world.edit("anna", &token, &changes([("tabs.a.text@locale=de", json!("x"))]));
    let (empty, _) = world.edit("anna", &token, &changes([("tabs.a.note@locale=de", json!("x"))]));
    let (other, _) = world.edit("anna", &token, &changes([("tabs.a.note@locale=en", json!("x"))]));

    assert_eq!(refused(&removed), "applied", "{}", report_text(&removed));
    assert_eq!(removed.removed_items, [path("tabs.a@locale=de")]);
    let written = removed.decision(&path("tabs.#keys@locale=de")).unwrap().written().unwrap();
    assert!(written.lost.is_empty(), "another language's value is not lost: {:?}", written.lost);
    assert_eq!(world.get("tabs.a.text@locale=de"), json!("-"));
    assert_eq!(world.get("tabs.a.text@locale=en"), json!("first"));
    assert!(!world.snapshot.stamps.contains_key(&path("tabs.a.text@locale=de")));
    assert!(world.snapshot.stamps.contains_key(&path("tabs.a.text@locale=en")));
    // The removal is not undone by a form that had shown the item.
    assert_eq!(refused(&late), "parent_gone", "{}", report_text(&late));
    assert_eq!(refused(&empty), "parent_gone");
    assert_eq!(refused(&other), "applied");
}

#[test]
fn a_value_on_an_axis_inside_an_item_the_same_save_removes_is_a_contradiction() {
    let mut world = gallery();
    let token = world.token();
    let form =
        changes([("gallery.#keys", json!(["b"])), ("gallery.a.alt@locale=de", json!("Bild"))]);

    let (plan, _) = world.edit("anna", &token, &form);

    assert_eq!(refused(&plan), "invalid", "{}", report_text(&plan));
    assert_eq!(code(&plan, "gallery.a.alt@locale=de"), "invalid");
}

#[test]
fn items_shown_on_another_axis_value_are_not_those_shown_here() {
    let mut world = World::new(LOCAL);
    let tabs = changes([
        ("tabs.a.text@locale=de", json!("eins")),
        ("tabs.c.text@locale=en", json!("three")),
    ]);
    world.edit("ben", &world.token(), &tabs);
    let shown = world.snapshot.clone();
    let (token, add) = (world.token(), |keys: Json| changes([("tabs.#keys@locale=de", keys)]));
    world.edit("ben", &token, &add(json!(["a", "d"])));

    let plan = world.save(&anna(), Seen::Record(&shown), &add(json!(["a", "c"])));

    let written = plan.decision(&path("tabs.#keys@locale=de")).unwrap().written().unwrap();
    assert_eq!(written.new, json!(["a", "c", "d"]).into(), "{}", report_text(&plan));
}

#[test]
fn items_whose_leaves_stand_for_themselves_are_items_too() {
    let mut world = World::with(
        "editor_owned: ['tabs.#keys', 'tabs.*.**']",
        [("tabs", json!({"a": {"text": 1}, "b": {"text": 2}}))],
    );
    let token = world.token();
    world.edit("ben", &token, &changes([("tabs.#keys", json!(["b"]))]));

    let (late, _) = world.edit("anna", &token, &changes([("tabs.a.note", json!("x"))]));

    assert_eq!(refused(&late), "parent_gone", "{}", report_text(&late));
}

#[test]
fn what_comes_into_being_by_the_way_stands_in_its_place_among_the_decisions() {
    let mut world = gallery();
    let form = changes([("gallery.#order", json!(["z", "y"])), ("gallery.z.caption", json!("c"))]);
    let more = changes([("gallery.y.caption", json!("c")), ("gallery.z.oops", json!("c"))]);
    let both = form.into_iter().chain(more).collect();

    let (plan, _) = world.edit("anna", &world.token(), &both);

    let told: Vec<_> = plan.decisions.iter().map(|decided| decided.path.as_str()).collect();
    let expected = [
        "gallery.#keys",
        "gallery.#order",
        "gallery.y.caption",
        "gallery.z.caption",
        "gallery.z.oops",
    ];
    assert_eq!(told, expected);
    assert_eq!(code(&plan, "gallery.#keys"), "write");
}
