//! Claims: the database decides who may write (RULES 10-14, 20, 21).

use serde_json::json;

use crate::{
    commit::{Expect, Refusal},
    entity::{Value, Writer},
    scope::Scope,
    store::Claimed,
    testing::store_suite::{
        Stores, Verdict,
        build::{deletion, path, product, same, save, save_under, scope, text_of, token},
        promises,
    },
    token::{Fence, ScopeVersion},
};

promises![
    a_claim_raises_the_fence_and_leaves_the_version,
    a_claim_sees_the_former_holders_last_commit,
    a_claim_needs_an_entity_that_exists,
    a_claim_under_other_rules_is_refused_and_takes_nothing,
    a_holder_cannot_write_in_the_instant_before_its_successors_first_write,
    a_late_claim_displaces_the_live_holder_who_claims_again_and_sends_the_same,
    a_fence_of_ones_own_former_claim_does_not_write,
    a_token_alone_or_a_fence_alone_does_not_write,
    two_scopes_are_claimed_at_once_and_written_in_one_save,
    one_lost_scope_of_two_refuses_the_whole_save,
    a_broken_claim_is_void_and_nobody_holds_the_scope,
    a_whole_claim_voids_the_claims_of_split_scopes,
    a_whole_claim_leaves_optimistic_saves_alone,
    an_optimistic_save_is_refused_where_somebody_holds_the_scope,
    apply_raises_the_version_and_leaves_fence_and_holder,
];

async fn a_claim_raises_the_fence_and_leaves_the_version(stores: Stores) -> Verdict {
    let seen = stores.made("1", &[("media.width", json!(1))]).await?;
    let media = scope("media")?;

    let first = stores.claimed(&seen.entity, &["media", "search"], token()).await?;
    let second = stores.claimed(&seen.entity, &["media"], token()).await?;

    same("the first fence", first.fences.get(&media), Some(&Fence(1)))?;
    same("the fence of a missing row", first.fences.get(&scope("search")?), Some(&Fence(1)))?;
    same("the second fence", second.fences.get(&media), Some(&Fence(2)))?;
    same("the version", second.snapshot.version(&media), seen.version(&media))?;
    same(
        "the version of a missing row",
        second.snapshot.version(&scope("search")?),
        ScopeVersion(0),
    )?;
    same("the entity fence", second.snapshot.entity_fence, seen.entity_fence)
}

async fn a_claim_sees_the_former_holders_last_commit(stores: Stores) -> Verdict {
    let seen = stores.made("1", &[("media.width", json!(1))]).await?;
    let a = token();
    let claim = stores.claimed(&seen.entity, &["media"], a).await?;
    let commit = save_under(&claim, a, &[("media.width", json!(2))])?;
    let (versions, _) = stores.applied(&commit).await?;

    let next = stores.claimed(&seen.entity, &["media"], token()).await?;

    same("the value", next.snapshot.record.get(&path("media.width")?), Value::Present(json!(2)))?;
    same(
        "the versions",
        Some(&next.snapshot.version(&scope("media")?)),
        versions.get(&scope("media")?),
    )?;
    let stamp = next.snapshot.stamps.get(&path("media.width")?).map(|stamp| stamp.operation);
    same("the stamp", stamp, Some(commit.operation))
}

async fn a_claim_needs_an_entity_that_exists(stores: Stores) -> Verdict {
    let refusal = |claimed| match claimed {
        Claimed::Refused(refusal) => Ok(refusal),
        Claimed::Claimed(claim) => Err(format!("claimed: {claim:?}")),
    };
    let unknown = stores.claim_as(&product("never")?, &["media"], token(), false).await?;
    same("a claim of an unknown id", refusal(unknown)?, Refusal::NotFound)?;
    same(
        "what it left",
        stores.records.load(&product("never")?).await.map_err(text_of)?.is_none(),
        true,
    )?;

    let seen = stores.made("1", &[("media.width", json!(1))]).await?;
    stores.applied(&deletion(&seen)?).await?;
    let deleted = stores.claim_as(&seen.entity, &["media"], token(), true).await?;
    same("a claim of a deleted id", refusal(deleted)?, Refusal::Gone)
}

async fn a_claim_under_other_rules_is_refused_and_takes_nothing(stores: Stores) -> Verdict {
    let seen = stores.made("1", &[("media.width", json!(1))]).await?;
    let a = token();
    let claim = stores.claimed(&seen.entity, &["media"], a).await?;
    let mut ask = crate::store::ClaimAsk {
        scopes: crate::scope::ScopeSet::new(seen.entity.clone(), [scope("media")?]),
        whole: false,
        holder: token(),
        generation: crate::token::Generation([9; 32]),
    };
    let kind = &seen.entity.kind;
    let now = std::time::Duration::ZERO;
    let rules = crate::testing::store_suite::build::RULES;
    stores.rules.activate(kind, None, rules, "rules", now).await.map_err(text_of)?;

    let other = stores.records.claim(&ask).await.map_err(text_of)?;
    same(
        "the answer",
        matches!(other, Claimed::Refused(Refusal::StaleRegistry(active)) if active == rules),
        true,
    )?;

    ask.generation = rules;
    let next = stores.records.claim(&ask).await.map_err(text_of)?;
    let Claimed::Claimed(next) = next else { return Err(format!("not claimed: {next:?}")) };
    let (media, was) = (scope("media")?, claim.fences);
    // One claim and the activation raised it; the refused claim did not.
    let wanted = was.get(&media).map(|fence| fence.next().next());
    same("the fence", next.fences.get(&media).copied(), wanted)
}

