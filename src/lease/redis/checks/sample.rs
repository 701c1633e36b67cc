//! Keys under our namespace that are not ours, or not as we write them: a bounded look, never the whole key space.

use std::collections::BTreeSet;

use redis::Value;

use crate::lease::redis::{checks::ask, fault::Fault, link::Link, node::NodeName, stream::text_of};

/// Steps of a scan, and what one looks at: at most 20,000 keys of a server are passed by.
const STEPS_MAX: usize = 20;
const STEP: &str = "1000";
/// Keys of ours that are looked at closely.
const KEYS_MAX: usize = 200;
/// How many are named.
const NAMED_MAX: usize = 5;

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Whether the server let us look.
    pub(crate) permitted: bool,
    /// Whether every key of the namespace was seen.
    pub(crate) complete: bool,
    /// Keys looked at.
    pub(crate) looked: usize,
    /// Keys whose names are not ours.
    pub(crate) foreign: Vec<String>,
    /// Keys of ours that hold something else: name and type.
    pub(crate) wrong: Vec<(String, String)>,
    /// Leases written in a form this version does not know.
    pub(crate) strange: Vec<String>,
}

/// What a key of ours is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Lease,
    Text,
    Hash,
    Sorted,
}

fn kind(namespace: &str, key: &str) -> Option<Kind> {
    let rest = key.strip_prefix(namespace)?.strip_prefix(":{")?;
    let (tag, end) = rest.split_once('}')?;
    match end {
        "" if tag.starts_with("guard:") || tag.starts_with("probe:") => Some(Kind::Text),
        ":list" | ":drop" if tag == "roster" => Some(Kind::Sorted),
        _ if !tag.contains(':') => None,
        ":h" => Some(Kind::Hash),
        ":q" => Some(Kind::Sorted),
        ":o" => Some(Kind::Text),
        end => end.starts_with(":g:").then_some(Kind::Lease),
    }
}

/// Looks at keys of one node.
pub(super) async fn sample(link: &Link, node: &NodeName, namespace: &str) -> Sample {
    let mut sample = Sample::default();
    let Ok((keys, complete)) = scan(link, node, namespace).await else { return sample };
    (sample.permitted, sample.complete) = (true, complete && keys.len() <= KEYS_MAX);
    for key in keys.iter().take(KEYS_MAX) {
        sample.looked += 1;
        let Some(kind) = kind(namespace, key) else {
            name(&mut sample.foreign, key.clone());
            continue;
        };
        // One that ended meanwhile has the type `none`.
        let Ok(answer) = ask(link, node, &["TYPE", key]).await else { continue };
        let found = text_of(&answer).unwrap_or_default();
        let wanted = match kind {
            Kind::Lease | Kind::Text => "string",
            Kind::Hash => "hash",
            Kind::Sorted => "zset",
        };
        if found != "none" && found != wanted {
            name(&mut sample.wrong, (key.clone(), found));
        } else if kind == Kind::Lease && found == wanted && is_strange(link, node, key).await {
            name(&mut sample.strange, key.clone());
        }
    }
    sample
}

fn name<T>(list: &mut Vec<T>, one: T) {
    if list.len() < NAMED_MAX {
        list.push(one);
    }
}

/// The first byte of a lease is the number of its form.
async fn is_strange(link: &Link, node: &NodeName, key: &str) -> bool {
    match ask(link, node, &["GET", key]).await {
        Ok(Value::BulkString(bytes)) => bytes.first() != Some(&b'1'),
        _ => false,
    }
}

async fn scan(
    link: &Link,
    node: &NodeName,
    namespace: &str,
) -> Result<(BTreeSet<String>, bool), Fault> {
    let (mut found, mut cursor) = (BTreeSet::new(), "0".to_owned());
    let pattern = format!("{namespace}:*");
    for _ in 0..STEPS_MAX {
        let words = ["SCAN", &cursor, "MATCH", &pattern, "COUNT", STEP];
        let Value::Array(answer) = ask(link, node, &words).await? else { break };
        let [next, Value::Array(keys)] = answer.as_slice() else { break };
        found.extend(keys.iter().filter_map(text_of));
        cursor = text_of(next).unwrap_or_else(|| "0".to_owned());
        if cursor == "0" {
            return Ok((found, true));
        }
        if found.len() > KEYS_MAX {
            break;
        }
    }
    Ok((found, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_known_by_its_name() {
        let table = [
            ("fl:{Product:1}:g:media", Some(Kind::Lease)),
            ("fl:{Product:}:g:media", Some(Kind::Lease)),
            ("fl:{Product:a%7Db}:h", Some(Kind::Hash)),
            ("fl:{Product:1}:q", Some(Kind::Sorted)),
            ("fl:{Product:1}:o", Some(Kind::Text)),
            ("fl:{roster}:list", Some(Kind::Sorted)),
            ("fl:{roster}:drop", Some(Kind::Sorted)),
            ("fl:{guard:00}", Some(Kind::Text)),
            ("fl:{roster}:other", None),
            ("fl:{Product:1}", None),
            ("fl:{Product:1}:x", None),
            ("fl:{Product}:h", None),
            ("fl:cache:1", None),
            ("fl:", None),
            ("flx:{Product:1}:h", None),
        ];

        for (key, want) in table {
            assert_eq!(kind("fl", key), want, "{key}");
        }
    }
}
