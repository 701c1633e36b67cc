//! Results computed from inputs.

use super::*;

#[test]
fn a_result_computed_from_an_input_that_moved_is_left_out() {
    let mut world = gallery();
    let claimed = world.snapshot.clone();
    let thumbs = changes([("gallery.a.thumb", json!("ta")), ("gallery.b.thumb", json!("tb"))]);
    world.work("files", &changes([("gallery.a.file", json!("f2"))]));

    let worker = Writer::worker("m");
    let late = world.plan(input(&world, &worker, Seen::Record(&claimed), &thumbs));
    let fields = [path("gallery.a.thumb"), path("gallery.b.thumb")];
    let carried = input_stamps(world.rules(), &claimed, &fields);
    let job =
        PlanInput { inputs: Some(&carried), ..input(&world, &worker, Seen::Nothing, &thumbs) };
    let job = world.plan(job);
    let fresh = world.snapshot.clone();
    let fresh = world.plan(input(&world, &worker, Seen::Record(&fresh), &thumbs));

    for plan in [late, job] {
        assert_eq!(code(&plan, "gallery.a.thumb"), "stale_input", "{}", report_text(&plan));
        assert_eq!(code(&plan, "gallery.b.thumb"), "write", "another item's input");
        assert_eq!(plan.inputs, BTreeMap::from([(path("gallery.b.file"), None)]));
    }
    assert_eq!(codes(&fresh).values().collect::<BTreeSet<_>>(), [&"write"].into());
    assert!(fresh.inputs[&path("gallery.a.file")].is_some());
}

#[test]
fn an_input_that_came_into_being_since_is_one_that_moved() {
    let entity = "
editor_owned: ['gallery.#keys', 'gallery.*.file', 'seo.**', name]
system_owned:
  sheet: {fields: [contact_sheet], derived_from: ['gallery.*.file']}
  words: {fields: [word_count], derived_from: [seo]}
  card: {fields: [card], derived_from: [name]}
";
    let mut world = World::with(entity, [("gallery", json!({"a": {"file": "f"}}))]);
    let claimed = world.snapshot.clone();
    let worker = Writer::worker("w");
    let list =
        changes([("contact_sheet", json!("s")), ("word_count", json!(2)), ("card", json!("c"))]);

    let early = world.plan(input(&world, &worker, Seen::Record(&claimed), &list));
    let token = world.token();
    let more = changes([("gallery.b.file", json!("g")), ("seo.title", json!("T"))]);
    world.edit("anna", &token, &more);
    let late = world.plan(input(&world, &worker, Seen::Record(&claimed), &list));

    // What is written later than the plan is found by the store: it is told where to look.
    let open: Vec<_> = early.input_patterns.iter().map(ToString::to_string).collect();
    assert_eq!(open, ["gallery.*.file", "seo"], "a plain field needs no search");
    assert_eq!(code(&late, "contact_sheet"), "stale_input", "{}", report_text(&late));
    assert_eq!(code(&late, "word_count"), "stale_input");
    assert_eq!(code(&late, "card"), "write");
    assert!(late.input_patterns.is_empty());
}
