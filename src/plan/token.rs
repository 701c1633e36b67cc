//! Edit tokens as text: opaque, versioned, safe in a URL, and signed where a secret is set.

use std::{collections::BTreeMap, fmt};

use sha2::{Digest, Sha256};

use crate::{
    entity::{EntityId, EntityRef, EntityType},
    scope::ScopeName,
    snapshot::{EditToken, Snapshot},
    token::{Generation, Incarnation, ScopeVersion},
};

/// Longest token read; a longer text is refused before any work.
pub const TOKEN_BYTES_MAX: usize = 64 * 1_024;

/// First character: the version of this form. The second says whether a signature follows.
const FORM: &str = "1";
const SIGNATURE_BYTES: usize = 16;
const BLOCK_BYTES: usize = 64;

/// The secret tokens are signed with.
#[derive(Clone)]
pub struct TokenSecret {
    inner: Sha256,
    outer: Sha256,
}

/// Why a token is not good for this save. All are faults of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// It was not made by this library, or cut short.
    #[error("the edit token cannot be read")]
    Malformed,
    /// It was made under another secret, or changed.
    #[error("the edit token's signature is wrong")]
    BadSignature,
    /// It was made for another record.
    #[error("the edit token belongs to another record")]
    OtherEntity,
    /// It has a version the record never had.
    #[error("the edit token is ahead of the record")]
    Ahead,
}

impl TokenError {
    /// The stable code.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Malformed => "token_malformed",
            Self::BadSignature => "token_signature",
            Self::OtherEntity => "other_entity",
            Self::Ahead => "token_ahead",
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn help(self) -> &'static str {
        match self {
            Self::Malformed => "send the text of `edit_token` exactly as the load answered it",
            Self::BadSignature => "load the record again; every server needs the same token secret",
            Self::OtherEntity => "send the token that came with this record",
            Self::Ahead => "load the record again; was the database restored from a backup?",
        }
    }
}

impl From<TokenError> for crate::error::Error {
    fn from(error: TokenError) -> Self {
        Self::invalid(error.code(), error.to_string(), error.help())
    }
}

impl TokenSecret {
    /// HMAC-SHA256 with this key (RFC 2104). The two padded key blocks are hashed once, here.
    #[must_use]
    pub fn new(key: &[u8]) -> Self {
        let mut block = [0_u8; BLOCK_BYTES];
        let digest = Sha256::digest(key);
        let key = if key.len() > BLOCK_BYTES { digest.as_slice() } else { key };
        for (to, from) in block.iter_mut().zip(key) {
            *to = *from;
        }
        let padded = |pad: u8| Sha256::new_with_prefix(block.map(|byte| byte ^ pad));
        Self { inner: padded(0x36), outer: padded(0x5c) }
    }

    fn sign(&self, message: &[u8]) -> [u8; 32] {
        let inner = self.inner.clone().chain_update(message).finalize();
        self.outer.clone().chain_update(inner).finalize().into()
    }
}

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSecret(..)")
    }
}

/// The token of a load: every version as it is in this snapshot.
#[must_use]
pub fn token_of(snapshot: &Snapshot, generation: Generation) -> EditToken {
    EditToken {
        entity: snapshot.entity.clone(),
        incarnation: snapshot.incarnation,
        generation,
        versions: snapshot.versions.clone(),
    }
}

/// The token after a commit: what the save was planned on, and what it raised. It says that the writer has seen all
/// of that, so the answer carries [`super::news`] beside it.
#[must_use]
pub fn next_token(
    snapshot: &Snapshot,
    generation: Generation,
    committed: &BTreeMap<ScopeName, ScopeVersion>,
    incarnation: Incarnation,
) -> EditToken {
    let mut token = EditToken { incarnation, ..token_of(snapshot, generation) };
    token.versions.extend(committed.iter().map(|(scope, version)| (scope.clone(), *version)));
    token
}

/// Whether a token can be meant for this record: same entity, and no version above the stored one.
///
/// # Errors
/// [`TokenError::OtherEntity`] or [`TokenError::Ahead`].
pub fn check_token(token: &EditToken, snapshot: &Snapshot) -> Result<(), TokenError> {
    if token.entity != snapshot.entity {
        return Err(TokenError::OtherEntity);
    }
    let ahead = token.incarnation > snapshot.incarnation
        || token.versions.iter().any(|(scope, version)| *version > snapshot.version(scope));
    if ahead { Err(TokenError::Ahead) } else { Ok(()) }
}

