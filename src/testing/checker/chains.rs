//! The writes of each scope in the order of its versions: C1, C2, C4, C5, C6, C7 and C13.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value as Json;

use crate::{
    clock::Moment,
    commit::Changed,
    entity::{EntityRef, Value, same_json},
    path::Path,
    scope::ScopeName,
    testing::checker::{Check, History, Read, Save, Saves, Standing, Stored, Told, Verdict},
    token::{Fence, OperationId, ScopeVersion},
};

/// One write of one scope.
#[derive(Clone, Copy)]
struct Link<'a> {
    version: ScopeVersion,
    entry: &'a Stored,
}

/// The links of one scope, sorted by version.
struct Chain<'a> {
    start: ScopeVersion,
    links: Vec<Link<'a>>,
}

impl<'a> Chain<'a> {
    /// The write that made this version.
    fn at(&self, version: ScopeVersion) -> Option<&Link<'a>> {
        let place = self.links.binary_search_by_key(&version, |link| link.version).ok()?;
        self.links.get(place)
    }
}

/// Every write, by record and scope.
pub(super) struct Chains<'a> {
    history: &'a History,
    scopes: BTreeMap<(&'a EntityRef, &'a ScopeName), Chain<'a>>,
    /// Writes of each path, in order.
    paths: HashMap<(&'a EntityRef, &'a Path), Vec<OperationId>>,
}

impl<'a> Chains<'a> {
    /// Sorts the writes and checks that versions have no gap and come once (C1).
    pub(super) fn new(history: &'a History, verdict: &mut Verdict) -> Self {
        let mut scopes = BTreeMap::new();
        for (entity, standing) in &history.end {
            for scope in standing.versions.keys() {
                scopes.insert((entity, scope), Vec::new());
            }
        }
        for entry in &history.entries {
            let mut written: Vec<&ScopeName> =
                entry.changed.iter().map(|changed| &changed.scope).collect();
            written.sort_unstable();
            written.dedup();
            for scope in written {
                let version = entry.versions.get(scope).copied().unwrap_or_default();
                scopes.entry((&entry.entity, scope)).or_default().push(Link { version, entry });
            }
        }
        let chain = |(place, mut links): ((&'a EntityRef, &'a ScopeName), Vec<Link<'a>>)| {
            links.sort_by_key(|link| link.version);
            let start = version_in(&history.start, place);
            in_sequence(place, start, version_in(&history.end, place), &links, verdict);
            (place, Chain { start, links })
        };
        let scopes: BTreeMap<_, _> = scopes.into_iter().map(chain).collect();
        let mut paths: HashMap<_, Vec<OperationId>> = HashMap::new();
        for ((entity, scope), Chain { links, .. }) in &scopes {
            for Link { entry, .. } in links {
                for changed in entry.changed.iter().filter(|it| it.scope == **scope) {
                    paths.entry((*entity, &changed.path)).or_default().push(entry.operation);
                }
            }
        }
        Self { history, scopes, paths }
    }

    /// Walks every chain once.
    pub(super) fn check(&self, saves: &Saves<'_>, verdict: &mut Verdict) {
        let mut last: HashMap<(&EntityRef, &Path), &Value> = HashMap::new();
        for ((entity, scope), chain) in &self.scopes {
            let mut fence = Fence::default();
            let mut invoked = Moment(std::time::Duration::ZERO);
            for link in &chain.links {
                let save = saves.get(&link.entry.operation).copied();
                for changed in link.entry.changed.iter().filter(|it| it.scope == **scope) {
                    let place = (*entity, &changed.path);
                    let before = last.get(&place).copied();
                    let before = before.unwrap_or_else(|| value_in(&self.history.start, place));
                    check_change(entity, link, changed, before, save, verdict);
                    last.insert(place, &changed.new);
                }
                let Some(save) = save else { continue };
                if answered(save) && save.returned < invoked {
                    verdict.found(Check::RealTime, || {
                        let (version, operation) = (link.version, link.entry.operation);
                        format!(
                            "{entity} {scope} version {version} by {operation} was answered before an earlier version was asked for"
                        )
                    });
                }
                invoked = invoked.max(save.invoked);
                if let Some(own) = save.fences.get(*scope) {
                    if *own < fence {
                        verdict.found(Check::Fence, || {
                            format!("{entity} {scope}: version {} was written under fence {own} after {fence}", link.version)
                        });
                    }
                    fence = fence.max(*own);
                }
            }
        }
        self.check_end(&last, verdict);
        self.check_claims(saves, verdict);
        for read in &self.history.reads {
            self.check_read(read, saves, verdict);
        }
    }

