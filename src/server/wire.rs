//! Bodies and queries as they come in, checked once and turned into the engine's words.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use axum::{extract::FromRequestParts, http::request::Parts};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _},
};
use serde_json::Value as Json;

use crate::{
    entity::{Change, EntityRef, Value},
    path::Path,
    server::problem::Problem,
    token::OperationId,
};

/// Longest reason and job name in characters.
const TEXT_CHARS_MAX: usize = 1_000;
/// Shortest and longest time a client may ask a lease to be kept, the registry's own bounds.
const TTL_MS: std::ops::RangeInclusive<u64> = 100..=86_400_000;
/// Longest wait for a lease within one request.
const WAIT_MS_MAX: u64 = 30_000;
/// Names a query may hold more than once.
const REPEATED: [&str; 2] = ["path", "with"];

/// A save, a plan or a create as it is sent. Unknown members are refused: a misspelt one must not be silence.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SaveBody {
    pub(crate) edit_token: Option<String>,
    changes: BTreeMap<String, Json>,
    unset: Vec<String>,
    include: BTreeMap<String, Vec<Json>>,
    exclude: BTreeMap<String, Vec<Json>>,
    add: BTreeMap<String, i64>,
    base: BTreeMap<String, Json>,
    base_absent: Vec<String>,
    shown: Vec<String>,
    force: Vec<String>,
    reason: Option<String>,
    pub(crate) lease: Option<String>,
    all_or_nothing: bool,
    job: Option<String>,
    pub(crate) apply: bool,
    unordered: bool,
    inputs: Option<BTreeMap<String, Option<OperationId>>>,
    /// Read by the route, with the header that means the same for clients.
    #[serde(rename = "job_key")]
    _job_key: Option<String>,
}

/// A delete as it is sent; every member may be left out, and the body too.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DeleteBody {
    pub(crate) edit_token: Option<String>,
    pub(crate) lease: Option<String>,
    pub(crate) job: Option<String>,
    /// As in a save.
    #[serde(rename = "job_key")]
    _job_key: Option<String>,
}

/// An acquire.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AcquireBody {
    #[serde(deserialize_with = "by_name")]
    pub(crate) entity: EntityRef,
    #[serde(default)]
    pub(crate) groups: Vec<String>,
    #[serde(default)]
    pub(crate) whole: bool,
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) wait_ms: Option<u64>,
}

/// The guard of one save.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GuardBody {
    #[serde(deserialize_with = "by_name")]
    pub(crate) entity: EntityRef,
    pub(crate) ttl_ms: Option<u64>,
}

/// A renewal.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RenewBody {
    pub(crate) ttl_ms: Option<u64>,
}

/// Breaking somebody else's lease.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BreakBody {
    #[serde(deserialize_with = "by_name")]
    pub(crate) entity: EntityRef,
    pub(crate) scope: String,
    pub(crate) reason: String,
}

/// The query of an address, decoded. What two readers could take differently is refused.
#[derive(Debug)]
pub(crate) struct Query(pub(crate) Vec<(String, String)>);

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        query(parts.uri.query().unwrap_or_default()).map(Self)
    }
}

fn query(text: &str) -> Result<Vec<(String, String)>, Problem> {
    let bad = |message: &str| Problem::new("bad_query", message);
    let mut pairs: Vec<(String, String)> = Vec::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (Some(name), Some(value)) = (decoded(name), decoded(value)) else {
            return Err(bad("the query is not percent-encoded UTF-8"));
        };
        let twice = pairs.iter().any(|(known, _)| *known == name);
        if twice && !REPEATED.contains(&name.as_str()) {
            return Err(bad("a name comes twice in the query"));
        }
        pairs.push((name, value));
    }
    Ok(pairs)
}

/// One name or value of a query, as HTML forms encode it: `+` is a space.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
                u8::try_from(high * 16 + low).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// A save with every path and value checked.
#[derive(Clone, Debug, Default)]
pub struct SaveAsk {
    /// What the form showed.
    pub token: Option<String>,
    /// What is asked for.
    pub changes: BTreeMap<Path, Change>,
    /// Values the client says it saw.
    pub bases: BTreeMap<Path, Value>,
    /// Paths the form showed.
    pub shown: Vec<Path>,
    /// Paths to save in spite of a refusal.
    pub force: Vec<Path>,
    /// Why.
    pub reason: Option<String>,
    /// For workers: all or nothing.
    pub all_or_nothing: bool,
    /// The worker's own name for the job.
    pub job: Option<String>,
    /// A computed result, saved without lease and claim (RULES 30).
    pub apply: bool,
    /// For `apply`: the values depend on nothing that could be newer than they are.
    pub unordered: bool,
    /// Stamps of what the values were computed from (RULES 24).
    pub inputs: Option<BTreeMap<Path, Option<OperationId>>>,
}

