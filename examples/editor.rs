//! Two people, one form: what fits together is kept, what does not is shown, and nothing that was typed is lost.
//!
//! `cargo run --example editor`

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::{fmt::Write, sync::Arc};

use fieldlease::{
    engine::{Engine, Outcome},
    entity::{Change, EntityRef, Value},
    registry::{self, Limits},
    strategy::Strategies,
};

const RULES: &str = "
field_ownership:
  Product:
    editor_owned: [name, description]
    shared:
      categories: set_merge
";

/// What it prints, with its records in this file.
pub async fn run(file: &std::path::Path) -> Result<String, Box<dyn std::error::Error>> {
    let raw = registry::read(RULES.as_bytes(), &Limits::default()).0.ok_or("not YAML")?;
    let registry = registry::resolve(&raw, &Strategies::standard()).0.ok_or("faulty rules")?;
    let engine = Engine::builder(Arc::new(registry)).source(RULES).sqlite(file).build().await?;
    let chair = EntityRef::parse("Product/42")?;
    let (anna, ben) = (engine.editor("anna"), engine.editor("ben"));
    let _ =
        anna.create(&chair).set("name", "Chair").set("categories", vec!["seats"]).send().await?;
    let mut text = String::new();

    // Both open the form, and Ben saves first.
    let form = anna.load(&chair).await?.ok_or("not there")?;
    let bens = ben.save(&chair).token(&form.token).set("name", "Armchair");
    let bens = bens.set("categories", vec!["seats", "new"]).send().await?;
    writeln!(text, "Ben: {}", bens.code())?;

    // Anna renamed it too. Her description and category are fine, the name is not: nothing is written.
    let annas = anna.save(&chair).token(&form.token).set("name", "Comfy chair");
    let annas = annas.set("description", "Red").set("categories", vec!["seats", "sale"]);
    let refused = match annas.send().await? {
        Outcome::Refused(refused) => refused,
        other => return Err(format!("not refused: {}", other.code()).into()),
    };
    writeln!(text, "Anna: {}", refused.why.code())?;
    let plan = refused.plan.as_ref().ok_or("no plan")?;
    for (path, conflict) in plan.conflicts() {
        let who = conflict.since.as_ref().map_or("somebody", |since| &since.writer.name);
        let (base, theirs) = (shown(conflict.base.as_ref()), shown(Some(&conflict.theirs)));
        let ours = match &conflict.ours {
            Change::Set(value) => value.to_string(),
            other => format!("{other:?}"),
        };
        writeln!(text, "  {path}: it was {base}; {who} made it {theirs}; you typed {ours}")?;
    }

    // The answer says what else is new, and its token counts all of it as seen: she keeps her name, and adds her
    // category to Ben's.
    for (path, value) in &refused.news {
        writeln!(text, "  new: {path} = {}", shown(Some(value)))?;
    }
    let token = refused.token.as_ref().ok_or("no token")?;
    let again = anna.save(&chair).token(token).set("name", "Comfy chair").set("description", "Red");
    let resolved = again.include("categories", ["sale"]).send().await?;
    writeln!(text, "Anna, having seen it: {}", resolved.code())?;
    for (path, value) in &anna.load(&chair).await?.ok_or("not there")?.fields {
        writeln!(text, "{path} = {value}")?;
    }
    engine.shutdown(std::time::Duration::from_secs(5)).await;
    Ok(text)
}

fn shown(value: Option<&Value>) -> String {
    match value {
        None => "not known".to_owned(),
        Some(Value::Absent) => "empty".to_owned(),
        Some(Value::Present(json)) => json.to_string(),
    }
}

#[tokio::main]
#[cfg_attr(test, expect(dead_code, reason = "tests call `run`"))]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    print!("{}", run(&folder.path().join("store.db")).await?);
    Ok(())
}
