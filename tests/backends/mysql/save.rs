//! Saves small enough to read in a test, built as the engine builds them.

use std::collections::BTreeMap;

use fieldlease::{
    clock::{Clock, SystemClock},
    commit::{Changed, Commit, Committed, Expect, Lifecycle, OperationDetail, Refusal, Trace},
    entity::{EntityRef, GroupName, Value, Writer, WriterKind},
    path::Path,
    scope::{ScopeName, ScopeSet},
    snapshot::Snapshot,
    store::{Claim, ClaimAsk, Claimed, RecordStore, mysql::MysqlStore},
    token::{Generation, HolderToken, OperationId, SystemEntropy},
};
use serde_json::{Value as Json, json};

pub(super) const RULES: Generation = Generation([1; 32]);

pub(super) fn product(id: &str) -> EntityRef {
    EntityRef::new("Product", id).unwrap()
}

pub(super) fn path(text: &str) -> Path {
    Path::parse(text).unwrap()
}

pub(super) fn scope(text: &str) -> ScopeName {
    ScopeName::group(GroupName::new(text).unwrap())
}

pub(super) fn operation() -> OperationId {
    OperationId::new(SystemClock.wall(), &SystemEntropy)
}

pub(super) fn token() -> HolderToken {
    HolderToken::new(&SystemEntropy)
}

/// A save of these values on what the snapshot shows; a path's scope is its first key.
pub(super) fn save(seen: &Snapshot, writer: &Writer, values: &[(&str, Json)]) -> Commit {
    let mut after = seen.record.clone();
    let (mut changed, mut scopes) = (Vec::new(), BTreeMap::new());
    for (text, json) in values {
        let path = path(text);
        let old = after.get(&path);
        after.set(&path, json);
        let scope = scope(&path.keys()[0]);
        scopes.insert(scope.clone(), Expect::Version(seen.version(&scope)));
        let new = Value::Present(json.clone());
        changed.push(Changed { path, scope, old, new, strategy: None });
    }
    let trace = match writer.kind {
        WriterKind::Editor => Trace::Version { state: after.clone(), reason: None },
        WriterKind::Worker => Trace::Operation(OperationDetail::default()),
    };
    Commit {
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
        trace,
        key: None,
        events: Vec::new(),
        queued: None,
    }
}

pub(super) fn worker() -> Writer {
    Writer::worker("sync")
}

pub(super) fn creation(id: &str, values: &[(&str, Json)]) -> Commit {
    let nothing = Snapshot::missing(product(id));
    Commit { lifecycle: Lifecycle::Create, ..save(&nothing, &worker(), values) }
}

/// Creates a product and answers it as stored.
pub(super) async fn made(store: &MysqlStore, id: &str, values: &[(&str, Json)]) -> Snapshot {
    applied(store, &creation(id, values)).await;
    seen(store, id).await
}

pub(super) async fn seen(store: &MysqlStore, id: &str) -> Snapshot {
    store.load(&product(id)).await.unwrap().unwrap()
}

pub(super) async fn applied(store: &MysqlStore, commit: &Commit) {
    let answer = store.commit(commit).await.unwrap();
    assert!(matches!(answer, Committed::Applied { .. }), "{answer:?}");
}

pub(super) fn claim_of(id: &str, scopes: &[&str], holder: HolderToken) -> ClaimAsk {
    let scopes = ScopeSet::new(product(id), scopes.iter().map(|text| scope(text)));
    ClaimAsk { scopes, whole: false, holder, generation: RULES }
}

pub(super) async fn claimed(
    store: &MysqlStore,
    id: &str,
    scopes: &[&str],
    holder: HolderToken,
) -> Claim {
    match store.claim(&claim_of(id, scopes, holder)).await.unwrap() {
        Claimed::Claimed(claim) => *claim,
        Claimed::Refused(refusal) => panic!("{refusal:?}"),
    }
}

/// A save under a claim of every scope it writes.
pub(super) fn save_under(claim: &Claim, holder: HolderToken, values: &[(&str, Json)]) -> Commit {
    let mut commit = save(&claim.snapshot, &worker(), values);
    for (name, expect) in &mut commit.scopes {
        let version = claim.snapshot.version(name);
        *expect = Expect::Claimed { version, fence: claim.fences[name], holder };
    }
    commit
}

/// Adds one to a number, this often, and plans again whenever another was faster. Answers how often that was.
pub(super) async fn add(store: &MysqlStore, id: &str, text: &str, times: u64) -> u64 {
    let (mut left, mut stale) = (times, 0);
    while left > 0 {
        let seen = seen(store, id).await;
        let sum = seen.record.get(&path(text)).json().and_then(Json::as_u64).unwrap_or(0);
        match store.commit(&save(&seen, &worker(), &[(text, json!(sum + 1))])).await.unwrap() {
            Committed::Applied { .. } => left -= 1,
            Committed::Refused(Refusal::Stale(scopes)) => {
                assert_eq!(scopes, [scope(&path(text).keys()[0])]);
                stale += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    stale
}
