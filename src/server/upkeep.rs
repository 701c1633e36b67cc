//! Pruning and erasing over HTTP; both need the permission `upkeep`.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse, Response},
};
use serde_json::json;

use crate::{
    entity::{EntityRef, EntityType, Writer},
    server::{
        App, auth::Caller, limits::read_json, principals::Permission, problem::Problem, wire,
    },
    upkeep::{Erase, EraseAsk, PruneAsk},
};

/// Most saves one call prunes.
const MOST: u32 = 5_000;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A prune as it is sent.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PruneBody {
    /// Only records of this type.
    pub r#type: Option<String>,
    /// Newest versions to keep.
    pub keep: Option<u64>,
    /// Versions younger than this many days stay.
    pub days: Option<u64>,
    /// Operation records younger than this many days stay.
    pub operations_days: Option<u64>,
    /// Records deleted this many days ago are forgotten.
    pub tombstones_days: Option<u64>,
    /// Nothing younger than this many days goes; default: the service's `base_window_days`.
    pub base_window_days: Option<u64>,
    /// Where to go on.
    pub after: u64,
    /// Most saves in this call.
    pub batch: Option<u32>,
    /// Counts only.
    pub dry_run: bool,
}

/// An erasure as it is sent.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct EraseBody {
    entity: Option<EntityRef>,
    writer: Option<Writer>,
    reason: String,
    #[serde(default)]
    dry_run: bool,
}

impl PruneBody {
    /// What it asks for, with this base window if it names none.
    ///
    /// # Errors
    /// When nothing is asked for, or the type is no name.
    pub fn check(self, base_window: Duration) -> Result<PruneAsk, Problem> {
        let days = |days: u64| DAY.saturating_mul(u32::try_from(days).unwrap_or(u32::MAX));
        let asked = [self.keep, self.days, self.operations_days, self.tombstones_days];
        if asked.iter().all(Option::is_none) {
            let message = "nothing is to be pruned: what is not set is not pruned";
            return Err(Problem::new("bad_body", message)
                .help("set `keep`, `days`, `operations_days` or `tombstones_days`"));
        }
        let kind = self.r#type.as_deref().map(EntityType::new).transpose();
        Ok(PruneAsk {
            kind: kind.map_err(|error| Problem::new("bad_name", error.to_string()))?,
            keep_versions: self.keep,
            versions_older: self.days.map(days),
            operations_older: self.operations_days.map(days),
            tombstones_older: self.tombstones_days.map(days),
            base_window: self.base_window_days.map_or(base_window, days),
            after: self.after,
            most: self.batch.unwrap_or(500).clamp(1, MOST),
            dry_run: self.dry_run,
        })
    }
}

/// `POST /v1/prune`: one bounded step; `next` is where to go on.
pub(crate) async fn prune(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    caller.must_have(Permission::Upkeep)?;
    let body = read_json(&app.limits, app.clock.as_ref(), &headers, body).await?;
    let ask = wire::shape::<PruneBody>(body)?.check(app.base_window)?;
    let pruned = app.engine.prune(&ask).await?;
    tracing::info!(by = %caller.0.writer, ?pruned, dry_run = ask.dry_run, "pruned");
    Ok(axum::Json(json!(pruned)).into_response())
}

/// `POST /v1/erase`: forgets a record's values, or a writer's name.
pub(crate) async fn erase(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    caller.must_have(Permission::Upkeep)?;
    let body = read_json(&app.limits, app.clock.as_ref(), &headers, body).await?;
    let body: EraseBody = wire::shape(body)?;
    let what = match (body.entity, body.writer) {
        (Some(entity), None) => {
            caller.must_see(&entity.kind)?;
            Erase::Entity(entity)
        }
        (None, Some(writer)) => Erase::Writer(writer),
        _ => return Err(Problem::new("bad_body", "send `entity` or `writer`, one of them")),
    };
    let by = caller.0.writer.to_string();
    let ask = EraseAsk { what, by, reason: body.reason, dry_run: body.dry_run };
    let erased = app.engine.erase(&ask).await?;
    let erased = erased.ok_or_else(|| Problem::new("not_found", "there is no such record"))?;
    tracing::info!(by = %caller.0.writer, ?erased, dry_run = ask.dry_run, "erased");
    Ok(axum::Json(json!(erased)).into_response())
}
