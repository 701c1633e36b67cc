//! One save as the parameters of `fl_commit`, and what it answers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};
use tokio_postgres::{Row, types::Type};

use crate::{
    commit::{Committed, Expect, OperationDetail, Refusal},
    database::postgres::{
        Call, Class, Fault,
        values::{JsonText, Uuid},
    },
    path::Path,
    scope::ScopeName,
    store::{
        expressions,
        postgres::{history::versions_after, keys, load::of_entity, rows, statements::Statements},
        prepare::Prepared,
        text as stored,
    },
};

type Done<T> = Result<T, Fault>;

/// The call, with its parameters in the order of the routine's.
pub(super) fn call(sql: &Statements, save: &Prepared) -> Done<Call> {
    let call = Call::new(&sql.commit).with(Type::UUID, rows::operation_column(save.operation));
    let call = of_entity(call, &save.entity)
        .with(Type::TEXT, stored::lifecycle_text(save.lifecycle))
        .with(Type::INT8, rows::number_column(save.incarnation.0)?)
        .with(Type::BYTEA, save.generation.0.to_vec())
        .with(Type::INT8, rows::number_column(save.entity_fence.0)?);
    let call = with_changes(with_conditions(with_scopes(call, save)?, save)?, save)?;
    Ok(call
        .with(Type::TEXT, stored::kind_text(save.writer.kind))
        .with(Type::TEXT, rows::plain(&save.writer.name)?)
        .with(Type::TEXT, save.writer.on_behalf_of.as_deref().map(rows::plain).transpose()?)
        .with(Type::JSONB, save.key.as_ref().map(keys::key_text).transpose()?))
}

fn with_scopes(call: Call, save: &Prepared) -> Done<Call> {
    let mut names = Vec::new();
    let (mut rises, mut versions) = (Vec::new(), Vec::new());
    let (mut fences, mut holders) = (Vec::new(), Vec::new());
    for scope in &save.scopes {
        names.push(rows::scope_column(&scope.name));
        rises.push(scope.by);
        let (version, fence, holder) = match &scope.expect {
            Expect::Version(version) => (Some(*version), None, None),
            Expect::Claimed { version, fence, holder } => {
                (Some(*version), Some(*fence), Some(*holder))
            }
            Expect::Unread => (None, None, None),
        };
        versions.push(version.map(|version| rows::number_column(version.0)).transpose()?);
        fences.push(fence.map(|fence| rows::number_column(fence.0)).transpose()?);
        holders.push(holder.map(|holder| Uuid(holder.0)));
    }
    Ok(call
        .with(Type::TEXT_ARRAY, names)
        .with(Type::INT8_ARRAY, rises)
        .with(Type::INT8_ARRAY, versions)
        .with(Type::INT8_ARRAY, fences)
        .with(Type::UUID_ARRAY, holders))
}

fn with_conditions(call: Call, save: &Prepared) -> Done<Call> {
    let inputs: Vec<String> =
        save.inputs.iter().map(|(path, _)| path.as_str().to_owned()).collect();
    let operations: Vec<Option<Uuid>> =
        save.inputs.iter().map(|(_, at)| at.map(rows::operation_column)).collect();
    let open = save.input_patterns.iter().map(expressions::of_pattern).collect();
    let parents: Vec<String> = save.parents.iter().map(|path| path.as_str().to_owned()).collect();
    let parent_expressions = save.parents.iter().map(expressions::of_item).collect();
    Ok(call
        .with(Type::TEXT_ARRAY, inputs)
        .with(Type::UUID_ARRAY, operations)
        .with(Type::JSONB, expression_lists(open)?)
        .with(Type::TEXT_ARRAY, parents)
        .with(Type::JSONB, expression_lists(parent_expressions)?))
}

/// NULL when there is none.
fn expression_lists(lists: Vec<Vec<String>>) -> Done<Option<JsonText>> {
    (!lists.is_empty()).then(|| json_text(&lists)).transpose()
}

fn with_changes(call: Call, save: &Prepared) -> Done<Call> {
    let removed = save.removed_items.iter().map(expressions::of_item).collect();
    let gone = save.patch.iter().filter(|(_, leaf)| leaf.is_none());
    let gone: Vec<String> = gone.map(|(path, _)| path.as_str().to_owned()).collect();
    let node = |leaf: &Json| leaf.as_object().is_some_and(serde_json::Map::is_empty);
    let leaves =
        save.patch.iter().filter(|(_, leaf)| leaf.as_ref().is_some_and(|leaf| !node(leaf)));
    let leaves: Vec<String> = leaves.map(|(path, _)| path.as_str().to_owned()).collect();
    let place = |scope: &ScopeName| {
        let place = save.scopes.iter().position(|own| own.name == *scope);
        place.and_then(|place| i32::try_from(place + 1).ok()).unwrap_or(0)
    };
    let changed: Vec<String> =
        save.changed.iter().map(|change| change.path.as_str().to_owned()).collect();
    let changed_in: Vec<i32> = save.changed.iter().map(|change| place(&change.scope)).collect();
    let state = save.version.as_ref().map(|version| state_text(&version.state)).transpose()?;
    Ok(call
        .with(Type::JSONB, expression_lists(removed)?)
        .with(Type::TEXT_ARRAY, gone)
        .with(Type::JSONB, JsonText(put_text(save)?))
        .with(Type::TEXT_ARRAY, leaves)
        .with(Type::TEXT_ARRAY, changed)
        .with(Type::INT4_ARRAY, changed_in)
        .with(Type::JSONB, changes_text(save)?)
        .with(Type::JSON, JsonText(detail_text(save)?))
        .with(Type::JSONB, state))
}