    /// The operations that wrote a path, in order.
    pub(super) fn writers<'b>(
        &'b self,
        entity: &'b EntityRef,
        path: &'b Path,
    ) -> &'b [OperationId] {
        self.paths.get(&(entity, path)).map_or(&[], Vec::as_slice)
    }

    fn check_end(&self, last: &HashMap<(&EntityRef, &Path), &Value>, verdict: &mut Verdict) {
        for (entity, standing) in &self.history.end {
            for (path, value) in &standing.values {
                let place = (entity, path);
                let left = last.get(&place).copied();
                let left = left.unwrap_or_else(|| value_in(&self.history.start, place));
                if !left.same(value) {
                    verdict.found(Check::Chain, || {
                        format!("{entity} {path} holds {value:?}, but the last write left {left:?}")
                    });
                }
            }
        }
    }

    /// C6: a fence has one holder. C7: the write after a claim is the claimer's, or of somebody who claimed later.
    fn check_claims(&self, saves: &Saves<'_>, verdict: &mut Verdict) {
        let mut holders = HashMap::new();
        for claim in &self.history.claims {
            let (entity, scope, fence) = (&claim.entity, &claim.scope, claim.fence);
            let holder = holders.entry((entity, scope, fence)).or_insert(claim.holder);
            if *holder != claim.holder {
                verdict.found(Check::Fence, || {
                    format!("{entity} {scope}: fence {fence} has two holders")
                });
            }
            let Some(chain) = self.scopes.get(&(entity, scope)) else { continue };
            let Some(next) = chain.at(claim.version.next()) else { continue };
            let save = saves.get(&next.entry.operation);
            let Some(own) = save.and_then(|save| save.fences.get(scope)) else { continue };
            if *own < fence {
                verdict.found(Check::AfterSuccessor, || {
                    format!("{entity} {scope}: version {} was written under fence {own} after {fence} had claimed", next.version)
                });
            }
        }
    }

    /// C5: the version seen was there, or could be, and the next one was not there for sure.
    fn check_read(&self, read: &Read, saves: &Saves<'_>, verdict: &mut Verdict) {
        let entity = &read.entity;
        for (scope, version) in &read.versions {
            let Some(chain) = self.scopes.get(&(entity, scope)) else { continue };
            let save_at = |version| saves.get(&chain.at(version)?.entry.operation).copied();
            let ahead = *version > chain.start
                && chain.at(*version).is_none_or(|link| {
                    saves.get(&link.entry.operation).is_some_and(|it| it.invoked > read.returned)
                });
            let behind = save_at(version.next())
                .is_some_and(|save| answered(save) && save.returned < read.invoked);
            if ahead || behind {
                verdict.found(Check::StaleRead, || {
                    let how = if ahead { "before it was written" } else { "after it was replaced" };
                    format!("{entity} {scope}: version {version} was read {how}")
                });
            }
        }
    }
}

fn answered(save: &Save) -> bool {
    matches!(save.told, Told::Applied(_))
}

fn version_in(
    standings: &BTreeMap<EntityRef, Standing>,
    (entity, scope): (&EntityRef, &ScopeName),
) -> ScopeVersion {
    let standing = standings.get(entity);
    standing.and_then(|it| it.versions.get(scope)).copied().unwrap_or_default()
}

fn value_in<'a>(
    standings: &'a BTreeMap<EntityRef, Standing>,
    (entity, path): (&EntityRef, &Path),
) -> &'a Value {
    standings.get(entity).and_then(|it| it.values.get(path)).unwrap_or(&Value::Absent)
}

