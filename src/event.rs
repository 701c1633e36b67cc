//! Facts flow up as events: audit, metrics and tests listen, nothing below knows them.

use std::{sync::Arc, time::Duration};

use crate::{
    entity::{EntityRef, Writer},
    scope::Scope,
    token::{HolderToken, OperationId, VersionNumber},
};

/// Why a lease ended for its holder before it was released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// The local deadline passed without a confirmed renewal.
    Expired,
    /// The lease store said it is not ours.
    NotOurs,
    /// It reached `max_hold`.
    MaxHold,
    /// An operator broke it.
    Broken,
    /// The database refused the fence: a successor has claimed.
    Fenced,
    /// The process shuts down.
    Shutdown,
}

/// One transition.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A lease was granted.
    LeaseGranted {
        /// What.
        scope: Scope,
        /// To whom: the name in the record store's claim.
        holder: HolderToken,
        /// The name the holder gave.
        label: Arc<str>,
        /// From asking to holding.
        waited: Duration,
    },
    /// Somebody asked for a lease that is held.
    LeaseBusy {
        /// What.
        scope: Scope,
        /// Who asked.
        label: Arc<str>,
        /// Who holds it.
        held_by: Arc<str>,
    },
    /// A renewal was confirmed.
    LeaseRenewed {
        /// What.
        scope: Scope,
        /// Whose.
        holder: HolderToken,
    },
    /// A renewal got no answer; the lease may live on, and the next try comes before its deadline.
    LeaseRenewFailed {
        /// What.
        scope: Scope,
        /// Whose.
        holder: HolderToken,
    },
    /// A renewal was due but was sent this much later: the process is starved of time.
    HeartbeatLate {
        /// What.
        scope: Scope,
        /// How late.
        late: Duration,
    },
    /// A holder can no longer trust its lease.
    LeaseLost {
        /// What.
        scope: Scope,
        /// Whose.
        holder: HolderToken,
        /// Why.
        reason: LossReason,
    },
    /// A holder gave its lease back.
    LeaseReleased {
        /// What.
        scope: Scope,
        /// Whose.
        holder: HolderToken,
        /// From grant to release.
        held: Duration,
    },
    /// A release came too late: the lease had ended, and a successor was left alone.
    LeaseReleaseRefused {
        /// What.
        scope: Scope,
        /// Whose.
        holder: HolderToken,
    },
    /// A release got no answer, however often it was tried; the lease ends by its time to live.
    LeaseReleaseFailed {
        /// What.
        scope: Scope,
        /// Whose.
        holder: HolderToken,
    },
    /// A remaining time that no grant can have was found and clamped.
    LeaseTtlAnomaly {
        /// Where.
        scope: Scope,
        /// What was found; -1: it would never have ended.
        found_ms: i64,
    },
    /// A save was applied.
    Saved {
        /// The record.
        entity: EntityRef,
        /// The save.
        operation: OperationId,
        /// Who.
        writer: Writer,
        /// The version an editor's save made; `None` for a worker's.
        version: Option<VersionNumber>,
        /// How many units changed.
        paths: usize,
    },
    /// A save changed nothing.
    Unchanged {
        /// The record.
        entity: EntityRef,
        /// Who.
        writer: Writer,
    },
    /// A save was refused, nothing was written.
    Refused {
        /// The record.
        entity: EntityRef,
        /// The save.
        operation: OperationId,
        /// Who.
        writer: Writer,
        /// The stable code of the refusal.
        code: &'static str,
    },
    /// A save was planned again on fresh data.
    Replanned {
        /// The record.
        entity: EntityRef,
        /// The save.
        operation: OperationId,
        /// Why: the stable code of what the store answered.
        code: &'static str,
    },
    /// A record was erased. Who keeps its id elsewhere forgets it.
    EntityErased {
        /// The record.
        entity: EntityRef,
    },
    /// A writer's name was erased. Who keeps it elsewhere forgets it.
    WriterErased {
        /// Whose.
        writer: Writer,
    },
}

/// Where events go.
pub trait EventSink: Send + Sync {
    /// Never blocks and never fails; a full sink counts what it drops.
    fn emit(&self, event: &Event);
    /// Whether it drops every event, so that none need be made for it.
    fn is_deaf(&self) -> bool {
        false
    }
}

/// Sends every event to several sinks, in order.
#[derive(Default)]
pub struct Fanout(pub Vec<Arc<dyn EventSink>>);

impl EventSink for Fanout {
    fn emit(&self, event: &Event) {
        for sink in &self.0 {
            sink.emit(event);
        }
    }

    fn is_deaf(&self) -> bool {
        self.0.iter().all(|sink| sink.is_deaf())
    }
}

/// Drops every event.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEvents;

impl EventSink for NoEvents {
    fn emit(&self, _: &Event) {}

    fn is_deaf(&self) -> bool {
        true
    }
}
