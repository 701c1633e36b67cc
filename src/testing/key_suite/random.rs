//! Random histories: the store answers what the rules say, step by step.

use std::time::Duration;

use serde_json::json;

use crate::{
    clock::StoreTime,
    commit::{Committed, Expect, KeyMode, Refusal},
    entity::{EntityRef, Writer},
    key::{
        Attempt, Begin, Ending, Finish, Finished, Owner, RequestHash, Row, State, Step as Decided,
        begin,
    },
    testing::{
        key_suite::{
            Rig, Verdict,
            build::{DAY, LEASE, LONG, SHORT, job, keyed, owner, work},
            promises,
        },
        store_suite::build::{Step, same, save, scope, text_of},
    },
};

promises![random_histories_are_answered_as_the_rules_say];

/// What the store should hold of one key. Its time moves only by hand.
#[derive(Default)]
struct Model {
    row: Option<(Row, RequestHash)>,
    now: StoreTime,
    /// How often the work took effect.
    effects: u64,
}

impl Model {
    fn after(&self, time: Duration) -> StoreTime {
        StoreTime(self.now.0 + i64::try_from(time.as_micros()).unwrap_or(i64::MAX / 2))
    }

    fn begin(&mut self, hash: RequestHash, own: Owner, until: Duration) -> Decided {
        let row = self.row.clone().map(|(row, known)| Row { same_hash: known == hash, ..row });
        let decided = begin(row.as_ref(), own, self.now);
        if let Decided::Acquire { attempt, .. } = decided {
            let state = State::Pending { owner: own, lease_until: self.after(until) };
            self.row = Some((Row { state, same_hash: true, attempt: attempt.number }, hash));
        }
        decided
    }

    fn is_of(&self, attempt: Attempt) -> bool {
        self.row.as_ref().is_some_and(|(row, _)| {
            row.attempt == attempt.number
                && matches!(row.state, State::Pending { owner, .. } if owner == attempt.owner)
        })
    }

    fn set(&mut self, state: State) {
        if let Some((row, _)) = &mut self.row {
            row.state = state;
        }
    }

    fn end(&mut self, ending: Ending, result: String) {
        let finished = Box::new(Finished { ending, result, effect: None, inputs: None });
        self.set(State::Ended { finished, expires_at: self.after(DAY) });
    }

    fn finish(&mut self, attempt: Attempt, how: &Finish) -> bool {
        let is_of = self.is_of(attempt);
        match how {
            _ if !is_of => {}
            Finish::Release => self.row = None,
            Finish::Retry { after, .. } => self.set(State::Failed { retry_at: self.after(*after) }),
            Finish::Done { result, .. } => self.end(Ending::Completed, result.clone()),
            Finish::Failed { result, .. } => self.end(Ending::Failed, result.clone()),
        }
        is_of
    }
}

/// A small generator, so that a history can be repeated from its seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33).checked_rem(most).unwrap_or(0)
    }
}

/// An answer without its times: a store's clock goes on while a model's stands still.
fn shape(answer: &Begin) -> String {
    match answer {
        Begin::Replay(finished) => format!("replay {:?} {}", finished.ending, finished.result),
        Begin::InProgress { .. } => "in progress".to_owned(),
        Begin::RetryLater { .. } => "later".to_owned(),
        Begin::Mismatch => "mismatch".to_owned(),
        Begin::Acquired { attempt, taken_over } => format!("acquired {attempt:?} {taken_over}"),
    }
}

fn wanted(decided: &Decided) -> String {
    match decided {
        Decided::Acquire { attempt, taken_over } => {
            format!("acquired {attempt:?} {taken_over}")
        }
        Decided::Answer(answer) => shape(answer),
    }
}

struct History {
    rig: Rig,
    entity: EntityRef,
    keys: Vec<(crate::key::Key, Model)>,
    /// Attempts that were acquired by somebody, of whatever key.
    attempts: Vec<Attempt>,
    dice: Dice,
    trail: Vec<String>,
}

async fn random_histories_are_answered_as_the_rules_say(rig: Rig) -> Verdict {
    for seed in 0..6 {
        let entity =
            rig.stores.made(&format!("r{seed}"), &[("media.width", json!(0))]).await?.entity;
        let names = [format!("r{seed}a"), format!("r{seed}b")];
        let keys: Vec<_> =
            names.iter().map(|name| Ok((job(name)?, Model::default()))).collect::<Step<_>>()?;
        let (attempts, trail) = (Vec::new(), Vec::new());
        let mut history =
            History { rig: rig.clone(), entity, keys, attempts, dice: Dice(seed), trail };
        for _ in 0..120 {
            if let Err(difference) = history.step().await {
                let trail = history.trail.join("\n");
                return Err(format!("seed {seed}: {difference}; after\n{trail}"));
            }
        }
        history.counted().await?;
    }
    Ok(())
}

impl History {
    async fn step(&mut self) -> Verdict {
        let which = usize::from(self.dice.below(3) == 0);
        let what = self.dice.below(20);
        match what {
            0..=7 => self.begin(which).await,
            8..=9 => self.renew(which).await,
            10..=12 => self.finish(which).await,
            13..=16 => self.commit(which).await,
            _ => {
                let time = [SHORT, LONG, LONG, DAY].into_iter().nth(self.dice_index(4));
                let time = time.unwrap_or(SHORT);
                self.trail.push(format!("{time:?} pass"));
                for (_, model) in &mut self.keys {
                    model.now = model.after(time);
                }
                self.rig.pass(time).await
            }
        }
    }

