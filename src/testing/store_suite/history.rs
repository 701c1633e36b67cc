//! What saves leave behind (RULES 9, 34, 35).

use std::collections::BTreeMap;

use serde_json::json;

use crate::{
    commit::{Committed, Lifecycle, OperationDetail, Trace},
    entity::{Value, Writer},
    history::BaseQuery,
    testing::store_suite::{
        Stores, Verdict,
        build::{deletion, path, paths, product, same, save, scope, text_of},
        promises,
    },
    token::{OperationId, ScopeVersion, VersionNumber},
};

promises![
    editors_make_versions_and_workers_make_operations,
    version_numbers_have_no_gaps_whatever_is_refused,
    editors_saving_at_once_get_distinct_numbers,
    entries_come_newest_first_and_page_by_page,
    blame_finds_the_newest_change_of_each_path,
    a_base_is_the_value_before_the_first_change_after_the_version,
    a_base_is_looked_for_in_the_scope_asked_for,
    what_was_never_there_is_empty,
];

async fn editors_make_versions_and_workers_make_operations(stores: Stores) -> Verdict {
    let seen = stores.made("1", &[("editor.name", json!("a")), ("shared.tag", json!(1))]).await?;
    let values = [("editor.name", json!("b")), ("shared.tag", json!(2))];
    let mut edit = save(&seen, &Writer::editor("anna"), &values)?;
    edit.trace = Trace::Version { state: seen.record.clone(), reason: Some("because".to_owned()) };
    if let Some(change) = edit.changed.last_mut() {
        change.strategy = Some("max".to_owned());
    }
    let mut work = save(&seen, &Writer::worker("thumbnailer"), &[("media.width", json!(7))])?;
    let detail = OperationDetail {
        job: Some("job 1".to_owned()),
        waited_ms: 1,
        held_ms: 2,
        retries: 3,
        left_out: [(path("editor.name")?, "not_owner".to_owned())].into_iter().collect(),
        reason: None,
    };
    work.trace = Trace::Operation(detail);

    let (_, number) = stores.applied(&edit).await?;
    let (_, none) = stores.applied(&work).await?;

    same("the editor's number", number, Some(VersionNumber(2)))?;
    same("the worker's number", none, None)?;
    let entries = stores.entries(&seen.entity).await?;
    let [operation, version, _] = entries.as_slice() else { return Err(format!("{entries:?}")) };
    for (entry, commit, number) in [(operation, &work, None), (version, &edit, number)] {
        same("number", entry.number, number)?;
        same("operation", entry.operation, commit.operation)?;
        same("writer", &entry.writer, &commit.writer)?;
        same("lifecycle", entry.lifecycle, Lifecycle::Update)?;
        same("incarnation", entry.incarnation, seen.incarnation)?;
        same("changed", &entry.changed, &commit.changed)?;
        same("trace", &entry.trace, &commit.trace)?;
    }
    same("versions", version.versions.get(&scope("editor")?), Some(&ScopeVersion(2)))?;
    let found = stores.history.version(&seen.entity, VersionNumber(2)).await.map_err(text_of)?;
    same("the version by number", found.map(|entry| entry.operation), Some(edit.operation))
}

async fn version_numbers_have_no_gaps_whatever_is_refused(stores: Stores) -> Verdict {
    let seen = stores.made("1", &[("editor.name", json!(0)), ("notes.text", json!(0))]).await?;
    let anna = Writer::editor("anna");
    for round in 1..=10_u64 {
        let now = stores.seen(&seen.entity).await?;
        let text = if round % 2 == 0 { "editor.name" } else { "notes.text" };
        let good = save(&now, &anna, &[(text, json!(round))])?;
        let late = save(&now, &anna, &[(text, json!("late"))])?;
        stores.applied(&good).await?;
        same("a late save", matches!(stores.commit(&late).await?, Committed::Refused(_)), true)?;
        let work = save(
            &stores.seen(&seen.entity).await?,
            &Writer::worker("w"),
            &[("media.n", json!(round))],
        )?;
        stores.applied(&work).await?;
    }

    let entries = stores.entries(&seen.entity).await?;
    let numbers: Vec<u64> =
        entries.iter().rev().filter_map(|entry| entry.number).map(|n| n.0).collect();
    same("the numbers", numbers, (1..=11).collect())?;
    same("all entries", entries.len(), 21)
}

