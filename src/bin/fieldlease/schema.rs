//! `schema`: the JSON Schema of a registry, for editors of YAML.

use fieldlease::registry::schema::json_schema;

use crate::{
    exit::Exit,
    output::{Output, Result},
};

/// Print the JSON Schema of the registry
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fieldlease schema > registry.schema.json\n  \
    # then, as the first line of a registry:\n  \
    # yaml-language-server: $schema=registry.schema.json")]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args, output: Output) -> Result<Exit> {
    output.text(json_schema().trim_end())?;
    Ok(Exit::Ok)
}
