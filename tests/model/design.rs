//! What is explored: who saves what, what may go wrong how often, and which defence is missing.

/// Person or program; decides which record a save leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Editor,
    Worker,
}

/// One saver with one save to make. Two savers with the same operation are one job, delivered twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Saver {
    pub(crate) kind: Kind,
    pub(crate) field: u8,
    /// From 1; 0 is the value before the first save.
    pub(crate) operation: u8,
}

/// How often each fault may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    /// A heartbeat fails until the local deadline of a living saver has passed.
    pub(crate) late: u8,
    /// A saver dies, by a kill, a panic or a dropped future.
    pub(crate) crash: u8,
    /// The lease server loses all keys.
    pub(crate) keys_lost: u8,
    /// The connection breaks after a COMMIT was sent.
    pub(crate) unknown: u8,
    /// A scope row is deleted, and its counters start again.
    pub(crate) row_lost: u8,
}

/// A defence taken out, or a mistake put in. None of them exists in the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// Acquiring ends without a claim; a commit compares the version only.
    NoClaim,
    /// Textbook fencing: the number of the grant is compared with `<=` when writing, and nothing is claimed.
    FenceOnlyWhenWriting,
    /// A commit compares `stored fence <= mine` and no holder.
    FenceLessOrEqual,
    /// A commit compares version and fence for equality, but no holder.
    NoHolderCompare,
    /// A commit compares no version.
    NoVersionCompare,
    /// A commit does not raise the version.
    VersionNotRaised,
    /// The record is read before the claim locks the row.
    LoadBeforeClaim,
    /// A claim answered after the local deadline is used.
    LateClaimUsed,
    /// The local deadline lies after the moment the key expires.
    DeadlineAfterExpiry,
    /// The fence is the lease server's counter, which goes when its keys go.
    FenceFromLeaseServer,
    /// Release deletes the key without looking whose it is.
    PlainRelease,
    /// A key never expires.
    NoTtl,
    /// After an unknown COMMIT the save is sent again under a new operation id.
    BlindRetry,
    /// An unknown COMMIT is taken for a success.
    UnknownIsSuccess,
    /// An unknown COMMIT is taken for a refusal.
    UnknownIsRefusal,
    /// `resolve` looks once and does not stop a COMMIT that is still on its way.
    ResolveOnlyLooks,
    /// The store takes the same operation id twice.
    NoOperationUniqueness,
    /// The record of a save is written in a transaction of its own.
    RecordApart,
    /// Whether a save makes a version is a flag of the process.
    ProcessWideGuard,
    /// A saver that dies leaves its guard up.
    GuardNotDropped,
    /// A save writes every field of the record as it was loaded.
    WholeRecord,
    /// A true conflict is run again on the fresh value.
    ConflictRunAgain,
    /// A moved scope version is a conflict, although another field moved it.
    VersionIsConflict,
    /// Not a fault of the design: grants are taken to be ordered across a loss of keys, which nobody can promise.
    OrderAcrossLostKeys,
}

/// Everything explored in one run.
#[derive(Clone, Debug)]
pub(crate) struct Design {
    pub(crate) savers: Vec<Saver>,
    /// The scope of each field.
    pub(crate) fields: Vec<u8>,
    /// Whether each scope takes leases; the others are optimistic.
    pub(crate) leased: Vec<bool>,
    /// Each fence at the start: what was there before this run.
    pub(crate) fence: u8,
    pub(crate) faults: Budget,
    /// How often a saver starts over before it gives up.
    pub(crate) attempts: u8,
    pub(crate) mutations: &'static [Mutation],
}

impl Design {
    pub(crate) fn is(&self, mutation: Mutation) -> bool {
        self.mutations.contains(&mutation)
    }

    pub(crate) fn scope(&self, saver: usize) -> usize {
        usize::from(self.fields[usize::from(self.savers[saver].field)])
    }

    pub(crate) fn is_leased(&self, saver: usize) -> bool {
        self.leased[self.scope(saver)]
    }

    /// Savers of the same operation: this one, and its redelivery.
    pub(crate) fn is_redelivered(&self, saver: usize) -> bool {
        let operation = self.savers[saver].operation;
        self.savers.iter().filter(|other| other.operation == operation).count() > 1
    }

    /// Whether nobody else writes this saver's field, and faults are too few to use up its attempts.
    ///
    /// A leased scope must be its own too: rivals there may displace it by late claims, which is no refusal for ever.
    pub(crate) fn must_succeed(&self, saver: usize) -> bool {
        let own = self.savers[saver];
        let alone = self.savers.iter().enumerate().all(|(other, rival)| {
            other == saver
                || (rival.field != own.field
                    && (!self.is_leased(saver) || self.scope(other) != self.scope(saver)))
        });
        let faults = self.faults.late + self.faults.keys_lost + self.faults.unknown;
        let replans = self.savers.len() as u8 - 1;
        alone && self.faults.row_lost == 0 && self.attempts > faults + replans
    }
}
