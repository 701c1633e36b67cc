//! One row, and the port a database answers behind.

use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use crate::{
    clock::{BoxFuture, Moment},
    entity::EntityRef,
    error::{Error, Result},
    table::{Effect, Table},
    token::HolderToken,
};

/// The row of one entity as it was read. Without a row: revision 0 and no text.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) entity: EntityRef,
    /// Drawn at random by every write, above 0: a row that went and came back has another.
    pub(crate) revision: i64,
    pub(crate) text: Option<String>,
}

/// Rows, and the server's time when they were read.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) now: Moment,
    pub(crate) lines: Vec<Line>,
}

/// A row to be written if it still has the revision it was read with.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) entity: EntityRef,
    pub(crate) was: i64,
    pub(crate) revision: i64,
    /// `None`: the row goes.
    pub(crate) text: Option<String>,
    /// Microseconds on the server's clock after which nothing in the row counts.
    pub(crate) until: i64,
    /// What other processes are to hear, in the same transaction; empty for nothing.
    pub(crate) notice: String,
}

/// What a listener is told.
pub(crate) trait Ear: Send + Sync {
    /// A notice, as it was written.
    fn hear(&self, notice: &str);
    /// Notices may have been missed.
    fn missed(&self);
    /// How long from now the listener may be late; `None` while nobody needs a notice.
    fn patience(&self) -> Option<Duration>;
}

/// Rows in a database.
pub(crate) trait Lines: Send + Sync {
    /// The rows of these entities in this order, and the server's time. One round trip.
    fn read<'a>(&'a self, entities: &'a [EntityRef]) -> BoxFuture<'a, Result<Page>>;
    /// Up to `most` rows from `from` on, in byte order of type and id, and the server's time.
    fn page<'a>(&'a self, from: Option<&'a EntityRef>, most: usize) -> BoxFuture<'a, Result<Page>>;
    /// Writes each row and its notice if it has the revision it was read with; answers one by one whether it did.
    fn write<'a>(&'a self, writes: &'a [Write]) -> BoxFuture<'a, Vec<Result<bool>>>;
    /// Hears what other processes write until it is cancelled. Tells [`Ear::missed`] first, and after every gap.
    fn listen<'a>(&'a self, ear: &'a dyn Ear, end: CancellationToken) -> BoxFuture<'a, Result<()>>;
    /// Removes rows whose leases all ended this long ago, and notices nobody reads any more.
    fn sweep(&self, ended: Duration) -> BoxFuture<'_, Result<()>>;
}

impl Line {
    /// The table, and the highest order drawn from it.
    pub(crate) fn table(&self) -> Result<(Table, u64)> {
        let Some(text) = &self.text else { return Ok((Table::default(), 0)) };
        Table::from_text(&self.entity, text).map_err(|error| {
            Error::internal(format!("the stored leases of `{}`: {error}", self.entity))
        })
    }
}

/// Most tokens told in one notice: a notification of PostgreSQL holds 8,000 bytes.
const TOKENS_MAX: usize = 200;

/// Who writes notices: a process, and the namespace it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    process: String,
    /// The beginning of the namespace's SHA-256: a word, whatever the namespace is called.
    namespace: String,
}

impl Origin {
    pub(crate) fn new(process: HolderToken, namespace: &str) -> Self {
        let [a, b, c, d, e, f, g, h, ..]: [u8; 32] = Sha256::digest(namespace.as_bytes()).into();
        let namespace = format!("{:016x}", u64::from_be_bytes([a, b, c, d, e, f, g, h]));
        Self { process: hex(process), namespace }
    }
}

/// The notice of these effects: namespace and process that write, then a letter and a token for each. More than fit are told as `all`.
pub(crate) fn notice(origin: &Origin, effects: &[Effect]) -> String {
    let told: Vec<(char, HolderToken)> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Granted(token) => Some(('g', *token)),
            Effect::Wanted(token) => Some(('w', *token)),
            Effect::Broken(token) => Some(('b', *token)),
            Effect::Clamped { .. } => None,
        })
        .collect();
    if told.is_empty() {
        return String::new();
    }
    let mut text = format!("{} {}", origin.namespace, origin.process);
    if told.len() > TOKENS_MAX {
        text.push_str(" all");
        return text;
    }
    for (letter, token) in told {
        text.push(' ');
        text.push(letter);
        text.push_str(&hex(token));
    }
    text
}

/// What a notice says, or `None` when it is this process's own, of another namespace, or not one of ours.
pub(crate) fn read_notice(origin: &Origin, text: &str) -> Option<Vec<Told>> {
    let mut words = text.split(' ');
    if words.next()? != origin.namespace || words.next()? == origin.process {
        return None;
    }
    words.map(told).collect()
}

/// One word of a notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// To this token.
    One(Effect),
    /// Too much to tell.
    All,
}

fn told(word: &str) -> Option<Told> {
    if word == "all" {
        return Some(Told::All);
    }
    let (letter, hex) = word.split_at_checked(1)?;
    let token = HolderToken(u128::from_str_radix(hex, 16).ok()?.to_be_bytes());
    Some(Told::One(match letter {
        "g" => Effect::Granted(token),
        "w" => Effect::Wanted(token),
        "b" => Effect::Broken(token),
        _ => return None,
    }))
}

fn hex(token: HolderToken) -> String {
    format!("{:032x}", u128::from_be_bytes(token.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_read_by_others_and_not_by_whoever_wrote_it() {
        let token = |n| HolderToken([n; 16]);
        let effects =
            vec![Effect::Granted(token(1)), Effect::Wanted(token(2)), Effect::Broken(token(3))];
        let of = |n, namespace| Origin::new(token(n), namespace);
        let text = notice(&of(9, "a b"), &effects);

        let told: Vec<Told> = effects.into_iter().map(Told::One).collect();
        assert_eq!(read_notice(&of(8, "a b"), &text), Some(told));
        assert_eq!(read_notice(&of(9, "a b"), &text), None);
        assert_eq!(read_notice(&of(8, "other"), &text), None);
        assert_eq!(read_notice(&of(8, "a b"), "somebody else's words"), None);
    }

    #[test]
    fn a_notice_that_would_be_too_long_says_that_everybody_looks() {
        let effects = vec![Effect::Granted(HolderToken([1; 16])); TOKENS_MAX + 1];
        let text = notice(&Origin::new(HolderToken([9; 16]), ""), &effects);

        assert_eq!(
            read_notice(&Origin::new(HolderToken([8; 16]), ""), &text),
            Some(vec![Told::All])
        );
        let most = notice(
            &Origin::new(HolderToken([9; 16]), ""),
            &vec![Effect::Granted(HolderToken([1; 16])); TOKENS_MAX],
        );
        assert!(most.len() < 8_000, "{}", most.len());
        assert!(notice(&Origin::new(HolderToken([9; 16]), ""), &[]).is_empty());
    }
}
