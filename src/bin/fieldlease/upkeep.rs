//! `prune` and `erase`: history that goes.

use std::path::{Path as FilePath, PathBuf};

use fieldlease::{
    audit,
    entity::Writer,
    server::PruneBody,
    upkeep::{BASE_WINDOW, Erase, EraseAsk},
};
use serde_json::{Value as Json, json};

use crate::{
    client::taken,
    exit::Exit,
    history::{entity, not_found},
    output::{Failure, Output, Result},
    source::{Source, SourceArgs},
};

/// Remove old versions, operation records and traces of deleted records
///
/// What is not set is not pruned. The last version of a record, the save that a present value comes from, saves that a
/// key still answers with and everything of the last seven days stay whatever is asked. Runs in batches beside saves.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fieldlease prune --keep 50 --days 90 --operations-days 30 --store data/fieldlease.db --dry-run\n  \
    fieldlease prune --tombstones-days 365 --url http://127.0.0.1:4180 --token-file data/ops.token")]
pub(crate) struct PruneArgs {
    /// Only records of this type
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Keep this many of the newest versions of a record
    #[arg(long, value_name = "N")]
    keep: Option<u64>,
    /// Keep versions younger than this; with --keep a version goes only if neither keeps it
    #[arg(long, value_name = "DAYS")]
    days: Option<u64>,
    /// Remove operation records of workers that are older
    #[arg(long, value_name = "DAYS")]
    operations_days: Option<u64>,
    /// Forget records that were deleted longer ago, their numbers included
    #[arg(long, value_name = "DAYS")]
    tombstones_days: Option<u64>,
    /// Whatever is asked, keep everything younger: forms loaded within it find their base [default: the service's, or 7]
    #[arg(long, value_name = "DAYS")]
    base_window_days: Option<u64>,
    /// Saves removed in one transaction
    #[arg(long, value_name = "N", default_value_t = 500)]
    batch: u32,
    /// Count what would go in the first batch, and remove nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    source: SourceArgs,
}

/// Forget a record's values, or a writer's name, wherever they are kept
///
/// A record is deleted and its values go from versions, operation records and keys. Of a writer the name goes, also as
/// the person somebody acted for; what it wrote stays. That something was erased, when, by whom and why, is kept.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fieldlease erase Customer/42 --reason 'request of 2026-11-30' --store data/fieldlease.db\n  \
    fieldlease erase --writer anna --reason 'left the company' --dry-run --url http://127.0.0.1:4180")]
pub(crate) struct EraseArgs {
    /// The record, as TYPE/ID
    #[arg(required_unless_present = "writer", conflicts_with = "writer")]
    entity: Option<String>,
    /// The name of a person; with --worker of a program
    #[arg(long, value_name = "NAME")]
    writer: Option<String>,
    /// --writer names a worker
    #[arg(long, requires = "writer")]
    worker: bool,
    /// Why; kept as the proof
    #[arg(long)]
    reason: String,
    /// Count what would go, and erase nothing
    #[arg(long)]
    dry_run: bool,
    /// With --store: the service's audit file, where the id or name is blanked too; a service does that by itself
    #[arg(long, value_name = "FILE", requires = "store")]
    audit: Option<PathBuf>,
    #[command(flatten)]
    source: SourceArgs,
}

pub(crate) fn prune(args: &PruneArgs, output: Output) -> Result<Exit> {
    let mut body = json!({
        "type": args.kind, "keep": args.keep, "days": args.days,
        "operations_days": args.operations_days, "tombstones_days": args.tombstones_days,
        "base_window_days": args.base_window_days, "batch": args.batch, "dry_run": args.dry_run,
    });
    let source = args.source.open()?;
    let mut total = [("versions", 0_u64), ("operations", 0), ("tombstones", 0)];
    loop {
        let step = step(&source, &body)?;
        for (name, count) in &mut total {
            *count += step.get(*name).and_then(Json::as_u64).unwrap_or_default();
        }
        match step.get("next").and_then(Json::as_u64) {
            // A batch that was taken back would be found again.
            Some(next) if !args.dry_run => put(&mut body, "after", next.into()),
            next => {
                return report(&total, args.dry_run, next.is_some(), output);
            }
        }
    }
}

