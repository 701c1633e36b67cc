//! What all sessions of one engine share.

use std::{
    collections::BTreeMap,
    future::Future,
    panic::resume_unwind,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use crate::{
    clock::{Clock, Moment},
    engine::{Store, Validator, registry_sync, turn::Turns},
    entity::{Change, EntityRef, EntityType, Writer},
    error::{Error, Result},
    event::{Event, EventSink},
    hold::Manager,
    mapping::Layout,
    path::Path,
    plan::TokenSecret,
    registry::{EntityRules, Registry},
    snapshot::EditToken,
    strategy::Strategies,
    token::{Entropy, OperationId},
    version::{Publisher, VersionGuard},
};

/// How often a save or claim looks whether rules that were activated have taken effect.
const ACTIVATION_POLL: Duration = Duration::from_millis(100);

/// The commit a save has sent and heard nothing of: what a caller is told when the save's task is gone.
#[derive(Clone, Default)]
pub(super) struct Underway(Arc<Mutex<Option<OperationId>>>);

impl Underway {
    pub(super) fn set(&self, operation: Option<OperationId>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = operation;
    }

    fn get(&self) -> Option<OperationId> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bounds and times; see the builder for what moving them costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub save_deadline: Duration,
    pub attempts: u32,
    pub editor_wait: Duration,
    pub activation_delay: Option<Duration>,
    pub api_key_retention: Duration,
    pub job_key_retention: Duration,
    pub key_lease: Duration,
    pub key_attempts: u32,
}

pub(super) struct Core {
    pub store: Arc<dyn Store>,
    pub holds: Manager,
    pub registry: Arc<Registry>,
    /// Rules taken from the store since the start, by type (RULES 29).
    pub followed: RwLock<BTreeMap<EntityType, Arc<EntityRules>>>,
    /// Where records of mapped types lie (RULES 38, 39, 45).
    pub layouts: RwLock<BTreeMap<EntityType, Arc<Layout>>>,
    pub strategies: Strategies,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub events: Arc<dyn EventSink>,
    pub validator: Option<Arc<dyn Validator>>,
    /// Where other processes see the guards of saves.
    pub guards: Option<Publisher>,
    pub secret: Option<TokenSecret>,
    pub settings: Settings,
    pub turns: Turns,
    pub tasks: TaskTracker,
    /// Somebody gave a lease back, or a save came to wait.
    pub queue_wake: Arc<Notify>,
    pub closing: AtomicBool,
}

impl Core {
    /// Runs a save, or the work for one, in a frame that hooks can ask about.
    pub(super) async fn in_frame<F: Future>(
        &self,
        writer: &Writer,
        entity: &EntityRef,
        work: F,
    ) -> F::Output {
        match &self.guards {
            Some(guards) => VersionGuard::scope_on(guards.clone(), writer, entity, work).await,
            None => VersionGuard::scope(writer.kind, work).await,
        }
    }

    /// The rules in force for a type, as far as this process knows.
    pub(super) fn rules(&self, kind: &EntityType) -> Result<Arc<EntityRules>> {
        let followed = self.followed.read().unwrap_or_else(PoisonError::into_inner);
        let found = followed.get(kind).or_else(|| self.registry.entity(kind.as_str())).cloned();
        found.ok_or_else(|| {
            let message = format!("entity type `{kind}` is not in the registry");
            Error::invalid("unknown_type", message, "add it under field_ownership")
        })
    }

    /// The rules a save may go by. Refused while the registry declares what this version does not do yet.
    pub(super) fn ready_rules(&self, kind: &EntityType) -> Result<Arc<EntityRules>> {
        let rules = self.rules(kind)?;
        if rules.not_yet.is_empty() {
            return Ok(rules);
        }
        let keys = rules.not_yet.join("`, `");
        let message = format!("`{kind}` declares `{keys}`, which this version does not do yet");
        Err(Error::NotYet { message })
    }

    /// Reads the rules in force from the store after it refused ours. `true` when they are others than `ours`.
    pub(super) async fn refresh_rules(&self, ours: &EntityRules) -> Result<bool> {
        let deadline = self.after(self.settings.save_deadline);
        let active = self.ask(deadline, self.store.active(&ours.kind)).await?;
        let Some((generation, text)) = active else {
            return Ok(false);
        };
        if generation == ours.generation {
            return Ok(false);
        }
        let rules = registry_sync::read_rules(&ours.kind, generation, &text, &self.strategies)?;
        let layout = self.ask(deadline, self.store.map(&rules)).await?;
        self.lay_out(&ours.kind, layout);
        let mut followed = self.followed.write().unwrap_or_else(PoisonError::into_inner);
        followed.insert(ours.kind.clone(), rules);
        Ok(true)
    }

    fn lay_out(&self, kind: &EntityType, layout: Option<Arc<Layout>>) {
        let mut layouts = self.layouts.write().unwrap_or_else(PoisonError::into_inner);
        match layout {
            Some(layout) => layouts.insert(kind.clone(), layout),
            None => layouts.remove(kind),
        };
    }

    /// Submitted values in the form their columns give back; untouched where records are the store's own.
    pub(super) fn in_form(
        &self,
        kind: &EntityType,
        changes: &mut BTreeMap<Path, Change>,
    ) -> Result<()> {
        let layouts = self.layouts.read().unwrap_or_else(PoisonError::into_inner);
        let layout = layouts.get(kind).cloned();
        drop(layouts);
        layout.map_or(Ok(()), |layout| layout.canonical(changes))
    }

    /// Waits a little for rules of ours that were activated to take effect; no longer than until the deadline.
    pub(super) async fn await_rules(&self, deadline: Moment) -> Result<()> {
        if self.clock.now() >= deadline {
            let message = "the rules that were activated are not in effect yet";
            return Err(Error::unavailable(message));
        }
        self.clock.sleep_until(self.after(ACTIVATION_POLL).min(deadline)).await;
        Ok(())
    }

    pub(super) fn operation(&self) -> OperationId {
        OperationId::new(self.clock.wall(), &*self.entropy)
    }

    pub(super) fn emit(&self, event: &Event) {
        self.events.emit(event);
    }

    pub(super) fn token_text(&self, token: &EditToken) -> String {
        crate::plan::encode_token(token, self.secret.as_ref())
    }

    pub(super) fn after(&self, wait: Duration) -> Moment {
        self.clock.now().plus(wait)
    }

    /// The future's value, or `None` when the moment comes first. The future is dropped then.
    pub(super) async fn before<F: Future>(&self, deadline: Moment, work: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            value = work => Some(value),
            () = self.clock.sleep_until(deadline) => None,
        }
    }

    /// A store call that writes nothing by being cut short.
    pub(super) async fn ask<T>(
        &self,
        deadline: Moment,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        self.before(deadline, call).await.unwrap_or_else(|| {
            Err(Error::unavailable(
                "the store did not answer before the save deadline; nothing was written",
            ))
        })
    }

    /// Runs a save on a task of its own, so that a caller that goes away never cancels it half way. A panic of a
    /// hook goes on in the caller.
    pub(super) async fn detached<T: Send + 'static>(
        &self,
        underway: Underway,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        if self.closing.load(Ordering::Acquire) {
            return Err(Error::unavailable("the engine is shutting down"));
        }
        match self.tasks.spawn(work).await {
            Ok(answer) => answer,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(_) => Err(match underway.get() {
                    Some(operation) => Error::OutcomeUnknown(operation),
                    None => Error::unavailable("the runtime is shutting down"),
                }),
            },
        }
    }

    /// A pause before trial number `trial`, jittered and doubling up to 64 ms; none before the first repeat.
    pub(super) async fn pause(&self, trial: u32) {
        if trial == 0 {
            return;
        }
        let most_us = 1_000_u64 << trial.min(6);
        let [a, b, c, d, ..] = self.entropy.bytes();
        let random = u64::from(u32::from_be_bytes([a, b, c, d])) % most_us;
        self.clock.sleep_until(self.after(Duration::from_micros(random))).await;
    }
}
