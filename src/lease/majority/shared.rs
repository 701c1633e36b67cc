//! What the calls, the watches and what they leave behind have in common.

use std::{
    future::poll_fn,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use crate::{
    clock::{BoxFuture, Clock, Moment},
    error::Error,
    lease::{
        Extent, LeaseStore, Release, Wake, WakeSink,
        majority::{MajoritySettings, book::Book, crew::Crew, round::within},
    },
    token::{Entropy, HolderToken},
};

/// Least time a node is given to answer, however short the time to live.
const NODE_TIMEOUT_LEAST: Duration = Duration::from_millis(20);
/// How long a give-back may take, and how often it is tried.
const GIVE_BACK_TIMEOUT: Duration = Duration::from_secs(1);
const GIVE_BACKS_MAX: u32 = 2;
const GIVE_BACK_PAUSE: Duration = Duration::from_millis(50);

/// The nodes, and what this process knows.
pub(super) struct Shared {
    pub(super) nodes: Vec<Arc<dyn LeaseStore>>,
    pub(super) quorum: usize,
    pub(super) settings: MajoritySettings,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) entropy: Arc<dyn Entropy>,
    pub(super) book: Mutex<Book>,
    /// Rung when somebody's turn to try may have come earlier.
    pub(super) turns: Notify,
    pub(super) crew: Crew,
    /// Watches that drive the crew, and whether a task of its own does.
    pub(super) watches: AtomicUsize,
    pub(super) driver: AtomicBool,
    pub(super) sinks: Mutex<Vec<(u64, Arc<dyn WakeSink>)>>,
    pub(super) subscriptions: AtomicU64,
}

impl Shared {
    pub(super) fn new(
        nodes: Vec<Arc<dyn LeaseStore>>,
        settings: MajoritySettings,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        Self {
            quorum: nodes.len() / 2 + 1,
            nodes,
            settings,
            book: Mutex::new(Book::new(clock.now())),
            clock,
            entropy,
            turns: Notify::new(),
            crew: Crew::default(),
            watches: AtomicUsize::new(0),
            driver: AtomicBool::new(false),
            sinks: Mutex::default(),
            subscriptions: AtomicU64::new(0),
        }
    }

    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until when a node may answer.
    pub(super) fn patience(&self, ttl: Duration, begin: Moment) -> Moment {
        begin.plus((ttl / 20).min(self.settings.node_timeout).max(NODE_TIMEOUT_LEAST))
    }

    /// Until when nodes may answer a question that has no time to live.
    pub(super) fn moment_of_patience(&self) -> Moment {
        self.clock.now().plus(self.settings.node_timeout.max(NODE_TIMEOUT_LEAST))
    }

    pub(super) fn unreachable(&self) -> Error {
        let (quorum, nodes) = (self.quorum, self.nodes.len());
        Error::unavailable(format!("fewer than {quorum} of {nodes} lease servers answer"))
    }

    pub(super) fn tell(&self, wakes: impl IntoIterator<Item = Wake>) {
        let sinks = self.sinks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for wake in wakes {
            sinks.iter().for_each(|(_, sink)| sink.wake(wake.clone()));
        }
    }

    /// Has a job done, whatever becomes of the caller.
    pub(super) fn hand_over(self: &Arc<Self>, job: BoxFuture<'static, ()>) {
        self.crew.add(job);
        self.drive();
    }

    /// Sees to it that somebody drives the crew, if there is a runtime to do it on.
    pub(super) fn drive(self: &Arc<Self>) {
        if self.crew.is_empty() || self.watches.load(Ordering::Acquire) > 0 {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.driver.swap(true, Ordering::AcqRel) {
            return;
        }
        let driven = Driven(Arc::clone(self));
        runtime.spawn(async move {
            poll_fn(|context| driven.0.crew.poll(context)).await;
            let shared = Arc::clone(&driven.0);
            drop(driven);
            // A job may have come after the last look.
            shared.drive();
        });
    }

    /// Gives back at one node whatever a name may have there.
    pub(super) async fn give_back(
        self: Arc<Self>,
        node: Arc<dyn LeaseStore>,
        extent: Extent,
        name: HolderToken,
    ) -> Option<Release> {
        for attempt in 0..GIVE_BACKS_MAX {
            if attempt > 0 {
                self.clock.sleep_until(self.clock.now().plus(GIVE_BACK_PAUSE)).await;
            }
            let end = self.clock.now().plus(GIVE_BACK_TIMEOUT);
            if let Some(Ok(answer)) = within(&*self.clock, end, node.release(&extent, name)).await {
                return Some(answer);
            }
        }
        None
    }

    pub(super) fn give_back_everywhere(self: &Arc<Self>, extent: &Extent, name: HolderToken) {
        for node in &self.nodes {
            let job = Arc::clone(self).give_back(Arc::clone(node), extent.clone(), name);
            self.hand_over(Box::pin(async move {
                job.await;
            }));
        }
    }
}

/// The task that drives the crew while nobody watches. Dropped with its runtime, it only says that it is gone.
struct Driven(Arc<Shared>);

impl Drop for Driven {
    fn drop(&mut self) {
        self.0.driver.store(false, Ordering::Release);
    }
}
