//! Which path leads to which handler, and what every request passes first.

use std::sync::Arc;

use axum::{
    Router,
    http::{HeaderValue, header},
    middleware::{from_fn, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use tower_http::{catch_panic::CatchPanicLayer, set_header::SetResponseHeaderLayer};

use crate::server::{
    App, auth, entities, guards, health, leases, limits, log, problem::Problem, queue, rewind,
    upkeep,
};

/// The whole service.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let known = Router::new()
        .route(
            "/v1/entities/{type}/{id}",
            get(entities::load).post(entities::create).delete(entities::delete),
        )
        .route("/v1/entities/{type}/{id}/plan", post(entities::plan))
        .route("/v1/entities/{type}/{id}/save", post(entities::save))
        .route("/v1/entities/{type}/{id}/history", get(entities::history))
        .route("/v1/entities/{type}/{id}/blame", get(entities::blame))
        .route("/v1/entities/{type}/{id}/restore", post(rewind::restore))
        .route("/v1/entities/{type}/{id}/undo", post(rewind::undo))
        .route("/v1/queue", get(queue::list))
        .route("/v1/queue/{operation}/cancel", post(queue::cancel))
        .route("/v1/events", get(queue::events))
        .route("/v1/prune", post(upkeep::prune))
        .route("/v1/erase", post(upkeep::erase))
        .route("/v1/leases", get(leases::list).post(leases::acquire))
        .route("/v1/leases/break", post(leases::break_lease))
        .route("/v1/leases/{lease}", axum::routing::delete(leases::release))
        .route("/v1/leases/{lease}/renew", post(leases::renew))
        .route("/v1/version-guards", post(guards::open))
        .route("/v1/version-guards/{id}", get(guards::look).delete(guards::close))
        .route("/v1/version-guards/{id}/keep", post(guards::keep))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
        .method_not_allowed_fallback(method_not_allowed)
        .fallback(no_such_route)
        .layer(from_fn_with_state(Arc::clone(app), auth::authenticate))
        .with_state(Arc::clone(app));
    let limits = Arc::clone(&app.limits);
    Router::new()
        .route("/healthz", get(health::alive))
        .method_not_allowed_fallback(method_not_allowed)
        .merge(known)
        .layer(from_fn(move |request, next| limits::check_head(Arc::clone(&limits), request, next)))
        .layer(from_fn(log::log))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(SetResponseHeaderLayer::if_not_present(
            header::CACHE_CONTROL,
            HeaderValue::from_static("no-store"),
        ))
        .layer(SetResponseHeaderLayer::overriding(
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        ))
}

async fn method_not_allowed() -> Problem {
    Problem::new("method_not_allowed", "this route does not know the method")
}

async fn no_such_route() -> Problem {
    Problem::new("no_such_route", "there is no such route").help("routes begin with `/v1/`")
}

/// A panic is a defect of ours: its text stays in the log.
fn panicked(_: Box<dyn std::any::Any + Send + 'static>) -> Response {
    tracing::error!("a handler panicked");
    Problem::new("internal", "an invariant does not hold: see the log of the service")
        .into_response()
}
