//! Whether the service lives, is ready for work, and what it has counted.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use crate::{
    entity::{EntityRef, Writer},
    error::Error,
    server::{App, auth::Caller, principals::Permission, problem::Problem},
};

/// The record that readiness looks for; whether it is there does not matter.
const PROBE: &str = "readyz";

/// The process answers. The only route without a token.
pub(crate) async fn alive() -> Json<Value> {
    Json(json!({"status": "alive"}))
}

/// New work is taken: not stopping, and lease store and store answer.
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Result<Json<Value>, Problem> {
    if app.stop.is_cancelled() {
        return Err(Problem::new("stopping", "the service is stopping"));
    }
    if let Err(error) = app.engine.leases(None, None, 1).await {
        tracing::warn!(%error, "the lease store does not answer");
        return Err(Problem::new("unavailable", "the lease store does not answer")
            .help("saves of editors may still succeed; leases are not granted")
            .with("lease_store", "unavailable"));
    }
    if let Some(rules) = app.engine.registry().entities().next() {
        let entity = EntityRef::new(rules.kind.as_str(), PROBE).map_err(Error::from)?;
        app.engine.session(Writer::worker(PROBE)).load(&entity).await?;
    }
    Ok(Json(json!({"status": "ready", "lease_store": "answers"})))
}

/// Counters in the Prometheus text format.
pub(crate) async fn metrics(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<Response, Problem> {
    caller.must_have(Permission::Metrics)?;
    let Some(render) = &app.metrics else {
        return Err(Problem::new("no_such_route", "this service counts nothing"));
    };
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    Ok((kind, render()).into_response())
}