    fn dice_index(&mut self, most: u64) -> usize {
        usize::try_from(self.dice.below(most)).unwrap_or(0)
    }

    /// Mostly the same work.
    fn hash(&mut self) -> RequestHash {
        work(if self.dice.below(6) == 0 { 2 } else { 1 })
    }

    /// An attempt of the past, mostly the newest; or nobody's.
    fn attempt(&mut self) -> Attempt {
        let many = self.attempts.len();
        let back = if self.dice.below(2) == 0 { 0 } else { self.dice_index(6) };
        let known = many.checked_sub(back + 1).and_then(|index| self.attempts.get(index));
        known.copied().unwrap_or(Attempt { owner: owner(), number: 1 })
    }

    async fn begin(&mut self, which: usize) -> Verdict {
        let hash = self.hash();
        let again = self.dice.below(6) == 0;
        let own = if again { self.attempt().owner } else { owner() };
        let Some((key, model)) = self.keys.get_mut(which) else { return Ok(()) };
        self.trail.push(format!("begin {key} {hash:?} {own:?}"));
        let decided = model.begin(hash, own, LEASE);
        let answer = self.rig.begin_as(key, hash, own).await?;
        if let Begin::Acquired { attempt, .. } = &answer {
            self.attempts.push(*attempt);
        }
        same("the answer", shape(&answer), wanted(&decided))
    }

    async fn renew(&mut self, which: usize) -> Verdict {
        let attempt = self.attempt();
        let Some((key, model)) = self.keys.get_mut(which) else { return Ok(()) };
        self.trail.push(format!("renew {key} {attempt:?}"));
        let is_of = model.is_of(attempt);
        if is_of {
            let lease_until = model.after(LEASE);
            model.set(State::Pending { owner: attempt.owner, lease_until });
        }
        same("whether it was renewed", self.rig.renew(key, attempt).await?, is_of)
    }

    async fn finish(&mut self, which: usize) -> Verdict {
        let attempt = self.attempt();
        let (result, retention) = (format!("r{}", self.trail.len()), DAY);
        let class = "io".to_owned();
        let how = match self.dice.below(4) {
            0 => Finish::Done { result, retention, inputs: None },
            1 => Finish::Failed { result, retention },
            2 => Finish::Retry { class, after: SHORT },
            _ => Finish::Release,
        };
        let Some((key, model)) = self.keys.get_mut(which) else { return Ok(()) };
        self.trail.push(format!("finish {key} {attempt:?} {how:?}"));
        let wanted = model.finish(attempt, &how);
        same("whether it was finished", self.rig.finish(key, attempt, &how).await?, wanted)
    }

    /// A save that everything but the key is ready for.
    async fn commit(&mut self, which: usize) -> Verdict {
        let (hash, attempt) = (self.hash(), self.attempt());
        let once = self.dice.below(2) == 0;
        let seen = self.rig.stores.seen(&self.entity).await?;
        let width = json!(self.trail.len());
        let Some((key, model)) = self.keys.get_mut(which) else { return Ok(()) };
        let mut commit = save(&seen, &Writer::worker("thumbnailer"), &[("media.width", width)])?;
        commit.scopes.insert(scope("media")?, Expect::Unread);
        let mode = if once { KeyMode::Once(owner()) } else { KeyMode::Claimed(attempt) };
        let commit = keyed(commit, key, hash, mode);
        let result = commit.key.as_ref().map(|key| key.result.clone()).unwrap_or_default();
        self.trail.push(format!("commit {key} {hash:?} {mode:?}"));

        let wanted = match mode {
            KeyMode::Claimed(attempt) if model.is_of(attempt) => "applied".to_owned(),
            KeyMode::Claimed(_) => "key_lost".to_owned(),
            KeyMode::Once(own) => match model.begin(hash, own, Duration::ZERO) {
                Decided::Acquire { .. } => "applied".to_owned(),
                Decided::Answer(Begin::InProgress { .. } | Begin::RetryLater { .. }) => {
                    "key_busy".to_owned()
                }
                Decided::Answer(Begin::Mismatch) => "key_mismatch".to_owned(),
                Decided::Answer(answer) => shape(&answer),
            },
        };
        if wanted == "applied" {
            model.effects += 1;
            model.end(Ending::Completed, result);
        }
        let told = match self.rig.stores.commit(&commit).await? {
            Committed::Applied { .. } => "applied".to_owned(),
            Committed::Refused(Refusal::KeyReplay(finished)) => shape(&Begin::Replay(finished)),
            Committed::Refused(refusal) => refusal.code().to_owned(),
            Committed::AlreadyApplied => "already".to_owned(),
        };
        same("the answer", told, wanted)
    }

    /// Every effect left one operation, and nothing else did.
    async fn counted(&self) -> Verdict {
        let effects: u64 = self.keys.iter().map(|(_, model)| model.effects).sum();
        let snapshot = self.rig.stores.records.load(&self.entity).await.map_err(text_of)?;
        let version = snapshot.map(|seen| Ok::<_, String>(seen.version(&scope("media")?).0));
        same("the version", version.transpose()?, Some(effects + 1))?;
        let entries = self.rig.stores.entries(&self.entity).await?;
        same("the operations", u64::try_from(entries.len()).ok(), Some(effects + 1))
    }
}
