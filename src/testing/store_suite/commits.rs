//! Commits: compared and applied whole, or not at all (RULES 2, 3, 7, 24, 25).

use serde_json::json;

use crate::{
    commit::{Changed, Committed, Expect, Refusal},
    entity::{Value, Writer},
    path::{Path, Pattern},
    scope::ScopeName,
    testing::store_suite::{
        Stores, Verdict,
        build::{
            operation, path, paths, product, same, save, save_under, scope, text_of, token,
            trace_of,
        },
        promises,
    },
    token::ScopeVersion,
};

promises![
    a_missing_scope_row_is_version_0_and_losing_its_insert_is_stale,
    a_save_raises_each_scope_that_changed_by_one_and_no_other,
    a_scope_that_is_only_compared_keeps_its_version,
    saves_of_different_scopes_never_conflict,
    a_stale_save_names_every_stale_scope_and_changes_nothing,
    a_fenced_scope_is_named_before_a_stale_one,
    an_operation_takes_effect_once_however_often_it_is_sent,
    an_operation_that_never_came_resolves_to_nothing,
    a_moved_input_refuses_the_save,
    an_input_that_came_into_being_refuses_the_save,
    an_item_removed_on_one_axis_value_keeps_its_stamps_on_the_others,
    an_input_in_another_scope_may_be_written_while_others_change,
    a_write_inside_an_item_needs_the_item,
    stamps_of_a_removed_item_go_with_it,
    a_save_stamps_what_it_changed,
    a_save_that_changes_nothing_is_a_defect_of_the_caller,
    a_record_that_does_not_fit_its_writer_is_a_defect_of_the_caller,
    twelve_writers_of_two_groups_lose_nothing,
];

fn worker() -> Writer {
    Writer::worker("sync")
}

async fn a_missing_scope_row_is_version_0_and_losing_its_insert_is_stale(
    stores: Stores,
) -> Verdict {
    let seen = stores.made("1", &[("editor.name", json!("a"))]).await?;
    let stock = scope("stock")?;
    same("a missing scope", seen.versions.get(&stock), None)?;

    let first = save(&seen, &worker(), &[("stock.count", json!(1))])?;
    let second = save(&seen, &worker(), &[("stock.count", json!(2))])?;
    let mut high = save(&seen, &worker(), &[("price.net", json!(2))])?;
    high.scopes.insert(scope("price")?, Expect::Version(ScopeVersion(3)));

    stores.applied(&first).await?;
    stores.refused(&second, Refusal::Stale(vec![stock])).await?;
    stores.refused(&high, Refusal::Stale(vec![scope("price")?])).await
}

async fn a_save_raises_each_scope_that_changed_by_one_and_no_other(stores: Stores) -> Verdict {
    let values = [("editor.name", json!("a")), ("price.net", json!(1)), ("media.width", json!(1))];
    let seen = stores.made("1", &values).await?;

    let values = [("price.net", json!(2)), ("price.gross", json!(3)), ("editor.name", json!("b"))];
    let (versions, _) = stores.applied(&save(&seen, &worker(), &values)?).await?;

    let wanted = [(scope("editor")?, ScopeVersion(2)), (scope("price")?, ScopeVersion(2))];
    same("the versions answered", versions, wanted.into_iter().collect())?;
    let after = stores.seen(&seen.entity).await?;
    same("price", after.version(&scope("price")?), ScopeVersion(2))?;
    same("media", after.version(&scope("media")?), ScopeVersion(1))
}

