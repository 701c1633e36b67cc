//! `run`: acquire, claim, job, save, release (RULES 12).

use std::{
    collections::BTreeMap,
    future::{Future, IntoFuture},
    sync::Arc,
    time::Duration,
};

use serde_json::Value as Json;
use tokio_util::sync::CancellationToken;

use crate::{
    clock::BoxFuture,
    commit::Refusal,
    engine::{
        Changes, Claim, ClaimBuilder, Claiming, IntoPath, Outcome, Why,
        hold::Reclaimed,
        keyed::{Kept, stored_no_op},
    },
    entity::EntityRef,
    error::Error,
    event::LossReason,
    key::{Finish, InputStamps, JobKey, KeySource},
    registry::OnBusy,
    scope::ScopeName,
    snapshot::Snapshot,
    token::Fence,
};

/// A job to be run under a claim. Await it.
///
/// The job runs in the caller's task. When it panics, the panic goes on in the caller and the lease is given back;
/// when the future is dropped, the lease is given back too, and a save that was sent goes on to its end.
#[must_use = "nothing runs until it is awaited"]
pub struct Run<'j, F, E> {
    job: F,
    claim: ClaimBuilder,
    name: Option<String>,
    attempts: u32,
    key: Option<JobKey>,
    failing: Option<Failing<'j, E>>,
}

type Failing<'j, E> = Box<dyn Fn(&E) -> Failure + Send + 'j>;

/// What an error of a job with a key means for its key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// It fails whenever it is tried: whoever delivers the job again is answered this text.
    Final(String),
    /// It may be tried again, after a while that grows with every attempt, and fails for good after `key_attempts`. The
    /// text says what class of error it was.
    Retry(String),
    /// As if it had never been begun.
    Release,
}

/// What a job sees.
#[derive(Clone, Debug)]
pub struct Job {
    view: Arc<View>,
}

#[derive(Debug)]
struct View {
    snapshot: Snapshot,
    fences: BTreeMap<ScopeName, Fence>,
    lost: CancellationToken,
    attempt: u32,
}

/// Why a run ended without an outcome.
#[derive(Debug)]
pub enum RunError<E> {
    /// The job's own error, untouched.
    Job(E),
    /// The engine's.
    Engine(Error),
}

/// What follows from the outcome of one run of the job.
enum Step {
    Done,
    JobAgain,
    AcquireAgain,
}

impl Job {
    pub(super) fn new(
        snapshot: Snapshot,
        fences: BTreeMap<ScopeName, Fence>,
        lost: CancellationToken,
        attempt: u32,
    ) -> Self {
        Self { view: Arc::new(View { snapshot, fences, lost, attempt }) }
    }

    /// The record as it was read under the claim.
    #[must_use]
    pub fn record(&self) -> &Snapshot {
        &self.view.snapshot
    }

    /// The value at a path.
    #[must_use]
    pub fn get(&self, path: impl IntoPath) -> Option<Json> {
        let path = path.into_path().ok()?;
        self.view.snapshot.record.get(&path).json().cloned()
    }

    /// 1 for the first run of the job.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.view.attempt
    }

    /// The fences it runs under: give them to side effects outside the store.
    #[must_use]
    pub fn fences(&self) -> &BTreeMap<ScopeName, Fence> {
        &self.view.fences
    }

    /// Cancelled at the moment the lease can no longer be trusted. A job that sees it may answer with no changes: they
    /// would not be saved, and the job runs again.
    #[must_use]
    pub fn lost(&self) -> CancellationToken {
        self.view.lost.clone()
    }

    /// No changes yet: add to it and answer with it.
    pub fn changes(&self) -> Changes {
        Changes::new()
    }
}

impl KeySource for Job {
    fn key_entity(&self) -> EntityRef {
        self.view.snapshot.entity.clone()
    }

    fn key_stamps(&self) -> InputStamps {
        self.view.snapshot.key_stamps()
    }
}

impl<'j, F, E> Run<'j, F, E> {
    pub(super) fn new(job: F, claim: ClaimBuilder, attempts: u32) -> Self {
        Self { job, claim, name: None, attempts, key: None, failing: None }
    }

