//! The shortest way: declare who owns what, then let an editor and a worker save the same record.
//!
//! `cargo run --example quickstart`

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use fieldlease::{
    engine::Engine,
    entity::EntityRef,
    registry::{self, Limits},
    strategy::Strategies,
};

const RULES: &str = "
field_ownership:
  Product:
    editor_owned: [name, images]
    system_owned:
      media: [thumbnail]
";

/// What it prints, with its records in this file.
pub async fn run(file: &std::path::Path) -> Result<String, Box<dyn std::error::Error>> {
    let raw = registry::read(RULES.as_bytes(), &Limits::default()).0.ok_or("not YAML")?;
    let registry = registry::resolve(&raw, &Strategies::standard()).0.ok_or("faulty rules")?;
    let engine = Engine::builder(Arc::new(registry)).source(RULES).sqlite(file).build().await?;
    let chair = EntityRef::parse("Product/42")?;

    // A person: saving makes a version.
    let anna = engine.editor("anna");
    let created = anna.create(&chair).set("name", "Chair").set("images", vec!["a.jpg"]);
    let created = created.send().await?;

    // A program: its save makes no version, and takes nothing away from anybody.
    let thumbnailer = engine.worker("thumbnailer");
    let job = |job: fieldlease::engine::Job| async move {
        let images = job.get("images").unwrap_or_default();
        let thumbnail =
            format!("small-{}", images.get(0).and_then(|image| image.as_str()).unwrap_or("none"));
        Ok::<_, fieldlease::error::Error>(job.changes().set("thumbnail", thumbnail))
    };
    let made = thumbnailer.run(&chair, ["media"], job).await?;

    let loaded = anna.load(&chair).await?.ok_or("not there")?;
    let mut text = format!("create: {}, thumbnail: {}\n", created.code(), made.code());
    for (path, value) in &loaded.fields {
        text.push_str(&format!("{path} = {value}\n"));
    }
    text.push_str(&format!("versions: {}\n", loaded.number));
    engine.shutdown(std::time::Duration::from_secs(5)).await;
    Ok(text)
}

#[tokio::main]
#[cfg_attr(test, expect(dead_code, reason = "tests call `run`"))]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    print!("{}", run(&folder.path().join("store.db")).await?);
    Ok(())
}