async fn a_scope_that_is_only_compared_keeps_its_version(stores: Stores) -> Verdict {
    let values = [("media.width", json!(1)), ("search.text", json!("x"))];
    let seen = stores.made("1", &values).await?;
    let a = token();
    let claim = stores.claimed(&seen.entity, &["media", "search"], a).await?;

    let search = scope("search")?;
    let expect = crate::testing::store_suite::build::held(&claim, a, &search);
    let mut commit = save_under(&claim, a, &[("media.width", json!(2))])?;
    commit.scopes.insert(search.clone(), expect.clone());
    let (versions, _) = stores.applied(&commit).await?;
    same("the scope without a change", versions.get(&search), Some(&ScopeVersion(1)))?;

    // It is compared all the same.
    let next = stores.seen(&seen.entity).await?;
    stores.applied(&save_unread(&next, "search.text")?).await?;
    let mut second = save_under(&claim, a, &[("media.width", json!(3))])?;
    let fence = claim.fences.get(&scope("media")?).copied().unwrap_or_default();
    let media = Expect::Claimed { version: ScopeVersion(2), fence, holder: a };
    second.scopes = [(scope("media")?, media), (search.clone(), expect)].into_iter().collect();
    stores.refused(&second, Refusal::Stale(vec![search])).await
}

fn save_unread(
    seen: &crate::snapshot::Snapshot,
    text: &str,
) -> Result<crate::commit::Commit, String> {
    let mut commit = save(seen, &worker(), &[(text, json!("unread"))])?;
    for expect in commit.scopes.values_mut() {
        *expect = Expect::Unread;
    }
    Ok(commit)
}

async fn saves_of_different_scopes_never_conflict(stores: Stores) -> Verdict {
    let values = [("editor.name", json!("a")), ("price.net", json!(1)), ("stock.count", json!(1))];
    let seen = stores.made("1", &values).await?;

    // All planned on the same snapshot.
    for (index, text) in
        ["editor.name", "price.net", "stock.count", "media.width"].iter().enumerate()
    {
        stores.applied(&save(&seen, &worker(), &[(text, json!(index + 10))])?).await?;
    }

    let after = stores.seen(&seen.entity).await?;
    let values: Vec<_> = paths(&["editor.name", "price.net", "stock.count", "media.width"])?
        .iter()
        .map(|path| after.record.get(path))
        .collect();
    same("the values", values, [10, 11, 12, 13].map(|n| Value::Present(json!(n))).to_vec())
}

async fn a_stale_save_names_every_stale_scope_and_changes_nothing(stores: Stores) -> Verdict {
    let values = [("editor.name", json!("a")), ("price.net", json!(1)), ("stock.count", json!(1))];
    let seen = stores.made("1", &values).await?;
    let moved = [("price.net", json!(2)), ("stock.count", json!(2))];
    stores.applied(&save(&seen, &worker(), &moved)?).await?;

    let all = [("editor.name", json!("b")), ("price.net", json!(3)), ("stock.count", json!(3))];
    let late = save(&seen, &Writer::editor("anna"), &all)?;
    stores.refused(&late, Refusal::Stale(vec![scope("price")?, scope("stock")?])).await
}

async fn a_fenced_scope_is_named_before_a_stale_one(stores: Stores) -> Verdict {
    let values = [("media.width", json!(1)), ("price.net", json!(1))];
    let seen = stores.made("1", &values).await?;
    let a = token();
    let claim = stores.claimed(&seen.entity, &["media"], a).await?;
    stores.applied(&save(&seen, &worker(), &[("price.net", json!(2))])?).await?;
    stores.claimed(&seen.entity, &["media"], token()).await?;

    let values = [("media.width", json!(3)), ("price.net", json!(3))];
    let mut late = save_under(&claim, a, &values)?;
    late.scopes.insert(scope("price")?, Expect::Version(seen.version(&scope("price")?)));
    stores.refused(&late, Refusal::Fenced(vec![scope("media")?])).await
}

async fn an_operation_takes_effect_once_however_often_it_is_sent(stores: Stores) -> Verdict {
    let seen = stores.made("1", &[("editor.name", json!("a"))]).await?;
    let commit = save(&seen, &Writer::editor("anna"), &[("editor.name", json!("b"))])?;

    let first = stores.commit(&commit).await?;
    let picture = stores.picture(&seen.entity).await?;
    let again = stores.commit(&commit).await?;
    let mut other = save(&stores.seen(&seen.entity).await?, &worker(), &[("price.net", json!(1))])?;
    other.operation = commit.operation;
    let reused = stores.commit(&other).await?;

    same("the second answer", again, Committed::AlreadyApplied)?;
    same("the answer to another save of that name", reused, Committed::AlreadyApplied)?;
    same("what the repetition left", stores.picture(&seen.entity).await?, picture)?;
    let resolved = stores.records.resolve(commit.operation).await.map_err(text_of)?;
    same("what it resolves to", resolved, Some(first))
}

