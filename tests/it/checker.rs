//! A checker nobody has seen fail is no evidence: each way a history can be wrong is put into a right one, and must be
//! named.

use std::{collections::BTreeMap, time::Duration};

use fieldlease::{
    clock::Moment,
    commit::Changed,
    entity::{EntityRef, Value, Writer, WriterKind},
    path::Path,
    scope::ScopeName,
    testing::checker::{Check, Claimed, History, Read, Save, Standing, Stored, Told, check},
    token::{Fence, HolderToken, OperationId, ScopeVersion, VersionNumber},
};
use serde_json::json;

/// The same numbers every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn path(text: &str) -> Path {
    Path::parse(text).unwrap()
}

fn scope(text: &str) -> ScopeName {
    ScopeName::parse(text).unwrap()
}

fn at(micros: u64) -> Moment {
    Moment(Duration::from_micros(micros))
}

/// Fields of a record: path, scope, strategy, and who writes it.
const FIELDS: [(&str, &str, Option<&str>, WriterKind); 5] = [
    ("name", "editor", None, WriterKind::Editor),
    ("text", "editor", None, WriterKind::Editor),
    ("thumb", "media", None, WriterKind::Worker),
    ("stock", "stock", Some("counter"), WriterKind::Worker),
    ("tags", "shared", Some("set_merge"), WriterKind::Editor),
];

struct World {
    dice: Dice,
    history: History,
    /// Now, in microseconds.
    now: u64,
    fences: BTreeMap<EntityRef, Fence>,
}

impl World {
    /// A run in which everything is right: `saves` saves of six writers on ten records.
    fn run(saves: u32) -> History {
        let mut world = Self {
            dice: Dice(11),
            history: History::default(),
            now: 1_000,
            fences: BTreeMap::new(),
        };
        for id in 0..10 {
            let entity = EntityRef::new("Product", &id.to_string()).unwrap();
            let values = FIELDS.map(|(name, ..)| (path(name), Value::Absent)).into();
            let standing = Standing { values, ..Standing::default() };
            world.history.start.insert(entity.clone(), standing.clone());
            world.history.end.insert(entity, standing);
        }
        for operation in 1..=saves {
            world.save(OperationId(u128::from(operation)));
        }
        world.history
    }

    fn save(&mut self, operation: OperationId) {
        let id = self.dice.below(10).to_string();
        let entity = EntityRef::new("Product", &id).unwrap();
        let (field, group, strategy, kind) = FIELDS[self.dice.below(5) as usize];
        let (unit, scope) = (path(field), scope(group));
        let read = self.now;
        let invoked = read + self.dice.below(20);
        let committed = invoked + 1 + self.dice.below(20);
        self.now = committed + 1;
        let returned = committed + 1 + self.dice.below(60);

        let shown = self.history.end[&entity].values[&unit].clone();
        let wanted = match field {
            "stock" => json!(shown.json().and_then(|it| it.as_i64()).unwrap_or(0) + 1),
            "tags" => json!([format!("tag-{}", operation.0)]),
            _ => json!(format!("value-{}", operation.0)),
        };
        let mut new = Value::Present(wanted);
        let process = self.dice.below(3) as u32;
        let mut save = Save {
            process,
            writer: match kind {
                WriterKind::Editor => Writer::editor(&format!("editor-{process}")),
                WriterKind::Worker => Writer::worker(&format!("worker-{process}")),
            },
            entity: entity.clone(),
            key: Some(format!("key-{}", operation.0).into()),
            read: at(read),
            invoked: at(invoked),
            returned: at(returned),
            shown: BTreeMap::from([(unit.clone(), shown.clone())]),
            wanted: BTreeMap::from([(unit.clone(), new.clone())]),
            fences: BTreeMap::new(),
            told: Told::Applied(operation),
        };
        let standing = self.history.end.get_mut(&entity).unwrap();
        let version = standing.versions.get(&scope).copied().unwrap_or_default();
        if group == "media" {
            let fence = self.fences.entry(entity.clone()).or_default();
            *fence = fence.next();
            save.fences.insert(scope.clone(), *fence);
            let holder = HolderToken(operation.0.to_be_bytes());
            let (entity, scope, fence) = (entity.clone(), scope.clone(), *fence);
            self.history.claims.push(Claimed { entity, scope, fence, version, holder });
        }
        match self.dice.below(20) {
            // Refused, because another writer was faster.
            0 if kind == WriterKind::Editor => {
                let conflicts = self.rival(&entity, &unit, process).into_iter().collect();
                save.told = Told::Refused { operation: Some(operation), conflicts };
                save.read = at(0);
                self.history.saves.push(save);
                return;
            }
            1 => {
                save.told = Told::Unknown(Some(operation));
                self.history.saves.push(save);
                return;
            }
            2 => save.told = Told::Unknown(Some(operation)),
            _ => {}
        }

        // A load beside the save, before it took effect.
        let versions = BTreeMap::from([(scope.clone(), version)]);
        let (invoked, returned) = (at(read), at(read + 1));
        self.history.reads.push(Read { entity: entity.clone(), invoked, returned, versions });

        let standing = self.history.end.get_mut(&entity).unwrap();
        if let ("tags", Some(old)) = (field, shown.json()) {
            // The form had shown nothing: members of both sides.
            save.shown.insert(unit.clone(), Value::Absent);
            let both =
                [old.as_array().unwrap().as_slice(), new.json().unwrap().as_array().unwrap()];
            new = Value::Present(json!(both.concat()));
        }
        standing.versions.insert(scope.clone(), version.next());
        standing.values.insert(unit.clone(), new.clone());
        let number = (kind == WriterKind::Editor).then(|| standing.number.next());
        standing.number = number.unwrap_or(standing.number);
        let changed = Changed {
            path: unit,
            scope: scope.clone(),
            old: shown,
            new,
            strategy: strategy.map(str::to_owned),
        };
        self.history.saves.push(save);
        self.history.entries.push(Stored {
            entity,
            operation,
            number,
            versions: BTreeMap::from([(scope, version.next())]),
            changed: vec![changed],
        });
    }

