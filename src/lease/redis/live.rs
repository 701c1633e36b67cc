//! One living connection: requests, and the watch that ends it when answers stop coming.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use redis::{Cmd, Pipeline, Value, aio::MultiplexedConnection};
use tokio::{
    sync::Notify,
    task::{AbortHandle, JoinHandle},
};

use crate::lease::redis::{fault::Fault, stream::Opened, wait};

/// A connection in use. Dropping it closes the socket once no request holds it any more.
pub(super) struct Live {
    connection: MultiplexedConnection,
    driver: JoinHandle<()>,
    watch: JoinHandle<()>,
    traffic: Arc<Traffic>,
    patience: Duration,
}

/// Counts instead of a timer for every request: answers come in order, so when none came for a while although some
/// are due, the oldest request has waited at least that long, and no later one can be answered before it.
#[derive(Default)]
struct Traffic {
    sent: AtomicU64,
    answered: AtomicU64,
    /// By their callers.
    given_up: AtomicU64,
    asleep: AtomicBool,
    stalled: AtomicBool,
    busy: Notify,
}

/// How many looks make up the response timeout.
const LOOKS: u32 = 4;

impl Live {
    pub(super) fn new(opened: Opened, response_timeout: Duration) -> Self {
        let traffic = Arc::new(Traffic::default());
        let driver = opened.driver;
        let connection = opened.connection;
        let watch = Watch {
            connection: connection.clone(),
            traffic: Arc::clone(&traffic),
            driver: driver.abort_handle(),
        };
        Self {
            connection,
            driver,
            watch: tokio::spawn(watch.keep(response_timeout / LOOKS)),
            traffic,
            patience: response_timeout,
        }
    }

    /// Whether the socket is open as far as we know.
    pub(super) fn is_open(&self) -> bool {
        !self.driver.is_finished() && !self.traffic.stalled.load(Ordering::Relaxed)
    }

    /// One command. Dropping the future leaves nothing behind: the answer finds nobody.
    pub(super) async fn ask(&self, command: &Cmd, limit: Option<Duration>) -> Result<Value, Fault> {
        let mut connection = self.connection.clone();
        let due = Due::new(&self.traffic);
        let request = connection.send_packed_command(command);
        // A longer wait than the watch allows needs no timer of its own.
        let answer = match limit.filter(|limit| *limit < self.patience * 2) {
            None => request.await,
            Some(limit) => match wait::within(limit, request).await {
                Some(answer) => answer,
                None => return Err(no_answer(limit)),
            },
        };
        due.answered();
        match answer {
            Ok(Value::ServerError(error)) => Err(Fault::of_answer(&error)),
            Ok(value) => Ok(value),
            Err(error) => Err(self.lost(&error)),
        }
    }

    /// Several commands in one write; errors of the server stay among the answers. The first `skip` answers are left
    /// out.
    pub(super) async fn ask_all(
        &self,
        commands: &Pipeline,
        skip: usize,
        limit: Option<Duration>,
    ) -> Result<Vec<Value>, Fault> {
        let mut connection = self.connection.clone();
        let due = Due::new(&self.traffic);
        let count = commands.len().saturating_sub(skip);
        let request = connection.send_packed_commands(commands, skip, count);
        let answers = match limit.filter(|limit| *limit < self.patience * 2) {
            None => request.await,
            Some(limit) => match wait::within(limit, request).await {
                Some(answers) => answers,
                None => return Err(no_answer(limit)),
            },
        };
        due.answered();
        answers.map_err(|error| self.lost(&error))
    }

    fn lost(&self, error: &redis::RedisError) -> Fault {
        if self.traffic.stalled.load(Ordering::Relaxed) {
            no_answer(self.patience)
        } else {
            Fault::of_connection(error)
        }
    }
}

fn no_answer(limit: Duration) -> Fault {
    Fault::unknown("timeout", format!("no answer within {limit:?}"))
}

impl Drop for Live {
    fn drop(&mut self) {
        self.driver.abort();
        self.watch.abort();
    }
}

/// A request under way; given up when it is dropped before it is answered.
struct Due<'a> {
    traffic: &'a Traffic,
    open: bool,
}

impl<'a> Due<'a> {
    fn new(traffic: &'a Traffic) -> Self {
        traffic.sent.fetch_add(1, Ordering::SeqCst);
        if traffic.asleep.load(Ordering::SeqCst) {
            traffic.busy.notify_one();
        }
        Self { traffic, open: true }
    }

    fn answered(mut self) {
        self.open = false;
        self.traffic.answered.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for Due<'_> {
    fn drop(&mut self) {
        if self.open {
            self.traffic.given_up.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Ends the connection when answers are due and none came for the response timeout, give or take a quarter.
struct Watch {
    connection: MultiplexedConnection,
    traffic: Arc<Traffic>,
    driver: AbortHandle,
}

impl Watch {
    /// Sleeps without a timer while nothing is sent.
    async fn keep(self, look: Duration) {
        let look = look.max(Duration::from_millis(1));
        let traffic = &self.traffic;
        let (mut answered, mut sent, mut silent) = (0, 0, 0);
        let mut probe: Option<JoinHandle<()>> = None;
        loop {
            wait::pause(look).await;
            let now = traffic.answered.load(Ordering::SeqCst);
            let over = now + traffic.given_up.load(Ordering::SeqCst);
            let due = traffic.sent.load(Ordering::SeqCst) > over;
            let begun = traffic.sent.load(Ordering::SeqCst);
            let active = due || begun != sent;
            silent = if active && now == answered { silent + 1 } else { 0 };
            if silent > LOOKS {
                traffic.stalled.store(true, Ordering::Relaxed);
                self.driver.abort();
                return;
            }
            // Callers that give up early take their requests away, so that none of them would grow old.
            if silent > 0 && probe.as_ref().is_none_or(JoinHandle::is_finished) {
                probe = Some(tokio::spawn(self.probe()));
            }
            if !active {
                self.sleep(begun).await;
            }
            (answered, sent) = (now, begun);
        }
    }

    /// A request of our own, which nobody gives up. Any answer will do.
    fn probe(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut connection = self.connection.clone();
        let traffic = Arc::clone(&self.traffic);
        async move {
            let due = Due::new(&traffic);
            if connection.send_packed_command(&redis::cmd("PING")).await.is_ok() {
                due.answered();
            }
        }
    }

    async fn sleep(&self, sent: u64) {
        self.traffic.asleep.store(true, Ordering::SeqCst);
        // A request that began before it saw the flag is seen here.
        if self.traffic.sent.load(Ordering::SeqCst) == sent {
            self.traffic.busy.notified().await;
        }
        self.traffic.asleep.store(false, Ordering::SeqCst);
    }
}