async fn a_holder_cannot_write_in_the_instant_before_its_successors_first_write(
    stores: Stores,
) -> Verdict {
    let seen = stores.made("1", &[("media.width", json!(1))]).await?;
    let (a, b) = (token(), token());
    let claim_a = stores.claimed(&seen.entity, &["media"], a).await?;
    let claim_b = stores.claimed(&seen.entity, &["media"], b).await?;

    let late = save_under(&claim_a, a, &[("media.width", json!("a"))])?;
    stores.refused(&late, Refusal::Fenced(vec![scope("media")?])).await?;
    stores.applied(&save_under(&claim_b, b, &[("media.width", json!("b"))])?).await?;

    let after = stores.seen(&seen.entity).await?;
    same("the value", after.record.get(&path("media.width")?), Value::Present(json!("b")))
}

async fn a_late_claim_displaces_the_live_holder_who_claims_again_and_sends_the_same(
    stores: Stores,
) -> Verdict {
    // A was granted and stalled; B was granted and claimed; now A's claim arrives.
    let seen = stores.made("1", &[("media.width", json!(1))]).await?;
    let (a, b) = (token(), token());
    let claim_b = stores.claimed(&seen.entity, &["media"], b).await?;
    stores.claimed(&seen.entity, &["media"], a).await?;

    let displaced = save_under(&claim_b, b, &[("media.width", json!("b"))])?;
    stores.refused(&displaced, Refusal::Fenced(vec![scope("media")?])).await?;
    let again = stores.claimed(&seen.entity, &["media"], b).await?;

    let media = scope("media")?;
    same(
        "the version B computed from",
        again.snapshot.version(&media),
        claim_b.snapshot.version(&media),
    )?;
    stores.applied(&save_under(&again, b, &[("media.width", json!("b"))])?).await?;
    Ok(())
}

async fn a_fence_of_ones_own_former_claim_does_not_write(stores: Stores) -> Verdict {
    let seen = stores.made("1", &[("media.width", json!(1))]).await?;
    let a = token();
    let first = stores.claimed(&seen.entity, &["media"], a).await?;
    stores.claimed(&seen.entity, &["media"], a).await?;

    let late = save_under(&first, a, &[("media.width", json!(2))])?;
    stores.refused(&late, Refusal::Fenced(vec![scope("media")?])).await
}

async fn a_token_alone_or_a_fence_alone_does_not_write(stores: Stores) -> Verdict {
    let seen = stores.made("1", &[("media.width", json!(1))]).await?;
    let (a, media) = (token(), scope("media")?);
    let claim = stores.claimed(&seen.entity, &["media"], a).await?;
    let version = claim.snapshot.version(&media);
    let fence = claim.fences.get(&media).copied().unwrap_or_default();
    let wrong = [
        Expect::Claimed { version, fence, holder: token() },
        Expect::Claimed { version, fence: fence.next(), holder: a },
        Expect::Claimed { version, fence: Fence(0), holder: a },
    ];

    for expect in wrong {
        let mut late = save_under(&claim, a, &[("media.width", json!(2))])?;
        late.scopes.insert(media.clone(), expect);
        stores.refused(&late, Refusal::Fenced(vec![media.clone()])).await?;
    }
    let mut higher = save_under(&claim, a, &[("media.width", json!(2))])?;
    let expect = Expect::Claimed { version: version.next(), fence, holder: a };
    higher.scopes.insert(media.clone(), expect);
    stores.refused(&higher, Refusal::Stale(vec![media])).await
}

async fn two_scopes_are_claimed_at_once_and_written_in_one_save(stores: Stores) -> Verdict {
    let values = [("media.width", json!(1)), ("search.text", json!("x"))];
    let seen = stores.made("1", &values).await?;
    let a = token();

    let claim = stores.claimed(&seen.entity, &["media", "search"], a).await?;
    let values = [("media.width", json!(2)), ("search.text", json!("y"))];
    let (versions, number) = stores.applied(&save_under(&claim, a, &values)?).await?;

    same("the version number of a worker's save", number, None)?;
    let wanted = [(scope("media")?, ScopeVersion(2)), (scope("search")?, ScopeVersion(2))];
    same("the versions", versions, wanted.into_iter().collect())
}

