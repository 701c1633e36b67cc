//! `sql`: statements for a CMS that writes its own tables and lets the engine decide.

use std::{
    path::{Path as FilePath, PathBuf},
    sync::Arc,
};

use clap::ValueEnum;
use fieldlease::{
    mapping::{self, Mapping},
    registry::{EntityRules, Group, Locking, Owner},
};
use serde_json::json;

use crate::{
    exit::Exit,
    output::{Failure, Output, Result, read_input},
    registry_file,
};

/// Print statements for a CMS that writes its own tables
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fieldlease sql guard Product media --registry schemas/example.yaml --dialect postgres\n  \
    fieldlease sql guard Product editor --registry schemas/example.yaml --dialect mysql --json\n  \
    fieldlease sql trigger Product --registry mapped.yaml --dialect mysql | mysql shop\n  \
    fieldlease sql trigger Product --registry mapped.yaml --dialect postgres --refuse")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// The statement that asks, inside your own transaction, whether you may write a group, and leaves the traces of a save
    ///
    /// It raises the version of the group's scope, stamps the paths you changed and leaves an operation record or a
    /// version; or it says why not.
    Guard(GuardArgs),
    /// Triggers on the tables of a mapped entity type that find writes made past the engine
    Trigger(TriggerArgs),
}

#[derive(Debug, clap::Args)]
struct TriggerArgs {
    /// The entity type
    entity: String,
    /// The registry, or - for standard input
    #[arg(long, value_name = "FILE")]
    registry: PathBuf,
    /// The database it is for
    #[arg(long)]
    dialect: Dialect,
    /// End the statement that writes, instead of counting it in fl_bypass
    #[arg(long)]
    refuse: bool,
}

