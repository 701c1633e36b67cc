//! The same race through an engine: editors save what differs from what they were shown, workers run under a lease.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicU64},
};

use crate::{
    clock::{Clock, Moment, SystemClock},
    engine::{Changes, Engine, Job, Outcome, RunError},
    entity::{EntityRef, Value},
    error::{Error, Result},
    path::Path,
    plan::Decision,
    scope::ScopeName,
    testing::{
        checker::{Claimed, History, Read, Save, Standing, Stored, Told, check},
        race::{Course, Log, Player, Race, Run, Scenario, edited},
    },
    token::{Fence, HolderToken, OperationId, SystemEntropy},
};

/// Entries asked for at once.
const PAGE: u32 = 500;

/// How often one save is made again, after conflicts, busy leases and lost ones, before the race gives up.
const TURNS_MAX: u32 = 200;

/// Runs the race through this engine. Its registry must be [`Race::registry`]; its records are made when they are
/// not there, and saves from before the race do not count.
///
/// # Errors
/// When the store cannot be reached, or a save ends as no save of a race should.
pub async fn through_engine(race: &Race, engine: &Engine, done: Arc<AtomicU64>) -> Result<Run> {
    let course = Course::new(race, done)?;
    let mut start = BTreeMap::new();
    let mut before = Vec::new();
    for entity in &*course.entities {
        let new = engine.editor("setup").create(entity).set(edited(0).as_str(), "new");
        let created = new.send().await?;
        if !matches!(created.code(), "applied" | "exists") {
            return Err(Error::internal(format!("{entity} was not made: {}", created.code())));
        }
        start.insert(entity.clone(), standing(engine, entity, &course).await?);
        let newest = engine.history(entity, None, 1).await?;
        before.push(newest.first().map(|entry| entry.operation));
    }

    let (on, through) = (course.clone(), engine.clone());
    let (log, elapsed) = race.play(move |player| play(through.clone(), player, on.clone())).await?;

    let mut end = BTreeMap::new();
    let mut entries = Vec::new();
    for (entity, before) in course.entities.iter().zip(before) {
        end.insert(entity.clone(), standing(engine, entity, &course).await?);
        entries.append(&mut history(engine, entity, before).await?);
    }
    let Log { saves, reads, claims, refused } = log;
    let history = History { start, end, saves, reads, claims, entries };
    let verdict = check(&history);
    Ok(Run { history, verdict, refused, elapsed })
}

async fn standing(engine: &Engine, entity: &EntityRef, course: &Course) -> Result<Standing> {
    let loaded = engine.editor("setup").load(entity).await?;
    let loaded = loaded.ok_or_else(|| Error::internal(format!("{entity} is not there")))?;
    Ok(Standing::of(&loaded.snapshot, &course.units))
}

/// Everything saved after `before`.
async fn history(
    engine: &Engine,
    entity: &EntityRef,
    before: Option<OperationId>,
) -> Result<Vec<Stored>> {
    let mut entries = Vec::new();
    let mut cursor = None;
    loop {
        let page = engine.history(entity, cursor, PAGE).await?;
        let Some(last) = page.last() else { return Ok(entries) };
        cursor = Some(last.operation);
        for entry in &page {
            if Some(entry.operation) == before {
                return Ok(entries);
            }
            entries.push(Stored::of(entity, entry));
        }
    }
}

async fn play(engine: Engine, mut player: Player, course: Course) -> Result<Log> {
    let mut log = Log::default();
    for turn in 1..=player.saves {
        let Some(entity) = player.pick(&course.entities) else { break };
        let mut applied = false;
        for _ in 0..TURNS_MAX {
            let tried = match player.group {
                None => edit(&engine, &player, &entity, turn, &course, &mut log).await?,
                Some(group) => {
                    compute(&engine, &player, &entity, group, turn, &course, &mut log).await?
                }
            };
            let Some(save) = tried else { continue };
            applied = matches!(save.told, Told::Applied(_));
            log.refused += u64::from(!applied);
            log.saves.push(save);
            if applied {
                break;
            }
        }
        if !applied {
            return Err(Error::Contended { attempts: TURNS_MAX });
        }
        course.saved();
    }
    Ok(log)
}

