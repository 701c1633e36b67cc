//! What `serve` says when it is ready: where it listens, and three commands to try.

use std::{net::SocketAddr, path::PathBuf};

use fieldlease::{config::Config, registry::Registry, server::first_tokens::FirstTokens};
use serde_json::json;

use super::{FIRST_RECORD, example_fits};
use crate::output::{Output, Result};

/// Where it listens, and three commands to try.
pub(super) fn greet(
    output: Output,
    config: &Config,
    name: &str,
    registry: &Registry,
    address: SocketAddr,
    first: Option<&FirstTokens>,
) -> Result<()> {
    let url = format!("http://{address}");
    let kinds: Vec<String> = registry.entities().map(|rules| rules.kind.to_string()).collect();
    let store = config.store.to_string();
    let example = example_fits(registry);
    let kind = registry.entities().next().map_or(FIRST_RECORD.0, |rules| rules.kind.as_str());
    let commands = if example { commands(&url, first) } else { commands_for(&url, kind, first) };
    if output.json {
        return output.json(&json!({
            "address": url,
            "registry": name,
            "entity_types": kinds,
            "store": store,
            "leases": config.leases.as_ref().map(ToString::to_string),
            "tokens": first.map_or(config.tokens.as_ref(), |first| Some(&first.file)),
            "try": commands.iter().map(|(_, command)| command).collect::<Vec<_>>(),
        }));
    }
    output.text(format_args!("fieldlease is listening on {url}"))?;
    output.text(format_args!("  registry  {name}: {}", kinds.join(", ")))?;
    output.text(format_args!("  store     {store}"))?;
    if let Some(leases) = &config.leases {
        output.text(format_args!("  leases    {leases} as {}", config.namespace))?;
    }
    if let Some(first) = first {
        output.text(format_args!("  tokens    {}", first.file.display()))?;
    }
    output.text("\nTry, in another terminal:")?;
    for (what, command) in commands {
        output.text(format_args!("\n  # {what}\n  {command}"))?;
    }
    output.text("")
}

/// How a shell reads a token.
fn token(path: Option<&PathBuf>, name: &str) -> String {
    path.map_or_else(|| format!("${name}"), |path| format!("$(cat '{}')", path.display()))
}

/// What works with any registry: nothing is said about its fields.
fn commands_for(url: &str, kind: &str, first: Option<&FirstTokens>) -> [(&'static str, String); 3] {
    let editor = token(first.map(|first| &first.editor), "EDITOR_TOKEN");
    let ask =
        |route: &str| format!("curl -s {url}/v1/{route} -H \"Authorization: Bearer {editor}\"");
    [
        ("a record, once it was created", ask(&format!("entities/{kind}/1"))),
        ("what its saves left behind", ask(&format!("entities/{kind}/1/history"))),
        ("who holds which lease", ask("leases")),
    ]
}

fn commands(url: &str, first: Option<&FirstTokens>) -> [(&'static str, String); 3] {
    let editor = token(first.map(|first| &first.editor), "EDITOR_TOKEN");
    let worker = token(first.map(|first| &first.worker), "WORKER_TOKEN");
    let (kind, id) = FIRST_RECORD;
    let record = format!("{url}/v1/entities/{kind}/{id}");
    let save = |token: &str, body: &str| {
        format!(
            "curl -s {record}/save -H \"Authorization: Bearer {token}\" \
             -H 'Content-Type: application/json' -d '{body}'"
        )
    };
    [
        (
            "an editor saves one field: one version",
            save(&editor, r#"{"changes": {"description": "Solid oak, oiled."}}"#),
        ),
        (
            "a worker saves another: an operation record, no version",
            save(&worker, r#"{"changes": {"thumbnail": "chair.webp"}}"#),
        ),
        (
            "what both left behind",
            format!("curl -s {record}/history -H \"Authorization: Bearer {editor}\""),
        ),
    ]
}
