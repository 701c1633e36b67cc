//! Saves that wait for a lease: stored, run in their turn, told of and cancelled (RULES 36).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use serde_json::{Value as Json, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{
    commit::Notice,
    engine::{
        Engine, Outcome,
        core::{Core, Underway},
        request::{Asker, Request, Shown},
        saving,
    },
    entity::{Change, EntityRef, GroupName, Value},
    error::{Error, Result},
    event::{Event, EventSink},
    path::Path,
    plan::{ForceRight, Intent, Mode, decode_token, token_of},
    queue::{Item, Told},
    registry::OnBusy,
    token::{Generation, OperationId},
};

/// Items looked at in one pass.
const READY: u32 = 64;
/// How often the queue is looked at without a reason: for leases that other processes gave back.
const LOOK: Duration = Duration::from_millis(500);

/// What one pass over the queue did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Saves that took effect.
    pub applied: usize,
    /// Saves that were refused, and are told of in the outbox.
    pub refused: usize,
    /// Saves that changed nothing.
    pub unchanged: usize,
    /// Saves that go on waiting.
    pub waiting: usize,
}

/// A save as the queue keeps it.
#[derive(serde::Serialize, serde::Deserialize)]
struct Stored {
    changes: BTreeMap<Path, StoredChange>,
    token: Option<String>,
    /// An empty list is an absent value.
    bases: BTreeMap<Path, Vec<Json>>,
    shown: Vec<Path>,
    force: Vec<Path>,
    reason: Option<String>,
    all_or_nothing: bool,
    job: Option<String>,
    inputs: Option<BTreeMap<Path, Option<OperationId>>>,
    groups: Option<BTreeSet<GroupName>>,
    force_right: u8,
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredChange {
    Set(Json),
    Unset,
    Add(i64),
    Include(Vec<Json>),
    Exclude(Vec<Json>),
}

/// Hears of leases that are free.
pub(super) struct WakeQueue(pub Arc<Notify>);

impl EventSink for WakeQueue {
    fn emit(&self, event: &Event) {
        if matches!(event, Event::LeaseReleased { .. } | Event::LeaseLost { .. }) {
            self.0.notify_one();
        }
    }

    fn is_deaf(&self) -> bool {
        false
    }
}

impl Engine {
    /// Runs every waiting save whose turn it is and whose leases are free, once. Several processes may do so at once.
    ///
    /// # Errors
    /// When the store cannot be reached or keeps no queue.
    pub async fn drain_queue(&self) -> Result<Drained> {
        let (core, mut drained) = (&self.core, Drained::default());
        let mut after = 0;
        loop {
            let deadline = core.after(core.settings.save_deadline);
            let items = core.ask(deadline, core.store.ready(after, READY)).await?;
            let Some(last) = items.last() else { return Ok(drained) };
            after = last.place;
            for item in items {
                match run(core, &item).await {
                    Ok(Ended::Applied) => drained.applied += 1,
                    Ok(Ended::Refused) => drained.refused += 1,
                    Ok(Ended::Unchanged) => drained.unchanged += 1,
                    Ok(Ended::Waits) => drained.waiting += 1,
                    // It waits on; the next look tries again.
                    Err(error) => {
                        tracing::warn!(operation = %item.operation, %error, "a queued save waits on");
                        drained.waiting += 1;
                    }
                }
            }
        }
    }

    /// Runs waiting saves until `stop`: at once when a lease of this process is given back, and every half second for
    /// those of other processes. Returns early where the store keeps no queue.
    pub async fn run_queue(&self, stop: CancellationToken) {
        loop {
            match self.drain_queue().await {
                Err(Error::NotYet { .. }) => return,
                Err(error) => tracing::warn!(%error, "the queue could not be looked at"),
                // Those behind what has just ended may be first now.
                Ok(drained) if drained.applied + drained.refused + drained.unchanged > 0 => {
                    continue;
                }
                Ok(_) => {}
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.core.queue_wake.notified() => {}
                () = self.core.clock.sleep_until(self.core.after(LOOK)) => {}
            }
        }
    }

    /// Up to `most` waiting saves after this place, in the order they came; of one record, or of all.
    ///
    /// # Errors
    /// When the store cannot be reached or keeps no queue.
    pub async fn queue(
        &self,
        entity: Option<&EntityRef>,
        after: u64,
        most: u32,
    ) -> Result<Vec<Item>> {
        self.core.store.waiting(entity, after, most).await
    }

    /// Takes a waiting save out. `false`: it has run, or is unknown.
    ///
    /// # Errors
    /// When the store cannot be reached or keeps no queue.
    pub async fn cancel_queued(&self, operation: OperationId) -> Result<bool> {
        let why = Notice { kind: "queue_cancelled".to_owned(), body: json!({}) };
        let cancelled = self.core.store.remove(operation, &why).await?;
        self.core.queue_wake.notify_one();
        Ok(cancelled)
    }

    /// Up to `most` events after this one (RULES 26).
    ///
    /// # Errors
    /// When the store cannot be reached or keeps no events.
    pub async fn events(&self, after: u64, most: u32) -> Result<Vec<Told>> {
        self.core.store.pull(after, most).await
    }

