//! `check`: every fault of a registry in one run.

use std::path::PathBuf;

use fieldlease::diagnostic::has_errors;

use crate::{
    exit::Exit,
    output::{Output, Result, read_input},
    registry_file,
};

/// Check a registry file and report every fault in one run
///
/// Warnings alone do not fail the check.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fieldlease check ownership.yaml\n  \
    fieldlease check ownership.yaml --json | jq -r .code\n  \
    git show HEAD:ownership.yaml | fieldlease check -")]
pub(crate) struct Args {
    /// The registry, or - for standard input
    file: PathBuf,
}

pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    let bytes = read_input(&args.file)?;
    let name = match args.file.to_str() {
        Some("-") => "standard input".to_owned(),
        _ => args.file.display().to_string(),
    };
    let (registry, found) = registry_file::read(&bytes);
    let failed = registry.is_none() || has_errors(&found);
    match registry_file::print(&name, &bytes, &found, output) {
        // A reader that stops early does not make a faulty registry a good one.
        Err(failure) if failure.is_quiet() && failed => return Ok(Exit::Findings),
        printed => printed?,
    }
    if let (Some(registry), false, false) = (registry, failed, output.json) {
        let kinds = registry.entities().len();
        output.text(format_args!(
            "{name}: good, {kinds} entity type{}",
            if kinds == 1 { "" } else { "s" }
        ))?;
    }
    Ok(if failed { Exit::Findings } else { Exit::Ok })
}
