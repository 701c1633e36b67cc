//! `migrate`: makes the tables of a store, or says what is missing of them.

use clap::Args as ClapArgs;
use fieldlease::config::StoreUrl;
use serde_json::json;

use crate::{
    exit::Exit,
    output::{Output, Result},
    source::wait,
    store_at,
};

/// Make the tables of a store, or bring them up to date
///
/// Forward only, and safe while services run and while another program does the same. A table of the store that other
/// text made is refused. By hand: apply the files that --print shows, in order, as they are.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
    fieldlease migrate --store postgres://shop_owner@db/shop\n  \
    fieldlease migrate --store mysql://shop_owner@db/shop --dry-run\n  \
    fieldlease migrate --store mysql://shop_owner@db/shop --print > fieldlease.sql")]
pub(crate) struct Args {
    /// The store: postgres://.., mysql://.. or sqlite:FILE; with a password in it, use the variable
    #[arg(long, env = "FIELDLEASE_STORE", hide_env_values = true, value_name = "URL")]
    store: StoreUrl,
    /// Say what is missing and change nothing
    #[arg(long, conflicts_with = "print")]
    dry_run: bool,
    /// Print every statement of this version, connect to nothing
    #[arg(long)]
    print: bool,
}

pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    if args.print {
        return print(args, output);
    }
    let names = match args.dry_run {
        true => wait(store_at::outstanding(&args.store))??,
        false => wait(store_at::migrate(&args.store))??,
    };
    let store = args.store.to_string();
    if output.json {
        let done = if args.dry_run { "missing" } else { "applied" };
        output.json(&json!({"store": store, done: names}))?;
        return Ok(Exit::Ok);
    }
    output.text(match (names.is_empty(), args.dry_run) {
        (true, _) => format!("{store}: up to date"),
        (false, true) => format!("{store}: missing {}", names.join(", ")),
        (false, false) => format!("{store}: applied {}", names.join(", ")),
    })?;
    Ok(Exit::Ok)
}

fn print(args: &Args, output: Output) -> Result<Exit> {
    for file in store_at::migrations(&args.store)? {
        let name = format!("{:04}_{}.sql", file.number, file.name);
        match output.json {
            true => output.json(&json!({"file": name, "sql": file.sql}))?,
            false => output.text(format_args!("-- {name}\n{}", file.sql.trim_end()))?,
        }
    }
    Ok(Exit::Ok)
}
