//! A record in memory that plans are applied to: stamps, versions and history as a store would keep them.

use std::collections::BTreeMap;

use fieldlease::{
    clock::StoreTime,
    entity::{Change, EntityRef, Value, Writer},
    path::Path,
    plan::{Intent, Plan, PlanInput, Seen, Verdict, needed_bases, next_token, plan, token_of},
    registry::{self, EntityRules, Limits},
    snapshot::{EditToken, Snapshot, Stamp},
    strategy::Strategies,
    token::{Incarnation, OperationId, ScopeVersion},
};
use serde_json::{Value as Json, json};

pub(crate) fn path(text: &str) -> Path {
    Path::parse(text).unwrap()
}

pub(crate) fn changes<const N: usize>(list: [(&str, Json); N]) -> BTreeMap<Path, Change> {
    list.into_iter().map(|(at, json)| (path(at), Change::Set(json))).collect()
}

/// One record under one registry.
pub(crate) struct World {
    pub(crate) registry: registry::Registry,
    pub(crate) snapshot: Snapshot,
    /// Unit, version it got, value before.
    history: Vec<(Path, ScopeVersion, Value)>,
    saves: u64,
}

impl World {
    /// An empty record of type `P` that exists.
    pub(crate) fn new(entity: &str) -> Self {
        let indented: String = entity.lines().map(|line| format!("    {line}\n")).collect();
        let text = format!("field_ownership:\n  P:\n{indented}");
        let (raw, found) = registry::read(text.as_bytes(), &Limits::default());
        let (registry, more) = registry::resolve(&raw.unwrap(), &Strategies::standard());
        let registry = registry.unwrap_or_else(|| panic!("{found:?} {more:?}"));
        let mut snapshot = Snapshot::missing(EntityRef::new("P", "1").unwrap());
        snapshot.incarnation = Incarnation(1);
        Self { registry, snapshot, history: Vec::new(), saves: 0 }
    }

    /// The same with values from before the first save.
    pub(crate) fn with<const N: usize>(entity: &str, values: [(&str, Json); N]) -> Self {
        let mut world = Self::new(entity);
        for (at, json) in values {
            world.snapshot.record.set(&path(at), &json);
        }
        world
    }

    pub(crate) fn rules(&self) -> &EntityRules {
        self.registry.entity("P").unwrap()
    }

    pub(crate) fn token(&self) -> EditToken {
        token_of(&self.snapshot, self.rules().generation)
    }

    pub(crate) fn get(&self, at: &str) -> Json {
        self.snapshot.record.get(&path(at)).json().cloned().unwrap_or(json!("-"))
    }

    /// Plans with bases fetched as the engine does.
    pub(crate) fn plan(&self, input: PlanInput<'_>) -> Plan {
        let asked = needed_bases(&input);
        let answers: BTreeMap<_, _> = asked
            .into_iter()
            .map(|query| {
                let after = self
                    .history
                    .iter()
                    .find(|(path, version, _)| *path == query.path && *version > query.version);
                (query.path, after.map(|(_, _, before)| before.clone()))
            })
            .collect();
        let input = PlanInput { fetched_bases: &answers, ..input };
        plan(&input)
    }

    /// The value a unit had when its scope stood at a version, if it moved since.
    pub(crate) fn value_at(&self, unit: &Path, version: ScopeVersion) -> Option<Value> {
        let after = self.history.iter().find(|(path, at, _)| path == unit && *at > version);
        after.map(|(_, _, before)| before.clone())
    }

    /// Plans and applies an update.
    pub(crate) fn save(
        &mut self,
        writer: &Writer,
        seen: Seen<'_>,
        changes: &BTreeMap<Path, Change>,
    ) -> Plan {
        let input =
            PlanInput { seen, ..PlanInput::new(self.rules(), writer, &self.snapshot, changes) };
        let plan = self.plan(input);
        self.apply(&plan);
        plan
    }

    /// An editor's save with a token; answers the next token.
    pub(crate) fn edit(
        &mut self,
        who: &str,
        token: &EditToken,
        changes: &BTreeMap<Path, Change>,
    ) -> (Plan, EditToken) {
        let plan = self.save(&Writer::editor(who), Seen::Token(token), changes);
        let next = next_token(
            &self.snapshot,
            self.rules().generation,
            &BTreeMap::new(),
            self.snapshot.incarnation,
        );
        (plan, next)
    }

    /// A worker's save on what is stored.
    pub(crate) fn work(&mut self, who: &str, changes: &BTreeMap<Path, Change>) -> Plan {
        let claimed = self.snapshot.clone();
        self.save(&Writer::worker(who), Seen::Record(&claimed), changes)
    }

    pub(crate) fn apply(&mut self, plan: &Plan) {
        if plan.verdict != Verdict::Apply {
            assert!(plan.patch.is_empty() && plan.changed.is_empty(), "{plan:?}");
            return;
        }
        self.saves += 1;
        for scope in plan.written.keys() {
            let version = self.snapshot.version(scope).next();
            self.snapshot.versions.insert(scope.clone(), version);
        }
        let before = self.snapshot.record.clone();
        for item in &plan.removed_items {
            self.snapshot.record.remove_item(item);
            self.snapshot.stamps.retain(|path, _| !path.is_part_of(item));
        }
        self.snapshot.record.apply(&plan.patch);
        for changed in &plan.changed {
            let version = self.snapshot.version(&changed.scope);
            let stamp = Stamp {
                scope: changed.scope.clone(),
                version,
                operation: OperationId(u128::from(self.saves)),
                writer: plan.writer.clone(),
                at: StoreTime(1_700_000_000_000_000 + i64::try_from(self.saves).unwrap()),
            };
            self.snapshot.stamps.insert(changed.path.clone(), stamp);
            self.history.push((changed.path.clone(), version, changed.old.clone()));
        }
        if plan.intent == Intent::Delete {
            assert!(self.snapshot.record.is_empty(), "{:?}", self.snapshot.record);
        } else {
            // The patch holds what the changed units say, and nothing else moved.
            assert_ne!(before.to_json(), Json::Null);
        }
    }
}
