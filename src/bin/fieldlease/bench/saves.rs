//! Saves per second on a store, between two bare shapes on the same database in the same run.

use std::{sync::Arc, time::Duration};

use fieldlease::{
    clock::{Clock, Moment, SystemClock},
    config::{StoreAt, StoreUrl},
    database::postgres::PostgresOptions,
    engine::{Claiming, Engine, Store},
    entity::EntityRef,
    error::Error,
    registry::{self, Limits},
    store::{mysql::MysqlOptions, sqlite::Synchronous},
    strategy::Strategies,
    testing::floor::{DATA, Floor, FloorUser, MysqlFloor, PostgresFloor, SqliteFloor},
    token::{Entropy, SystemEntropy},
};
use serde_json::json;
use tokio::task::JoinSet;

use super::{broken, cycles::Cycles, runtime, seconds};
use crate::{
    exit::Exit,
    output::{Failure, Output, Result},
    store_at::{self, Open},
};

/// The rules of the records that are saved. A claim outlives every run.
const REGISTRY: &str = "field_ownership:\n  FieldleaseBench:\n    editor_owned: [name]\n    system_owned:\n      \
    media: {fields: [thumbnail, width], ttl: 24h, max_hold: 24h}\n";
/// Their type.
const KIND: &str = "FieldleaseBench";
/// How long the engine may take to give its leases back.
const SHUTDOWN_MAX: Duration = Duration::from_secs(5);

/// Save records as often as possible, in three shapes one after the other; one line of JSON says how often
///
/// `bare_update` is one `UPDATE .. WHERE version` by itself. `fenced_save` is a worker's save under its claim, with stamps
/// and operation record. `transaction` is BEGIN, SELECT, UPDATE, INSERT, COMMIT by hand. Each task has a record and a
/// connection of its own. Two tables `fl_bench..` are made and dropped again; the records of `fenced_save` stay: name a
/// database for benchmarks.
#[derive(Debug, clap::Args)]
pub(super) struct SavesArgs {
    /// The store, with its tables: postgres://.., mysql://.. or sqlite:FILE; with a password in it, use the variable
    #[arg(long, env = "FIELDLEASE_STORE", hide_env_values = true, value_name = "URL")]
    store: StoreUrl,
    /// Tasks at once
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    tasks: u32,
    /// How long for each shape
    #[arg(long, default_value_t = 5.0, value_parser = seconds)]
    seconds: f64,
}

/// One way to save.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    BareUpdate,
    FencedSave,
    Transaction,
}

pub(super) fn run(args: &SavesArgs, output: Output) -> Result<Exit> {
    runtime()?.block_on(async {
        let floor = floor(args)?;
        // First: a store without its tables is told before anything is made.
        let store = store_at::open_with(&args.store, Open::Shared, args.tasks).await?;
        floor.prepare(args.tasks).await?;
        let done = shapes(args, floor.as_ref(), store, output).await;
        let cleared = floor.clear().await;
        done?;
        Ok(cleared.map(|()| Exit::Ok)?)
    })
}

async fn shapes(
    args: &SavesArgs,
    floor: &dyn Floor,
    store: Arc<dyn Store>,
    output: Output,
) -> Result<()> {
    for shape in [Shape::BareUpdate, Shape::FencedSave, Shape::Transaction] {
        let (name, cycles) = match shape {
            Shape::BareUpdate => ("bare_update", bare(args, floor, shape).await?),
            Shape::FencedSave => ("fenced_save", fenced(args, store.clone()).await?),
            Shape::Transaction => ("transaction", bare(args, floor, shape).await?),
        };
        let (saves_per_s, p50, p99) = cycles.numbers(args.length());
        // Made to be read by programs: the same with and without `--json`.
        output.text(json!({
            "shape": name, "store": args.store.to_string(), "tasks": args.tasks,
            "saves_per_s": u64::try_from(saves_per_s).unwrap_or(u64::MAX), "p50_us": p50, "p99_us": p99,
        }))?;
    }
    Ok(())
}

impl SavesArgs {
    fn length(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}

fn floor(args: &SavesArgs) -> Result<Box<dyn Floor>> {
    let connections = usize::try_from(args.tasks).unwrap_or(usize::MAX).saturating_add(1);
    Ok(match args.store.at() {
        StoreAt::Sqlite(file) => Box::new(SqliteFloor::new(file, Synchronous::Normal)?),
        StoreAt::Postgres(url) => {
            Box::new(PostgresFloor::new(PostgresOptions::new(url)?.connections(connections))?)
        }
        StoreAt::Mysql(url) => {
            Box::new(MysqlFloor::new(MysqlOptions::new(url)?.connections(connections))?)
        }
        _ => return Err(store_at::unknown(&args.store)),
    })
}

async fn bare(args: &SavesArgs, floor: &dyn Floor, shape: Shape) -> Result<Cycles> {
    // What the shape before left of versions is gone.
    floor.prepare(args.tasks).await?;
    let mut users = Vec::new();
    for row in 0..args.tasks {
        users.push(floor.user(row).await?);
    }
    let until = SystemClock.now().plus(args.length());
    let mut tasks = JoinSet::new();
    for user in users {
        tasks.spawn(cycle(user, shape, until));
    }
    Cycles::of(tasks).await
}

async fn cycle(mut user: Box<dyn FloorUser>, shape: Shape, until: Moment) -> Result<Cycles> {
    let mut cycles = Cycles::new()?;
    loop {
        let began = SystemClock.now();
        if began >= until {
            return Ok(cycles);
        }
        match shape {
            Shape::Transaction => user.transaction().await?,
            _ => user.bare_update().await?,
        }
        cycles.record(began)?;
    }
}

/// Saves of workers who hold their claims all the time.
async fn fenced(args: &SavesArgs, store: Arc<dyn Store>) -> Result<Cycles> {
    let (rules, _) =
        registry::load(REGISTRY.as_bytes(), &Strategies::standard(), &Limits::default());
    let rules = rules.ok_or_else(|| broken(&"its own registry is not understood"))?;
    let engine = Engine::builder(Arc::new(rules)).source(REGISTRY).store(store).build().await?;
    let run = u64::from_be_bytes(SystemEntropy.bytes()[..8].try_into().unwrap_or_default());
    let mut claims = Vec::new();
    for task in 0..args.tasks {
        let entity = EntityRef::new(KIND, &format!("{run:016x}-{task}")).map_err(Error::from)?;
        let made = engine.editor("bench").create(&entity).set("name", "bench").send().await?;
        if made.code() != "applied" {
            return Err(broken(&format!("its own record was not made: {}", made.code())));
        }
        let worker = engine.worker("bench");
        let Claiming::Claimed(claim) = worker.claim(&entity, ["media"]).send().await? else {
            return Err(broken(&"its own record could not be claimed"));
        };
        claims.push(claim);
    }
    let until = SystemClock.now().plus(args.length());
    let mut tasks = JoinSet::new();
    for claim in claims {
        tasks.spawn(async move {
            let mut cycles = Cycles::new()?;
            for turn in 0_u64.. {
                let began = SystemClock.now();
                if began >= until {
                    break;
                }
                let save = claim.save().set("thumbnail", DATA).set("width", turn);
                let outcome = save.send().await?;
                if outcome.code() != "applied" {
                    let message = format!("a save was {}", outcome.code());
                    return Err(Failure::new("internal", message, ""));
                }
                cycles.record(began)?;
            }
            let _given_back = claim.release().await;
            Ok(cycles)
        });
    }
    let cycles = Cycles::of(tasks).await?;
    engine.shutdown(SHUTDOWN_MAX).await;
    Ok(cycles)
}