async fn editors_saving_at_once_get_distinct_numbers(stores: Stores) -> Verdict {
    let seen = stores.made("1", &[("editor.name", json!(0))]).await?;
    let mut editors = tokio::task::JoinSet::new();
    for editor in 0..20 {
        let (stores, group) = (stores.clone(), format!("group{editor}.text"));
        let commit = save(&seen, &Writer::editor("anna"), &[(&group, json!(editor))])?;
        editors.spawn(async move { stores.applied(&commit).await });
    }
    let mut numbers = Vec::new();
    while let Some(done) = editors.join_next().await {
        let (_, number) = done.map_err(text_of)??;
        numbers.extend(number.map(|number| number.0));
    }

    numbers.sort_unstable();
    same("the numbers", numbers, (2..=21).collect())
}

async fn entries_come_newest_first_and_page_by_page(stores: Stores) -> Verdict {
    let seen = stores.made("1", &[("media.n", json!(0))]).await?;
    let other = stores.made("2", &[("media.n", json!(0))]).await?;
    let mut sent: Vec<OperationId> = Vec::new();
    for round in 1..=6 {
        for entity in [&seen.entity, &other.entity] {
            let now = stores.seen(entity).await?;
            let commit = save(&now, &Writer::worker("w"), &[("media.n", json!(round))])?;
            stores.applied(&commit).await?;
            if *entity == seen.entity {
                sent.insert(0, commit.operation);
            }
        }
    }

    let mut pages = Vec::new();
    let mut before = None;
    loop {
        let page = stores.history.entries(&seen.entity, before, 3).await.map_err(text_of)?;
        let operations: Vec<_> = page.iter().map(|entry| entry.operation).collect();
        let Some(last) = operations.last() else { break };
        before = Some(*last);
        pages.push(operations);
    }

    same("the page sizes", pages.iter().map(Vec::len).collect(), vec![3, 3, 1])?;
    same("the order", pages.concat().into_iter().take(6).collect(), sent)?;
    let unknown = crate::testing::store_suite::build::operation();
    let code = stores.history.entries(&seen.entity, Some(unknown), 3).await.err();
    same("an unknown cursor", code.map(|error| error.code()), Some("bad_cursor"))
}

async fn blame_finds_the_newest_change_of_each_path(stores: Stores) -> Verdict {
    let values = [("editor.name", json!(0)), ("media.n", json!(0))];
    let seen = stores.made("1", &values).await?;
    let mut last = BTreeMap::new();
    for round in 1..=3 {
        for (writer, text) in
            [(Writer::editor("anna"), "editor.name"), (Writer::worker("w"), "media.n")]
        {
            let now = stores.seen(&seen.entity).await?;
            let commit = save(&now, &writer, &[(text, json!(round))])?;
            stores.applied(&commit).await?;
            last.insert(path(text)?, commit.operation);
        }
    }
    // The path moved to another scope: the newest change wins, not the highest version.
    let now = stores.seen(&seen.entity).await?;
    let mut moved = save(&now, &Writer::worker("w"), &[("media.n", json!(9))])?;
    let stock = scope("stock")?;
    moved.scopes =
        [(stock.clone(), crate::commit::Expect::Version(ScopeVersion(0)))].into_iter().collect();
    for change in &mut moved.changed {
        change.scope = stock.clone();
    }
    stores.applied(&moved).await?;
    last.insert(path("media.n")?, moved.operation);

    let asked = paths(&["editor.name", "media.n", "editor.never"])?;
    let blamed = stores.history.blame(&seen.entity, &asked).await.map_err(text_of)?;

    same(
        "the entries",
        blamed.into_iter().map(|(path, entry)| (path, entry.operation)).collect(),
        last,
    )
}

