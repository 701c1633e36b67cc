//! Taking connections, and letting go of them: timers installed, bounds everywhere, a stop that drains.

use std::{fs::File, io, sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{clock::Clock, server::limits::Limits};

/// Bytes read ahead of a request's end; the head must fit.
const BUFFER_BYTES_MAX: usize = 64 << 10;
/// How long the loop waits after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Written to a connection there is no room for.
const NO_ROOM: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: application/problem+json\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 139\r\n\r\n\
    {\"type\":\"urn:fieldlease:problem:unavailable\",\"title\":\"Not available now\",\"status\":503,\"code\":\"unavailable\",\"detail\":\"too many connections\"}";

/// What a stop left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Drained {
    /// Connections cut off because the grace was over.
    pub(crate) cut: usize,
}

/// Serves connections until `stop`, then lets requests in flight finish within `grace`.
pub(crate) async fn accept(
    listener: TcpListener,
    router: Router,
    limits: Arc<Limits>,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
    grace: Duration,
) -> Drained {
    let cut = CancellationToken::new();
    let connections = TaskTracker::new();
    let places = Arc::new(Semaphore::new(limits.connections));
    let mut spare = Spare::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                recover(&error, &listener, &mut spare, clock.as_ref()).await;
                continue;
            }
        };
        match Arc::clone(&places).try_acquire_owned() {
            Ok(place) => {
                let one =
                    serve(stream, router.clone(), Arc::clone(&limits), stop.clone(), cut.clone());
                connections.spawn(async move {
                    one.await;
                    drop(place);
                });
            }
            Err(_) => turn_away(stream),
        }
    }
    drop(listener);
    connections.close();
    let end = clock.now().plus(grace);
    tokio::select! {
        () = connections.wait() => {}
        () = clock.sleep_until(end) => {}
    }
    let left = connections.len();
    cut.cancel();
    connections.wait().await;
    Drained { cut: left }
}

async fn serve(
    stream: TcpStream,
    router: Router,
    limits: Arc<Limits>,
    stop: CancellationToken,
    cut: CancellationToken,
) {
    // Answers are small and written at once.
    let _ = stream.set_nodelay(true);
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        .max_buf_size(BUFFER_BYTES_MAX)
        .max_headers(limits.headers.saturating_add(1));
    let service = TowerToHyperService::new(router);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                served = connection.as_mut() => served,
                () = cut.cancelled() => return,
            }
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// A file kept open, to have one descriptor left for telling a client that there are none.
struct Spare(Option<File>);

impl Spare {
    fn new() -> Self {
        Self(File::open("/dev/null").ok())
    }
}

/// After a failed accept: out of descriptors is told to the client, anything else is waited out.
async fn recover(error: &io::Error, listener: &TcpListener, spare: &mut Spare, clock: &dyn Clock) {
    tracing::warn!(%error, "a connection could not be accepted");
    if spare.0.take().is_some() {
        let waiting = tokio::select! {
            biased;
            accepted = listener.accept() => accepted.ok(),
            () = clock.sleep_until(clock.now().plus(ACCEPT_PAUSE)) => None,
        };
        if let Some((stream, _)) = waiting {
            turn_away(stream);
        }
    } else {
        clock.sleep_until(clock.now().plus(ACCEPT_PAUSE)).await;
    }
    *spare = Spare::new();
}

/// Says why and closes, without waiting for the client: the answer fits into the socket's buffer.
fn turn_away(stream: TcpStream) {
    let _ = stream.try_write(NO_ROOM);
    let mut sent = [0; 8 << 10];
    // What is left unread would turn the close into a reset, and the client might not see the answer.
    let _ = stream.try_read(&mut sent);
    if let Ok(stream) = stream.into_std() {
        let _ = stream.shutdown(std::net::Shutdown::Write);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_one_too_many_is_a_whole_response() {
        let text = std::str::from_utf8(NO_ROOM).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();

        let length: usize = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .unwrap()
            .parse()
            .unwrap();

        assert_eq!(length, body.len());
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["code"], "unavailable");
    }
}
