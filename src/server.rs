//! The service: HTTP and JSON over one engine.
//!
//! A request passes the limits, then the token, then its handler. What a handler answers is JSON, or a problem
//! document whose status is looked up in [`problem`].

mod accept;
mod answer;
mod auth;
mod entities;
mod entry;
pub mod first_tokens;
mod guards;
mod health;
mod housekeeping;
mod keys;
mod lease_table;
mod leases;
mod limits;
mod log;
pub mod principals;
pub mod problem;
mod queue;
mod rewind;
mod routes;
mod upkeep;
pub mod wire;

use std::{sync::Arc, time::Duration};

use tokio::{net::TcpListener, sync::Semaphore};
use tokio_util::sync::CancellationToken;

pub use self::{
    answer::holder_json,
    entities::address,
    entry::entry_json,
    limits::Limits,
    queue::{event_json, item_json},
    upkeep::PruneBody,
};
use self::{lease_table::LeaseTable, principals::TokenFile};
use crate::{
    clock::Clock,
    engine::Engine,
    guard::{GuardBoard, memory::MemoryGuards},
    token::SystemEntropy,
    upkeep::BASE_WINDOW,
};

/// Renders the metrics page.
pub type RenderMetrics = Arc<dyn Fn() -> String + Send + Sync>;

/// What every handler needs.
pub(crate) struct App {
    pub(crate) engine: Engine,
    pub(crate) tokens: TokenFile,
    pub(crate) leases: LeaseTable,
    pub(crate) guards: Arc<dyn GuardBoard>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) limits: Arc<Limits>,
    /// A place for each request with a large body.
    pub(crate) large_bodies: Arc<Semaphore>,
    pub(crate) metrics: Option<RenderMetrics>,
    /// What a prune keeps when it does not say.
    pub(crate) base_window: Duration,
    /// Cancelled when no new work is taken.
    pub(crate) stop: CancellationToken,
}

/// A service over an engine, ready to be run.
#[must_use = "a service does nothing until it is run"]
pub struct Service {
    app: Arc<App>,
    grace: Duration,
}

/// What a stop left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Connections cut off because the grace was over.
    pub cut: usize,
    /// Leases of clients given back.
    pub leases: usize,
}

impl Service {
    /// A service for the principals of a token file.
    pub fn new(engine: Engine, tokens: TokenFile, limits: Limits, clock: Arc<dyn Clock>) -> Self {
        let leases = LeaseTable::new(limits.leases, limits.leases_per_writer);
        let app = App {
            engine,
            tokens,
            leases,
            guards: Arc::new(MemoryGuards::new(Arc::clone(&clock), Arc::new(SystemEntropy))),
            clock,
            large_bodies: Arc::new(Semaphore::new(limits.large_bodies)),
            limits: Arc::new(limits),
            metrics: None,
            base_window: BASE_WINDOW,
            stop: CancellationToken::new(),
        };
        Self { app: Arc::new(app), grace: Duration::from_secs(10) }
    }

    /// Where version guards are. Default: in the memory of this process; several processes behind one address need a
    /// board they share, as `RedisLeases` is one.
    pub fn guards(mut self, board: Arc<dyn GuardBoard>) -> Self {
        if let Some(app) = Arc::get_mut(&mut self.app) {
            app.guards = board;
        }
        self
    }

    /// Serves `/metrics` with what this renders. Default: no such page.
    pub fn metrics(mut self, render: RenderMetrics) -> Self {
        if let Some(app) = Arc::get_mut(&mut self.app) {
            app.metrics = Some(render);
        }
        self
    }

    /// What a prune leaves alone when it does not say, whatever it asks for: everything younger, so that a form loaded
    /// within it finds its base. Default [`BASE_WINDOW`].
    pub fn base_window(mut self, window: Duration) -> Self {
        if let Some(app) = Arc::get_mut(&mut self.app) {
            app.base_window = window;
        }
        self
    }

    /// How long requests in flight may go on after a stop. Default 10 s.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Serves until `stop` is cancelled: then readiness goes off, requests in flight finish within the grace, the
    /// leases of clients are given back, and only then do renewals stop.
    pub async fn run(self, listener: TcpListener, stop: CancellationToken) -> Stopped {
        let Self { app, grace } = self;
        let sweeper = tokio::spawn({
            let app = Arc::clone(&app);
            async move { app.leases.sweep(app.clock.as_ref(), &app.stop).await }
        });
        let keys = tokio::spawn(housekeeping::sweep_keys(Arc::clone(&app)));
        let queue = tokio::spawn({
            let (engine, stop) = (app.engine.clone(), app.stop.clone());
            async move { engine.run_queue(stop).await }
        });
        let forward = tokio::spawn({
            let (stop, inner) = (stop, app.stop.clone());
            async move {
                stop.cancelled().await;
                inner.cancel();
            }
        });
        let drained = accept::accept(
            listener,
            routes::router(&app),
            Arc::clone(&app.limits),
            Arc::clone(&app.clock),
            app.stop.clone(),
            grace,
        )
        .await;
        forward.abort();
        for (loop_of, task) in
            [("client leases", sweeper), ("keys", keys), ("waiting saves", queue)]
        {
            if task.await.is_err() {
                tracing::error!("the loop of {loop_of} ended early");
            }
        }
        let leases = app.leases.release_all().await;
        app.engine.shutdown(grace).await;
        Stopped { cut: drained.cut, leases }
    }
}
