//! What an error of PostgreSQL means for the caller: was anything done, and what helps?

use std::error::Error as _;

use tokio_postgres::error::SqlState;

use crate::{error::Error, token::OperationId};

/// How often a transaction is sent that lost against another one.
pub(crate) const ATTEMPTS: u32 = 8;

/// What the caller of a statement may do about its failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Nothing was done: later, or on another server, it may go.
    Nothing,
    /// Nothing was done, because another transaction was faster: the whole transaction may be sent again at once.
    Again,
    /// Nothing was done: the server takes no writes. The next connection may reach one that does.
    ReadOnly,
    /// The statement was sent and its answer never came: it may have taken effect.
    Unknown,
    /// Nothing was done: our tables or routines are not there.
    NoSchema,
    /// Nothing was done: the server does not let this role in, or not do what is needed.
    Denied,
    /// Nothing was done, and nothing will be with these options or names.
    Unfit,
    /// A stored row or a statement of ours cannot be right.
    Broken,
}

/// Why a piece of work failed.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) class: Class,
    /// The server's code, if it was the server who said no.
    pub(crate) state: Option<SqlState>,
    pub(crate) message: String,
    /// What helps, for [`Class::Unfit`].
    pub(crate) help: &'static str,
}

impl Fault {
    pub(crate) fn new(class: Class, message: impl Into<String>) -> Self {
        Self { class, state: None, message: message.into(), help: "" }
    }

    /// An error of a statement that was, or may have been, sent.
    pub(crate) fn of(error: &tokio_postgres::Error) -> Self {
        let Some(db) = error.as_db_error() else {
            let cause = error.source().map(|cause| format!("{error}: {cause}"));
            let message = cause.unwrap_or_else(|| error.to_string());
            // What could not be encoded was not sent, and what could not be read was an answer.
            let local = error.source().is_some_and(|cause| !cause.is::<std::io::Error>());
            let class = if error.is_closed() || !local { Class::Unknown } else { Class::Broken };
            return Self::new(class, message);
        };
        let (class, help) = class_of(db.code());
        let mut message = db.message().to_owned();
        if let Some(detail) = db.detail() {
            message.push_str(&format!(" ({detail})"));
        }
        Self { class, state: Some(db.code().clone()), message, help }
    }

    /// An error while a connection was opened: nothing was sent.
    pub(crate) fn of_connecting(error: &tokio_postgres::Error) -> Self {
        let mut fault = Self::of(error);
        if fault.state.is_some() {
            return fault;
        }
        // The chain ends with what the system or the certificate said.
        let (mut message, mut cause) = (error.to_string(), error.source());
        let mut tls = false;
        while let Some(inner) = cause {
            tls |= inner.is::<rustls::Error>();
            if !message.contains(&inner.to_string()) {
                message.push_str(&format!(": {inner}"));
            }
            cause = inner.source();
        }
        tls |= message.contains("TLS") || message.contains("certificate");
        fault.class = if tls { Class::Unfit } else { Class::Nothing };
        fault.help = if tls { "see `sslmode` and `sslrootcert` of the URL" } else { "" };
        fault.message = message;
        fault
    }

    /// Whether the connection it happened on may not be used again.
    pub(crate) fn poisons(&self) -> bool {
        match self.class {
            Class::Unknown | Class::ReadOnly => true,
            Class::Nothing | Class::Again | Class::NoSchema | Class::Denied | Class::Unfit => {
                // FATAL of the classes 57P and 08, and an idle transaction that was ended.
                self.state.as_ref().is_some_and(|state| {
                    let code = state.code();
                    code.starts_with("57P") || code.starts_with("08") || code == "25P03"
                })
            }
            Class::Broken => self.state.is_none(),
        }
    }

