//! What the engine answered, as a response.

use std::collections::BTreeMap;

use axum::{
    Json as Body,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

use crate::{
    engine::{Busy, Outcome, Planned, Refused, Why, news_json},
    lease::Holder,
    path::Path,
    plan::{Plan, report_json},
    server::{keys, lease_table, problem::Problem},
    snapshot::Snapshot,
};

/// The rule of a conflict whose base nobody knows (RULES 9).
const BASE_UNKNOWN: &str = "base_unknown";

/// The entity tag of a state as one caller sees it: the same exactly as long as the edit token is.
pub(crate) fn etag(token: &str) -> HeaderValue {
    let hash = Sha256::digest(token.as_bytes());
    let hex: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    HeaderValue::from_str(&format!("\"{hex}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

/// A JSON answer with the tag of the state it describes.
pub(crate) fn tagged(status: StatusCode, token: Option<&str>, body: Json) -> Response {
    let mut headers = HeaderMap::new();
    if let Some(token) = token {
        headers.insert(header::ETAG, etag(token));
    }
    (status, headers, Body(body)).into_response()
}

/// What became of a save, with one more member where it was accepted.
pub(crate) fn outcome_with(
    saved: Outcome,
    applied: StatusCode,
    blind: bool,
    (name, value): (&str, Json),
) -> Response {
    match saved {
        Outcome::Applied(saved) => {
            let mut body = saved.to_json();
            with(&mut body, name, value);
            tagged(applied, Some(&saved.token), body)
        }
        Outcome::Unchanged(same) => {
            let mut body = same.to_json();
            with(&mut body, name, value);
            tagged(StatusCode::OK, Some(&same.token), body)
        }
        Outcome::Refused(refused) => refusal(&refused, blind).with(name, value).into_response(),
        other => outcome(other, applied, blind),
    }
}

/// What became of a save. `blind`: an editor's save that said nothing about what its form had shown.
pub(crate) fn outcome(outcome: Outcome, applied: StatusCode, blind: bool) -> Response {
    match outcome {
        Outcome::Applied(saved) => tagged(applied, Some(&saved.token), saved.to_json()),
        Outcome::Unchanged(same) => tagged(StatusCode::OK, Some(&same.token), same.to_json()),
        Outcome::Refused(refused) => refusal(&refused, blind).into_response(),
        Outcome::Busy(by) => busy(&by, false).into_response(),
        Outcome::Skipped(by) => busy(&by, true).into_response(),
        Outcome::Lost(_) => lease_table::lost().into_response(),
        Outcome::Queued(queued) => {
            let body = json!({
                "outcome": "queued",
                "operation": queued.operation,
                "place": queued.place,
            });
            tagged(StatusCode::ACCEPTED, None, body)
        }
        Outcome::Replayed(replayed) => keys::replay(*replayed, applied),
        Outcome::InProgress(waiting) => keys::in_progress(waiting).into_response(),
        Outcome::KeyMismatch => keys::mismatch().into_response(),
    }
}

/// The answer of a dry run: the report says whether the save would be accepted.
pub(crate) fn planned(planned: &Planned) -> Response {
    tagged(StatusCode::OK, Some(&planned.token), planned_json(planned))
}

/// The same with one more member.
pub(crate) fn planned_with(planned: &Planned, (name, value): (&str, Json)) -> Response {
    let mut body = planned_json(planned);
    with(&mut body, name, value);
    tagged(StatusCode::OK, Some(&planned.token), body)
}

fn planned_json(planned: &Planned) -> Json {
    json!({
        "plan": report_json(&planned.plan),
        "news": news_json(&planned.news),
        "edit_token": planned.token,
    })
}

/// Values by unit.
pub(crate) fn fields_json(fields: &BTreeMap<Path, Json>) -> Json {
    fields.iter().map(|(path, value)| (path.to_string(), value.clone())).collect()
}

/// The save that last changed each unit: what a computed result sends back as `inputs` (RULES 24).
pub(crate) fn stamps_json(snapshot: &Snapshot) -> Json {
    let stamps = snapshot.stamps.iter();
    stamps.map(|(path, stamp)| (path.to_string(), json!(stamp.operation))).collect()
}

/// A refusal with the plan and the token that says "I have seen this" (RULES 42).
pub(crate) fn refusal(refused: &Refused, blind: bool) -> Problem {
    let asked_blindly = blind && refused.plan.as_ref().is_some_and(has_unknown_base);
    let problem = match &refused.why {
        Why::Rules { code: "conflict", .. } if asked_blindly => Problem::new(
            "token_required",
            "the save changes values and does not say what its form had shown",
        )
        .help("send `edit_token` as the load answered it, or `base` for every changed path"),
        Why::Objections(objections) => Problem::new("not_valid", "the merged record is not valid")
            .with("objections", json!(objections)),
        why => Problem::new(why.code(), words(why)).help(help(why)),
    };
    let mut problem = problem.with("operation", refused.operation.to_string());
    if !refused.news.is_empty() {
        problem = problem.with("news", news_json(&refused.news));
    }
    with_state(problem, refused.plan.as_ref(), refused.token.as_deref())
}

fn with_state(mut problem: Problem, plan: Option<&Plan>, token: Option<&str>) -> Problem {
    if let Some(plan) = plan {
        problem = problem.with("plan", report_json(plan));
    }
    match token {
        Some(token) => problem.with("edit_token", token),
        None => problem,
    }
}

fn has_unknown_base(plan: &Plan) -> bool {
    plan.conflicts().any(|(_, conflict)| conflict.rule == BASE_UNKNOWN)
}

/// The engine's own words about the save as a whole, else ours for its code.
fn words(why: &Why) -> &str {
    match why {
        Why::Rules { message, .. } if !message.is_empty() => message,
        Why::Objections(_) => "the merged record is not valid",
        Why::Rules { .. } | Why::Store(_) => match why.code() {
            "conflict" => "somebody else changed a submitted field, and no strategy decides",
            "denied" => "a submitted change is not this writer's to make",
            "stale_input" | "input_moved" => "an input of the result has changed",
            "parent_gone" => "the item around a submitted field is gone",
            "not_found" => "there is no such record",
            "exists" => "the record exists already",
            "gone" => "the record was deleted",
            "recreated" => "the record was deleted and created again since it was loaded",
            "stale_registry" => "other ownership rules are in force",
            "fenced" => "another holder has taken over",
            "key_lost" => "another attempt has taken over the key",
            "invalid" => "a submitted change is not valid",
            _ => "the save was refused",
        },
    }
}

fn help(why: &Why) -> &'static str {
    match why.code() {
        "conflict" => {
            "decide per path in `plan`, then save again with the `edit_token` of this answer"
        }
        "denied" => "leave those paths out; `plan` says whose they are",
        "stale_input" | "input_moved" => "run the job again on fresh inputs",
        "not_valid" => "change the fields named in `objections`",
        "invalid" => "see the paths in `plan`",
        "exists" => "save instead of creating",
        "not_found" => "create it first: POST to its address",
        "superseded_key" => "read the inputs again and send a key made of their stamps",
        "key_lost" => "send the job again: it is answered what the other attempt did",
        _ => "load the record again",
    }
}

/// Somebody else holds a lease.
pub(crate) fn busy(busy: &Busy, skipped: bool) -> Problem {
    let by: Vec<Json> = busy.by.iter().map(holder_json).collect();
    let problem = Problem::new("leased", "somebody else holds the lease")
        .help("ask again after the time in Retry-After")
        .retry_after(busy.retry_after)
        .with("held_by", by)
        .with("skipped", skipped);
    with_state(problem, busy.plan.as_ref(), busy.token.as_deref())
}

/// Who holds a scope, the same over HTTP and from the command line. Only for callers that may see the entity's type.
#[must_use]
pub fn holder_json(holder: &Holder) -> Json {
    let ms = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    json!({
        "entity": holder.scope.entity,
        "scope": holder.scope.name,
        "label": &*holder.label,
        "remaining_ms": ms(holder.remaining),
        "held_ms": ms(holder.held),
        "waiting": holder.waiting,
    })
}

fn with(body: &mut Json, name: &str, value: Json) {
    if let Some(members) = body.as_object_mut() {
        members.insert(name.to_owned(), value);
    }
}
