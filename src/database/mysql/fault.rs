//! What an error of the server or the connection means for the caller: was anything done?

use mysql_async::{DriverError, Error as Driver, IoError, ServerError};

use crate::{error::Error, token::OperationId};

/// Why a piece of work on a connection failed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The server said no. Whatever was begun is undone.
    Server(ServerError),
    /// The connection broke, or the answer did not come in time: what was sent may have been done.
    Lost(String),
    /// Nothing was sent.
    Unreached(String),
    /// A stored row, or what the caller passed, cannot be right.
    Broken(String),
    /// The connection cannot be used as it is.
    Invalid(Error),
    /// What was passed in is not valid; the connection is fine.
    Refused(Error),
}

/// What the numbers of the server's errors mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Undone because of other transactions; the same may pass at once.
    Again,
    /// Undone, and there is no point in trying at once.
    Later,
    /// It broke off in a way that does not tell whether a COMMIT had been done.
    Unknown,
    /// Tables or procedures are missing.
    NoSchema,
    /// The user lacks a right.
    Denied,
    /// Larger than the server takes.
    TooLarge,
    /// A defect of ours.
    Defect,
}

/// Deadlock; record changed since the snapshot (MariaDB); a prepared statement to be prepared again.
const AGAIN: [u16; 3] = [1213, 1020, 1615];
/// Lock wait timeout; too many connections, of this user; read-only by option, by transaction, by InnoDB; disk full; table
/// full; out of memory; too many locks; a replica that may not write.
const LATER: [u16; 13] =
    [1205, 1040, 1203, 1226, 1290, 1792, 1874, 1021, 1114, 1037, 1041, 1206, 1836];
/// Shutting down; an error during COMMIT; statement or connection stopped by somebody or by a time limit of the server,
/// which may happen after the COMMIT inside a procedure.
const UNKNOWN: [u16; 6] = [1053, 1180, 1317, 1927, 1969, 3024];
/// No database, table, procedure; an older one with other parameters.
const NO_SCHEMA: [u16; 4] = [1049, 1146, 1305, 1318];
/// Of a database, user, table, column, routine, or command.
const DENIED: [u16; 7] = [1044, 1045, 1142, 1143, 1370, 1227, 1698];
/// Packets, and parameters sent in pieces.
const TOO_LARGE: [u16; 2] = [1153, 1301];

impl From<Driver> for Fault {
    fn from(error: Driver) -> Self {
        match error {
            Driver::Server(error) => Self::Server(error),
            Driver::Driver(DriverError::PacketTooLarge) => Self::Invalid(too_large("a packet")),
            Driver::Driver(DriverError::FromRow { .. } | DriverError::FromValue { .. }) => {
                Self::Broken("a row has other columns than expected".to_owned())
            }
            Driver::Io(IoError::Io(error)) => Self::Lost(error.to_string()),
            error => Self::Lost(error.to_string()),
        }
    }
}

pub(crate) fn class(error: &ServerError) -> Class {
    let code = error.code;
    match code {
        _ if AGAIN.contains(&code) => Class::Again,
        _ if LATER.contains(&code) => Class::Later,
        _ if UNKNOWN.contains(&code) => Class::Unknown,
        _ if NO_SCHEMA.contains(&code) => Class::NoSchema,
        _ if DENIED.contains(&code) => Class::Denied,
        _ if TOO_LARGE.contains(&code) || error.message.contains("max_allowed_packet") => {
            Class::TooLarge
        }
        _ => Class::Defect,
    }
}

impl Fault {
    /// Undone, and worth another try at once.
    pub(crate) fn is_contention(&self) -> bool {
        matches!(self, Self::Server(error) if class(error) == Class::Again)
    }

    /// The connection cannot be used any more.
    pub(crate) fn ends_connection(&self) -> bool {
        match self {
            Self::Lost(_) | Self::Unreached(_) | Self::Invalid(_) => true,
            Self::Server(error) => matches!(class(error), Class::Unknown | Class::TooLarge),
            Self::Broken(_) | Self::Refused(_) => false,
        }
    }

