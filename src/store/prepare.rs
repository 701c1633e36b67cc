//! A commit made ready on the caller's thread: what can be checked and encoded without the database.

use serde_json::Value as Json;

use crate::{
    commit::{Commit, Expect, KeyUse, Lifecycle, OperationDetail, Trace},
    entity::{EntityRef, Writer, WriterKind},
    error::{Error, Result},
    path::{Path, Pattern},
    record::Patch,
    scope::ScopeName,
    store::text as stored,
    token::{Fence, Generation, Incarnation, OperationId},
};

/// Deeper values could be written and never read again: JSON parsers stop at 128.
const DEPTH_MAX: usize = 100;

/// A commit, encoded.
pub(crate) struct Prepared {
    pub(crate) operation: OperationId,
    pub(crate) writer: Writer,
    pub(crate) entity: EntityRef,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) incarnation: Incarnation,
    pub(crate) generation: Generation,
    pub(crate) entity_fence: Fence,
    pub(crate) scopes: Vec<PreparedScope>,
    pub(crate) inputs: Vec<(Path, Option<OperationId>)>,
    pub(crate) input_patterns: Vec<Pattern>,
    pub(crate) parents: Vec<Path>,
    pub(crate) patch: Patch,
    pub(crate) removed_items: Vec<Path>,
    pub(crate) changed: Vec<PreparedChange>,
    pub(crate) version: Option<PreparedVersion>,
    pub(crate) detail: String,
    /// As it was asked for: what of it is written is `store::keys::End::by`.
    pub(crate) key: Option<KeyUse>,
    /// Kind and text of what is told.
    pub(crate) events: Vec<(String, String)>,
    pub(crate) queued: Option<OperationId>,
}

/// One scope of it.
pub(crate) struct PreparedScope {
    pub(crate) name: ScopeName,
    pub(crate) text: String,
    pub(crate) expect: Expect,
    /// 1 when something in the scope changes, else it is only compared.
    pub(crate) by: i64,
}

/// One changed unit.
pub(crate) struct PreparedChange {
    pub(crate) path: Path,
    pub(crate) scope: ScopeName,
    pub(crate) scope_text: String,
    pub(crate) old: Option<String>,
    pub(crate) new: Option<String>,
    pub(crate) strategy: Option<String>,
}

/// What an editor's save adds to the history.
pub(crate) struct PreparedVersion {
    pub(crate) state: String,
    pub(crate) reason: Option<String>,
}

impl Prepared {
    /// Checks what the plan promises and encodes it.
    pub(crate) fn new(commit: &Commit) -> Result<Self> {
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
            old: stored::value_text(&change.old),
            new: stored::value_text(&change.new),
            strategy: change.strategy.clone(),
        });
        let (version, detail) = match &commit.trace {
            Trace::Version { state, reason } => {
                let version =
                    PreparedVersion { state: stored::record_text(state), reason: reason.clone() };
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
            key: commit.key.clone(),
            events: commit
                .events
                .iter()
                .map(|event| (event.kind.clone(), event.body.to_string()))
                .collect(),
            queued: commit.queued,
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
