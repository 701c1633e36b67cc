//! Counting events. Labels come only from the registry, so no caller can make the number of series grow.

mod lease_calls;

use std::collections::{BTreeMap, BTreeSet};

pub use self::lease_calls::{CountedLeases, LEASE_CALL_SECONDS, LEASE_CALLS, LEASE_STORE_UP};
use crate::{
    audit::loss,
    entity::{EntityType, GroupName, WriterKind},
    event::{Event, EventSink},
    registry::EntityRules,
    scope::Scope,
};

/// Saves by `entity_type`, `writer` and `outcome`.
pub const SAVES: &str = "fieldlease_saves_total";
/// Saves planned again, by `entity_type` and `reason`.
pub const REPLANS: &str = "fieldlease_replans_total";
/// Lease transitions by `entity_type`, `group` and `outcome`.
pub const LEASES: &str = "fieldlease_leases_total";
/// Seconds waited for a lease, by `entity_type` and `group`.
pub const WAITED: &str = "fieldlease_lease_waited_seconds";
/// Seconds a lease was held, by `entity_type` and `group`.
pub const HELD: &str = "fieldlease_lease_held_seconds";

/// Stands for every name the registry does not know.
const OTHER: &str = "other";

/// Counts with whatever recorder of the `metrics` crate is installed.
pub struct Metrics {
    known: BTreeMap<EntityType, BTreeSet<GroupName>>,
}

impl Metrics {
    /// Labels are these entity types and groups, the registry's; anything else is counted as `other`.
    #[must_use]
    pub fn new<'a>(rules: impl IntoIterator<Item = &'a EntityRules>) -> Self {
        let named = |rules: &EntityRules| {
            (rules.kind.clone(), rules.groups.keys().cloned().collect::<BTreeSet<_>>())
        };
        describe();
        Self { known: rules.into_iter().map(named).collect() }
    }

    fn kind(&self, kind: &EntityType) -> String {
        if self.known.contains_key(kind) { kind.to_string() } else { OTHER.to_owned() }
    }

    fn scope(&self, scope: &Scope) -> (String, String) {
        let group = scope.name.group_name();
        let known = self.known.get(&scope.entity.kind).is_some_and(|groups| groups.contains(group));
        let group = if known { group.to_string() } else { OTHER.to_owned() };
        (self.kind(&scope.entity.kind), group)
    }

    fn save(&self, kind: &EntityType, writer: WriterKind, outcome: &'static str) {
        let writer = match writer {
            WriterKind::Editor => "editor",
            WriterKind::Worker => "worker",
        };
        ::metrics::counter!(SAVES, "entity_type" => self.kind(kind), "writer" => writer, "outcome" => outcome)
            .increment(1);
    }

    fn lease(&self, scope: &Scope, outcome: &'static str) {
        let (kind, group) = self.scope(scope);
        ::metrics::counter!(LEASES, "entity_type" => kind, "group" => group, "outcome" => outcome)
            .increment(1);
    }
}

impl EventSink for Metrics {
    fn emit(&self, event: &Event) {
        match event {
            Event::LeaseGranted { scope, waited, .. } => {
                self.lease(scope, "granted");
                let (kind, group) = self.scope(scope);
                ::metrics::histogram!(WAITED, "entity_type" => kind, "group" => group)
                    .record(*waited);
            }
            Event::LeaseReleased { scope, held, .. } => {
                self.lease(scope, "released");
                let (kind, group) = self.scope(scope);
                ::metrics::histogram!(HELD, "entity_type" => kind, "group" => group).record(*held);
            }
            Event::LeaseBusy { scope, .. } => self.lease(scope, "busy"),
            Event::LeaseRenewed { scope, .. } => self.lease(scope, "renewed"),
            Event::LeaseReleaseRefused { scope, .. } => self.lease(scope, "released_late"),
            Event::LeaseRenewFailed { scope, .. } => self.lease(scope, "renew_failed"),
            Event::HeartbeatLate { scope, .. } => self.lease(scope, "heartbeat_late"),
            Event::LeaseReleaseFailed { scope, .. } => self.lease(scope, "release_failed"),
            Event::LeaseTtlAnomaly { scope, .. } => self.lease(scope, "ttl_anomaly"),
            Event::LeaseLost { scope, reason, .. } => self.lease(scope, loss(*reason)),
            Event::Saved { entity, writer, .. } => self.save(&entity.kind, writer.kind, "applied"),
            Event::Unchanged { entity, writer } => {
                self.save(&entity.kind, writer.kind, "unchanged");
            }
            Event::Refused { entity, writer, code, .. } => {
                self.save(&entity.kind, writer.kind, code);
            }
            Event::Replanned { entity, code, .. } => {
                let kind = self.kind(&entity.kind);
                ::metrics::counter!(REPLANS, "entity_type" => kind, "reason" => *code).increment(1);
            }
            // Rare, and in the audit trail.
            Event::EntityErased { .. } | Event::WriterErased { .. } => {}
        }
    }
}

fn describe() {
    ::metrics::describe_counter!(SAVES, "saves by outcome");
    ::metrics::describe_counter!(REPLANS, "saves planned again on fresh data");
    ::metrics::describe_counter!(LEASES, "lease transitions");
    ::metrics::describe_histogram!(WAITED, ::metrics::Unit::Seconds, "time waited for a lease");
    ::metrics::describe_histogram!(HELD, ::metrics::Unit::Seconds, "time a lease was held");
}