/// A record as type and id by their names: an array of the two would be taken as well.
fn by_name<'de, D: Deserializer<'de>>(from: D) -> Result<EntityRef, D::Error> {
    let members = serde_json::Map::deserialize(from)?;
    if members.len() != 2 {
        return Err(D::Error::custom("an entity has `type` and `id`, and nothing else"));
    }
    serde_json::from_value(Json::Object(members)).map_err(D::Error::custom)
}

/// Reads a body into its shape.
///
/// # Errors
/// When a member is unknown or of another kind.
pub fn shape<T: DeserializeOwned>(json: Json) -> Result<T, Problem> {
    // An array would be read as the members in their order.
    if !json.is_object() {
        return Err(Problem::new("bad_body", "the body is not a JSON object"));
    }
    serde_json::from_value(json).map_err(|error| Problem::new("bad_body", error.to_string()))
}

impl SaveBody {
    /// Checks paths, doubles and lengths.
    ///
    /// # Errors
    /// The first fault.
    pub fn check(self) -> Result<SaveAsk, Problem> {
        let sets = self.changes.into_iter().map(|(path, value)| (path, Change::Set(value)));
        let unsets = self.unset.into_iter().map(|path| (path, Change::Unset));
        let includes = self.include.into_iter().map(|(path, more)| (path, Change::Include(more)));
        let excludes = self.exclude.into_iter().map(|(path, less)| (path, Change::Exclude(less)));
        let adds = self.add.into_iter().map(|(path, delta)| (path, Change::Add(delta)));
        let changes = sets.chain(unsets).chain(includes).chain(excludes).chain(adds);
        let seen = self.base.into_iter().map(|(path, value)| (path, Value::Present(value)));
        let absent = self.base_absent.into_iter().map(|path| (path, Value::Absent));
        let inputs = self.inputs.map(|inputs| by_path(inputs.into_iter())).transpose()?;
        let ask = SaveAsk {
            token: self.edit_token,
            changes: by_path(changes)?,
            bases: by_path(seen.chain(absent))?,
            shown: paths(self.shown)?,
            force: paths(self.force)?,
            reason: short("reason", self.reason)?,
            all_or_nothing: self.all_or_nothing,
            job: short("job", self.job)?,
            apply: self.apply,
            unordered: self.unordered,
            inputs,
        };
        if !ask.force.is_empty() && ask.reason.is_none() {
            return Err(Problem::new("reason_missing", "`force` needs a `reason`")
                .help("say why in `reason`; it is kept in the history"));
        }
        check_apply(&ask, self.lease.is_some())?;
        Ok(ask)
    }
}

/// What says two things at once, or says something about an `apply` that is none.
fn check_apply(ask: &SaveAsk, under_lease: bool) -> Result<(), Problem> {
    let message = match ask {
        SaveAsk { apply: false, unordered: true, .. } => "`unordered` is for `apply` only",
        SaveAsk { apply: true, .. } if under_lease => "`apply` takes no lease: send one of the two",
        SaveAsk { apply: true, unordered: true, inputs: Some(_), .. } => {
            "`inputs` are compared and `unordered` says there are none: send one of the two"
        }
        _ => return Ok(()),
    };
    Err(Problem::new("bad_body", message))
}

/// One text of bounded length; blank counts as left out.
pub(crate) fn short(what: &str, text: Option<String>) -> Result<Option<String>, Problem> {
    match text {
        Some(text) if text.chars().count() > TEXT_CHARS_MAX => {
            let message = format!("`{what}` is longer than {TEXT_CHARS_MAX} characters");
            Err(Problem::new("bad_body", message))
        }
        Some(text) if text.trim().is_empty() => Ok(None),
        text => Ok(text),
    }
}

/// How long a client's lease is to be kept.
pub(crate) fn ttl(ms: Option<u64>) -> Result<Option<Duration>, Problem> {
    match ms {
        Some(ms) if !TTL_MS.contains(&ms) => {
            let (least, most) = (TTL_MS.start(), TTL_MS.end());
            let message = format!("`ttl_ms` is not between {least} and {most}");
            Err(Problem::new("bad_body", message))
        }
        ms => Ok(ms.map(Duration::from_millis)),
    }
}

/// How long an acquire may wait.
pub(crate) fn wait(ms: Option<u64>) -> Result<Option<Duration>, Problem> {
    match ms {
        Some(ms) if ms > WAIT_MS_MAX => {
            let message = format!("`wait_ms` is above {WAIT_MS_MAX}");
            Err(Problem::new("bad_body", message).help("ask again after a refusal instead"))
        }
        ms => Ok(ms.map(Duration::from_millis)),
    }
}

/// The record a route names.
pub(crate) fn entity(kind: &str, id: &str) -> Result<EntityRef, Problem> {
    EntityRef::new(kind, id).map_err(|error| Problem::new("bad_name", error.to_string()))
}