    /// How far a named reader has come; with `event` it comes that far.
    ///
    /// # Errors
    /// When the store cannot be reached or keeps no events.
    pub async fn acknowledge(&self, reader: &str, event: Option<u64>) -> Result<u64> {
        self.core.store.ack(reader, event).await
    }
}

enum Ended {
    Applied,
    Refused,
    Unchanged,
    Waits,
}

/// One item in its turn, planned under the rules of this moment.
async fn run(core: &Arc<Core>, item: &Item) -> Result<Ended> {
    let request = match read(core, item) {
        Ok(request) => request,
        Err(error) => {
            return leave(
                core,
                item,
                "queue_refused",
                json!({"code": error.code()}),
                Ended::Refused,
            )
            .await;
        }
    };
    let underway = Underway::default();
    let work = saving::queued(Arc::clone(core), request, item.operation, underway.clone());
    let (writer, entity, frame) = (item.writer.clone(), item.entity.clone(), Arc::clone(core));
    let framed = async move { frame.in_frame(&writer, &entity, work).await };
    match core.detached(underway, framed).await {
        Ok(Outcome::Applied(_)) => Ok(Ended::Applied),
        Ok(Outcome::Unchanged(_)) => {
            leave(core, item, "queue_unchanged", json!({}), Ended::Unchanged).await
        }
        // Another process ran it, or somebody cancelled it.
        Ok(Outcome::Refused(refused)) if refused.why.code() == "not_queued" => Ok(Ended::Applied),
        Ok(Outcome::Refused(refused)) => {
            let plan = refused.plan.as_ref().map(crate::plan::report_json);
            let body = json!({"code": refused.why.code(), "plan": plan});
            leave(core, item, "queue_refused", body, Ended::Refused).await
        }
        Ok(_) => Ok(Ended::Waits),
        // The call is wrong whatever is stored: it will never be right.
        Err(error @ Error::Invalid { .. }) => {
            let body = json!({"code": error.code(), "message": error.to_string()});
            leave(core, item, "queue_refused", body, Ended::Refused).await
        }
        Err(error) => Err(error),
    }
}

async fn leave(core: &Core, item: &Item, kind: &str, body: Json, ended: Ended) -> Result<Ended> {
    core.store.remove(item.operation, &Notice { kind: kind.to_owned(), body }).await?;
    Ok(ended)
}

/// What the queue keeps of a request.
pub(super) fn stored(core: &Core, request: &Request, generation: Generation) -> Result<String> {
    let token = match &request.seen {
        Shown::Nothing => None,
        Shown::Token(token) => Some(core.token_text(token)),
        Shown::Record(record) => Some(core.token_text(&token_of(record, generation))),
    };
    let change = |change: &Change| match change.clone() {
        Change::Set(json) => StoredChange::Set(json),
        Change::Unset => StoredChange::Unset,
        Change::Add(delta) => StoredChange::Add(delta),
        Change::Include(list) => StoredChange::Include(list),
        Change::Exclude(list) => StoredChange::Exclude(list),
    };
    let stored = Stored {
        changes: request.changes.iter().map(|(path, c)| (path.clone(), change(c))).collect(),
        token,
        bases: request
            .bases
            .iter()
            .map(|(path, value)| (path.clone(), value.json().cloned().into_iter().collect()))
            .collect(),
        shown: request.shown.clone(),
        force: request.force.clone(),
        reason: request.reason.clone(),
        all_or_nothing: request.all_or_nothing,
        job: request.job.clone(),
        inputs: request.inputs.clone(),
        groups: request.asker.groups.clone(),
        force_right: match request.asker.force_right {
            ForceRight::None => 0,
            ForceRight::Conflicts => 1,
            ForceRight::Takeover => 2,
        },
    };
    serde_json::to_string(&stored)
        .map_err(|error| Error::internal(format!("a save cannot be queued: {error}")))
}

fn read(core: &Core, item: &Item) -> Result<Request> {
    let stored: Stored = serde_json::from_str(&item.body)
        .map_err(|error| Error::internal(format!("a queued save cannot be read: {error}")))?;
    let change = |change: StoredChange| match change {
        StoredChange::Set(json) => Change::Set(json),
        StoredChange::Unset => Change::Unset,
        StoredChange::Add(delta) => Change::Add(delta),
        StoredChange::Include(list) => Change::Include(list),
        StoredChange::Exclude(list) => Change::Exclude(list),
    };
    let seen = match stored.token {
        Some(text) => Shown::Token(decode_token(&text, core.secret.as_ref())?),
        None => Shown::Nothing,
    };
    let value = |(path, list): (Path, Vec<Json>)| (path, Value::from(list.into_iter().next()));
    Ok(Request {
        asker: Asker {
            writer: item.writer.clone(),
            owner: core.holds.owner(),
            groups: stored.groups,
            force_right: match stored.force_right {
                0 => ForceRight::None,
                1 => ForceRight::Conflicts,
                _ => ForceRight::Takeover,
            },
        },
        entity: item.entity.clone(),
        intent: Intent::Update,
        mode: Mode::Save,
        changes: stored.changes.into_iter().map(|(path, c)| (path, change(c))).collect(),
        seen,
        bases: stored.bases.into_iter().map(value).collect(),
        shown: stored.shown,
        force: stored.force,
        reason: stored.reason,
        all_or_nothing: stored.all_or_nothing,
        job: stored.job,
        on_busy: Some(OnBusy::Fail),
        inputs: stored.inputs,
        key: None,
    })
}
