//! Who a token stands for. The file keeps hashes only, and is read again when it changes.

use std::{
    collections::BTreeSet,
    fmt,
    path::{Path as FilePath, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use tokio::sync::Semaphore;

use crate::{
    clock::Clock,
    entity::{EntityType, GroupName, Writer, WriterKind},
    error::{Error, Result},
};

/// Largest token file in bytes.
pub const FILE_BYTES_MAX: u64 = 1 << 20;
/// Most tokens in one file: every request is compared with all of them.
pub const TOKENS_MAX: usize = 10_000;
/// Requests one principal may have in flight at the same time.
pub const REQUESTS_MAX: usize = 64;
/// A file changed less than this ago is read again on every look: its time stamp may be too coarse to show the next change.
const SETTLED: Duration = Duration::from_secs(2);

/// What a principal may do beyond saving.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// Save over a refusal, with a reason.
    Force,
    /// Break somebody else's lease, with a reason.
    BreakLease,
    /// Read `/metrics`.
    Metrics,
    /// Prune history, and erase records and names.
    Upkeep,
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Force => "force",
            Self::BreakLease => "break_lease",
            Self::Metrics => "metrics",
            Self::Upkeep => "upkeep",
        })
    }
}

/// The bearer of a token.
#[derive(Debug)]
pub struct Principal {
    /// Who writes when this principal saves.
    pub writer: Writer,
    groups: Option<BTreeSet<GroupName>>,
    kinds: Option<BTreeSet<EntityType>>,
    permissions: BTreeSet<Permission>,
    requests: Arc<Semaphore>,
}

impl Principal {
    /// Whether it may see and write records of this type.
    #[must_use]
    pub fn may_see(&self, kind: &EntityType) -> bool {
        self.kinds.as_ref().is_none_or(|kinds| kinds.contains(kind))
    }

    /// Whether it may write fields of this group; the registry must allow it too.
    #[must_use]
    pub fn may_write(&self, group: &GroupName) -> bool {
        self.groups.as_ref().is_none_or(|groups| groups.contains(group))
    }

    /// The groups its token names; `None` when it names none and the registry alone decides.
    #[must_use]
    pub fn groups(&self) -> Option<&BTreeSet<GroupName>> {
        self.groups.as_ref()
    }

    /// Whether it has a permission.
    #[must_use]
    pub fn has(&self, permission: Permission) -> bool {
        self.permissions.contains(&permission)
    }

    /// Whether both stand for the same writer: two tokens of one writer share its leases.
    #[must_use]
    pub fn is(&self, other: &Writer) -> bool {
        self.writer == *other
    }

    /// Places among the requests in flight, for one request that costs that many; `None` when too few are free.
    #[must_use]
    pub fn enter(&self, places: u32) -> Option<tokio::sync::OwnedSemaphorePermit> {
        Arc::clone(&self.requests).try_acquire_many_owned(places).ok()
    }
}

/// The principals of one reading of the file.
#[derive(Debug, Default)]
struct Tokens(Vec<([u8; 32], Arc<Principal>)>);

impl Tokens {
    /// Compares with every hash, so that the time taken says nothing about which one matched.
    fn find(&self, token: &str) -> Option<&Arc<Principal>> {
        let hash = hash(token);
        let mut found = u32::MAX;
        for (index, (known, _)) in (0_u32..).zip(&self.0) {
            let same: Choice = known.ct_eq(&hash);
            found.conditional_assign(&index, same);
        }
        self.0.get(usize::try_from(found).ok()?).map(|(_, principal)| principal)
    }
}

/// The SHA-256 of a token, as the file keeps it.
#[must_use]
pub fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// A token file and what it said when it was last read.
pub struct TokenFile {
    path: PathBuf,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

struct State {
    tokens: Arc<Tokens>,
    seen: Option<Seen>,
}

/// What tells two states of a file apart.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    changed: Option<SystemTime>,
    bytes: u64,
    inode: u64,
}

impl TokenFile {
    /// Reads the file.
    ///
    /// # Errors
    /// When it cannot be read, or says something that is not understood.
    pub fn open(path: &FilePath, clock: Arc<dyn Clock>) -> Result<Self> {
        let seen = look(path)?;
        let tokens = Arc::new(read(path, &Tokens::default())?);
        let state = Mutex::new(State { tokens, seen: Some(seen) });
        Ok(Self { path: path.to_owned(), clock, state })
    }

