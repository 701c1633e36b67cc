//! `keys`: the idempotency keys a store holds.

use fieldlease::{
    config::StoreUrl,
    idempotency::{KeyState, Listed},
};
use serde_json::json;

use crate::{
    exit::Exit,
    output::{Output, Result},
    source::wait,
    store_at::{self, Open},
};

/// Keys asked for at once.
const PAGE: u32 = 500;

/// List idempotency keys: which are being worked on, which failed, which are done
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fieldlease keys --store data/fieldlease.db\n  \
    fieldlease keys --store data/fieldlease.db --state pending --json")]
pub(crate) struct Args {
    /// The store: a SQLite file, postgres://.. or mysql://..; with a password in it, use the variable
    #[arg(long, env = "FIELDLEASE_STORE", hide_env_values = true, value_name = "URL")]
    store: StoreUrl,
    /// Only keys that stand like this: pending, retry, completed or failed
    #[arg(long, value_name = "STATE", value_parser = state)]
    state: Option<KeyState>,
}

fn state(text: &str) -> std::result::Result<KeyState, String> {
    KeyState::parse(text).ok_or_else(|| "it is pending, retry, completed or failed".to_owned())
}

pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    wait(list(args, output))?
}

async fn list(args: &Args, output: Output) -> Result<Exit> {
    let store = store_at::open(&args.store, Open::Existing).await?;
    let mut after = None;
    loop {
        let page = store.list(after.as_ref(), PAGE).await?;
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
