//! A plan as text a person can act on.

use std::fmt::{self, Write as _};

use super::remedy;
use crate::{
    entity::{Change, GroupName, Value},
    plan::{Conflict, Decided, Decision, DenyRule, Plan, Verdict, Written},
    registry::Owner,
};

/// Longest value shown, in characters; the rest is counted.
const VALUE_CHARS_MAX: usize = 100;

/// The plan as text: what happens to each path, and for a refusal the three values, whose value is stored, since when,
/// by which rule, and what to do.
#[must_use]
pub fn report_text(plan: &Plan) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_plan(plan, &mut out);
    out
}

fn write_plan(plan: &Plan, out: &mut String) -> fmt::Result {
    let count = |code: &str| plan.decisions.iter().filter(|d| d.decision.code() == code).count();
    match &plan.verdict {
        Verdict::Apply => {
            let paths = count("write") + count("merge");
            writeln!(out, "{}: {} would change", plan.entity, fields(paths))?;
        }
        Verdict::Nothing => writeln!(out, "{}: nothing would change", plan.entity)?,
        Verdict::Refuse { code, message } if message.is_empty() => {
            let why = match *code {
                "conflict" => format!("{} changed by two writers", fields(count(code))),
                "denied" => format!("{} not yours to write", fields(count(code))),
                "invalid" => format!("{} cannot be decided", fields(count(code))),
                "stale_input" => format!("{} computed from old inputs", fields(count(code))),
                "parent_gone" => format!("{} in a removed item", fields(count(code))),
                code => code.to_owned(),
            };
            writeln!(out, "{}: refused, nothing was written: {why}", plan.entity)?;
        }
        Verdict::Refuse { message, .. } => {
            writeln!(out, "{}: refused, nothing was written: {message}", plan.entity)?;
        }
    }
    let refused = matches!(plan.verdict, Verdict::Refuse { .. });
    for decided in &plan.decisions {
        write_decided(decided, refused, out)?;
    }
    if !plan.removed_items.is_empty() {
        for item in &plan.removed_items {
            writeln!(out, "  {item}: removed with everything in it")?;
        }
    }
    Ok(())
}

fn fields(count: usize) -> String {
    if count == 1 { "1 field".to_owned() } else { format!("{count} fields") }
}

fn write_decided(decided: &Decided, refused: bool, out: &mut String) -> fmt::Result {
    write!(out, "  {}: ", decided.path)?;
    if refused && decided.decision.written().is_some() {
        write!(out, "would be ")?;
    }
    match &decided.decision {
        Decision::Unchanged => writeln!(out, "unchanged")?,
        Decision::Write(written) => {
            writeln!(
                out,
                "{}{}",
                change_of(written),
                if written.forced { " (forced)" } else { "" }
            )?;
            write_lost(written, out)?;
        }
        Decision::Merge { strategy, base, ours, written } => {
            writeln!(out, "merged by `{strategy}`: {}", change_of(written))?;
            write_three(base.as_ref(), ours, &written.old, out)?;
            write_lost(written, out)?;
        }
        Decision::Kept { strategy, rule, theirs } => {
            writeln!(out, "kept {} ({strategy}: {rule})", value(theirs))?;
        }
        Decision::Denied { owner, rule } => {
            writeln!(out, "denied: {}", denied(decided, *owner, *rule))?;
        }
        Decision::Conflict(conflict) => write_conflict(conflict, out)?,
        Decision::StaleInput { inputs } => {
            let inputs: Vec<String> = inputs.iter().map(|path| format!("`{path}`")).collect();
            writeln!(out, "left out: {} changed since it was computed", inputs.join(", "))?;
        }
        Decision::ParentGone { parent } => writeln!(out, "left out: `{parent}` is gone")?,
        Decision::Invalid { message, .. } => writeln!(out, "invalid: {message}")?,
    }
    match remedy(&decided.decision) {
        Some(help) if !matches!(decided.decision, Decision::Kept { .. }) => {
            writeln!(out, "      to do:  {help}")
        }
        _ => Ok(()),
    }
}

fn write_conflict(conflict: &Conflict, out: &mut String) -> fmt::Result {
    let strategy = conflict.strategy.as_deref().unwrap_or("one owner");
    writeln!(out, "conflict ({strategy}: {})", conflict.rule)?;
    write_three(conflict.base.as_ref(), &conflict.ours, &conflict.theirs, out)?;
    match &conflict.since {
        // A dry run on a file is told who saved it, and not when.
        Some(stamp) if stamp.at.0 == 0 => writeln!(out, "      whose:  {}", stamp.writer),
        Some(stamp) => writeln!(
            out,
            "      whose:  {}, {}, `{}` version {}",
            stamp.writer, stamp.at, stamp.scope, stamp.version
        ),
        None => writeln!(out, "      whose:  not known, from before the first recorded save"),
    }
}

fn write_three(
    base: Option<&Value>,
    ours: &Change,
    theirs: &Value,
    out: &mut String,
) -> fmt::Result {
    let shown = base.map_or_else(|| "not known".to_owned(), value);
    let mine = match ours {
        Change::Set(json) => value(&Value::Present(json.clone())),
        Change::Unset => "remove it".to_owned(),
        Change::Add(delta) => format!("add {delta}"),
        Change::Include(members) => {
            format!("include {}", value(&Value::Present(members.clone().into())))
        }
        Change::Exclude(members) => {
            format!("exclude {}", value(&Value::Present(members.clone().into())))
        }
    };
    writeln!(out, "      shown:  {shown}")?;
    writeln!(out, "      mine:   {mine}")?;
    writeln!(out, "      stored: {}", value(theirs))
}

fn write_lost(written: &Written, out: &mut String) -> fmt::Result {
    for lost in &written.lost {
        writeln!(out, "      lost:   {}", value(lost))?;
    }
    Ok(())
}

fn change_of(written: &Written) -> String {
    format!("{} -> {}", value(&written.old), value(&written.new))
}

fn denied(decided: &Decided, owner: Owner, rule: DenyRule) -> String {
    let group = decided.group().map_or("", GroupName::as_str);
    match rule {
        DenyRule::Owner if owner.to_string() == group => format!("it belongs to `{group}`"),
        DenyRule::Owner => format!("it belongs to the {owner} group `{group}`"),
        DenyRule::Writers => format!("the group `{group}` names its writers"),
        DenyRule::Credential => format!("the credential does not include the group `{group}`"),
        DenyRule::Unlisted => "nobody owns it".to_owned(),
        DenyRule::Structure => "only the owner of `#keys` creates and removes items".to_owned(),
        DenyRule::Below => format!("a field below it belongs to another owner ({owner})"),
        DenyRule::Apply => "`apply` writes only to groups of workers".to_owned(),
    }
}

/// One line, shortened.
fn value(value: &Value) -> String {
    let Value::Present(json) = value else { return "absent".to_owned() };
    let text = json.to_string();
    let count = text.chars().count();
    if count <= VALUE_CHARS_MAX {
        return text;
    }
    let start: String = text.chars().take(VALUE_CHARS_MAX).collect();
    format!("{start}... ({count} characters)")
}
