//! What a request was, as one hash: the same for every spelling of the same JSON.
//!
//! Canonical is RFC 8785. What it would let collide is refused, not repaired: an integer beyond 2^53-1 would be rounded
//! there to its neighbour, and a repeat of another request be answered. Doubled names, lone surrogates and bytes that
//! are not UTF-8 are refused where text is read, by [`crate::json::parse`].

use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use crate::{
    error::{Error, Result},
    json,
    key::{HashAlgorithm, KeyKind, RequestHash},
};

/// Largest integer that no other one is rounded to.
pub const INTEGER_MAX: u64 = (1 << 53) - 1;

/// Before what is hashed, so that no hash of another purpose can be one of ours.
const DOMAIN: &str = "fieldlease.idem/1";

/// Canonical bytes of a JSON value.
///
/// # Errors
/// `number_not_exact` with the place of an integer beyond [`INTEGER_MAX`], and `too_deep`.
pub fn canonical(value: &Json) -> Result<Vec<u8>> {
    check(value, &mut Vec::new())?;
    serde_json_canonicalizer::to_vec(value)
        .map_err(|error| Error::internal(format!("a JSON value has no canonical form: {error}")))
}

/// Canonical bytes of a JSON text.
///
/// # Errors
/// As [`canonical`], and what [`crate::json::parse`] refuses.
pub fn canonical_text(text: &[u8]) -> Result<Vec<u8>> {
    let value = json::parse(text).map_err(|fault| {
        Error::invalid(fault.code, fault.message, "send JSON that every reader reads alike")
    })?;
    canonical(&value)
}

impl RequestHash {
    /// The hash of a request with a JSON body. `operation` says what was asked for, `target` of what: the same body
    /// sent elsewhere is another request.
    ///
    /// # Errors
    /// As [`canonical`].
    pub fn of_json(kind: KeyKind, operation: &str, target: &str, body: &Json) -> Result<Self> {
        let bytes = canonical(body)?;
        Ok(Self::of(HashAlgorithm::JcsSha256, kind, operation, target, &bytes))
    }

    /// The hash of a request whose body is not JSON.
    #[must_use]
    pub fn of_bytes(kind: KeyKind, operation: &str, target: &str, body: &[u8]) -> Self {
        Self::of(HashAlgorithm::RawSha256, kind, operation, target, body)
    }

    fn of(
        algorithm: HashAlgorithm,
        kind: KeyKind,
        operation: &str,
        target: &str,
        body: &[u8],
    ) -> Self {
        let mut hash = Sha256::new();
        for part in [DOMAIN, kind.as_str(), operation, target] {
            hash.update(part.as_bytes());
            // An id may hold any character, zero too: lengths keep the parts apart.
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        }
        hash.update(body);
        Self { algorithm, bytes: hash.finalize().into() }
    }
}

/// `place` is the way to `value`, from the outside in.
fn check<'j>(value: &'j Json, place: &mut Vec<&'j str>) -> Result<()> {
    if place.len() > json::DEPTH_MAX as usize {
        let message = format!("the request is nested deeper than {} levels", json::DEPTH_MAX);
        return Err(Error::invalid("too_deep", message, "send such a value as text"));
    }
    match value {
        Json::Number(number) if !is_exact(number) => {
            let place = place.join("/");
            let message = format!("the integer {number} at `/{place}` is beyond 2^53-1");
            let help = "a request with a key is compared as doubles: send the number as text";
            Err(Error::invalid("number_not_exact", message, help))
        }
        Json::Array(members) => members.iter().try_for_each(|member| {
            place.push("*");
            let checked = check(member, place);
            place.pop();
            checked
        }),
        Json::Object(members) => members.iter().try_for_each(|(name, member)| {
            place.push(name);
            let checked = check(member, place);
            place.pop();
            checked
        }),
        _ => Ok(()),
    }
}

fn is_exact(number: &serde_json::Number) -> bool {
    match (number.as_i64(), number.as_u64()) {
        (Some(small), _) => small.unsigned_abs() <= INTEGER_MAX,
        (None, Some(_)) => false,
        // A fraction or an exponent: a double by its own spelling.
        (None, None) => true,
    }
}