    /// Who a token stands for. Reads the file again first when it has changed, so that a revoked token ends at once.
    /// A file that is gone lists nobody: removing it shuts everybody out. One that has become unreadable leaves the
    /// former tokens in force, so that a slip of the pen does not. Both are reported in the log.
    #[must_use]
    pub fn find(&self, token: &str) -> Option<Arc<Principal>> {
        let tokens = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            self.refresh(&mut state);
            Arc::clone(&state.tokens)
        };
        tokens.find(token).cloned()
    }

    fn refresh(&self, state: &mut State) {
        let seen = look(&self.path);
        let now = seen.as_ref().ok().copied();
        let news = state.seen != now;
        if !news && now.is_none_or(|seen| self.is_settled(seen)) {
            return;
        }
        state.seen = now;
        match seen.and_then(|_| read(&self.path, &state.tokens)) {
            Ok(tokens) => state.tokens = Arc::new(tokens),
            Err(error) if is_gone(&self.path) => {
                if news {
                    tracing::error!(%error, "no token is good any more");
                }
                state.tokens = Arc::default();
            }
            // Told once per change, not once per request.
            Err(error) if news => {
                tracing::error!(%error, "the tokens read last stay in force");
            }
            Err(_) => {}
        }
    }

    fn is_settled(&self, seen: Seen) -> bool {
        let Some(changed) = seen.changed else { return false };
        let Ok(changed) = changed.duration_since(SystemTime::UNIX_EPOCH) else { return false };
        let now = Duration::from_micros(u64::try_from(self.clock.wall().0).unwrap_or(0));
        now.checked_sub(changed).is_some_and(|age| age > SETTLED)
    }
}

impl fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenFile").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The file as written.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    tokens: Vec<TokenText>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenText {
    sha256: String,
    kind: WriterKind,
    name: String,
    on_behalf_of: Option<String>,
    groups: Option<BTreeSet<GroupName>>,
    entity_types: Option<BTreeSet<EntityType>>,
    #[serde(default)]
    permissions: BTreeSet<Permission>,
}

fn look(path: &FilePath) -> Result<Seen> {
    let meta = std::fs::metadata(path).map_err(|error| fault(path, &error.to_string()))?;
    if !meta.is_file() {
        return Err(fault(path, "it is not a regular file"));
    }
    if meta.len() > FILE_BYTES_MAX {
        return Err(fault(path, &format!("it is larger than {FILE_BYTES_MAX} bytes")));
    }
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(&meta);
    #[cfg(not(unix))]
    let inode = 0;
    Ok(Seen { changed: meta.modified().ok(), bytes: meta.len(), inode })
}

