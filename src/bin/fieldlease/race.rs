//! `race`: whole-record saves against the engine, on the same records, judged by one checker.

mod report;

use std::{
    path::{Path as FilePath, PathBuf},
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use fieldlease::{
    config::{LeaseUrl, StoreUrl},
    engine::{Engine, OnChangedRegistry, Store},
    entity::EntityType,
    lease::LeaseStore,
    testing::{
        checker::Check,
        race::{KIND, Race, Run, through_engine, whole_record},
    },
    token::{Entropy, SystemEntropy},
};

use crate::{
    exit::Exit,
    lease_store,
    output::{Failure, Output, Result},
    registry_file,
    store_at::{self, Open},
};

/// How long the engine may take to give its leases back.
const SHUTDOWN_MAX: Duration = Duration::from_secs(5);

/// Let editors and workers save the same records: as whole records, then through the engine
///
/// First every writer loads the whole record, changes its own field and writes the whole record back, with a version
/// for every save. Then the same writers do the same work through the engine. One checker judges both, from what the
/// store holds and what each writer had been shown. A lost update is one field overwritten or set back by a writer who
/// had not seen its value; one whole-record save can lose several. A run in which the first way lost nothing shows nothing: it is
/// inconclusive, not a pass.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fieldlease race\n  \
    fieldlease race --reaction\n  \
    fieldlease race --editors 20 --workers 6 --records 50 --saves 20000\n  \
    fieldlease race --leases redis://127.0.0.1:6379 --store postgres://shop_owner@db/race\n  \
    fieldlease race --fields 2 --seed 7 --json")]
pub(crate) struct Args {
    /// People who save
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    editors: u32,
    /// Fields people may write, shared out among them: fewer than editors means true conflicts [default: one each]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    fields: Option<u32>,
    /// Workers who save; they belong to six groups in turn
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    workers: u32,
    /// Records; fewer means more writers at once on each
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    records: u32,
    /// Saves of all writers together, in each run
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    saves: u64,
    /// Milliseconds between load and save
    #[arg(long, default_value_t = 2, value_name = "MS", value_parser = clap::value_parser!(u64).range(0..=60_000))]
    think_ms: u64,
    /// Draws which records are saved; who is faster is the machine's [default: drawn by chance, and printed]
    #[arg(long)]
    seed: Option<u64>,
    /// One editor saves once and every worker reacts to it; only --workers, --think-ms and --seed count
    #[arg(long)]
    reaction: bool,
    /// Let the engine keep its leases in this Redis or Valkey, under a namespace of this race only [default: memory]
    #[arg(long, value_name = "URL")]
    leases: Option<LeaseUrl>,
    /// Let the engine keep its records in this store, which no registry with a `Product` may be in force in; the
    /// whole records stay in SQLite, so its saves per second are not to be compared [default: SQLite, made for the race]
    #[arg(long, value_name = "URL")]
    store: Option<StoreUrl>,
}

impl Args {
    fn race(&self) -> Race {
        let own = Race {
            editors: self.editors,
            fields: self.fields.unwrap_or(self.editors).max(1),
            workers: self.workers,
            records: self.records,
            saves: self.saves,
            think: Duration::from_millis(self.think_ms),
            seed: self.seed.unwrap_or_else(chance),
            ..Race::default()
        };
        if self.reaction {
            let Race { workers, think, seed, .. } = own;
            return Race { workers, think, seed, ..Race::reaction() };
        }
        own
    }
}

/// Both runs.
struct Runs {
    naive: Run,
    engine: Run,
}

pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    let race = args.race();
    if race.editors + race.workers == 0 {
        let help = "give --editors or --workers";
        return Err(Failure::new("nobody_races", "there is nobody to save anything", help));
    }
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Failure::new("unavailable", format!("cannot start: {error}"), ""))?;
    let folder = Folder::new()?;
    let runs = runtime.block_on(both(&race, &folder.0, args, output))?;
    drop(folder);

    let exit = judge(&runs);
    if output.json {
        output.json(&report::json(&race, &runs))?;
    } else {
        output.text(report::text(&race, &runs))?;
    }
    report::judgement(exit, &runs, output);
    Ok(exit)
}

/// A fault of the engine comes before a tame opponent.
fn judge(runs: &Runs) -> Exit {
    if !runs.engine.verdict.holds() {
        Exit::Findings
    } else if runs.naive.verdict.count(Check::LostUpdate) == 0 {
        Exit::Inconclusive
    } else {
        Exit::Ok
    }
}

async fn both(race: &Race, folder: &FilePath, args: &Args, output: Output) -> Result<Runs> {
    // First: a wrong address is told before anybody has raced.
    let options = lease_store::within(&namespace());
    let leases = lease_store::open(args.leases.as_ref(), options).await?;
    let own = StoreUrl::from(format!("sqlite:{}", folder.join("engine.sqlite").display()));
    let url = args.store.as_ref().unwrap_or(&own);
    let store = store_at::open(url, Open::Shared).await?;
    refuse_others(store.as_ref(), url).await?;
    let watch = |name| report::Watch::start(name, race.total(), output);
    let (done, bar) = watch("whole records");
    let naive = whole_record(race, &folder.join("whole_records.sqlite"), done).await?;
    bar.end().await;

    let (done, bar) = watch("engine");
    let engine = engine(race, store, leases, done).await?;
    bar.end().await;
    Ok(Runs { naive, engine })
}

/// Keys of two races, or of a race and a service, never meet.
fn namespace() -> String {
    format!("race-{:016x}", chance())
}

fn chance() -> u64 {
    u64::from_be_bytes(SystemEntropy.bytes()[..8].try_into().unwrap_or_default())
}

/// A store in which somebody's own products are is not raced in.
async fn refuse_others(store: &dyn Store, url: &StoreUrl) -> Result<()> {
    let kind = EntityType::new(KIND).map_err(fieldlease::error::Error::from)?;
    let Some((_, text)) = store.active(&kind).await? else { return Ok(()) };
    if Race::is_registry(&text) {
        return Ok(());
    }
    Err(Failure::new(
        "foreign_rules",
        format!("`{url}` has rules for `{KIND}` in force that are none of a race"),
        "name a database of its own for the race",
    ))
}

async fn engine(
    race: &Race,
    store: Arc<dyn Store>,
    leases: Arc<dyn LeaseStore>,
    done: Arc<AtomicU64>,
) -> Result<Run> {
    let text = race.registry();
    let (rules, faults) = registry_file::read(text.as_bytes());
    let Some(rules) = rules else {
        let first = faults.first().map_or_else(String::new, |fault| fault.message.clone());
        return Err(Failure::new("internal", format!("the race's own registry: {first}"), ""));
    };
    let engine = Engine::builder(Arc::new(rules))
        .source(text)
        .store(store)
        .leases(leases)
        // Rules of an earlier race: nobody is in it any more.
        .on_changed_registry(OnChangedRegistry::Activate)
        .activation_delay(Duration::ZERO)
        .build()
        .await?;
    let run = through_engine(race, &engine, done).await;
    engine.shutdown(SHUTDOWN_MAX).await;
    Ok(run?)
}

/// A directory of this race only, removed when it is over.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        let name = u128::from_be_bytes(SystemEntropy.bytes());
        let path = std::env::temp_dir().join(format!("fieldlease-race-{name:032x}"));
        std::fs::create_dir(&path).map_err(|error| {
            let message = format!("cannot make `{}`: {error}", path.display());
            Failure::new("unavailable", message, "set TMPDIR to a directory that can be written")
        })?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left behind is in the system's directory for such things.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
