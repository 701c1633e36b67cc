//! `run`: how its command ends, and what a lost lease does to it.

use std::{
    fs,
    io::Write,
    process::{Command, Stdio},
};

use crate::{
    command::{Place, Running, is_alive},
    servers::until,
    service::signal,
};

/// Says what it was sent, and ends with 3.
const LISTENER: &str = "for s in HUP INT QUIT TERM USR1 USR2; do trap \"echo $s > got; exit 3\" $s; done; \
    echo $$ > ready; while :; do sleep 0.02; done";

fn break_lease(place: &Place) {
    let args = ["leases", "break", "Job/a", "main", "--reason", "a test", "--force-unfenced"];
    let broken = place.ran(&args);
    assert_eq!(broken.code, Some(0), "{broken:?}");
}

#[test]
fn the_exit_is_the_commands() {
    let place = Place::new();

    for (script, code) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 121", 121),
        ("kill -9 $$", 137),
        ("kill -TERM $$", 143),
    ] {
        let ran = place.shell(&[], script).ended();
        assert_eq!(ran.code, Some(code), "{script}: {}", ran.err);
    }

    let mut through = place.command(&["run", "Job/a", "main", "--", "cat"]);
    let mut through = through.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    through.stdin.as_mut().unwrap().write_all(b"through").unwrap();
    assert_eq!(through.wait_with_output().unwrap().stdout, b"through");
    place.is_clean();
}

#[test]
fn signals_are_passed_on_and_what_the_command_makes_of_them_counts() {
    let place = Place::new();

    for name in ["HUP", "INT", "QUIT", "TERM", "USR1", "USR2"] {
        let run = place.shell(&[], LISTENER);
        place.written("ready");
        run.signal(name);
        let ran = run.ended();
        assert_eq!((ran.code, &*place.text("got")), (Some(3), name), "{ran:?}");
        fs::remove_file(place.file("ready")).unwrap();
    }
    let run = place.shell(&[], "echo $$ > ready; exec sleep 60");
    place.written("ready");
    run.signal("TERM");
    assert_eq!(run.ended().code, Some(143));
    place.is_clean();
}

#[test]
fn a_signal_that_was_ignored_from_the_start_is_not_passed_on() {
    let place = Place::new();
    let mut shell = Command::new("sh");
    shell.current_dir(place.dir.path()).env("FIELDLEASE_REDIS", place.server.url());
    let script = format!(
        "trap '' HUP; exec {} run Job/a main -- sh -c '{LISTENER}'",
        env!("CARGO_BIN_EXE_fieldlease")
    );
    let mut child = shell.args(["-c", &script]).spawn().unwrap();
    place.written("ready");

    signal(child.id(), "HUP");
    signal(child.id(), "USR1");

    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert_eq!(place.text("got"), "USR1");
}

#[test]
fn a_command_whose_lease_was_broken_is_told_to_end() {
    let place = Place::new();
    let run = place.shell(&["--json"], LISTENER);
    place.written("ready");

    break_lease(&place);

    let ran = run.ended();
    assert_eq!((ran.code, &*place.text("got")), (Some(123), "TERM"), "{ran:?}");
    assert_eq!(ran.step("lost")["reason"], "broken");
    assert_eq!(ran.step("stopped")["killed"], false);
    assert_eq!(ran.step("failed")["error"], "lost");
    place.is_clean();
}

/// People are told when it happens, not only when the command has ended.
#[test]
fn a_loss_is_told_at_once_and_in_words() {
    let place = Place::new();
    let script = "trap '' TERM; echo $$ > ready; while [ ! -s go ]; do sleep 0.02; done";
    let said = fs::File::create(place.file("said")).unwrap();
    let mut run = place.command(&["run", "Job/a", "main", "--", "sh", "-c", script]);
    let mut run = run.stderr(said).spawn().unwrap();
    place.written("ready");

    break_lease(&place);

    assert_eq!(
        place.written("said"),
        "lost: somebody broke it; told TERM, killed in 10s unless it ends"
    );
    fs::write(place.file("go"), "x").unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(123));
    assert!(
        place.text("said").contains("was stopped: somebody broke it"),
        "{}",
        place.text("said")
    );
    place.is_clean();
}

#[test]
fn a_command_that_does_not_listen_is_killed_with_all_it_has_started() {
    let place = Place::new();
    let script = "trap '' INT; sh -c 'trap \"\" INT; echo $$ > inner; sleep 60; sleep 60' & \
        echo $$ > ready; sleep 60; sleep 60";
    let args = ["--json", "--kill-after", "200ms", "--signal-on-loss", "SIGINT"];
    let run = place.shell(&args, script);
    let (outer, inner) = (place.written("ready"), place.written("inner"));

    break_lease(&place);

    let ran = run.ended();
    assert_eq!(ran.code, Some(123), "{ran:?}");
    assert_eq!(ran.step("stopped")["killed"], true);
    until("both are gone", || !is_alive(&outer) && !is_alive(&inner));
}

