//! A cluster: commands go to the node that keeps their slot, wherever that is by now.

use std::{sync::Arc, time::Duration};

use redis::{Cmd, Pipeline, Value};
use tokio::{task::JoinSet, time::Instant};

use crate::lease::redis::{
    atlas::Atlas,
    fault::{Class, Fault},
    link::{LinkSettings, PIPELINE_MAX, Pauses, split},
    messages::Messages,
    node::{Node, NodeName},
    url::Server,
};

/// The nodes of a cluster.
pub(super) struct Cluster {
    atlas: Arc<Atlas>,
    response_timeout: Duration,
}

/// A command on its way.
struct Journey<'a> {
    slot: u16,
    command: &'a Cmd,
    end: Instant,
    /// Where it was sent last.
    node: Option<Arc<Node>>,
    pauses: Pauses,
}

/// Where to go next.
enum Step {
    To(Arc<Node>),
    /// There, for once, although the slot is kept elsewhere.
    Asking(Arc<Node>),
    Nowhere,
}

/// How often one command may be sent on.
const HOPS: u32 = 16;
/// How often a batch is sorted anew by node before its rest goes one by one.
const ROUNDS: u32 = 3;

impl Cluster {
    pub(super) fn new(seeds: Vec<Server>, settings: LinkSettings) -> Self {
        let response_timeout = settings.response_timeout;
        Self { atlas: Atlas::new(seeds, settings), response_timeout }
    }

    /// Fetches the first map.
    pub(super) async fn connect(&self) -> Result<(), Fault> {
        self.atlas.connect().await
    }

    /// One command; follows redirects.
    pub(super) async fn send(
        &self,
        slot: u16,
        command: &Cmd,
        within: Option<Duration>,
    ) -> Result<Value, Fault> {
        let node = self.atlas.keeper(slot);
        let fault = match &node {
            Some(node) => match node.ask(command, within).await {
                Ok(value) => return Ok(value),
                Err(fault) => fault,
            },
            None => nobody(slot),
        };
        let end = Instant::now() + within.unwrap_or(self.response_timeout);
        let journey = Journey { slot, command, end, node, pauses: Pauses::new() };
        Box::pin(self.pursue(journey, fault)).await
    }

