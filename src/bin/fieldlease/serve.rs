//! `serve`: the service on a store.

mod greeting;

use std::{
    net::SocketAddr,
    path::{Path as FilePath, PathBuf},
    sync::Arc,
};

use fieldlease::{
    audit::Audit,
    clock::{Clock, SystemClock},
    config::{Config, LeaseUrl, Settings, StoreAt, StoreUrl},
    engine::{Engine, OnChangedRegistry},
    entity::{EntityRef, EntityType, GroupName},
    event::{EventSink, Fanout},
    guard::GuardBoard,
    lease::{
        LeaseStore,
        redis::{Opened, RedisOptions},
    },
    metrics::{CountedLeases, Metrics},
    registry::{EntityRules, Group, Locking, Registry},
    server::{
        Limits, Service,
        first_tokens::{FirstTokens, first_tokens},
        principals::TokenFile,
    },
    token::SystemEntropy,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    exit::Exit,
    lease_store,
    output::{Failure, Output, Result},
    registry_file::{self, Loaded},
    store_at::{self, Open},
    telemetry,
};

/// The registry where none is named and there is no `schemas/example.yaml`.
const EXAMPLE: &str = include_str!("../../../schemas/example.yaml");
/// Its place in a checkout.
const EXAMPLE_FILE: &str = "schemas/example.yaml";
/// The record a first start makes, so that there is something to save.
const FIRST_RECORD: (&str, &str) = ("Product", "1");

/// Run the service: HTTP and JSON over records in SQLite, PostgreSQL or MariaDB
///
/// Without settings it serves the example registry on 127.0.0.1:4180 and keeps everything under ./data. Services on
/// several machines share a database and a Redis. It stops on SIGINT or SIGTERM after the requests in flight.
#[derive(Debug, clap::Args)]
#[command(
    args_override_self = true,
    after_help = "Examples:\n  \
    fieldlease serve\n  \
    fieldlease serve --registry ownership.yaml --data /var/lib/fieldlease\n  \
    fieldlease serve --listen 0.0.0.0:4180 --tokens tokens.yaml --audit audit.jsonl\n  \
    fieldlease serve --store postgres://shop@db/shop --leases redis://cache:6379 --namespace shop"
)]
pub(crate) struct Args {
    /// Registry file [default: schemas/example.yaml here, else the same file built in]
    #[arg(long, value_name = "FILE")]
    registry: Option<PathBuf>,
    /// Directory of the first tokens, and of the store where none is named [default: data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Address and port; 0 for any free port [default: 127.0.0.1:4180]
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Token file; needed when the network can reach the address
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// File of settings
    #[arg(long, env = "FIELDLEASE_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// File to append the audit trail to
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,
    /// Where records are kept: a SQLite file, postgres://.. or mysql://.. [default: fieldlease.db in the directory]
    #[arg(long, value_name = "URL")]
    store: Option<StoreUrl>,
    /// Where leases are kept: memory, Redis or Valkey as in redis://127.0.0.1:6379, or rows of a database as in
    /// postgres://.. [default: memory]
    #[arg(long, value_name = "URL")]
    leases: Option<LeaseUrl>,
    /// What names of keys in Redis begin with [default: fieldlease]
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
}

pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    telemetry::start_log(output.json);
    telemetry::no_core_dumps();
    let config = settings(args)?.finish()?;
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Failure::new("unavailable", format!("cannot start: {error}"), ""))?;
    let (name, bytes) = registry_source(&config)?;
    let loaded = registry_file::must_load(&name, &bytes, output)?;
    runtime.block_on(serve(config, &name, loaded, output))
}

/// Flags over environment over file.
fn settings(args: &Args) -> Result<Settings> {
    let flags = Settings {
        registry: args.registry.clone(),
        data: args.data.clone(),
        listen: args.listen,
        tokens: args.tokens.clone(),
        audit: args.audit.clone(),
        store: args.store.clone(),
        leases: args.leases.clone(),
        namespace: args.namespace.clone(),
        ..Settings::default()
    };
    // Taken for unset, a secret that is not UTF-8 would leave edit tokens unsigned without a word.
    let unreadable = std::env::vars_os().find(|(name, value)| {
        name.to_string_lossy().starts_with("FIELDLEASE_") && value.to_str().is_none()
    });
    if let Some((name, _)) = unreadable {
        let message = format!("the variable `{}` is not UTF-8", name.display());
        return Err(Failure::new("settings", message, ""));
    }
    let env = Settings::from_env(|name| std::env::var(name).ok())?;
    let file = args.config.as_deref().map(Settings::from_file).transpose()?.unwrap_or_default();
    Ok(flags.over(env).over(file))
}