/// A person's save: load the form, think, save the one field with the form's token.
async fn edit(
    engine: &Engine,
    player: &Player,
    entity: &EntityRef,
    turn: u64,
    course: &Course,
    log: &mut Log,
) -> Result<Option<Save>> {
    let session = engine.session(player.writer.clone());
    let read = SystemClock.now();
    let loaded = session.load(entity).await?;
    let loaded = loaded.ok_or_else(|| Error::internal(format!("{entity} is not there")))?;
    let versions = loaded.snapshot.versions.clone();
    let returned = SystemClock.now();
    log.reads.push(Read { entity: entity.clone(), invoked: read, returned, versions });
    course.think().await;

    let value = player.value(turn);
    let field = &player.field;
    let shown = BTreeMap::from([(field.clone(), loaded.snapshot.record.get(field))]);
    let invoked = SystemClock.now();
    let save = session.save(entity).token(loaded.token).set(field.clone(), value.clone());
    let outcome = match save.send().await {
        // Nothing was done: the same values are sent again, as the error asks.
        Err(Error::Contended { .. }) => return Ok(None),
        answer => answer?,
    };
    let seen = Attempt { read, shown, fences: BTreeMap::new() };
    Ok(told(&outcome)?.map(|told| seen.save(player, entity, invoked, value.into(), told)))
}

/// A worker's save: lease, claim, think, save under the claim.
async fn compute(
    engine: &Engine,
    player: &Player,
    entity: &EntityRef,
    group: &str,
    turn: u64,
    course: &Course,
    log: &mut Log,
) -> Result<Option<Save>> {
    if course.scenario == Scenario::Reaction {
        course.start.wait().await;
    }
    let value = player.value(turn);
    let scope = ScopeName::parse(group).ok_or_else(|| Error::internal("no group"))?;
    let session = engine.session(player.writer.clone());
    let invoked = SystemClock.now();
    let nothing = Attempt { read: invoked, shown: BTreeMap::new(), fences: BTreeMap::new() };
    let seen = Mutex::new((nothing, Vec::new()));
    let job = |job: Job| {
        note(&seen, &job, player, entity, &scope, invoked);
        let changes: Changes = job.changes().set(player.field.clone(), value.clone());
        async move {
            course.think().await;
            Ok::<_, Infallible>(changes)
        }
    };
    let outcome = match session.run(entity, [group], job).await {
        Ok(outcome) => outcome,
        Err(RunError::Engine(Error::Contended { .. })) => return Ok(None),
        Err(RunError::Engine(error)) => return Err(error),
        Err(RunError::Job(never)) => match never {},
    };
    let (attempt, mut claims) = seen.into_inner().unwrap_or_else(PoisonError::into_inner);
    log.claims.append(&mut claims);
    Ok(told(&outcome)?.map(|told| attempt.save(player, entity, invoked, value.into(), told)))
}

/// What the last attempt had been shown.
struct Attempt {
    read: Moment,
    shown: BTreeMap<Path, Value>,
    fences: BTreeMap<ScopeName, Fence>,
}

impl Attempt {
    fn save(
        self,
        player: &Player,
        entity: &EntityRef,
        invoked: Moment,
        value: Value,
        told: Told,
    ) -> Save {
        Save {
            process: player.number,
            writer: player.writer.clone(),
            entity: entity.clone(),
            key: None,
            read: self.read,
            invoked,
            returned: SystemClock.now(),
            shown: self.shown,
            wanted: BTreeMap::from([(player.field.clone(), value)]),
            fences: self.fences,
            told,
        }
    }
}

fn note(
    seen: &Mutex<(Attempt, Vec<Claimed>)>,
    job: &Job,
    player: &Player,
    entity: &EntityRef,
    scope: &ScopeName,
    read: Moment,
) {
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    let record = job.record();
    let shown = BTreeMap::from([(player.field.clone(), record.record.get(&player.field))]);
    seen.0 = Attempt { read, shown, fences: job.fences().clone() };
    if let Some(fence) = job.fences().get(scope) {
        seen.1.push(Claimed {
            entity: entity.clone(),
            scope: scope.clone(),
            fence: *fence,
            version: record.version(scope),
            holder: HolderToken::new(&SystemEntropy),
        });
    }
}

/// What an outcome tells the writer. `None`: nothing was decided, the lease was busy or lost.
fn told(outcome: &Outcome) -> Result<Option<Told>> {
    match outcome {
        Outcome::Applied(saved) => Ok(Some(Told::Applied(saved.operation))),
        Outcome::Unchanged(_) => Ok(Some(Told::Unchanged)),
        Outcome::Refused(refused) => {
            let decisions = refused.plan.iter().flat_map(|plan| &plan.decisions);
            let conflicts = decisions
                .filter(|decided| matches!(decided.decision, Decision::Conflict(_)))
                .map(|decided| decided.path.clone())
                .collect();
            let operation = Some(refused.operation);
            Ok(Some(Told::Refused { operation, conflicts }))
        }
        // A save of a race has no key.
        Outcome::Busy(_)
        | Outcome::Skipped(_)
        | Outcome::Lost(_)
        | Outcome::Queued(_)
        | Outcome::Replayed(_)
        | Outcome::InProgress(_)
        | Outcome::KeyMismatch => Ok(None),
    }
}