    /// The unit, if another process has changed it so far.
    fn rival(&self, entity: &EntityRef, unit: &Path, process: u32) -> Option<Path> {
        let changed = |entry: &&Stored| {
            entry.entity == *entity && entry.changed.iter().any(|changed| changed.path == *unit)
        };
        let mut writers = self.history.entries.iter().filter(changed).filter_map(|entry| {
            self.history.saves.iter().find(|save| operation(save) == Some(entry.operation))
        });
        writers.any(|save| save.process != process).then(|| unit.clone())
    }
}

fn operation(save: &Save) -> Option<OperationId> {
    match save.told {
        Told::Applied(operation) | Told::Unknown(Some(operation)) => Some(operation),
        _ => None,
    }
}

/// The place of a stored save in the middle of the run.
fn entry(history: &History, wanted: impl Fn(&Stored) -> bool) -> usize {
    let middle = history.entries.len() / 2;
    middle + history.entries[middle..].iter().position(wanted).unwrap()
}

fn is_field(field: &str) -> impl Fn(&Stored) -> bool {
    move |entry| entry.changed[0].path.as_str() == field
}

fn save_of(history: &mut History, entry: usize) -> &mut Save {
    let wanted = Some(history.entries[entry].operation);
    history.saves.iter_mut().find(|save| operation(save) == wanted).unwrap()
}

fn acknowledged(history: &History, field: &'static str) -> usize {
    entry(history, |it| {
        is_field(field)(it)
            && history.saves.iter().any(|save| save.told == Told::Applied(it.operation))
    })
}

#[test]
fn a_right_history_is_found_right_and_counted() {
    let history = World::run(2_000);

    let verdict = check(&history);

    assert!(verdict.holds(), "{:#?}", verdict.findings);
    assert_eq!(verdict.versions + verdict.operations, history.entries.len() as u64);
    assert!(verdict.saves > 1_500 && verdict.versions > 500 && verdict.operations > 500);
}

