//! Several processes on one file, and processes that die. This test binary is the other process.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path as FilePath,
    process::{Child, Command, Stdio},
};

use fieldlease::{
    error::Error,
    scope::ScopeSet,
    store::{ClaimAsk, Claimed, RecordStore, sqlite::SqliteStore},
    token::{Entropy, Generation, HolderToken, OperationId, SystemEntropy},
};

use crate::sqlite::{add_one, assert_whole, count_in, counter, create, seen};

/// A line for the process that started this one, or for whoever reads the output; never captured.
macro_rules! tell {
    ($($text:tt)*) => { writeln!(std::io::stdout(), $($text)*).unwrap() };
}

const ROLE: &str = "FIELDLEASE_TEST_ROLE";
const FILE: &str = "FIELDLEASE_TEST_FILE";
const ADDS: u64 = 300;

/// Starts this binary again, where only [`other_process`] runs and plays a role.
fn command(role: &str, file: &FilePath) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["sqlite::processes::other_process", "--exact"])
        .env(ROLE, role)
        .env(FILE, file)
        .stdout(Stdio::piped());
    command
}

/// Not a test: what the other process does. Without a role, nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let path = std::env::var(FILE).unwrap();
    match role.as_str() {
        "adds" => {
            let store = SqliteStore::open(path).unwrap();
            for _ in 0..ADDS {
                add_one(&store).await.unwrap();
            }
        }
        "serves" => {
            let store = SqliteStore::open_exclusive(path).unwrap();
            claim(&store).await;
            loop {
                tell!("saved {}", add_one(&store).await.unwrap());
            }
        }
        "fails" => {
            let store = SqliteStore::open(path).unwrap();
            let error = loop {
                match add_one(&store).await {
                    Ok(operation) => tell!("saved {operation}"),
                    Err(error) => break error,
                }
            };
            tell!("failed {} {error}", error.code());
            tell!("counts {}", count_in(&seen(&store).await));
            if let Error::OutcomeUnknown(operation) = error {
                tell!("unknown {operation}");
                let resolved = store.resolve(operation).await.map(|answer| answer.is_some());
                let settled =
                    resolved.map_or("no", |there| if there { "there" } else { "not there" });
                tell!("settled {settled}");
            }
        }
        other => panic!("no role {other}"),
    }
}

/// A claim on another scope, left behind by whoever dies.
async fn claim(store: &SqliteStore) {
    let media = fieldlease::scope::ScopeName::parse("media").unwrap();
    let ask = ClaimAsk {
        scopes: ScopeSet::new(counter().0, [media]),
        whole: true,
        holder: HolderToken::new(&SystemEntropy),
        generation: Generation([1; 32]),
    };
    assert!(matches!(store.claim(&ask).await.unwrap(), Claimed::Claimed(_)));
}

fn lines(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok)
}

fn saved(line: &str) -> Option<OperationId> {
    // The test harness prints the name of the test in front of the first line.
    let (_, operation) = line.split_once("saved ")?;
    Some(OperationId::parse(operation).unwrap())
}

#[tokio::test]
async fn three_processes_on_one_file_lose_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let store = SqliteStore::open(&path).unwrap();
    create(&store).await;

    let children: Vec<_> = (0..2).map(|_| command("adds", &path).spawn().unwrap()).collect();
    for _ in 0..ADDS {
        add_one(&store).await.unwrap();
    }
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }

    assert_eq!(count_in(&seen(&store).await), 3 * ADDS);
    store.close().await;
    assert_whole(&path);
}

/// Rounds of the kill test. `FIELDLEASE_KILLS` raises it for a long run.
fn kills() -> usize {
    std::env::var("FIELDLEASE_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(10)
}

#[tokio::test]
async fn a_process_killed_at_any_moment_keeps_what_it_acknowledged_and_blocks_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let store = SqliteStore::open(&path).unwrap();
    create(&store).await;
    store.close().await;
    let mut acknowledged = Vec::new();
    let seed = SystemEntropy.bytes();
    tell!("seed {seed:?}");

    for round in 0..kills() {
        let mut child = command("serves", &path).spawn().unwrap();
        let after = usize::from(seed[round % seed.len()]) % 60 + 1;
        let mut lines = lines(&mut child);
        acknowledged.extend(lines.by_ref().filter_map(|line| saved(&line)).take(after));
        child.kill().unwrap();
        // What it printed before it died was acknowledged as well; a torn last line was not.
        acknowledged.extend(lines.filter(|line| line.len() >= 42).filter_map(|line| saved(&line)));
        child.wait().unwrap();

        let store = SqliteStore::open_exclusive(&path).unwrap();
        for operation in &acknowledged {
            assert!(store.resolve(*operation).await.unwrap().is_some(), "{operation} is lost");
        }
        let count = count_in(&seen(&store).await);
        let counted = acknowledged.len() as u64;
        // One more per kill at most: committed, and killed before it could say so.
        assert!((counted..=counted + round as u64 + 1).contains(&count), "{count} of {counted}");
        claim(&store).await;
        store.close().await;
        assert_whole(&path);
    }
}

/// A limit on the size of files makes the log's writes fail at COMMIT, as a dying disk would.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_commit_that_fails_on_the_disk_is_unknown_and_nothing_acknowledged_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let store = SqliteStore::open(&path).unwrap();
    create(&store).await;
    store.close().await;

    let plain = command("fails", &path);
    let mut limited = Command::new("sh");
    // 512 blocks of 512 bytes; the signal is ignored, so that write() answers EFBIG.
    limited
        .args(["-c", "trap '' XFSZ; ulimit -f 512; exec \"$0\" \"$@\""])
        .arg(plain.get_program());
    limited.args(plain.get_args()).stdout(Stdio::piped());
    for (name, value) in plain.get_envs() {
        limited.env(name, value.unwrap());
    }
    let mut child = limited.spawn().unwrap();
    let lines: Vec<_> = lines(&mut child).collect();
    child.wait().unwrap();

    let acknowledged: Vec<_> = lines.iter().filter_map(|line| saved(line)).collect();
    let told =
        |what: &str| lines.iter().find_map(|line| line.strip_prefix(what)).map(str::to_owned);
    let failed = told("failed ").unwrap();
    assert!(failed.starts_with("outcome_unknown"), "{failed}");
    assert_eq!(told("counts "), Some(acknowledged.len().to_string()), "reading goes on");
    let store = SqliteStore::open(&path).unwrap();
    for operation in &acknowledged {
        assert!(store.resolve(*operation).await.unwrap().is_some(), "{operation} is lost");
    }
    let unknown = OperationId::parse(&told("unknown ").unwrap()).unwrap();
    let there = store.resolve(unknown).await.unwrap().is_some();
    // Whatever it was told while the disk was failing is what is found afterwards.
    match told("settled ").as_deref() {
        Some("there") => assert!(there),
        Some("not there") => assert!(!there),
        _ => {}
    }
    let count = count_in(&seen(&store).await);
    assert_eq!(count, acknowledged.len() as u64 + u64::from(there));
    add_one(&store).await.unwrap();
    store.close().await;
    assert_whole(&path);
}
