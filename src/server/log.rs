//! One line per request: never a query, a header, a body or the name of a lease.

use axum::{extract::Request, middleware::Next, response::Response};

/// Longest path in a line, in characters.
const PATH_CHARS_MAX: usize = 512;
/// Where the name of a lease stands in a path: behind this.
const LEASES: &str = "/v1/leases/";

/// Writes the line when the answer is known.
pub(crate) async fn log(request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let path = shown(request.uri().path());
    let response = next.run(request).await;
    // `{:?}` escapes control characters.
    tracing::info!(%method, ?path, status = response.status().as_u16(), "request");
    response
}

/// A path without the name of a lease: whoever reads the log must not learn it.
fn shown(path: &str) -> String {
    match path.strip_prefix(LEASES) {
        Some(rest) if rest != "break" => format!("{LEASES}.."),
        _ => path.chars().take(PATH_CHARS_MAX).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_shown_without_the_name_of_a_lease() {
        let cases = [
            ("/v1/entities/Product/1/save", "/v1/entities/Product/1/save"),
            ("/v1/leases", "/v1/leases"),
            ("/v1/leases/break", "/v1/leases/break"),
            ("/v1/leases/0123456789abcdef", "/v1/leases/.."),
            ("/v1/leases/0123456789abcdef/renew", "/v1/leases/.."),
        ];

        for (path, expected) in cases {
            assert_eq!(shown(path), expected);
        }
        assert_eq!(shown(&"\u{e9}".repeat(1_000)).chars().count(), PATH_CHARS_MAX);
    }
}
