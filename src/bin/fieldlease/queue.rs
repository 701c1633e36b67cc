//! `queue` and `events`: saves that wait for a lease, and what others are told.

use clap::Subcommand;
use fieldlease::{
    clock::{Clock, SystemClock},
    commit::Notice,
    server,
};
use serde_json::{Value as Json, json};

use crate::{
    client::{encode, taken},
    exit::Exit,
    history::{entity, operation},
    output::{Failure, Output, Result},
    source::{Source, SourceArgs},
};

/// How often a store is asked for new events.
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_millis(500);

/// Show and cancel saves that wait for a lease
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fieldlease queue list --url http://127.0.0.1:4180 --token-file data/worker.token\n  \
    fieldlease queue cancel 0190a5b0-0000-7000-8000-000000000001 --store data/fieldlease.db")]
pub(crate) struct QueueArgs {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    source: SourceArgs,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List what waits, in the order it came
    List {
        /// Only this record, as TYPE/ID
        #[arg(long)]
        entity: Option<String>,
    },
    /// Take a save out before its turn
    Cancel {
        /// The operation its save was answered
        operation: String,
    },
}

/// Show events: which results are to be computed again, and what became of waiting saves
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fieldlease events --follow --url http://127.0.0.1:4180 --token-file data/worker.token\n  \
    fieldlease events --after 1200 --json --store data/fieldlease.db")]
pub(crate) struct EventsArgs {
    /// Only events after this one
    #[arg(long, value_name = "EVENT", default_value_t = 0)]
    after: u64,
    /// Wait for more, until interrupted
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    source: SourceArgs,
}

pub(crate) fn queue(args: &QueueArgs, output: Output) -> Result<Exit> {
    let source = args.source.open()?;
    match &args.what {
        What::List { entity } => list(&source, entity.as_deref(), output),
        What::Cancel { operation } => cancel(&source, operation, output),
    }
}

fn list(source: &Source, named: Option<&str>, output: Output) -> Result<Exit> {
    let named = named.map(entity).transpose()?;
    let mut after = 0;
    loop {
        let items: Vec<Json> = match source {
            Source::Store(reader) => {
                let items = reader.wait(reader.store.waiting(named.as_ref(), after, 200))?;
                items.iter().map(server::item_json).collect()
            }
            Source::Service(client) => {
                let entity =
                    named.as_ref().map(|entity| format!("&entity={}", encode(&entity.to_string())));
                let route = format!("/v1/queue?after={after}{}", entity.unwrap_or_default());
                taken(&mut client.get(&route)?, "waiting")?
            }
        };
        let Some(last) = items.last().and_then(|item| item.get("place")?.as_u64()) else {
            return Ok(Exit::Ok);
        };
        after = last;
        for item in &items {
            if output.json {
                output.json(item)?;
                continue;
            }
            let text = |at: &str| item.pointer(at).and_then(Json::as_str).unwrap_or_default();
            let scopes = item.get("scopes").map(Json::to_string).unwrap_or_default();
            output.text(format_args!(
                "{}  {}/{} {scopes}  {}  since {}",
                text("/operation"),
                text("/entity/type"),
                text("/entity/id").escape_debug(),
                text("/writer/name").escape_debug(),
                text("/at"),
            ))?;
        }
    }
}

fn cancel(source: &Source, named: &str, output: Output) -> Result<Exit> {
    let operation = operation(named)?;
    match source {
        Source::Store(reader) => {
            let why = Notice { kind: "queue_cancelled".to_owned(), body: json!({}) };
            if !reader.wait(reader.store.remove(operation, &why))? {
                let help = "it may have run: look for it in the history";
                return Err(Failure::new("not_queued", "no save waits under this operation", help));
            }
        }
        Source::Service(client) => {
            client.post(&format!("/v1/queue/{operation}/cancel"), &json!({}))?;
        }
    }
    if output.json {
        output.json(&json!({"cancelled": operation}))?;
    } else {
        output.text(format_args!("cancelled {operation}"))?;
    }
    Ok(Exit::Ok)
}

pub(crate) fn events(args: &EventsArgs, output: Output) -> Result<Exit> {
    let source = args.source.open()?;
    let mut after = args.after;
    loop {
        let (events, next): (Vec<Json>, u64) = match &source {
            Source::Store(reader) => {
                let told = reader.wait(reader.store.pull(after, 200))?;
                let next = told.last().map_or(after, |told| told.event);
                (told.iter().map(server::event_json).collect(), next)
            }
            Source::Service(client) => {
                let ms = if args.follow { 20_000 } else { 0 };
                let mut answer = client.get(&format!("/v1/events?after={after}&wait_ms={ms}"))?;
                (taken(&mut answer, "events")?, taken(&mut answer, "next")?)
            }
        };
        for event in &events {
            if output.json {
                output.json(event)?;
                continue;
            }
            let text = |at: &str| event.pointer(at).and_then(Json::as_str).unwrap_or_default();
            let body = event.get("body").map(Json::to_string).unwrap_or_default();
            let number = event.get("event").and_then(Json::as_u64).unwrap_or_default();
            output.text(format_args!(
                "{number}  {}  {}/{}  {body}",
                text("/kind"),
                text("/entity/type"),
                text("/entity/id").escape_debug(),
            ))?;
        }
        if next == after && !args.follow {
            return Ok(Exit::Ok);
        }
        if next == after
            && let Source::Store(reader) = &source
        {
            reader.wait(SystemClock.sleep_until(SystemClock.now().plus(LOOK_AGAIN)));
        }
        after = next;
    }
}