/// The token as text.
#[must_use]
pub fn encode_token(token: &EditToken, secret: Option<&TokenSecret>) -> String {
    let mut body = Vec::with_capacity(128);
    put_text(token.entity.kind.as_str(), &mut body);
    put_text(token.entity.id.as_str(), &mut body);
    put_number(token.incarnation.0, &mut body);
    body.extend(token.generation.0);
    for (scope, version) in &token.versions {
        put_text(&scope.to_string(), &mut body);
        put_number(version.0, &mut body);
    }
    let mut text = String::from(FORM);
    text.push(if secret.is_some() { 's' } else { 'n' });
    if let Some(secret) = secret {
        body.extend(secret.sign(&body).iter().take(SIGNATURE_BYTES));
    }
    base64(&body, &mut text);
    text
}

/// Reads a token. With a secret set, an unsigned token is refused.
///
/// # Errors
/// [`TokenError::Malformed`] or [`TokenError::BadSignature`].
pub fn decode_token(text: &str, secret: Option<&TokenSecret>) -> Result<EditToken, TokenError> {
    if text.len() > TOKEN_BYTES_MAX {
        return Err(TokenError::Malformed);
    }
    let text = text.strip_prefix(FORM).ok_or(TokenError::Malformed)?;
    let (signed, text) = match (text.strip_prefix('s'), text.strip_prefix('n')) {
        (Some(rest), _) => (true, rest),
        (_, Some(rest)) => (false, rest),
        (None, None) => return Err(TokenError::Malformed),
    };
    let bytes = unbase64(text).ok_or(TokenError::Malformed)?;
    let body = match (signed, secret) {
        (false, None) => bytes.as_slice(),
        (false, Some(_)) | (true, None) => return Err(TokenError::BadSignature),
        (true, Some(secret)) => verified(&bytes, secret)?,
    };
    read_body(body).ok_or(TokenError::Malformed)
}

fn verified<'a>(bytes: &'a [u8], secret: &TokenSecret) -> Result<&'a [u8], TokenError> {
    let at = bytes.len().checked_sub(SIGNATURE_BYTES).ok_or(TokenError::Malformed)?;
    let (body, signature) = bytes.split_at_checked(at).ok_or(TokenError::Malformed)?;
    let own = secret.sign(body);
    let own = own.first_chunk::<SIGNATURE_BYTES>().ok_or(TokenError::Malformed)?;
    let equal: bool = subtle::ConstantTimeEq::ct_eq(own.as_slice(), signature).into();
    if equal { Ok(body) } else { Err(TokenError::BadSignature) }
}

fn read_body(mut bytes: &[u8]) -> Option<EditToken> {
    let kind = EntityType::new(take_text(&mut bytes)?).ok()?;
    let id = EntityId::new(take_text(&mut bytes)?).ok()?;
    let incarnation = Incarnation(take_number(&mut bytes)?);
    let (generation, rest) = bytes.split_first_chunk::<32>()?;
    bytes = rest;
    let mut versions = BTreeMap::new();
    while !bytes.is_empty() {
        let scope = ScopeName::parse(take_text(&mut bytes)?)?;
        let version = ScopeVersion(take_number(&mut bytes)?);
        if versions.insert(scope, version).is_some() {
            return None;
        }
    }
    let generation = Generation(*generation);
    Some(EditToken { entity: EntityRef { kind, id }, incarnation, generation, versions })
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    put_number(u64::try_from(text.len()).unwrap_or(u64::MAX), out);
    out.extend(text.as_bytes());
}

/// Seven bits to a byte, lowest first, the top bit set on all but the last (LEB128).
fn put_number(mut number: u64, out: &mut Vec<u8>) {
    loop {
        let low = u8::try_from(number & 0x7f).unwrap_or(0);
        number >>= 7;
        if number == 0 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
    }
}

fn take_text<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    let length = usize::try_from(take_number(bytes)?).ok()?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    std::str::from_utf8(text).ok()
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(*first & 0x7f);
        if part.leading_zeros() < shift {
            return None;
        }
        number |= part << shift;
        if first & 0x80 == 0 {
            // One number has one form, so that one token has one text.
            return (shift == 0 || *first != 0).then_some(number);
        }
    }
    None
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Base64 for URLs without padding (RFC 4648 section 5). Thirty lines, so no dependency.
fn base64(bytes: &[u8], out: &mut String) {
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_u32, |word, byte| (word << 8) | u32::from(*byte));
        let word = word << (8 * (3 - chunk.len()));
        for digit in 0..=chunk.len() {
            let index = (word >> (18 - 6 * digit)) & 0x3f;
            let symbol = usize::try_from(index).ok().and_then(|index| DIGITS.get(index));
            out.push(symbol.map_or('A', |symbol| char::from(*symbol)));
        }
    }
}

