//! Forms: tokens, base values, conflicts and the ways out of a refusal.

use std::sync::Arc;

use fieldlease::{
    clock::BoxFuture,
    engine::{Objection, Proposal, Validator, Why},
    entity::{Change, Value},
    error::Result,
    plan::{Decision, ForceRight},
};
use serde_json::json;

use super::support::{File, PRODUCT, created, path, product, refused, saved};

#[tokio::test]
async fn two_editors_on_different_fields_of_one_form_both_succeed() {
    let file = File::new();
    let engine = file.engine().await;
    let chair = product("42");
    let token = created(&engine.editor("anna"), &chair).await;

    let anna = engine.editor("anna").save(&chair).token(token.clone()).set("name", "Armchair");
    let ben = engine.editor("ben").save(&chair).token(token).set("description", "Red");
    let anna = saved(anna.send().await.unwrap());
    let ben = saved(ben.send().await.unwrap());

    assert!(anna.version < ben.version);
    assert_eq!(file.value(&chair, "name").await, json!("Armchair"));
    assert_eq!(file.value(&chair, "description").await, json!("Red"));
    assert_eq!(ben.news.get(&path("name")), Some(&Value::from(json!("Armchair"))));
}

#[tokio::test]
async fn a_whole_form_sent_back_is_reduced_to_what_was_changed_in_it() {
    let file = File::new();
    let engine = file.engine().await;
    let chair = product("42");
    let token = created(&engine.editor("anna"), &chair).await;
    let ben = engine.editor("ben").save(&chair).token(token.clone()).set("name", "Armchair");
    saved(ben.send().await.unwrap());

    let whole = engine.editor("anna").save(&chair).token(token).set("name", "Chair");
    let whole = whole.set("images", vec!["a.jpg", "b.jpg"]).set("description", "Blue");
    saved(whole.send().await.unwrap());

    assert_eq!(file.value(&chair, "name").await, json!("Armchair"));
    assert_eq!(file.value(&chair, "description").await, json!("Blue"));
}

#[tokio::test]
async fn a_conflict_shows_all_three_values_and_is_resolved_with_the_answers_token() {
    let file = File::new();
    let engine = file.engine().await;
    let chair = product("42");
    let token = created(&engine.editor("anna"), &chair).await;
    let ben = engine.editor("ben").save(&chair).token(token.clone()).set("name", "Armchair");
    saved(ben.send().await.unwrap());
    let before = file.counts(&chair).await;

    let anna = engine.editor("anna").save(&chair).token(token).set("name", "Stool");
    let anna = refused(anna.set("description", "Red").send().await.unwrap());

    let plan = anna.plan.unwrap();
    let Some(Decision::Conflict(conflict)) = plan.decision(&path("name")) else {
        panic!("{:?}", plan.decisions)
    };
    assert_eq!(anna.why.code(), "conflict");
    assert_eq!(conflict.base, Some(json!("Chair").into()));
    assert_eq!(conflict.ours, Change::Set(json!("Stool")));
    assert_eq!(conflict.theirs, json!("Armchair").into());
    assert_eq!(&*conflict.since.as_ref().unwrap().writer.name, "ben");
    assert_eq!(file.counts(&chair).await, before);
    assert_eq!(file.value(&chair, "description").await, json!(null));

    let again = engine.editor("anna").save(&chair).token(anna.token.unwrap()).set("name", "Stool");
    saved(again.send().await.unwrap());
    assert_eq!(file.value(&chair, "name").await, json!("Stool"));
}

#[tokio::test]
async fn ones_own_second_save_with_the_answers_token_is_no_conflict() {
    let file = File::new();
    let engine = file.engine().await;
    let chair = product("42");
    let mut token = created(&engine.editor("anna"), &chair).await;

    for name in ["Stool", "Bench", "Stool"] {
        let save = engine.editor("anna").save(&chair).token(token).set("name", name);
        token = saved(save.send().await.unwrap()).token;
    }

    assert_eq!(file.value(&chair, "name").await, json!("Stool"));
}

#[tokio::test]
async fn a_base_the_client_sends_goes_before_the_token() {
    let file = File::new();
    let engine = file.engine().await;
    let chair = product("42");
    created(&engine.editor("anna"), &chair).await;

    let blind = engine.editor("ben").save(&chair).set("name", "Stool").send().await.unwrap();
    let based = engine.editor("ben").save(&chair).set("name", "Stool").base("name", json!("Chair"));

    assert_eq!(refused(blind).why.code(), "conflict");
    saved(based.send().await.unwrap());
}

#[tokio::test]
async fn what_the_form_showed_and_did_not_send_is_removed() {
    let file = File::new();
    let engine = file.engine().await;
    let chair = product("42");
    let token = created(&engine.editor("anna"), &chair).await;

    let save = engine.editor("anna").save(&chair).token(token).set("description", "Red");
    saved(save.shown(["images", "description"]).send().await.unwrap());

    assert_eq!(file.value(&chair, "images").await, json!(null));
    assert_eq!(file.value(&chair, "name").await, json!("Chair"));
}

