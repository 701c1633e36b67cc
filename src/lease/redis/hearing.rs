//! The one subscription of this process.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{
    error::Result,
    lease::{
        Wake, WakeSink,
        redis::{RedisLeases, local, unavailable},
    },
    token::HolderToken,
};

impl RedisLeases {
    pub(super) async fn watch_now(&self, sink: Arc<dyn WakeSink>) -> Result<()> {
        let channel = self.keys.inbox(&self.inbox);
        let mut messages = self.link.subscribe(&channel).await.map_err(unavailable)?;
        let _listening = Listening::new(&self.sinks, Arc::clone(&sink));
        sink.wake(Wake::CheckAll);
        let clock = &self.options.clock;
        let mut tick = clock.now().plus(local::TICK);
        loop {
            tokio::select! {
                message = messages.next() => match message {
                    Some(message) => self.hear(&message, &*sink),
                    None => return Ok(()),
                },
                () = clock.sleep_until(tick) => {
                    tick = clock.now().plus(local::TICK);
                    self.local.tick();
                    if let Err(fault) = self.list(false).await {
                        tracing::debug!(%fault, "the list of leases is behind");
                    }
                }
            }
        }
    }

    fn hear(&self, message: &[u8], sink: &dyn WakeSink) {
        let Ok(text) = std::str::from_utf8(message) else { return };
        let Some((kind, rest)) = text.split_at_checked(1) else { return };
        let Some((token, wanted)) = rest.split_at_checked(32) else { return };
        let Some(token) = HolderToken::parse(token) else { return };
        match kind {
            "G" => {
                self.local.granted(token);
                sink.wake(Wake::Granted(token));
                if wanted == "+" {
                    sink.wake(Wake::Wanted(token));
                }
            }
            "T" => sink.wake(Wake::Try(token)),
            "W" => sink.wake(Wake::Wanted(token)),
            "B" => {
                self.local.forget(token);
                sink.wake(Wake::Broken(token));
            }
            _ => {}
        }
    }
}

/// Ends a subscription when it is dropped.
struct Listening<'a> {
    sinks: &'a Mutex<Vec<(u64, Arc<dyn WakeSink>)>>,
    id: u64,
}

impl<'a> Listening<'a> {
    fn new(sinks: &'a Mutex<Vec<(u64, Arc<dyn WakeSink>)>>, sink: Arc<dyn WakeSink>) -> Self {
        let mut all = sinks.lock().unwrap_or_else(PoisonError::into_inner);
        let id = all.last().map_or(0, |(id, _)| id + 1);
        all.push((id, sink));
        drop(all);
        Self { sinks, id }
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        let mut all = self.sinks.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(id, _)| *id != self.id);
    }
}