fn put(body: &mut Json, name: &str, value: Json) {
    if let Some(members) = body.as_object_mut() {
        members.insert(name.to_owned(), value);
    }
}

fn step(source: &Source, body: &Json) -> Result<Json> {
    match source {
        Source::Service(client) => client.post("/v1/prune", body),
        Source::Store(reader) => {
            let body: PruneBody = serde_json::from_value(body.clone())
                .map_err(|error| Failure::new("usage", error.to_string(), ""))?;
            let ask = body.check(BASE_WINDOW).map_err(|problem| {
                let help = "set --keep, --days, --operations-days or --tombstones-days";
                Failure::new(problem.code(), "nothing is to be pruned", help)
            })?;
            Ok(json!(reader.wait(reader.store.prune(&ask))?))
        }
    }
}

fn report(total: &[(&str, u64)], dry_run: bool, more: bool, output: Output) -> Result<Exit> {
    if output.json {
        let mut line: Json =
            total.iter().map(|(name, count)| ((*name).to_owned(), json!(count))).collect();
        put(&mut line, "dry_run", dry_run.into());
        put(&mut line, "more", more.into());
        output.json(&line)?;
        return Ok(Exit::Ok);
    }
    let counts: Vec<String> = total.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let (verb, tail) = match (dry_run, more) {
        (true, true) => ("would prune", ", and more in further batches"),
        (true, false) => ("would prune", ""),
        (false, _) => ("pruned", ""),
    };
    output.text(format_args!("{verb} {}{tail}", counts.join(", ")))?;
    Ok(Exit::Ok)
}

pub(crate) fn erase(args: &EraseArgs, output: Output) -> Result<Exit> {
    let writer = args.writer.as_deref().map(|name| match args.worker {
        true => Writer::worker(name),
        false => Writer::editor(name),
    });
    let named = args.entity.as_deref().map(entity).transpose()?;
    let mut answer: Json = match args.source.open()? {
        Source::Service(client) => client.post(
            "/v1/erase",
            &json!({"entity": named, "writer": writer, "reason": args.reason, "dry_run": args.dry_run}),
        )?,
        Source::Store(reader) => {
            let what = match (named, writer) {
                (Some(entity), _) => Erase::Entity(entity),
                (None, Some(writer)) => Erase::Writer(writer),
                (None, None) => return Err(Failure::new("usage", "nothing is named", "")),
            };
            let (by, reason) = ("command line".to_owned(), args.reason.clone());
            let ask = EraseAsk { what, by, reason, dry_run: args.dry_run };
            let erased = reader.wait(reader.store.erase(&ask))?;
            if let Some(file) = args.audit.as_ref().filter(|_| erased.is_some() && !ask.dry_run) {
                in_audit(file, &ask.what)?;
            }
            json!(erased.ok_or_else(|| not_found(args.entity.as_deref().unwrap_or_default()))?)
        }
    };
    put(&mut answer, "dry_run", args.dry_run.into());
    if output.json {
        output.json(&answer)?;
        return Ok(Exit::Ok);
    }
    let (saves, values): (u64, u64) = (taken(&mut answer, "saves")?, taken(&mut answer, "values")?);
    let verb = if args.dry_run { "would erase from" } else { "erased from" };
    output.text(format_args!("{verb} {saves} saves and {values} present values"))?;
    Ok(Exit::Ok)
}

fn in_audit(file: &FilePath, what: &Erase) -> Result<()> {
    let failed = |error: std::io::Error| {
        let message = format!("erased from the store, not from `{}`: {error}", file.display());
        Failure::new("audit_file", message, "name the audit file, and erase again")
    };
    audit::erase(file, what).map(|_| ()).map_err(failed)
}
