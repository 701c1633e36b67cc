//! `blame`: why a value is there.

use std::collections::BTreeMap;

use fieldlease::{path::Path, server};
use serde_json::{Map, Value as Json};

use crate::{
    client::{encode, taken},
    exit::Exit,
    history::{entity, heading, not_found},
    output::{Output, Result},
    source::{Source, SourceArgs},
};

/// Show, per path, which save last changed it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fieldlease blame Product/42 price --url http://127.0.0.1:4180 --token-file data/editor.token\n  \
    fieldlease blame Product/42 --store data/fieldlease.db")]
pub(crate) struct Args {
    /// The record, as TYPE/ID
    entity: String,
    /// Paths to ask for; every field there is if none is named
    #[arg(value_name = "PATH")]
    paths: Vec<String>,
    #[command(flatten)]
    source: SourceArgs,
}

pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    let entity = entity(&args.entity)?;
    let mut paths = Vec::new();
    for text in &args.paths {
        paths.push(Path::parse(text).map_err(fieldlease::error::Error::from)?);
    }
    let blamed: Map<String, Json> = match args.source.open()? {
        Source::Store(reader) => {
            let snapshot = reader.wait(reader.store.load(&entity))?;
            let snapshot = snapshot.ok_or_else(|| not_found(&args.entity))?;
            if paths.is_empty() {
                paths = snapshot.stamps.into_keys().collect();
            }
            let blamed: BTreeMap<_, _> = reader.wait(reader.store.blame(&entity, &paths))?;
            blamed
                .iter()
                .map(|(path, entry)| (path.to_string(), server::entry_json(entry)))
                .collect()
        }
        Source::Service(client) => {
            let query: Vec<String> =
                paths.iter().map(|path| format!("path={}", encode(path.as_str()))).collect();
            let route = format!("{}/blame?{}", server::address(&entity), query.join("&"));
            taken(&mut client.get(route.trim_end_matches('?'))?, "paths")?
        }
    };
    if output.json {
        output.json(&Json::Object(blamed))?;
        return Ok(Exit::Ok);
    }
    for (path, entry) in &blamed {
        output.text(format_args!("{path}\n        {}", heading(entry)))?;
    }
    for path in paths.iter().filter(|path| !blamed.contains_key(path.as_str())) {
        output.text(format_args!("{path}\n        nobody has saved it"))?;
    }
    Ok(Exit::Ok)
}