async fn an_operation_that_never_came_resolves_to_nothing(stores: Stores) -> Verdict {
    let resolved = stores.records.resolve(operation()).await.map_err(text_of)?;
    same("an unknown operation", resolved, None)
}

async fn a_moved_input_refuses_the_save(stores: Stores) -> Verdict {
    let values = [("editor.image", json!("a.png")), ("media.thumb", json!("t0"))];
    let seen = stores.made("1", &values).await?;
    let stamp = |path: &Path| seen.stamps.get(path).map(|stamp| stamp.operation);
    let (image, crop, never) = (path("editor.image")?, path("editor.crop")?, path("editor.never")?);
    let mut thumb = save(&seen, &worker(), &[("media.thumb", json!("t1"))])?;
    thumb.inputs =
        [&image, &crop, &never].map(|path| (path.clone(), stamp(path))).into_iter().collect();

    let moved = [("editor.image", json!("b.png")), ("editor.crop", json!(1))];
    stores.applied(&save(&seen, &Writer::editor("anna"), &moved)?).await?;

    stores.refused(&thumb, Refusal::InputMoved(vec![crop, image])).await
}

async fn an_input_in_another_scope_may_be_written_while_others_change(stores: Stores) -> Verdict {
    let values = [("editor.image", json!("a.png")), ("editor.name", json!("n"))];
    let seen = stores.made("1", &values).await?;
    let image = path("editor.image")?;
    let mut thumb = save(&seen, &worker(), &[("media.thumb", json!("t1"))])?;
    thumb.inputs.insert(image.clone(), seen.stamps.get(&image).map(|stamp| stamp.operation));

    // The scope's version moves, the input's stamp does not.
    stores.applied(&save(&seen, &Writer::editor("anna"), &[("editor.name", json!("m"))])?).await?;

    stores.applied(&thumb).await?;
    Ok(())
}

async fn an_input_that_came_into_being_refuses_the_save(stores: Stores) -> Verdict {
    let seen = stores.made("1", &[("gallery.a.file", json!("a.png"))]).await?;
    let known = path("gallery.a.file")?;
    let mut sheet = save(&seen, &worker(), &[("media.sheet", json!("s"))])?;
    sheet.inputs.insert(known.clone(), seen.stamps.get(&known).map(|stamp| stamp.operation));
    sheet.input_patterns =
        vec![Pattern::parse("gallery.*.file").map_err(|error| error.to_string())?];
    let mut again = sheet.clone();
    again.operation = operation();

    let other = [("gallery.a.caption", json!("A")), ("gallery.files", json!(1))];
    stores.applied(&save(&seen, &Writer::editor("anna"), &other)?).await?;
    stores.applied(&sheet).await?;
    let now = stores.seen(&seen.entity).await?;
    let more = [("gallery.b.file", json!("b.png"))];
    stores.applied(&save(&now, &Writer::editor("anna"), &more)?).await?;

    again.scopes = save(&now, &worker(), &[("media.sheet", json!("s2"))])?.scopes;
    stores.refused(&again, Refusal::InputMoved(paths(&["gallery.b.file"])?)).await
}

async fn an_item_removed_on_one_axis_value_keeps_its_stamps_on_the_others(
    stores: Stores,
) -> Verdict {
    let values = [
        ("gallery.a.caption@locale=de", json!("A")),
        ("gallery.a.caption@locale=en", json!("B")),
        ("gallery.a.caption@channel=web+locale=de", json!("C")),
        ("gallery.a.width", json!(1)),
    ];
    let seen = stores.made("1", &values).await?;
    let item = path("gallery.a@locale=de")?;
    let mut after = seen.record.clone();
    after.remove_item(&item);
    let mut commit = save(&seen, &Writer::editor("anna"), &[("gallery.order", json!(1))])?;
    after.set(&path("gallery.order")?, &json!(1));
    commit.removed_items = vec![item];
    commit.trace = trace_of(&commit.writer, &after);
    stores.applied(&commit).await?;

    let left = stores.seen(&seen.entity).await?;
    same("the record", &left.record, &after)?;
    let stamps: Vec<String> = left.stamps.keys().map(ToString::to_string).collect();
    let wanted = ["gallery.a.caption@locale=en", "gallery.a.width", "gallery.order"];
    same("the stamps after", stamps, wanted.map(str::to_owned).to_vec())
}

