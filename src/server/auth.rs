//! Who is calling: from the bearer token and from nothing else.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{FromRequestParts, Request, State},
    http::{HeaderMap, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};

use tokio::sync::OwnedSemaphorePermit;

use crate::{
    engine::Session,
    entity::EntityType,
    plan::ForceRight,
    server::{
        App,
        limits::{drain, is_large},
        principals::{Permission, Principal},
        problem::Problem,
    },
};

/// The principal of a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller(pub(crate) Arc<Principal>);

impl Caller {
    /// Refuses records of types the token does not cover. Asked before anything about the record is looked up.
    pub(crate) fn must_see(&self, kind: &EntityType) -> Result<(), Problem> {
        if self.0.may_see(kind) {
            return Ok(());
        }
        Err(Problem::new(
            "forbidden",
            format!("this token does not cover the entity type `{kind}`"),
        )
        .help("ask the operator to add it to `entity_types` of the token"))
    }

    /// The engine's session for this caller: its writer, its groups, its right to force.
    pub(crate) fn session(&self, app: &App) -> Session {
        let right = match self.0.has(Permission::Force) {
            true => ForceRight::Takeover,
            false => ForceRight::None,
        };
        let session = app.engine.session(self.0.writer.clone()).may_force(right);
        match self.0.groups() {
            Some(groups) => session.only_groups(groups.iter().cloned()),
            None => session,
        }
    }

    /// Refuses callers without a permission.
    pub(crate) fn must_have(&self, permission: Permission) -> Result<(), Problem> {
        if self.0.has(permission) {
            return Ok(());
        }
        Err(Problem::new("forbidden", format!("this token lacks the permission `{permission}`"))
            .help("ask the operator to add it to `permissions` of the token"))
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(unauthorized)
    }
}

/// Places of its writer that a request with a large body takes: one writer may not have all the large ones.
const LARGE_PLACES: u32 = 16;
/// How long a request waits for room for its large body.
const LARGE_WAIT: Duration = Duration::from_secs(2);
/// When to try again after there was no room for a large body.
const LARGE_RETRY: Duration = Duration::from_secs(1);

/// Lets a request through with its caller, or answers 401, 429 or 503.
pub(crate) async fn authenticate(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    let principal = bearer(request.headers()).and_then(|token| app.tokens.find(token));
    let Some(principal) = principal else { return unauthorized().into_response() };
    let large = is_large(&app.limits, request.headers());
    let Some(place) = principal.enter(if large { LARGE_PLACES } else { 1 }) else {
        drain(&app.limits, app.clock.as_ref(), request.into_body()).await;
        return Problem::new("too_many_requests", "this writer has too many requests in flight")
            .help("send fewer at the same time")
            .into_response();
    };
    let room = if large { room_for_large(&app).await.map(Some) } else { Some(None) };
    let Some(room) = room else {
        drain(&app.limits, app.clock.as_ref(), request.into_body()).await;
        return Problem::new("unavailable", "too many requests with large bodies at once")
            .help("ask again after the time in Retry-After")
            .retry_after(LARGE_RETRY)
            .into_response();
    };
    request.extensions_mut().insert(Caller(principal));
    let response = next.run(request).await;
    drop((place, room));
    response
}

/// A place for one large body, when there is one soon.
async fn room_for_large(app: &App) -> Option<OwnedSemaphorePermit> {
    let end = app.clock.now().plus(LARGE_WAIT);
    tokio::select! {
        biased;
        room = Arc::clone(&app.large_bodies).acquire_owned() => room.ok(),
        () = app.clock.sleep_until(end) => None,
    }
}

/// The token of exactly one well-formed `Authorization` header.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (value, None) = (values.next()?, values.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

fn unauthorized() -> Problem {
    Problem::new("unauthorized", "the request carries no valid token")
        .help("send `Authorization: Bearer TOKEN`")
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn one_bearer_header_is_a_token_and_anything_else_is_none() {
        let cases: [(&[&str], Option<&str>); 7] = [
            (&["Bearer abc"], Some("abc")),
            (&["bearer abc"], Some("abc")),
            (&["Basic abc"], None),
            (&["abc"], None),
            (&[], None),
            (&["Bearer a", "Bearer b"], None),
            (&["Bearer "], Some("")),
        ];

        for (sent, expected) in cases {
            let mut headers = HeaderMap::new();
            for value in sent {
                headers.append(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            }
            assert_eq!(bearer(&headers), expected, "{sent:?}");
        }
    }
}