fn unbase64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    for chunk in text.as_bytes().chunks(4) {
        let mut word = 0_u32;
        for symbol in chunk {
            let digit = match symbol {
                b'A'..=b'Z' => symbol - b'A',
                b'a'..=b'z' => symbol - b'a' + 26,
                b'0'..=b'9' => symbol - b'0' + 52,
                b'-' => 62,
                b'_' => 63,
                _ => return None,
            };
            word = (word << 6) | u32::from(digit);
        }
        word <<= 6 * (4 - chunk.len());
        let [_, a, b, c] = word.to_be_bytes();
        let (used, rest): (&[u8], &[u8]) = match chunk.len() {
            4 => (&[a, b, c], &[]),
            3 => (&[a, b], &[c]),
            2 => (&[a], &[b, c]),
            _ => return None,
        };
        if rest.iter().any(|byte| *byte != 0) {
            return None;
        }
        out.extend(used);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::entity::GroupName;

    fn token(id: &str, versions: &[(u8, u64)]) -> EditToken {
        let scope = |number: u8| {
            let group = GroupName::new(&format!("g{}", number / 4)).unwrap();
            match number % 4 {
                0 => ScopeName::group(group),
                axis => ScopeName::split(group, vec![("l".into(), format!("a,]=\\{axis}").into())]),
            }
        };
        EditToken {
            entity: EntityRef::new("Product", id).unwrap(),
            incarnation: Incarnation(3),
            generation: Generation([7; 32]),
            versions: versions.iter().map(|(n, v)| (scope(*n), ScopeVersion(*v))).collect(),
        }
    }

    #[test]
    fn the_signature_is_hmac_sha256() {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();

        // RFC 4231, test cases 1 and 2, and 6 with a key longer than a block.
        assert_eq!(
            hex(&TokenSecret::new(&[0x0b; 20]).sign(b"Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
        );
        assert_eq!(
            hex(&TokenSecret::new(b"Jefe").sign(b"what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            hex(&TokenSecret::new(&[0xaa; 131])
                .sign(b"Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }

    #[test]
    fn tokens_that_were_not_made_here_are_refused() {
        let (secret, other) = (TokenSecret::new(b"secret"), TokenSecret::new(b"other"));
        let made = token("1", &[(0, 1), (1, 300)]);
        let (plain, signed) = (encode_token(&made, None), encode_token(&made, Some(&secret)));
        let cases = [
            (String::new(), None, TokenError::Malformed),
            ("1".to_owned(), None, TokenError::Malformed),
            ("2nAAAA".to_owned(), None, TokenError::Malformed),
            ("1nA".to_owned(), None, TokenError::Malformed),
            ("1n\u{e4}bcd".to_owned(), None, TokenError::Malformed),
            ("1sAAAA".to_owned(), Some(&secret), TokenError::Malformed),
            (plain.replacen("1n", "1n=", 1), None, TokenError::Malformed),
            (format!("{plain}A"), None, TokenError::Malformed),
            ("1n".to_owned() + &"A".repeat(TOKEN_BYTES_MAX), None, TokenError::Malformed),
            (plain, Some(&secret), TokenError::BadSignature),
            (signed.clone(), None, TokenError::BadSignature),
            (signed.clone(), Some(&other), TokenError::BadSignature),
        ];
        for (text, secret, expected) in cases {
            assert_eq!(decode_token(&text, secret), Err(expected), "{text}");
        }
        assert_eq!(decode_token(&signed, Some(&secret)), Ok(made));
    }

    proptest! {
        #[test]
        fn a_token_reads_back_and_no_other_text_means_the_same(
            id in ".{0,40}",
            versions in prop::collection::vec((any::<u8>(), any::<u64>()), 0..6),
            at in any::<prop::sample::Index>(),
            bit in 0_u8..6,
        ) {
            let (secret, made) = (TokenSecret::new(b"secret"), token(&id, &versions));
            for secret in [None, Some(&secret)] {
                let text = encode_token(&made, secret);
                prop_assert_eq!(decode_token(&text, secret), Ok(made.clone()));
                prop_assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'));

                let mut changed = text.clone().into_bytes();
                let place = 2 + at.index(changed.len() - 2);
                let digit = DIGITS.iter().position(|d| *d == changed[place]).unwrap();
                changed[place] = DIGITS[digit ^ (1 << bit)];
                let read = decode_token(std::str::from_utf8(&changed).unwrap(), secret);
                prop_assert_ne!(&read, &Ok(made.clone()));
                prop_assert!(secret.is_none() || read.is_err());
            }
        }

        #[test]
        fn any_text_is_a_token_or_an_error(text in ".{0,60}", tail in "[A-Za-z0-9_-]{0,90}") {
            let _ = decode_token(&text, None);
            let _ = decode_token(&format!("1n{tail}"), None);
        }
    }
}
