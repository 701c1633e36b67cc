//! Plans: what becomes of a save, told as what people and workers do to one record.

mod bases;
mod cases;
mod forms;
mod inputs;
mod items;
mod lifecycle;
mod random;
mod report;
mod rights;
mod units;

use std::collections::{BTreeMap, BTreeSet};

use fieldlease::{
    entity::{Change, GroupName, Value, Writer},
    path::Path,
    plan::{
        Decision, DenyRule, ForceRight, Intent, Mode, Plan, PlanInput, Seen, Verdict, input_stamps,
        needed_bases, news, next_token, plan, report_json, report_text, token_of,
    },
    snapshot::Snapshot,
    token::{Incarnation, ScopeVersion},
};
use serde_json::{Value as Json, json};

use crate::world::{World, changes, path};

const PRODUCT: &str = "
editor_owned: [name, description, images, 'name@locale']
system_owned:
  media: {fields: [thumbnail], writers: [thumbnailer]}
  pricing: [price.amount, price.currency]
shared:
  categories: set_merge
  stock: {strategy: counter, min: 0, group: stock}
  seo: reject
  rank: max
  note: last_write_wins
";

const GALLERY: &str = "
editor_owned: ['gallery.#keys', 'gallery.#order', 'gallery.*.caption', 'gallery.*.alt@locale']
system_owned:
  media:
    fields: ['gallery.*.thumb', 'gallery.*.width']
    derived_from: ['gallery.*.file']
  files: ['gallery.*.file']
collections: {gallery: uid}
";

fn anna() -> Writer {
    Writer::editor("anna")
}

fn code(plan: &Plan, at: &str) -> &'static str {
    plan.decision(&path(at)).map_or("none", Decision::code)
}

fn codes(plan: &Plan) -> BTreeMap<String, &'static str> {
    plan.decisions.iter().map(|d| (d.path.to_string(), d.decision.code())).collect()
}

fn refused(plan: &Plan) -> &'static str {
    match plan.verdict {
        Verdict::Refuse { code, .. } => code,
        Verdict::Apply => "applied",
        Verdict::Nothing => "nothing",
    }
}

fn input<'a>(
    world: &'a World,
    writer: &'a Writer,
    seen: Seen<'a>,
    changes: &'a BTreeMap<Path, Change>,
) -> PlanInput<'a> {
    PlanInput { seen, ..PlanInput::new(world.rules(), writer, &world.snapshot, changes) }
}

fn block(key: &str) -> Vec<(String, Json)> {
    vec![
        (format!("gallery.{key}.caption"), json!("c")),
        (format!("gallery.{key}.file"), json!("f1")),
    ]
}

fn gallery() -> World {
    let mut world = World::new(GALLERY);
    for (at, json) in block("a").into_iter().chain(block("b")) {
        world.snapshot.record.set(&path(&at), &json);
    }
    world
}

fn plan_of(input: &PlanInput<'_>) -> Plan {
    plan(input)
}
