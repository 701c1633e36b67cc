//! Creating, deleting, re-creating: what tokens of a former life are good for.

use fieldlease::commit::Lifecycle;
use serde_json::json;

use super::support::{File, created, product, refused, saved};

#[tokio::test]
async fn a_record_lives_twice_under_one_id_and_never_meets_its_former_numbers() {
    let file = File::new();
    let engine = file.engine().await;
    let chair = product("42");
    let anna = engine.editor("anna");
    let first = created(&anna, &chair).await;
    saved(engine.worker("w").save(&chair).set("thumbnail", "t").send().await.unwrap());

    let twice = anna.create(&chair).set("name", "x").send().await.unwrap();
    let deleted = saved(anna.delete(&chair).token(first.clone()).send().await.unwrap());
    let gone = anna.save(&chair).token(first.clone()).set("name", "x").send().await.unwrap();
    let worker = engine.worker("w").save(&chair).set("thumbnail", "u").send().await.unwrap();
    let loaded = anna.load(&chair).await.unwrap().unwrap();
    let again = saved(anna.create(&chair).set("name", "Bench").send().await.unwrap());
    let former = anna.save(&chair).token(first).set("name", "x").send().await.unwrap();
    let present = anna.save(&chair).token(again.token.clone()).set("name", "Stool").send().await;

    assert_eq!(refused(twice).why.code(), "exists");
    assert_eq!(refused(gone).why.code(), "gone");
    assert_eq!(refused(worker).why.code(), "gone");
    assert!(loaded.deleted_at.is_some() && loaded.fields.is_empty());
    assert_eq!(refused(former).why.code(), "recreated");
    let present = saved(present.unwrap());
    assert!(again.version > deleted.version && present.version > again.version);
    assert_eq!(again.incarnation.0, deleted.incarnation.0 + 1);
    assert_eq!(file.value(&chair, "name").await, json!("Stool"));
    assert_eq!(file.value(&chair, "thumbnail").await, json!(null));
    let lives: Vec<Lifecycle> = file.history(&chair).await.iter().map(|e| e.lifecycle).collect();
    assert_eq!(
        lives,
        [
            Lifecycle::Update,
            Lifecycle::Create,
            Lifecycle::Delete,
            Lifecycle::Update,
            Lifecycle::Create
        ]
    );
}

#[tokio::test]
async fn a_delete_is_refused_when_the_form_showed_something_else() {
    let file = File::new();
    let engine = file.engine().await;
    let chair = product("42");
    let token = created(&engine.editor("anna"), &chair).await;
    let ben = engine.editor("ben").save(&chair).token(token.clone()).set("name", "Bench");
    saved(ben.send().await.unwrap());

    let delete = engine.editor("anna").delete(&chair).token(token).send().await.unwrap();

    let refused = refused(delete);
    assert_eq!(refused.why.code(), "conflict");
    assert_eq!(file.value(&chair, "name").await, json!("Bench"));
    let seen = engine.editor("anna").delete(&chair).token(refused.token.unwrap());
    saved(seen.send().await.unwrap());
}

#[tokio::test]
async fn workers_neither_create_nor_delete_unless_the_registry_says_so() {
    let file = File::new();
    let engine = file.engine().await;
    let worker = engine.worker("importer");
    let chair = product("42");

    let create = worker.create(&chair).set("thumbnail", "t").send().await.unwrap();
    let nothing = worker.save(&chair).set("thumbnail", "t").send().await.unwrap();
    created(&engine.editor("anna"), &chair).await;
    let delete = worker.delete(&chair).send().await.unwrap();

    assert_eq!(refused(create).why.code(), "denied");
    assert_eq!(refused(nothing).why.code(), "not_found");
    assert_eq!(refused(delete).why.code(), "denied");
}

#[tokio::test]
async fn a_delete_waits_for_nobody_under_policy_fail_and_shuts_later_holders_out() {
    let file = File::new();
    let engine = file.engine().await;
    let chair = product("42");
    let anna = engine.editor("anna");
    created(&anna, &chair).await;
    let worker = engine.worker("thumbnailer");
    let claim = match worker.claim(&chair, ["media"]).send().await.unwrap() {
        fieldlease::engine::Claiming::Claimed(claim) => claim,
        other => panic!("{other:?}"),
    };

    let fail = fieldlease::registry::OnBusy::Fail;
    let busy = anna.delete(&chair).on_busy(fail).send().await.unwrap();
    let held = engine.leases(Some(&chair), None, 10).await.unwrap().0;
    claim.release().await;
    saved(anna.delete(&chair).on_busy(fail).send().await.unwrap());

    assert_eq!(busy.code(), "busy");
    assert_eq!(held.len(), 1);
    assert_eq!(&*held[0].label, "thumbnailer");
    assert_eq!(engine.leases(Some(&chair), None, 10).await.unwrap().0, vec![]);
}
