//! Records over HTTP: load, create, plan, save, delete, history and blame.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{FromRequestParts, Path as Captures, State, rejection::PathRejection},
    http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value as Json, json};

use crate::{
    engine::{Loaded, Save},
    entity::{EntityRef, WriterKind},
    path::Path,
    server::{
        App,
        answer::{self, tagged},
        auth::Caller,
        entry::entry_json,
        keys::Named,
        limits::{read_json, read_json_or_nothing},
        principals::Permission,
        problem::Problem,
        wire::{self, DeleteBody, Query, SaveAsk, SaveBody},
    },
    token::OperationId,
};

/// Entries of one page of history.
const ENTRIES_MAX: u32 = 200;
/// Entries when the caller does not say.
const ENTRIES: u32 = 50;
/// Paths of one blame.
const BLAMED_MAX: usize = 1_000;
/// Said of a record that never was.
const NO_RECORD: &str = "there is no such record";

/// The record a route names, when the caller's token covers its type.
pub(crate) struct Target(pub(crate) EntityRef);

impl FromRequestParts<Arc<App>> for Target {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<App>) -> Result<Self, Problem> {
        let captures: Result<Captures<(String, String)>, PathRejection> =
            Captures::from_request_parts(parts, state).await;
        let Ok(Captures((kind, id))) = captures else {
            return Err(Problem::new("bad_address", "the id is not percent-encoded UTF-8"));
        };
        let entity = wire::entity(&kind, &id)?;
        Caller::from_request_parts(parts, state).await?.must_see(&entity.kind)?;
        state.engine.rules(&entity.kind)?;
        Ok(Self(entity))
    }
}

/// `GET /v1/entities/{type}/{id}`: fields, edit token, versions. `with=owners` adds whose each field is,
/// `with=stamps` which save last changed it.
pub(crate) async fn load(
    State(app): State<Arc<App>>,
    caller: Caller,
    Target(entity): Target,
    Query(query): Query,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (mut with_owners, mut with_stamps) = (false, false);
    for (name, value) in &query {
        match (name.as_str(), value.as_str()) {
            ("with", "owners") => with_owners = true,
            ("with", "stamps") => with_stamps = true,
            _ => {
                let message = "the query is `with=owners` or `with=stamps`, or both";
                return Err(Problem::new("bad_query", message));
            }
        }
    }
    let loaded = load_live(&app, &caller, &entity).await?;
    let tag = answer::etag(&loaded.token);
    if headers.get_all(header::IF_NONE_MATCH).iter().any(|wanted| names(wanted, &tag)) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
    }
    let mut body = loaded_json(&entity, &loaded);
    if with_owners {
        body.insert("owners".to_owned(), owners_json(&app, &loaded)?);
    }
    if with_stamps {
        body.insert("stamps".to_owned(), answer::stamps_json(&loaded.snapshot));
    }
    Ok(tagged(StatusCode::OK, Some(&loaded.token), Json::Object(body)))
}

/// A record that never was is not found; one that was deleted still has its history.
async fn must_exist(app: &App, caller: &Caller, entity: &EntityRef) -> Result<(), Problem> {
    match caller.session(app).load(entity).await? {
        Some(_) => Ok(()),
        None => Err(Problem::new("not_found", NO_RECORD)),
    }
}

async fn load_live(app: &App, caller: &Caller, entity: &EntityRef) -> Result<Loaded, Problem> {
    let loaded = caller.session(app).load(entity).await?;
    let loaded = loaded.ok_or_else(|| Problem::new("not_found", NO_RECORD))?;
    match loaded.deleted_at {
        Some(at) => Err(Problem::new("gone", "the record was deleted")
            .with("deleted_at", at.to_string())
            .with("edit_token", loaded.token)),
        None => Ok(loaded),
    }
}

fn loaded_json(entity: &EntityRef, loaded: &Loaded) -> Map<String, Json> {
    let versions = loaded.snapshot.versions.iter();
    let versions: Map<String, Json> =
        versions.map(|(scope, version)| (scope.to_string(), version.0.into())).collect();
    let mut body = Map::new();
    body.insert("entity".to_owned(), json!(entity));
    body.insert("fields".to_owned(), answer::fields_json(&loaded.fields));
    body.insert("edit_token".to_owned(), loaded.token.clone().into());
    body.insert("version".to_owned(), loaded.number.0.into());
    body.insert("versions".to_owned(), Json::Object(versions));
    body.insert("incarnation".to_owned(), loaded.incarnation.0.into());
    body
}

