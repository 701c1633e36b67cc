//! `plan`: what a save would do, without doing it.

use std::{collections::BTreeMap, path::PathBuf};

use fieldlease::{
    clock::StoreTime,
    entity::{EntityRef, Writer, WriterKind},
    json,
    path::Path,
    plan::{ForceRight, Mode, PlanInput, Seen, Verdict, plan, report_json, report_text},
    record::Record,
    registry::{EntityRules, Registry},
    server::{
        self,
        problem::Problem,
        wire::{SaveAsk, SaveBody, shape},
    },
    snapshot::{Snapshot, Stamp},
    token::{Incarnation, OperationId, ScopeVersion},
};
use serde_json::{Map, Value as Json};

use crate::{
    client::{ServiceArgs, taken},
    exit::{self, Exit},
    history::entity,
    output::{Failure, Output, Result, read_input},
    registry_file::must_load_file,
};

/// Show what a save would do, path by path, without doing it
///
/// The file is a JSON object. Without a service it holds "entity" ("Product/42"), "writer" ({"kind","name"}),
/// "record" ({path: stored value}), "saved_by" ({path: writer}, may be left out), and the members of a save:
/// "changes", "unset", "include", "exclude", "add", "base", "base_absent", "shown", "force" with "reason",
/// "all_or_nothing", "apply" with "unordered" or "inputs". A path without a base counts as seen as it is stored. With a service only "entity" and the
/// members of a save, "edit_token" and "lease" included: record and writer are the service's.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fieldlease plan save.json --registry schemas/example.yaml\n  \
    fieldlease plan save.json --url http://127.0.0.1:4180 --token-file data/editor.token\n  \
    echo '{\"entity\": \"Product/1\", \"writer\": {\"kind\": \"editor\", \"name\": \"anna\"}, \"record\": {},\n    \
    \"changes\": {\"thumbnail\": \"mine.webp\"}}' | fieldlease plan - --registry schemas/example.yaml")]
pub(crate) struct Args {
    /// The save as JSON, or - for standard input
    file: PathBuf,
    /// The registry to plan by, without a service
    #[arg(long, value_name = "FILE")]
    registry: Option<PathBuf>,
    #[command(flatten)]
    service: ServiceArgs,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct WriterText {
    kind: WriterKind,
    name: String,
}

impl From<WriterText> for Writer {
    fn from(text: WriterText) -> Self {
        match text.kind {
            WriterKind::Editor => Self::editor(&text.name),
            WriterKind::Worker => Self::worker(&text.name),
        }
    }
}

pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    let read = json::parse(&read_input(&args.file)?)
        .map_err(|fault| Failure::new(fault.code, fault.message, ""))?;
    let Json::Object(mut asked) = read else {
        return Err(Failure::new("bad_body", "the save is not a JSON object", ""));
    };
    let name: String = member(&mut asked, "entity")?
        .ok_or_else(|| Failure::new("bad_body", "`entity` is missing", "as in \"Product/42\""))?;
    let entity = entity(&name)?;
    match &args.registry {
        Some(registry) => here(&entity, asked, &must_load_file(registry, output)?, output),
        None => there(&entity, asked, args, output),
    }
}

/// Asks the service.
fn there(
    entity: &EntityRef,
    asked: Map<String, Json>,
    args: &Args,
    output: Output,
) -> Result<Exit> {
    let client = args.service.client().map_err(|failure| match failure.code.as_str() {
        "no_service" => Failure::new(
            "no_service",
            "neither a registry nor a service is named",
            "pass --registry FILE to plan here, or --url to ask a service",
        ),
        _ => failure,
    })?;
    let route = format!("{}/plan", server::address(entity));
    let answer = client.post(&route, &Json::Object(asked))?;
    let report: Json = taken(&mut answer.clone(), "plan")?;
    if output.json {
        output.json(&answer)?;
    } else {
        output.text(format_args!("{report:#}"))?;
    }
    let code = report.get("code").and_then(Json::as_str);
    Ok(code.map_or(Exit::Ok, exit_of))
}

