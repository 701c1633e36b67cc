//! Waiting saves and events over HTTP.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{Path as Captures, State, rejection::PathRejection},
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value as Json, json};

use crate::{
    entity::EntityRef,
    queue::{Item, Told},
    server::{App, auth::Caller, principals::Permission, problem::Problem, wire::Query},
    token::OperationId,
};

/// Most items or events of one answer.
const MOST: u32 = 200;
/// Longest wait for an event, and how often it is looked for.
const WAIT_MAX: Duration = Duration::from_secs(25);
const LOOK: Duration = Duration::from_millis(200);
/// Longest name of a reader.
const READER_CHARS_MAX: usize = 100;

/// `GET /v1/queue`: saves that wait, of one record (`entity=TYPE/ID`) or page by page (`after`).
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Query(query): Query,
) -> Result<Response, Problem> {
    let bad = || Problem::new("bad_query", "the query is `entity=TYPE/ID`, `after=PLACE`");
    let (mut entity, mut after) = (None, 0);
    for (name, value) in &query {
        match name.as_str() {
            "entity" => entity = Some(EntityRef::parse(value).map_err(|_| bad())?),
            "after" => after = value.parse().map_err(|_| bad())?,
            _ => return Err(bad()),
        }
    }
    if let Some(entity) = &entity {
        caller.must_see(&entity.kind)?;
    }
    let items = app.engine.queue(entity.as_ref(), after, MOST).await?;
    let full = items.len() >= MOST as usize;
    let next = items.last().filter(|_| full).map(|item| item.place);
    let seen = items.iter().filter(|item| caller.0.may_see(&item.entity.kind));
    let seen: Vec<Json> = seen.map(item_json).collect();
    Ok(axum::Json(json!({"waiting": seen, "next": next})).into_response())
}

/// `POST /v1/queue/{operation}/cancel`: takes a save out before its turn; its own writer's, or with `upkeep` any.
pub(crate) async fn cancel(
    State(app): State<Arc<App>>,
    caller: Caller,
    id: Result<Captures<String>, PathRejection>,
) -> Result<Response, Problem> {
    let unknown = || {
        Problem::new("not_queued", "no save waits under this operation")
            .help("it may have run: look for it in the history")
    };
    let operation = id.ok().and_then(|Captures(text)| OperationId::parse(&text));
    let operation = operation.ok_or_else(unknown)?;
    if !caller.0.has(Permission::Upkeep) {
        let mut after = 0;
        loop {
            let page = app.engine.queue(None, after, MOST).await?;
            let Some(last) = page.last() else { return Err(unknown()) };
            if let Some(item) = page.iter().find(|item| item.operation == operation) {
                if caller.0.is(&item.writer) {
                    break;
                }
                return Err(Problem::new("forbidden", "the save is another writer's")
                    .help("its writer cancels it, or a token with the permission `upkeep`"));
            }
            after = last.place;
        }
    }
    match app.engine.cancel_queued(operation).await? {
        true => Ok(axum::Json(json!({"cancelled": true})).into_response()),
        false => Err(unknown()),
    }
}

/// What a waiting save looks like, the same over HTTP and from the command line. Its values are not shown.
#[must_use]
pub fn item_json(item: &Item) -> Json {
    json!({
        "place": item.place,
        "operation": item.operation,
        "entity": item.entity,
        "scopes": item.scopes,
        "writer": item.writer,
        "at": item.at.to_string(),
    })
}

/// What an event looks like.
#[must_use]
pub fn event_json(told: &Told) -> Json {
    json!({
        "event": told.event,
        "kind": told.kind,
        "entity": told.entity,
        "operation": told.operation,
        "at": told.at.to_string(),
        "body": told.body,
    })
}

/// `GET /v1/events`: events after `after`, the header `Last-Event-ID`, or what `reader` has acknowledged; waits up to
/// `wait_ms` for one. `Accept: text/event-stream` answers them in that form.
pub(crate) async fn events(
    State(app): State<Arc<App>>,
    caller: Caller,
    Query(query): Query,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let bad = || {
        Problem::new(
            "bad_query",
            "the query is `after=EVENT`, `reader=NAME`, `ack=EVENT`, `wait_ms=MS`",
        )
    };
    let (mut after, mut reader, mut ack, mut wait) = (None, None, None, None);
    for (name, value) in &query {
        match name.as_str() {
            "after" => after = Some(value.parse::<u64>().map_err(|_| bad())?),
            "ack" => ack = Some(value.parse::<u64>().map_err(|_| bad())?),
            "wait_ms" => wait = Some(value.parse::<u64>().map_err(|_| bad())?),
            "reader" if value.chars().count() <= READER_CHARS_MAX => {
                reader = Some(format!("{}/{value}", caller.0.writer.name));
            }
            _ => return Err(bad()),
        }
    }
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let known = match &reader {
        Some(reader) => Some(app.engine.acknowledge(reader, ack).await?),
        None if ack.is_some() => return Err(bad()),
        None => None,
    };
    let stream = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("text/event-stream"));
    let wait = wait.map(Duration::from_millis).or(stream.then_some(WAIT_MAX)).unwrap_or_default();
    let end = app.clock.now().plus(wait.min(WAIT_MAX));
    let mut from = last.or(after).or(known).unwrap_or(0);
    loop {
        let page = app.engine.events(from, MOST).await?;
        from = page.last().map_or(from, |told| told.event);
        let seen: Vec<Told> =
            page.into_iter().filter(|told| caller.0.may_see(&told.entity.kind)).collect();
        if !seen.is_empty() || app.clock.now() >= end || app.stop.is_cancelled() {
            return Ok(if stream { as_stream(&seen) } else { as_page(&seen, from) });
        }
        app.clock.sleep_until(app.clock.now().plus(LOOK).min(end)).await;
    }
}

fn as_page(seen: &[Told], next: u64) -> Response {
    let seen: Vec<Json> = seen.iter().map(event_json).collect();
    axum::Json(json!({"events": seen, "next": next})).into_response()
}

/// Server-sent events; the client comes again by itself with the last id.
fn as_stream(seen: &[Told]) -> Response {
    let mut text = String::from("retry: 200\n\n");
    for told in seen {
        text.push_str(&format!(
            "id: {}\nevent: {}\ndata: {}\n\n",
            told.event,
            told.kind,
            event_json(told)
        ));
    }
    ([(header::CONTENT_TYPE, "text/event-stream")], text).into_response()
}
