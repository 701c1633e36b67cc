//! Acquiring, waiting, losing and giving back, one process or several over one store.

mod bounds;
mod far;
mod fences;
mod holding;
mod messages;
mod waiting;

use fieldlease::{
    clock::SystemClock,
    hold::{AcquireAsk, Acquired},
};

use crate::leasing::{Actor, ask, extent, ms, wait};

fn wait_on(id: &str) -> AcquireAsk {
    AcquireAsk { extent: extent(id, &["media"]), ..wait("w", 60_000) }
}

/// Waits for something the background thread does soon.
async fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..2_000 {
        if done() {
            return;
        }
        pause().await;
    }
    panic!("waited in vain until {what}");
}

async fn pause() {
    use fieldlease::clock::Clock;
    SystemClock.sleep_until(SystemClock.now().plus(ms(5))).await;
}

impl Actor {
    fn spawn_result(
        &self,
        ask: AcquireAsk,
    ) -> tokio::task::JoinHandle<fieldlease::error::Result<Acquired>> {
        let manager = self.manager.clone();
        tokio::spawn(async move { manager.acquire(ask).await })
    }
}

/// That many leases of as many records.
async fn futures(actor: &Actor, count: usize) -> Vec<fieldlease::hold::Lease> {
    let mut leases = Vec::new();
    for n in 0..count {
        let ask = AcquireAsk { extent: extent(&n.to_string(), &["media"]), ..ask("a") };
        leases.push(actor.lease(ask).await);
    }
    leases
}
