//! `history`: what saves left behind.

use fieldlease::{entity::EntityRef, server, token::OperationId};
use serde_json::Value as Json;

use crate::{
    client::taken,
    exit::Exit,
    output::{Failure, Output, Result},
    source::{Source, SourceArgs},
};

/// Show the versions of a record, and the worker operations between them
///
/// Worker operations in a row are shown as one line; --all lists each of them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fieldlease history Product/42 --url http://127.0.0.1:4180 --token-file data/editor.token\n  \
    fieldlease history Product/42 --store data/fieldlease.db --all --limit 100\n  \
    fieldlease history Product/42 --store postgres://shop@db/shop")]
pub(crate) struct Args {
    /// The record, as TYPE/ID
    entity: String,
    /// Most entries to read
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=200))]
    limit: u32,
    /// Only entries older than this operation
    #[arg(long, value_name = "OPERATION")]
    before: Option<String>,
    /// List every worker operation
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    source: SourceArgs,
}

pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    let entity = entity(&args.entity)?;
    let entries: Vec<Json> = match args.source.open()? {
        Source::Store(reader) => {
            let before = args.before.as_deref().map(operation).transpose()?;
            let entries = reader.wait(reader.store.entries(&entity, before, args.limit))?;
            if entries.is_empty() && reader.wait(reader.store.load(&entity))?.is_none() {
                return Err(not_found(&args.entity));
            }
            entries.iter().map(server::entry_json).collect()
        }
        Source::Service(client) => {
            let mut route = format!("{}/history?limit={}", server::address(&entity), args.limit);
            if let Some(before) = &args.before {
                route.push_str(&format!("&before={}", operation(before)?));
            }
            taken(&mut client.get(&route)?, "entries")?
        }
    };
    if output.json {
        entries.iter().try_for_each(|entry| output.json(entry))?;
    } else if entries.is_empty() {
        output.text(format_args!("{entity} has no history"))?;
    } else {
        for line in lines(&entries, args.all) {
            output.text(line)?;
        }
    }
    Ok(Exit::Ok)
}

/// A record named on the command line.
pub(crate) fn entity(text: &str) -> Result<EntityRef> {
    EntityRef::parse(text).map_err(|error| Failure::new("bad_name", error.to_string(), ""))
}

/// Said of a record that never was.
pub(crate) fn not_found(entity: &str) -> Failure {
    Failure::new("not_found", format!("there is no record `{}`", entity.escape_debug()), "")
}

/// An operation named on the command line.
pub(crate) fn operation(text: &str) -> Result<OperationId> {
    OperationId::parse(text).ok_or_else(|| {
        let message = format!("`{}` is not an operation", text.escape_debug());
        Failure::new("bad_operation", message, "copy it from the history")
    })
}

/// The history as a person wants it: versions in full, system updates in between as one line.
fn lines(entries: &[Json], all: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let mut updates: Vec<&Json> = Vec::new();
    for entry in entries {
        let is_version = entry.get("version").is_some_and(|version| !version.is_null());
        if !is_version && !all {
            updates.push(entry);
            continue;
        }
        lines.extend(collapsed(&updates));
        updates.clear();
        lines.push(heading(entry));
        lines.extend(changes(entry));
    }
    lines.extend(collapsed(&updates));
    lines
}

fn collapsed(updates: &[&Json]) -> Option<String> {
    let mut counts: Vec<(String, u32)> = Vec::new();
    for update in updates {
        let name = writer(update);
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count = count.saturating_add(1),
            None => counts.push((name, 1)),
        }
    }
    let counts: Vec<String> =
        counts.into_iter().map(|(name, count)| format!("{name} {count}")).collect();
    let updates = match updates.len() {
        0 => return None,
        1 => "1 system update".to_owned(),
        more => format!("{more} system updates"),
    };
    Some(format!("        {updates} ({})", counts.join(", ")))
}

/// Who saved, on one line.
pub(crate) fn writer(entry: &Json) -> String {
    let name = |pointer: &str| entry.pointer(pointer).and_then(Json::as_str).unwrap_or_default();
    let who = name("/writer/name").escape_debug().to_string();
    match name("/writer/on_behalf_of") {
        "" => who,
        behalf => format!("{who} for {}", behalf.escape_debug()),
    }
}

/// Which entry it is, when and whose.
pub(crate) fn heading(entry: &Json) -> String {
    let number = entry.get("version").and_then(Json::as_u64);
    let what = number.map_or_else(|| "worker".to_owned(), |number| format!("v{number}"));
    let at = time(entry.get("at").and_then(Json::as_str).unwrap_or_default());
    let action = match entry.get("action").and_then(Json::as_str) {
        Some("update") | None => String::new(),
        Some(action) => format!("  {action}"),
    };
    let reason = entry.pointer("/detail/reason").or_else(|| entry.get("reason"));
    let reason = match reason.and_then(Json::as_str) {
        Some(reason) => format!("  ({})", reason.escape_debug()),
        None => String::new(),
    };
    format!("{what:<7} {at}  {}{action}{reason}", writer(entry))
}

fn changes(entry: &Json) -> Vec<String> {
    let Some(changed) = entry.get("changed").and_then(Json::as_array) else { return Vec::new() };
    let value =
        |changed: &Json, name: &str| changed.get(name).map_or_else(|| "nothing".to_owned(), brief);
    let line = |changed: &Json| {
        let path = changed.get("path").and_then(Json::as_str).unwrap_or_default();
        format!("        {path}: {} -> {}", value(changed, "old"), value(changed, "new"))
    };
    changed.iter().map(line).collect()
}

/// A value on one line, cut where it would fill the screen.
fn brief(value: &Json) -> String {
    const CHARS_MAX: usize = 60;
    let text = value.to_string();
    if text.chars().count() <= CHARS_MAX {
        return text;
    }
    text.chars().take(CHARS_MAX).chain("...".chars()).collect()
}

/// A time of the service as a person reads it: to the second.
fn time(text: &str) -> String {
    match text.split_once('T') {
        Some((day, rest)) => {
            format!("{day} {}Z", rest.split(['.', 'Z']).next().unwrap_or_default())
        }
        None => text.escape_debug().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const AT: &str = "2026-11-30T18:02:01.999Z";

    #[test]
    fn updates_of_workers_between_versions_are_one_line() {
        let worker = |name: &str| json!({"version": null, "at": AT, "writer": {"name": name}});
        let entries = [
            worker("media"),
            worker("search"),
            worker("media"),
            json!({"version": 2, "at": AT, "action": "update", "writer": {"name": "anna"},
                "changed": [{"path": "name", "old": "Stool", "new": "Oak stool"}]}),
            worker("media"),
        ];

        assert_eq!(
            lines(&entries, false),
            [
                "        3 system updates (media 2, search 1)",
                "v2      2026-11-30 18:02:01Z  anna",
                "        name: \"Stool\" -> \"Oak stool\"",
                "        1 system update (media 1)",
            ]
        );
        assert_eq!(lines(&entries, true).len(), 6);
    }
}
