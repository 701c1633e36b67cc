//! The way to the servers: which node keeps a slot, and what to do when it does not answer.

use std::{sync::Arc, time::Duration};

use redis::{Cmd, Value};
use tokio::{task::JoinHandle, time::Instant};

use crate::{
    error::{Error, Result},
    lease::redis::{
        cluster::{Cluster, pipelines},
        fault::Fault,
        messages::Messages,
        node::{Node, NodeName},
        sentinel::{Asking, Finder},
        url::Target,
        wait,
    },
};

/// Topology, one command connection per node, and one more per subscription. Dropping it closes them.
pub(crate) struct Link {
    topology: Topology,
    settings: LinkSettings,
    /// What looks around in the background.
    task: Option<JoinHandle<()>>,
}

enum Topology {
    One(Arc<Node>),
    Cluster(Cluster),
}

/// How patient a link is.
#[derive(Clone, Debug)]
pub(crate) struct LinkSettings {
    /// A server that answers nothing for this long while answers are due is given up. Noticed up to a quarter later.
    pub(crate) response_timeout: Duration,
    /// For opening a connection, to the end of its greeting.
    pub(crate) connect_timeout: Duration,
    /// Shown by `CLIENT LIST`, where the server permits it. Without spaces.
    pub(crate) name: String,
}

impl Default for LinkSettings {
    fn default() -> Self {
        Self {
            response_timeout: Duration::from_millis(500),
            connect_timeout: Duration::from_secs(1),
            name: "fieldlease".to_owned(),
        }
    }
}

/// The first pause before a command is sent again.
const RETRY_AFTER: Duration = Duration::from_millis(10);
/// The longest.
const RETRY_AFTER_MAX: Duration = Duration::from_millis(160);
/// Commands in one pipeline; more of them would keep the answers of others waiting.
pub(super) const PIPELINE_MAX: usize = 512;

/// The pauses between the attempts of one command.
pub(super) struct Pauses(Duration);

impl Link {
    /// Connects to the primary, or fetches the map of the cluster.
    ///
    /// # Errors
    /// When it cannot be reached or does not let us in.
    pub(crate) async fn connect(target: &Target, settings: LinkSettings) -> Result<Self> {
        let link = Self::open(target, settings)?;
        let connected = match &link.topology {
            // Longer than an attempt takes, so that it can say what went wrong.
            Topology::One(node) => {
                node.connected(link.settings.connect_timeout * 3).await.map(drop)
            }
            Topology::Cluster(cluster) => cluster.connect().await,
        };
        match connected {
            Ok(()) => Ok(link),
            Err(fault) => Err(Error::unavailable(fault.told())),
        }
    }

    /// Without a connection yet: the first command opens it. Connections live in the runtime this is called in.
    ///
    /// # Errors
    /// For a quorum: its servers are linked one by one.
    pub(crate) fn open(target: &Target, settings: LinkSettings) -> Result<Self> {
        let (topology, task) = match target {
            Target::Single(server) => {
                (Topology::One(Node::new(Finder::Fixed(server.clone()), settings.clone())), None)
            }
            Target::Sentinel(sentinels) => {
                let finder = Finder::Sentinel(Asking::new(sentinels.clone()));
                let node = Node::new(finder, settings.clone());
                let task = tokio::spawn(Arc::clone(&node).look_around());
                (Topology::One(node), Some(task))
            }
            Target::Cluster(seeds) => {
                (Topology::Cluster(Cluster::new(seeds.clone(), settings.clone())), None)
            }
            Target::Quorum(_) => {
                return Err(Error::internal("a majority of servers is not one link"));
            }
        };
        Ok(Self { topology, settings, task })
    }

    /// One command to the primary that keeps the slot. `within` bounds the wait; without it, the response timeout
    /// does. What certainly had no effect and may succeed a moment later is sent again within that time; what may
    /// have had an effect never is.
    pub(crate) async fn send(
        &self,
        slot: u16,
        command: &Cmd,
        within: Option<Duration>,
    ) -> std::result::Result<Value, Fault> {
        match &self.topology {
            Topology::One(node) => match node.ask(command, within).await {
                Err(fault) if fault.passes() || fault.code == "READONLY" => {
                    Box::pin(self.send_again(node, command, within, fault)).await
                }
                answer => answer,
            },
            Topology::Cluster(cluster) => cluster.send(slot, command, within).await,
        }
    }

    async fn send_again(
        &self,
        node: &Arc<Node>,
        command: &Cmd,
        within: Option<Duration>,
        mut fault: Fault,
    ) -> std::result::Result<Value, Fault> {
        let end = Instant::now() + within.unwrap_or(self.settings.response_timeout);
        let mut pauses = Pauses::new();
        loop {
            // A replica is let go of; the new connection may find the primary, and needs no pause of ours.
            if fault.code != "READONLY" && !pauses.take(end).await {
                return Err(fault);
            }
            let left = end.saturating_duration_since(Instant::now());
            match node.ask(command, Some(left)).await {
                Err(again) if again.passes() => fault = again,
                answer => return answer,
            }
        }
    }

    /// Pipelines, answers in the order of the commands. `within` bounds each pipeline.
    pub(crate) async fn send_all(
        &self,
        commands: &[(u16, Cmd)],
        within: Option<Duration>,
    ) -> Vec<std::result::Result<Value, Fault>> {
        match &self.topology {
            Topology::One(node) => {
                let own = commands.iter().map(|(_, command)| command.clone()).collect();
                pipelines(node, own, within).await
            }
            Topology::Cluster(cluster) => cluster.send_all(commands, within).await,
        }
    }

    /// Subscribes on a connection of its own; confirmed when this returns.
    pub(crate) async fn subscribe(&self, channel: &str) -> std::result::Result<Messages, Fault> {
        match &self.topology {
            Topology::One(node) => Messages::open(node, channel).await,
            Topology::Cluster(cluster) => cluster.subscribe(channel).await,
        }
    }

    /// The primaries known now.
    pub(crate) fn nodes(&self) -> Vec<NodeName> {
        match &self.topology {
            Topology::One(node) => vec![node.name()],
            Topology::Cluster(cluster) => cluster.names(),
        }
    }

    /// One command to this primary, whatever slots it keeps.
    pub(crate) async fn send_to(
        &self,
        node: &NodeName,
        command: &Cmd,
    ) -> std::result::Result<Value, Fault> {
        let found = match &self.topology {
            Topology::One(one) => Some(Arc::clone(one)),
            Topology::Cluster(cluster) => cluster.named(node),
        };
        match found {
            Some(found) => found.ask(command, None).await,
            None => Err(Fault::not_executed("config", format!("`{node}` is not known"))),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
        match &self.topology {
            Topology::One(node) => node.close(),
            Topology::Cluster(cluster) => cluster.close(),
        }
    }
}

impl Pauses {
    pub(super) fn new() -> Self {
        Self(RETRY_AFTER)
    }

    /// Waits longer every time; `false`, at once, when there is no time for it.
    pub(super) async fn take(&mut self, end: Instant) -> bool {
        if end.saturating_duration_since(Instant::now()) <= self.0 {
            return false;
        }
        wait::pause(wait::jittered(self.0)).await;
        self.0 = (self.0 * 2).min(RETRY_AFTER_MAX);
        true
    }
}

/// An answer, or the error the server answered.
pub(super) fn split(answer: Value) -> std::result::Result<Value, Fault> {
    match answer {
        Value::ServerError(error) => Err(Fault::of_answer(&error)),
        value => Ok(value),
    }
}
