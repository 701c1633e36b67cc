//! Creating, deleting, creating again (RULES 28).

use serde_json::json;

use crate::{
    commit::{Committed, Expect, Lifecycle, Refusal},
    entity::{Value, Writer},
    testing::store_suite::{
        Stores, Verdict,
        build::{
            creation, deletion, path, product, same, save, save_under, scope, text_of, token,
            trace_of,
        },
        promises,
    },
    token::{Fence, Incarnation, ScopeVersion, VersionNumber},
};

promises![
    an_id_is_created_once,
    a_save_of_an_unknown_id_is_not_found,
    deleting_takes_values_and_stamps_and_keeps_the_numbers,
    a_deleted_entity_takes_no_save,
    a_recreated_id_meets_no_old_plan_claim_or_number,
    a_worker_creates_without_a_version,
    a_failed_creation_leaves_no_row,
];

async fn an_id_is_created_once(stores: Stores) -> Verdict {
    let entity = product("1")?;
    let commit = creation(&entity, None, &[("editor.name", json!("a"))])?;
    let answer = stores.commit(&commit).await?;

    let wanted = Committed::Applied {
        versions: [(scope("editor")?, ScopeVersion(1))].into_iter().collect(),
        number: Some(VersionNumber(1)),
        incarnation: Incarnation(1),
    };
    same("the answer", answer, wanted)?;
    let again = creation(&entity, None, &[("editor.name", json!("b"))])?;
    stores.refused(&again, Refusal::Exists).await?;
    let mut planned_on_it = creation(&entity, None, &[("editor.name", json!("b"))])?;
    planned_on_it.incarnation = Incarnation(1);
    stores.refused(&planned_on_it, Refusal::Exists).await
}

async fn a_save_of_an_unknown_id_is_not_found(stores: Stores) -> Verdict {
    let mut update = creation(&product("never")?, None, &[("editor.name", json!("a"))])?;
    update.lifecycle = Lifecycle::Update;
    stores.refused(&update, Refusal::NotFound).await?;
    update.lifecycle = Lifecycle::Delete;
    stores.refused(&update, Refusal::NotFound).await
}

async fn deleting_takes_values_and_stamps_and_keeps_the_numbers(stores: Stores) -> Verdict {
    let values = [("editor.name", json!("a")), ("media.width", json!(1))];
    let seen = stores.made("1", &values).await?;
    let claim = stores.claimed(&seen.entity, &["search"], token()).await?;
    let mut delete = deletion(&seen)?;
    delete.scopes.remove(&scope("media")?);

    let (versions, number) = stores.applied(&delete).await?;

    same("the number", number, Some(VersionNumber(2)))?;
    let raised = [("editor", 2), ("media", 2), ("search", 1)];
    for (name, version) in raised {
        same(name, versions.get(&scope(name)?), Some(&ScopeVersion(version)))?;
    }
    let after = stores.seen(&seen.entity).await?;
    same("deleted", after.deleted_at.is_some(), true)?;
    same("values", after.record.is_empty(), true)?;
    same("stamps", after.stamps.is_empty(), true)?;
    same("versions", after.versions, versions)?;
    same("incarnation", after.incarnation, Incarnation(1))?;
    same("entity fence", after.entity_fence > claim.snapshot.entity_fence, true)?;
    let entries = stores.entries(&seen.entity).await?;
    let kept = stores.history.version(&seen.entity, VersionNumber(2)).await.map_err(text_of)?;
    same("the entries", entries.len(), 2)?;
    same("the restorable version", kept.map(|entry| entry.trace), Some(delete.trace))
}

async fn a_deleted_entity_takes_no_save(stores: Stores) -> Verdict {
    let seen = stores.made("1", &[("editor.name", json!("a"))]).await?;
    let a = token();
    let claim = stores.claimed(&seen.entity, &["media"], a).await?;
    // The row of `media` is made by the claim: what the deletion was planned on knows nothing of it.
    stores.applied(&deletion(&seen)?).await?;

    let editors = save(&seen, &Writer::editor("anna"), &[("editor.name", json!("b"))])?;
    let workers = save_under(&claim, a, &[("media.width", json!(1))])?;
    let mut applies = save(&seen, &Writer::worker("w"), &[("media.width", json!(1))])?;
    applies.scopes.insert(scope("media")?, Expect::Unread);

    stores.refused(&editors, Refusal::Gone).await?;
    stores.refused(&workers, Refusal::Gone).await?;
    stores.refused(&applies, Refusal::Gone).await?;
    stores.refused(&deletion(&seen)?, Refusal::Gone).await
}

async fn a_recreated_id_meets_no_old_plan_claim_or_number(stores: Stores) -> Verdict {
    let values = [("editor.name", json!("a")), ("media.width", json!(1))];
    let seen = stores.made("1", &values).await?;
    let a = token();
    let claim = stores.claimed(&seen.entity, &["media"], a).await?;
    let mut delete = deletion(&seen)?;
    delete.scopes.remove(&scope("media")?);
    stores.applied(&delete).await?;
    let tombstone = stores.seen(&seen.entity).await?;

    let blind = creation(&seen.entity, None, &[("editor.name", json!("z"))])?;
    stores.refused(&blind, Refusal::Recreated).await?;
    let create = creation(&seen.entity, Some(&tombstone), &[("editor.name", json!("b"))])?;
    let (versions, number) = stores.applied(&create).await?;

    same("the version goes on", versions.get(&scope("editor")?), Some(&ScopeVersion(3)))?;
    same("the number goes on", number, Some(VersionNumber(3)))?;
    let after = stores.seen(&seen.entity).await?;
    same("the incarnation", after.incarnation, Incarnation(2))?;
    same("the old values", after.record.get(&path("media.width")?), Value::Absent)?;
    same("deleted", after.deleted_at, None)?;
    let old = save(&seen, &Writer::editor("anna"), &[("editor.name", json!("c"))])?;
    stores.refused(&old, Refusal::Recreated).await?;
    // Even one that knows the incarnation does not get through on the old claim.
    let mut late = save_under(&claim, a, &[("media.width", json!(2))])?;
    late.incarnation = after.incarnation;
    late.entity_fence = after.entity_fence;
    stores.refused(&late, Refusal::Fenced(vec![scope("media")?])).await?;
    let next = stores.claimed(&seen.entity, &["media"], token()).await?;
    same(
        "the fence",
        next.fences.get(&scope("media")?).is_some_and(|fence| *fence > Fence(1)),
        true,
    )
}

async fn a_worker_creates_without_a_version(stores: Stores) -> Verdict {
    let mut create = creation(&product("1")?, None, &[("media.width", json!(1))])?;
    create.writer = Writer::worker("import");
    create.trace = trace_of(&create.writer, &crate::record::Record::new());

    let (_, number) = stores.applied(&create).await?;

    same("the number", number, None)?;
    let seen = stores.seen(&product("1")?).await?;
    same("the newest version", seen.number, VersionNumber(0))?;
    same("the entries", stores.entries(&seen.entity).await?.len(), 1)
}

async fn a_failed_creation_leaves_no_row(stores: Stores) -> Verdict {
    let entity = product("1")?;
    let mut create = creation(&entity, None, &[("editor.name", json!("a"))])?;
    create.parents = vec![path("gallery.a")?];
    stores.refused(&create, Refusal::ParentGone(vec![path("gallery.a")?])).await?;

    same("the entity", stores.records.load(&entity).await.map_err(text_of)?.is_none(), true)
}
