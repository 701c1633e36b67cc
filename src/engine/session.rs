//! A session: everything one writer can ask for.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    sync::Arc,
};

use serde_json::Value as Json;

use crate::{
    clock::StoreTime,
    engine::{Changes, ClaimBuilder, Engine, Job, Run, Save, core::Core, request::Asker},
    entity::{EntityRef, GroupName, Writer},
    error::Result,
    key::KeySource,
    path::Path,
    plan::{ForceRight, input_stamps, token_of},
    record::Record,
    registry::EntityRules,
    snapshot::Snapshot,
    token::{Incarnation, VersionNumber},
};

/// Stamps of inputs: the save that last changed each; `None` for a unit without a stamp (RULES 24).
pub type InputStamps = crate::key::InputStamps;

/// One writer's view of an engine. Cheap: make one per request or job. Work that runs beside other work of the same
/// writer needs a session of its own, for one session never waits for itself (RULES 22).
#[derive(Clone)]
pub struct Session {
    pub(super) core: Arc<Core>,
    pub(super) asker: Asker,
}

/// A record as it was loaded.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Values by unit: what a form shows and a save names.
    pub fields: BTreeMap<Path, Json>,
    /// Send it with the save: it says what the form showed (RULES 8).
    pub token: String,
    /// Number of the newest version; 0 before the first.
    pub number: VersionNumber,
    /// Which creation of the id this is.
    pub incarnation: Incarnation,
    /// When it was deleted; there are no fields then.
    pub deleted_at: Option<StoreTime>,
    /// Everything the store said: leaves, stamps, scope versions.
    pub snapshot: Snapshot,
    pub(super) rules: Arc<EntityRules>,
}

impl Loaded {
    /// The value of one unit.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Json> {
        self.fields.get(&Path::parse(path).ok()?)
    }

    /// Stamps of what these fields are computed from, for a result that is saved later, perhaps by another process
    /// (RULES 24): [`Save::inputs`].
    #[must_use]
    pub fn inputs<'p>(&self, fields: impl IntoIterator<Item = &'p Path>) -> InputStamps {
        input_stamps(&self.rules, &self.snapshot, fields)
    }
}

impl KeySource for Loaded {
    fn key_entity(&self) -> EntityRef {
        self.snapshot.entity.clone()
    }

    fn key_stamps(&self) -> InputStamps {
        self.snapshot.key_stamps()
    }
}

impl Session {
    pub(super) fn new(core: Arc<Core>, writer: Writer) -> Self {
        let owner = core.holds.owner();
        let force_right = ForceRight::Takeover;
        Self { core, asker: Asker { writer, owner, groups: None, force_right } }
    }

    /// Who writes.
    #[must_use]
    pub fn writer(&self) -> &Writer {
        &self.asker.writer
    }

    /// The engine behind it.
    #[must_use]
    pub fn engine(&self) -> Engine {
        Engine::of(Arc::clone(&self.core))
    }

    /// What `force` may override (RULES 42). Default: everything, for the program that holds the engine decides; a
    /// service narrows it to what the caller's credential allows.
    #[must_use]
    pub fn may_force(mut self, right: ForceRight) -> Self {
        self.asker.force_right = right;
        self
    }

    /// Only these groups. Default: whatever the writer's kind and name may write.
    #[must_use]
    pub fn only_groups(mut self, groups: impl IntoIterator<Item = GroupName>) -> Self {
        let groups: BTreeSet<GroupName> = groups.into_iter().collect();
        self.asker.groups = Some(groups);
        self
    }

    /// The record with its token; `None` when it never existed.
    ///
    /// # Errors
    /// When the type is not in the registry or the store cannot be reached.
    pub async fn load(&self, entity: &EntityRef) -> Result<Option<Loaded>> {
        let rules = self.core.rules(&entity.kind)?;
        let deadline = self.core.after(self.core.settings.save_deadline);
        let loaded = self.core.ask(deadline, self.core.store.load(entity)).await?;
        Ok(loaded.map(|snapshot| Loaded {
            fields: fields(&rules, &snapshot.record),
            token: self.core.token_text(&token_of(&snapshot, rules.generation)),
            number: snapshot.number,
            incarnation: snapshot.incarnation,
            deleted_at: snapshot.deleted_at,
            snapshot,
            rules,
        }))
    }

    /// Changes some fields of a record.
    pub fn save(&self, entity: &EntityRef) -> Save {
        Save::new(Arc::clone(&self.core), self.asker.clone(), entity.clone())
    }

    /// Creates a record; refused as `exists` when it is there.
    pub fn create(&self, entity: &EntityRef) -> Save {
        self.save(entity).creating()
    }

    /// Deletes a record, whole (RULES 28). With a token it is refused when somebody changed what the form showed.
    pub fn delete(&self, entity: &EntityRef) -> Save {
        self.save(entity).deleting()
    }

    /// Saves a computed result without lease and claim (RULES 30). Only for a worker's own group, which must have
    /// `derived_from` in the registry; send what it was computed from with [`Save::seen`] or [`Save::inputs`], or
    /// say [`Save::unordered`].
    pub fn apply(&self, entity: &EntityRef) -> Save {
        self.save(entity).applying()
    }

    /// Takes the leases of these scopes and claims them in the database. A scope is a group's name, with its axis
    /// values where it is split: `translation[locale=de]`. No scope at all needs [`ClaimBuilder::whole`].
    pub fn claim<S: AsRef<str>>(
        &self,
        entity: &EntityRef,
        scopes: impl IntoIterator<Item = S>,
    ) -> ClaimBuilder {
        let scopes = scopes.into_iter().map(|scope| scope.as_ref().to_owned()).collect();
        ClaimBuilder::new(Arc::clone(&self.core), self.asker.clone(), entity.clone(), scopes)
    }

    /// Acquires, claims, runs the job, saves what it answers, and releases; all again on a lost lease or moved
    /// inputs, at most `attempts` times. Await it.
    pub fn run<'j, S, F, Fut, E>(
        &self,
        entity: &EntityRef,
        scopes: impl IntoIterator<Item = S>,
        job: F,
    ) -> Run<'j, F, E>
    where
        S: AsRef<str>,
        F: FnMut(Job) -> Fut + Send,
        Fut: Future<Output = std::result::Result<Changes, E>> + Send + 'j,
        E: Send + 'j,
    {
        let claim = self.claim(entity, scopes);
        Run::new(job, claim, self.core.settings.attempts)
    }
}

/// Values by unit. A leaf that no unit can hold (the rules changed since) is shown under its own path.
pub(super) fn fields(rules: &EntityRules, record: &Record) -> BTreeMap<Path, Json> {
    let mut units: BTreeMap<Path, Record> = BTreeMap::new();
    for (path, leaf) in record.iter() {
        let unit = rules.resolve(path).map_or_else(|_| path.clone(), |resolved| resolved.unit);
        let node = leaf.as_object().is_some_and(serde_json::Map::is_empty);
        if node && unit == *path && record.get(path) != crate::entity::Value::from(leaf.clone()) {
            // An object with members: they bring their nodes along.
            continue;
        }
        if node && !path.axes().is_empty() && rules.has_inner(path) {
            // It stood above values of one language, and they are gone: nobody wrote it.
            continue;
        }
        units.entry(unit).or_default().set(path, leaf);
    }
    let value =
        |(unit, part): (Path, Record)| part.get(&unit).json().cloned().map(|json| (unit, json));
    units.into_iter().filter_map(value).collect()
}
