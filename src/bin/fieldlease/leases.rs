//! `leases`: who holds what, and ending it by force.

use clap::Subcommand;
use fieldlease::scope::ScopeName;
use serde_json::{Value as Json, json};

use crate::{
    client::{ServiceArgs, encode, taken},
    exit::Exit,
    history::entity,
    output::{Failure, Output, Result},
};

/// Most pages read: a service that never ends its list is none of ours.
const PAGES_MAX: u32 = 10_000;

/// Show and break leases of a running service
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fieldlease leases list\n  \
    fieldlease leases show Product/42\n  \
    fieldlease leases break Product/42 media --reason 'worker hangs since noon'")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    service: ServiceArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Every lease, page by page
    List,
    /// The leases of one record
    Show {
        /// The record, as TYPE/ID
        entity: String,
    },
    /// End a lease: whoever held it can write no more
    Break {
        /// The record, as TYPE/ID
        entity: String,
        /// The scope, as in media or translation[locale=de]
        scope: String,
        /// Why; it is kept
        #[arg(long)]
        reason: String,
    },
}

pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    let client = args.service.client()?;
    let holders = match &args.command {
        Command::List => {
            let (mut holders, mut cursor) = (Vec::new(), Some(String::new()));
            for _ in 0..PAGES_MAX {
                let Some(asked) = cursor else { break };
                let mut page = client.get(&format!("/v1/leases{asked}"))?;
                holders.extend(taken::<Vec<Json>>(&mut page, "leases")?);
                let next = page.get("next").and_then(Json::as_str);
                cursor = next.map(|next| format!("?cursor={}", encode(next)));
            }
            holders
        }
        Command::Show { entity: text } => {
            let entity = entity(text)?;
            let name = format!("{}/{}", entity.kind, entity.id.as_str());
            taken(&mut client.get(&format!("/v1/leases?entity={}", encode(&name)))?, "leases")?
        }
        Command::Break { entity: text, scope, reason } => {
            let entity = entity(text)?;
            if ScopeName::parse(scope).is_none() {
                let message = format!("`{}` is not a scope", scope.escape_debug());
                return Err(Failure::new(
                    "bad_scope",
                    message,
                    "as in media or translation[locale=de]",
                ));
            }
            let body = json!({"entity": entity, "scope": scope, "reason": reason});
            let answer = client.post("/v1/leases/break", &body)?;
            return broken(&answer, output);
        }
    };
    if output.json {
        holders.iter().try_for_each(|holder| output.json(holder))?;
        return Ok(Exit::Ok);
    }
    if holders.is_empty() {
        output.text("no leases are held")?;
        return Ok(Exit::Ok);
    }
    output.text(table(&holders))?;
    Ok(Exit::Ok)
}

fn broken(answer: &Json, output: Output) -> Result<Exit> {
    if output.json {
        output.json(answer)?;
        return Ok(Exit::Ok);
    }
    match answer.pointer("/broken/label").and_then(Json::as_str) {
        Some(label) => {
            output.text(format_args!("broken: it was held by {}", label.escape_debug()))?
        }
        None => output.text("nobody held it; the fence was raised all the same")?,
    }
    Ok(Exit::Ok)
}

fn table(holders: &[Json]) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(["record", "scope", "holder", "held", "left", "waiting"]);
    for holder in holders {
        let text = |pointer: &str| {
            let text = holder.pointer(pointer).and_then(Json::as_str).unwrap_or_default();
            text.escape_debug().to_string()
        };
        let seconds = |name: &str| {
            let ms = holder.get(name).and_then(Json::as_u64).unwrap_or_default();
            format!("{}.{} s", ms / 1_000, ms % 1_000 / 100)
        };
        let waiting = holder.get("waiting").and_then(Json::as_u64).unwrap_or_default();
        table.add_row([
            format!("{}/{}", text("/entity/type"), text("/entity/id")),
            text("/scope"),
            text("/label"),
            seconds("held_ms"),
            seconds("remaining_ms"),
            waiting.to_string(),
        ]);
    }
    table
}