/// For a form: which fields are read-only, whose they are, and who wrote them last.
fn owners_json(app: &App, loaded: &Loaded) -> Result<Json, Problem> {
    let rules = app.engine.rules(&loaded.snapshot.entity.kind)?;
    let about = |path: &Path| {
        let resolved = rules.resolve(path).ok()?;
        let stamp = loaded.snapshot.stamps.get(&resolved.unit);
        let about = json!({
            "owner": resolved.owner,
            "group": resolved.group.map(|group| group.name.clone()),
            "writer": stamp.map(|stamp| &stamp.writer),
            "at": stamp.map(|stamp| stamp.at.to_string()),
            "operation": stamp.map(|stamp| stamp.operation),
        });
        Some((path.to_string(), about))
    };
    Ok(Json::Object(loaded.fields.keys().filter_map(about).collect()))
}

/// `POST /v1/entities/{type}/{id}`: creates the record.
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    Target(entity): Target,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let body = read(&app, &headers, body).await?;
    let key = Named::read(&headers, "create", &entity, &body)?;
    let body: SaveBody = wire::shape(body)?;
    refuse_lease(body.lease.as_deref())?;
    if body.apply {
        return Err(Problem::new("bad_body", "`apply` is for saves and plans only"));
    }
    let save = caller.session(&app).create(&entity);
    let outcome = key.on(fill(&caller, save, body.check()?)?).send().await?;
    let mut response = answer::outcome(outcome, StatusCode::CREATED, false);
    if response.status() == StatusCode::CREATED
        && let Ok(location) = HeaderValue::from_str(&address(&entity))
    {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// `POST /v1/entities/{type}/{id}/plan`: what a save would do now.
pub(crate) async fn plan(
    State(app): State<Arc<App>>,
    caller: Caller,
    Target(entity): Target,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let body: SaveBody = wire::shape(read(&app, &headers, body).await?)?;
    let save = start(&app, &caller, &entity, &body)?;
    let planned = fill(&caller, save, body.check()?)?.plan().await?;
    Ok(answer::planned(&planned))
}

/// `POST /v1/entities/{type}/{id}/save`: saves some fields, under a lease if the body names one.
pub(crate) async fn save(
    State(app): State<Arc<App>>,
    caller: Caller,
    Target(entity): Target,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let body = read(&app, &headers, body).await?;
    let key = Named::read(&headers, "save", &entity, &body)?;
    let body: SaveBody = wire::shape(body)?;
    let save = key.on(start(&app, &caller, &entity, &body)?);
    let editor = caller.0.writer.kind == WriterKind::Editor;
    let blind = editor && body.edit_token.is_none() && body.lease.is_none();
    let ask = body.check()?;
    let save = fill(&caller, save, ask.clone())?;
    // A repeat is answered what the first call was, though the record has moved on by it.
    if headers.contains_key(header::IF_MATCH)
        && let Some(known) = save.clone().known().await?
    {
        return Ok(answer::outcome(known, StatusCode::OK, blind));
    }
    let matched = check_match(&app, &caller, &entity, &headers).await?;
    let save = match matched {
        Some(token) if ask.token.is_none() => save.token(token),
        _ => save,
    };
    Ok(answer::outcome(save.send().await?, StatusCode::OK, blind))
}

/// `DELETE /v1/entities/{type}/{id}`: deletes the record, whole.
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Target(entity): Target,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let body = read_json_or_nothing(&app.limits, app.clock.as_ref(), &headers, body).await?;
    let key = Named::read(&headers, "delete", &entity, &body)?;
    let body: DeleteBody = wire::shape(body)?;
    refuse_lease(body.lease.as_deref())?;
    let mut save = key.on(caller.session(&app).delete(&entity));
    if headers.contains_key(header::IF_MATCH)
        && let Some(known) = save.clone().known().await?
    {
        return Ok(answer::outcome(known, StatusCode::OK, false));
    }
    let matched = check_match(&app, &caller, &entity, &headers).await?;
    if let Some(token) = body.edit_token.or(matched) {
        save = save.token(token);
    }
    if let Some(job) = wire::short("job", body.job)? {
        save = save.job(job);
    }
    Ok(answer::outcome(save.send().await?, StatusCode::OK, false))
}

/// `GET /v1/entities/{type}/{id}/history`: newest first; `before` an operation, at most `limit`.
pub(crate) async fn history(
    State(app): State<Arc<App>>,
    caller: Caller,
    Target(entity): Target,
    Query(query): Query,
) -> Result<Response, Problem> {
    let (mut before, mut most) = (None, ENTRIES);
    for (name, value) in query {
        match name.as_str() {
            "before" => before = Some(OperationId::parse(&value).ok_or_else(bad_query)?),
            "limit" => most = value.parse().map_err(|_| bad_query())?,
            _ => return Err(bad_query()),
        }
    }
    let most = most.clamp(1, ENTRIES_MAX);
    let entries = app.engine.history(&entity, before, most).await?;
    if entries.is_empty() {
        must_exist(&app, &caller, &entity).await?;
    }
    let full = u32::try_from(entries.len()).unwrap_or(u32::MAX) >= most;
    let next = entries.last().filter(|_| full).map(|entry| entry.operation.to_string());
    let entries: Vec<Json> = entries.iter().map(entry_json).collect();
    Ok(axum::Json(json!({"entries": entries, "next": next})).into_response())
}

