//! `restore` and `undo`: back to a version, or to before a job.

use fieldlease::{path::Path, server};
use serde_json::{Map, Value as Json, json};

use crate::{
    client::ServiceArgs,
    exit::{self, Exit},
    history::{entity, operation},
    output::{Output, Result},
};

/// Bring the fields editors own back to what they were in a version
///
/// It is an ordinary save: it makes a version of its own, and is refused where somebody else changed the same field
/// meanwhile. Fields of workers are never written. A deleted record is created again.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fieldlease restore Product/42 7 --dry-run --url http://127.0.0.1:4180 --token-file data/editor.token\n  \
    fieldlease restore Product/42 7 --only title@locale=de --shared price")]
pub(crate) struct RestoreArgs {
    /// The record, as TYPE/ID
    entity: String,
    /// The number of the version, as the history shows it
    version: u64,
    /// Only fields at, above or below this path; may be repeated
    #[arg(long, value_name = "PATH")]
    only: Vec<String>,
    /// A shared field to bring back too, through its strategy; may be repeated
    #[arg(long, value_name = "PATH")]
    shared: Vec<String>,
    /// Say what it would do, and do nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    service: ServiceArgs,
}

/// Write back what stood in a record before a job or one save
///
/// What was changed since stays and is listed. It is an ordinary save of the token's writer: fields of other writers
/// need --force with the reason, and a token with the permission.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fieldlease undo Product/42 --job import-17 --dry-run --url http://127.0.0.1:4180 --token-file data/worker.token\n  \
    fieldlease undo Product/42 --operation 0190a5b0-0000-7000-8000-000000000001")]
pub(crate) struct UndoArgs {
    /// The record, as TYPE/ID
    entity: String,
    /// Every save of this job, by the worker's own name for it
    #[arg(
        long,
        value_name = "NAME",
        required_unless_present = "operation",
        conflicts_with = "operation"
    )]
    job: Option<String>,
    /// One save
    #[arg(long, value_name = "OPERATION")]
    operation: Option<String>,
    /// Write fields of other writers too; the reason is kept in the history
    #[arg(long, value_name = "REASON")]
    force: Option<String>,
    /// Say what it would do, and do nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    service: ServiceArgs,
}

pub(crate) fn restore(args: &RestoreArgs, output: Output) -> Result<Exit> {
    for path in args.only.iter().chain(&args.shared) {
        Path::parse(path).map_err(fieldlease::error::Error::from)?;
    }
    let body = json!({
        "version": args.version, "only": args.only, "shared": args.shared, "plan": args.dry_run,
    });
    send(&args.entity, "restore", &body, &args.service, output)
}

pub(crate) fn undo(args: &UndoArgs, output: Output) -> Result<Exit> {
    let named = args.operation.as_deref().map(operation).transpose()?;
    let body = json!({
        "job": args.job, "operation": named, "force": args.force, "plan": args.dry_run,
    });
    send(&args.entity, "undo", &body, &args.service, output)
}

fn send(
    name: &str,
    verb: &str,
    body: &Json,
    service: &ServiceArgs,
    output: Output,
) -> Result<Exit> {
    let entity = entity(name)?;
    let answer = service.client()?.post(&format!("{}/{verb}", server::address(&entity)), body)?;
    let planned = answer.get("outcome").is_none();
    let code = answer.pointer("/plan/code").and_then(Json::as_str).unwrap_or_default();
    if output.json {
        output.json(&answer)?;
    } else {
        text(&answer, planned, output)?;
    }
    Ok(match code {
        "" | "apply" | "applied" | "nothing" | "unchanged" => Exit::Ok,
        code if planned => exit::of(code),
        _ => Exit::Ok,
    })
}

fn text(answer: &Json, planned: bool, output: Output) -> Result<()> {
    let word = |at: &str| answer.pointer(at).and_then(Json::as_str).unwrap_or_default().to_owned();
    match (planned, answer.get("version").and_then(Json::as_u64)) {
        (true, _) => output.text("nothing was written; a save would:")?,
        (false, Some(version)) => output.text(format_args!("version {version}"))?,
        (false, None) => {
            output.text(
                format_args!("{} {}", word("/outcome"), word("/operation")).to_string().trim_end(),
            )?;
        }
    }
    let empty = Vec::new();
    for decided in answer.pointer("/plan/paths").and_then(Json::as_array).unwrap_or(&empty) {
        let text = |name: &str| decided.get(name).and_then(Json::as_str).unwrap_or_default();
        output.text(format_args!("  {:<11} {}", text("decision"), text("path")))?;
    }
    let none = Map::new();
    for (path, code) in answer.get("left").and_then(Json::as_object).unwrap_or(&none) {
        let code = code.as_str().unwrap_or_default();
        output.text(format_args!("  {:<11} {path} ({code})", "left"))?;
    }
    Ok(())
}
