//! The job key of a command: a job that has succeeded under it is not run again.

use std::{sync::Arc, time::Duration};

use fieldlease::{
    clock::{Clock, SystemClock},
    engine::Store,
    entity::Writer,
    idempotency::BeginAsk,
    key::{Attempt, Begin, Finish, JobKey, Key, KeyKind, Owner, RequestHash},
    lease::Extent,
    token::SystemEntropy,
};
use serde_json::json;

use super::Args;
use crate::{
    output::{Failure, Result},
    store_at::{self, Open},
};

/// How long the key keeps others out without a renewal.
const LEASE: Duration = Duration::from_secs(60);
/// How long a success is remembered.
const RETENTION: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Whose keys these are: those of `run` are one worker's, whatever machine starts it.
const WORKER: &str = "fieldlease run";

/// A key that was begun.
pub(super) struct Once {
    store: Arc<dyn Store>,
    key: Key,
    attempt: Attempt,
}

/// What the key says.
pub(super) enum Begun {
    /// The command is to be run; under no key, if none was given.
    Run(Option<Once>),
    /// It has succeeded before.
    Done,
}

impl Once {
    /// Begins the key, if one was given.
    pub(super) async fn begin(args: &Args, extent: &Extent) -> Result<Begun> {
        let Some(key) = &args.job_key else { return Ok(Begun::Run(None)) };
        let Some(url) = &args.store else {
            let message = "a job key is kept in a store";
            return Err(Failure::new(
                "usage",
                message,
                "name one with --store or FIELDLEASE_STORE",
            ));
        };
        let key = JobKey::text(key)?.key(&Writer::worker(WORKER))?;
        let target = format!("{}/{}", extent.entity().kind, extent.entity().id.as_str());
        let groups: Vec<String> = extent.scopes().names().iter().map(ToString::to_string).collect();
        let hash = RequestHash::of_json(KeyKind::Job, "run", &target, &json!(groups))?;
        let store = store_at::open(url, Open::Shared).await?;
        let own = Owner::new(&SystemEntropy);
        let ask = BeginAsk { key: key.clone(), hash, own, lease: LEASE };
        match store.begin(&ask).await? {
            Begin::Acquired { attempt, .. } => Ok(Begun::Run(Some(Self { store, key, attempt }))),
            Begin::Replay(_) => Ok(Begun::Done),
            Begin::Mismatch => {
                let message = "the job key was used for another record or other groups";
                Err(Failure::new("key_mismatch", message, "give every job a key of its own"))
            }
            Begin::InProgress { retry_after } | Begin::RetryLater { retry_after } => {
                let seconds = retry_after.as_secs().max(1);
                let message = "another process is at the job of this key";
                let help = format!("its lease on the key ends in {seconds} s if it is gone");
                Err(Failure::new("in_progress", message, help))
            }
        }
    }

    /// Renews the key; returns when it is another process's.
    pub(super) async fn keep(&self) {
        let mut wait = LEASE / 2;
        loop {
            SystemClock.sleep_until(SystemClock.now().plus(wait)).await;
            wait = match self.store.renew(&self.key, self.attempt, LEASE).await {
                Ok(true) => LEASE / 2,
                Ok(false) => return,
                // Not known: the store is asked again before the lease is over.
                Err(_) => LEASE / 10,
            };
        }
    }

    /// A success is remembered; anything else leaves the key free for the next start.
    pub(super) async fn end(self, succeeded: bool) -> Result<()> {
        let how = if succeeded {
            let result = json!({"exit": 0}).to_string();
            Finish::Done { result, retention: RETENTION, inputs: None }
        } else {
            Finish::Release
        };
        self.store.finish(&self.key, self.attempt, &how).await?;
        Ok(())
    }
}