async fn a_write_inside_an_item_needs_the_item(stores: Stores) -> Verdict {
    let seen = stores.made("1", &[("gallery.a.caption", json!("A"))]).await?;
    let mut inside = save(&seen, &worker(), &[("media.a", json!("thumb"))])?;
    inside.parents = paths(&["gallery.a"])?;
    let mut outside = save(&seen, &worker(), &[("media.b", json!("thumb"))])?;
    outside.parents = paths(&["gallery.a", "gallery.b"])?;

    stores.refused(&outside, Refusal::ParentGone(paths(&["gallery.b"])?)).await?;
    // Another item comes in between and disturbs nothing.
    stores
        .applied(&save(&seen, &Writer::editor("anna"), &[("gallery.c.caption", json!("C"))])?)
        .await?;
    stores.applied(&inside).await?;
    Ok(())
}

async fn stamps_of_a_removed_item_go_with_it(stores: Stores) -> Verdict {
    let values = [
        ("gallery.a", json!({})),
        ("gallery.a.caption@locale=de", json!("A")),
        ("gallery.a.width", json!(1)),
        ("gallery.a-b.width", json!(2)),
        ("gallery.a\\.b.width", json!(3)),
        ("gallery.ab", json!(4)),
    ];
    let seen = stores.made("1", &values).await?;
    same("the stamps before", seen.stamps.len(), 6)?;

    let (item, keys) = (path("gallery.a")?, path("gallery.#keys")?);
    let mut after = seen.record.clone();
    after.remove_item(&item);
    let mut commit = save(&seen, &Writer::editor("anna"), &[])?;
    commit.changed = vec![Changed {
        old: seen.record.get(&keys),
        new: after.get(&keys),
        scope: scope("gallery")?,
        path: keys.clone(),
        strategy: None,
    }];
    commit.scopes.insert(scope("gallery")?, Expect::Version(seen.version(&scope("gallery")?)));
    commit.removed_items = vec![item];
    commit.trace = trace_of(&commit.writer, &after);
    stores.applied(&commit).await?;

    let left = stores.seen(&seen.entity).await?;
    same("the record", &left.record, &after)?;
    let stamps: Vec<String> = left.stamps.keys().map(ToString::to_string).collect();
    let wanted = ["gallery.#keys", "gallery.a-b.width", "gallery.a\\.b.width", "gallery.ab"];
    let mut wanted: Vec<String> = wanted.map(str::to_owned).to_vec();
    wanted.sort();
    let mut stamps_sorted = stamps;
    stamps_sorted.sort();
    same("the stamps after", stamps_sorted, wanted)
}

async fn a_save_stamps_what_it_changed(stores: Stores) -> Verdict {
    let values = [("editor.name", json!("a")), ("editor.title", json!("t"))];
    let seen = stores.made("1", &values).await?;
    let mut writer = Writer::editor("bert");
    writer.on_behalf_of = Some("carla".into());
    let commit = save(&seen, &writer, &[("editor.name", json!("b"))])?;
    stores.applied(&commit).await?;

    let after = stores.seen(&seen.entity).await?;
    let (name, title) = (path("editor.name")?, path("editor.title")?);
    same("the other stamp", after.stamps.get(&title), seen.stamps.get(&title))?;
    let stamp = after.stamps.get(&name).ok_or("no stamp")?;
    same("its scope", &stamp.scope, &scope("editor")?)?;
    same("its version", stamp.version, ScopeVersion(2))?;
    same("its operation", stamp.operation, commit.operation)?;
    same("its writer", &stamp.writer, &writer)?;
    same("whether it has a time", stamp.at.0 > 0, true)
}

