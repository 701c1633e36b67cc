//! One subscription on a connection of its own.

use std::{sync::Arc, time::Duration};

use redis::{PushInfo, PushKind, Value};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};

use crate::lease::redis::{
    fault::Fault, link::LinkSettings, live::Live, node::Node, stream, url::Server, wait,
};

/// What is published on one channel, from the moment it was made. Dropping it closes its connection.
pub(crate) struct Messages {
    incoming: mpsc::UnboundedReceiver<PushInfo>,
    place: watch::Receiver<Option<Server>>,
    ping: JoinHandle<()>,
}

/// How often the server must show that it is still there. A connection whose other end is gone without a word is
/// noticed after this and the response timeout.
const PING_EVERY: Duration = Duration::from_secs(2);

impl Messages {
    /// Subscribes, and returns when the server has confirmed it.
    pub(super) async fn open(node: &Arc<Node>, channel: &str) -> Result<Self, Fault> {
        // The command connection knows where the primary is, and that it is one.
        node.connected(node.settings().connect_timeout).await?;
        let mut place = node.place();
        let Some(server) = place.borrow_and_update().clone() else {
            return Err(Fault::not_executed("io", "the connection has been closed"));
        };
        let settings = node.settings();
        let (sender, incoming) = mpsc::unbounded_channel();
        let name = format!("{}-messages", settings.name);
        let opened = stream::open(&server, &name, settings.connect_timeout, Some(sender)).await?;
        let mut connection = opened.connection.clone();
        let live = Live::new(opened, settings.response_timeout);
        match wait::within(settings.response_timeout, connection.subscribe(channel)).await {
            Some(done) => done.map_err(|error| Fault::of_connection(&error))?,
            None => return Err(Fault::unknown("timeout", "the subscription was not confirmed")),
        }
        let ping = tokio::spawn(ping(live, settings.clone()));
        Ok(Self { incoming, place, ping })
    }

    /// The next message; `None` when the connection ended, and for ever after.
    pub(crate) async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let push = tokio::select! {
                push = self.incoming.recv() => push?,
                // The primary is somewhere else now: what is published there is not heard here.
                _ = self.place.changed() => {
                    self.incoming.close();
                    return None;
                }
            };
            match push.kind {
                PushKind::Message => {
                    if let Some(Value::BulkString(payload)) = push.data.into_iter().nth(1) {
                        return Some(payload);
                    }
                }
                PushKind::Disconnection => {
                    self.incoming.close();
                    return None;
                }
                _ => {}
            }
        }
    }
}

impl Drop for Messages {
    fn drop(&mut self) {
        self.ping.abort();
    }
}

/// Keeps the connection, and ends it when the server is silent.
async fn ping(live: Live, settings: LinkSettings) {
    let ping = redis::cmd("PING");
    while live.is_open() {
        wait::pause(wait::jittered(PING_EVERY)).await;
        match live.ask(&ping, Some(settings.response_timeout)).await {
            Err(fault) if fault.spoils_connection() || fault.code == "timeout" => return,
            // Not permitted is an answer too.
            _ => {}
        }
    }
}