fn in_sequence(
    (entity, scope): (&EntityRef, &ScopeName),
    start: ScopeVersion,
    end: ScopeVersion,
    links: &[Link<'_>],
    verdict: &mut Verdict,
) {
    let mut expected = start;
    for link in links {
        if link.version != expected.next() {
            let (version, operation) = (link.version, link.entry.operation);
            verdict.found(Check::Sequence, || {
                format!("{entity} {scope}: version {version} by {operation} follows {expected}")
            });
        }
        expected = link.version;
    }
    if end != expected {
        verdict.found(Check::Sequence, || {
            format!("{entity} {scope} stands at version {end}, but the last write made {expected}")
        });
    }
}

fn check_change(
    entity: &EntityRef,
    link: &Link<'_>,
    changed: &Changed,
    before: &Value,
    save: Option<&Save>,
    verdict: &mut Verdict,
) {
    let (path, operation) = (&changed.path, link.entry.operation);
    let Changed { old, new, .. } = changed;
    if !old.same(before) {
        verdict.found(Check::Chain, || {
            format!(
                "{entity} {path}: {operation} says it replaced {old:?}, but {before:?} was there"
            )
        });
    }
    let Some(save) = save else { return };
    // What was there is what the write before left, whatever this write says of itself.
    let shown = save.shown.get(path).unwrap_or(&Value::Absent);
    let Some(wanted) = save.wanted.get(path) else {
        verdict.found(Check::Foreign, || {
            format!("{entity} {path}: {operation} changed it without being asked to")
        });
        if !before.same(shown) {
            verdict.found(Check::LostUpdate, || lost(entity, path, save, shown, before));
        }
        return;
    };
    if let Some(merged) =
        changed.strategy.as_deref().and_then(|it| merge(it, shown, wanted, before))
    {
        if !merged.same(new) {
            verdict.found(Check::Merge, || {
                format!("{entity} {path}: {operation} left {new:?} instead of {merged:?}")
            });
        }
        return;
    }
    if decides_itself(changed.strategy.as_deref()) {
        return;
    }
    if !before.same(shown) {
        verdict.found(Check::LostUpdate, || lost(entity, path, save, shown, before));
    }
    if !new.same(wanted) {
        verdict.found(Check::Foreign, || {
            format!("{entity} {path}: {operation} left {new:?} instead of {wanted:?}")
        });
    }
}

fn lost(entity: &EntityRef, path: &Path, save: &Save, shown: &Value, old: &Value) -> String {
    format!("{entity} {path}: {} had seen {shown:?} and replaced {old:?}", save.writer)
}

/// Strategies that replace an unseen value on purpose, or take one side by a rule the checker does not know.
fn decides_itself(strategy: Option<&str>) -> bool {
    !matches!(strategy, None | Some("reject"))
}

/// What the merging strategies must make of (shown, wanted, stored). `None`: not one of them, or not their data.
fn merge(strategy: &str, shown: &Value, wanted: &Value, stored: &Value) -> Option<Value> {
    match strategy {
        "counter" => {
            let number = |value: &Value| value.json().map_or(Some(0), Json::as_i64);
            let delta = number(wanted)?.checked_sub(number(shown)?)?;
            Some(Value::Present(number(stored)?.checked_add(delta)?.into()))
        }
        "set_merge" => {
            let members = |value: &Value| match value.json() {
                None => Some(Vec::new()),
                Some(Json::Array(members)) => Some(members.clone()),
                Some(_) => None,
            };
            let has = |list: &[Json], member: &Json| list.iter().any(|it| same_json(it, member));
            let (shown, wanted) = (members(shown)?, members(wanted)?);
            let mut merged = members(stored)?;
            merged.retain(|member| !has(&shown, member) || has(&wanted, member));
            for member in wanted {
                if !has(&shown, &member) && !has(&merged, &member) {
                    merged.push(member);
                }
            }
            Some(Value::Present(Json::Array(merged)))
        }
        _ => None,
    }
}
