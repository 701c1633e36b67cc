//! Talking to a running service. The token never stands in an address or on the command line.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use serde_json::Value as Json;

use crate::output::{Failure, Result, read_input};

/// Longest time one answer may take; an acquire waits 30 s at most.
const ANSWER_TIME: Duration = Duration::from_secs(60);
/// Largest answer read.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Which service to ask, and as whom.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServiceArgs {
    /// Address of a running service, as in http://127.0.0.1:4180
    #[arg(long, env = "FIELDLEASE_URL", global = true)]
    pub(crate) url: Option<String>,
    /// File that holds the token; the variable FIELDLEASE_TOKEN may hold the token itself
    #[arg(long, env = "FIELDLEASE_TOKEN_FILE", value_name = "FILE", global = true)]
    token_file: Option<PathBuf>,
}

/// The address without its last slash, when it is one this client can use.
fn base(url: &str) -> Result<String> {
    let refused = |what: &str| {
        // Not the address itself: somebody may have written a password into it.
        let help = "write it like http://127.0.0.1:4180";
        Err(Failure::new("bad_url", format!("the address of the service {what}"), help))
    };
    let url = url.trim_end_matches('/');
    let Some((scheme, rest)) = url.split_once("://") else {
        return refused("has no `http://`");
    };
    if scheme.eq_ignore_ascii_case("https") {
        return refused("begins with `https://`, which this command does not speak");
    }
    let host = rest.split('/').next().unwrap_or_default();
    let port = host.rsplit_once(':').map(|(_, port)| port).filter(|port| !port.ends_with(']'));
    let sound = url.parse::<ureq::http::Uri>().is_ok()
        && port.is_none_or(|port| port.parse::<u16>().is_ok());
    if !scheme.eq_ignore_ascii_case("http") || host.is_empty() || !sound {
        return refused("is not an HTTP address");
    }
    if host.contains('@') || rest.contains(['?', '#']) {
        return refused("holds more than host, port and path");
    }
    Ok(url.to_owned())
}

/// A service and a token for it.
pub(crate) struct Client {
    agent: ureq::Agent,
    url: String,
    authorization: String,
}

impl ServiceArgs {
    /// The service, which must be named.
    pub(crate) fn client(&self) -> Result<Client> {
        let Some(url) = &self.url else {
            return Err(Failure::new(
                "no_service",
                "no service is named",
                "pass --url http://127.0.0.1:4180 or set FIELDLEASE_URL",
            ));
        };
        let url = base(url)?;
        let token = match (&self.token_file, std::env::var("FIELDLEASE_TOKEN")) {
            (Some(file), _) => String::from_utf8_lossy(&read_input(file)?).into_owned(),
            (None, Ok(token)) => token,
            (None, Err(_)) => String::new(),
        };
        let token = token.trim();
        if token.is_empty() {
            return Err(Failure::new(
                "no_token",
                "no token is given",
                "pass --token-file FILE or set FIELDLEASE_TOKEN",
            ));
        }
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let message = "what is given as the token cannot be one: it is not one word of ASCII";
            return Err(Failure::new("bad_token", message, "is it the right file?"));
        }
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(ANSWER_TIME))
            .max_redirects(0)
            .http_status_as_error(false)
            // The service speaks plain HTTP: a proxy on the way would read the token.
            .proxy(None)
            .build();
        let authorization = format!("Bearer {token}");
        Ok(Client { agent: config.new_agent(), url, authorization })
    }
}

impl Client {
    /// Asks for something.
    pub(crate) fn get(&self, route: &str) -> Result<Json> {
        let asked = self.agent.get(format!("{}{route}", self.url));
        answer(asked.header("Authorization", &self.authorization).call())
    }

    /// Sends something.
    pub(crate) fn post(&self, route: &str, body: &Json) -> Result<Json> {
        let asked = self.agent.post(format!("{}{route}", self.url));
        answer(asked.header("Authorization", &self.authorization).send_json(body))
    }
}

fn answer(
    answered: std::result::Result<ureq::http::Response<ureq::Body>, ureq::Error>,
) -> Result<Json> {
    let unavailable = |error: ureq::Error| {
        Failure::new(
            "unavailable",
            format!("the service did not answer: {error}"),
            "is it running?",
        )
    };
    let mut response = answered.map_err(unavailable)?;
    let status = response.status();
    let body: Json = response
        .body_mut()
        .with_config()
        .limit(ANSWER_BYTES_MAX)
        .read_json()
        .map_err(|_| not_ours(&format!("{status} without JSON")))?;
    if status.is_success() {
        return Ok(body);
    }
    let text = |name: &str| body.get(name).and_then(Json::as_str).unwrap_or_default().to_owned();
    if text("code").is_empty() {
        return Err(not_ours(&format!("{status} without a code")));
    }
    let mut failure = Failure::new(text("code"), text("detail"), text("help"));
    failure.more = Some(body);
    Err(failure)
}

/// An answer that this service never gives.
fn not_ours(what: &str) -> Failure {
    let message = format!("the service answered {what}");
    Failure::new("unavailable", message, "is it a fieldlease service?")
}

/// Takes one member out of an answer of the service.
pub(crate) fn taken<T: serde::de::DeserializeOwned>(answer: &mut Json, name: &str) -> Result<T> {
    answer
        .get_mut(name)
        .map(Json::take)
        .and_then(|value| serde_json::from_value(value).ok())
        .ok_or_else(|| not_ours(&format!("without `{name}`")))
}

/// Percent-encodes one value of a query.
pub(crate) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_plain_http_with_host_port_and_path() {
        let cases = [
            ("http://127.0.0.1:4180", Some("http://127.0.0.1:4180")),
            ("http://[::1]:4180/", Some("http://[::1]:4180")),
            ("HTTP://localhost//", Some("HTTP://localhost")),
            ("http://proxy/cms/", Some("http://proxy/cms")),
            ("127.0.0.1:4180", None),
            ("localhost", None),
            ("", None),
            ("http://", None),
            ("http:///v1", None),
            ("https://localhost", None),
            ("ftp://localhost", None),
            ("http://me:secret@localhost", None),
            ("http://localhost?x=1", None),
            ("http://localhost/#x", None),
            ("http://local host", None),
            ("http://localhost:99999", None),
        ];

        for (url, expected) in cases {
            let found = base(url);
            assert_eq!(found.as_deref().ok(), expected, "{url}");
            if let Err(failure) = found {
                assert_eq!(failure.code, "bad_url");
                assert!(!failure.message.contains("secret"));
            }
        }
    }
}
