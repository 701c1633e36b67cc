//! Writers of one record at once on PostgreSQL, callers with transactions of their own, and what a claim sees after it had
//! to wait.

use std::sync::Arc;

use fieldlease::{
    clock::StoreTime,
    commit::{Changed, Commit, Committed, Expect, Lifecycle, OperationDetail, Refusal, Trace},
    database::postgres::Pooler,
    entity::{EntityRef, GroupName, Value, Writer},
    path::Path,
    record::Record,
    scope::{ScopeName, ScopeSet},
    snapshot::Snapshot,
    store::{ClaimAsk, Claimed, RecordStore, postgres::PostgresStore},
    token::{Generation, HolderToken, Incarnation, OperationId, ScopeVersion, SystemEntropy},
};
use serde_json::{Value as Json, json};

use crate::{
    postgres::store,
    servers::{Database, Dialect, until},
};

const RULES: Generation = Generation([1; 32]);

pub(crate) fn product() -> EntityRef {
    EntityRef::new("Product", "1").unwrap()
}

pub(crate) fn scope(name: &str) -> ScopeName {
    ScopeName::group(GroupName::new(name).unwrap())
}

fn operation() -> OperationId {
    OperationId::new(StoreTime(1_796_000_000_000_000), &SystemEntropy)
}

/// A worker's save of one value in the group its first key names; a creation when nothing was seen.
pub(crate) fn save(seen: Option<&Snapshot>, text: &str, value: &Json, expect: Expect) -> Commit {
    let path = Path::parse(text).unwrap();
    let group = scope(&path.keys()[0]);
    let before = seen.map_or_else(Record::new, |seen| seen.record.clone());
    let mut after = before.clone();
    after.set(&path, value);
    Commit {
        operation: operation(),
        writer: Writer::worker("w"),
        entity: product(),
        lifecycle: if seen.is_some() { Lifecycle::Update } else { Lifecycle::Create },
        incarnation: seen.map_or(Incarnation(0), |seen| seen.incarnation),
        generation: RULES,
        entity_fence: seen.map(|seen| seen.entity_fence).unwrap_or_default(),
        scopes: [(group.clone(), expect)].into(),
        inputs: Default::default(),
        input_patterns: Vec::new(),
        parents: Vec::new(),
        patch: before.patch_to(&after),
        removed_items: Vec::new(),
        changed: vec![Changed {
            old: before.get(&path),
            path,
            scope: group,
            new: Value::Present(value.clone()),
            strategy: None,
        }],
        trace: Trace::Operation(OperationDetail::default()),
        key: None,
        events: Vec::new(),
        queued: None,
    }
}

pub(crate) async fn seen(store: &PostgresStore) -> Snapshot {
    store.load(&product()).await.unwrap().unwrap()
}

pub(crate) fn number(snapshot: &Snapshot, text: &str) -> u64 {
    let value = snapshot.record.get(&Path::parse(text).unwrap());
    value.json().and_then(Json::as_u64).unwrap_or(0)
}

pub(crate) async fn made(store: &PostgresStore) -> Snapshot {
    let create = save(None, "media.n", &json!(0), Expect::Version(ScopeVersion(0)));
    assert!(matches!(store.commit(&create).await.unwrap(), Committed::Applied { .. }));
    seen(store).await
}

