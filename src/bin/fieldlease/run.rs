//! `run`: a lease around any command. It is taken first, kept while the command runs, and the command is stopped when
//! it is lost.

mod child;
mod once;
mod signals;
mod tell;
mod wanted;

use std::{ffi::OsString, path::PathBuf, sync::Arc, time::Duration};

use fieldlease::{
    clock::{Clock, SystemClock},
    config::StoreUrl,
    event::{EventSink, LossReason},
    hold::{Acquired, Lease, Manager, Released, Settings},
    lease::{Holder, LeaseStore},
    registry::OnBusy,
    token::SystemEntropy,
};
use serde_json::json;

use self::{
    child::{Child, Ended},
    once::{Begun, Once},
    signals::Signals,
    tell::Tell,
    wanted::Wanted,
};
use crate::{
    exit::Exit,
    lease_store::RedisArgs,
    output::{Failure, Output, Result},
};

/// How long a release may take before the command's own end is answered without it.
const RELEASE_MAX: Duration = Duration::from_secs(2);
/// Holders of one entity looked at.
const HOLDERS_MAX: u32 = 500;
/// How often something in the background is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Run a command under a lease, one at a time however many start it
///
/// The lease is taken before the command starts, renewed while it runs and given back when it ends; the exit is the
/// command's, or 128 and the number of the signal that ended it. A lost lease stops the command. Without a registry any
/// type, id and group will do: they only have to be the same wherever the command is started.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fieldlease run Job/nightly import --on-busy skip -- ./import.sh\n  \
    fieldlease run Job/nightly import --job-key 2026-11-30 --store keys.db -- ./import.sh\n  \
    fieldlease run Product/42 media --registry ownership.yaml -- python3 thumbnails.py 42\n  \
    fieldlease run Job/report main --on-busy 'wait 10m' --ttl 1m --max-hold 2h -- make report")]
pub(crate) struct Args {
    /// What is guarded, as TYPE/ID
    #[arg(value_name = "TYPE/ID")]
    entity: String,
    /// Groups of it, as in media or translation[locale=de]; all are taken or none
    #[arg(value_name = "GROUP")]
    groups: Vec<String>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    #[command(flatten)]
    redis: RedisArgs,
    /// Time to live of the lease if this process is gone, 100ms to 24h [default: the groups', else 30s]
    #[arg(long, value_name = "TIME")]
    ttl: Option<String>,
    /// The command is stopped when it takes longer [default: the groups', else no bound]
    #[arg(long, value_name = "TIME")]
    max_hold: Option<String>,
    /// skip, fail, 'wait 5s' or 'retry 3 backoff 100ms..2s' [default: the first group's, else wait 5s]
    #[arg(long, value_name = "POLICY")]
    on_busy: Option<String>,
    /// Take every leased group of the entity; with a registry that knows them, else name those there are
    #[arg(long)]
    whole: bool,
    /// Who holds it, for people [default: the command, this machine and the process]
    #[arg(long, value_name = "NAME")]
    label: Option<String>,
    /// Registry whose groups and times count
    #[arg(long, value_name = "FILE")]
    registry: Option<PathBuf>,
    /// How long the command may take to end once the lease is lost; then it is killed
    #[arg(long, value_name = "TIME", default_value = "10s")]
    kill_after: String,
    /// What the command is sent when the lease is lost
    #[arg(long, value_name = "SIGNAL", default_value = "TERM")]
    signal_on_loss: String,
    /// A command that has ended with 0 under this key is not run again for 7 days; needs --store
    #[arg(long, value_name = "KEY")]
    job_key: Option<String>,
    /// Where the job key is kept: a SQLite file, made when it is not there, postgres://.. or mysql://..; with a password
    /// in it, use the variable
    #[arg(long, env = "FIELDLEASE_STORE", hide_env_values = true, value_name = "URL")]
    store: Option<StoreUrl>,
}

impl Args {
    /// The command that shows who holds it. No address: it may hold a password.
    fn shown_by(&self) -> String {
        let quoted = |text: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:".contains(c);
            let text = text.escape_debug().to_string();
            if text.chars().all(plain) { text } else { format!("'{text}'") }
        };
        let record = std::iter::once(&self.entity).chain(&self.groups);
        let record: Vec<String> = record.map(|text| quoted(text)).collect();
        format!("fieldlease leases show {}{}", record.join(" "), self.redis.told())
    }
}

pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    let tell = Arc::new(Tell::new(output));
    let ended = start(args, &tell, output);
    // Standard output belongs to the command: failures are told beside it.
    Ok(ended.unwrap_or_else(|failure| tell.fail(&failure)))
}

/// A command line that is not understood, for programs: standard output belongs to the command here too.
pub(crate) fn fail(failure: &Failure) -> Exit {
    Tell::new(Output { json: true }).fail(failure)
}

/// Everything that can be wrong about the arguments is told before anything is taken.
fn start(args: &Args, tell: &Arc<Tell>, output: Output) -> Result<Exit> {
    args.redis.url()?;
    let wanted = Wanted::of(args, output)?;
    child::find(args.command.first())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new("unavailable", format!("cannot start: {error}"), ""))?;
    runtime.block_on(guarded(args, wanted, tell))
}

