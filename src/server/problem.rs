//! Refusals and errors as RFC 9457 problem documents. The status of a code is looked up here and nowhere else.

use std::time::Duration;

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value as Json};

use crate::error::Error;

/// Every code with its status and title. A code that is not here is a fault of the call: 400.
pub const STATUSES: &[(&str, u16, &str)] = &[
    ("invalid", 400, "The request is not valid"),
    ("unauthorized", 401, "A token is needed"),
    ("denied", 403, "Not your field"),
    ("forbidden", 403, "This token may not do that"),
    ("not_found", 404, "No such record"),
    ("unknown_type", 404, "No such entity type"),
    ("version_unknown", 404, "No such version"),
    ("operation_unknown", 404, "No such save or job"),
    ("not_queued", 404, "No such waiting save"),
    ("lease_unknown", 404, "No such lease of yours"),
    ("guard_unknown", 404, "No such version guard"),
    ("no_such_route", 404, "No such route"),
    ("method_not_allowed", 405, "Method not allowed here"),
    ("body_timeout", 408, "The body took too long"),
    ("conflict", 409, "Somebody else changed the same field"),
    ("exists", 409, "The record exists already"),
    ("recreated", 409, "The record was deleted and created again"),
    ("stale_registry", 409, "Other ownership rules are in force"),
    ("lease_lost", 409, "The lease has ended"),
    ("input_moved", 409, "An input of the result has changed"),
    ("parent_gone", 409, "The item is gone"),
    ("stale", 409, "The record moved on"),
    ("stale_input", 409, "An input of the result has changed"),
    ("fenced", 409, "Another holder has taken over"),
    ("in_progress", 409, "A request with this key is being worked on"),
    ("superseded_key", 409, "The key's work was done on other inputs"),
    ("key_lost", 409, "Another attempt has taken over the key"),
    ("undo_lifecycle", 409, "Creating and deleting are not undone"),
    ("history_gone", 409, "The history no longer knows it"),
    ("gone", 410, "The record was deleted"),
    ("precondition_failed", 412, "The record is not the one named in If-Match"),
    ("body_too_large", 413, "The body is too large"),
    ("uri_too_long", 414, "The address is too long"),
    ("media_type", 415, "The body must be application/json"),
    ("key_mismatch", 422, "The key was used for another request"),
    ("job_failed", 422, "The job failed for good"),
    ("not_valid", 422, "The merged record is not valid"),
    ("leased", 423, "Somebody else holds the lease"),
    ("token_required", 428, "The edit token is missing"),
    ("too_many_requests", 429, "Too many requests at once"),
    ("too_many_leases", 429, "Too many leases"),
    ("headers_too_large", 431, "The headers are too large"),
    ("internal", 500, "Internal error"),
    ("not_yet", 501, "Declared, but not done yet"),
    ("unavailable", 503, "Not available now"),
    ("contended", 503, "Too many other writers"),
    ("outcome_unknown", 503, "The outcome is not known"),
    ("stopping", 503, "The service is stopping"),
];

/// When to come back, where nothing better is known.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// One problem document.
#[derive(Clone, Debug)]
pub struct Problem {
    code: &'static str,
    detail: String,
    help: String,
    retry_after: Option<Duration>,
    more: Map<String, Json>,
}

impl Problem {
    /// A problem with its stable code and what is wrong, in the user's words.
    pub fn new(code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            help: String::new(),
            retry_after: None,
            more: Map::new(),
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = help.into();
        self
    }

    /// When to come back; sent in whole seconds, at least one.
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// One more member of the document.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Json>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// The status of this problem's code.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        row(self.code).0
    }

    /// The document.
    #[must_use]
    pub fn body(&self) -> Json {
        let (status, title) = row(self.code);
        let mut body = self.more.clone();
        body.insert("type".to_owned(), format!("urn:fieldlease:problem:{}", self.code).into());
        body.insert("title".to_owned(), title.into());
        body.insert("status".to_owned(), status.as_u16().into());
        body.insert("code".to_owned(), self.code.into());
        body.insert("detail".to_owned(), self.detail.clone().into());
        if !self.help.is_empty() {
            body.insert("help".to_owned(), self.help.clone().into());
        }
        Json::Object(body)
    }
}

/// The status and title of a code.
fn row(code: &str) -> (StatusCode, &'static str) {
    let found = STATUSES.iter().find(|(known, ..)| *known == code);
    let (_, status, title) = found.copied().unwrap_or(("", 400, "The request is not valid"));
    (StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), title)
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status();
        let mut response = (status, self.body().to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer realm=\"fieldlease\""),
            );
        }
        let waits =
            [StatusCode::LOCKED, StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
        if waits.contains(&status) || self.code == "in_progress" {
            let after = self.retry_after.unwrap_or(RETRY_AFTER).as_millis().div_ceil(1_000).max(1);
            let after = u64::try_from(after).unwrap_or(u64::MAX);
            headers.insert(header::RETRY_AFTER, HeaderValue::from(after));
        }
        response
    }
}

/// What the engine could not do. Causes that name files, statements or servers stay in the log.
impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        match &error {
            Error::Invalid { code, message, help } => Self::new(code, message).help(help),
            Error::OutcomeUnknown(operation) => Self::new(error.code(), error.to_string())
                .help("load the record and look for this operation in its history")
                .with("operation", operation.to_string()),
            Error::Unavailable { message } => {
                tracing::warn!(%message, "a server or file could not be reached");
                Self::new(error.code(), "a server or file could not be reached")
                    .help("nothing was done: try again later")
            }
            Error::Internal { message } => {
                tracing::error!(%message, "an invariant does not hold");
                Self::new(error.code(), "an invariant does not hold: see the log of the service")
            }
            Error::Contended { .. } | Error::NotYet { .. } => {
                Self::new(error.code(), error.to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_stands_once_in_the_table_and_answers_its_status() {
        for (index, (code, status, title)) in STATUSES.iter().enumerate() {
            assert!(STATUSES.iter().skip(index + 1).all(|(other, ..)| other != code), "{code}");

            let problem = Problem::new(code, "x").with("code", "forged").with("status", 200);

            assert_eq!(problem.status().as_u16(), *status, "{code}");
            let body = problem.body();
            assert_eq!(body["code"], *code);
            assert_eq!(body["status"], *status);
            assert_eq!(body["title"], *title);
            assert_eq!(body["type"], format!("urn:fieldlease:problem:{code}"));
        }
        assert_eq!(Problem::new("path_empty", "x").status().as_u16(), 400);
    }

    #[test]
    fn causes_of_our_own_stay_in_the_log() {
        for error in [
            Error::internal("SELECT secret FROM fl_record at store.rs"),
            Error::unavailable("/var/lib/fieldlease.db: SELECT secret"),
        ] {
            let body = Problem::from(error).body().to_string();

            assert!(!body.contains("secret") && !body.contains("/var"), "{body}");
        }
    }

    #[test]
    fn a_refusal_that_ends_by_itself_says_when_to_come_back() {
        let cases = [
            ("leased", Some(Duration::from_millis(1_200)), Some("2")),
            ("leased", Some(Duration::ZERO), Some("1")),
            ("contended", None, Some("1")),
            ("in_progress", Some(Duration::from_secs(30)), Some("30")),
            ("conflict", Some(Duration::from_secs(3)), None),
        ];

        for (code, after, expected) in cases {
            let mut problem = Problem::new(code, "x");
            problem.retry_after = after;
            let response = problem.into_response();
            let header = response.headers().get("retry-after").map(|v| v.to_str().unwrap());
            assert_eq!(header, expected, "{code}");
        }
    }
}
