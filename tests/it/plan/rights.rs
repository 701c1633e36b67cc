//! Who may write what, and what force overrides.

use super::*;

#[test]
fn a_person_may_not_write_a_workers_field_and_nothing_else_of_the_save_happens() {
    let mut world = World::with(PRODUCT, [("thumbnail", json!("t1"))]);
    let token = world.token();

    let form =
        changes([("name", json!("Lamp")), ("thumbnail", json!("mine")), ("unknown", json!(1))]);
    let (plan, _) = world.edit("anna", &token, &form);

    assert_eq!(refused(&plan), "denied");
    assert_eq!(code(&plan, "name"), "write");
    let denied = |at: &str| match plan.decision(&path(at)) {
        Some(Decision::Denied { rule, .. }) => *rule,
        other => panic!("{other:?}"),
    };
    assert_eq!(denied("thumbnail"), DenyRule::Owner);
    assert_eq!(denied("unknown"), DenyRule::Unlisted);
    assert_eq!(world.get("name"), json!("-"));
}

#[test]
fn a_workers_denied_paths_are_left_out_and_listed() {
    let world = World::with(PRODUCT, [("name", json!("Lamp"))]);
    let worker = Writer::worker("thumbnailer");
    let seen = world.snapshot.clone();
    let list =
        changes([("name", json!("x")), ("thumbnail", json!("t")), ("price.amount", json!(5))]);
    let only_name = changes([("name", json!("x"))]);
    let same = changes([("name", json!("Lamp"))]);

    let part = world.plan(input(&world, &worker, Seen::Record(&seen), &list));
    let all =
        PlanInput { all_or_nothing: true, ..input(&world, &worker, Seen::Record(&seen), &list) };
    let all = world.plan(all);
    let none = world.plan(input(&world, &worker, Seen::Record(&seen), &only_name));
    let nothing = world.plan(input(&world, &worker, Seen::Record(&seen), &same));

    assert_eq!(refused(&part), "applied");
    assert_eq!(part.left_out(), BTreeMap::from([(path("name"), "denied".to_owned())]));
    assert_eq!(part.leased().names().len(), 2);
    assert_eq!(refused(&all), "denied");
    assert!(all.patch.is_empty());
    assert_eq!(refused(&none), "denied");
    assert_eq!(refused(&nothing), "nothing");
}

#[test]
fn a_group_that_names_its_writers_and_a_credential_keep_others_out() {
    let world = World::new(PRODUCT);
    let list = changes([("thumbnail", json!("t")), ("price.amount", json!(5))]);
    let seen = world.snapshot.clone();
    let groups: BTreeSet<GroupName> = [GroupName::new("media").unwrap()].into();
    let rule = |plan: &Plan, at: &str| match plan.decision(&path(at)) {
        Some(Decision::Denied { rule, .. }) => Some(*rule),
        _ => None,
    };

    let other = Writer::worker("importer");
    let other = world.plan(input(&world, &other, Seen::Record(&seen), &list));
    let own = Writer::worker("thumbnailer");
    let own =
        PlanInput { groups: Some(&groups), ..input(&world, &own, Seen::Record(&seen), &list) };
    let own = world.plan(own);

    assert_eq!(rule(&other, "thumbnail"), Some(DenyRule::Writers));
    assert_eq!(rule(&other, "price.amount"), None);
    assert_eq!(rule(&own, "thumbnail"), None);
    assert_eq!(rule(&own, "price.amount"), Some(DenyRule::Credential));
}

#[test]
fn apply_compares_nothing_in_the_workers_own_group_and_writes_nowhere_else() {
    let mut world = gallery();
    world.work("files", &changes([("gallery.a.file", json!("f2"))]));
    let worker = Writer::worker("m");
    let list = changes([("gallery.a.file", json!("f3")), ("gallery.a.caption", json!("x"))]);
    let thumb = changes([("gallery.a.thumb", json!("t"))]);
    let apply = |mode: Mode, list| {
        world.plan(PlanInput { mode, ..input(&world, &worker, Seen::Nothing, list) })
    };

    let ordered = apply(Mode::Apply { unordered: false }, &list);
    let unordered = apply(Mode::Apply { unordered: true }, &list);
    let unknown = apply(Mode::Apply { unordered: false }, &thumb);

    assert_eq!(refused(&ordered), "invalid");
    assert_eq!(refused(&unordered), "applied");
    assert_eq!(code(&unordered, "gallery.a.caption"), "denied");
    assert!(matches!(
        unknown.decisions[0].decision,
        Decision::Invalid { code: "inputs_missing", .. }
    ));
}

#[test]
fn force_overrides_conflicts_and_with_permission_ownership() {
    let mut world = World::with(PRODUCT, [("name", json!("Lamp")), ("thumbnail", json!("t"))]);
    let token = world.token();
    world.edit("ben", &token, &changes([("name", json!("Ben's"))]));
    let anna = anna();
    let list =
        changes([("name", json!("Anna's")), ("thumbnail", json!("mine")), ("rank", json!(1))]);
    let names = changes([("name", json!("Anna's"))]);
    let force = [path("name"), path("thumbnail")];
    let with = |force_right, list| {
        let base = input(&world, &anna, Seen::Token(&token), list);
        world.plan(PlanInput { force: &force, force_right, ..base })
    };

    let none = with(ForceRight::None, &names);
    let conflicts = with(ForceRight::Conflicts, &names);
    let owner = with(ForceRight::Conflicts, &list);
    let takeover = with(ForceRight::Takeover, &list);

    assert_eq!(refused(&none), "conflict");
    assert_eq!(refused(&conflicts), "applied");
    let written = conflicts.decision(&path("name")).unwrap().written().unwrap();
    assert!(written.forced);
    assert_eq!(written.lost, [Value::Present(json!("Ben's"))]);
    assert_eq!(refused(&owner), "denied");
    assert_eq!(refused(&takeover), "applied");
    assert_eq!(
        takeover.leased().names().iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["media"]
    );
}

#[test]
fn a_conflict_refuses_a_workers_save_as_a_whole() {
    let mut world = World::with(PRODUCT, [("seo", json!("a"))]);
    let claimed = world.snapshot.clone();
    world.edit("anna", &world.token(), &changes([("seo", json!("anna's"))]));
    let list = changes([("seo", json!("b")), ("price.amount", json!(5)), ("name", json!("x"))]);

    let plan = world.save(&Writer::worker("shop"), Seen::Record(&claimed), &list);

    assert_eq!(refused(&plan), "conflict", "a path left out is no reason to write the others");
    assert!(plan.patch.is_empty());
}
