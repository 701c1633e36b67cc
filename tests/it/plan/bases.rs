//! What the writer had been shown, and tokens.

use super::*;

#[test]
fn without_a_token_only_what_nobody_wrote_before_is_known() {
    let mut world = World::with(PRODUCT, [("name", json!("Lamp"))]);
    world.edit("ben", &world.token(), &changes([("images", json!([1]))]));
    world.edit("ben", &world.token(), &BTreeMap::from([(path("images"), Change::Unset)]));
    let anna = anna();
    let list = changes([("name", json!("x")), ("description", json!("y")), ("images", json!([2]))]);
    let sent = BTreeMap::from([
        (path("name"), Value::Present(json!("Lamp"))),
        (path("images"), Value::Absent),
    ]);

    let plan = world.plan(input(&world, &anna, Seen::Nothing, &list));
    let with = PlanInput { sent_bases: &sent, ..input(&world, &anna, Seen::Nothing, &list) };
    let with = world.plan(with);

    let unknown: Vec<_> = plan.conflicts().map(|(at, c)| (at.to_string(), c.rule)).collect();
    assert_eq!(
        unknown,
        [("images".to_owned(), "base_unknown"), ("name".to_owned(), "base_unknown")]
    );
    assert_eq!(code(&plan, "description"), "write");
    assert_eq!(refused(&with), "applied");
}

#[test]
fn a_base_the_history_forgot_is_unknown_and_one_it_knows_is_asked_for_once() {
    let mut world = World::with(PRODUCT, [("name", json!("Lamp")), ("description", json!("A"))]);
    let token = world.token();
    world.edit("ben", &token, &changes([("name", json!("Lamp 1"))]));
    let (anna, list) = (anna(), changes([("name", json!("Lamp")), ("description", json!("B"))]));
    let forgotten = BTreeMap::from([(path("name"), None)]);
    let known = BTreeMap::from([(path("name"), Some(json!("Lamp").into()))]);
    let base = input(&world, &anna, Seen::Token(&token), &list);

    let queries = needed_bases(&base);
    let without = plan(&PlanInput { fetched_bases: &forgotten, ..base.clone() });
    let with = plan(&PlanInput { fetched_bases: &known, ..base.clone() });

    assert_eq!(queries.len(), 1);
    assert_eq!((queries[0].path.as_str(), queries[0].version), ("name", ScopeVersion(0)));
    assert_eq!(refused(&without), "conflict");
    assert_eq!(without.conflicts().next().unwrap().1.rule, "base_unknown");
    assert_eq!(refused(&with), "applied");
    assert_eq!(code(&with, "name"), "unchanged");
}

#[test]
fn a_stamp_from_another_scope_counts_as_newer_than_any_token() {
    let mut world = World::with(PRODUCT, [("name", json!("Lamp"))]);
    world.edit("ben", &world.token(), &changes([("name", json!("Lamp 1"))]));
    let stamp = world.snapshot.stamps.get_mut(&path("name")).unwrap();
    stamp.scope = fieldlease::scope::ScopeName::parse("former").unwrap();
    let token = world.token();

    let (plan, _) = world.edit("anna", &token, &changes([("name", json!("Lamp 2"))]));

    assert_eq!(plan.conflicts().next().unwrap().1.rule, "base_unknown");
}

#[test]
fn tokens_of_other_records_and_from_the_future_are_refused() {
    let mut world = World::with(PRODUCT, [("name", json!("Lamp"))]);
    let list = changes([("name", json!("x"))]);
    let mut ahead = world.token();
    ahead.versions.insert(fieldlease::scope::ScopeName::parse("editor").unwrap(), ScopeVersion(1));
    let mut other = world.token();
    other.entity = fieldlease::entity::EntityRef::new("P", "2").unwrap();
    let old = world.token();

    let (ahead, _) = world.edit("anna", &ahead, &list);
    let (other, _) = world.edit("anna", &other, &list);
    world.snapshot.incarnation = Incarnation(2);
    let (recreated, _) = world.edit("anna", &old, &list);

    assert_eq!(refused(&ahead), "token_ahead");
    assert_eq!(refused(&other), "other_entity");
    assert_eq!(refused(&recreated), "recreated");
}

#[test]
fn an_answer_carries_what_its_token_says_was_seen() {
    let mut world = World::with(PRODUCT, [("name", json!("Lamp")), ("stock", json!(5))]);
    let token = world.token();
    world.edit("ben", &token, &changes([("description", json!("Ben's"))]));
    world.work("shop", &changes([("stock", json!(4))]));
    let anna = anna();
    let list = changes([("name", json!("Desk lamp")), ("stock", json!(7))]);
    let before = input(&world, &anna, Seen::Token(&token), &list);

    let plan = world.plan(before.clone());
    let news = news(&before, &plan);

    let expected = [(path("description"), json!("Ben's").into()), (path("stock"), json!(6).into())];
    assert_eq!(news, BTreeMap::from(expected));
}

#[test]
fn the_next_token_is_the_snapshot_with_what_the_commit_raised() {
    let world = World::new(PRODUCT);
    let editor = fieldlease::scope::ScopeName::parse("editor").unwrap();
    let raised = BTreeMap::from([(editor.clone(), ScopeVersion(4))]);

    let next = next_token(&world.snapshot, world.rules().generation, &raised, Incarnation(1));

    assert_eq!(next.versions, raised);
    assert_eq!(token_of(&world.snapshot, next.generation).versions, BTreeMap::new());
}