fn registry_source(config: &Config) -> Result<(String, Vec<u8>)> {
    let example = FilePath::new(EXAMPLE_FILE);
    let path = match &config.registry {
        Some(path) => path.as_path(),
        None if example.is_file() => example,
        None => return Ok(("the built-in example".to_owned(), EXAMPLE.as_bytes().to_vec())),
    };
    Ok((path.display().to_string(), crate::output::read_input(path)?))
}

/// Everything that must be there before the first request, then the service until a signal.
async fn serve(config: Config, name: &str, loaded: Loaded, output: Output) -> Result<Exit> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let Loaded { registry, text } = loaded;
    refuse_not_yet(&registry)?;
    // Before anything is changed: a start that fails leaves the rules in force alone.
    let listener = listen(config.listen).await?;
    let address = listener.local_addr().map_err(|error| cannot_listen(config.listen, &error))?;
    let embedded = matches!(config.store.at(), StoreAt::Sqlite(_));
    if embedded || config.tokens.is_none() {
        make_private_dir(&config.data)?;
    }
    let store = store_at::open(&config.store, Open::Alone).await?;
    let (tokens, first) = tokens(&config, Arc::clone(&clock))?;
    let handle = telemetry::start_metrics()?;
    let audit = match &config.audit {
        Some(path) => Some(Arc::new(Audit::open(path, Arc::clone(&clock))?)),
        None => None,
    };
    registry_file::print_changes(store.as_ref(), &registry, output).await?;
    let registry = Arc::new(registry);
    let mut sinks: Vec<Arc<dyn EventSink>> =
        vec![Arc::new(Metrics::new(registry.entities().map(AsRef::as_ref)))];
    sinks.extend(audit.clone().map(|audit| audit as Arc<dyn EventSink>));
    let events: Arc<dyn EventSink> = Arc::new(Fanout(sinks));
    let (leases, guards) =
        open_leases(&config, &registry, Arc::clone(&clock), Arc::clone(&events)).await?;
    let mut builder = Engine::builder(Arc::clone(&registry))
        .source(text)
        .store(store)
        .leases(Arc::clone(&leases) as Arc<dyn LeaseStore>)
        .clock(Arc::clone(&clock))
        .events(events)
        .on_changed_registry(OnChangedRegistry::Activate);
    if embedded {
        // One file has one writer at a time: no statement of the old rules can overlap one of the new.
        builder = builder.activation_delay(std::time::Duration::ZERO);
    }
    if let Some(secret) = &config.token_secret {
        builder = builder.token_secret(secret.reveal());
    }
    let engine = builder.build().await?;
    if first.is_some() {
        make_first_record(&engine, &registry).await?;
    }
    let stop = CancellationToken::new();
    let upkeep = tokio::spawn(telemetry::upkeep(handle.clone(), Arc::clone(&clock), stop.clone()));
    let probe = tokio::spawn(async move { leases.probe().await });
    let signals = tokio::spawn(stop_on_signal(signals()?, stop.clone()));
    greeting::greet(output, &config, name, &registry, address, first.as_ref())?;
    let limits =
        Limits { head_time: config.head_time, body_time: config.body_time, ..Limits::default() };
    let mut service = Service::new(engine, tokens, limits, clock)
        .metrics(telemetry::render(&handle))
        .grace(config.grace)
        .base_window(config.base_window);
    if let Some(guards) = guards {
        service = service.guards(guards);
    }
    let stopped = service.run(listener, stop).await;
    signals.abort();
    upkeep.abort();
    probe.abort();
    if let Some(audit) = audit {
        // Blocks until the last line is written; nothing else runs any more.
        audit.close();
    }
    tracing::info!(cut = stopped.cut, leases = stopped.leases, "stopped");
    Ok(Exit::Ok)
}

/// The lease store, which must answer at the start: a service that cannot lease is of no use to workers.
async fn open_leases(
    config: &Config,
    registry: &Registry,
    clock: Arc<dyn Clock>,
    events: Arc<dyn EventSink>,
) -> Result<(Arc<CountedLeases>, Option<Arc<dyn GuardBoard>>)> {
    let options = RedisOptions {
        namespace: config.namespace.clone(),
        groups: leased_groups(registry),
        clock: Arc::clone(&clock),
        events,
        ..RedisOptions::default()
    };
    let Opened { leases, guards } = lease_store::open_all(config.leases.as_ref(), options).await?;
    Ok((Arc::new(CountedLeases::new(leases, clock)), guards))
}

