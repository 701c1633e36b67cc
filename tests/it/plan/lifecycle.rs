//! Creating, deleting, and rules without effect.

use super::*;

#[test]
fn creating_and_deleting_follow_the_lifecycle() {
    let entity = "
editor_owned: [name]
system_owned: {erp: {fields: [sku], writers: [importer]}}
lifecycle: {create: [editor, erp], delete: [editor]}
";
    let mut world = World::with(entity, [("name", json!("Lamp")), ("sku", json!("s1"))]);
    let (anna, importer) = (anna(), Writer::worker("importer"));
    let (list, nothing) = (changes([("sku", json!("s"))]), BTreeMap::new());
    let missing = Snapshot::missing(world.snapshot.entity.clone());
    let mut gone = world.snapshot.clone();
    gone.deleted_at = Some(fieldlease::clock::StoreTime(1));
    let other = Writer::worker("x");
    let make = |writer, snapshot, intent, list| {
        plan(&PlanInput { intent, ..PlanInput::new(world.rules(), writer, snapshot, list) })
    };

    assert_eq!(refused(&make(&importer, &missing, Intent::Create, &list)), "applied");
    assert_eq!(refused(&make(&anna, &missing, Intent::Create, &nothing)), "applied");
    assert_eq!(refused(&make(&other, &missing, Intent::Create, &list)), "denied");
    assert_eq!(refused(&make(&importer, &world.snapshot, Intent::Create, &list)), "exists");
    assert_eq!(refused(&make(&importer, &missing, Intent::Update, &list)), "not_found");
    assert_eq!(refused(&make(&importer, &gone, Intent::Update, &list)), "gone");
    assert_eq!(refused(&make(&importer, &world.snapshot, Intent::Delete, &nothing)), "denied");

    let token = world.token();
    world.edit("ben", &token, &changes([("name", json!("Ben's"))]));
    let delete = |seen| {
        let base = PlanInput::new(world.rules(), &anna, &world.snapshot, &nothing);
        plan(&PlanInput { intent: Intent::Delete, seen, ..base })
    };
    let stale = delete(Seen::Token(&token));
    let now = world.token();
    let deleted = delete(Seen::Token(&now));

    assert_eq!(refused(&stale), "conflict");
    assert_eq!(refused(&deleted), "applied");
    assert_eq!(deleted.changed.len(), 2);
    world.apply(&deleted);
}

#[test]
fn rules_that_have_no_effect_yet_refuse_every_save() {
    let world = World::new("editor_owned: [name]\nenforcement: observe");
    let (anna, list) = (anna(), changes([("name", json!("x"))]));

    let plan = world.plan(input(&world, &anna, Seen::Nothing, &list));

    assert_eq!(refused(&plan), "not_yet");
}

#[test]
fn a_workers_result_that_moved_does_not_keep_a_person_from_deleting() {
    let entity = "
editor_owned: [name]
system_owned: {erp: [sku]}
lifecycle: {create: [editor], delete: [editor]}
";
    let mut world = World::with(entity, [("name", json!("Lamp"))]);
    let (anna, nothing, token) = (anna(), BTreeMap::new(), world.token());
    world.work("erp", &changes([("sku", json!("s2"))]));

    let base = input(&world, &anna, Seen::Token(&token), &nothing);
    let deleted = plan(&PlanInput { intent: Intent::Delete, ..base });

    assert_eq!(refused(&deleted), "applied", "{}", report_text(&deleted));
}
