//! Commits the way the engine builds them, small enough to read in a case.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::atomic::{AtomicU64, Ordering},
};

use serde_json::Value as Json;

use crate::{
    commit::{Changed, Commit, Committed, Expect, Lifecycle, OperationDetail, Refusal, Trace},
    entity::{EntityRef, GroupName, Value, Writer, WriterKind},
    history::Entry,
    path::Path,
    record::Record,
    scope::{ScopeName, ScopeSet},
    snapshot::Snapshot,
    store::{Claim, ClaimAsk, Claimed},
    testing::store_suite::{Stores, Verdict},
    token::{
        Fence, Generation, HolderToken, Incarnation, OperationId, ScopeVersion, SystemEntropy,
        VersionNumber,
    },
};

/// The answer of a step of a case.
pub(in crate::testing) type Step<T> = Result<T, String>;

/// The rules every case goes by unless it says otherwise.
pub(in crate::testing) const RULES: Generation = Generation([1; 32]);

/// Two values that must be equal.
pub(in crate::testing) fn same<T: PartialEq + Debug>(what: &str, got: T, wanted: T) -> Verdict {
    if got == wanted { Ok(()) } else { Err(format!("{what}: {got:?} instead of {wanted:?}")) }
}

pub(in crate::testing) fn text_of(error: impl std::fmt::Display) -> String {
    error.to_string()
}

pub(in crate::testing) fn product(id: &str) -> Step<EntityRef> {
    EntityRef::new("Product", id).map_err(text_of)
}

pub(in crate::testing) fn path(text: &str) -> Step<Path> {
    Path::parse(text).map_err(text_of)
}

pub(in crate::testing) fn paths(texts: &[&str]) -> Step<Vec<Path>> {
    texts.iter().map(|text| path(text)).collect()
}

pub(in crate::testing) fn scope(text: &str) -> Step<ScopeName> {
    ScopeName::parse(text).ok_or_else(|| format!("`{text}` is no scope"))
}

/// A group of the same name as the first key of a path: `media` for `media.width`.
pub(in crate::testing) fn scope_of(path: &Path) -> Step<ScopeName> {
    let group = path.keys().first().ok_or("a path without keys")?;
    GroupName::new(group).map(ScopeName::group).map_err(text_of)
}

/// A token that is different from every other.
pub(in crate::testing) fn token() -> HolderToken {
    HolderToken::new(&SystemEntropy)
}

/// Distinct operation ids, in order.
pub(in crate::testing) fn operation() -> OperationId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let millis = i64::try_from(number).unwrap_or(0).saturating_mul(1_000);
    OperationId::new(crate::clock::StoreTime(millis), &SystemEntropy)
}

/// A save of these values on what the snapshot shows. Every path belongs to the scope named after its first key,
/// and every scope is expected at the snapshot's version; cases change what they are about.
pub(in crate::testing) fn save(
    seen: &Snapshot,
    writer: &Writer,
    values: &[(&str, Json)],
) -> Step<Commit> {
    let mut after = seen.record.clone();
    let mut changed = Vec::new();
    let mut scopes = BTreeMap::new();
    for (text, json) in values {
        let path = path(text)?;
        let old = after.get(&path);
        after.set(&path, json);
        let scope = scope_of(&path)?;
        scopes.insert(scope.clone(), Expect::Version(seen.version(&scope)));
        let new = Value::Present(json.clone());
        changed.push(Changed { path, scope, old, new, strategy: None });
    }
    Ok(Commit {
        operation: operation(),
        writer: writer.clone(),
        entity: seen.entity.clone(),
        lifecycle: Lifecycle::Update,
        incarnation: seen.incarnation,
        generation: RULES,
        entity_fence: seen.entity_fence,
        scopes,
        inputs: BTreeMap::new(),
        input_patterns: Vec::new(),
        parents: Vec::new(),
        patch: seen.record.patch_to(&after),
        removed_items: Vec::new(),
        changed,
        trace: trace_of(writer, &after),
        key: None,
        events: Vec::new(),
        queued: None,
    })
}

/// A version for an editor, an operation record for a worker (RULES 34).
pub(in crate::testing) fn trace_of(writer: &Writer, state: &Record) -> Trace {
    match writer.kind {
        WriterKind::Editor => Trace::Version { state: state.clone(), reason: None },
        WriterKind::Worker => Trace::Operation(OperationDetail::default()),
    }
}

/// The creation of an id that never existed, or was deleted.
pub(in crate::testing) fn creation(
    entity: &EntityRef,
    tombstone: Option<&Snapshot>,
    values: &[(&str, Json)],
) -> Step<Commit> {
    let nothing = Snapshot {
        entity: entity.clone(),
        incarnation: Incarnation::default(),
        deleted_at: None,
        record: Record::new(),
        stamps: BTreeMap::new(),
        versions: BTreeMap::new(),
        entity_fence: Fence::default(),
        number: VersionNumber::default(),
        read_at: crate::clock::StoreTime::default(),
    };
    let mut commit = save(tombstone.unwrap_or(&nothing), &Writer::editor("anna"), values)?;
    commit.lifecycle = Lifecycle::Create;
    Ok(commit)
}