/// Where leases of other services are looked for at once.
fn leased_groups(registry: &Registry) -> Vec<(EntityType, Vec<GroupName>)> {
    let leased = |group: &&Arc<Group>| group.locking == Locking::Lease && group.split_by.is_empty();
    let groups = |rules: &EntityRules| {
        rules.groups.values().filter(leased).map(|group| group.name.clone()).collect()
    };
    registry.entities().map(|rules| (rules.kind.clone(), groups(rules))).collect()
}

fn refuse_not_yet(registry: &Registry) -> Result<()> {
    for rules in registry.entities() {
        if let Some(key) = rules.not_yet.first() {
            let message =
                format!("`{}` declares what this version does not do yet: {key}", rules.kind);
            return Err(Failure::new(
                "not_yet",
                message,
                "take it out, or wait for a later version",
            ));
        }
    }
    Ok(())
}

fn make_private_dir(dir: &FilePath) -> Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir).map_err(|error| {
        let message = format!("cannot make the directory `{}`: {error}", dir.display());
        Failure::new("unavailable", message, "name another with --data")
    })
}

fn tokens(config: &Config, clock: Arc<dyn Clock>) -> Result<(TokenFile, Option<FirstTokens>)> {
    match &config.tokens {
        Some(path) => Ok((TokenFile::open(path, clock)?, None)),
        None => {
            let first = first_tokens(&config.data, &SystemEntropy)?;
            Ok((TokenFile::open(&first.file, clock)?, Some(first)))
        }
    }
}

/// Whether the fields that the first record and the printed commands use are whose the example says they are.
fn example_fits(registry: &Registry) -> bool {
    use fieldlease::{path::Path, registry::Owner};
    let fields =
        [("name", Owner::Editor), ("description", Owner::Editor), ("thumbnail", Owner::System)];
    registry.entity(FIRST_RECORD.0).is_some_and(|rules| {
        fields.iter().all(|(field, owner)| {
            let path = Path::parse(field).ok();
            path.and_then(|path| rules.resolve(&path).ok())
                .is_some_and(|resolved| resolved.owner == *owner)
        })
    })
}

/// Something to save, where the registry has the example's type. It is made once and never touched again.
async fn make_first_record(engine: &Engine, registry: &Registry) -> Result<()> {
    let (kind, id) = FIRST_RECORD;
    let fits = example_fits(registry);
    let entity = EntityRef::new(kind, id).map_err(fieldlease::error::Error::from)?;
    let editor = engine.editor("demo");
    if fits && editor.load(&entity).await?.is_none() {
        let made = editor.create(&entity).set("name", "Oak chair").send().await?;
        tracing::info!(%entity, outcome = made.code(), "made a first record");
    }
    Ok(())
}

async fn listen(at: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(at).await.map_err(|error| cannot_listen(at, &error))
}

fn cannot_listen(at: SocketAddr, error: &std::io::Error) -> Failure {
    let message = format!("cannot listen on {at}: {error}");
    Failure::new("unavailable", message, "name another address with --listen")
}

/// Signals are heard from here on: whoever has been told the address can stop the service gently.
#[cfg(unix)]
fn signals() -> Result<[tokio::signal::unix::Signal; 2]> {
    use tokio::signal::unix::{SignalKind, signal};
    let heard = |kind| {
        signal(kind).map_err(|error| {
            Failure::new("unavailable", format!("signals cannot be heard: {error}"), "")
        })
    };
    Ok([heard(SignalKind::terminate())?, heard(SignalKind::interrupt())?])
}

#[cfg(not(unix))]
fn signals() -> Result<()> {
    Ok(())
}

/// The first signal stops gently; the grace bounds how long that takes.
async fn stop_on_signal(
    #[cfg(unix)] [mut term, mut int]: [tokio::signal::unix::Signal; 2],
    #[cfg(not(unix))] (): (),
    stop: CancellationToken,
) {
    #[cfg(unix)]
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
    #[cfg(not(unix))]
    if tokio::signal::ctrl_c().await.is_err() {
        return;
    }
    tracing::info!("stopping: requests in flight are finished first");
    stop.cancel();
}
