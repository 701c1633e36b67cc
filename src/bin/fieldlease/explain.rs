//! `explain`: whose one field is, and by which line of the registry.

use std::path::PathBuf;

use fieldlease::{
    diagnostic::Level,
    path::Path,
    registry::{Owner, Resolved},
};
use serde_json::json;

use crate::{
    exit::Exit,
    output::{Failure, Output, Result, read_input},
    registry_file,
};

/// Explain whose a field is, and by which rule
///
/// With --json: {"owner","group","pattern","unit","strategy","scope"}, null where there is none, or {"error":CODE}.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fieldlease explain schemas/example.yaml Product price\n  \
    fieldlease explain schemas/example.yaml Article title@locale=de --json")]
pub(crate) struct Args {
    /// The registry, or - for standard input
    file: PathBuf,
    /// The entity type
    entity: String,
    /// The path, as in price.amount or name@locale=de
    path: String,
}

pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    match explain(args) {
        Ok(resolved) => {
            print(args, &resolved, output)?;
            Ok(Exit::Ok)
        }
        Err(failure) if output.json => {
            output.json(&json!({"error": failure.code}))?;
            Ok(failure.exit())
        }
        Err(failure) => Err(failure),
    }
}

fn explain(args: &Args) -> Result<Resolved> {
    let bytes = read_input(&args.file)?;
    let (registry, found) = registry_file::read(&bytes);
    if let Some(error) = found.iter().find(|diagnostic| diagnostic.level == Level::Error) {
        let message = format!(
            "the registry has faults; the first, in line {}: {}",
            error.span.line, error.message
        );
        return Err(Failure::new(error.code, message, error.help.clone()));
    }
    let registry =
        registry.ok_or_else(|| Failure::new("internal", "no registry, and no fault", ""))?;
    let rules = registry.entity(&args.entity).ok_or_else(|| {
        let known: Vec<&str> = registry.entities().map(|rules| rules.kind.as_str()).collect();
        let message = format!("there is no entity type `{}`", args.entity.escape_debug());
        Failure::new("unknown_type", message, format!("the registry has: {}", known.join(", ")))
    })?;
    let path = Path::parse(&args.path).map_err(fieldlease::error::Error::from)?;
    rules.resolve(&path).map_err(|error| Failure::new(error.code, error.message, error.help))
}

fn print(args: &Args, resolved: &Resolved, output: Output) -> Result<()> {
    let strategy = resolved.strategy.as_ref().map(|used| used.strategy.name().to_owned());
    let group = resolved.group.as_ref().map(|group| group.name.clone());
    if output.json {
        return output.json(&json!({
            "owner": resolved.owner,
            "group": group,
            "pattern": resolved.pattern.as_deref(),
            "unit": resolved.unit,
            "strategy": strategy,
            "scope": resolved.scope,
        }));
    }
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "none".to_owned());
    output.text(format_args!("{} of {}", args.path, args.entity))?;
    output.text(format_args!("  owner     {}", resolved.owner))?;
    output.text(format_args!("  group     {}", or_none(group.map(|group| group.to_string()))))?;
    let pattern = resolved.pattern.as_deref().unwrap_or("none: the default owner decides");
    output.text(format_args!("  rule      {pattern}"))?;
    output.text(format_args!("  saved as  {}", resolved.unit))?;
    output.text(format_args!("  strategy  {}", or_none(strategy)))?;
    let scope = resolved.scope.as_ref().map(ToString::to_string);
    output.text(format_args!("  scope     {}", or_none(scope)))?;
    if resolved.owner == Owner::Deny {
        output.text("nobody may write it: list it in the registry, or give a `default_owner`")?;
    }
    Ok(())
}
