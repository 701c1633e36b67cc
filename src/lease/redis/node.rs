//! The one holder of the connection to one server: it opens it when it is needed and lets it go when it is spoilt.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use redis::{Cmd, Pipeline, Value};
use tokio::{
    runtime::Handle,
    sync::{Mutex, watch},
};

use crate::lease::redis::{
    fault::Fault,
    link::LinkSettings,
    live::Live,
    sentinel::{ASK_EVERY, Finder},
    stream,
    stream::Role,
    url::{Address, Server},
    wait,
    wait::Backoff,
};

/// The name of a primary, for checks and logs: `HOST:PORT` or the path of its socket file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeName(pub(crate) String);

/// One server and its command connection.
pub(super) struct Node {
    finder: Finder,
    settings: LinkSettings,
    live: ArcSwapOption<Live>,
    /// Held by the only attempt to connect there may be.
    building: Arc<Mutex<Building>>,
    /// Where the server was found last. Those who listen there leave when it changes.
    place: watch::Sender<Option<Server>>,
    /// Of the runtime it was made in, which outlives callers that come from elsewhere.
    runtime: Handle,
    closed: AtomicBool,
}

struct Building {
    backoff: Backoff,
    /// Why the last attempt failed, told to those who come too early for the next.
    fault: Option<Fault>,
}

impl Node {
    pub(super) fn new(finder: Finder, settings: LinkSettings) -> Arc<Self> {
        Arc::new(Self {
            finder,
            settings,
            live: ArcSwapOption::empty(),
            building: Arc::new(Mutex::new(Building { backoff: Backoff::new(), fault: None })),
            place: watch::Sender::new(None),
            runtime: Handle::current(),
            closed: AtomicBool::new(false),
        })
    }

    /// One command, sent at most once.
    pub(super) async fn ask(
        self: &Arc<Self>,
        command: &Cmd,
        limit: Option<Duration>,
    ) -> Result<Value, Fault> {
        let live = match self.ready() {
            Some(live) => live,
            None => Box::pin(self.connected(self.patience(limit))).await?,
        };
        let answer = live.ask(command, limit).await;
        if let Err(fault) = &answer {
            self.judge(&live, fault);
        }
        answer
    }

    /// Several commands in one write; errors of the server stay among the answers.
    pub(super) async fn ask_all(
        self: &Arc<Self>,
        commands: &Pipeline,
        skip: usize,
        limit: Option<Duration>,
    ) -> Result<Vec<Value>, Fault> {
        let live = match self.ready() {
            Some(live) => live,
            None => self.connected(self.patience(limit)).await?,
        };
        let answers = live.ask_all(commands, skip, limit).await;
        match &answers {
            Err(fault) => self.judge(&live, fault),
            Ok(answers) => {
                let errors = answers.iter().filter_map(|answer| match answer {
                    Value::ServerError(error) => Some(Fault::of_answer(error)),
                    _ => None,
                });
                if let Some(fault) = errors.into_iter().find(Fault::spoils_connection) {
                    self.judge(&live, &fault);
                }
            }
        }
        answers
    }

    /// Whether it can be asked without connecting first.
    pub(super) fn is_connected(&self) -> bool {
        self.ready().is_some()
    }

    fn ready(&self) -> Option<Arc<Live>> {
        self.live.load_full().filter(|live| live.is_open())
    }

    fn judge(&self, live: &Arc<Live>, fault: &Fault) {
        if fault.spoils_connection() {
            tracing::debug!(node = %self.name(), %fault, "connection given up");
            self.let_go(live);
        }
    }

    /// Takes the connection out of use, unless it has been replaced already. Requests under way go on.
    fn let_go(&self, live: &Arc<Live>) {
        let now = self.live.load();
        if now.as_ref().is_some_and(|now| Arc::ptr_eq(now, live)) {
            self.live.compare_and_swap(&*now, None);
        }
    }

    /// How long a request waits for a connection.
    fn patience(&self, limit: Option<Duration>) -> Duration {
        let most = self.settings.connect_timeout;
        limit.map_or(most, |limit| limit.min(most))
    }