    /// Goes on after a fault, unless the command may have had an effect.
    async fn pursue(&self, mut journey: Journey<'_>, mut fault: Fault) -> Result<Value, Fault> {
        for _ in 0..HOPS {
            if fault.class != Class::NotExecuted {
                // A node that went silent may have been replaced: the next command should know.
                if matches!(fault.code.as_str(), "io" | "timeout" | "protocol") {
                    self.atlas.refresh_later();
                }
                return Err(fault);
            }
            let step = self.step(&mut journey, &mut fault).await;
            let left = journey.end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(fault);
            }
            let answer = match step {
                Step::Nowhere => return Err(fault),
                Step::Asking(node) => ask_there(&node, journey.command, left).await,
                Step::To(node) => {
                    let answer = node.ask(journey.command, Some(left)).await;
                    journey.node = Some(node);
                    answer
                }
            };
            match answer {
                Ok(value) => return Ok(value),
                Err(again) => fault = again,
            }
        }
        Err(fault)
    }

    async fn step(&self, journey: &mut Journey<'_>, fault: &mut Fault) -> Step {
        let version = self.atlas.version();
        let (slot, end) = (journey.slot, journey.end);
        let node = journey.node.as_ref();
        let to = |node: Option<Arc<Node>>| node.map_or(Step::Nowhere, Step::To);
        match fault.code.as_str() {
            "MOVED" => to(self.atlas.moved(slot, node, fault)),
            "ASK" => match self.atlas.told(node, fault) {
                Some(address) => Step::Asking(self.atlas.node_at(&address)),
                None => Step::Nowhere,
            },
            "TRYAGAIN" | "LOADING" | "BUSY" | "MASTERDOWN" => {
                if !journey.pauses.take(end).await {
                    return Step::Nowhere;
                }
                to(journey.node.clone())
            }
            "CLUSTERDOWN" => {
                if !journey.pauses.take(end).await {
                    return Step::Nowhere;
                }
                let why = self.atlas.refresh(version, end).await;
                let found = self.atlas.keeper(slot);
                if let (None, Some(why)) = (&found, why) {
                    *fault = why;
                }
                to(found)
            }
            "READONLY" | "io" | "timeout" => {
                self.atlas.refresh(version, end).await;
                let found = self.atlas.keeper(slot);
                to(found.filter(|found| node.is_none_or(|old| !Arc::ptr_eq(old, found))))
            }
            _ => Step::Nowhere,
        }
    }

    /// One pipeline per node at a time; what is redirected goes again.
    pub(super) async fn send_all(
        &self,
        commands: &[(u16, Cmd)],
        within: Option<Duration>,
    ) -> Vec<Result<Value, Fault>> {
        let end = Instant::now() + within.unwrap_or(self.response_timeout);
        let mut answers: Vec<Result<Value, Fault>> =
            commands.iter().map(|(slot, _)| Err(nobody(*slot))).collect();
        let mut open: Vec<usize> = (0..commands.len()).collect();
        for _ in 0..ROUNDS {
            self.round(commands, &open, within, &mut answers).await;
            let mut moved = false;
            open.retain(|at| {
                let (Some((slot, _)), Some(Err(fault))) = (commands.get(*at), answers.get(*at))
                else {
                    return false;
                };
                if fault.code == "MOVED" {
                    let node = self.atlas.keeper(*slot);
                    moved |= self.atlas.moved(*slot, node.as_ref(), fault).is_some();
                }
                fault.class == Class::NotExecuted
            });
            if !moved {
                break;
            }
        }
        for at in open {
            let (Some((slot, command)), Some(answer)) = (commands.get(at), answers.get_mut(at))
            else {
                continue;
            };
            if let Err(fault) = answer {
                let (slot, node) = (*slot, self.atlas.keeper(*slot));
                let journey = Journey { slot, command, end, node, pauses: Pauses::new() };
                *answer = self.pursue(journey, fault.clone()).await;
            }
        }
        answers
    }

    async fn round(
        &self,
        commands: &[(u16, Cmd)],
        open: &[usize],
        within: Option<Duration>,
        answers: &mut [Result<Value, Fault>],
    ) {
        let map = self.atlas.map();
        let mut groups: Vec<(Arc<Node>, Vec<usize>)> = Vec::new();
        for at in open {
            let keeper = commands.get(*at).and_then(|(slot, _)| map.keeper(*slot));
            let Some(keeper) = keeper else { continue };
            match groups.iter_mut().find(|(node, _)| Arc::ptr_eq(node, keeper)) {
                Some((_, group)) => group.push(*at),
                None => groups.push((Arc::clone(keeper), vec![*at])),
            }
        }
        let mut running = JoinSet::new();
        for (node, group) in groups {
            let own = group.iter().filter_map(|at| commands.get(*at));
            let own: Vec<Cmd> = own.map(|(_, command)| command.clone()).collect();
            running.spawn(async move { (group, pipelines(&node, own, within).await) });
        }
        while let Some(done) = running.join_next().await {
            let Ok((group, results)) = done else { continue };
            for (at, result) in group.into_iter().zip(results) {
                if let Some(answer) = answers.get_mut(at) {
                    *answer = result;
                }
            }
        }
    }

    /// On any node that can be reached: what is published reaches all of them.
    pub(super) async fn subscribe(&self, channel: &str) -> Result<Messages, Fault> {
        let map = self.atlas.map();
        let (near, far): (Vec<_>, Vec<_>) = map.nodes().partition(|(_, node)| node.is_connected());
        let mut fault = Fault::not_executed("io", "no node of the cluster is known");
        for (_, node) in near.into_iter().chain(far) {
            match Messages::open(node, channel).await {
                Ok(messages) => return Ok(messages),
                Err(other) => fault = other,
            }
        }
        self.atlas.refresh_later();
        Err(fault)
    }

    pub(super) fn names(&self) -> Vec<NodeName> {
        self.atlas.map().nodes().map(|(_, node)| node.name()).collect()
    }

    pub(super) fn named(&self, name: &NodeName) -> Option<Arc<Node>> {
        let map = self.atlas.map();
        map.nodes().find(|(_, node)| node.name() == *name).map(|(_, node)| Arc::clone(node))
    }

    pub(super) fn close(&self) {
        self.atlas.close();
    }
}

fn nobody(slot: u16) -> Fault {
    Fault::not_executed("CLUSTERDOWN", format!("no node is known to keep slot {slot}"))
}

/// On a node that is taking over the slot: it answers this one command as if it had it.
async fn ask_there(node: &Arc<Node>, command: &Cmd, limit: Duration) -> Result<Value, Fault> {
    let mut pipeline = Pipeline::with_capacity(2);
    pipeline.cmd("ASKING").add_command(command.clone());
    let answers = node.ask_all(&pipeline, 1, Some(limit)).await?;
    match answers.into_iter().next() {
        Some(answer) => split(answer),
        None => Err(Fault::unknown("protocol", "no answer after ASKING")),
    }
}

/// One pipeline after the other, so that other callers get their turn between them.
pub(super) async fn pipelines(
    node: &Arc<Node>,
    commands: Vec<Cmd>,
    within: Option<Duration>,
) -> Vec<Result<Value, Fault>> {
    let mut answers = Vec::with_capacity(commands.len());
    let mut commands = commands.into_iter().peekable();
    while commands.peek().is_some() {
        let mut pipeline = Pipeline::with_capacity(PIPELINE_MAX);
        for command in commands.by_ref().take(PIPELINE_MAX) {
            pipeline.add_command(command);
        }
        let count = pipeline.len();
        match node.ask_all(&pipeline, 0, within).await {
            Ok(values) => answers.extend(values.into_iter().map(split)),
            Err(fault) => answers.extend((0..count).map(|_| Err(fault.clone()))),
        }
    }
    answers
}
