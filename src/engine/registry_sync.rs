//! The rules in force: compared at the start, followed afterwards (RULES 29).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{
    engine::{OnChangedRegistry, Store},
    entity::EntityType,
    error::{Error, Result},
    mapping::Layout,
    registry::{self, EntityRules, Limits, Registry, raw::RawRegistry},
    strategy::Strategies,
    token::Generation,
};

/// How often an activation is tried when other processes activate at the same time.
const ACTIVATE_TRIALS: u32 = 3;

/// What a start needs to know about its own rules.
pub(super) struct Own<'a> {
    pub registry: &'a Registry,
    pub source: Option<&'a str>,
    pub strategies: &'a Strategies,
    pub what: OnChangedRegistry,
    pub delay: Duration,
}

/// What a start leaves the engine with.
pub(super) struct Started {
    /// The rules taken from the store.
    pub followed: BTreeMap<EntityType, Arc<EntityRules>>,
    /// Where records of mapped types lie.
    pub layouts: BTreeMap<EntityType, Arc<Layout>>,
}

/// Compares every type's rules with those in force, and puts ours in force or takes theirs as told.
pub(super) async fn at_start(store: &dyn Store, own: &Own<'_>) -> Result<Started> {
    let raw = own.source.and_then(|text| registry::read(text.as_bytes(), &Limits::default()).0);
    let mut followed = BTreeMap::new();
    let (mut changed, mut ours) = (Vec::new(), Vec::new());
    for rules in own.registry.entities() {
        match store.active(&rules.kind).await? {
            Some((generation, _)) if generation == rules.generation => {}
            None => ours.push((rules, None, Duration::ZERO)),
            Some((generation, theirs)) => match own.what {
                OnChangedRegistry::Refuse => changed.push(rules.kind.to_string()),
                OnChangedRegistry::Activate => ours.push((rules, Some(generation), own.delay)),
                OnChangedRegistry::Follow => {
                    let theirs = read_rules(&rules.kind, generation, &theirs, own.strategies)?;
                    followed.insert(rules.kind.clone(), theirs);
                }
            },
        }
    }
    if changed.is_empty() {
        let mut layouts = BTreeMap::new();
        for rules in own.registry.entities() {
            let rules = followed.get(&rules.kind).unwrap_or(rules);
            if let Some(layout) = store.map(rules).await? {
                layouts.insert(rules.kind.clone(), layout);
            }
        }
        // Only now, so that a start that is refused leaves nothing behind.
        for (rules, was, delay) in ours {
            let text = excerpt(rules, own, raw.as_ref());
            activate(store, rules, was, &text, delay).await?;
        }
        return Ok(Started { followed, layouts });
    }
    let message = format!("the store has other rules in force for `{}`", changed.join("`, `"));
    Err(Error::invalid(
        "registry_changed",
        message,
        "activate this registry, or follow the one in force; `fieldlease diff` shows what changes",
    ))
}

/// Puts rules in force. Somebody who does the same at the same time is no obstacle.
async fn activate(
    store: &dyn Store,
    rules: &EntityRules,
    mut was: Option<Generation>,
    text: &str,
    delay: Duration,
) -> Result<()> {
    for _ in 0..ACTIVATE_TRIALS {
        if store.activate(&rules.kind, was, rules.generation, text, delay).await? {
            return Ok(());
        }
        was = store.active(&rules.kind).await?.map(|(generation, _)| generation);
        if was == Some(rules.generation) {
            return Ok(());
        }
    }
    let message = format!("other processes keep activating other rules for `{}`", rules.kind);
    Err(Error::unavailable(message))
}

/// The rules of one type from a text in the store.
pub(super) fn read_rules(
    kind: &EntityType,
    generation: Generation,
    text: &str,
    strategies: &Strategies,
) -> Result<Arc<EntityRules>> {
    let raw = registry::read(text.as_bytes(), &Limits::default()).0;
    let read = raw.and_then(|raw| registry::resolve(&raw, strategies).0);
    let rules = read.and_then(|registry| registry.entity(kind.as_str()).cloned());
    rules.filter(|rules| rules.generation == generation).ok_or_else(|| {
        let message = format!(
            "the store has other rules in force for `{kind}`, and they cannot be read here"
        );
        let help = "start this process with the registry that is in force";
        Error::invalid("stale_registry", message, help)
    })
}

/// The part of the source one type needs: its own section and those it extends. The whole source where a part alone
/// does not give the same rules (aliases, flow style), and nothing where there is no source.
fn excerpt(rules: &EntityRules, own: &Own<'_>, raw: Option<&RawRegistry>) -> String {
    let Some(source) = own.source else { return String::new() };
    let part = raw.and_then(|raw| sections(&rules.kind, source, raw));
    let good =
        part.filter(|part| read_rules(&rules.kind, rules.generation, part, own.strategies).is_ok());
    good.unwrap_or_else(|| source.to_owned())
}

/// Lines of a type's section and of its bases, under a head of their own.
fn sections(kind: &EntityType, source: &str, raw: &RawRegistry) -> Option<String> {
    let starts: Vec<u32> = raw.entities.iter().map(|entity| entity.name.span.line).collect();
    let mut wanted = Some(kind.as_str());
    let mut text = String::from("field_ownership:\n");
    let mut left = raw.entities.len();
    while let Some(name) = wanted {
        left = left.checked_sub(1)?;
        let entity = raw.entities.iter().find(|entity| entity.name.value == name)?;
        let from = entity.name.span.line;
        let to = starts.iter().copied().filter(|line| *line > from).min().unwrap_or(u32::MAX);
        let skip = usize::try_from(from.checked_sub(1)?).ok()?;
        let take = usize::try_from(to.saturating_sub(from)).ok()?;
        for line in source.lines().skip(skip).take(take) {
            text.push_str(line);
            text.push('\n');
        }
        wanted = entity.extends.as_ref().map(|base| base.value.as_str());
    }
    Some(text)
}
