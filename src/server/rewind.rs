//! Restoring versions and undoing jobs over HTTP.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use serde_json::{Value as Json, json};

use crate::{
    engine::{Rewind, UndoOf},
    path::Path,
    server::{
        App, answer,
        auth::Caller,
        entities::Target,
        limits::read_json,
        principals::Permission,
        problem::Problem,
        wire::{self, paths},
    },
    token::{OperationId, VersionNumber},
};

/// A restore as it is sent.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RestoreBody {
    version: u64,
    #[serde(default)]
    only: Vec<String>,
    #[serde(default)]
    shared: Vec<String>,
    edit_token: Option<String>,
    #[serde(default)]
    plan: bool,
}

/// An undo as it is sent: one of the first two.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct UndoBody {
    operation: Option<OperationId>,
    job: Option<String>,
    /// Why fields of others are written all the same.
    force: Option<String>,
    #[serde(default)]
    plan: bool,
}

/// `POST /v1/entities/{type}/{id}/restore`: brings editor-owned fields back to a version; with `plan` says what that
/// would do.
pub(crate) async fn restore(
    State(app): State<Arc<App>>,
    caller: Caller,
    Target(entity): Target,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let body = read_json(&app.limits, app.clock.as_ref(), &headers, body).await?;
    let body: RestoreBody = wire::shape(body)?;
    let restore = caller.session(&app).restore(&entity, VersionNumber(body.version));
    let mut restore = restore.only(paths(body.only)?).shared(paths(body.shared)?);
    if let Some(token) = body.edit_token {
        restore = restore.token(token);
    }
    answer(restore.prepare().await?, body.plan).await
}

/// `POST /v1/entities/{type}/{id}/undo`: writes back what stood there before a save or a job; with `plan` says what that
/// would do.
pub(crate) async fn undo(
    State(app): State<Arc<App>>,
    caller: Caller,
    Target(entity): Target,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let body = read_json(&app.limits, app.clock.as_ref(), &headers, body).await?;
    let body: UndoBody = wire::shape(body)?;
    let what = match (body.operation, wire::short("job", body.job)?) {
        (Some(operation), None) => UndoOf::Operation(operation),
        (None, Some(job)) => UndoOf::Job(job),
        _ => return Err(Problem::new("bad_body", "send `operation` or `job`, one of them")),
    };
    let mut rewind = caller.session(&app).undo(&entity, what).await?;
    if let Some(reason) = wire::short("force", body.force)? {
        caller.must_have(Permission::Force)?;
        let plan = rewind.save.clone().plan().await?.plan;
        let denied = plan.decisions.iter().filter(|decided| decided.decision.code() == "denied");
        let denied: Vec<Path> = denied.map(|decided| decided.path.clone()).collect();
        rewind.save = rewind.save.force(denied, reason);
    }
    answer(rewind, body.plan).await
}

/// The answer of the save, and what it leaves.
async fn answer(rewind: Rewind, plan: bool) -> Result<Response, Problem> {
    let Rewind { save, left } = rewind;
    let left: Json = left.iter().map(|(path, code)| (path.to_string(), json!(code))).collect();
    if plan {
        return Ok(answer::planned_with(&save.plan().await?, ("left", left)));
    }
    Ok(answer::outcome_with(save.send().await?, StatusCode::OK, false, ("left", left)))
}
