//! A save as it was asked for, checked: plain values, nothing decided yet.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    engine::keyed::Keyed,
    entity::{Change, EntityRef, GroupName, Value, Writer},
    hold::OwnerId,
    path::Path,
    plan::{ForceRight, Intent, Mode, PlanInput, Seen},
    registry::{EntityRules, OnBusy},
    snapshot::{EditToken, Snapshot},
    token::OperationId,
};

/// Who asks, and what the credential allows.
#[derive(Clone, Debug)]
pub(super) struct Asker {
    pub writer: Writer,
    /// Tells a nested acquisition from a competing one.
    pub owner: OwnerId,
    /// Groups the credential allows; `None`: whatever the writer's kind and name may write.
    pub groups: Option<BTreeSet<GroupName>>,
    pub force_right: ForceRight,
}

/// What the writer had been shown.
#[derive(Clone, Debug, Default)]
pub(super) enum Shown {
    #[default]
    Nothing,
    Token(EditToken),
    Record(Box<Snapshot>),
}

/// One save.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub asker: Asker,
    pub entity: EntityRef,
    pub intent: Intent,
    pub mode: Mode,
    pub changes: BTreeMap<Path, Change>,
    pub seen: Shown,
    pub bases: BTreeMap<Path, Value>,
    pub shown: Vec<Path>,
    pub force: Vec<Path>,
    pub reason: Option<String>,
    pub all_or_nothing: bool,
    pub job: Option<String>,
    pub on_busy: Option<OnBusy>,
    pub inputs: Option<BTreeMap<Path, Option<OperationId>>>,
    pub key: Option<Keyed>,
}

impl Request {
    /// What a plan of this request depends on, over a snapshot. A claim stands in for what the writer had been
    /// shown where the request says nothing.
    pub(super) fn input<'a>(
        &'a self,
        rules: &'a EntityRules,
        snapshot: &'a Snapshot,
        claimed: Option<&'a Snapshot>,
        fetched: &'a BTreeMap<Path, Option<Value>>,
    ) -> PlanInput<'a> {
        let seen = match (&self.seen, claimed) {
            (Shown::Token(token), _) => Seen::Token(token),
            (Shown::Record(record), _) => Seen::Record(record),
            (Shown::Nothing, Some(claimed)) => Seen::Record(claimed),
            (Shown::Nothing, None) => Seen::Nothing,
        };
        PlanInput {
            groups: self.asker.groups.as_ref(),
            seen,
            sent_bases: &self.bases,
            fetched_bases: fetched,
            shown: &self.shown,
            force: &self.force,
            force_right: self.asker.force_right,
            all_or_nothing: self.all_or_nothing,
            intent: self.intent,
            mode: self.mode,
            inputs: self.inputs.as_ref(),
            ..PlanInput::new(rules, &self.asker.writer, snapshot, &self.changes)
        }
    }
}
