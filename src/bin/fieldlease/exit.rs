//! Named exit codes. A code of the library is looked up here and nowhere else.

use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Ok,
    Findings,
    Usage,
    NotFound,
    Denied,
    Conflict,
    Busy,
    Invalid,
    Unavailable,
    NotYet,
    Internal,
    Inconclusive,
    Skipped,
    TimedOut,
    Lost,
    NotExecutable,
    CommandNotFound,
    /// What the command of `run` ended with.
    Command(u8),
}

/// Every exit: its number, its name, and what it means.
pub(crate) const TABLE: &[(Exit, u8, &str, &str)] = &[
    (Exit::Ok, 0, "ok", "done; there may be warnings"),
    (Exit::Findings, 1, "findings", "what was checked has faults, or lines of the input were bad"),
    (Exit::Usage, 2, "usage", "the command line is not understood"),
    (Exit::NotFound, 3, "not_found", "no such record, type, lease or file"),
    (Exit::Denied, 4, "denied", "not allowed for this writer or token"),
    (Exit::Conflict, 5, "conflict", "somebody else changed the same thing"),
    (Exit::Busy, 6, "busy", "somebody else holds the lease"),
    (Exit::Invalid, 7, "invalid", "an argument, file or body is not valid"),
    (
        Exit::Unavailable,
        8,
        "unavailable",
        "a server or file cannot be reached now: try again later",
    ),
    (Exit::NotYet, 9, "not_yet", "declared in the registry, but not done by this version"),
    (Exit::Internal, 10, "internal", "a defect of the program: please report it"),
    (Exit::Inconclusive, 11, "inconclusive", "nothing was wrong, but nothing was shown either"),
    // High, as a command that `run` runs may end with any other.
    (
        Exit::Skipped,
        121,
        "skipped",
        "run: somebody else holds the lease, and the policy is to skip",
    ),
    (Exit::TimedOut, 122, "timed_out", "run: the lease was not free in the time allowed"),
    (Exit::Lost, 123, "lost", "run: the lease was lost, so the command was stopped"),
    (Exit::NotExecutable, 126, "not_executable", "run: the command cannot be executed"),
    (Exit::CommandNotFound, 127, "not_a_command", "run: there is no such command"),
];

/// The exit for a code of the library or the service; a code that is not here is a fault of the input.
const CODES: &[(&str, Exit)] = &[
    ("registry_faulty", Exit::Findings),
    ("usage", Exit::Usage),
    ("not_found", Exit::NotFound),
    ("gone", Exit::NotFound),
    ("unknown_type", Exit::NotFound),
    ("version_unknown", Exit::NotFound),
    ("operation_unknown", Exit::NotFound),
    ("not_queued", Exit::NotFound),
    ("lease_unknown", Exit::NotFound),
    ("no_such_route", Exit::NotFound),
    ("no_such_file", Exit::NotFound),
    ("denied", Exit::Denied),
    ("forbidden", Exit::Denied),
    ("unauthorized", Exit::Denied),
    ("conflict", Exit::Conflict),
    ("exists", Exit::Conflict),
    ("recreated", Exit::Conflict),
    ("stale", Exit::Conflict),
    ("fenced", Exit::Conflict),
    ("key_mismatch", Exit::Conflict),
    ("key_lost", Exit::Conflict),
    ("superseded_key", Exit::Conflict),
    ("in_progress", Exit::Busy),
    ("input_moved", Exit::Conflict),
    ("parent_gone", Exit::Conflict),
    ("stale_input", Exit::Conflict),
    ("stale_registry", Exit::Conflict),
    ("undo_lifecycle", Exit::Conflict),
    ("history_gone", Exit::Conflict),
    ("lease_lost", Exit::Conflict),
    ("precondition_failed", Exit::Conflict),
    ("token_required", Exit::Conflict),
    ("leased", Exit::Busy),
    ("busy", Exit::Busy),
    ("too_many_requests", Exit::Busy),
    ("too_many_leases", Exit::Busy),
    ("unavailable", Exit::Unavailable),
    ("contended", Exit::Unavailable),
    ("outcome_unknown", Exit::Unavailable),
    ("stopping", Exit::Unavailable),
    ("unreadable", Exit::Unavailable),
    ("store_in_use", Exit::Unavailable),
    ("not_yet", Exit::NotYet),
    ("skipped", Exit::Skipped),
    ("timed_out", Exit::TimedOut),
    ("lost", Exit::Lost),
    ("not_executable", Exit::NotExecutable),
    ("not_a_command", Exit::CommandNotFound),
    ("internal", Exit::Internal),
];

/// The exit for a stable code.
pub(crate) fn of(code: &str) -> Exit {
    CODES.iter().find(|(known, _)| *known == code).map_or(Exit::Invalid, |(_, exit)| *exit)
}

/// The table as the help text shows it.
pub(crate) fn help() -> String {
    let mut text = "Exit codes:\n".to_owned();
    for (_, number, name, meaning) in TABLE {
        text.push_str(&format!("  {number:>3}  {name:<14} {meaning}\n"));
    }
    text
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        if let Exit::Command(code) = exit {
            return Self::from(code);
        }
        let row = TABLE.iter().find(|(known, ..)| *known == exit);
        Self::from(row.map_or(u8::MAX, |(_, number, ..)| *number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_name_and_code_stands_once() {
        for (index, (exit, number, name, _)) in TABLE.iter().enumerate() {
            let later = TABLE.iter().skip(index + 1);
            assert!(later.clone().all(|row| row.0 != *exit && row.1 != *number && row.2 != *name));
            assert!(later.clone().all(|row| row.1 > *number), "{name}");
        }
        for (index, (code, _)) in CODES.iter().enumerate() {
            assert!(CODES.iter().skip(index + 1).all(|row| row.0 != *code), "{code}");
        }
        assert_eq!(of("path_empty"), Exit::Invalid);
    }
}