#[derive(Debug, clap::Args)]
struct GuardArgs {
    /// The entity type
    entity: String,
    /// The group, as `fieldlease explain` names it
    group: String,
    /// The registry, or - for standard input
    #[arg(long, value_name = "FILE")]
    registry: PathBuf,
    /// The database it is for
    #[arg(long)]
    dialect: Dialect,
    /// Who writes; needed for a shared group, which both may write
    #[arg(long, value_name = "KIND")]
    writer: Option<WriterKind>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Dialect {
    Postgres,
    /// MariaDB too
    #[value(alias = "mariadb")]
    Mysql,
    Sqlite,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WriterKind {
    Editor,
    Worker,
}

/// A named parameter of a statement: name, and what to pass.
type Parameter = (&'static str, String);

/// What an answer means, by its word.
const ANSWERS: [(&str, &str); 8] = [
    ("applied", "go on; `version` is the scope's version now, and your COMMIT makes it true"),
    ("already", "this operation took effect before: do not write again"),
    ("stale", "the group moved since the version you passed: load again"),
    (
        "fenced",
        "somebody else holds the group, or your claim was overtaken: leave it, or claim again",
    ),
    ("gone", "the record was deleted"),
    (
        "stale_registry",
        "other rules are in force: print this statement again from the present registry",
    ),
    (
        "bad_change",
        "`changes` or `state` is not as described, or names something that is no plain path",
    ),
    ("void", "this operation was asked after and given up: use a new one"),
];

pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    match &args.what {
        What::Guard(args) => guard(args, output),
        What::Trigger(args) => trigger(args, output),
    }
}

/// The rules of an entity type in a registry that loads.
fn rules_of(file: &FilePath, entity: &str, output: Output) -> Result<Arc<EntityRules>> {
    let bytes = read_input(file)?;
    let name = file.display().to_string();
    let registry = registry_file::must_load(&name, &bytes, output)?.registry;
    registry.entity(entity).cloned().ok_or_else(|| {
        let known: Vec<&str> = registry.entities().map(|rules| rules.kind.as_str()).collect();
        let message = format!("there is no entity type `{}`", entity.escape_debug());
        Failure::new("unknown_type", message, format!("the registry has: {}", known.join(", ")))
    })
}

fn trigger(args: &TriggerArgs, output: Output) -> Result<Exit> {
    let rules = rules_of(&args.registry, &args.entity, output)?;
    let mapping = Mapping::of(&rules).ok_or_else(|| {
        let message =
            format!("`{}` has no `storage`: its records are the store's own", args.entity);
        Failure::new("not_mapped", message, "write them through the engine")
    })?;
    let dialect = match args.dialect {
        Dialect::Sqlite => mapping::Dialect::Sqlite,
        Dialect::Postgres => mapping::Dialect::Postgres,
        Dialect::Mysql => mapping::Dialect::Mysql,
    };
    let text = mapping.trigger_sql(dialect, args.refuse);
    match output.json {
        true => output.json(&json!({"statement": text}))?,
        false => output.text(text.trim_end())?,
    }
    Ok(Exit::Ok)
}

fn guard(args: &GuardArgs, output: Output) -> Result<Exit> {
    let rules = rules_of(&args.registry, &args.entity, output)?;
    let group = rules.group(&args.group).ok_or_else(|| {
        let known: Vec<&str> = rules.groups.keys().map(|name| name.as_str()).collect();
        let message = format!("`{}` has no group `{}`", args.entity, args.group.escape_debug());
        Failure::new("unknown_group", message, format!("its groups: {}", known.join(", ")))
    })?;
    let kind = writer_of(group, args.writer)?;
    let hash: String = rules.generation.0.iter().map(|byte| format!("{byte:02x}")).collect();
    let statement = statement(args, group, kind, &hash);
    let parameters = parameters(args.dialect, group, kind);
    if output.json {
        let parameters: Vec<_> =
            parameters.iter().map(|(name, means)| json!({"name": name, "means": means})).collect();
        let answers: serde_json::Map<_, _> =
            ANSWERS.iter().map(|(word, means)| ((*word).to_owned(), json!(means))).collect();
        output.json(&json!({
            "statement": statement, "parameters": parameters, "answers": answers,
            "generation": hash, "writer": format!("{kind:?}").to_lowercase(),
        }))?;
        return Ok(Exit::Ok);
    }
    output.text(format_args!(
        "-- {} {}, group `{}`",
        args.entity,
        hash_start(&hash),
        group.name
    ))?;
    for (name, means) in &parameters {
        output.text(format_args!("--   :{name:<10} {means}"))?;
    }
    output.text("-- Answers:")?;
    for (word, means) in ANSWERS {
        output.text(format_args!("--   {word:<15} {means}"))?;
    }
    output.text(statement.trim_end())?;
    Ok(Exit::Ok)
}

/// Which rules it was printed from, for people.
fn hash_start(hash: &str) -> String {
    format!("by rules {}", hash.get(..12).unwrap_or(hash))
}

/// Editors leave versions, workers operation records: whose group it is decides, or the caller where both may write.
fn writer_of(group: &Group, told: Option<WriterKind>) -> Result<WriterKind> {
    let own = match group.owner {
        Owner::Editor => Some(WriterKind::Editor),
        Owner::System => Some(WriterKind::Worker),
        Owner::Shared | Owner::Deny => None,
    };
    match (own, told) {
        (Some(own), Some(told)) if own != told => {
            let message =
                format!("group `{}` is not written by {told:?}s", group.name).to_lowercase();
            Err(Failure::new("usage", message, "leave --writer out"))
        }
        (Some(kind), _) | (None, Some(kind)) => Ok(kind),
        (None, None) => {
            let message = format!("editors and workers write group `{}`", group.name);
            Err(Failure::new("usage", message, "say --writer editor or --writer worker"))
        }
    }
}

fn statement(args: &GuardArgs, group: &Group, kind: WriterKind, hash: &str) -> String {
    let (template, generation) = match args.dialect {
        Dialect::Postgres => (include_str!("sql/guard_postgres.sql"), format!("'\\x{hash}'")),
        Dialect::Mysql => (include_str!("sql/guard_mysql.sql"), format!("'{hash}'")),
        Dialect::Sqlite => (include_str!("sql/guard_sqlite.sql"), format!("x'{hash}'")),
    };
    // Names of types and groups are letters, digits and _ . - only: nothing to escape.
    let scope =
        if group.split_by.is_empty() { format!("'{}'", group.name) } else { ":scope".to_owned() };
    let leased = group.locking == Locking::Lease;
    let fence = match (leased, args.dialect) {
        (false, _) => "NULL",
        (true, Dialect::Postgres) => "CAST(:fence AS bigint)",
        (true, Dialect::Mysql | Dialect::Sqlite) => ":fence",
    };
    let (kind, state) = match (kind, args.dialect) {
        (WriterKind::Worker, _) => ("'worker'", "NULL"),
        (WriterKind::Editor, Dialect::Postgres) => ("'editor'", "CAST(:state AS json)"),
        (WriterKind::Editor, Dialect::Mysql | Dialect::Sqlite) => ("'editor'", ":state"),
    };
    template
        .replace("{type}", &format!("'{}'", args.entity))
        .replace("{generation}", &generation)
        .replace("{scope}", &scope)
        .replace("{fence}", fence)
        .replace("{state}", state)
        .replace("{kind}", kind)
}

fn parameters(dialect: Dialect, group: &Group, kind: WriterKind) -> Vec<Parameter> {
    let operation = match dialect {
        Dialect::Sqlite => "16 bytes of a new UUID (version 7), one per write; keep it for a retry",
        Dialect::Postgres | Dialect::Mysql => {
            "a new UUID (version 7) as text, one per write; keep it for a retry"
        }
    };
    let mut parameters: Vec<Parameter> =
        vec![("operation", operation.to_owned()), ("id", "the record's id".to_owned())];
    if !group.split_by.is_empty() {
        let axes: Vec<String> = group.split_by.iter().map(|axis| format!("{axis}=..")).collect();
        let means = format!("{}[{}], axes in the order of their names", group.name, axes.join(","));
        parameters.push(("scope", means));
    }
    let version = "the scope's version when you loaded the record, or NULL to compare none";
    parameters.push(("version", version.to_owned()));
    if group.locking == Locking::Lease {
        let fence =
            "the fence of your claim; NULL without a claim, and then nobody may hold the group";
        parameters.push(("fence", fence.to_owned()));
    }
    let changes = r#"JSON: [{"path": "..", "old": .., "new": ..}], every field you change; leave out old or new where there is no value"#;
    parameters.push(("changes", changes.to_owned()));
    if kind == WriterKind::Editor {
        let state = r#"JSON: {"path": ..}, every editor-owned value after your write: what the version remembers"#;
        parameters.push(("state", state.to_owned()));
    }
    parameters.push(("writer", "who writes: a name for history and blame".to_owned()));
    parameters
}