    /// The caller's error; `operation` names the save that was being committed, if it was one.
    pub(crate) fn into_error(self, place: &str, operation: Option<OperationId>) -> Error {
        let unavailable =
            |why: String| Error::unavailable(format!("`{place}` is not available: {why}"));
        match (self, operation) {
            (Self::Broken(message), _) => Error::internal(format!("`{place}`: {message}")),
            (Self::Invalid(error) | Self::Refused(error), _) => error,
            (Self::Unreached(why), _) => unavailable(why),
            (Self::Lost(_), Some(operation)) => Error::OutcomeUnknown(operation),
            // A claim, a break or an activation: whoever repeats it finds out, and repeating harms nobody.
            (Self::Lost(why), None) => unavailable(why),
            (Self::Server(error), operation) => of_server(place, &error, operation),
        }
    }
}

fn of_server(place: &str, error: &ServerError, operation: Option<OperationId>) -> Error {
    let (code, message) = (error.code, &error.message);
    let unavailable = |why: &str| {
        Error::unavailable(format!("`{place}` is not available: {why} ({code} {message})"))
    };
    match class(error) {
        Class::Again => unavailable("other transactions were in the way, several times in a row"),
        Class::Later => unavailable(later(code)),
        Class::Unknown => {
            operation.map_or_else(|| unavailable("it broke off"), Error::OutcomeUnknown)
        }
        Class::NoSchema => Error::invalid(
            "no_schema",
            format!(
                "`{place}` does not have our tables and procedures, or not all of them ({code} {message})"
            ),
            "apply the migrations: `fieldlease migrate`, or the files of schemas/sql/mysql in order",
        ),
        Class::Denied => Error::invalid(
            "denied",
            format!(
                "`{place}` does not let this user in, or not do what is needed ({code} {message})"
            ),
            "check user and password, and grant what docs/backends/mysql.md lists",
        ),
        Class::TooLarge => too_large(place),
        Class::Defect => Error::internal(format!("`{place}`: {code} {message}")),
    }
}

fn later(code: u16) -> &'static str {
    match code {
        1205 => "rows were locked by another transaction for too long",
        1040 | 1203 | 1226 => "it has too many connections",
        1290 | 1792 | 1836 | 1874 => "it is read-only; writes go to the primary",
        1021 | 1114 => "its disk or a table is full",
        1037 | 1041 => "it is out of memory",
        _ => "it has too many locks",
    }
}

pub(crate) fn too_large(what: &str) -> Error {
    Error::invalid(
        "too_large",
        format!("a save or a stored value is larger than the server takes at once: `{what}`"),
        "raise `max_allowed_packet` of the server, 64M or more; or keep large values elsewhere and save their address",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_of_error_says_what_the_caller_may_do() {
        let cases = [
            // (code, for a save, otherwise)
            (1213, "unavailable", "unavailable"),
            (1205, "unavailable", "unavailable"),
            (1020, "unavailable", "unavailable"),
            (1290, "unavailable", "unavailable"),
            (1792, "unavailable", "unavailable"),
            (1040, "unavailable", "unavailable"),
            (1053, "outcome_unknown", "unavailable"),
            (1317, "outcome_unknown", "unavailable"),
            (1180, "outcome_unknown", "unavailable"),
            (1146, "no_schema", "no_schema"),
            (1305, "no_schema", "no_schema"),
            (1045, "denied", "denied"),
            (1370, "denied", "denied"),
            (1153, "too_large", "too_large"),
            (1064, "internal", "internal"),
            (1406, "internal", "internal"),
        ];

        for (code, save, otherwise) in cases {
            let fault = || {
                let (message, state) = ("x".to_owned(), "HY000".to_owned());
                Fault::from(Driver::Server(ServerError { code, message, state }))
            };
            assert_eq!(fault().into_error("db", Some(OperationId(7))).code(), save, "{code}");
            assert_eq!(fault().into_error("db", None).code(), otherwise, "{code}");
        }
        let lost = || Fault::from(Driver::Driver(DriverError::ConnectionClosed));
        assert_eq!(lost().into_error("db", Some(OperationId(7))).code(), "outcome_unknown");
        assert_eq!(lost().into_error("db", None).code(), "unavailable");
        let unreached = Fault::Unreached("refused".to_owned());
        assert_eq!(unreached.into_error("db", Some(OperationId(7))).code(), "unavailable");
    }
}