    /// What to do when a scope is held. Default: the group's own policy.
    pub fn on_busy(mut self, policy: OnBusy) -> Self {
        self.claim = self.claim.on_busy(policy);
        self
    }

    /// The worker's own name for the job, kept in the operation record.
    pub fn job(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Time to live of the lease, instead of the group's.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.claim = self.claim.ttl(ttl);
        self
    }

    /// Takes every leased scope of the record (RULES 21).
    pub fn whole(mut self) -> Self {
        self.claim = self.claim.whole();
        self
    }

    /// How often the job may run in all, instead of the engine's setting.
    pub fn attempts(mut self, most: u32) -> Self {
        self.attempts = most.max(1);
        self
    }

    /// The job's key: it is begun before the lease is asked for, keeps every other delivery out while the job runs, and is
    /// completed by the save (RULES 31, 32). A delivery of work that was done is answered [`Outcome::Replayed`], one of
    /// work somebody is at [`Outcome::InProgress`]; neither runs the job. Losing the key cancels [`Job::lost`].
    pub fn job_key(mut self, key: JobKey) -> Self {
        self.key = Some(key);
        self
    }

    /// What the job's own errors mean for its key. Default: each may be tried again.
    pub fn failing(mut self, means: impl Fn(&E) -> Failure + Send + 'j) -> Self {
        self.failing = Some(Box::new(means));
        self
    }

    async fn go<Fut>(mut self) -> Result<Outcome, RunError<E>>
    where
        F: FnMut(Job) -> Fut + Send,
        Fut: Future<Output = Result<Changes, E>> + Send,
        E: Send,
    {
        let Some(key) = self.key.take() else { return self.tries(None).await };
        let kept = match self.claim.begin(&key).await? {
            Ok(kept) => kept,
            Err(answer) => return Ok(answer),
        };
        let ended = tokio::select! {
            biased;
            ended = self.tries(Some(&kept)) => ended,
            // Never returns: when the key is lost, the job is told, and the store refuses its save.
            () = kept.keep() => return Ok(Outcome::Lost(LossReason::NotOurs)),
        };
        match self.end_of(&kept, &ended)? {
            Some(how) => kept.finish(&how).await,
            None => kept.leave(),
        }
        ended
    }

    /// How the key ends; `None`: it was completed by the save, or its lease must tell.
    fn end_of(
        &self,
        kept: &Kept,
        ended: &Result<Outcome, RunError<E>>,
    ) -> Result<Option<Finish>, Error> {
        let core = self.claim.core();
        Ok(match ended {
            Ok(Outcome::Applied(_)) | Err(RunError::Engine(Error::OutcomeUnknown(_))) => None,
            Ok(Outcome::Unchanged(same)) => Some(Finish::Done {
                result: stored_no_op(core, &same.to_json())?,
                retention: kept.keyed.retention,
                inputs: kept.inputs(),
            }),
            Ok(_) | Err(RunError::Engine(_)) => Some(Finish::Release),
            Err(RunError::Job(error)) => {
                let means = self.failing.as_ref().map(|failing| failing(error));
                let means = means.unwrap_or_else(|| Failure::Retry("job".to_owned()));
                let (retention, settings) = (kept.keyed.retention, &core.settings);
                Some(match means {
                    Failure::Final(result) => Finish::Failed { result, retention },
                    Failure::Release => Finish::Release,
                    Failure::Retry(class)
                        if kept.attempt.number >= settings.key_attempts.into() =>
                    {
                        let tries = kept.attempt.number;
                        let result = format!("gave up after {tries} attempts: {class}");
                        Finish::Failed { result, retention }
                    }
                    Failure::Retry(class) => {
                        Finish::Retry { class, after: backoff(kept.attempt.number) }
                    }
                })
            }
        })
    }

