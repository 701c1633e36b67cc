//! `run --job-key`: a command that has succeeded is not run again.

use crate::{
    command::Place,
    servers::{Database, Dialect},
};

#[test]
fn a_key_is_kept_in_any_database_and_its_password_is_not_given_to_the_command() {
    for dialect in Dialect::ALL {
        let place = Place::new();
        let database = Database::new(dialect);
        let url = database.url();
        let ran = |args: &[&str]| {
            let mut command = place.command(args);
            let output = command.env("FIELDLEASE_STORE", &url).output().unwrap();
            (output.status.code(), String::from_utf8(output.stdout).unwrap())
        };
        assert_eq!(ran(&["migrate"]).0, Some(0));
        let keyed = || {
            let script = "echo \"${FIELDLEASE_STORE:-unset}\" >> ran";
            let key = ["run", "Job/a", "main", "--job-key", "2026-11-30", "--", "sh", "-c", script];
            ran(&key).0
        };

        assert_eq!(keyed(), Some(0));
        assert_eq!(keyed(), Some(121));

        assert_eq!(place.text("ran"), "unset");
        let key: serde_json::Value = serde_json::from_str(&ran(&["keys", "--json"]).1).unwrap();
        assert_eq!((&key["name"], &key["state"]), (&"2026-11-30".into(), &"completed".into()));
        place.is_clean();
    }
}

#[test]
fn a_command_that_has_succeeded_under_its_key_is_not_run_again() {
    let place = Place::new();
    let keyed = |key: &str, script: &str| {
        let arguments = ["--job-key", key, "--store", "keys.db", "--on-busy", "wait 1m"];
        place.shell(&arguments, script).ended()
    };

    // What fails is run again by the next start, what succeeds is not.
    assert_eq!(keyed("2026-11-30", "echo x >> ran; exit 3").code, Some(3));
    assert_eq!(keyed("2026-11-30", "echo x >> ran").code, Some(0));
    let again = keyed("2026-11-30", "echo x >> ran");
    assert_eq!((again.code, &*again.out, &*again.err), (Some(121), "", ""));
    assert_eq!(keyed("2026-12-01", "echo x >> ran").code, Some(0));

    assert_eq!(place.text("ran").lines().count(), 3);
    place.is_clean();
}

#[test]
fn a_key_alone_and_a_random_key_are_refused_before_anything_is_run() {
    let place = Place::new();

    let alone = place.shell(&["--job-key", "k"], "echo x >> ran").ended();
    assert_eq!(alone.code, Some(2), "{}", alone.err);
    let random = "7c9e6679-7425-40de-944b-e07fc1f90ae7";
    let random = place.shell(&["--job-key", random, "--store", "keys.db"], "echo x >> ran").ended();
    assert_eq!(random.code, Some(7), "{}", random.err);
    assert!(random.err.contains("another delivery"), "{}", random.err);

    assert_eq!(place.text("ran"), "");
    place.is_clean();
}