#[tokio::test]
async fn force_saves_mine_anyway_and_the_reason_stays_in_the_version() {
    let file = File::new();
    let engine = file.engine().await;
    let chair = product("42");
    let token = created(&engine.editor("anna"), &chair).await;
    let ben = engine.editor("ben").save(&chair).token(token.clone()).set("name", "Armchair");
    saved(ben.send().await.unwrap());
    let forced = |session: fieldlease::engine::Session| {
        let save = session.save(&chair).token(token.clone()).set("name", "Stool");
        save.force(["name"], "the catalogue goes to print")
    };

    let without_right = forced(engine.editor("anna").may_force(ForceRight::None));
    let without_reason = engine.editor("anna").save(&chair).set("name", "x").force(["name"], " ");

    assert_eq!(refused(without_right.send().await.unwrap()).why.code(), "conflict");
    assert_eq!(without_reason.send().await.unwrap_err().code(), "reason_missing");
    saved(forced(engine.editor("anna")).send().await.unwrap());
    let newest = &file.history(&chair).await[0];
    assert_eq!(newest.changed[0].old, json!("Armchair").into());
    let fieldlease::commit::Trace::Version { reason, .. } = &newest.trace else {
        panic!("{newest:?}")
    };
    assert_eq!(reason.as_deref(), Some("the catalogue goes to print"));
}

/// A thumbnail needs a name: a rule over two owners.
struct NamedThumbnail;

impl Validator for NamedThumbnail {
    fn validate<'a>(&'a self, proposal: Proposal<'a>) -> BoxFuture<'a, Result<Vec<Objection>>> {
        let has = |at: &str| !proposal.record.get(&path(at)).is_absent();
        let bad = has("thumbnail") && !has("name");
        let objection =
            Objection { path: Some(path("name")), message: "a thumbnail needs a name".to_owned() };
        Box::pin(async move { Ok(bad.then_some(objection).into_iter().collect()) })
    }
}

#[tokio::test]
async fn the_validator_sees_the_merged_record_and_refuses_an_invalid_pair() {
    let file = File::new();
    let engine = file.builder(PRODUCT).validator(Arc::new(NamedThumbnail)).build().await.unwrap();
    let chair = product("42");
    let token = created(&engine.editor("anna"), &chair).await;
    let worker = engine.worker("thumbnailer");
    saved(worker.save(&chair).set("thumbnail", "t.webp").send().await.unwrap());
    let before = file.counts(&chair).await;

    let save = engine.editor("anna").save(&chair).token(token).unset("name").send().await.unwrap();

    let refused = refused(save);
    let Why::Objections(objections) = &refused.why else { panic!("{refused:?}") };
    assert_eq!(objections[0].path, Some(path("name")));
    assert!(refused.token.is_some());
    assert_eq!(file.counts(&chair).await, before);
    assert_eq!(engine.leases(None, None, 10).await.unwrap().0, vec![]);
}

#[tokio::test]
async fn a_dry_run_says_what_a_save_would_do_and_does_nothing() {
    let file = File::new();
    let engine = file.engine().await;
    let chair = product("42");
    let token = created(&engine.editor("anna"), &chair).await;
    let before = file.counts(&chair).await;

    let save = engine.editor("anna").save(&chair).token(token).set("name", "Stool");
    let planned = save.set("thumbnail", "x").plan().await.unwrap();

    assert!(matches!(planned.plan.decision(&path("name")), Some(Decision::Write(_))));
    assert!(matches!(planned.plan.decision(&path("thumbnail")), Some(Decision::Denied { .. })));
    assert_eq!(file.counts(&chair).await, before);
}

#[tokio::test]
async fn mistakes_of_the_call_are_errors_and_write_nothing() {
    let file = File::new();
    let engine = file.builder(PRODUCT).token_secret("secret").build().await.unwrap();
    let chair = product("42");
    let anna = engine.editor("anna");
    created(&anna, &chair).await;
    let other = fieldlease::entity::EntityRef::new("Nothing", "1").unwrap();
    let before = file.counts(&chair).await;

    let cases = [
        (anna.save(&chair).set("name..x", 1), "bad_path"),
        (anna.save(&chair).set("name", 1).set("name", 2), "changed_twice"),
        (anna.save(&chair).set("name", 1).token("1nAAAA"), "token_signature"),
        (anna.save(&other).set("name", 1), "unknown_type"),
        (anna.apply(&chair).set("name", 1), "apply_editor"),
        (engine.worker("w").apply(&chair).set("preview", 1), "inputs_missing"),
    ];

    for (save, code) in cases {
        let error = save.send().await.unwrap_err();
        assert_eq!(error.code(), code, "{error:?}");
    }
    assert_eq!(file.counts(&chair).await, before);
}
