//! The rules in force (RULES 29).

use std::time::Duration;

use serde_json::json;

use crate::{
    commit::Refusal,
    entity::Writer,
    testing::store_suite::{
        Stores, Verdict,
        build::{RULES, same, save, save_under, scope, text_of, token},
        promises,
    },
    token::Generation,
};

promises![
    without_rules_in_the_store_nothing_is_compared,
    rules_are_replaced_only_if_those_expected_are_in_force,
    a_save_under_other_rules_is_refused,
    old_rules_are_refused_at_once_and_new_ones_until_they_take_effect,
    the_same_rules_again_replace_the_text_and_stop_nobody,
    other_rules_end_every_claim_of_the_type,
];

const NEW: Generation = Generation([2; 32]);
const NOW: Duration = Duration::ZERO;
const HOUR: Duration = Duration::from_secs(3_600);

async fn without_rules_in_the_store_nothing_is_compared(stores: Stores) -> Verdict {
    let seen = stores.made("1", &[("editor.name", json!("a"))]).await?;
    let active = stores.rules.active(&seen.entity.kind).await.map_err(text_of)?;
    same("the rules", active, None)?;

    let mut other = save(&seen, &Writer::editor("anna"), &[("editor.name", json!("b"))])?;
    other.generation = NEW;
    stores.applied(&other).await?;
    Ok(())
}

async fn rules_are_replaced_only_if_those_expected_are_in_force(stores: Stores) -> Verdict {
    let seen = stores.made("1", &[("editor.name", json!("a"))]).await?;
    let kind = &seen.entity.kind;
    let steps = [
        (Some(RULES), NEW, "two", false),
        (None, RULES, "one", true),
        (None, NEW, "two", false),
        (Some(NEW), NEW, "two", false),
        (Some(RULES), NEW, "two", true),
    ];

    for (was, generation, text, wanted) in steps {
        let done =
            stores.rules.activate(kind, was, generation, text, NOW).await.map_err(text_of)?;
        same(&format!("{was:?} to {generation:?}"), done, wanted)?;
    }
    let active = stores.rules.active(kind).await.map_err(text_of)?;
    same("the rules", active, Some((NEW, "two".to_owned())))
}

async fn a_save_under_other_rules_is_refused(stores: Stores) -> Verdict {
    let seen = stores.made("1", &[("editor.name", json!("a"))]).await?;
    let kind = &seen.entity.kind;
    stores.rules.activate(kind, None, NEW, "two", NOW).await.map_err(text_of)?;

    let old = save(&seen, &Writer::editor("anna"), &[("editor.name", json!("b"))])?;
    stores.refused(&old, Refusal::StaleRegistry(NEW)).await?;
    let mut new = save(&seen, &Writer::editor("anna"), &[("editor.name", json!("b"))])?;
    new.generation = NEW;
    stores.applied(&new).await?;
    Ok(())
}

async fn old_rules_are_refused_at_once_and_new_ones_until_they_take_effect(
    stores: Stores,
) -> Verdict {
    let seen = stores.made("1", &[("editor.name", json!("a"))]).await?;
    let kind = &seen.entity.kind;
    stores.rules.activate(kind, None, RULES, "one", NOW).await.map_err(text_of)?;
    stores.rules.activate(kind, Some(RULES), NEW, "two", HOUR).await.map_err(text_of)?;

    let old = save(&seen, &Writer::editor("anna"), &[("editor.name", json!("b"))])?;
    let mut new = old.clone();
    new.operation = crate::testing::store_suite::build::operation();
    new.generation = NEW;
    stores.refused(&old, Refusal::StaleRegistry(NEW)).await?;
    // The answer names the caller's own rules: they are not in effect yet.
    stores.refused(&new, Refusal::StaleRegistry(NEW)).await
}

async fn the_same_rules_again_replace_the_text_and_stop_nobody(stores: Stores) -> Verdict {
    let seen = stores.made("1", &[("media.width", json!(1))]).await?;
    let kind = &seen.entity.kind;
    stores.rules.activate(kind, None, RULES, "one", NOW).await.map_err(text_of)?;
    let a = token();
    let claim = stores.claimed(&seen.entity, &["media"], a).await?;

    stores.rules.activate(kind, Some(RULES), RULES, "one # note", HOUR).await.map_err(text_of)?;

    let active = stores.rules.active(kind).await.map_err(text_of)?;
    same("the rules", active, Some((RULES, "one # note".to_owned())))?;
    stores.applied(&save_under(&claim, a, &[("media.width", json!(2))])?).await?;
    Ok(())
}

async fn other_rules_end_every_claim_of_the_type(stores: Stores) -> Verdict {
    let seen = stores.made("1", &[("media.width", json!(1))]).await?;
    let kind = &seen.entity.kind;
    stores.rules.activate(kind, None, RULES, "one", NOW).await.map_err(text_of)?;
    let a = token();
    let claim = stores.claimed(&seen.entity, &["media"], a).await?;
    stores.rules.activate(kind, Some(RULES), NEW, "two", NOW).await.map_err(text_of)?;

    let mut held = save_under(&claim, a, &[("media.width", json!(2))])?;
    held.generation = NEW;
    stores.refused(&held, Refusal::Fenced(vec![scope("media")?])).await?;
    // The group is optimistic now: nobody holds it.
    let mut free = save(&seen, &Writer::worker("w"), &[("media.width", json!(3))])?;
    free.generation = NEW;
    stores.applied(&free).await?;
    Ok(())
}
