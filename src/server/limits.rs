//! What one request may cost, before anything looks at what it says.

use std::{future::poll_fn, pin::pin, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes, HttpBody, to_bytes},
    extract::Request,
    http::{HeaderMap, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use serde_json::Value as Json;

use crate::{clock::Clock, json, server::problem::Problem};

/// Bounds of the service. Every one of them is a refusal, never a truncation.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of a body. Default 1 MiB.
    pub body_bytes: usize,
    /// Bytes of a body from which on it is a large one, or its length is not said. Default 64 KiB.
    pub large_body_bytes: usize,
    /// Requests with large bodies at once; another one waits a moment, and is answered 503 when there is still no
    /// place. They are what memory is spent on: a value of a few bytes takes ten times as many once it is read, and a
    /// save compares several copies. Default 8: at most about 300 MB.
    pub large_bodies: usize,
    /// Bytes of the address. Default 8 KiB: three times an id of 256 bytes, percent-encoded, fits with ease.
    pub uri_bytes: usize,
    /// Bytes of all header names and values. Default 16 KiB.
    pub header_bytes: usize,
    /// Header lines. Default 64.
    pub headers: usize,
    /// Time for the whole head of a request, idle time before it included. Default 10 s.
    pub head_time: Duration,
    /// Time for a whole body. Default 10 s.
    pub body_time: Duration,
    /// Open connections; one more is answered 503 and closed. Default 1024.
    pub connections: usize,
    /// Leases held through the service. Default 10,000.
    pub leases: usize,
    /// Leases of one writer held through the service. Default 1,000.
    pub leases_per_writer: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 1 << 20,
            large_body_bytes: 64 << 10,
            large_bodies: 8,
            uri_bytes: 8 << 10,
            header_bytes: 16 << 10,
            headers: 64,
            head_time: Duration::from_secs(10),
            body_time: Duration::from_secs(10),
            connections: 1_024,
            leases: 10_000,
            leases_per_writer: 1_000,
        }
    }
}

/// Refuses a head that is too large, before the token is looked at.
pub(crate) async fn check_head(limits: Arc<Limits>, request: Request, next: Next) -> Response {
    let uri = request.uri();
    let uri_bytes = uri.path_and_query().map_or(0, |target| target.as_str().len());
    if uri_bytes > limits.uri_bytes {
        let message = format!("the address is longer than {} bytes", limits.uri_bytes);
        return Problem::new("uri_too_long", message).into_response();
    }
    let headers = request.headers();
    let header_bytes: usize =
        headers.iter().map(|(name, value)| name.as_str().len().saturating_add(value.len())).sum();
    if header_bytes > limits.header_bytes || headers.len() > limits.headers {
        let message = format!(
            "more than {} header lines or {} bytes of them",
            limits.headers, limits.header_bytes
        );
        return Problem::new("headers_too_large", message).into_response();
    }
    next.run(request).await
}

/// Whether a body may be large: it says so, or does not say how long it is.
pub(crate) fn is_large(limits: &Limits, headers: &HeaderMap) -> bool {
    if headers.contains_key(header::TRANSFER_ENCODING) {
        return true;
    }
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let length = length.map_or(Some(0), |length| length.parse::<usize>().ok());
    length.is_none_or(|length| length > limits.large_body_bytes)
}

/// Reads a JSON body within the limits.
pub(crate) async fn read_json(
    limits: &Limits,
    clock: &dyn Clock,
    headers: &HeaderMap,
    body: Body,
) -> Result<Json, Problem> {
    if !is_json(headers) {
        return Err(not_json());
    }
    let bytes = read(limits, clock, body).await?;
    json::parse(&bytes).map_err(|fault| Problem::new(fault.code, fault.message))
}

/// Reads a body that may be left out: nothing at all counts as `{}`, whatever the head says about it.
pub(crate) async fn read_json_or_nothing(
    limits: &Limits,
    clock: &dyn Clock,
    headers: &HeaderMap,
    body: Body,
) -> Result<Json, Problem> {
    let bytes = read(limits, clock, body).await?;
    match bytes.is_empty() {
        true => Ok(Json::Object(serde_json::Map::new())),
        false if !is_json(headers) => Err(not_json()),
        false => json::parse(&bytes).map_err(|fault| Problem::new(fault.code, fault.message)),
    }
}

fn not_json() -> Problem {
    Problem::new("media_type", "the body is not `application/json`")
        .help("send `Content-Type: application/json`")
}

async fn read(limits: &Limits, clock: &dyn Clock, body: Body) -> Result<Bytes, Problem> {
    let until = clock.now().plus(limits.body_time);
    tokio::select! {
        read = to_bytes(body, limits.body_bytes) => read.map_err(|error| too_large(limits, &error)),
        () = clock.sleep_until(until) => {
            let message = format!("the body was not there after {} s", limits.body_time.as_secs());
            Err(Problem::new("body_timeout", message))
        }
    }
}

/// Takes in what a refused client is still sending, and keeps nothing: closing in the middle of it would reset the
/// connection, and the client might not see why it was refused.
pub(crate) async fn drain(limits: &Limits, clock: &dyn Clock, body: Body) {
    let until = clock.now().plus(limits.body_time);
    let mut body = pin!(body);
    let mut left = limits.body_bytes;
    let all = async {
        while left > 0 {
            let Some(Ok(frame)) = poll_fn(|context| body.as_mut().poll_frame(context)).await else {
                return;
            };
            left = left.saturating_sub(frame.data_ref().map_or(0, |data| data.len()));
        }
    };
    tokio::select! {
        () = all => {}
        () = clock.sleep_until(until) => {}
    }
}

fn too_large(limits: &Limits, error: &axum::Error) -> Problem {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if error.to_string() == "length limit exceeded" {
            let message = format!("the body is larger than {} bytes", limits.body_bytes);
            return Problem::new("body_too_large", message);
        }
        cause = error.source();
    }
    Problem::new("invalid", "the body ended early")
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()) else {
        return false;
    };
    let essence = kind.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}
