//! What may have happened on the server when a command did not succeed. Decided here once, never at a call site.

use std::fmt;

use redis::{ErrorKind, RedisError, ServerError};

/// A command that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// What became of the command.
    pub(crate) class: Class,
    /// The server's word (`NOSCRIPT`, `READONLY`, ..) or ours: `timeout`, `io`, `protocol`, `config`.
    pub(crate) code: String,
    /// For people: lower case, one line, never a password.
    pub(crate) message: String,
}

/// What became of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// It had no effect: safe to send again.
    NotExecuted,
    /// It may have had its effect, may have it yet, or never will.
    Unknown,
    /// It ran, perhaps in part, and its answer is an error.
    Executed,
}

/// The server refuses these before anything is written, inside scripts too: a script has written nothing when its
/// first write is refused for memory, for disk, for replicas or for being a replica.
const BEFORE_ANY_WRITE: &[&str] = &[
    "NOSCRIPT",
    "MOVED",
    "ASK",
    "TRYAGAIN",
    "CROSSSLOT",
    "CLUSTERDOWN",
    "READONLY",
    "LOADING",
    "MASTERDOWN",
    "NOAUTH",
    "WRONGPASS",
    "NOREPLICAS",
    "MISCONF",
    "BUSY",
    "OOM",
    "DENIED",
    "EXECABORT",
];

/// Refusals of a single command; inside a script an earlier call may have written.
const BEFORE_THE_COMMAND: &[&str] = &["ERR", "NOPERM", "WRONGTYPE", "NOPROTO", "NOGOODSLAVE"];

impl Fault {
    /// What to do about it, where that is known.
    fn remedy(&self) -> Option<&'static str> {
        let says = |part| self.message.contains(part);
        match self.code.as_str() {
            "NOAUTH" => Some(
                "this server asks for a password: `redis://:PASSWORD@host` or `?password_file=FILE`, for sentinels \
                 `?sentinel_password_file=FILE`",
            ),
            "WRONGPASS" => Some("the user or password is wrong"),
            "ERR" if says("without any password configured") => {
                Some("this server asks for no password: leave it out, or give the server one")
            }
            "ERR" if says("cluster support disabled") => Some(
                "a list of servers is a cluster; these are none: name one server, or write `redis+quorum://` or \
                 `redis+sentinel://`",
            ),
            _ => None,
        }
    }

    /// For those who set it up: what happened, and what to do about it.
    pub(crate) fn told(&self) -> String {
        match self.remedy() {
            Some(remedy) => format!("{self}; {remedy}"),
            None => self.to_string(),
        }
    }

    /// Nothing was sent, or nothing was done.
    pub(crate) fn not_executed(code: &str, message: impl Into<String>) -> Self {
        Self { class: Class::NotExecuted, code: code.to_owned(), message: message.into() }
    }

    /// Sent, and no answer came.
    /// The server did something, and its answer cannot be used.
    pub(crate) fn executed(code: &str, message: impl Into<String>) -> Self {
        Self { class: Class::Executed, code: code.to_owned(), message: message.into() }
    }

    pub(crate) fn unknown(code: &str, message: impl Into<String>) -> Self {
        Self { class: Class::Unknown, code: code.to_owned(), message: message.into() }
    }

    /// An error the server answered.
    pub(crate) fn of_answer(error: &ServerError) -> Self {
        Self::of_words(error.code(), error.details().unwrap_or_default())
    }

    /// A failure of the connection while a command was under way.
    pub(crate) fn of_connection(error: &RedisError) -> Self {
        match error.kind() {
            ErrorKind::Server(_) | ErrorKind::Extension => {
                Self::of_words(error.code().unwrap_or("ERR"), error.detail().unwrap_or_default())
            }
            ErrorKind::Parse => Self::unknown("protocol", format!("answer not readable: {error}")),
            _ => Self::unknown("io", format!("connection lost: {error}")),
        }
    }

    /// From the first word of an error answer and the rest of it.
    pub(crate) fn of_words(code: &str, rest: &str) -> Self {
        let (code, inside) = match wrapped(code, rest) {
            Some(code) => (code, true),
            None => (code, rest.contains("@user_script")),
        };
        let class = if BEFORE_ANY_WRITE.contains(&code)
            || (!inside && BEFORE_THE_COMMAND.contains(&code))
        {
            Class::NotExecuted
        } else {
            Class::Executed
        };
        Self { class, code: code.to_owned(), message: rest.trim().to_owned() }
    }

    /// Whether the same command may succeed on the same server a moment later.
    pub(crate) fn passes(&self) -> bool {
        self.class == Class::NotExecuted
            && matches!(
                self.code.as_str(),
                "LOADING" | "BUSY" | "MASTERDOWN" | "TRYAGAIN" | "CLUSTERDOWN"
            )
    }

    /// Whether the connection it came over is of no more use.
    pub(crate) fn spoils_connection(&self) -> bool {
        matches!(self.code.as_str(), "io" | "protocol" | "READONLY" | "NOAUTH" | "WRONGPASS")
            || too_many_clients(&self.message)
    }

    /// Whether asking again soon would only do harm: a refused password, a full server.
    pub(crate) fn asks_for_patience(&self) -> bool {
        matches!(self.code.as_str(), "NOAUTH" | "WRONGPASS" | "NOPERM" | "config")
            || too_many_clients(&self.message)
    }
}

