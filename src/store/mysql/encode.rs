//! A prepared save as the parameters of `fl_commit`.

use std::collections::BTreeSet;

use mysql_async::Value as Column;
use serde_json::Value as Json;

use crate::{
    commit::{Expect, Lifecycle},
    database::mysql::Fault,
    entity::WriterKind,
    path::{Path, Pattern},
    store::{
        mysql::{keys, load::key, pattern, rows},
        prepare::{Prepared, PreparedScope},
        text as stored,
    },
    token::OperationId,
};

type Made<T> = Result<T, Fault>;

/// Longest scope as text, the width of its column.
pub(super) const SCOPE_BYTES_MAX: usize = 1_536;

/// The parameters, in order.
pub(super) fn params(save: &Prepared) -> Made<Vec<Column>> {
    let [kind, id] = key(&save.entity);
    let version = save.version.as_ref();
    let nodes = nodes(save);
    Ok(vec![
        rows::operation_bytes(save.operation),
        kind,
        id,
        rows::bytes(stored::lifecycle_text(save.lifecycle)),
        rows::column(save.incarnation.0)?,
        rows::bytes(save.generation.0),
        rows::column(save.entity_fence.0)?,
        Column::Int(i64::from(is_exclusive(save))),
        rows::bytes(stored::kind_text(save.writer.kind)),
        rows::bytes(&*save.writer.name),
        rows::or_null(save.writer.on_behalf_of.as_deref()),
        rows::bytes(&save.detail),
        rows::or_null(version.map(|version| version.state.as_str())),
        rows::or_null(version.and_then(|version| version.reason.as_deref())),
        list(save.scopes.iter().map(scope)),
        list(save.inputs.iter().map(input)),
        list(save.input_patterns.iter().map(|pattern| Json::from(regular(pattern)))),
        list(save.parents.iter().map(item)),
        list(save.removed_items.iter().map(item)),
        list(unset(save).map(|path| Json::from(path.as_str()))),
        list(set(save).map(leaf)),
        list(nodes.iter().map(|path| Json::from(path.as_str()))),
        list(save.changed.iter().map(|change| {
            Json::from(vec![
                Json::from(change.path.as_str()),
                Json::from(change.scope_text.as_str()),
                Json::from(change.old.as_deref()),
                Json::from(change.new.as_deref()),
                Json::from(change.strategy.as_deref()),
            ])
        })),
        keys::param(save.key.as_ref()),
        save.queued.map_or(Column::NULL, rows::operation_bytes),
        list(save.events.iter().map(|(kind, body)| event(kind, body))),
    ])
}

/// Bytes of the packet that carries the parameters, at most.
pub(super) fn size(params: &[Column]) -> u64 {
    let bytes = params.iter().map(|param| match param {
        Column::Bytes(bytes) => bytes.len() + 16,
        _ => 16,
    });
    u64::try_from(bytes.sum::<usize>()).unwrap_or(u64::MAX).saturating_add(64)
}

/// What decides on more than the scopes it writes needs the entity for itself while it is decided; and a version, its
/// number. Events of one record are written in the order of its commits.
fn is_exclusive(save: &Prepared) -> bool {
    save.lifecycle != Lifecycle::Update
        || save.writer.kind == WriterKind::Editor
        || !save.inputs.is_empty()
        || !save.input_patterns.is_empty()
        || !save.parents.is_empty()
        || !save.removed_items.is_empty()
        || !save.events.is_empty()
}

fn regular(pattern: &Pattern) -> String {
    pattern::regular(pattern)
}

fn scope(scope: &PreparedScope) -> Json {
    let (how, version, fence, holder) = match &scope.expect {
        Expect::Version(version) => ("version", Some(version.0), None, None),
        Expect::Claimed { version, fence, holder } => {
            let holder = format!("{:032X}", u128::from_be_bytes(holder.0));
            ("claimed", Some(version.0), Some(fence.0), Some(holder))
        }
        Expect::Unread => ("unread", None, None, None),
    };
    let parts = [
        Json::from(scope.text.as_str()),
        Json::from(how),
        Json::from(scope.by),
        Json::from(version),
        Json::from(fence),
        Json::from(holder),
    ];
    Json::from(parts.to_vec())
}

fn input((path, operation): &(Path, Option<OperationId>)) -> Json {
    let operation = operation.map(|operation| format!("{:032X}", operation.0));
    Json::from(vec![Json::from(path.as_str()), Json::from(operation)])
}

fn item(path: &Path) -> Json {
    let (keys, axes) = pattern::item(path);
    Json::from(vec![Json::from(path.as_str()), Json::from(keys), Json::from(axes)])
}

/// As `fl_apply` and `fl_outbox_tell` want it.
pub(super) fn event(kind: &str, body: &str) -> Json {
    Json::from(vec![Json::from(kind), Json::from(body)])
}

fn unset(save: &Prepared) -> impl Iterator<Item = &Path> {
    save.patch.iter().filter(|(_, leaf)| leaf.is_none()).map(|(path, _)| path)
}

fn set(save: &Prepared) -> impl Iterator<Item = (&Path, &Json)> {
    save.patch.iter().filter_map(|(path, leaf)| leaf.as_ref().map(|leaf| (path, leaf)))
}

fn leaf((path, leaf): (&Path, &Json)) -> Json {
    let parts = [
        Json::from(path.as_str()),
        Json::from(leaf.to_string()),
        Json::from(pattern::keys_text(path)),
        Json::from(pattern::axes(path)),
    ];
    Json::from(parts.to_vec())
}

/// The objects above what is written, on the same axis values, without those written themselves.
fn nodes(save: &Prepared) -> BTreeSet<Path> {
    let mut nodes = BTreeSet::new();
    for (path, _) in set(save) {
        let mut above = path.parent();
        while let Some(node) = above {
            above = node.parent();
            if !nodes.insert(node) {
                break;
            }
        }
    }
    let made = |path: &Path| {
        let leaf = save.patch.get(path).and_then(Option::as_ref);
        leaf.is_some_and(|leaf| leaf.as_object().is_some_and(serde_json::Map::is_empty))
    };
    nodes.retain(|path| !made(path));
    nodes
}

/// A JSON array; NULL when it is empty.
pub(super) fn list(items: impl Iterator<Item = Json>) -> Column {
    let items: Vec<Json> = items.collect();
    if items.is_empty() { Column::NULL } else { rows::bytes(Json::from(items).to_string()) }
}