async fn guarded(args: &Args, wanted: Wanted, tell: &Arc<Tell>) -> Result<Exit> {
    let mut signals = Signals::listen()?;
    let events = || Arc::clone(tell) as Arc<dyn EventSink>;
    let store = tokio::select! {
        biased;
        signal = signals.next() => return Ok(Exit::Command(signals::exit_code(signal))),
        store = args.redis.open(events()) => store?,
    };
    // A command lasts longer than a round trip, and is told its fence in any case.
    let settings =
        Settings { release_timeout: RELEASE_MAX, weak_fences: true, ..Settings::default() };
    let (clock, entropy) = (Arc::new(SystemClock), Arc::new(SystemEntropy));
    let manager = Manager::new(Arc::clone(&store), clock, entropy, events(), settings)?;

    let once = match Once::begin(args, &wanted.ask.extent).await? {
        Begun::Run(once) => once,
        Begun::Done => {
            tell.event("skipped", json!({"done": true}));
            return Ok(Exit::Skipped);
        }
    };
    let ended = leased(args, &wanted, &manager, &*store, once.as_ref(), &mut signals, tell).await;
    if let Some(once) = once {
        once.end(matches!(ended, Ok(Exit::Command(0)))).await?;
    }
    ended
}

/// The command under its lease.
async fn leased(
    args: &Args,
    wanted: &Wanted,
    manager: &Manager,
    store: &dyn LeaseStore,
    once: Option<&Once>,
    signals: &mut Signals,
    tell: &Tell,
) -> Result<Exit> {
    let policy = wanted.ask.on_busy;
    let asked = tokio::select! {
        biased;
        signal = signals.next() => {
            // Whoever waits in line has left it when this process ends.
            settled(manager).await;
            return Ok(Exit::Command(signals::exit_code(signal)));
        }
        asked = manager.acquire(wanted.ask.clone()) => asked?,
    };
    let lease = match asked {
        Acquired::Held(lease) => lease,
        Acquired::Skipped { by } => {
            tell.event("skipped", json!({"held_by": tell::holders(&by)}));
            return Ok(Exit::Skipped);
        }
        Acquired::Busy { mut by, .. } => {
            as_of_now(store, &mut by).await;
            return Err(busy(policy, &tell::people(&by), &args.shown_by()));
        }
        Acquired::AlreadyHeld => return Err(Failure::new("internal", "held twice", "")),
    };
    let ended = under(args, wanted, &lease, once, signals, tell).await;
    let released = lease.release().await;
    tell.event("released", json!({"lease": released_name(released)}));
    ended
}

/// Lets what is given back in the background arrive at the store.
async fn settled(manager: &Manager) {
    let until = SystemClock.now().plus(RELEASE_MAX);
    while manager.held() > 0 && SystemClock.now() < until {
        SystemClock.sleep_until(SystemClock.now().plus(LOOK_AGAIN)).await;
    }
}

/// The command, while the lease lasts.
async fn under(
    args: &Args,
    wanted: &Wanted,
    lease: &Lease,
    once: Option<&Once>,
    signals: &mut Signals,
    tell: &Tell,
) -> Result<Exit> {
    let Some(fence) = lease.weak_fence().await? else {
        return Err(lost_failure(lease.loss_reason(), "not started"));
    };
    tell.event("acquired", wanted.described(lease, fence));
    let mut child = Child::spawn(&args.command, wanted.environment(fence))?;
    tell.event("started", json!({"pid": child.pid()}));
    let lost = lease.lost();
    let key_lost = async {
        match once {
            Some(once) => once.keep().await,
            None => std::future::pending().await,
        }
    };
    let mut key_lost = std::pin::pin!(key_lost);
    let ended = loop {
        tokio::select! {
            biased;
            () = lost.cancelled() => break None,
            () = &mut key_lost => break None,
            signal = signals.next() => child.pass_on(signal),
            ended = child.wait() => break Some(ended?),
        }
    };
    let Some(ended) = ended else {
        let reason = lease.loss_reason();
        tell.event("lost", json!({"reason": reason.map(tell::reason)}));
        tell.person(format_args!(
            "lost: {}; told {}, killed in {} unless it ends",
            tell::why(reason),
            args.signal_on_loss,
            args.kill_after
        ));
        let killed = child.stop(wanted.signal_on_loss, wanted.kill_after).await?;
        tell.event("stopped", json!({"killed": killed}));
        let how = if killed { "killed" } else { "stopped" };
        return Err(lost_failure(reason, how));
    };
    tell.event("ended", ended.json());
    Ok(Exit::Command(match ended {
        Ended::Exit(code) => code,
        Ended::Signal(signal) => signals::exit_code(signal),
    }))
}

/// Who is in the way was told when the waiting began: how long it is held is asked again.
async fn as_of_now(store: &dyn LeaseStore, by: &mut [Holder]) {
    let Some(entity) = by.first().map(|holder| holder.scope.entity.clone()) else { return };
    // Without an answer the older one is told.
    let Ok((now, _)) = store.inspect(Some(&entity), None, HOLDERS_MAX).await else { return };
    for holder in by {
        let same = |one: &&Holder| one.scope == holder.scope && one.label == holder.label;
        if let Some(found) = now.iter().find(same) {
            holder.held = found.held;
        }
    }
}

fn busy(policy: OnBusy, people: &str, shown_by: &str) -> Failure {
    let code = match policy {
        OnBusy::Fail | OnBusy::Skip | OnBusy::Enqueue => "busy",
        OnBusy::Wait(_) | OnBusy::Retry { .. } => "timed_out",
    };
    let help = format!("`{shown_by}` shows who holds it");
    Failure::new(code, format!("the lease is held by {people}"), help)
}

fn lost_failure(reason: Option<LossReason>, how: &str) -> Failure {
    let why = tell::why(reason);
    Failure::new("lost", format!("the lease was lost and the command was {how}: {why}"), "")
}

fn released_name(released: Released) -> &'static str {
    match released {
        Released::Released | Released::StillShared => "released",
        Released::Lost => "lost",
        Released::Unknown => "unknown",
    }
}
