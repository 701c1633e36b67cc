//! Threads that own connections, and the queue in front of them.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot, watch};

use crate::{
    error::{Error, Result},
    store::sqlite::session::Session,
};

type Job = Box<dyn FnOnce(&mut Session) + Send>;

/// One or more threads, each with a connection, fed by one bounded queue, first in first out.
///
/// A job that has begun always runs to its end: a caller that goes away never cancels a transaction. A job whose
/// caller went away before it began is dropped, and nothing was done.
pub(super) struct Lane {
    queue: Mutex<Option<mpsc::Sender<Job>>>,
    /// Every thread holds a receiver until it ends.
    threads: watch::Sender<()>,
    what: String,
}

impl Lane {
    /// One thread per session. `bound` jobs wait at most; then callers wait.
    pub(super) fn start(
        name: &str,
        sessions: Vec<Session>,
        bound: usize,
        what: &str,
    ) -> Result<Self> {
        let (queue, jobs) = mpsc::channel::<Job>(bound.max(1));
        let jobs = Arc::new(Mutex::new(jobs));
        let (threads, alive) = watch::channel(());
        for mut session in sessions {
            let (jobs, alive) = (jobs.clone(), alive.clone());
            let body = move || {
                while let Some(job) = next(&jobs) {
                    job(&mut session);
                }
                drop(session);
                drop(alive);
            };
            std::thread::Builder::new().name(name.to_owned()).spawn(body).map_err(|error| {
                Error::unavailable(format!("cannot start a thread for {what}: {error}"))
            })?;
        }
        Ok(Self { queue: Mutex::new(Some(queue)), threads, what: what.to_owned() })
    }

    /// Runs `job` on the next free connection and answers what it answered.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let closed = || Error::unavailable(format!("{} is closed", self.what));
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(queue) = queue else { return Err(closed()) };
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |session| {
            if reply.is_closed() {
                return;
            }
            // Nobody left to tell is no fault: `resolve` finds out what became of a save.
            let _told = reply.send(job(session));
        });
        queue.send(job).await.map_err(|_| closed())?;
        drop(queue);
        answer.await.map_err(|_| Error::unavailable(format!("{} stopped working", self.what)))?
    }

    /// Takes no more jobs, finishes those in the queue, and returns when the connections are closed.
    pub(super) async fn close(&self) {
        drop(self.queue.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.threads.closed().await;
    }
}

fn next(jobs: &Mutex<mpsc::Receiver<Job>>) -> Option<Job> {
    jobs.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv()
}
