//! A commit made ready on the caller's thread: what can be checked and encoded without the database.

use serde_json::Value as Json;

use crate::{
    commit::{Commit, Expect, Lifecycle, OperationDetail, Trace},
    entity::{EntityRef, Writer, WriterKind},
    error::{Error, Result},
    path::{Path, Pattern},
    record::Patch,
    scope::ScopeName,
    store::sqlite::rows,
    token::{Fence, Generation, Incarnation, OperationId},
};

/// Deeper values could be written and never read again: JSON parsers stop at 128.
const DEPTH_MAX: usize = 100;

/// A commit, encoded.
pub(super) struct Prepared {
    pub(super) operation: OperationId,
    pub(super) writer: Writer,
    pub(super) entity: EntityRef,
    pub(super) lifecycle: Lifecycle,
    pub(super) incarnation: Incarnation,
    pub(super) generation: Generation,
    pub(super) entity_fence: Fence,
    pub(super) scopes: Vec<PreparedScope>,
    pub(super) inputs: Vec<(Path, Option<OperationId>)>,
    pub(super) input_patterns: Vec<Pattern>,
    pub(super) parents: Vec<Path>,
    pub(super) patch: Patch,
    pub(super) removed_items: Vec<Path>,
    pub(super) changed: Vec<PreparedChange>,
    pub(super) version: Option<PreparedVersion>,
    pub(super) detail: String,
}

/// One scope of it.
pub(super) struct PreparedScope {
    pub(super) name: ScopeName,
    pub(super) text: String,
    pub(super) expect: Expect,
    /// 1 when something in the scope changes, else it is only compared.
    pub(super) by: i64,
}

/// One changed unit.
pub(super) struct PreparedChange {
    pub(super) path: Path,
    pub(super) scope: ScopeName,
    pub(super) scope_text: String,
    pub(super) old: Option<String>,
    pub(super) new: Option<String>,
    pub(super) strategy: Option<String>,
}

/// What an editor's save adds to the history.
pub(super) struct PreparedVersion {
    pub(super) state: String,
    pub(super) reason: Option<String>,
}

impl Prepared {
    /// Checks what the plan promises and encodes it.
    pub(super) fn new(commit: &Commit) -> Result<Self> {
        check(commit)?;
        let changes_in =
            |scope: &ScopeName| commit.changed.iter().any(|change| change.scope == *scope);
        let all = commit.lifecycle == Lifecycle::Delete;
        let scopes = commit.scopes.iter().map(|(name, expect)| PreparedScope {
            name: name.clone(),
            text: name.to_string(),
            expect: expect.clone(),
            by: i64::from(all || changes_in(name)),
        });
        let changed = commit.changed.iter().map(|change| PreparedChange {
            path: change.path.clone(),
            scope: change.scope.clone(),
            scope_text: change.scope.to_string(),
            old: rows::value_text(&change.old),
            new: rows::value_text(&change.new),
            strategy: change.strategy.clone(),
        });
        let (version, detail) = match &commit.trace {
            Trace::Version { state, reason } => {
                let version =
                    PreparedVersion { state: rows::record_text(state), reason: reason.clone() };
                (Some(version), detail_text(&OperationDetail::default())?)
            }
            Trace::Operation(detail) => (None, detail_text(detail)?),
        };
        Ok(Self {
            operation: commit.operation,
            writer: commit.writer.clone(),
            entity: commit.entity.clone(),
            lifecycle: commit.lifecycle,
            incarnation: commit.incarnation,
            generation: commit.generation,
            entity_fence: commit.entity_fence,
            scopes: scopes.collect(),
            inputs: commit.inputs.iter().map(|(path, at)| (path.clone(), *at)).collect(),
            input_patterns: commit.input_patterns.clone(),
            parents: commit.parents.clone(),
            patch: commit.patch.clone(),
            removed_items: commit.removed_items.clone(),
            changed: changed.collect(),
            version,
            detail,
        })
    }
}

fn check(commit: &Commit) -> Result<()> {
    if commit.lifecycle == Lifecycle::Update && commit.changed.is_empty() {
        return Err(Error::internal("a save that changes nothing was sent to the store"));
    }
    let fits = match commit.trace {
        Trace::Version { .. } => commit.writer.kind == WriterKind::Editor,
        Trace::Operation(_) => commit.writer.kind == WriterKind::Worker,
    };
    if !fits {
        let kind = commit.writer.kind;
        return Err(Error::internal(format!(
            "the record of this save does not fit its {kind} (RULES 34)"
        )));
    }
    if let Some(change) =
        commit.changed.iter().find(|change| !commit.scopes.contains_key(&change.scope))
    {
        let (path, scope) = (&change.path, &change.scope);
        return Err(Error::internal(format!(
            "`{path}` changes in `{scope}`, of which nothing is expected"
        )));
    }
    let deep = commit
        .patch
        .iter()
        .find(|(_, leaf)| leaf.as_ref().is_some_and(|leaf| depth(leaf) > DEPTH_MAX));
    if let Some((path, _)) = deep {
        return Err(Error::invalid(
            "too_deep",
            format!("the value of `{path}` is nested more than {DEPTH_MAX} deep"),
            "store such a value as text",
        ));
    }
    Ok(())
}

fn depth(json: &Json) -> usize {
    match json {
        Json::Array(members) => 1 + members.iter().map(depth).max().unwrap_or(0),
        Json::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn detail_text(detail: &OperationDetail) -> Result<String> {
    serde_json::to_string(detail)
        .map_err(|error| Error::internal(format!("an operation record cannot be written: {error}")))
}
