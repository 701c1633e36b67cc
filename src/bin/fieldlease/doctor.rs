//! `doctor`: what is wrong with the servers records and leases are kept on, and what to do about it.

use fieldlease::{
    config::StoreUrl,
    database::finding::{Finding, Level},
    lease::redis::checks::{Report, examine},
};
use serde_json::json;

use crate::{
    exit::Exit,
    lease_store::{RedisArgs, within},
    output::{Output, Result},
    source::wait,
    store_at,
};

/// Look at the database records are kept in, or at the Redis or Valkey servers leases are kept on, and say what to do
///
/// Nothing is changed: in Redis one key of its own lives for a moment, in databases statements are tried that match no
/// row. Ends with `findings` when a server cannot be trusted.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fieldlease doctor --store postgres://shop@db/shop\n  \
    fieldlease doctor --redis redis://127.0.0.1:6379\n  \
    fieldlease doctor --redis redis+sentinel://10.0.0.1,10.0.0.2/main --namespace shop\n  \
    fieldlease doctor --json")]
pub(crate) struct Args {
    /// Look at this store: postgres://.., mysql://.. or sqlite:FILE; with a password in it, use the variable
    #[arg(long, env = "FIELDLEASE_STORE", hide_env_values = true, value_name = "URL")]
    store: Option<StoreUrl>,
    #[command(flatten)]
    redis: RedisArgs,
}

pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    let mut worst = None;
    if let Some(store) = &args.store {
        let findings: Vec<Finding> = wait(store_at::checks(store))??;
        let place = store.to_string();
        worst = findings.iter().map(|finding| finding.level).max();
        let findings: Vec<Finding> = findings.into_iter().map(|it| it.at(&place)).collect();
        print(&findings, "", output)?;
        if !output.json {
            output.text(verdict(worst, "Records"))?;
        }
    }
    // Without a store it must be named.
    if args.store.is_none() || args.redis.is_named() {
        let url = args.redis.url()?;
        let report = wait(examine(url.reveal(), &within(&args.redis.namespace)))??;
        print(&report.findings, &format!(", namespace `{}`", args.redis.namespace), output)?;
        worst = worst.max(end(&report, output)?);
    }
    Ok(if worst == Some(Level::Refuse) { Exit::Findings } else { Exit::Ok })
}

fn print(findings: &[Finding], after: &str, output: Output) -> Result<()> {
    let (red, yellow, cyan, end) = ("\u{1b}[1;31m", "\u{1b}[1;33m", "\u{1b}[1;36m", "\u{1b}[0m");
    let mut shown = "";
    for Finding { level, code, place, message, remedy } in findings {
        if output.json {
            let level = level.to_string();
            output.json(&json!({
                "level": level, "code": code, "place": place, "message": message, "remedy": remedy,
            }))?;
            continue;
        }
        if place != shown {
            shown = place;
            output.text(format_args!("{place}{after}"))?;
        }
        let colour = match level {
            Level::Refuse => red,
            Level::Warn => yellow,
            Level::Info => cyan,
        };
        output.text(format_args!("  {colour}{level}[{code}]{end}: {message}"))?;
        output.text(format_args!("    {cyan}remedy{end}: {remedy}"))?;
    }
    Ok(())
}

/// The least rights leases need, and the judgement.
fn end(report: &Report, output: Output) -> Result<Option<Level>> {
    let worst = report.findings.iter().map(|finding| finding.level).max();
    if output.json {
        output.json(&json!({"refused": report.refuses(), "acl": report.acl}))?;
        return Ok(worst);
    }
    output.text("\nThe least a user needs, with a password of yours:")?;
    output.text(format_args!("  {}", report.acl))?;
    output.text(verdict(worst, "Leases"))?;
    Ok(worst)
}

fn verdict(worst: Option<Level>, what: &str) -> String {
    match worst {
        Some(Level::Refuse) => format!("\n{what} cannot be trusted to this server."),
        Some(Level::Warn) => format!("\n{what} work here; something should be done."),
        _ => format!("\nNothing stands against keeping {} here.", what.to_lowercase()),
    }
}