async fn a_save_that_changes_nothing_is_a_defect_of_the_caller(stores: Stores) -> Verdict {
    let seen = stores.made("1", &[("editor.name", json!("a"))]).await?;
    let empty = save(&seen, &Writer::editor("anna"), &[])?;
    let picture = stores.picture(&seen.entity).await?;

    let code = stores.records.commit(&empty).await.err().map(|error| error.code());
    same("an empty save", code, Some("internal"))?;

    let mut elsewhere = save(&seen, &worker(), &[("price.net", json!(1))])?;
    elsewhere.scopes.clear();
    let code = stores.records.commit(&elsewhere).await.err().map(|error| error.code());
    same("a change in a scope nobody compares", code, Some("internal"))?;
    same("what they left", stores.picture(&seen.entity).await?, picture)
}

async fn a_record_that_does_not_fit_its_writer_is_a_defect_of_the_caller(
    stores: Stores,
) -> Verdict {
    let seen = stores.made("1", &[("editor.name", json!("a"))]).await?;
    for (writer, other) in [(Writer::editor("anna"), worker()), (worker(), Writer::editor("anna"))]
    {
        let mut commit = save(&seen, &writer, &[("editor.name", json!("b"))])?;
        commit.trace = trace_of(&other, &seen.record);
        let code = stores.records.commit(&commit).await.err().map(|error| error.code());
        same("the answer", code, Some("internal"))?;
    }
    Ok(())
}

const WRITERS: u64 = 12;
const SAVES: u64 = 200;

async fn twelve_writers_of_two_groups_lose_nothing(stores: Stores) -> Verdict {
    let values = [("price.sum", json!(0)), ("stock.sum", json!(0))];
    let seen = stores.made("1", &values).await?;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let (stores, text) =
            (stores.clone(), if writer % 2 == 0 { "price.sum" } else { "stock.sum" });
        writers.spawn(async move { add(&stores, text).await });
    }
    while let Some(done) = writers.join_next().await {
        done.map_err(text_of)??;
    }

    let after = stores.seen(&seen.entity).await?;
    let each = WRITERS / 2 * SAVES;
    for text in ["price.sum", "stock.sum"] {
        same(text, after.record.get(&path(text)?), Value::Present(json!(each)))?;
        same("its version", after.version(&scope_of(text)?), ScopeVersion(each + 1))?;
    }
    same("versions", after.number, seen.number)?;
    let saves = WRITERS * SAVES + 1;
    let count = count(&stores, &seen.entity).await?;
    same("operations", count, saves)
}

fn scope_of(text: &str) -> Result<ScopeName, String> {
    crate::testing::store_suite::build::scope_of(&path(text)?)
}

/// Adds one, this often, and plans again whenever another was faster.
async fn add(stores: &Stores, text: &str) -> Verdict {
    let (entity, at) = (product("1")?, path(text)?);
    let mut left = SAVES;
    while left > 0 {
        let seen = stores.seen(&entity).await?;
        let sum = seen.record.get(&at).json().and_then(serde_json::Value::as_u64).unwrap_or(0);
        match stores.commit(&save(&seen, &worker(), &[(text, json!(sum + 1))])?).await? {
            Committed::Applied { .. } => left -= 1,
            // The version is the only thing compared: another group's save is no reason.
            Committed::Refused(Refusal::Stale(scopes)) => {
                same("the stale scope", scopes, vec![scope_of(text)?])?
            }
            other => return Err(format!("{other:?}")),
        }
    }
    Ok(())
}

/// All entries, page by page.
async fn count(stores: &Stores, entity: &crate::entity::EntityRef) -> Result<u64, String> {
    let (mut count, mut before) = (0, None);
    loop {
        let page = stores.history.entries(entity, before, 500).await.map_err(text_of)?;
        let Some(last) = page.last() else { return Ok(count) };
        count += page.len() as u64;
        before = Some(last.operation);
    }
}
