//! A program that uses the library on a file, in a process of its own: this test binary, started again.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path as FilePath, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Arc,
        mpsc::{Receiver, channel},
    },
    time::Duration,
};

use fieldlease::{
    clock::{Clock, SystemClock},
    engine::{Claim, Claiming, Engine, Job, Session},
    error::Error,
    event::{Event, EventSink},
    key::JobKey,
    registry::OnBusy,
    store::sqlite::{SqliteOptions, SqliteStore, Statements},
    testing::{Fault, FlakyRecords, Gate, flaky::Op},
};

use crate::{
    PATIENCE, service,
    support::{PRODUCT, Wired, product, registry_of},
};

/// A line for the process that started this one; never captured.
macro_rules! tell {
    ($($text:tt)*) => { line(format_args!($($text)*)) };
}

fn line(text: std::fmt::Arguments<'_>) {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{text}").unwrap();
}

const ROLE: &str = "FIELDLEASE_TEST_ROLE";
const FILE: &str = "FIELDLEASE_TEST_FILE";

/// The time to live of the paused holder's lease.
pub(crate) const TTL: Duration = Duration::from_millis(600);

/// Where a holder stops for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It has the lease, and its claim does not arrive.
    BeforeClaim,
    /// It has the claim, and its commit does not arrive.
    BeforeCommit,
    /// Its commit took effect, and it does not hear of it.
    AfterCommit,
    /// Nowhere by itself.
    Never,
}

/// A child that is killed when it goes out of scope.
pub(crate) struct Other {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl Other {
    /// Starts the other process in a role.
    pub(crate) fn start(role: &str, file: &FilePath) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["child::other_process", "--exact"]).env(ROLE, role).env(FILE, file);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child, stdin, lines }
    }

    /// Waits for a line with this word, and answers what follows it. The test harness of the child prints too.
    pub(crate) fn heard(&self, word: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|error| panic!("never heard `{word}`: {error}"));
            if let Some((_, rest)) = line.split_once(&format!("~{word}")) {
                return rest.trim().to_owned();
            }
        }
    }

    /// Lets it go on.
    pub(crate) fn go(&mut self) {
        writeln!(self.stdin, "go").unwrap();
    }

    pub(crate) fn signal(&self, name: &str) {
        service::signal(self.child.id(), name);
    }

    /// Kills it and waits until the system has taken its locks back.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Not a test: what the other process does. Without a role, nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let file = PathBuf::from(std::env::var(FILE).unwrap());
    let path = file.as_path();
    match role.as_str() {
        "stops BeforeClaim" => stops(path, Stop::BeforeClaim).await,
        "stops BeforeCommit" => stops(path, Stop::BeforeCommit).await,
        "stops AfterCommit" => stops(path, Stop::AfterCommit).await,
        "stops Never" => stops(path, Stop::Never).await,
        "keyed BeforeClaim" => keyed(path, Stop::BeforeClaim).await,
        "keyed BeforeCommit" => keyed(path, Stop::BeforeCommit).await,
        "keyed AfterCommit" => keyed(path, Stop::AfterCommit).await,
        "keyed Never" => keyed(path, Stop::Never).await,
        "paused before it saves" => paused(engine(path).await, false).await,
        "paused with its save on the way" => paused(engine(path).await, true).await,
        "paused, unfenced, with its save on the way" => paused(unfenced(path).await, true).await,
        other => panic!("no role {other}"),
    }
}

/// Tells of every lease that is lost.
struct Losses;

impl EventSink for Losses {
    fn emit(&self, event: &Event) {
        if let Event::LeaseLost { reason, .. } = event {
            tell!("~lost {reason:?}");
        }
    }
}

/// An engine on the file with leases of its own, and the wire to its store.
pub(crate) async fn engine(file: &FilePath) -> (Engine, Arc<FlakyRecords>) {
    engine_with(file, SqliteOptions::default()).await
}

/// One whose statements do not compare the claim.
async fn unfenced(file: &FilePath) -> (Engine, Arc<FlakyRecords>) {
    let statements = include_str!("../backends/unfenced/no_claim_compared.sql");
    let statements = Statements::with(statements).unwrap();
    engine_with(file, SqliteOptions::default().statements(statements)).await
}