/// A name, the check that must fail, and what is done to a right history.
type Corruption = (&'static str, Check, fn(&mut History));

const CORRUPTIONS: &[Corruption] = &[
    ("a value replaced unseen", Check::LostUpdate, |history| {
        let at = acknowledged(history, "name");
        let shown = Value::Present(json!("what was there before"));
        save_of(history, at).shown.insert(path("name"), shown);
    }),
    ("the whole record written back", Check::LostUpdate, |history| {
        let at = acknowledged(history, "name");
        let save = save_of(history, at);
        save.wanted = BTreeMap::from([(path("text"), Value::Present(json!("own")))]);
        save.shown.insert(path("name"), Value::Present(json!("old")));
    }),
    ("a path changed that was not submitted", Check::Foreign, |history| {
        let at = acknowledged(history, "name");
        save_of(history, at).wanted.clear();
    }),
    ("another value stored than sent", Check::Foreign, |history| {
        let at = acknowledged(history, "thumb");
        save_of(history, at).wanted.insert(path("thumb"), Value::Present(json!(7)));
    }),
    ("an acknowledged save without a trace", Check::Effect, |history| {
        let at = acknowledged(history, "text");
        history.entries.remove(at);
    }),
    ("a refused save that took effect", Check::Effect, |history| {
        let at = acknowledged(history, "text");
        let operation = Some(history.entries[at].operation);
        save_of(history, at).told = Told::Refused { operation, conflicts: Vec::new() };
    }),
    ("a save nobody sent", Check::Effect, |history| {
        let at = entry(history, is_field("name"));
        history.entries[at].operation = OperationId(u128::MAX);
    }),
    ("a scope version taken twice", Check::Sequence, |history| {
        let at = entry(history, is_field("stock"));
        history.entries[at].versions.insert(scope("stock"), ScopeVersion(1));
    }),
    ("a scope version left out", Check::Sequence, |history| {
        let at = entry(history, is_field("stock"));
        let entity = history.entries[at].entity.clone();
        for later in history.entries[at..].iter_mut().filter(|it| it.entity == entity) {
            if let Some(version) = later.versions.get_mut(&scope("stock")) {
                *version = version.next();
            }
        }
    }),
    ("a version number taken twice", Check::Sequence, |history| {
        let at = entry(history, is_field("name"));
        history.entries[at].number = Some(VersionNumber(1));
    }),
    ("a record that is not what the last write left", Check::Chain, |history| {
        let end = history.end.values_mut().next().unwrap();
        end.values.insert(path("name"), Value::Present(json!("somebody else's")));
    }),
    ("a write that names another predecessor", Check::Chain, |history| {
        let at = entry(history, is_field("text"));
        history.entries[at].changed[0].old = Value::Present(json!("never there"));
    }),
    ("a real-time inversion", Check::RealTime, |history| {
        let at = acknowledged(history, "thumb");
        let save = save_of(history, at);
        (save.read, save.invoked, save.returned) = (at_zero(), at_zero(), at_zero());
    }),
    ("a load that saw what had long been replaced", Check::StaleRead, |history| {
        let last = history.reads.len() - 1;
        let read = &mut history.reads[last];
        let stale = read.versions.values_mut().next().unwrap();
        *stale = ScopeVersion(stale.0 - 3);
    }),
    ("a load that saw what was not yet written", Check::StaleRead, |history| {
        let read = &mut history.reads[5];
        *read.versions.values_mut().next().unwrap() = ScopeVersion(20);
    }),
    ("a fence that fell", Check::Fence, |history| {
        let at = acknowledged(history, "thumb");
        save_of(history, at).fences.insert(scope("media"), Fence(1));
        history.claims.clear();
    }),
    ("one fence, two holders", Check::Fence, |history| {
        let mut again = history.claims[5].clone();
        again.holder = HolderToken([0xff; 16]);
        history.claims.push(again);
    }),
    ("a write after its successor had claimed", Check::AfterSuccessor, |history| {
        let at = acknowledged(history, "thumb");
        let fence = save_of(history, at).fences[&scope("media")];
        save_of(history, at).fences.insert(scope("media"), Fence(fence.0 - 1));
    }),
    ("an editor's save without a version", Check::Trace, |history| {
        let at = acknowledged(history, "name");
        history.entries[at].number = None;
    }),
    ("an editor's save with two versions", Check::Trace, |history| {
        let at = acknowledged(history, "name");
        let second = Stored { changed: Vec::new(), ..history.entries[at].clone() };
        history.entries.push(second);
    }),
    ("a worker's save with a version", Check::Trace, |history| {
        let at = acknowledged(history, "stock");
        history.entries[at].number = Some(VersionNumber(9));
    }),
    ("a worker's save with no record of its own", Check::Trace, |history| {
        let at = acknowledged(history, "stock");
        let number = Some(VersionNumber(9));
        let version = Stored { number, changed: Vec::new(), ..history.entries[at].clone() };
        history.entries.push(version);
    }),
    ("a job delivered twice that took effect twice", Check::Key, |history| {
        let at = acknowledged(history, "stock");
        let entity = history.entries[at].entity.clone();
        let first = history.entries.iter().position(|it| it.entity == entity).unwrap();
        let key = save_of(history, first).key.clone();
        save_of(history, at).key = key;
    }),
    ("a counter that forgot a delta", Check::Merge, |history| {
        let at = entry(history, is_field("stock"));
        history.entries[at].changed[0].new = Value::Present(json!(1));
    }),
    ("a set that lost a member", Check::Merge, |history| {
        let at = entry(history, is_field("tags"));
        let own = history.entries[at].operation.0;
        history.entries[at].changed[0].new = Value::Present(json!([format!("tag-{own}")]));
    }),
    ("a conflict with nobody", Check::FalseConflict, |history| {
        let at = acknowledged(history, "name");
        let mut save = save_of(history, at).clone();
        save.told = Told::Refused { operation: None, conflicts: vec![path("name")] };
        save.read = save.returned;
        history.saves.push(save);
    }),
    ("a conflict with one's own earlier save", Check::FalseConflict, |history| {
        let at = acknowledged(history, "name");
        let mut save = save_of(history, at).clone();
        save.told = Told::Refused { operation: None, conflicts: vec![path("name")] };
        for other in history.saves.iter_mut().filter(|other| other.entity == save.entity) {
            other.process = save.process;
        }
        history.saves.push(save);
    }),
];

#[test]
fn each_way_to_be_wrong_is_named() {
    let right = World::run(2_000);

    let mut missed = Vec::new();
    for (name, check_that_fails, corrupt) in CORRUPTIONS {
        let mut wrong = right.clone();
        corrupt(&mut wrong);
        let verdict = check(&wrong);
        if verdict.count(*check_that_fails) == 0 {
            missed.push(format!("{name}: no {check_that_fails}, but {:?}", verdict.counts));
        }
    }

    assert!(missed.is_empty(), "{missed:#?}");
}

fn at_zero() -> Moment {
    at(0)
}