async fn a_base_is_the_value_before_the_first_change_after_the_version(stores: Stores) -> Verdict {
    let seen = stores.made("1", &[("editor.a", json!("a1")), ("editor.b", json!("b1"))]).await?;
    let steps = [("editor.a", "a2"), ("editor.b", "b3"), ("editor.a", "a4"), ("editor.c", "c5")];
    for (text, value) in steps {
        let now = stores.seen(&seen.entity).await?;
        stores.applied(&save(&now, &Writer::editor("anna"), &[(text, json!(value))])?).await?;
    }
    let present = |text: &str| Some(Value::Present(json!(text)));
    let cases = [
        // (path, version seen, the value it had then)
        ("editor.a", 0, Some(Value::Absent)),
        ("editor.a", 1, present("a1")),
        ("editor.a", 2, present("a2")),
        ("editor.a", 3, present("a2")),
        ("editor.a", 4, None),
        ("editor.b", 1, present("b1")),
        ("editor.b", 2, present("b1")),
        ("editor.b", 3, None),
        ("editor.c", 4, Some(Value::Absent)),
        ("editor.d", 1, None),
    ];

    for (text, version, wanted) in cases {
        let query = BaseQuery {
            path: path(text)?,
            scope: scope("editor")?,
            version: ScopeVersion(version),
        };
        let found = stores.history.bases(&seen.entity, &[query]).await.map_err(text_of)?;
        same(&format!("{text} at {version}"), found.get(&path(text)?).cloned(), wanted)?;
    }
    let all: Vec<BaseQuery> = paths(&["editor.a", "editor.b", "editor.d"])?
        .into_iter()
        .map(|path| Ok(BaseQuery { path, scope: scope("editor")?, version: ScopeVersion(1) }))
        .collect::<Result<_, String>>()?;
    let found = stores.history.bases(&seen.entity, &all).await.map_err(text_of)?;
    same("several at once", found.into_keys().collect(), paths(&["editor.a", "editor.b"])?)
}

async fn a_base_is_looked_for_in_the_scope_asked_for(stores: Stores) -> Verdict {
    let seen = stores.made("1", &[("editor.a", json!("a1"))]).await?;
    stores.applied(&save(&seen, &Writer::editor("anna"), &[("editor.a", json!("a2"))])?).await?;

    let query =
        BaseQuery { path: path("editor.a")?, scope: scope("media")?, version: ScopeVersion(0) };
    let found = stores.history.bases(&seen.entity, &[query]).await.map_err(text_of)?;
    same("another scope", found.len(), 0)?;

    // Deleting is a change of every unit it lists.
    let now = stores.seen(&seen.entity).await?;
    let mut delete = deletion(&now)?;
    delete.changed = vec![crate::commit::Changed {
        path: path("editor.a")?,
        scope: scope("editor")?,
        old: Value::Present(json!("a2")),
        new: Value::Absent,
        strategy: None,
    }];
    stores.applied(&delete).await?;
    let query =
        BaseQuery { path: path("editor.a")?, scope: scope("editor")?, version: ScopeVersion(2) };
    let found = stores.history.bases(&seen.entity, &[query]).await.map_err(text_of)?;
    same("before the deletion", found.into_values().collect(), vec![Value::Present(json!("a2"))])
}

async fn what_was_never_there_is_empty(stores: Stores) -> Verdict {
    let (never, name) = (product("never")?, path("editor.name")?);
    let query = BaseQuery { path: name.clone(), scope: scope("editor")?, version: ScopeVersion(0) };
    let history = &stores.history;

    same("entries", history.entries(&never, None, 9).await.map_err(text_of)?.len(), 0)?;
    same("blame", history.blame(&never, &[name]).await.map_err(text_of)?.len(), 0)?;
    same("bases", history.bases(&never, &[query]).await.map_err(text_of)?.len(), 0)?;
    let version = history.version(&never, VersionNumber(1)).await.map_err(text_of)?;
    same("version", version.is_some(), false)
}