    /// The job under one claim after another, until there is an answer.
    async fn tries<Fut>(&mut self, kept: Option<&Kept>) -> Result<Outcome, RunError<E>>
    where
        F: FnMut(Job) -> Fut + Send,
        Fut: Future<Output = Result<Changes, E>> + Send,
        E: Send,
    {
        let mut attempt = 0;
        let mut last = Outcome::Lost(LossReason::Expired);
        while attempt < self.attempts {
            let claim = match self.claim.clone().send().await? {
                Claiming::Claimed(claim) => claim,
                Claiming::Busy(busy) => return Ok(Outcome::Busy(busy)),
                Claiming::Skipped(busy) => return Ok(Outcome::Skipped(busy)),
                Claiming::Refused(refused) => return Ok(Outcome::Refused(refused)),
                Claiming::Lost(reason) => {
                    attempt += 1;
                    last = Outcome::Lost(reason);
                    continue;
                }
            };
            let ended = self.under(&claim, kept, &mut attempt, &mut last).await;
            // Its answer never replaces the job's: a lease that ended meanwhile is told by the save.
            claim.release().await;
            if ended? {
                break;
            }
        }
        Ok(last)
    }

    /// Runs the job under one claim, again as long as the lease holds and its inputs move. `true` when `last` is the
    /// answer.
    async fn under<Fut>(
        &mut self,
        claim: &Claim,
        kept: Option<&Kept>,
        attempt: &mut u32,
        last: &mut Outcome,
    ) -> Result<bool, RunError<E>>
    where
        F: FnMut(Job) -> Fut + Send,
        Fut: Future<Output = Result<Changes, E>> + Send,
        E: Send,
    {
        while *attempt < self.attempts {
            *attempt += 1;
            let lost = claim.lost();
            let lost = kept.map_or_else(|| lost.clone(), |kept| kept.watch(&lost));
            let job = claim.job(*attempt, lost);
            let work = &mut self.job;
            let changes = claim.in_frame(async move { work(job).await }).await;
            let save = claim.save().changes(changes.map_err(RunError::Job)?);
            let save = match &self.name {
                Some(name) => save.job(name.clone()),
                None => save,
            };
            let save = match kept {
                Some(kept) => {
                    kept.saw(claim);
                    save.keyed(kept.keyed.clone())
                }
                None => save,
            };
            *last = save.send().await?;
            match step(last) {
                Step::Done => return Ok(true),
                Step::AcquireAgain => return Ok(false),
                Step::JobAgain => {
                    // A claim that is refused is made anew, and says then what is wrong.
                    if let Reclaimed::Lost(_) | Reclaimed::Refused(_) = claim.again().await? {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }
}

/// 1 s after the first failure, four times as long after each, 5 min at most.
fn backoff(attempt: u64) -> Duration {
    let doubled = u32::try_from(attempt.saturating_sub(1).saturating_mul(2)).unwrap_or(u32::MAX);
    let seconds = 1_u64.checked_shl(doubled.min(16)).unwrap_or(u64::MAX);
    Duration::from_secs(seconds).min(Duration::from_secs(300))
}

fn step(outcome: &Outcome) -> Step {
    match outcome {
        Outcome::Lost(_) => Step::AcquireAgain,
        Outcome::Refused(refused) => match &refused.why {
            Why::Store(Refusal::Fenced(_) | Refusal::Stale(_)) => Step::JobAgain,
            Why::Rules { code: "stale_input", .. } => Step::JobAgain,
            _ => Step::Done,
        },
        _ => Step::Done,
    }
}

impl<'j, F, Fut, E> IntoFuture for Run<'j, F, E>
where
    F: FnMut(Job) -> Fut + Send + 'j,
    Fut: Future<Output = Result<Changes, E>> + Send + 'j,
    E: Send + 'j,
{
    type Output = Result<Outcome, RunError<E>>;
    type IntoFuture = BoxFuture<'j, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.go())
    }
}

impl<E> From<Error> for RunError<E> {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

impl<E: std::fmt::Display> std::fmt::Display for RunError<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Job(error) => error.fmt(f),
            Self::Engine(error) => error.fmt(f),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for RunError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Job(error) => error.source(),
            Self::Engine(error) => error.source(),
        }
    }
}
