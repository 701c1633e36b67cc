//! Idempotency keys over HTTP: the header, and what repeats are answered.

use axum::{
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode},
    response::{IntoResponse, Response},
};
use serde_json::Value as Json;

use crate::{
    engine::{Replayed, Save, Waiting},
    entity::EntityRef,
    key::{ApiKey, JobKey, KeyKind, RequestHash},
    server::{answer::tagged, problem::Problem},
};

/// The client's key.
const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Says that an answer is an earlier one.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// Members of a body that may differ between repeats of one request: a retry may come under another lease.
const NOT_COMPARED: [&str; 1] = ["lease"];

/// The key of a request, checked before anything is done.
#[derive(Debug, Default)]
pub(crate) struct Named {
    api: Option<(ApiKey, RequestHash)>,
    job: Option<JobKey>,
}

impl Named {
    /// From the header and the body of a request for `operation` on this record.
    pub(crate) fn read(
        headers: &HeaderMap,
        operation: &str,
        entity: &EntityRef,
        body: &Json,
    ) -> Result<Self, Problem> {
        let mut values = headers.get_all(&KEY).iter();
        let api = match (values.next(), values.next()) {
            (None, _) => None,
            (Some(value), None) => Some(value),
            (Some(_), Some(_)) => return Err(bad_key("the header comes twice")),
        };
        let api = match api {
            Some(value) => {
                let key = value.to_str().ok().map(ApiKey::new).and_then(Result::ok);
                let key = key.ok_or_else(|| bad_key("it is not a key"))?;
                let target = format!("{}/{}", entity.kind, entity.id.as_str());
                let mut body = body.clone();
                if let Some(members) = body.as_object_mut() {
                    NOT_COMPARED.iter().for_each(|name| drop(members.remove(*name)));
                }
                let hash = RequestHash::of_json(KeyKind::Api, operation, &target, &body)?;
                Some((key, hash))
            }
            None => None,
        };
        let job = body.get("job_key").and_then(Json::as_str).map(JobKey::text).transpose()?;
        if api.is_some() && job.is_some() {
            let message = "`Idempotency-Key` and `job_key` name two keys";
            return Err(Problem::new("two_keys", message).help("send one of the two"));
        }
        Ok(Self { api, job })
    }

    /// A save with the key.
    pub(crate) fn on(self, save: Save) -> Save {
        let save = match self.api {
            Some((key, hash)) => save.api_key_for(key, hash),
            None => save,
        };
        match self.job {
            Some(key) => save.job_key(key),
            None => save,
        }
    }
}

fn bad_key(what: &str) -> Problem {
    Problem::new("bad_key", format!("`Idempotency-Key`: {what}"))
        .help("send one key of 1 to 255 visible ASCII characters, without spaces")
}

/// The first answer again, byte for byte, with a header that says so.
pub(crate) fn replay(replayed: Replayed, applied: StatusCode) -> Response {
    if let Some(failed) = replayed.failed {
        return Problem::new("job_failed", failed)
            .help("the job failed for good: send it under a new key to try once more")
            .into_response();
    }
    let status = if replayed.effect.is_some() { applied } else { StatusCode::OK };
    let token = replayed.answer.get("edit_token").and_then(Json::as_str).map(str::to_owned);
    let mut response = tagged(status, token.as_deref(), replayed.answer);
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response
}

/// Somebody else is at it.
pub(crate) fn in_progress(waiting: Waiting) -> Problem {
    Problem::new("in_progress", "a request with this key is being worked on")
        .help("ask again after the time in Retry-After, with the same key")
        .retry_after(waiting.retry_after)
}

/// The key is another request's.
pub(crate) fn mismatch() -> Problem {
    Problem::new("key_mismatch", "this key was used for another request")
        .help("send the first request again, or use a new key")
}