fn is_gone(path: &FilePath) -> bool {
    std::fs::metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

fn fault(path: &FilePath, cause: &str) -> Error {
    Error::invalid(
        "token_file",
        format!("the token file `{}` cannot be used: {cause}", path.display()),
        "write `tokens:` with one entry per token: sha256, kind, name and, if wanted, groups, entity_types, permissions",
    )
}

fn read(path: &FilePath, former: &Tokens) -> Result<Tokens> {
    let text = std::fs::read_to_string(path).map_err(|error| fault(path, &error.to_string()))?;
    tokens(&text, former).map_err(|cause| fault(path, &cause))
}

fn tokens(text: &str, former: &Tokens) -> std::result::Result<Tokens, String> {
    let file: FileText = serde_yaml::from_str(text).map_err(|error| error.to_string())?;
    if file.tokens.len() > TOKENS_MAX {
        return Err(format!("it lists more than {TOKENS_MAX} tokens"));
    }
    let mut tokens = Tokens::default();
    for (number, token) in (1..).zip(file.tokens) {
        let hash = parse_hash(&token.sha256)
            .ok_or_else(|| format!("`sha256` of token {number} is not 64 hexadecimal digits"))?;
        if hash == self::hash("") {
            return Err(format!("`sha256` of token {number} is that of an empty text"));
        }
        if tokens.0.iter().any(|(known, _)| *known == hash) {
            return Err(format!("token {number} is listed twice"));
        }
        if token.name.is_empty() {
            return Err(format!("token {number} has an empty `name`"));
        }
        let writer = Writer {
            kind: token.kind,
            name: token.name.into(),
            on_behalf_of: token.on_behalf_of.map(Into::into),
        };
        let known = tokens.0.iter().chain(&former.0).find(|(_, known)| known.is(&writer));
        let requests = known.map_or_else(
            || Arc::new(Semaphore::new(REQUESTS_MAX)),
            |(_, known)| Arc::clone(&known.requests),
        );
        let principal = Principal {
            writer,
            groups: token.groups,
            kinds: token.entity_types,
            permissions: token.permissions,
            requests,
        };
        tokens.0.push((hash, Arc::new(principal)));
    }
    Ok(tokens)
}

fn parse_hash(text: &str) -> Option<[u8; 32]> {
    // A generation has the same printed form: 32 bytes as 64 digits.
    crate::token::Generation::parse(text).map(|parsed| parsed.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    fn hex(token: &str) -> String {
        hash(token).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn line(token: &str, rest: &str) -> String {
        format!("  - {{sha256: {}, {rest}}}\n", hex(token))
    }

    #[test]
    fn a_token_stands_for_what_the_file_says_and_no_other_does() {
        let text = "tokens:\n".to_owned()
            + &line("one", "kind: editor, name: anna, permissions: [force]")
            + &line(
                "two",
                "kind: worker, name: thumbnailer, groups: [media], entity_types: [Product]",
            );

        let tokens = tokens(&text, &Tokens::default()).unwrap();

        let anna = tokens.find("one").unwrap();
        assert_eq!(anna.writer, Writer::editor("anna"));
        assert!(anna.has(Permission::Force) && !anna.has(Permission::Metrics));
        let worker = tokens.find("two").unwrap();
        assert!(worker.may_write(&GroupName::new("media").unwrap()));
        assert!(!worker.may_write(&GroupName::new("pricing").unwrap()));
        assert!(!worker.may_see(&EntityType::new("Order").unwrap()));
        for wrong in ["", "on", "onee", "One", &hex("one")] {
            assert!(tokens.find(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_faulty_file_is_refused_with_the_cause() {
        let good = line("x", "kind: editor, name: a");
        let cases = [
            ("{}".into(), "tokens"),
            ("tokens:\n  - {sha256: abc, kind: editor, name: a}\n".into(), "64 hexadecimal"),
            (format!("tokens:\n{good}{good}"), "twice"),
            ("tokens:\n".to_owned() + &line("", "kind: editor, name: a"), "empty text"),
            ("tokens:\n".to_owned() + &line("x", "kind: admin, name: a"), "admin"),
            ("tokens:\n".to_owned() + &line("x", "kind: editor, name: ''"), "empty"),
            ("tokens:\n".to_owned() + &line("x", "kind: editor, name: a, group: [m]"), "group"),
        ];

        for (text, expected) in cases {
            let cause = tokens(&text, &Tokens::default()).unwrap_err();
            assert!(cause.contains(expected), "{text}: {cause}");
        }
    }

    #[test]
    fn tokens_rotate_without_a_restart_and_two_are_good_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens.yaml");
        let anna = "kind: editor, name: anna";
        std::fs::write(&path, "tokens:\n".to_owned() + &line("old", anna)).unwrap();
        let file = TokenFile::open(&path, Arc::new(SystemClock)).unwrap();
        let held = file.find("old").unwrap().enter(1).unwrap();

        std::fs::write(&path, "tokens:\n".to_owned() + &line("old", anna) + &line("new", anna))
            .unwrap();
        let (old, new) = (file.find("old").unwrap(), file.find("new").unwrap());
        assert!(old.is(&new.writer));
        assert_eq!(new.requests.available_permits(), REQUESTS_MAX - 1, "one bound per writer");
        drop(held);

        std::fs::write(&path, "tokens:\n".to_owned() + &line("new", anna)).unwrap();
        assert!(file.find("old").is_none());
        std::fs::write(&path, "tokens: [").unwrap();
        assert!(file.find("new").is_some(), "a broken file leaves the former tokens in force");
        std::fs::remove_file(&path).unwrap();
        assert!(file.find("new").is_none(), "a file that is gone lists nobody");
        std::fs::write(&path, "tokens: [").unwrap();
        assert!(file.find("new").is_none(), "and a broken one brings nobody back");
        std::fs::write(&path, "tokens:\n".to_owned() + &line("new", anna)).unwrap();
        assert!(file.find("new").is_some());
    }
}