/// The deletion of what the snapshot shows.
pub(in crate::testing) fn deletion(seen: &Snapshot) -> Step<Commit> {
    let mut commit = save(seen, &Writer::editor("anna"), &[])?;
    commit.lifecycle = Lifecycle::Delete;
    for scope in seen.versions.keys() {
        commit.scopes.insert(scope.clone(), Expect::Version(seen.version(scope)));
    }
    commit.trace = Trace::Version { state: seen.record.clone(), reason: None };
    Ok(commit)
}

/// What a claim returned, as an expectation.
pub(in crate::testing) fn held(claim: &Claim, holder: HolderToken, scope: &ScopeName) -> Expect {
    Expect::Claimed {
        version: claim.snapshot.version(scope),
        fence: claim.fences.get(scope).copied().unwrap_or_default(),
        holder,
    }
}

/// A save under a claim: every scope it writes is expected as the claim left it.
pub(in crate::testing) fn save_under(
    claim: &Claim,
    holder: HolderToken,
    values: &[(&str, Json)],
) -> Step<Commit> {
    let mut commit = save(&claim.snapshot, &Writer::worker("thumbnailer"), values)?;
    for (scope, expect) in &mut commit.scopes {
        *expect = held(claim, holder, scope);
    }
    Ok(commit)
}

impl Stores {
    /// Creates a product with these values and answers it as stored.
    pub(in crate::testing) async fn made(
        &self,
        id: &str,
        values: &[(&str, Json)],
    ) -> Step<Snapshot> {
        let entity = product(id)?;
        self.applied(&creation(&entity, None, values)?).await?;
        self.seen(&entity).await
    }

    /// The entity as stored.
    pub(in crate::testing) async fn seen(&self, entity: &EntityRef) -> Step<Snapshot> {
        let snapshot = self.records.load(entity).await.map_err(text_of)?;
        snapshot.ok_or_else(|| format!("{entity} was never created"))
    }

    pub(in crate::testing) async fn commit(&self, commit: &Commit) -> Step<Committed> {
        self.records.commit(commit).await.map_err(text_of)
    }

    /// A commit that must take effect; answers the new versions and the number.
    pub(in crate::testing) async fn applied(
        &self,
        commit: &Commit,
    ) -> Step<(BTreeMap<ScopeName, ScopeVersion>, Option<VersionNumber>)> {
        match self.commit(commit).await? {
            Committed::Applied { versions, number, .. } => Ok((versions, number)),
            other => Err(format!("a save was not applied: {other:?}")),
        }
    }

    /// A commit that must be refused for this reason and change nothing.
    pub(in crate::testing) async fn refused(&self, commit: &Commit, refusal: Refusal) -> Verdict {
        let before = self.picture(&commit.entity).await?;
        same("the answer", self.commit(commit).await?, Committed::Refused(refusal.clone()))?;
        let after = self.picture(&commit.entity).await?;
        same(&format!("what a save refused with {refusal:?} left"), after, before)?;
        let resolved = self.records.resolve(commit.operation).await.map_err(text_of)?;
        same("the operation of a refused save", resolved, None)
    }

    pub(in crate::testing) async fn claim_as(
        &self,
        entity: &EntityRef,
        scopes: &[&str],
        holder: HolderToken,
        whole: bool,
    ) -> Step<Claimed> {
        let scopes: Vec<_> = scopes.iter().map(|text| scope(text)).collect::<Step<_>>()?;
        let scopes = ScopeSet::new(entity.clone(), scopes);
        let ask = ClaimAsk { scopes, whole, holder, generation: RULES };
        self.records.claim(&ask).await.map_err(text_of)
    }

    /// A claim that must succeed.
    pub(in crate::testing) async fn claimed(
        &self,
        entity: &EntityRef,
        scopes: &[&str],
        holder: HolderToken,
    ) -> Step<Claim> {
        match self.claim_as(entity, scopes, holder, false).await? {
            Claimed::Claimed(claim) => Ok(*claim),
            Claimed::Refused(refusal) => Err(format!("a claim was refused: {refusal:?}")),
        }
    }

    pub(in crate::testing) async fn entries(&self, entity: &EntityRef) -> Step<Vec<Entry>> {
        self.history.entries(entity, None, 1_000).await.map_err(text_of)
    }

    /// Everything the ports show of an entity, except the time it was read.
    pub(in crate::testing) async fn picture(&self, entity: &EntityRef) -> Step<String> {
        let mut snapshot = self.records.load(entity).await.map_err(text_of)?;
        if let Some(snapshot) = &mut snapshot {
            snapshot.read_at = crate::clock::StoreTime::default();
        }
        let entries = self.entries(entity).await?;
        Ok(format!("{snapshot:?} {entries:?}"))
    }
}
