//! One step of the automaton on a row: read, step, write if nobody was faster.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    clock::Moment,
    entity::EntityRef,
    error::{Error, Result},
    lease::rows::{
        Line, RowLeases, Write,
        line::{Page, notice},
    },
    table::{Effect, Table},
};

/// How often a step is tried while others are faster.
const TRIES: u32 = 64;
/// Longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_millis(50);
/// Rows stepped in one batch of reads and writes.
const BATCH: usize = 256;

/// A row's table in a step.
pub(super) struct Step<'a> {
    pub(super) table: &'a mut Table,
    pub(super) now: Moment,
    pub(super) effects: &'a mut Vec<Effect>,
    /// The highest order drawn; a step that draws one raises it.
    pub(super) order: &'a mut u64,
}

/// One step inside a batch.
pub(super) struct Stepped<'a, T> {
    pub(super) table: &'a mut Table,
    pub(super) now: Moment,
    pub(super) effects: &'a mut Vec<Effect>,
    /// What the step is asked for.
    pub(super) of: &'a T,
}

/// A row after a step, ready to be written.
struct Ready<A> {
    write: Option<Write>,
    effects: Vec<Effect>,
    answer: A,
}

impl RowLeases {
    /// One step of one entity's table. The step may be repeated: it answers for the row that was written.
    pub(super) async fn step<A>(
        &self,
        entity: &EntityRef,
        mut step: impl FnMut(Step<'_>) -> A,
    ) -> Result<A> {
        for attempt in 0..TRIES {
            self.pause(attempt).await;
            let Page { now, lines } = self.lines.read(std::slice::from_ref(entity)).await?;
            let line = lines.into_iter().next().ok_or_else(|| no_line(entity))?;
            let Ready { write, effects, answer } = self.ready(&line, now, &mut step)?;
            if let Some(write) = write
                && !self.write_one(write).await?
            {
                continue;
            }
            self.tell(entity, effects);
            return Ok(answer);
        }
        Err(Error::Contended { attempts: TRIES })
    }

    async fn write_one(&self, write: Write) -> Result<bool> {
        let mut answers = self.lines.write(&[write]).await;
        answers.pop().unwrap_or_else(|| Err(Error::internal("a write got no answer")))
    }

    /// Steps of many entities, each as in [`RowLeases::step`], rows read and written together. `asked` holds what is
    /// asked for with its place in the answer; the places that got no answer come back.
    pub(super) async fn step_all<T>(
        &self,
        asked: Vec<(usize, EntityRef, T)>,
        each: impl Fn(usize, Stepped<'_, T>),
    ) -> Vec<usize> {
        let mut by_entity: BTreeMap<EntityRef, Vec<(usize, T)>> = BTreeMap::new();
        for (at, entity, of) in asked {
            by_entity.entry(entity).or_default().push((at, of));
        }
        let mut open: Vec<_> = by_entity.into_iter().collect();
        let mut unknown = Vec::new();
        for attempt in 0..TRIES {
            if open.is_empty() {
                return unknown;
            }
            self.pause(attempt).await;
            let mut again = Vec::new();
            while !open.is_empty() {
                let rest = open.split_off(open.len().min(BATCH));
                let batch = std::mem::replace(&mut open, rest);
                self.step_batch(batch, &each, &mut again, &mut unknown).await;
            }
            open = again;
        }
        unknown.extend(open.into_iter().flat_map(|(_, asked)| asked.into_iter().map(|(at, _)| at)));
        unknown
    }

    async fn step_batch<T>(
        &self,
        batch: Vec<(EntityRef, Vec<(usize, T)>)>,
        each: &impl Fn(usize, Stepped<'_, T>),
        again: &mut Vec<(EntityRef, Vec<(usize, T)>)>,
        unknown: &mut Vec<usize>,
    ) {
        let entities: Vec<EntityRef> = batch.iter().map(|(entity, _)| entity.clone()).collect();
        let places = |asked: &[(usize, T)]| asked.iter().map(|(at, _)| *at).collect::<Vec<_>>();
        let Ok(Page { now, lines }) = self.lines.read(&entities).await else {
            unknown.extend(batch.iter().flat_map(|(_, asked)| places(asked)));
            return;
        };
        let (mut writes, mut waiting) = (Vec::new(), Vec::new());
        for ((entity, asked), line) in batch.into_iter().zip(lines) {
            let ready = self.ready(&line, now, |Step { table, now, effects, .. }| {
                for (at, of) in &asked {
                    each(*at, Stepped { table, now, effects, of });
                }
            });
            match ready {
                Ok(Ready { write: Some(write), effects, .. }) => {
                    writes.push(write);
                    waiting.push((entity, asked, effects));
                }
                Ok(Ready { write: None, effects, .. }) => self.tell(&entity, effects),
                Err(_) => unknown.extend(places(&asked)),
            }
        }
        let answers = self.lines.write(&writes).await;
        for ((entity, asked, effects), answer) in waiting.into_iter().zip(answers) {
            match answer {
                Ok(true) => self.tell(&entity, effects),
                Ok(false) => again.push((entity, asked)),
                Err(_) => unknown.extend(places(&asked)),
            }
        }
    }

    /// The step on the row as it was read; no write when nothing changed.
    fn ready<A>(
        &self,
        line: &Line,
        now: Moment,
        step: impl FnOnce(Step<'_>) -> A,
    ) -> Result<Ready<A>> {
        let ((mut table, mut order), mut effects) = (line.table()?, Vec::new());
        let drawn = &mut order;
        let answer = step(Step { table: &mut table, now, effects: &mut effects, order: drawn });
        // Without leases the row stays for its order, until it is swept.
        let text = match (table.last_end(), order) {
            (None, 0) => None,
            _ => Some(table.to_text(order).map_err(Error::internal)?),
        };
        if text == line.text {
            return Ok(Ready { write: None, effects, answer });
        }
        let until = table.last_end().unwrap_or(now).0.as_micros();
        let write = Write {
            entity: line.entity.clone(),
            was: line.revision,
            revision: self.revision(),
            text,
            until: i64::try_from(until).unwrap_or(i64::MAX),
            notice: notice(&self.origin, &effects),
        };
        Ok(Ready { write: Some(write), effects, answer })
    }

    /// Random, above zero.
    fn revision(&self) -> i64 {
        let [a, b, c, d, e, f, g, h, ..] = self.options.entropy.bytes();
        (i64::from_be_bytes([a, b, c, d, e, f, g, h]) & i64::MAX).max(1)
    }

    /// None before the first try, then a random share of a time that doubles.
    async fn pause(&self, attempt: u32) {
        if attempt == 0 {
            return;
        }
        let ceiling =
            PAUSE_MAX.min(Duration::from_millis(1) * 2_u32.saturating_pow(attempt.min(8)));
        let [share, ..] = self.options.entropy.bytes();
        let pause = ceiling * u32::from(share) / 256;
        let clock = &self.options.clock;
        clock.sleep_until(clock.now().plus(pause)).await;
    }
}

fn no_line(entity: &EntityRef) -> Error {
    Error::internal(format!("reading the leases of `{entity}` answered nothing"))
}