/// Redis before 7 hides the code of an error inside a script:
/// `ERR Error running script (call to f_0a..): @user_script:3: @user_script: 3: -OOM command not allowed ..`.
fn wrapped<'a>(code: &str, rest: &'a str) -> Option<&'a str> {
    if code != "ERR" || !rest.contains("rror running script") {
        return None;
    }
    let (_, inner) = rest.rsplit_once(": -")?;
    let word = inner.split_ascii_whitespace().next()?;
    word.bytes().all(|byte| byte.is_ascii_uppercase()).then_some(word)
}

fn too_many_clients(message: &str) -> bool {
    message.contains("max number of clients")
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server_word = self.code.starts_with(|first: char| first.is_ascii_uppercase());
        // Once is enough: where a server is named in front, its word follows.
        if server_word && !self.message.split([' ', ':']).any(|word| word == self.code) {
            write!(f, "{} {}", self.code, self.message)
        } else {
            f.write_str(&self.message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_of_the_server_has_its_class() {
        use Class::{Executed, NotExecuted};
        let sha = "f84a5f3a1d1d1fc31a07dfd2f3a7cd8e57e56f2c";
        let cases = [
            (
                "NOSCRIPT",
                "No matching script. Please use EVAL.".to_owned(),
                NotExecuted,
                "NOSCRIPT",
            ),
            ("MOVED", "3999 127.0.0.1:6381".to_owned(), NotExecuted, "MOVED"),
            ("ASK", "3999 127.0.0.1:6381".to_owned(), NotExecuted, "ASK"),
            ("TRYAGAIN", "Multiple keys request".to_owned(), NotExecuted, "TRYAGAIN"),
            ("CROSSSLOT", "Keys in request don't hash".to_owned(), NotExecuted, "CROSSSLOT"),
            ("CLUSTERDOWN", "Hash slot not served".to_owned(), NotExecuted, "CLUSTERDOWN"),
            ("READONLY", "You can't write against".to_owned(), NotExecuted, "READONLY"),
            ("LOADING", "Redis is loading the dataset".to_owned(), NotExecuted, "LOADING"),
            ("MASTERDOWN", "Link with MASTER is down".to_owned(), NotExecuted, "MASTERDOWN"),
            ("NOAUTH", "Authentication required.".to_owned(), NotExecuted, "NOAUTH"),
            ("WRONGPASS", "invalid username-password".to_owned(), NotExecuted, "WRONGPASS"),
            ("NOPERM", "this user has no permissions".to_owned(), NotExecuted, "NOPERM"),
            ("NOREPLICAS", "Not enough good replicas".to_owned(), NotExecuted, "NOREPLICAS"),
            ("MISCONF", "Errors writing to the AOF file".to_owned(), NotExecuted, "MISCONF"),
            ("BUSY", "Redis is busy running a script".to_owned(), NotExecuted, "BUSY"),
            ("ERR", "max number of clients reached".to_owned(), NotExecuted, "ERR"),
            ("WRONGTYPE", "Operation against a key".to_owned(), NotExecuted, "WRONGTYPE"),
            ("OOM", "command not allowed".to_owned(), NotExecuted, "OOM"),
            ("OOM", format!("not allowed script: {sha}, on @user_script:1."), NotExecuted, "OOM"),
            ("READONLY", format!("no script: {sha}, on @user_script:1."), NotExecuted, "READONLY"),
            // Raised inside a script, an earlier call of it may have written.
            (
                "WRONGTYPE",
                format!("Operation script: {sha}, on @user_script:2."),
                Executed,
                "WRONGTYPE",
            ),
            ("NOPERM", format!("can't run script: {sha}, on @user_script:2."), Executed, "NOPERM"),
            ("ERR", format!("no integer script: {sha}, on @user_script:2."), Executed, "ERR"),
            // A script's own word.
            ("FOREIGN", "key of another program".to_owned(), Executed, "FOREIGN"),
        ];

        for (code, rest, class, word) in cases {
            let fault = Fault::of_words(code, &rest);
            assert_eq!((fault.class, fault.code.as_str()), (class, word), "{code} {rest}");
        }
    }

    #[test]
    fn redis_6_hides_the_code_of_an_error_inside_a_script() {
        use Class::{Executed, NotExecuted};
        let before = "Error running script (call to f_5a9f): @user_script:1: @user_script: 1: ";
        let cases = [
            ("-OOM command not allowed when used memory > 'maxmemory'.", NotExecuted, "OOM"),
            ("-READONLY You can't write against a read only replica.", NotExecuted, "READONLY"),
            ("-MISCONF Redis is configured to save RDB snapshots", NotExecuted, "MISCONF"),
            ("-NOREPLICAS Not enough good replicas to write.", NotExecuted, "NOREPLICAS"),
            ("-WRONGTYPE Operation against a key", Executed, "WRONGTYPE"),
            ("-ERR value is not an integer: -1", Executed, "ERR"),
            ("attempt to index a nil value", Executed, "ERR"),
        ];

        for (rest, class, word) in cases {
            let fault = Fault::of_words("ERR", &format!("{before}{rest}"));
            assert_eq!((fault.class, fault.code.as_str()), (class, word), "{rest}");
        }
    }

    #[test]
    fn a_fault_names_its_code_once_and_what_to_do() {
        let cases = [
            (
                Fault::of_words("NOAUTH", "Authentication required."),
                "NOAUTH Authentication required.; this server asks for a password: `redis://:PASSWORD@host` or",
            ),
            (
                Fault::not_executed("NOAUTH", "`h:1`: NOAUTH Authentication required."),
                "`h:1`: NOAUTH Authentication required.; this server asks for a password",
            ),
            (
                Fault::not_executed("WRONGPASS", "`h:1`: WRONGPASS invalid"),
                "`h:1`: WRONGPASS invalid; the user or password is wrong",
            ),
            (
                Fault::not_executed(
                    "ERR",
                    "`h:1`: ERR AUTH <password> called without any password configured",
                ),
                "`h:1`: ERR AUTH <password> called without any password configured; this server asks for no",
            ),
            (
                Fault::not_executed("ERR", "`h:1`: ERR This instance has cluster support disabled"),
                "`h:1`: ERR This instance has cluster support disabled; a list of servers is a cluster; these are none",
            ),
            (Fault::of_words("LOADING", "loading the dataset"), "LOADING loading the dataset"),
            (Fault::unknown("io", "connection lost"), "connection lost"),
        ];

        for (fault, start) in cases {
            assert!(fault.told().starts_with(start), "{}", fault.told());
        }
    }

    #[test]
    fn a_lost_connection_leaves_the_outcome_open() {
        let io = RedisError::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
        let parse = RedisError::from((ErrorKind::Parse, "cut"));

        assert_eq!(Fault::of_connection(&io).class, Class::Unknown);
        assert_eq!(Fault::of_connection(&io).code, "io");
        assert_eq!(Fault::of_connection(&parse).class, Class::Unknown);
        assert_eq!(Fault::of_connection(&parse).code, "protocol");
    }
}
