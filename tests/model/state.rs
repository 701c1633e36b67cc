//! One moment of the explored world. Numbers are kept small: equal worlds must be equal values.

use crate::design::{Budget, Design};

/// Where a saver stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum At {
    /// Has no lease, or no form open.
    Idle,
    /// An editor's form shows values.
    Opened,
    /// Holds a lease; its claim is on the way.
    Granted,
    /// (mutation) Has read the record before claiming.
    ReadEarly,
    /// The claim was answered; the deadline is not yet looked at.
    Claimed,
    /// The commit is on the way.
    Sent,
    /// (mutation) Data written, record not yet.
    Unrecorded,
    /// The commit was sent and no answer came.
    Unknown,
    /// The commit took effect; the lease is not yet given back.
    Saved,
    /// Ended: acknowledged.
    Done,
    /// Ended: refused as a conflict, nothing written.
    Refused,
    /// Ended: out of attempts, nothing written.
    GaveUp,
    /// Ended: dead.
    Crashed,
}

impl At {
    pub(crate) fn ended(self) -> bool {
        matches!(self, Self::Done | Self::Refused | Self::GaveUp | Self::Crashed)
    }

    /// Steps that can still follow without a fault or a new attempt.
    fn left(self) -> u32 {
        match self {
            Self::Unknown => 9,
            Self::Idle => 8,
            Self::Opened | Self::Granted => 7,
            Self::ReadEarly => 6,
            Self::Claimed => 5,
            Self::Sent => 4,
            Self::Unrecorded => 3,
            Self::Saved => 2,
            Self::Done | Self::Refused | Self::GaveUp | Self::Crashed => 0,
        }
    }
}

/// A lease as its store knows it: which saver, by which grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Grant {
    pub(crate) saver: u8,
    pub(crate) number: u8,
}

/// The row of a scope in the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Row {
    pub(crate) version: u8,
    pub(crate) fence: u8,
    pub(crate) holder: Option<Grant>,
}

/// A commit on its way to the database.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Message {
    pub(crate) grant: Grant,
    pub(crate) epoch: u8,
    pub(crate) version: u8,
    pub(crate) fence: u8,
    /// The value of each field its writer had seen; only its own field counts unless the whole record is written.
    pub(crate) seen: Vec<u8>,
}

/// One saver.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SaverState {
    pub(crate) at: At,
    pub(crate) attempts: u8,
    /// Its local deadline has not passed.
    pub(crate) trusts: bool,
    /// Its version guard is up.
    pub(crate) guard: bool,
    /// (mutation) It sends again under an id the store does not know.
    pub(crate) renamed: bool,
    /// What it has read, and the expectations of the next commit.
    pub(crate) next: Option<Message>,
    /// A commit nobody waits for any more, but which may still arrive.
    pub(crate) flying: Option<Message>,
}

/// What must never happen, noted at the step where it would.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Violations {
    pub(crate) lost_update: bool,
    pub(crate) after_successor: bool,
    pub(crate) not_last_claimer: bool,
    pub(crate) foreign_release: bool,
}

/// The world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) leases: Vec<Option<Grant>>,
    pub(crate) grants: Vec<u8>,
    pub(crate) rows: Vec<Row>,
    /// The operation that wrote each field last.
    pub(crate) values: Vec<u8>,
    /// By operation: how often it took effect, was recorded as an operation, as a version.
    pub(crate) effects: Vec<u8>,
    pub(crate) operations: Vec<u8>,
    pub(crate) versions: Vec<u8>,
    pub(crate) savers: Vec<SaverState>,
    pub(crate) left: Budget,
    /// (mutation) The flag of the process.
    pub(crate) flag: u8,
    /// (mutation) The lease server's own fence counter, by scope.
    pub(crate) counters: Vec<u8>,
    /// How often the lease server lost its keys.
    pub(crate) epoch: u8,
    /// By scope: the newest grant that has claimed, before and after a loss of keys.
    pub(crate) claimed: Vec<[u8; 2]>,
    /// By scope: who claimed last.
    pub(crate) last_claim: Vec<Option<Grant>>,
    pub(crate) violations: Violations,
}

impl State {
    pub(crate) fn new(design: &Design) -> Self {
        let scopes = design.leased.len();
        let last = design.savers.iter().map(|saver| saver.operation).max().unwrap_or(0);
        let by_operation = vec![0; usize::from(last) + 1];
        let idle = SaverState {
            at: At::Idle,
            attempts: design.attempts,
            trusts: false,
            guard: false,
            renamed: false,
            next: None,
            flying: None,
        };
        let row = Row { fence: design.fence, ..Row::default() };
        Self {
            leases: vec![None; scopes],
            grants: vec![design.fence; scopes],
            rows: vec![row; scopes],
            values: vec![0; design.fields.len()],
            effects: by_operation.clone(),
            operations: by_operation.clone(),
            versions: by_operation,
            savers: vec![idle; design.savers.len()],
            left: design.faults,
            flag: 0,
            counters: vec![design.fence; scopes],
            epoch: 0,
            claimed: vec![[0; 2]; scopes],
            last_claim: vec![None; scopes],
            violations: Violations::default(),
        }
    }

    /// Falls with every step, so every run of the model ends.
    pub(crate) fn rank(&self) -> [u32; 5] {
        let Budget { late, crash, keys_lost, unknown, row_lost } = self.left;
        let faults = late + crash + keys_lost + unknown + row_lost;
        [
            u32::from(faults),
            self.savers.iter().map(|saver| u32::from(saver.attempts)).sum(),
            self.savers.iter().map(|saver| saver.at.left()).sum(),
            self.savers.iter().filter(|saver| saver.flying.is_some()).count() as u32,
            self.leases.iter().flatten().count() as u32,
        ]
    }
}
