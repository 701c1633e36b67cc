//! What an error of SQLite means for the caller: was anything done?

use rusqlite::ErrorCode;

use crate::{error::Error, store::text::Broken, token::OperationId};

/// Why a piece of work on a connection failed.
#[derive(Debug)]
pub(super) enum Fault {
    /// SQLite said no.
    Sql(rusqlite::Error),
    /// A stored row, or what the caller passed, cannot be right.
    Broken(String),
    /// COMMIT failed and may have taken effect.
    AtCommit(rusqlite::Error),
    /// Nothing was done; says why.
    Unavailable(String),
    /// What was passed in is not valid.
    Invalid(Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<Broken> for Fault {
    fn from(Broken(message): Broken) -> Self {
        Self::Broken(message)
    }
}

impl Fault {
    /// A failed COMMIT: not executed for BUSY, LOCKED and FULL, not known otherwise.
    pub(super) fn at_commit(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::DiskFull) => {
                Self::Sql(error)
            }
            _ => Self::AtCommit(error),
        }
    }

    /// The caller's error; `operation` names the save that was being committed, if it was one.
    pub(super) fn into_error(self, file: &str, operation: Option<OperationId>) -> Error {
        match self {
            Self::Sql(error) => of_sql(file, &error),
            Self::Broken(message) => Error::internal(format!("`{file}`: {message}")),
            Self::Unavailable(message) => Error::unavailable(message),
            Self::Invalid(error) => error,
            Self::AtCommit(error) => match operation {
                Some(operation) => Error::OutcomeUnknown(operation),
                // A claim, a break or an activation: whoever repeats it finds out, and repeating harms nobody.
                None => of_sql(file, &error),
            },
        }
    }
}

/// SQLite's error outside COMMIT: the transaction is rolled back and nothing was done.
fn of_sql(file: &str, error: &rusqlite::Error) -> Error {
    let reason = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another process is writing to it"
        }
        Some(ErrorCode::DiskFull) => "the disk is full, or the file has reached its largest size",
        Some(ErrorCode::ReadOnly) => "it cannot be written to",
        Some(ErrorCode::CannotOpen) => "it cannot be opened",
        Some(ErrorCode::PermissionDenied) => "permission denied",
        Some(ErrorCode::SystemIoFailure) => "reading or writing failed",
        Some(ErrorCode::OutOfMemory) => "out of memory",
        _ => return Error::internal(format!("`{file}`: {error}")),
    };
    Error::unavailable(format!("`{file}` is not available: {reason} ({error})"))
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    #[test]
    fn each_class_of_error_says_what_the_caller_may_do() {
        let cases = [
            // (code, outside COMMIT, at COMMIT)
            (ffi::SQLITE_BUSY, "unavailable", "unavailable"),
            (ffi::SQLITE_LOCKED, "unavailable", "unavailable"),
            (ffi::SQLITE_FULL, "unavailable", "unavailable"),
            (ffi::SQLITE_IOERR, "unavailable", "outcome_unknown"),
            (ffi::SQLITE_IOERR_FSYNC, "unavailable", "outcome_unknown"),
            (ffi::SQLITE_READONLY, "unavailable", "outcome_unknown"),
            (ffi::SQLITE_CANTOPEN, "unavailable", "outcome_unknown"),
            (ffi::SQLITE_NOMEM, "unavailable", "outcome_unknown"),
            (ffi::SQLITE_CORRUPT, "internal", "outcome_unknown"),
            (ffi::SQLITE_CONSTRAINT, "internal", "outcome_unknown"),
        ];

        for (code, outside, at_commit) in cases {
            let error = || rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            let operation = Some(OperationId(7));
            assert_eq!(Fault::Sql(error()).into_error("f", operation).code(), outside, "{code}");
            assert_eq!(
                Fault::at_commit(error()).into_error("f", operation).code(),
                at_commit,
                "{code}"
            );
        }
    }
}
