//! Deciding a save. Targets: 100 fields under 20 us, a conflict report on 400 fields under 300 us.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot be prepared stops")]

use std::{collections::BTreeMap, sync::Arc};

use divan::{Bencher, black_box};
use fieldlease::{
    clock::StoreTime,
    entity::{Change, EntityRef, GroupName, Value, Writer},
    path::Path,
    plan::{PlanInput, Seen, plan, report_text, token_of},
    registry::{self, EntityRules, Limits},
    scope::ScopeName,
    snapshot::{EditToken, Snapshot, Stamp},
    strategy::Strategies,
    token::{Generation, Incarnation, OperationId, ScopeVersion},
};
use serde_json::json;

fn main() {
    divan::main();
}

/// A record of so many fields, what an editor's form had shown of it, and what the form posts.
struct Form {
    rules: Arc<EntityRules>,
    writer: Writer,
    snapshot: Snapshot,
    token: EditToken,
    changes: BTreeMap<Path, Change>,
}

impl Form {
    /// All fields are posted; `changed` of them differ from what is stored, which is version 2. The form had shown
    /// version `seen`.
    fn new(fields: usize, changed: usize, seen: u64) -> Self {
        let names: Vec<String> = (0..fields).map(|field| format!("field_{field}")).collect();
        let list = names.iter().map(|name| format!("      - {name}\n")).collect::<String>();
        let text = format!("field_ownership:\n  Product:\n    editor_owned:\n{list}");
        let (rules, _) =
            registry::load(text.as_bytes(), &Strategies::standard(), &Limits::default());
        let rules = Arc::clone(rules.unwrap().entity("Product").unwrap());

        let scope = ScopeName::group(GroupName::new("editor").unwrap());
        let mut snapshot = Snapshot::missing(EntityRef::new("Product", "1").unwrap());
        snapshot.incarnation = Incarnation(1);
        snapshot.versions.insert(scope.clone(), ScopeVersion(2));
        let mut changes = BTreeMap::new();
        for (index, name) in names.iter().enumerate() {
            let path = Path::parse(name).unwrap();
            snapshot.record.set(&path, &json!("stored"));
            let stamp = Stamp {
                scope: scope.clone(),
                version: ScopeVersion(2),
                operation: OperationId(index as u128 + 1),
                writer: Writer::editor("bert"),
                at: StoreTime(0),
            };
            snapshot.stamps.insert(path.clone(), stamp);
            let value = if index < changed { "mine" } else { "stored" };
            changes.insert(path, Change::Set(json!(value)));
        }
        let mut token = token_of(&snapshot, rules.generation);
        token.versions.insert(scope, ScopeVersion(seen));
        Self { rules, writer: Writer::editor("anna"), snapshot, token, changes }
    }

    /// What the history answers about every field.
    fn bases(&self) -> BTreeMap<Path, Option<Value>> {
        self.changes.keys().map(|path| (path.clone(), Some(json!("shown").into()))).collect()
    }

    fn input(&self) -> PlanInput<'_> {
        let seen = Seen::Token(&self.token);
        let input = PlanInput::new(&self.rules, &self.writer, &self.snapshot, &self.changes);
        PlanInput { seen, ..input }
    }
}

/// A form that posts all of its fields, of which a few were changed.
#[divan::bench(args = [0, 5, 100])]
fn of_100_fields_changed(bencher: Bencher<'_, '_>, changed: usize) {
    let form = Form::new(100, changed, 2);
    assert_eq!(plan(&form.input()).changed.len(), changed);

    bencher.bench_local(|| plan(black_box(&form.input())));
}

/// Every field was changed by somebody else too: the plan, and the report as the bytes of an answer.
#[divan::bench]
fn conflict_on_400_fields_as_json(bencher: Bencher<'_, '_>) {
    let form = Form::new(400, 400, 1);
    let bases = form.bases();
    let input = PlanInput { fetched_bases: &bases, ..form.input() };
    assert_eq!(plan(&input).conflicts().count(), 400);

    bencher.bench_local(|| serde_json::to_vec(&plan(black_box(&input))).unwrap());
}

/// The same without the report.
#[divan::bench]
fn conflict_on_400_fields(bencher: Bencher<'_, '_>) {
    let form = Form::new(400, 400, 1);
    let bases = form.bases();
    let input = PlanInput { fetched_bases: &bases, ..form.input() };

    bencher.bench_local(|| plan(black_box(&input)));
}

/// The report as a person reads it.
#[divan::bench]
fn conflict_on_400_fields_as_text(bencher: Bencher<'_, '_>) {
    let form = Form::new(400, 400, 1);
    let refused = plan(&form.input());

    bencher.bench_local(|| report_text(black_box(&refused)));
}

/// The edit token of every answer.
#[divan::bench]
fn token(bencher: Bencher<'_, '_>) {
    let form = Form::new(100, 1, 2);
    let generation: Generation = form.rules.generation;

    bencher.bench_local(|| {
        fieldlease::plan::encode_token(&token_of(black_box(&form.snapshot), generation), None)
    });
}
