//! Numbers and random names with one meaning each, and the only place that draws randomness.

use std::{cell::RefCell, fmt};

/// 128 random bits, made before the first send; one per acquisition of a lease.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HolderToken(pub [u8; 16]);

/// Names one save for ever; unique in the store. It resolves an unknown COMMIT.
/// Time-ordered (UUID version 7 layout, RFC 9562), so that records sort by creation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperationId(pub u128);

macro_rules! counter {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The number after this one; saturates, and stores keep it below 2^63.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

counter! {
    /// Raised only by a claim in the database. Fits a signed 64-bit column.
    Fence
}
counter! {
    /// Raised by one for every commit that changed something in the scope. A missing row means 0.
    ScopeVersion
}
counter! {
    /// Number of a history entry of one entity; not a concurrency counter.
    VersionNumber
}
counter! {
    /// Counts creations of one id; 0 means never created.
    Incarnation
}

/// Hash of one entity type's resolved rules (RULES 29).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Generation(pub [u8; 32]);

/// Where random bits come from. Tests may pass a counted source.
pub trait Entropy: Send + Sync {
    /// Sixteen random bytes.
    fn bytes(&self) -> [u8; 16];
}

/// The operating system's random numbers, fetched for several tokens at a time: a system call per token would cost as
/// much as taking and giving back a lease in memory. A process must not fork without exec after drawing from it; no
/// runtime with threads survives that either.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

/// How many draws one system call serves.
const DRAWS: usize = 32;

thread_local! {
    static POOL: RefCell<Vec<[u8; 16]>> = const { RefCell::new(Vec::new()) };
}

impl Entropy for SystemEntropy {
    fn bytes(&self) -> [u8; 16] {
        let drawn = POOL.try_with(|pool| {
            let mut pool = pool.try_borrow_mut().ok()?;
            if pool.is_empty() {
                let mut bytes = [0; 16 * DRAWS];
                fill(&mut bytes);
                pool.extend(bytes.as_chunks::<16>().0);
            }
            pool.pop()
        });
        // A thread that is ending has no pool any more.
        drawn.ok().flatten().unwrap_or_else(|| {
            let mut bytes = [0; 16];
            fill(&mut bytes);
            bytes
        })
    }
}

fn fill(bytes: &mut [u8]) {
    // Fails only before the system's pool is filled at boot; a weak token is worse than a wait.
    while getrandom::fill(bytes).is_err() {
        std::thread::yield_now();
    }
}

impl OperationId {
    /// A new name: 48 bits of milliseconds, then random bits (RFC 9562 section 5.7).
    #[must_use]
    pub fn new(wall: crate::clock::StoreTime, entropy: &dyn Entropy) -> Self {
        let millis = u128::try_from(wall.0 / 1_000).unwrap_or(0) & 0xffff_ffff_ffff;
        let random = u128::from_be_bytes(entropy.bytes());
        let low = random & 0x0fff_3fff_ffff_ffff_ffff;
        Self((millis << 80) | (0x7 << 76) | (0x2 << 62) | low)
    }

    /// Reads the form [`fmt::Display`] prints.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let hex: String = text.chars().filter(|c| *c != '-').collect();
        (hex.len() == 32 && text.len() == 36)
            .then(|| u128::from_str_radix(&hex, 16).ok().map(Self))?
    }
}

/// Hexadecimal text of a token, without an allocation.
#[derive(Clone, Copy)]
pub(crate) struct Hex([u8; 32]);

impl std::ops::Deref for Hex {
    type Target = str;

    fn deref(&self) -> &str {
        // Digits are ASCII.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// Tokens are random, so their own bits are the hash.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TokenHash(u64);

impl std::hash::Hasher for TokenHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.as_chunks::<8>().0 {
            self.0 ^= u64::from_le_bytes(*chunk);
        }
    }
}

impl HolderToken {
    /// As [`fmt::Display`] prints it.
    #[must_use]
    pub(crate) fn hex(self) -> Hex {
        let mut text = [0; 32];
        for (pair, byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(self.0) {
            *pair = [byte >> 4, byte & 0xf].map(|n| if n < 10 { b'0' + n } else { b'a' + n - 10 });
        }
        Hex(text)
    }

    /// A new token.
    #[must_use]
    pub fn new(entropy: &dyn Entropy) -> Self {
        Self(entropy.bytes())
    }

    /// Reads 32 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let valid = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        valid.then(|| u128::from_str_radix(text, 16).ok().map(|n| Self(n.to_be_bytes())))?
    }
}

impl Generation {
    /// Reads 64 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let (high, low) = text.split_at_checked(32)?;
        let high = u128::from_str_radix(high, 16).ok()?.to_be_bytes();
        let low = u128::from_str_radix(low, 16).ok()?.to_be_bytes();
        let mut bytes = [0; 32];
        for (to, from) in bytes.iter_mut().zip(high.iter().chain(&low)) {
            *to = *from;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // By hand, because a report prints one for every conflict.
        let mut text = *b"00000000-0000-0000-0000-000000000000";
        let bytes = self.0.to_be_bytes();
        let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
        let places = text.iter_mut().filter(|place| **place != b'-');
        for (place, digit) in places.zip(digits) {
            *place = if digit < 10 { b'0' + digit } else { b'a' + digit - 10 };
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Display for HolderToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hex())
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OperationId({self})")
    }
}

impl fmt::Debug for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Generation({self})")
    }
}

/// A token is a credential: logs show its first four digits only.
impl fmt::Debug for HolderToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, ..] = self.0;
        write!(f, "HolderToken({a:02x}{b:02x}..)")
    }
}

/// Serialises a type as the text it prints, and reads it back with its `parse`.
macro_rules! serde_as_text {
    ($name:ident, $what:literal) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::parse(&text).ok_or_else(|| serde::de::Error::custom(concat!("not ", $what)))
            }
        }
    };
}

serde_as_text!(OperationId, "an operation id");
serde_as_text!(Generation, "a generation");
