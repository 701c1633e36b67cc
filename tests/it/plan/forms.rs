//! Forms: what a person changed, what was shown, and what others changed meanwhile.

use super::*;

#[test]
fn a_form_that_sends_everything_back_changes_what_the_person_changed() {
    let mut world = World::with(PRODUCT, [("name", json!("Lamp")), ("thumbnail", json!("t1"))]);
    let token = world.token();
    world.work("thumbnailer", &changes([("thumbnail", json!("t2"))]));

    let form = changes([("name", json!("Desk lamp")), ("thumbnail", json!("t1"))]);
    let (plan, _) = world.edit("anna", &token, &form);

    assert_eq!(refused(&plan), "applied");
    assert_eq!(code(&plan, "thumbnail"), "unchanged");
    assert_eq!((world.get("name"), world.get("thumbnail")), (json!("Desk lamp"), json!("t2")));
    assert_eq!(
        plan.scopes().names().iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["editor"]
    );
    assert!(plan.leased().is_empty());
}

#[test]
fn two_people_on_different_fields_both_succeed_and_on_one_field_they_do_not() {
    let mut world = World::with(PRODUCT, [("name", json!("Lamp")), ("description", json!("A"))]);
    let token = world.token();

    let (first, next) = world.edit("anna", &token, &changes([("name", json!("Lamp 1"))]));
    let (second, _) = world.edit("ben", &token, &changes([("description", json!("B"))]));
    let (third, _) = world.edit(
        "ben",
        &token,
        &changes([("name", json!("Lamp 2")), ("description", json!("C"))]),
    );
    let (own, _) = world.edit("anna", &next, &changes([("name", json!("Lamp 3"))]));

    assert_eq!((refused(&first), refused(&second)), ("applied", "applied"));
    assert_eq!(refused(&third), "conflict");
    let (at, conflict) = third.conflicts().next().unwrap();
    assert_eq!(at, &path("description"));
    assert_eq!(conflict.base, Some(Value::Present(json!("A"))));
    assert_eq!(conflict.theirs, Value::Present(json!("B")));
    assert_eq!(conflict.since.as_ref().unwrap().writer.name.as_ref(), "ben");
    assert_eq!(third.conflicts().count(), 2);
    assert_eq!(refused(&own), "applied", "one's own second save is no conflict");
    assert_eq!(world.get("name"), json!("Lamp 3"));
}

#[test]
fn null_absent_and_a_value_are_three_states() {
    let mut world = World::with(PRODUCT, [("name", json!(null)), ("description", json!("A"))]);
    let token = world.token();
    let unset = |at: &str| BTreeMap::from([(path(at), Change::Unset)]);

    let (same, token) = world.edit("anna", &token, &changes([("name", json!(null))]));
    let (removed, token) = world.edit("anna", &token, &unset("name"));
    let (again, token) = world.edit("anna", &token, &unset("name"));
    let (set, _) = world.edit("anna", &token, &changes([("name", json!(null))]));

    assert_eq!(refused(&same), "nothing");
    assert_eq!(refused(&removed), "applied");
    assert_eq!(refused(&again), "nothing");
    assert_eq!(refused(&set), "applied");
    assert_eq!(world.get("name"), json!(null));
}

#[test]
fn what_a_form_showed_and_did_not_send_is_unset() {
    let world = World::with(PRODUCT, [("name", json!("Lamp")), ("description", json!("on"))]);
    let (anna, token) = (anna(), world.token());
    let list = changes([("name", json!("Lamp"))]);
    let shown = [path("name"), path("description")];

    let without = world.plan(input(&world, &anna, Seen::Token(&token), &list));
    let with =
        world.plan(PlanInput { shown: &shown, ..input(&world, &anna, Seen::Token(&token), &list) });

    assert_eq!(refused(&without), "nothing");
    assert_eq!(with.decision(&path("description")).unwrap().written().unwrap().new, Value::Absent);
    assert_eq!(with.patch, BTreeMap::from([(path("description"), None)]));
}

#[test]
fn shared_fields_compare_with_what_the_form_showed() {
    let mut world = World::with(
        PRODUCT,
        [("stock", json!(5)), ("categories", json!(["carp", "old"])), ("rank", json!(3))],
    );
    let token = world.token();
    world.work(
        "shop",
        &changes([("stock", json!(4)), ("categories", json!(["carp", "old", "trout"]))]),
    );
    world.work("shop", &changes([("rank", json!(7)), ("note", json!("shop"))]));

    let form = changes([
        ("stock", json!(7)),
        ("categories", json!(["carp", "new"])),
        ("rank", json!(5)),
        ("note", json!("mine")),
    ]);
    let (plan, _) = world.edit("anna", &token, &form);

    assert_eq!(refused(&plan), "applied", "{}", report_text(&plan));
    assert_eq!(world.get("stock"), json!(6));
    assert_eq!(world.get("categories"), json!(["carp", "trout", "new"]));
    assert_eq!(world.get("rank"), json!(7));
    assert_eq!(code(&plan, "rank"), "kept");
    match plan.decision(&path("note")) {
        Some(Decision::Merge { written, strategy, .. }) => {
            assert_eq!(strategy, "last_write_wins");
            assert_eq!(written.lost, [Value::Present(json!("shop"))]);
        }
        other => panic!("{other:?}"),
    }
    let groups: BTreeSet<_> = plan.written.keys().map(ToString::to_string).collect();
    assert_eq!(groups, ["shared".to_owned(), "stock".to_owned()].into());
}

#[test]
fn an_old_stock_figure_sent_back_is_no_opinion() {
    let mut world = World::with(PRODUCT, [("stock", json!(2)), ("description", json!("A mug."))]);
    let token = world.token();
    world.work("shop", &changes([("stock", json!(1))]));

    let form = changes([("description", json!("A large mug.")), ("stock", json!(2))]);
    let (plan, _) = world.edit("anna", &token, &form);

    assert_eq!(codes(&plan)["stock"], "unchanged");
    assert_eq!(world.get("stock"), json!(1));
}

#[test]
fn deltas_and_members_need_no_base() {
    let world = World::with(PRODUCT, [("stock", json!(1)), ("categories", json!(["a"]))]);
    let shop = Writer::worker("shop");
    let list = BTreeMap::from([
        (path("stock"), Change::Add(-1)),
        (path("categories"), Change::Include(vec![json!("b")])),
    ]);
    let too_much = BTreeMap::from([(path("stock"), Change::Add(-2))]);

    let plan = world.plan(input(&world, &shop, Seen::Nothing, &list));
    let below = world.plan(input(&world, &shop, Seen::Nothing, &too_much));

    assert_eq!(refused(&plan), "applied");
    assert_eq!(plan.decision(&path("stock")).unwrap().written().unwrap().new, json!(0).into());
    assert_eq!(refused(&below), "conflict");
    assert_eq!(below.conflicts().next().unwrap().1.rule, "below_min");
}