/// Plans here, on the record of the file.
fn here(
    entity: &EntityRef,
    mut asked: Map<String, Json>,
    registry: &Registry,
    output: Output,
) -> Result<Exit> {
    let writer: WriterText = member(&mut asked, "writer")?
        .ok_or_else(|| Failure::new("bad_body", "`writer` is missing", "{\"kind\", \"name\"}"))?;
    let record: BTreeMap<Path, Json> = member(&mut asked, "record")?.unwrap_or_default();
    let saved_by: BTreeMap<Path, WriterText> = member(&mut asked, "saved_by")?.unwrap_or_default();
    let body: SaveBody = shape(Json::Object(asked)).map_err(fault)?;
    let ask = body.check().map_err(fault)?;
    let SaveAsk { changes, bases, shown, force, inputs, .. } = &ask;
    let rules = registry.entity(entity.kind.as_str()).ok_or_else(|| {
        Failure::new("unknown_type", format!("there is no entity type `{}`", entity.kind), "")
    })?;
    let snapshot = snapshot(entity, rules, record, saved_by)?;
    let writer = Writer::from(writer);
    let mut input = PlanInput::new(rules, &writer, &snapshot, changes);
    input.seen = Seen::Record(&snapshot);
    input.sent_bases = bases;
    input.shown = shown;
    input.force = force;
    input.force_right = ForceRight::Takeover;
    input.all_or_nothing = ask.all_or_nothing;
    input.inputs = inputs.as_ref();
    if ask.apply {
        input.mode = Mode::Apply { unordered: ask.unordered };
    }
    let plan = plan(&input);
    if output.json {
        output.json(&report_json(&plan))?;
    } else {
        output.text(report_text(&plan).trim_end())?;
    }
    Ok(match &plan.verdict {
        Verdict::Apply | Verdict::Nothing => Exit::Ok,
        Verdict::Refuse { code, .. } => exit_of(code),
    })
}

/// A refusal is never a success, whatever its code.
fn exit_of(code: &str) -> Exit {
    match code {
        "apply" | "applied" | "nothing" | "unchanged" => Exit::Ok,
        code => exit::of(code),
    }
}

/// What the file says is stored, as a store would answer it.
fn snapshot(
    entity: &EntityRef,
    rules: &EntityRules,
    record: BTreeMap<Path, Json>,
    saved_by: BTreeMap<Path, WriterText>,
) -> Result<Snapshot> {
    let mut snapshot = Snapshot::missing(entity.clone());
    snapshot.incarnation = Incarnation(1);
    snapshot.record = record.into_iter().collect::<Record>();
    for (path, writer) in saved_by {
        let resolved = rules
            .resolve(&path)
            .map_err(|error| Failure::new(error.code, error.message, error.help))?;
        let Some(scope) = resolved.scope else { continue };
        snapshot.versions.insert(scope.clone(), ScopeVersion(1));
        let stamp = Stamp {
            scope,
            version: ScopeVersion(1),
            operation: OperationId(1),
            writer: writer.into(),
            at: StoreTime(0),
        };
        snapshot.stamps.insert(resolved.unit, stamp);
    }
    Ok(snapshot)
}

/// Takes one member of the request.
fn member<T: serde::de::DeserializeOwned>(
    asked: &mut Map<String, Json>,
    name: &str,
) -> Result<Option<T>> {
    let Some(value) = asked.remove(name) else { return Ok(None) };
    serde_json::from_value(value)
        .map(Some)
        .map_err(|error| Failure::new("bad_body", format!("`{name}`: {error}"), ""))
}

fn fault(problem: Problem) -> Failure {
    let body = problem.body();
    let text = |name: &str| body.get(name).and_then(Json::as_str).unwrap_or_default().to_owned();
    Failure::new(text("code"), text("detail"), text("help"))
}
