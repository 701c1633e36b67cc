//! Leases over HTTP: acquire with the claim, renew, release, list, break.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use axum::{
    Json,
    body::Body,
    extract::{FromRequestParts, Path as Captures, State},
    http::{HeaderMap, StatusCode, request::Parts},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};

use crate::{
    engine::{Claim, Claiming},
    entity::EntityRef,
    hold::Released,
    registry::{Locking, OnBusy},
    scope::ScopeName,
    server::{
        App, answer,
        auth::Caller,
        lease_table::{self, Held},
        limits::{read_json, read_json_or_nothing},
        principals::Permission,
        problem::Problem,
        wire::{self, AcquireBody, BreakBody, Query, RenewBody},
    },
};

/// How long a lease is kept for a client that does not say.
const TTL: Duration = Duration::from_secs(30);
/// Holders of one page.
const HOLDERS_MAX: u32 = 200;

/// `POST /v1/leases`: takes the leases, claims them in the database, and answers the record as it is under the claim.
pub(crate) async fn acquire(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let body = read_json(&app.limits, app.clock.as_ref(), &headers, body).await?;
    let body: AcquireBody = wire::shape(body)?;
    caller.must_see(&body.entity.kind)?;
    check_groups(&caller, &body)?;
    let ttl = wire::ttl(body.ttl_ms)?.unwrap_or(TTL);
    let wait = wire::wait(body.wait_ms)?;
    if app.stop.is_cancelled() {
        return Err(Problem::new("stopping", "the service is stopping"));
    }
    let place = app.leases.reserve(&caller.0.writer, ttl)?;
    let mut claim = caller.session(&app).claim(&body.entity, &body.groups);
    if body.whole {
        claim = claim.whole();
    }
    if let Some(wait) = wait {
        claim = claim.on_busy(if wait.is_zero() { OnBusy::Fail } else { OnBusy::Wait(wait) });
    }
    match claim.send().await? {
        Claiming::Claimed(claim) => {
            let mut answer = claim_json(&body.entity, &claim)?;
            let lease = place.fill(Held { claim, entity: body.entity }, app.clock.now());
            answer.insert("lease".to_owned(), lease.into());
            answer.insert("expires_in_ms".to_owned(), millis(ttl));
            Ok((StatusCode::CREATED, Json(Value::Object(answer))).into_response())
        }
        Claiming::Busy(by) => Err(answer::busy(&by, false)),
        Claiming::Skipped(by) => Err(answer::busy(&by, true)),
        Claiming::Refused(refused) => Err(answer::refusal(&refused, false)),
        Claiming::Lost(_) => Err(lease_table::lost()),
    }
}

/// Scopes outside the token's groups are refused before anybody is asked.
fn check_groups(caller: &Caller, body: &AcquireBody) -> Result<(), Problem> {
    if body.whole != body.groups.is_empty() {
        return Err(Problem::new("bad_body", "name some `groups`, or say `whole`, not both"));
    }
    if body.whole && caller.0.groups().is_some() {
        return Err(Problem::new("denied", "a token with `groups` takes no whole record"));
    }
    for text in &body.groups {
        let scope = ScopeName::parse(text).ok_or_else(|| {
            Problem::new("bad_scope", format!("`{}` is not a scope", text.escape_debug()))
                .help("write a group, as in media, or with its axis: translation[locale=de]")
        })?;
        if !caller.0.may_write(scope.group_name()) {
            let message = format!("this token does not cover the group `{}`", scope.group_name());
            return Err(Problem::new("denied", message));
        }
    }
    Ok(())
}

fn claim_json(entity: &EntityRef, claim: &Claim) -> Result<Map<String, Value>, Problem> {
    let snapshot = claim.record();
    let fences: Map<String, Value> =
        claim.fences().iter().map(|(scope, fence)| (scope.to_string(), fence.0.into())).collect();
    let versions = snapshot.versions.iter();
    let versions: Map<String, Value> =
        versions.map(|(scope, version)| (scope.to_string(), version.0.into())).collect();
    let mut answer = Map::new();
    let mut add = |name: &str, value: Value| {
        answer.insert(name.to_owned(), value);
    };
    add("entity", json!(entity));
    add("fences", Value::Object(fences));
    add("versions", Value::Object(versions));
    add("stamps", answer::stamps_json(&snapshot));
    add("fields", answer::fields_json(&claim.fields()?));
    add("waited_ms", millis(claim.waited()));
    Ok(answer)
}

fn millis(time: Duration) -> Value {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).into()
}

/// The lease a route names.
pub(crate) struct LeaseName(String);

impl<S: Send + Sync> FromRequestParts<S> for LeaseName {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let name = Captures::<String>::from_request_parts(parts, state).await;
        name.map(|Captures(name)| Self(name))
            .map_err(|_| Problem::new("bad_address", "the lease is not percent-encoded UTF-8"))
    }
}

