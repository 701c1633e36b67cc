//! `keys`: the idempotency keys a store holds.

use std::path::PathBuf;

use fieldlease::{
    idempotency::{IdempotencyStore, KeyState, Listed},
    store::sqlite::SqliteStore,
};
use serde_json::json;

use crate::{
    exit::Exit,
    output::{Failure, Output, Result},
    source::wait,
};

/// Keys asked for at once.
const PAGE: u32 = 500;

/// List idempotency keys: which are being worked on, which failed, which are done
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fieldlease keys --store data/fieldlease.db\n  \
    fieldlease keys --store data/fieldlease.db --state pending --json")]
pub(crate) struct Args {
    /// SQLite file of the store
    #[arg(long, value_name = "FILE")]
    store: PathBuf,
    /// Only keys that stand like this: pending, retry, completed or failed
    #[arg(long, value_name = "STATE", value_parser = state)]
    state: Option<KeyState>,
}

fn state(text: &str) -> std::result::Result<KeyState, String> {
    KeyState::parse(text).ok_or_else(|| "it is pending, retry, completed or failed".to_owned())
}

pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    if !args.store.is_file() {
        let message = format!("there is no store `{}`", args.store.display());
        return Err(Failure::new("no_such_file", message, ""));
    }
    let store = SqliteStore::open(&args.store)?;
    let mut after = None;
    loop {
        let page = wait(store.list(after.as_ref(), PAGE))??;
        let Some(last) = page.last() else { return Ok(Exit::Ok) };
        after = Some(last.key.clone());
        for listed in page.iter().filter(|key| args.state.is_none_or(|state| key.state == state)) {
            shown(listed, output)?;
        }
    }
}

fn shown(listed: &Listed, output: Output) -> Result<()> {
    let (key, state) = (&listed.key, listed.state.as_str());
    if output.json {
        return output.json(&json!({
            "kind": key.kind().as_str(),
            "scope": key.scope(),
            "name": key.name(),
            "state": state,
            "attempt": listed.attempt,
            "created_at": listed.created_at.to_string(),
            "until": listed.until.to_string(),
            "class": listed.class,
        }));
    }
    let what = match listed.state {
        KeyState::Pending => "its lease ends",
        KeyState::Retry => "tried again from",
        KeyState::Completed | KeyState::Failed => "remembered until",
    };
    let class = listed.class.as_deref().map(|class| format!(" ({})", class.escape_debug()));
    let class = class.unwrap_or_default();
    output.text(format_args!(
        "{key}\n        {state}{class}, attempt {}, {what} {}",
        listed.attempt, listed.until
    ))
}