#[test]
fn a_command_that_takes_longer_than_it_may_is_stopped() {
    let place = Place::new();

    let ran = place.shell(&["--json", "--max-hold", "300ms", "--ttl", "100ms"], LISTENER).ended();

    assert_eq!((ran.code, &*place.text("got")), (Some(123), "TERM"), "{ran:?}");
    assert_eq!(ran.step("lost")["reason"], "max_hold");
    place.is_clean();
}

/// No renewal is answered: the lease is lost in time, although nobody else has said so.
#[test]
fn a_server_that_is_gone_ends_the_command_before_the_lease_can_be_anothers() {
    let place = Place::new();
    let run = place.shell(&["--json", "--ttl", "1s"], LISTENER);
    place.written("ready");

    place.server.pause();
    let ran = run.ended();
    place.server.resume();

    assert_eq!((ran.code, &*place.text("got")), (Some(123), "TERM"), "{ran:?}");
    assert_eq!(ran.step("lost")["reason"], "expired");
    place.is_clean();
}

/// Longer than its time to live, so it was renewed, and nobody came in between.
#[test]
fn a_lease_is_kept_for_as_long_as_the_command_runs() {
    let place = Place::new();
    let run = place.shell(&["--ttl", "300ms"], "mkdir busy; sleep 1.5; rmdir busy");
    until("it is held", || !place.leases().is_empty());
    let pid = run.pid().to_string();
    let mut tries = 0;

    while is_alive(&pid) && !place.leases().is_empty() {
        let other = place.shell(&["--on-busy", "skip"], "[ ! -d busy ] || echo overlap > bad");
        let other = other.ended();
        if other.code == Some(121) {
            tries += 1;
        }
    }

    assert_eq!(run.ended().code, Some(0));
    assert_eq!((tries > 0, &*place.text("bad")), (true, ""));
}

/// Nobody renews the lease of a process that was killed: its command must not go on without.
#[cfg(target_os = "linux")]
#[test]
fn a_killed_run_takes_its_command_along_and_others_get_in_when_its_time_is_over() {
    let place = Place::new();
    let run = place.shell(&["--ttl", "500ms"], "echo $$ > ready; exec sleep 60");
    let command = place.written("ready");
    assert!(is_alive(&command));

    run.signal("KILL");

    assert_eq!(run.ended().signal, Some(9));
    until("the command is gone", || !is_alive(&command));
    let next = place.shell(&["--on-busy", "wait 1m"], "echo ran > ran").ended();
    assert_eq!((next.code, &*place.text("ran")), (Some(0), "ran"), "{next:?}");
    place.is_clean();
}

#[test]
fn what_is_left_in_the_background_does_not_hold_the_lease() {
    let place = Place::new();
    let script = "sleep 60 > /dev/null 2>&1 & echo $! > left";

    let ran = place.shell(&[], script).ended();

    assert_eq!(ran.code, Some(0));
    let next: Running = place.shell(&["--on-busy", "fail"], "true");
    assert_eq!(next.ended().code, Some(0));
    let left = place.text("left");
    assert!(is_alive(&left));
    signal(left.parse().unwrap(), "KILL");
}

/// The terminal sends a key to everybody in front, so the command has it already.
#[cfg(target_os = "linux")]
#[test]
fn a_key_on_a_terminal_reaches_the_command_once() {
    let place = Place::new();
    let listener = "trap 'echo INT >> got' INT; trap 'echo USR1 >> got; exit 3' USR1; \
        echo $PPID > ready; while :; do sleep 0.02; done";
    fs::write(place.file("listener"), listener).unwrap();
    let program = env!("CARGO_BIN_EXE_fieldlease");
    let run = format!("exec {program} run Job/a main -- sh listener");
    // It gives what it runs a terminal.
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &run, "/dev/null"]).current_dir(place.dir.path());
    terminal.env("FIELDLEASE_REDIS", place.server.url());
    terminal.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut terminal = terminal.spawn().unwrap();
    let run = place.written("ready");

    terminal.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
    assert_eq!(place.written("got"), "INT");
    // What a key sends comes to `run` like this; were it passed on, the command would hear of it before the next.
    signal(run.parse().unwrap(), "INT");
    signal(run.parse().unwrap(), "USR1");

    assert_eq!(terminal.wait().unwrap().code(), Some(3));
    assert_eq!(place.text("got"), "INT\nUSR1");
    place.is_clean();
}