/// Leaves to put, and the nodes above them: another save may have taken one away since this one was planned.
fn put_text(save: &Prepared) -> Done<String> {
    let node = Json::Object(serde_json::Map::new());
    let put = save.patch.iter().filter_map(|(path, leaf)| Some((path, leaf.as_ref()?)));
    let mut above: BTreeSet<Path> = BTreeSet::new();
    for (path, _) in put.clone() {
        let mut parent = path.parent();
        while let Some(node) = parent {
            parent = node.parent();
            if !above.insert(node) {
                break;
            }
        }
    }
    let mut leaves: BTreeMap<&Path, &Json> = above.iter().map(|path| (path, &node)).collect();
    leaves.extend(put);
    rows::record_text(leaves.into_iter())
}

fn changes_text(save: &Prepared) -> Done<JsonText> {
    let changes = save.changed.iter().map(|change| {
        let scope = rows::scope_column(&change.scope);
        let mut entry = json!({ "path": change.path.as_str(), "scope": scope });
        for (name, text) in
            [("old", &change.old), ("new", &change.new), ("strategy", &change.strategy)]
        {
            if let (Some(text), Some(entry)) = (text, entry.as_object_mut()) {
                entry.insert(name.to_owned(), Json::from(text.as_str()));
            }
        }
        entry
    });
    json_text(&changes.collect::<Vec<_>>())
}

/// A version keeps its reason where operation records do.
fn detail_text(save: &Prepared) -> Done<String> {
    match save.version.as_ref().and_then(|version| version.reason.clone()) {
        None => Ok(save.detail.clone()),
        reason => {
            let detail = OperationDetail { reason, ..OperationDetail::default() };
            json_text(&detail).map(|JsonText(text)| text)
        }
    }
}

/// From the flat object of [`Prepared`] to the stored form.
fn state_text(state: &str) -> Done<JsonText> {
    let leaves: BTreeMap<String, Json> = serde_json::from_str(state)
        .map_err(|error| Fault::new(Class::Broken, error.to_string()))?;
    let leaves: BTreeMap<String, String> =
        leaves.into_iter().map(|(path, leaf)| (path, leaf.to_string())).collect();
    json_text(&leaves)
}

fn json_text<T: serde::Serialize>(value: &T) -> Done<JsonText> {
    let text = serde_json::to_string(value);
    text.map(JsonText).map_err(|error| Fault::new(Class::Broken, error.to_string()))
}

/// What `fl_commit` answered.
pub(super) fn answer(save: &Prepared, row: Option<&Row>) -> Done<Committed> {
    let row = rows::the_row(row)?;
    let names =
        || -> Done<Vec<&str>> { Ok(rows::column::<Option<_>>(row, 2)?.unwrap_or_default()) };
    let scopes = || names()?.into_iter().map(rows::scope).collect::<Done<Vec<_>>>();
    let paths = || names()?.into_iter().map(rows::path).collect::<Done<Vec<_>>>();
    let refusal = match rows::column(row, 0)? {
        "applied" => {
            return Ok(Committed::Applied {
                versions: rows::versions(Some(names()?), rows::column(row, 3)?)?,
                number: rows::number(row, 4)?,
                incarnation: rows::incarnation(row, 5)?,
            });
        }
        "already" => return Ok(Committed::AlreadyApplied),
        "void" => {
            return Err(Fault::new(
                Class::Nothing,
                format!("operation {} was asked after and given up before it came", save.operation),
            ));
        }
        "stale_registry" => Refusal::StaleRegistry(rows::generation(row, 1)?),
        "not_found" => Refusal::NotFound,
        "exists" => Refusal::Exists,
        "gone" => Refusal::Gone,
        "recreated" => Refusal::Recreated,
        "fenced" => Refusal::Fenced(scopes()?),
        "stale" => Refusal::Stale(scopes()?),
        "input_moved" => Refusal::InputMoved(paths()?),
        "parent_gone" => Refusal::ParentGone(paths()?),
        other => keys::refusal(other, rows::column(row, 6)?)?,
    };
    Ok(Committed::Refused(refusal))
}

/// From the columns of `fl_resolve`.
pub(super) fn resolved(row: &Row) -> Done<Committed> {
    Ok(Committed::Applied {
        incarnation: rows::incarnation(row, 0)?,
        number: rows::number(row, 1)?,
        versions: versions_after(rows::column(row, 2)?)?,
    })
}
