//! A worker's day: a claim, saves under it, a neighbour that has to wait, and a result that came too late.
//!
//! `cargo run --example worker`

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::{fmt::Write, sync::Arc};

use fieldlease::{
    engine::{Claiming, Engine},
    entity::EntityRef,
    registry::{self, Limits, OnBusy},
    strategy::Strategies,
};

const RULES: &str = "
field_ownership:
  Product:
    editor_owned: [name, images]
    system_owned:
      media: {fields: [thumbnail, width], ttl: 30s, on_busy: skip}
      preview: {fields: [preview], derived_from: [images]}
    shared:
      stock: {strategy: counter, group: stock}
";

/// What it prints, with its records in this file.
pub async fn run(file: &std::path::Path) -> Result<String, Box<dyn std::error::Error>> {
    let raw = registry::read(RULES.as_bytes(), &Limits::default()).0.ok_or("not YAML")?;
    let registry = registry::resolve(&raw, &Strategies::standard()).0.ok_or("faulty rules")?;
    let engine = Engine::builder(Arc::new(registry)).source(RULES).sqlite(file).build().await?;
    let chair = EntityRef::parse("Product/42")?;
    let anna = engine.editor("anna");
    let _ = anna.create(&chair).set("images", vec!["a.jpg"]).send().await?;
    let mut text = String::new();

    // The claim covers `media`: nobody else writes it until it is released, lost or dropped.
    let thumbnailer = engine.worker("thumbnailer");
    let claim = match thumbnailer.claim(&chair, ["media"]).send().await? {
        Claiming::Claimed(claim) => claim,
        other => return Err(format!("not claimed: {other:?}").into()),
    };
    let outcome = claim.save().set("thumbnail", "small.jpg").add("stock", 3).send().await?;
    writeln!(text, "under the claim: {}", outcome.code())?;

    // A second worker of the same group: the registry says `skip`.
    let second = engine.worker("second").save(&chair).set("width", 80).send().await?;
    writeln!(text, "beside it: {}", second.code())?;
    let fail = OnBusy::Fail;
    let second = engine.worker("second").save(&chair).set("width", 80).on_busy(fail);
    writeln!(text, "and with `fail`: {}", second.send().await?.code())?;

    // An editor never waits for a worker.
    let token = anna.load(&chair).await?.ok_or("not there")?.token;
    let edited = anna.save(&chair).token(token).set("name", "Chair").send().await?;
    writeln!(text, "the editor: {}", edited.code())?;
    claim.release().await;

    // A result computed from images that have changed since is not written.
    let seen = anna.load(&chair).await?.ok_or("not there")?;
    let images = anna.save(&chair).seen(&seen).set("images", vec!["b.jpg"]).send().await?;
    writeln!(text, "new images: {}", images.code())?;
    let late = engine.worker("previewer").apply(&chair).seen(&seen).set("preview", "of a.jpg");
    writeln!(text, "a preview of the old ones: {}", late.send().await?.code())?;
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
