//! `leases`: who holds what, and ending it by force.

mod direct;

use clap::Subcommand;
use serde_json::{Value as Json, json};

pub(crate) use self::direct::scope_name;
use self::direct::{Answer, DirectArgs};
use crate::{
    client::{Client, ServiceArgs, encode, taken},
    exit::Exit,
    history::entity,
    output::{Failure, Output, Result},
};

/// Most pages read: a list that never ends is none of ours.
const PAGES_MAX: u32 = 10_000;

/// Show and break leases, of a running service or in Redis itself
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fieldlease leases list\n  \
    fieldlease leases show Product/42\n  \
    fieldlease leases list --redis redis://127.0.0.1:6379\n  \
    fieldlease leases break Product/42 media --reason 'worker hangs since noon'")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    service: ServiceArgs,
    #[command(flatten)]
    direct: DirectArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Every lease, page by page
    List,
    /// The leases of one record
    Show {
        /// The record, as TYPE/ID
        entity: String,
        /// Groups to look at: with --redis, a lease taken within the last two seconds is seen in no others
        #[arg(value_name = "GROUP")]
        groups: Vec<String>,
    },
    /// End a lease: whoever held it can write no more
    Break {
        /// The record, as TYPE/ID
        entity: String,
        /// The scope, as in media or translation[locale=de]
        scope: String,
        /// Why; it must be said, but is kept nowhere
        #[arg(long)]
        reason: String,
        /// With --redis: end it although no fence is raised in a database, so that its holder may still write
        #[arg(long)]
        force_unfenced: bool,
    },
}

pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    let direct = args.direct.url(args.service.url.as_deref())?;
    let answer = match &direct {
        Some(url) => args.direct.run(url, &args.command)?,
        None => asked(&client(&args.service)?, &args.command)?,
    };
    let holders = match answer {
        Answer::Holders(holders) => holders,
        Answer::Broken(answer) => return broken(&answer, output),
    };
    if output.json {
        holders.iter().try_for_each(|holder| output.json(holder))?;
        return Ok(Exit::Ok);
    }
    if holders.is_empty() {
        match direct {
            Some(_) => output.text(format_args!(
                "no leases are held under the namespace {}",
                args.direct.namespace
            ))?,
            None => output.text("no leases are held")?,
        }
        return Ok(Exit::Ok);
    }
    output.text(table(&holders))?;
    Ok(Exit::Ok)
}

/// The service, or that none is named and Redis would do as well.
fn client(service: &ServiceArgs) -> Result<Client> {
    if service.url.is_some() {
        return service.client();
    }
    Err(Failure::new(
        "no_service",
        "neither a service nor Redis is named",
        "pass --url http://127.0.0.1:4180 or set FIELDLEASE_URL, or pass --redis redis://127.0.0.1:6379 or set FIELDLEASE_REDIS",
    ))
}

/// Asks a service.
fn asked(client: &Client, command: &Command) -> Result<Answer> {
    match command {
        Command::List => {
            let (mut holders, mut cursor) = (Vec::new(), Some(String::new()));
            for _ in 0..PAGES_MAX {
                let Some(asked) = cursor else { break };
                let mut page = client.get(&format!("/v1/leases{asked}"))?;
                holders.extend(taken::<Vec<Json>>(&mut page, "leases")?);
                let next = page.get("next").and_then(Json::as_str);
                cursor = next.map(|next| format!("?cursor={}", encode(next)));
            }
            Ok(Answer::Holders(holders))
        }
        Command::Show { entity: text, groups: _ } => {
            let entity = entity(text)?;
            let name = format!("{}/{}", entity.kind, entity.id.as_str());
            let mut page = client.get(&format!("/v1/leases?entity={}", encode(&name)))?;
            taken(&mut page, "leases").map(Answer::Holders)
        }
        Command::Break { entity: text, scope, reason, force_unfenced: _ } => {
            let scope = scope_name(scope)?;
            let body = json!({"entity": entity(text)?, "scope": scope, "reason": reason});
            client.post("/v1/leases/break", &body).map(Answer::Broken)
        }
    }
}

fn broken(answer: &Json, output: Output) -> Result<Exit> {
    // A service has raised the fence in any case; in Redis nothing was done for a lease that is not there.
    let nothing_done = answer.get("fenced").is_some() && answer.pointer("/broken/label").is_none();
    let exit = if nothing_done { Exit::NotFound } else { Exit::Ok };
    if output.json {
        output.json(answer)?;
        return Ok(exit);
    }
    match answer.pointer("/broken/label").and_then(Json::as_str) {
        Some(label) => {
            output.text(format_args!("broken: it was held by {}", label.escape_debug()))?;
            if answer.get("fenced").is_some() {
                output.note(
                    "no fence was raised: it may still write until its successor has claimed",
                );
            }
        }
        None if answer.get("fenced").is_some() => output.text("nobody held it")?,
        None => output.text("nobody held it; the fence was raised all the same")?,
    }
    Ok(exit)
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