async fn one_lost_scope_of_two_refuses_the_whole_save(stores: Stores) -> Verdict {
    let values = [("media.width", json!(1)), ("search.text", json!("x"))];
    let seen = stores.made("1", &values).await?;
    let a = token();
    let claim = stores.claimed(&seen.entity, &["media", "search"], a).await?;
    stores.claimed(&seen.entity, &["search"], token()).await?;

    let values = [("media.width", json!(2)), ("search.text", json!("y"))];
    let late = save_under(&claim, a, &values)?;
    stores.refused(&late, Refusal::Fenced(vec![scope("search")?])).await
}

async fn a_broken_claim_is_void_and_nobody_holds_the_scope(stores: Stores) -> Verdict {
    let seen = stores.made("1", &[("media.width", json!(1))]).await?;
    let (a, media) = (token(), scope("media")?);
    let claim = stores.claimed(&seen.entity, &["media"], a).await?;

    let of = |entity| Scope { entity, name: media.clone() };
    let fence = stores.records.break_claim(&of(seen.entity.clone())).await.map_err(text_of)?;

    same("the fence", fence, Fence(2))?;
    let late = save_under(&claim, a, &[("media.width", json!(2))])?;
    stores.refused(&late, Refusal::Fenced(vec![media.clone()])).await?;
    // Nobody holds it: an optimistic save would pass.
    stores.applied(&save(&seen, &Writer::worker("w"), &[("media.width", json!(3))])?).await?;
    let unknown = stores.records.break_claim(&of(product("never")?)).await.map_err(text_of)?;
    same("the fence of an unknown id", unknown, Fence(0))?;
    let made = stores.records.load(&product("never")?).await.map_err(text_of)?;
    same("whether breaking made the id", made.is_some(), false)
}

async fn a_whole_claim_voids_the_claims_of_split_scopes(stores: Stores) -> Verdict {
    let seen = stores.made("1", &[("media.width", json!(1))]).await?;
    let (split, whole) = (token(), token());
    let claim = stores.claimed(&seen.entity, &["translation[locale=de]"], split).await?;

    let all = match stores.claim_as(&seen.entity, &["media"], whole, true).await? {
        Claimed::Claimed(claim) => claim,
        Claimed::Refused(refusal) => return Err(format!("refused: {refusal:?}")),
    };

    same("the entity fence", all.snapshot.entity_fence, seen.entity_fence.next())?;
    let german = scope("translation[locale=de]")?;
    let mut late = save_under(&claim, split, &[("translation.name@locale=de", json!("Stuhl"))])?;
    for change in &mut late.changed {
        change.scope = german.clone();
    }
    let expect = crate::testing::store_suite::build::held(&claim, split, &german);
    late.scopes = [(german.clone(), expect)].into_iter().collect();
    stores.refused(&late, Refusal::Fenced(vec![german])).await?;
    stores.applied(&save_under(&all, whole, &[("media.width", json!(2))])?).await?;
    Ok(())
}

async fn a_whole_claim_leaves_optimistic_saves_alone(stores: Stores) -> Verdict {
    let seen = stores.made("1", &[("editor.name", json!("a"))]).await?;
    stores.claim_as(&seen.entity, &["media"], token(), true).await?;

    stores.applied(&save(&seen, &Writer::editor("anna"), &[("editor.name", json!("b"))])?).await?;
    Ok(())
}

async fn an_optimistic_save_is_refused_where_somebody_holds_the_scope(stores: Stores) -> Verdict {
    let seen = stores.made("1", &[("media.width", json!(1))]).await?;
    stores.claimed(&seen.entity, &["media"], token()).await?;

    let save = save(&seen, &Writer::worker("w"), &[("media.width", json!(2))])?;
    stores.refused(&save, Refusal::Fenced(vec![scope("media")?])).await
}

async fn apply_raises_the_version_and_leaves_fence_and_holder(stores: Stores) -> Verdict {
    let seen = stores.made("1", &[("media.width", json!(1))]).await?;
    let (a, media) = (token(), scope("media")?);
    let claim = stores.claimed(&seen.entity, &["media"], a).await?;

    let mut apply = save(&seen, &Writer::worker("sync"), &[("media.height", json!(5))])?;
    apply.scopes.insert(media.clone(), Expect::Unread);
    let (versions, _) = stores.applied(&apply).await?;

    same("the version", versions.get(&media), Some(&ScopeVersion(2)))?;
    let planned = save_under(&claim, a, &[("media.width", json!(2))])?;
    stores.refused(&planned, Refusal::Stale(vec![media.clone()])).await?;
    // The claim is still good: the holder plans again under it.
    let mut again = save_under(&claim, a, &[("media.width", json!(2))])?;
    let fence = claim.fences.get(&media).copied().unwrap_or_default();
    again.scopes.insert(media, Expect::Claimed { version: ScopeVersion(2), fence, holder: a });
    stores.applied(&again).await?;
    let after = stores.seen(&seen.entity).await?;
    same(
        "what both wrote",
        after.record.get(&path("media")?),
        Value::Present(json!({"width": 2, "height": 5})),
    )
}
