//! `run --job-key`: a command that has succeeded is not run again.

use crate::command::Place;

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