/// Adds one to `GROUP.n`, this often; answers how often another was faster.
async fn add(store: &PostgresStore, group: &str, times: u32) -> u32 {
    let (text, mut refused, mut left) = (format!("{group}.n"), 0, times);
    while left > 0 {
        let now = seen(store).await;
        let expect = Expect::Version(now.version(&scope(group)));
        let next = json!(number(&now, &text) + 1);
        match store.commit(&save(Some(&now), &text, &next, expect)).await.unwrap() {
            Committed::Applied { .. } => left -= 1,
            Committed::Refused(Refusal::Stale(scopes)) => {
                assert_eq!(scopes, [scope(group)]);
                refused += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    refused
}

async fn added(store: &Arc<PostgresStore>, groups: &[&str], times: u32) -> u32 {
    let mut writers = tokio::task::JoinSet::new();
    for index in 0..12 {
        let (store, group) = (store.clone(), groups[index % groups.len()].to_owned());
        writers.spawn(async move { add(&store, &group, times).await });
    }
    writers.join_all().await.into_iter().sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn twelve_connections_of_two_groups_save_five_hundred_times_each_and_lose_nothing() {
    let database = Database::new(Dialect::Postgres);
    let store = store(&database.url(), Pooler::None).await;
    made(&store).await;

    added(&store, &["price", "stock"], 500).await;

    let after = seen(&store).await;
    for group in ["price", "stock"] {
        assert_eq!(number(&after, &format!("{group}.n")), 3_000);
        assert_eq!(after.version(&scope(group)), ScopeVersion(3_000));
    }
    // Every save left its record, and no record is there of a save that was refused.
    assert_eq!(database.number("SELECT count(*) FROM fl_operation"), 6_001);
    let steps = "SELECT count(DISTINCT (s.key, s.value ->> 'after')) FROM fl_operation, jsonb_each(scopes) AS s";
    assert_eq!(database.number(steps), 6_001);
}

#[tokio::test(flavor = "multi_thread")]
async fn twelve_groups_of_one_record_never_refuse_each_other() {
    let database = Database::new(Dialect::Postgres);
    let store = store(&database.url(), Pooler::Transaction).await;
    made(&store).await;
    let names: Vec<String> = (0..12).map(|index| format!("g{index}")).collect();
    let groups: Vec<&str> = names.iter().map(String::as_str).collect();

    assert_eq!(added(&store, &groups, 50).await, 0);

    let after = seen(&store).await;
    assert_eq!(groups.iter().map(|group| number(&after, &format!("{group}.n"))).sum::<u64>(), 600);
}

/// A connection of the caller's own.
async fn connect(database: &Database<'_>) -> tokio_postgres::Client {
    let (client, connection) =
        tokio_postgres::connect(&database.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn ask(holder: u8) -> ClaimAsk {
    ClaimAsk {
        scopes: ScopeSet::new(product(), [scope("media")]),
        whole: false,
        holder: HolderToken([holder; 16]),
        generation: RULES,
    }
}

pub(crate) async fn claim(store: &PostgresStore, holder: u8) -> (Expect, Snapshot) {
    match store.claim(&ask(holder)).await.unwrap() {
        Claimed::Claimed(claim) => {
            let expect = Expect::Claimed {
                version: claim.snapshot.version(&scope("media")),
                fence: claim.fences[&scope("media")],
                holder: HolderToken([holder; 16]),
            };
            (expect, claim.snapshot)
        }
        Claimed::Refused(refusal) => panic!("{refusal:?}"),
    }
}

/// The former holder's commit is on its way when the next one claims: version and value the claim returned.
async fn claimed_while_the_former_holder_commits(database: &Database<'_>) -> (u64, u64) {
    let store = store(&database.url(), Pooler::Transaction).await;
    made(&store).await;
    let (expect, snapshot) = claim(&store, 1).await;
    let mut client = connect(database).await;
    let transaction = client.transaction().await.unwrap();
    let commit = save(Some(&snapshot), "media.n", &json!(7), expect);
    let done = store.commit_in(&transaction, &commit).await.unwrap();
    assert!(matches!(done, Committed::Applied { .. }));

    let next = {
        let store = store.clone();
        tokio::spawn(async move { claim(&store, 2).await.1 })
    };
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    until("the claim waits for the commit", || database.number(waiting) == 1);
    transaction.commit().await.unwrap();

    let claimed = next.await.unwrap();
    (claimed.version(&scope("media")).0, number(&claimed, "media.n"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_waited_sees_what_the_former_holder_committed() {
    let database = Database::new(Dialect::Postgres);

    assert_eq!(claimed_while_the_former_holder_commits(&database).await, (2, 7));
}

/// The negative control: with one statement that reads plainly, the new version comes with the old record, and what is
/// computed from it would overwrite the former holder's value without anybody noticing.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_reads_plainly_returns_the_new_version_with_the_old_record() {
    let database = Database::new(Dialect::Postgres);
    store(&database.url(), Pooler::Transaction).await;
    database.sql(include_str!("unfenced_postgres/claim_plain_read.sql"));

    assert_eq!(claimed_while_the_former_holder_commits(&database).await, (2, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_leaves_the_callers_own_transaction_alive() {
    let database = Database::new(Dialect::Postgres);
    let store = store(&database.url(), Pooler::Transaction).await;
    let first = made(&store).await;
    database.sql("CREATE TABLE cms (a integer); GRANT ALL ON cms TO fl");
    let mut client = connect(&database).await;
    let transaction = client.transaction().await.unwrap();
    transaction.batch_execute("INSERT INTO cms VALUES (1)").await.unwrap();

    let stale = save(Some(&first), "media.n", &json!(5), Expect::Version(ScopeVersion(9)));
    let refused = store.commit_in(&transaction, &stale).await.unwrap();
    let fits = save(Some(&first), "media.n", &json!(6), Expect::Version(ScopeVersion(1)));
    let applied = store.commit_in(&transaction, &fits).await.unwrap();
    let again = store.commit_in(&transaction, &fits).await.unwrap();

    assert_eq!(refused, Committed::Refused(Refusal::Stale(vec![scope("media")])));
    assert!(matches!(applied, Committed::Applied { .. }));
    assert_eq!(again, Committed::AlreadyApplied);
    assert_eq!(
        number(&seen(&store).await, "media.n"),
        0,
        "nothing is there before the caller commits"
    );
    transaction.commit().await.unwrap();
    assert_eq!(number(&seen(&store).await, "media.n"), 6);
    assert_eq!(database.number("SELECT count(*) FROM cms"), 1);

    let transaction = client.transaction().await.unwrap();
    let now = seen(&store).await;
    let undone = save(Some(&now), "media.n", &json!(8), Expect::Version(ScopeVersion(2)));
    store.commit_in(&transaction, &undone).await.unwrap();
    transaction.rollback().await.unwrap();
    assert_eq!(number(&seen(&store).await, "media.n"), 6);
    assert_eq!(store.resolve(undone.operation).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_under_repeatable_read_is_told_to_begin_again_when_the_record_moved() {
    let database = Database::new(Dialect::Postgres);
    let store = store(&database.url(), Pooler::Transaction).await;
    let first = made(&store).await;
    let mut client = connect(&database).await;
    let level = tokio_postgres::IsolationLevel::RepeatableRead;
    let transaction = client.build_transaction().isolation_level(level).start().await.unwrap();
    transaction.query_typed("SELECT 1", &[]).await.unwrap();
    assert_eq!(add(&store, "media", 1).await, 0);
    let commit = save(Some(&first), "media.n", &json!(5), Expect::Version(ScopeVersion(2)));
    let error = store.commit_in(&transaction, &commit).await.unwrap_err();
    assert_eq!(error.code(), "contended", "{error}");
    transaction.rollback().await.unwrap();

    let transaction = client.build_transaction().isolation_level(level).start().await.unwrap();
    let mut again = commit.clone();
    again.operation = operation();
    let done = store.commit_in(&transaction, &again).await.unwrap();
    assert!(matches!(done, Committed::Applied { .. }), "{done:?}");
    transaction.commit().await.unwrap();
    assert_eq!(number(&seen(&store).await, "media.n"), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_whose_transactions_are_serializable_loses_nothing_either() {
    let database = Database::new(Dialect::Postgres);
    let name = &database.name;
    database.sql(&format!(
        "ALTER ROLE fl IN DATABASE {name} SET default_transaction_isolation = 'serializable'"
    ));
    let store = store(&database.url(), Pooler::None).await;
    made(&store).await;

    let mut writers = tokio::task::JoinSet::new();
    for group in ["price", "stock", "price"] {
        let store = store.clone();
        writers.spawn(async move { add(&store, group, 20).await });
    }
    writers.join_all().await;

    let after = seen(&store).await;
    assert_eq!((number(&after, "price.n"), number(&after, "stock.n")), (40, 20));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_that_was_given_up_never_takes_effect() {
    let database = Database::new(Dialect::Postgres);
    let store = store(&database.url(), Pooler::Transaction).await;
    let first = made(&store).await;
    let mut client = connect(&database).await;
    let transaction = client.transaction().await.unwrap();
    let late = save(Some(&first), "media.n", &json!(5), Expect::Version(ScopeVersion(1)));
    store.commit_in(&transaction, &late).await.unwrap();

    // A commit on its way is waited for.
    let resolving = {
        let store = store.clone();
        let id = late.operation;
        tokio::spawn(async move { store.resolve(id).await.unwrap() })
    };
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    until("resolve waits for the commit", || database.number(waiting) == 1);
    transaction.commit().await.unwrap();
    assert!(matches!(resolving.await.unwrap(), Some(Committed::Applied { .. })));

    // One that comes after it was given up finds that.
    let now = seen(&store).await;
    let later = save(Some(&now), "media.n", &json!(6), Expect::Version(ScopeVersion(2)));
    assert_eq!(store.resolve(later.operation).await.unwrap(), None);
    assert_eq!(store.commit(&later).await.unwrap_err().code(), "unavailable");
    assert_eq!(store.resolve(later.operation).await.unwrap(), None);
    assert_eq!(number(&seen(&store).await, "media.n"), 5);
}