fn bad_query() -> Problem {
    Problem::new("bad_query", "the query is `before=OPERATION` and `limit=NUMBER`")
}

/// `GET /v1/entities/{type}/{id}/blame`: the save that last changed each `path`, or each field there is.
pub(crate) async fn blame(
    State(app): State<Arc<App>>,
    caller: Caller,
    Target(entity): Target,
    Query(query): Query,
) -> Result<Response, Problem> {
    let mut paths = Vec::new();
    for (name, value) in query {
        if name != "path" || paths.len() >= BLAMED_MAX {
            let message = format!("the query is `path=PATH`, up to {BLAMED_MAX} times");
            return Err(Problem::new("bad_query", message));
        }
        paths.push(wire::path(&value)?);
    }
    if paths.is_empty() {
        paths = load_live(&app, &caller, &entity).await?.fields.into_keys().collect();
    }
    let blamed = app.engine.blame(&entity, &paths).await?;
    if blamed.is_empty() {
        must_exist(&app, &caller, &entity).await?;
    }
    let blamed: Map<String, Json> =
        blamed.iter().map(|(path, entry)| (path.to_string(), entry_json(entry))).collect();
    Ok(axum::Json(json!({"paths": blamed})).into_response())
}

async fn read(app: &App, headers: &HeaderMap, body: Body) -> Result<Json, Problem> {
    read_json(&app.limits, app.clock.as_ref(), headers, body).await
}

/// A save of its own, or under a lease of the caller's on this very record.
fn start(app: &App, caller: &Caller, entity: &EntityRef, body: &SaveBody) -> Result<Save, Problem> {
    let Some(lease) = &body.lease else {
        let session = caller.session(app);
        return Ok(if body.apply { session.apply(entity) } else { session.save(entity) });
    };
    let held = app.leases.find(lease, &caller.0.writer)?;
    if held.entity != *entity {
        return Err(Problem::new("lease_unknown", "the lease is for another record"));
    }
    if held.claim.lost().is_cancelled() {
        return Err(crate::server::lease_table::lost());
    }
    Ok(held.claim.save())
}

fn refuse_lease(lease: Option<&str>) -> Result<(), Problem> {
    match lease {
        Some(_) => Err(Problem::new("bad_body", "`lease` is for saves and plans only")),
        None => Ok(()),
    }
}

/// Compares `If-Match` with the record as it is now, and answers its token: what the caller says it has seen. A change
/// to another field between this look and the write does not refuse the save; one to a submitted field does.
async fn check_match(
    app: &App,
    caller: &Caller,
    entity: &EntityRef,
    headers: &HeaderMap,
) -> Result<Option<String>, Problem> {
    let Some(wanted) = headers.get(header::IF_MATCH) else { return Ok(None) };
    let loaded = load_live(app, caller, entity).await?;
    if *wanted == "*" {
        return Ok(None);
    }
    let tag = answer::etag(&loaded.token);
    if names(wanted, &tag) {
        return Ok(Some(loaded.token));
    }
    Err(Problem::new("precondition_failed", "the record is no longer the one named in `If-Match`")
        .help("load it again")
        .with("edit_token", loaded.token))
}

/// Whether a list of entity tags names this one. Ours hold no comma.
fn names(tags: &HeaderValue, tag: &HeaderValue) -> bool {
    let mut tags = tags.to_str().unwrap_or_default().split(',').map(str::trim);
    tags.any(|wanted| {
        wanted == "*" || wanted.strip_prefix("W/").unwrap_or(wanted).as_bytes() == tag.as_bytes()
    })
}

fn fill(caller: &Caller, mut save: Save, ask: SaveAsk) -> Result<Save, Problem> {
    if !ask.force.is_empty() {
        caller.must_have(Permission::Force)?;
    }
    for (path, change) in ask.changes {
        save = save.with(path, change);
    }
    for (path, value) in ask.bases {
        save = save.base(path, value);
    }
    if let Some(token) = ask.token {
        save = save.token(token);
    }
    if let Some(job) = ask.job {
        save = save.job(job);
    }
    if ask.unordered {
        save = save.unordered();
    }
    if let Some(inputs) = ask.inputs {
        save = save.inputs(inputs);
    }
    if ask.all_or_nothing {
        save = save.all_or_nothing();
    }
    if let Some(reason) = ask.reason
        && !ask.force.is_empty()
    {
        save = save.force(ask.force, reason);
    }
    Ok(save.shown(ask.shown))
}

/// The route of a record under this service, its id percent-encoded.
#[must_use]
pub fn address(entity: &EntityRef) -> String {
    let mut address = format!("/v1/entities/{}/", entity.kind);
    for byte in entity.id.as_str().bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~') {
            address.push(char::from(byte));
        } else {
            address.push_str(&format!("%{byte:02X}"));
        }
    }
    address
}