    /// The caller's error; `operation` names the save that was sent, if it was one.
    pub(crate) fn into_error(self, place: &str, operation: Option<OperationId>) -> Error {
        let Self { class, message, help, .. } = self;
        match class {
            Class::Unknown => match operation {
                Some(operation) => Error::OutcomeUnknown(operation),
                // A claim, a break or an activation: whoever repeats it finds out, and repeating harms nobody.
                None => Error::unavailable(format!("`{place}` did not answer: {message}")),
            },
            Class::Nothing => Error::unavailable(format!("`{place}` is not available: {message}")),
            Class::Again => Error::unavailable(format!(
                "`{place}` is not available: other transactions were in the way, {ATTEMPTS} times in a row ({message})"
            )),
            Class::ReadOnly => Error::unavailable(format!(
                "`{place}` takes no writes: it is a standby, or read-only by setting ({message})"
            )),
            Class::NoSchema => no_schema(place, &message),
            Class::Denied => Error::invalid(
                "denied",
                format!("`{place}` does not let this role in, or not do what is needed: {message}"),
                "check user and password, and grant what docs/backends/postgres.md lists",
            ),
            Class::Unfit => Error::invalid("store_options", format!("`{place}`: {message}"), help),
            Class::Broken => Error::internal(format!("`{place}`: {message}")),
        }
    }
}

/// A database without our tables, or with those of an older version.
pub(crate) fn no_schema(place: &str, what: &str) -> Error {
    Error::invalid(
        "no_schema",
        format!("`{place}` does not have our tables and routines, or not all of them: {what}"),
        "run `fieldlease migrate`, and see that the role's search_path names the schema they are in",
    )
}

/// What each code of the server means, and what helps where only other options do.
fn class_of(state: &SqlState) -> (Class, &'static str) {
    let code = state.code();
    let class = match code {
        "40001" | "40P01" => Class::Again,
        // Waits that were given up, statements that were cancelled, a server that is full, starting or out of room.
        "55P03" | "57014" | "25P03" | "57P03" | "57P05" => Class::Nothing,
        // With a synchronous standby, a session that is ended while it waits for it may have committed.
        "57P01" | "57P02" | "57P04" | "40003" => Class::Unknown,
        "25006" => Class::ReadOnly,
        "42P01" | "42883" | "3F000" | "42703" => Class::NoSchema,
        "42501" | "3D000" => Class::Denied,
        "26000" | "42P05" | "08P01" => {
            return (Class::Unfit, "a pooler stands between: use the pooler `transaction`");
        }
        _ if code.starts_with("28") => Class::Denied,
        _ if code.starts_with("08") => Class::Unknown,
        _ if code.starts_with("53") || code.starts_with("58") => Class::Nothing,
        _ => Class::Broken,
    };
    (class, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_of_the_server_says_what_the_caller_may_do() {
        let cases = [
            ("40001", Class::Again),
            ("40P01", Class::Again),
            ("55P03", Class::Nothing),
            ("57014", Class::Nothing),
            ("25P03", Class::Nothing),
            ("53300", Class::Nothing),
            ("53100", Class::Nothing),
            ("57P03", Class::Nothing),
            ("57P01", Class::Unknown),
            ("57P02", Class::Unknown),
            ("08007", Class::Unknown),
            ("40003", Class::Unknown),
            ("25006", Class::ReadOnly),
            ("42501", Class::Denied),
            ("42883", Class::NoSchema),
            ("28P01", Class::Denied),
            ("23505", Class::Broken),
        ];

        for (code, class) in cases {
            assert_eq!(class_of(&SqlState::from_code(code)).0, class, "{code}");
        }
    }

    #[test]
    fn only_an_answer_that_never_came_leaves_a_save_unknown() {
        let operation = Some(OperationId(7));
        let code = |class, operation| Fault::new(class, "m").into_error("db", operation).code();

        assert_eq!(code(Class::Unknown, operation), "outcome_unknown");
        assert_eq!(code(Class::Unknown, None), "unavailable");
        assert_eq!(code(Class::Nothing, operation), "unavailable");
        assert_eq!(code(Class::ReadOnly, operation), "unavailable");
        assert_eq!(code(Class::NoSchema, operation), "no_schema");
        assert_eq!(code(Class::Denied, operation), "denied");
        assert_eq!(code(Class::Unfit, operation), "store_options");
        assert_eq!(code(Class::Broken, operation), "internal");
    }
}