/// One path.
pub(crate) fn path(text: &str) -> Result<Path, Problem> {
    Path::parse(text).map_err(|error| {
        let message = format!("`{}`: {}", text.escape_debug(), error.message);
        Problem::new(error.code, message).help(error.help)
    })
}

/// Several paths, each once.
pub(crate) fn paths(texts: Vec<String>) -> Result<Vec<Path>, Problem> {
    let read: BTreeSet<Path> = texts.iter().map(|text| path(text)).collect::<Result<_, _>>()?;
    Ok(read.into_iter().collect())
}

/// Two spellings of one path, or two wishes for it, would make the order matter.
fn by_path<T>(texts: impl Iterator<Item = (String, T)>) -> Result<BTreeMap<Path, T>, Problem> {
    let mut values = BTreeMap::new();
    for (text, value) in texts {
        let path = path(&text)?;
        if values.contains_key(&path) {
            let message = format!("the path `{}` comes twice", path.as_str().escape_debug());
            return Err(Problem::new("duplicate_path", message));
        }
        values.insert(path, value);
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const OPERATION: &str = "0190a5b0-0000-7000-8000-000000000001";

    fn check(body: Json) -> Result<SaveAsk, Problem> {
        shape::<SaveBody>(body)?.check()
    }

    #[test]
    fn a_body_says_one_thing_about_each_path_or_is_refused() {
        let long = "x".repeat(1_001);
        let cases = [
            (json!({}), None),
            (
                json!({"changes": {"a": null, "b": {"c": 1}}, "unset": ["d"], "add": {"e": -1}}),
                None,
            ),
            (json!({"changes": {"a": 1}, "unset": ["a"]}), Some("duplicate_path")),
            (json!({"changes": {"a@x=1+y=2": 1, "a@y=2+x=1": 2}}), Some("duplicate_path")),
            (json!({"base": {"a": 1}, "base_absent": ["a"]}), Some("duplicate_path")),
            (json!({"chnages": {"a": 1}}), Some("bad_body")),
            (json!({"writer": {"kind": "editor", "name": "anna"}}), Some("bad_body")),
            (json!({"changes": []}), Some("bad_body")),
            (json!({"add": {"a": 1.5}}), Some("bad_body")),
            (json!({"force": ["a"]}), Some("reason_missing")),
            (json!({"force": ["a"], "reason": "  "}), Some("reason_missing")),
            (json!({"force": ["a"], "reason": "because"}), None),
            (json!({"job": long}), Some("bad_body")),
            (json!({"apply": true, "unordered": true}), None),
            (json!({"apply": true, "inputs": {"a": null, "b": OPERATION}}), None),
            (json!({"inputs": {"a": OPERATION}, "lease": "x"}), None),
            (json!({"inputs": {"a": "x"}}), Some("bad_body")),
            (json!({"inputs": {"a@x=1+y=2": null, "a@y=2+x=1": null}}), Some("duplicate_path")),
            (json!({"unordered": true}), Some("bad_body")),
            (json!({"apply": true, "lease": "x"}), Some("bad_body")),
            (json!({"apply": true, "unordered": true, "inputs": {}}), Some("bad_body")),
            (json!({"apply": 1}), Some("bad_body")),
        ];

        for (body, expected) in cases {
            let found = check(body.clone()).err().map(|problem| problem.code());
            assert_eq!(found, expected, "{body}");
        }
        assert!(check(json!({"changes": {"a..b": 1}})).is_err());
        let ask = check(json!({"changes": {"a": null}, "base_absent": ["a"]})).unwrap();
        assert_eq!(ask.changes[&Path::parse("a").unwrap()], Change::Set(Json::Null));
        assert_eq!(ask.bases[&Path::parse("a").unwrap()], Value::Absent);
    }

    #[test]
    fn a_query_is_read_strictly() {
        let cases = [
            ("", Some(vec![])),
            ("a=1&b=x%20y+z%2B", Some(vec![("a", "1"), ("b", "x y z+")])),
            ("path=a&path=b", Some(vec![("path", "a"), ("path", "b")])),
            ("a", Some(vec![("a", "")])),
            ("a==", Some(vec![("a", "=")])),
            ("&&a=1&", Some(vec![("a", "1")])),
            ("a=1&a=1", None),
            ("a=1&%61=1", None),
            ("a=%ff", None),
            ("a=%", None),
            ("a=%2", None),
            ("a=%+1", None),
            ("a=%\u{e9}\u{e9}", None),
        ];

        for (text, expected) in cases {
            let found = query(text).ok();
            let expected = expected.map(|pairs| {
                pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<Vec<_>>()
            });
            assert_eq!(found, expected, "{text}");
        }
    }
}
