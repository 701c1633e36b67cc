//! A majority of independent lease stores: a lease is held when more than half of all nodes granted it.
//!
//! It outlives the loss of a minority of its nodes. It is not needed for the safety of saves: that is the claim's
//! (RULES 10). Where the guarantee ends is in `docs/backends/majority.md`; in short, a node that lost its memory must
//! stay out for one time to live before it may vote again, and nothing here can enforce that.
//!
//! Nodes are asked at the same time, and the answer is given as soon as it is decided. Whatever an attempt may have taken
//! without leading to a lease is given back, also by requests that are still in the air when their caller goes away:
//! see `crew` for who drives them.
//!
//! INVARIANT: a node counts for a token only under its present name, and a name is never used again once something was
//! given back under it. So a late release cannot take a vote away from a later grant.

mod attempt;
mod book;
mod calls;
mod crew;
mod entry;
mod round;
mod shared;
mod views;
mod watch;

use std::{sync::Arc, time::Duration};

use crate::{
    clock::{BoxFuture, Clock},
    entity::EntityRef,
    error::{Error, Result},
    lease::{Acquire, Ask, Extent, Holder, LeaseStore, Release, Renew, Renewal, WakeSink},
    scope::Scope,
    token::{Entropy, HolderToken},
};

use self::shared::Shared;

/// Most nodes.
pub const NODES_MAX: usize = 15;
/// Settings of a [`Majority`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MajoritySettings {
    /// How long a node may take to answer, unless 5 % of the time to live is less. Default 500 ms. Longer makes a dead
    /// node slow down every answer that depends on it, shorter makes a slow one count as dead.
    pub node_timeout: Duration,
}

impl Default for MajoritySettings {
    fn default() -> Self {
        Self { node_timeout: Duration::from_millis(500) }
    }
}

impl MajoritySettings {
    /// Sets [`MajoritySettings::node_timeout`].
    #[must_use]
    pub fn node_timeout(mut self, node_timeout: Duration) -> Self {
        self.node_timeout = node_timeout;
        self
    }
}

/// A lease store over several others. See the module.
pub struct Majority {
    shared: Arc<Shared>,
}

impl Majority {
    /// A store over these nodes, which share nothing with each other. A majority is one of *all* of them, reachable or
    /// not. With an even number one node more must answer, for no more nodes that may be lost.
    ///
    /// # Errors
    /// `bad_nodes` for no nodes or more than [`NODES_MAX`].
    pub fn new(
        nodes: Vec<Arc<dyn LeaseStore>>,
        settings: MajoritySettings,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self> {
        if nodes.is_empty() || nodes.len() > NODES_MAX {
            let message = format!("a majority of {} nodes is not possible", nodes.len());
            return Err(Error::invalid("bad_nodes", message, "name 1 to 15 independent servers"));
        }
        let shared = Shared::new(nodes, settings, clock, entropy);
        Ok(Self { shared: Arc::new(shared) })
    }

    /// How many nodes must agree.
    #[must_use]
    pub fn quorum(&self) -> usize {
        self.shared.quorum
    }

    /// Whether nothing is held, queued, remembered or being given back by this process.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let mut book = self.shared.book();
        book.sweep(self.shared.clock.now());
        book.is_empty() && self.shared.crew.is_empty()
    }
}

impl LeaseStore for Majority {
    fn acquire<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Result<Acquire>> {
        Box::pin(self.shared.take(ask))
    }

    fn renew<'a>(&'a self, batch: &'a [Renew]) -> BoxFuture<'a, Vec<Renewal>> {
        Box::pin(self.shared.prolong(batch))
    }

    fn release<'a>(
        &'a self,
        extent: &'a Extent,
        token: HolderToken,
    ) -> BoxFuture<'a, Result<Release>> {
        Box::pin(self.shared.give_up(extent, token))
    }

    /// Also drives what was left behind by callers that went away, and the turns of waiters.
    fn watch<'a>(&'a self, sink: Arc<dyn WakeSink>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            watch::watch(Arc::clone(&self.shared), sink).await;
            Ok(())
        })
    }

    fn inspect<'a>(
        &'a self,
        entity: Option<&'a EntityRef>,
        cursor: Option<&'a str>,
        most: u32,
    ) -> BoxFuture<'a, Result<(Vec<Holder>, Option<String>)>> {
        Box::pin(self.shared.look(entity, cursor, most))
    }

    fn break_lease<'a>(
        &'a self,
        scope: &'a Scope,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<Option<Holder>>> {
        Box::pin(self.shared.break_everywhere(scope, reason))
    }
}