/// `POST /v1/leases/{lease}/renew`: keeps it for another period from now.
pub(crate) async fn renew(
    State(app): State<Arc<App>>,
    caller: Caller,
    LeaseName(lease): LeaseName,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let body = read_json_or_nothing(&app.limits, app.clock.as_ref(), &headers, body).await?;
    let body: RenewBody = wire::shape(body)?;
    let ttl = wire::ttl(body.ttl_ms)?;
    let ttl = app.leases.renew(&lease, &caller.0.writer, ttl, app.clock.now())?;
    Ok(Json(json!({"expires_in_ms": millis(ttl)})).into_response())
}

/// `DELETE /v1/leases/{lease}`: gives it back. A save still running under it is finished first.
pub(crate) async fn release(
    State(app): State<Arc<App>>,
    caller: Caller,
    LeaseName(lease): LeaseName,
) -> Result<Response, Problem> {
    let held = app.leases.take(&lease, &caller.0.writer)?;
    let released = match Arc::into_inner(held) {
        Some(held) => held.claim.release().await,
        // A save still runs under it; the lease ends with that save.
        None => Released::StillShared,
    };
    match released {
        Released::Lost => Err(lease_table::lost()),
        Released::Unknown => Err(Problem::new("unavailable", "the lease store did not answer")
            .help("the lease ends by its time to live")),
        Released::Released => Ok(Json(json!({"released": true})).into_response()),
        Released::StillShared => Ok(Json(json!({"released": false})).into_response()),
    }
}

/// `GET /v1/leases`: who holds what, of one `entity` or page by page; only types the token covers.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Query(query): Query,
) -> Result<Response, Problem> {
    let bad =
        || Problem::new("bad_query", "the query is `entity=TYPE/ID`, or `cursor` and `limit`");
    let (mut entity, mut cursor, mut most) = (None::<EntityRef>, None, HOLDERS_MAX);
    for (name, value) in query {
        match name.as_str() {
            "entity" => entity = Some(EntityRef::parse(&value).map_err(crate::error::Error::from)?),
            "cursor" => cursor = Some(value),
            "limit" => most = value.parse().map_err(|_| bad())?,
            _ => return Err(bad()),
        }
    }
    if let Some(entity) = &entity {
        caller.must_see(&entity.kind)?;
        app.engine.rules(&entity.kind)?;
        if cursor.is_some() {
            return Err(bad());
        }
    }
    let most = most.clamp(1, HOLDERS_MAX);
    let (holders, next) = app.engine.leases(entity.as_ref(), cursor.as_deref(), most).await?;
    let seen = holders.iter().filter(|holder| caller.0.may_see(&holder.scope.entity.kind));
    let leases: Vec<Value> = seen.map(answer::holder_json).collect();
    Ok(Json(json!({"leases": leases, "next": next})).into_response())
}

/// `POST /v1/leases/break`: ends somebody else's lease, with permission and reason (RULES 20).
pub(crate) async fn break_lease(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    caller.must_have(Permission::BreakLease)?;
    let body = read_json(&app.limits, app.clock.as_ref(), &headers, body).await?;
    let body: BreakBody = wire::shape(body)?;
    caller.must_see(&body.entity.kind)?;
    let scope = leased_scope(&app, &body)?;
    let Some(reason) = wire::short("reason", Some(body.reason))? else {
        return Err(Problem::new("reason_missing", "breaking a lease needs a `reason`"));
    };
    if caller.session(&app).load(&body.entity).await?.is_none() {
        return Err(Problem::new("not_found", "there is no such record"));
    }
    let reason = format!("{}: {reason}", caller.0.writer);
    let was = app.engine.break_lease(&body.entity, &scope, &reason).await?;
    tracing::warn!(entity = %body.entity, %scope, ?reason, "a lease was broken");
    tracing::warn!(entity = %body.entity, %scope, by = %caller.0.writer, "a lease was broken");
    Ok(Json(json!({"broken": was.as_ref().map(answer::holder_json)})).into_response())
}

/// The scope to break: a leased one of the type. Breaking raises a fence, and a misspelt name must not leave a row.
fn leased_scope(app: &App, body: &BreakBody) -> Result<ScopeName, Problem> {
    let rules = app.engine.rules(&body.entity.kind)?;
    let scope = ScopeName::parse(&body.scope).filter(|scope| {
        rules.groups.get(scope.group_name()).is_some_and(|group| {
            let axes: BTreeSet<&str> = scope.axes().iter().map(|(axis, _)| &**axis).collect();
            let split: BTreeSet<&str> = group.split_by.iter().map(|axis| &**axis).collect();
            group.locking == Locking::Lease && axes == split
        })
    });
    scope.ok_or_else(|| {
        let kind = &body.entity.kind;
        let message = format!("`{}` is not a leased scope of `{kind}`", body.scope.escape_debug());
        Problem::new("bad_scope", message).help("copy it from the list of leases")
    })
}
