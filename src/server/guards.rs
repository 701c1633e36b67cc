//! Version guards over HTTP: a save that goes on outside of this service says what it is, and a hook asks.
//!
//! The answer of what is not known is "makes a version". The kind comes from the token: an editor's guard suppresses
//! nothing. Everybody may ask, as ids are handed from process to process; only who opened a guard keeps or closes it.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    body::Body,
    extract::{Path as Captures, State, rejection::PathRejection},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use serde_json::json;

use crate::{
    error::Error,
    guard::{self, GUARD_TTL_MAX, Guard, GuardId, makes_version},
    server::{
        App,
        auth::Caller,
        limits::{read_json, read_json_or_nothing},
        problem::Problem,
        wire::{self, GuardBody, RenewBody},
    },
};

/// How long a guard is kept for a client that does not say.
const TTL: Duration = Duration::from_secs(30);

/// `POST /v1/version-guards`: puts up the guard of one save.
pub(crate) async fn open(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let body = read_json(&app.limits, app.clock.as_ref(), &headers, body).await?;
    let body: GuardBody = wire::shape(body)?;
    caller.must_see(&body.entity.kind)?;
    app.engine.rules(&body.entity.kind)?;
    let ttl = ttl(body.ttl_ms)?;
    if app.stop.is_cancelled() {
        return Err(Problem::new("stopping", "the service is stopping"));
    }
    let guard = Guard { kind: caller.0.writer.kind, owner: owner(&caller), entity: body.entity };
    let id = app.guards.open(&guard, ttl).await?;
    let answer = json!({
        "id": id.to_string(),
        "makes_version": guard.makes_version(),
        "expires_in_ms": millis(ttl),
    });
    Ok((StatusCode::CREATED, Json(answer)).into_response())
}

/// `GET /v1/version-guards/{id}`: whether the save of this guard makes a version.
pub(crate) async fn look(
    State(app): State<Arc<App>>,
    _caller: Caller,
    id: Result<Captures<String>, PathRejection>,
) -> Result<Response, Problem> {
    let known = match named(id) {
        Some(id) => app.guards.look(id).await?,
        None => None,
    };
    let makes_version = makes_version(known.as_ref());
    let answer = json!({"makes_version": makes_version, "known": known.is_some()});
    Ok(Json(answer).into_response())
}

/// `POST /v1/version-guards/{id}/keep`: keeps it for another period from now.
pub(crate) async fn keep(
    State(app): State<Arc<App>>,
    caller: Caller,
    id: Result<Captures<String>, PathRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let body = read_json_or_nothing(&app.limits, app.clock.as_ref(), &headers, body).await?;
    let body: RenewBody = wire::shape(body)?;
    let ttl = ttl(body.ttl_ms)?;
    let id = own(&app, &caller, id).await?;
    match app.guards.keep(&[id], ttl).await?.first() {
        Some(true) => Ok(Json(json!({"expires_in_ms": millis(ttl)})).into_response()),
        _ => Err(unknown()),
    }
}

/// `DELETE /v1/version-guards/{id}`: takes it down.
pub(crate) async fn close(
    State(app): State<Arc<App>>,
    caller: Caller,
    id: Result<Captures<String>, PathRejection>,
) -> Result<Response, Problem> {
    let id = own(&app, &caller, id).await?;
    match app.guards.close(id).await? {
        true => Ok(Json(json!({"closed": true})).into_response()),
        false => Err(unknown()),
    }
}

/// The guard a route names; anything that is no id names none.
fn named(id: Result<Captures<String>, PathRejection>) -> Option<GuardId> {
    id.ok().and_then(|Captures(text)| GuardId::parse(&text))
}

/// A guard this caller may keep and close.
async fn own(
    app: &App,
    caller: &Caller,
    id: Result<Captures<String>, PathRejection>,
) -> Result<GuardId, Problem> {
    let id = named(id).ok_or_else(unknown)?;
    let guard = app.guards.look(id).await?.ok_or_else(unknown)?;
    if guard.owner == owner(caller) {
        return Ok(id);
    }
    Err(Problem::new("forbidden", "this version guard was opened by another writer")
        .help("whoever opened it keeps and closes it; everybody may ask about it"))
}

/// Two tokens of one writer share its guards.
fn owner(caller: &Caller) -> Arc<str> {
    let writer = &caller.0.writer;
    match &writer.on_behalf_of {
        Some(person) => format!("{} {} for {person}", writer.kind, writer.name).into(),
        None => format!("{} {}", writer.kind, writer.name).into(),
    }
}

fn ttl(ms: Option<u64>) -> Result<Duration, Problem> {
    let ttl = ms.map_or(TTL, Duration::from_millis);
    guard::whole_ms(ttl).map_err(|_: Error| {
        let most = GUARD_TTL_MAX.as_millis();
        Problem::new("bad_body", format!("`ttl_ms` is not between 100 and {most}"))
    })
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn unknown() -> Problem {
    Problem::new("guard_unknown", "there is no such version guard")
        .help("it may have ended: a save without one makes a version, so open another one")
}
