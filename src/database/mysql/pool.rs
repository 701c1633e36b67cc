//! Connections that are kept, and the work done on them.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use mysql_async::{Conn, prelude::Queryable};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    clock::{BoxFuture, Moment},
    database::mysql::{Fault, MysqlOptions, session},
    error::Error,
};

/// A connection that was not used for this long is asked whether it still lives.
const IDLE_MAX: std::time::Duration = std::time::Duration::from_secs(5);
/// How often work is tried that the server undid because of other transactions.
const TRIES_MAX: usize = 6;

/// Whether work may be done again when its connection broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Doing it twice is the same as doing it once, or harms nobody.
    Harmless,
    /// It is for the caller to find out.
    Never,
}

/// Work on a connection; may be run several times.
pub(crate) type Work<T> =
    Arc<dyn for<'c> Fn(&'c mut Conn) -> BoxFuture<'c, Result<T, Fault>> + Send + Sync>;

/// The connections of a store. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Pool(Arc<Shared>);

struct Shared {
    options: MysqlOptions,
    idle: Mutex<Vec<(Conn, Moment)>>,
    permits: Arc<Semaphore>,
    /// Of the connection opened last; servers tell it when one is opened.
    packet_max: AtomicU64,
}

impl Pool {
    pub(crate) fn new(options: MysqlOptions) -> Self {
        let permits = Arc::new(Semaphore::new(options.connections));
        let packet_max = AtomicU64::new(u64::MAX);
        Self(Arc::new(Shared { options, idle: Mutex::default(), permits, packet_max }))
    }

    /// The largest packet the server takes: it closes the connection on a larger one without a word that arrives.
    pub(crate) fn packet_max(&self) -> u64 {
        self.0.packet_max.load(Ordering::Relaxed)
    }

    /// Does the work on a connection of its own, to its end, even when the caller goes away. Work the server undid
    /// because of other transactions is done again, a bounded number of times.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        repeat: Repeat,
        work: Work<T>,
    ) -> Result<T, Fault> {
        let permit = self.permit().await?;
        let pool = self.clone();
        let task = tokio::spawn(async move { pool.work(permit, repeat, work).await });
        task.await
            .map_err(|error| Fault::Lost(format!("the task of a statement ended: {error}")))?
    }

    /// Closes the connections; later work answers `unavailable`. Work under way is finished first.
    pub(crate) async fn close(&self) {
        let all = u32::try_from(self.0.options.connections).unwrap_or(u32::MAX);
        let _every_connection_is_idle = self.0.permits.acquire_many(all).await;
        self.0.permits.close();
        let idle = std::mem::take(&mut *self.0.idle.lock().unwrap_or_else(PoisonError::into_inner));
        for (conn, _) in idle {
            // It may be gone already; there is nothing left to do on it either way.
            let _closed = conn.disconnect().await;
        }
    }

    async fn permit(&self) -> Result<OwnedSemaphorePermit, Fault> {
        let options = &self.0.options;
        let end = options.clock.now().plus(options.connect_timeout);
        tokio::select! {
            biased;
            permit = Arc::clone(&self.0.permits).acquire_owned() => {
                permit.map_err(|_| Fault::Unreached("it is closed".to_owned()))
            }
            () = options.clock.sleep_until(end) => {
                let many = options.connections;
                Err(Fault::Unreached(format!("all {many} connections are busy")))
            }
        }
    }

    async fn work<T>(
        self,
        permit: OwnedSemaphorePermit,
        repeat: Repeat,
        work: Work<T>,
    ) -> Result<T, Fault> {
        let mut conn = self.connection().await?;
        let mut tries = 0;
        loop {
            tries += 1;
            let fault = match self.limited(work(&mut conn)).await {
                Ok(answer) => {
                    self.keep(conn);
                    drop(permit);
                    return Ok(answer);
                }
                Err(fault) => fault,
            };
            let broken = fault.ends_connection() || self.undo(&mut conn).await.is_err();
            let lost = matches!(fault, Fault::Lost(_));
            let again = fault.is_contention() || lost && repeat == Repeat::Harmless && tries == 1;
            if broken {
                drop(conn);
                if !again {
                    return Err(fault);
                }
                conn = self.fresh().await?;
            } else if !again {
                self.keep(conn);
                return Err(fault);
            }
            if tries >= TRIES_MAX {
                return Err(fault);
            }
        }
    }

    /// Undoes what a failed statement may have left open: the server undoes only the statement after a lock timeout.
    async fn undo(&self, conn: &mut Conn) -> Result<(), Fault> {
        self.limited(Box::pin(async move { Ok(conn.query_drop("ROLLBACK").await?) })).await
    }

    async fn limited<T>(&self, work: BoxFuture<'_, Result<T, Fault>>) -> Result<T, Fault> {
        let options = &self.0.options;
        let end = options.clock.now().plus(options.answer_timeout);
        tokio::select! {
            biased;
            answer = work => answer,
            () = options.clock.sleep_until(end) => {
                Err(Fault::Lost(format!("no answer in {:?}", options.answer_timeout)))
            }
        }
    }

    /// One that was kept and lives, or a new one.
    async fn connection(&self) -> Result<Conn, Fault> {
        loop {
            let kept = self.0.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some((mut conn, since)) = kept else { return self.fresh().await };
            if self.0.options.clock.now().since(since) < IDLE_MAX {
                return Ok(conn);
            }
            let pinged = self.limited(Box::pin(async { Ok(conn.ping().await?) })).await;
            if pinged.is_ok() {
                return Ok(conn);
            }
        }
    }

    async fn fresh(&self) -> Result<Conn, Fault> {
        let options = &self.0.options;
        let end = options.clock.now().plus(options.connect_timeout);
        let opened = tokio::select! {
            biased;
            opened = session::open(options) => opened,
            () = options.clock.sleep_until(end) => {
                Err(Fault::Unreached(format!("no connection in {:?}", options.connect_timeout)))
            }
        };
        // Nothing of the work was sent yet.
        let (conn, packet_max) = opened.map_err(|fault| match fault {
            Fault::Lost(why) => Fault::Unreached(why),
            Fault::Invalid(Error::Unavailable { message }) => Fault::Unreached(message),
            other => other,
        })?;
        self.0.packet_max.store(packet_max, Ordering::Relaxed);
        Ok(conn)
    }

    fn keep(&self, conn: Conn) {
        let since = self.0.options.clock.now();
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner).push((conn, since));
    }
}
