//! `bench`: how fast the parts are, against a floor that can be named.

mod bare;
mod cycles;
mod held;
mod saves;

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use clap::{Subcommand, ValueEnum};
use fieldlease::{
    clock::SystemClock,
    config::LeaseUrl,
    entity::{EntityRef, GroupName},
    event::EventSink,
    hold::{AcquireAsk, Manager, Settings},
    lease::Extent,
    registry::OnBusy,
    scope::{ScopeName, ScopeSet},
    token::{Generation, SystemEntropy},
};

use crate::{
    exit::Exit,
    lease_store,
    output::{Failure, Output, Result},
};

/// Longest patience of a task that waits for its turn.
const PATIENCE: Duration = Duration::from_secs(3_600);
/// Time to live where none is said.
const TTL_MS: u64 = 10_000;

/// Measure how fast leases are taken and given back, and how fast records are saved
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fieldlease bench leases --redis redis://127.0.0.1:6379 --mode own-key --tasks 64 --seconds 5\n  \
    fieldlease bench leases --redis redis://127.0.0.1:6379 --peer bare --tasks 64\n  \
    fieldlease bench leases --redis redis://127.0.0.1:6379 --held 100000 --ttl-ms 30000 --seconds 60\n  \
    fieldlease bench saves --store postgres://shop_owner@db/bench --tasks 12 --seconds 10")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Leases(LeasesArgs),
    Saves(saves::SavesArgs),
}

/// Take leases and give them back, as often as possible; one line of JSON says how often
#[derive(Debug, clap::Args)]
pub(crate) struct LeasesArgs {
    /// Redis or Valkey that keeps the leases [default: the memory of this process]
    #[arg(long, env = "FIELDLEASE_REDIS", hide_env_values = true, value_name = "URL")]
    redis: Option<LeaseUrl>,
    /// What names of keys in Redis begin with; copies that are to compete share it
    #[arg(long, default_value = "bench", value_name = "NAME")]
    namespace: String,
    /// Whether every task has a lease of its own, or all want the same
    #[arg(long, value_enum, default_value_t = Mode::OwnKey)]
    mode: Mode,
    /// Tasks at once
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    tasks: u32,
    /// How long
    #[arg(long, default_value_t = 5.0, value_parser = seconds)]
    seconds: f64,
    /// Time to live of a lease
    #[arg(long, default_value_t = TTL_MS, value_name = "MS", value_parser = clap::value_parser!(u64).range(100..=86_400_000))]
    ttl_ms: u64,
    /// What is measured: fieldlease, or the two bare commands it cannot do without
    #[arg(long, value_enum, default_value_t = Peer::Fieldlease)]
    peer: Peer,
    /// Hold this many leases instead, and say what they cost
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    held: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    OwnKey,
    OneKey,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Peer {
    Fieldlease,
    Bare,
}

fn seconds(text: &str) -> std::result::Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=3_600.0).contains(seconds));
    seconds.ok_or_else(|| "write a number from 0.1 to 3600".to_owned())
}

pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    let args = match &args.command {
        Command::Leases(args) => args,
        Command::Saves(args) => return saves::run(args, output),
    };
    let runtime = runtime()?;
    let line = runtime.block_on(async {
        match (args.held, args.peer) {
            (Some(count), Peer::Fieldlease) => {
                held::line(args, count).await.map(|line| line.to_string())
            }
            (None, Peer::Fieldlease) => cycles::line(args).await,
            (None, Peer::Bare) => bare::line(args).await,
            (Some(_), Peer::Bare) => Err(Failure::new(
                "bad_peer",
                "two bare commands hold nothing",
                "leave --peer or --held out",
            )),
        }
    })?;
    // Made to be read by programs: the same with and without `--json`.
    output.text(line)?;
    Ok(Exit::Ok)
}

/// One core is left to the server: on the same machine, another thread here would only take its time.
fn runtime() -> Result<tokio::runtime::Runtime> {
    let cores = std::thread::available_parallelism().map_or(2, NonZeroUsize::get);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.saturating_sub(1).max(1))
        .enable_all()
        .build()
        .map_err(|error| Failure::new("unavailable", format!("cannot start: {error}"), ""))
}

impl LeasesArgs {
    fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl_ms)
    }

    fn length(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    /// A manager over the store that was named.
    async fn manager(&self, events: Arc<dyn EventSink>, settings: Settings) -> Result<Manager> {
        let options = lease_store::within(&self.namespace);
        let store = lease_store::open(self.redis.as_ref(), options).await?;
        let (clock, entropy) = (Arc::new(SystemClock), Arc::new(SystemEntropy));
        Ok(Manager::new(store, clock, entropy, events, settings)?)
    }

    /// What a task asks for again and again. Copies of this program have keys of their own too.
    fn ask(&self, task: u32) -> Result<AcquireAsk> {
        let id = match self.mode {
            Mode::OwnKey => format!("{}-{task}", std::process::id()),
            Mode::OneKey => "one".to_owned(),
        };
        let entity = EntityRef::new("Bench", &id).map_err(fieldlease::error::Error::from)?;
        let group = GroupName::new("lease").map_err(fieldlease::error::Error::from)?;
        Ok(AcquireAsk {
            extent: Extent::Groups(ScopeSet::new(entity, [ScopeName::group(group)])),
            ttl: self.ttl(),
            ttl_max: self.ttl(),
            max_hold: PATIENCE,
            on_busy: OnBusy::Wait(PATIENCE),
            label: "bench".into(),
            generation: Generation([0; 32]),
            reentrant: false,
            owner: None,
        })
    }
}

/// A task that ended early.
fn broken(error: &dyn std::fmt::Display) -> Failure {
    Failure::new("internal", format!("a task ended early: {error}"), "")
}