async fn engine_with(file: &FilePath, options: SqliteOptions) -> (Engine, Arc<FlakyRecords>) {
    let options = options.busy_timeout(Duration::from_millis(200));
    let store = Arc::new(SqliteStore::open_with(file, options).unwrap());
    let records = Arc::new(FlakyRecords::new(store.clone(), Arc::new(SystemClock)));
    let wired = Arc::new(Wired { records: records.clone(), rest: store });
    let engine = Engine::builder(registry_of(PRODUCT)).source(PRODUCT).store(wired);
    (engine.events(Arc::new(Losses)).build().await.unwrap(), records)
}

pub(crate) async fn claimed(session: &Session, ttl: Option<Duration>) -> Claim {
    let mut claim = session.claim(&product("42"), ["media"]).on_busy(OnBusy::Fail);
    if let Some(ttl) = ttl {
        claim = claim.ttl(ttl);
    }
    match claim.send().await.unwrap() {
        Claiming::Claimed(claim) => claim,
        other => panic!("not claimed: {other:?}"),
    }
}

async fn reached(records: &FlakyRecords, op: Op, times: usize) {
    while records.script().sent(op) < times {
        SystemClock.sleep_until(SystemClock.now().plus(Duration::from_millis(1))).await;
    }
    tell!("~reached");
}

async fn told_to_go() {
    let read = || std::io::stdin().read_line(&mut String::new()).unwrap();
    tokio::task::spawn_blocking(read).await.unwrap();
}

/// Where the wire to the store stops; answers what is waited for.
fn stopped(records: &FlakyRecords, stop: Stop) -> Op {
    let (op, fault) = match stop {
        Stop::BeforeClaim => (Op::Claim, Some(Fault::HoldRequest(Gate::new()))),
        Stop::BeforeCommit => (Op::Commit, Some(Fault::HoldRequest(Gate::new()))),
        Stop::AfterCommit => (Op::Commit, Some(Fault::HoldReply(Gate::new()))),
        Stop::Never => (Op::Commit, None),
    };
    if let Some(fault) = fault {
        records.script().next(op, fault);
    }
    op
}

/// The same with a key that was begun.
async fn keyed(file: &FilePath, stop: Stop) {
    let (engine, records) = engine(file).await;
    let op = stopped(&records, stop);
    let key = JobKey::text(crate::killed_keys::KEY).unwrap();
    let entity = product("42");
    let worker = engine.worker("first");
    let job = |job: Job| async move { Ok::<_, Error>(job.changes().set("thumbnail", "first")) };
    let run = worker.run(&entity, ["media"], job).job_key(key).into_future();
    let (outcome, ()) = tokio::join!(run, reached(&records, op, 1));
    tell!("~outcome {outcome:?}");
}

/// A job that never ends by itself.
async fn stops(file: &FilePath, stop: Stop) {
    let (engine, records) = engine(file).await;
    let op = stopped(&records, stop);
    let job = async {
        let claim = claimed(&engine.worker("first"), None).await;
        claim.save().set("thumbnail", "first").set("width", 1).job("j1").send().await
    };
    let (outcome, ()) = tokio::join!(job, reached(&records, op, 1));
    match outcome {
        Ok(outcome) => tell!("~outcome {}", outcome.code()),
        Err(error) => tell!("~outcome {}: {error}", error.code()),
    }
}

/// A holder that is stopped by a signal, before or after its save is sent, and tries once more afterwards.
async fn paused((engine, records): (Engine, Arc<FlakyRecords>), sent_before: bool) {
    let session = engine.worker("first");
    let claim = claimed(&session, Some(TTL)).await;
    let save = claim.save().set("thumbnail", "first");
    let outcome = if sent_before {
        let gate = Gate::new();
        records.script().next(Op::Commit, Fault::HoldRequest(gate.clone()));
        let save = tokio::spawn(save.send());
        reached(&records, Op::Commit, 1).await;
        told_to_go().await;
        gate.open();
        save.await.unwrap()
    } else {
        tell!("~reached");
        told_to_go().await;
        save.send().await
    };
    let sent = records.script().sent(Op::Commit);
    tell!("~outcome {} {sent}", outcome.unwrap().code());
    assert!(claim.lost().is_cancelled());
    drop(claim);
    told_to_go().await;
    let again = claimed(&session, None).await.save().set("thumbnail", "first again");
    tell!("~again {}", again.send().await.unwrap().code());
}