    /// The connection, after waiting for the attempt under way or making one.
    pub(super) async fn connected(self: &Arc<Self>, limit: Duration) -> Result<Arc<Live>, Fault> {
        match wait::within(limit, self.build()).await {
            Some(built) => built,
            None => Err(Fault::not_executed(
                "timeout",
                format!("`{}`: no connection within {limit:?}", self.name()),
            )),
        }
    }

    async fn build(self: &Arc<Self>) -> Result<Arc<Live>, Fault> {
        let mut building = Arc::clone(&self.building).lock_owned().await;
        // Somebody else may have connected while we waited for the lock.
        if let Some(live) = self.ready() {
            return Ok(live);
        }
        if let Some(fault) = building.fault.as_ref().filter(|_| !building.backoff.left().is_zero())
        {
            return Err(fault.clone());
        }
        wait::pause(building.backoff.left()).await;
        let node = Arc::clone(self);
        // A task of its own: a caller that gives up must not end the attempt others wait for.
        let attempt = self.runtime.spawn(async move {
            let built = node.attempt().await;
            match &built {
                Ok(live) => {
                    building.backoff.succeeded();
                    building.fault = None;
                    node.live.store(Some(Arc::clone(live)));
                }
                Err(fault) => {
                    tracing::debug!(node = %node.name(), %fault, "no connection");
                    building.backoff.failed(fault.asks_for_patience());
                    building.fault = Some(fault.clone());
                    node.live.store(None);
                }
            }
            built
        });
        attempt.await.unwrap_or_else(|error| {
            Err(Fault::not_executed("io", format!("the attempt to connect ended early: {error}")))
        })
    }

    async fn attempt(&self) -> Result<Arc<Live>, Fault> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(Fault::not_executed("io", "closed"));
        }
        let settings = &self.settings;
        let (server, opened) = self.finder.open(settings).await?;
        self.place.send_if_modified(|place| {
            let moved = place.as_ref() != Some(&server);
            if moved {
                *place = Some(server);
            }
            moved
        });
        Ok(Arc::new(Live::new(opened, settings.response_timeout)))
    }

    /// Asks the sentinels from time to time, and lets go of a primary that is none any more for most of them. Ends with
    /// the node.
    pub(super) async fn look_around(self: Arc<Self>) {
        let Finder::Sentinel(asking) = &self.finder else { return };
        while !self.closed.load(Ordering::SeqCst) {
            wait::pause(wait::jittered(ASK_EVERY)).await;
            let place = self.place.borrow().clone();
            let (Some(server), Some(live)) = (place, self.ready()) else { continue };
            if asking.elsewhere(&server.address, &self.settings).await {
                tracing::debug!(node = %self.name(), "no longer the primary for its sentinels");
                self.let_go(&live);
            }
        }
    }

    /// Ends the connection for good.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.live.store(None);
        self.place.send_replace(None);
    }

    /// Where the server is, now and later.
    pub(super) fn place(&self) -> watch::Receiver<Option<Server>> {
        self.place.subscribe()
    }

    pub(super) fn settings(&self) -> &LinkSettings {
        &self.settings
    }

    pub(super) fn name(&self) -> NodeName {
        match &*self.place.borrow() {
            Some(server) => NodeName(server.address.to_string()),
            None => NodeName(self.finder.to_string()),
        }
    }
}

/// Refuses a replica: it would answer reads from the past and refuse writes.
pub(super) fn must_be_primary(address: &Address, role: Option<&Role>) -> Result<(), Fault> {
    match role {
        None | Some(Role::Primary) => Ok(()),
        Some(Role::Replica(primary)) => Err(Fault::not_executed(
            "READONLY",
            format!(
                "`{address}` is a replica of `{primary}`; name the primary, or its sentinels with `redis+sentinel://`"
            ),
        )),
        Some(Role::Sentinel) => Err(Fault::not_executed(
            "config",
            format!("`{address}` is a sentinel; write `redis+sentinel://{address}/NAME`"),
        )),
    }
}

/// Opens a connection to this server and makes sure that it is a primary.
pub(super) async fn open_primary(
    server: &Server,
    settings: &LinkSettings,
) -> Result<stream::Opened, Fault> {
    let opened = stream::open(server, &settings.name, settings.connect_timeout, None).await?;
    must_be_primary(&server.address, opened.role.as_ref())?;
    Ok(opened)
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
