//! The `fieldlease` command: a client of the public library, one file per subcommand.

mod bench;
mod blame;
mod check;
mod client;
mod diff;
mod doctor;
#[cfg(unix)]
mod exec;
mod exit;
mod explain;
mod history;
mod keys;
mod lease_store;
mod leases;
mod merge;
mod migrate;
mod output;
mod plan;
mod queue;
mod race;
mod registry_file;
mod rewind;
#[cfg(unix)]
mod run;
mod schema;
mod serve;
mod source;
mod sql;
mod store_at;
mod telemetry;
mod upkeep;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::{
    exit::Exit,
    output::{Failure, Output, Result},
};

/// Field ownership, leases and partial saves for records that people and workers edit at the same time
#[derive(Debug, Parser)]
#[command(name = "fieldlease", version, max_term_width = 100)]
struct Cli {
    /// Print JSON, one value per line
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(check::Args),
    Explain(explain::Args),
    Diff(diff::Args),
    Schema(schema::Args),
    Sql(sql::Args),
    Plan(plan::Args),
    Merge(merge::Args),
    Serve(serve::Args),
    Migrate(migrate::Args),
    History(history::Args),
    Blame(blame::Args),
    Restore(rewind::RestoreArgs),
    Undo(rewind::UndoArgs),
    Queue(queue::QueueArgs),
    Events(queue::EventsArgs),
    Prune(upkeep::PruneArgs),
    Erase(upkeep::EraseArgs),
    Leases(leases::Args),
    Keys(keys::Args),
    Doctor(doctor::Args),
    #[cfg(unix)]
    Run(run::Args),
    Race(race::Args),
    Bench(bench::Args),
    #[cfg(unix)]
    #[command(name = exec::NAME, hide = true)]
    Exec(exec::Args),
}

fn main() -> ExitCode {
    let matches = Cli::command().after_help(exit::help()).try_get_matches();
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let output = Output { json: cli.json };
    let ended = run(&cli.command, output).unwrap_or_else(|failure| output.fail(&failure));
    ended.into()
}

/// What the parser says: help, or why the command line is not understood; as JSON for those who asked for it.
fn usage(error: &clap::Error) -> ExitCode {
    let asked_for_json =
        std::env::args_os().take_while(|arg| arg != "--").any(|arg| arg == "--json");
    if !asked_for_json || !error.use_stderr() {
        error.exit();
    }
    let text = error.render().to_string();
    // The first paragraph: what is wrong, and below it the arguments it is about.
    let first = text.lines().take_while(|line| !line.trim().is_empty()).map(str::trim);
    let message = first.collect::<Vec<_>>().join(" ");
    let message = message.trim_start_matches("error: ");
    let failure = Failure::new("usage", message, "see `fieldlease --help`");
    #[cfg(unix)]
    if std::env::args_os().skip(1).find(|arg| arg != "--json").is_some_and(|arg| arg == "run") {
        return run::fail(&failure).into();
    }
    Output { json: true }.fail(&failure).into()
}

fn run(command: &Command, output: Output) -> Result<Exit> {
    match command {
        Command::Check(args) => check::run(args, output),
        Command::Explain(args) => explain::run(args, output),
        Command::Diff(args) => diff::run(args, output),
        Command::Schema(args) => schema::run(args, output),
        Command::Sql(args) => sql::run(args, output),
        Command::Plan(args) => plan::run(args, output),
        Command::Merge(args) => merge::run(args, output),
        Command::Serve(args) => serve::run(args, output),
        Command::Migrate(args) => migrate::run(args, output),
        Command::History(args) => history::run(args, output),
        Command::Blame(args) => blame::run(args, output),
        Command::Restore(args) => rewind::restore(args, output),
        Command::Undo(args) => rewind::undo(args, output),
        Command::Queue(args) => queue::queue(args, output),
        Command::Events(args) => queue::events(args, output),
        Command::Prune(args) => upkeep::prune(args, output),
        Command::Erase(args) => upkeep::erase(args, output),
        Command::Leases(args) => leases::run(args, output),
        Command::Keys(args) => keys::run(args, output),
        Command::Doctor(args) => doctor::run(args, output),
        #[cfg(unix)]
        Command::Run(args) => run::run(args, output),
        Command::Race(args) => race::run(args, output),
        Command::Bench(args) => bench::run(args, output),
        #[cfg(unix)]
        Command::Exec(args) => Ok(exec::run(args, output)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound_and_every_command_has_examples() {
        let mut cli = Cli::command();
        cli.clone().debug_assert();

        for command in cli.get_subcommands_mut().filter(|command| !command.is_hide_set()) {
            let help = command.render_long_help().to_string();
            assert!(help.contains("Examples:"), "{}", command.get_name());
        }
    }
}
