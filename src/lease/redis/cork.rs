//! A stream that hands out answers in small pieces.
//!
//! Many requests on one connection are answered in one write, and all their tasks would send again together: then client
//! and server work in turns. So a few answers are handed out, the tasks they wake run and send, and only then follow
//! the next: the server works on the first while the rest is still being woken.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Handed out in one turn of the scheduler: a dozen short answers.
const PIECE: usize = 64;
/// More than this are no short answers: handed out at once.
const LARGE: usize = 1024;
/// Read at once.
const CHUNK: usize = 8 * 1024;

/// See the module.
pub(super) struct Corked<S> {
    stream: S,
    answers: Vec<u8>,
    taken: usize,
    /// A piece was handed out in this turn, and there is more.
    rests: bool,
}

impl<S> Corked<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, answers: Vec::with_capacity(CHUNK), taken: 0, rests: false }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Corked<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.rests {
            this.rests = false;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if this.taken >= this.answers.len() {
            let mut chunk = [0; CHUNK];
            let mut read = ReadBuf::new(&mut chunk);
            ready!(Pin::new(&mut this.stream).poll_read(context, &mut read))?;
            this.answers.clear();
            this.answers.extend_from_slice(read.filled());
            this.taken = 0;
        }
        let waiting = this.answers.get(this.taken..).unwrap_or_default();
        let most = if waiting.len() > LARGE { waiting.len() } else { PIECE };
        let piece = waiting.get(..most.min(buffer.remaining())).unwrap_or(waiting);
        buffer.put_slice(piece);
        this.rests = piece.len() < waiting.len();
        this.taken += piece.len();
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Corked<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
