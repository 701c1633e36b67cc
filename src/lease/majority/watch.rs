//! Watching: wake-ups of the nodes, turns of waiters, and work left behind.

use std::{
    future::poll_fn,
    sync::{Arc, PoisonError, atomic::Ordering},
    task::Poll,
    time::Duration,
};

use crate::{
    clock::BoxFuture,
    lease::{LeaseStore, Wake, WakeSink, majority::shared::Shared},
    token::HolderToken,
};

/// Pause before a node whose subscription ended is watched again.
const WATCH_PAUSE: Duration = Duration::from_secs(1);

/// Watches for ever.
pub(super) async fn watch(shared: Arc<Shared>, sink: Arc<dyn WakeSink>) {
    let subscription = Subscription::open(&shared, Arc::clone(&sink));
    let shared = &subscription.shared;
    sink.wake(Wake::CheckAll);
    let mut parts: Vec<BoxFuture<'_, ()>> = vec![Box::pin(shared.call_turns())];
    for (at, node) in shared.nodes.iter().enumerate() {
        parts.push(Box::pin(Arc::clone(shared).listen(at, Arc::clone(node))));
    }
    poll_fn(|context| {
        // Neither the crew nor a part ends the watch.
        let _left = shared.crew.poll(context);
        for part in &mut parts {
            let _never = part.as_mut().poll(context);
        }
        Poll::<()>::Pending
    })
    .await;
}

impl Shared {
    /// A node says that what goes by this name was broken there.
    fn broken_at(self: &Arc<Self>, node: usize, name: HolderToken) {
        let spare = self.nodes.len().saturating_sub(self.quorum);
        let Some((extent, token)) = self.book().broken(name, node, spare) else { return };
        self.give_back_everywhere(&extent, name);
        self.tell([Wake::Broken(token)]);
    }

    /// Wakes whoever's turn to try has come, for ever.
    async fn call_turns(&self) {
        loop {
            let rung = self.turns.notified();
            let now = self.clock.now();
            let due = self.book().due(now);
            self.tell(due.into_iter().map(Wake::Try));
            let next = self.book().next_try();
            tokio::select! {
                biased;
                () = rung => {}
                () = async {
                    match next {
                        Some(at) => self.clock.sleep_until(at).await,
                        None => std::future::pending().await,
                    }
                } => {}
            }
        }
    }

    /// Listens to one node, for ever.
    async fn listen(self: Arc<Self>, at: usize, node: Arc<dyn LeaseStore>) {
        loop {
            let ear = Arc::new(Ear { shared: Arc::clone(&self), at });
            // Whatever ended it: breaks are missed for a while, and the next renewal tells.
            let _ended = node.watch(ear).await;
            self.clock.sleep_until(self.clock.now().plus(WATCH_PAUSE)).await;
        }
    }
}

/// Takes one node's wake-ups. Nobody is queued there, so only broken leases mean something.
struct Ear {
    shared: Arc<Shared>,
    at: usize,
}

impl WakeSink for Ear {
    fn wake(&self, wake: Wake) {
        if let Wake::Broken(name) = wake {
            self.shared.broken_at(self.at, name);
        }
    }
}

/// Ends a subscription when its future is dropped.
struct Subscription {
    shared: Arc<Shared>,
    id: u64,
}

impl Subscription {
    fn open(shared: &Arc<Shared>, sink: Arc<dyn WakeSink>) -> Self {
        let id = shared.subscriptions.fetch_add(1, Ordering::Relaxed);
        shared.sinks.lock().unwrap_or_else(PoisonError::into_inner).push((id, sink));
        shared.watches.fetch_add(1, Ordering::AcqRel);
        Self { shared: Arc::clone(shared), id }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut sinks = self.shared.sinks.lock().unwrap_or_else(PoisonError::into_inner);
        sinks.retain(|(id, _)| *id != self.id);
        drop(sinks);
        self.shared.watches.fetch_sub(1, Ordering::AcqRel);
        self.shared.drive();
    }
}
