//! `doctor`: what is wrong with the servers leases are kept on, and what to do about it.

use fieldlease::lease::redis::checks::{Finding, Level, Report, examine};
use serde_json::json;

use crate::{
    exit::Exit,
    lease_store::{RedisArgs, within},
    output::{Output, Result},
    source::wait,
};

/// Look at the Redis or Valkey servers leases are kept on, and say what to do
///
/// Nothing is changed: one key of its own lives there for a moment. Ends with `findings` when leases cannot be trusted
/// to a server.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fieldlease doctor --redis redis://127.0.0.1:6379\n  \
    fieldlease doctor --redis redis+sentinel://10.0.0.1,10.0.0.2/main --namespace shop\n  \
    fieldlease doctor --json")]
pub(crate) struct Args {
    #[command(flatten)]
    redis: RedisArgs,
}

pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    let url = args.redis.url()?;
    let report = wait(examine(url.reveal(), &within(&args.redis.namespace)))??;
    match output.json {
        true => print_json(&report, output)?,
        false => print_text(&report, &args.redis.namespace, output)?,
    }
    Ok(if report.refuses() { Exit::Findings } else { Exit::Ok })
}

fn print_json(report: &Report, output: Output) -> Result<()> {
    for Finding { level, code, node, message, remedy } in &report.findings {
        let level = level.to_string();
        output.json(&json!({
            "level": level, "code": code, "node": node, "message": message, "remedy": remedy,
        }))?;
    }
    output.json(&json!({"refused": report.refuses(), "acl": report.acl}))
}

fn print_text(report: &Report, namespace: &str, output: Output) -> Result<()> {
    let (red, yellow, cyan, end) = ("\u{1b}[1;31m", "\u{1b}[1;33m", "\u{1b}[1;36m", "\u{1b}[0m");
    let mut node = "";
    for finding in &report.findings {
        if finding.node != node {
            node = &finding.node;
            output.text(format_args!("{node}, namespace `{namespace}`"))?;
        }
        let colour = match finding.level {
            Level::Refuse => red,
            Level::Warn => yellow,
            Level::Info => cyan,
        };
        let Finding { level, code, message, remedy, .. } = finding;
        output.text(format_args!("  {colour}{level}[{code}]{end}: {message}"))?;
        output.text(format_args!("    {cyan}remedy{end}: {remedy}"))?;
    }
    output.text("\nThe least a user needs, with a password of yours:")?;
    output.text(format_args!("  {}", report.acl))?;
    let worst = report.findings.iter().map(|finding| finding.level).max();
    output.text(match worst {
        Some(Level::Refuse) => "\nLeases cannot be trusted to this server.",
        Some(Level::Warn) => "\nLeases work here; something should be done.",
        _ => "\nNothing stands against keeping leases here.",
    })
}
