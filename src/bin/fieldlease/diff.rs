//! `diff`: what a new registry changes for whom.

use std::path::PathBuf;

use fieldlease::registry::diff;
use serde_json::json;

use crate::{
    exit::Exit,
    output::{Output, Result},
    registry_file::{line, must_load_file},
};

/// List fields that change owner, group or strategy between two registries
///
/// Differences are no fault: the exit is 0. Running writers are told by `stale_registry`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fieldlease diff old.yaml new.yaml\n  \
    git show HEAD:ownership.yaml | fieldlease diff - ownership.yaml --json")]
pub(crate) struct Args {
    /// The former registry, or - for standard input
    old: PathBuf,
    /// The new one
    new: PathBuf,
}

pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    let old = must_load_file(&args.old, output)?;
    let new = must_load_file(&args.new, output)?;
    let differences = diff(&old, &new);
    for difference in &differences {
        if output.json {
            output.json(&json!(difference))?;
        } else {
            output.text(line(difference))?;
        }
    }
    if differences.is_empty() && !output.json {
        output.text("no difference")?;
    }
    Ok(Exit::Ok)
}
