//! What the nodes say about holders, put together.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{
    entity::EntityRef,
    error::Result,
    lease::{Holder, LeaseStore},
    scope::Scope,
};

/// Most holders asked for at once, and most pages read of one node.
const PAGE: u32 = 1_000;
const PAGES_MAX: usize = 100;

/// Every holder a node knows, up to the bound.
pub(super) async fn gather(
    node: Arc<dyn LeaseStore>,
    entity: Option<EntityRef>,
) -> Result<Vec<Holder>> {
    let (mut all, mut cursor) = (Vec::new(), None::<String>);
    for _ in 0..PAGES_MAX {
        let (page, next) = node.inspect(entity.as_ref(), cursor.as_deref(), PAGE).await?;
        all.extend(page);
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    Ok(all)
}

/// Holders that at least `quorum` nodes name alike, in scope order. The remaining time is the one after which fewer
/// than that hold it, the time held the one since which so many did.
pub(super) fn agreed(answers: Vec<Vec<Holder>>, quorum: usize) -> Vec<Holder> {
    let mut scopes: BTreeMap<Scope, Vec<Holder>> = BTreeMap::new();
    for holder in answers.into_iter().flatten() {
        scopes.entry(holder.scope.clone()).or_default().push(holder);
    }
    let agree = |(scope, said): (Scope, Vec<Holder>)| {
        let label = said
            .iter()
            .map(|holder| &holder.label)
            .find(|label| said.iter().filter(|other| other.label == **label).count() >= quorum)?;
        let same: Vec<&Holder> = said.iter().filter(|holder| holder.label == *label).collect();
        let waiting = same.iter().map(|holder| holder.waiting).max().unwrap_or_default();
        Some(Holder {
            scope,
            label: Arc::clone(label),
            remaining: nth_longest(same.iter().map(|holder| holder.remaining), quorum),
            held: nth_longest(same.iter().map(|holder| holder.held), quorum),
            waiting,
        })
    };
    scopes.into_iter().filter_map(agree).collect()
}

/// Who is in the way, by scope: whom most nodes name, and of several the longest.
pub(super) fn in_the_way(answers: impl Iterator<Item = Vec<Holder>>) -> Vec<Holder> {
    let mut scopes: BTreeMap<Scope, Vec<Holder>> = BTreeMap::new();
    for holder in answers.flatten() {
        scopes.entry(holder.scope.clone()).or_default().push(holder);
    }
    let most = |said: Vec<Holder>| {
        let votes = |label: &Arc<str>| said.iter().filter(|holder| holder.label == *label).count();
        said.iter().max_by_key(|holder| (votes(&holder.label), holder.remaining)).cloned()
    };
    scopes.into_values().filter_map(most).collect()
}

fn nth_longest(times: impl Iterator<Item = Duration>, n: usize) -> Duration {
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable_by(|a, b| b.cmp(a));
    times.get(n.saturating_sub(1)).copied().unwrap_or_default()
}
