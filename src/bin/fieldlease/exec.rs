//! The last step of `run` before its command, in the command's own process: it becomes the command.
//!
//! Asking the kernel to end this process when `run` is killed must happen here, between fork and exec, where only
//! `unsafe` code may run; so a second start of this program does it. The wish outlives the exec.

use std::{ffi::OsString, os::unix::process::CommandExt};

use crate::{exit::Exit, output::Output};

/// Its name on the command line; shown nowhere.
pub(crate) const NAME: &str = "__exec";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Who must still be alive
    #[arg(long)]
    parent: i32,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Becomes the command; returns only when that failed.
pub(crate) fn run(args: &Args, output: Output) -> Exit {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Signal, getppid, set_parent_process_death_signal};
        if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
            output.note(format_args!("the command will outlive a killed `run`: {error}"));
        }
        // It may have been killed before the wish was heard.
        if getppid().is_none_or(|parent| parent.as_raw_pid() != args.parent) {
            return Exit::Lost;
        }
    }
    let Some((program, rest)) = args.command.split_first() else { return Exit::Usage };
    let error = std::process::Command::new(program).args(rest).exec();
    output.note(format_args!("cannot run `{}`: {error}", program.display()));
    match error.kind() {
        std::io::ErrorKind::NotFound => Exit::CommandNotFound,
        _ => Exit::NotExecutable,
    }
}
