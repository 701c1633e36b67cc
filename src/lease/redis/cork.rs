//! A stream that gathers what several tasks write before it sends it.
//!
//! A request is written as soon as its task has made it, and each write is a system call here and one more at the
//! server. So the first flush lets the other tasks that are ready run before it: what they write goes along. Alone, it costs
//! one turn of the scheduler.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Gathered at most; more is sent at once, so that the server works while the rest is still being made.
const MOST: usize = 4 * 1024;

/// See the module.
pub(super) struct Corked<S> {
    stream: S,
    gathered: Vec<u8>,
    sent: usize,
    /// The others have had their turn.
    waited: bool,
}

impl<S> Corked<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, gathered: Vec::with_capacity(MOST * 2), sent: 0, waited: false }
    }
}

impl<S: AsyncWrite + Unpin> Corked<S> {
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.gathered.get(self.sent..).filter(|rest| !rest.is_empty()) {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, rest))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += written;
        }
        self.gathered.clear();
        (self.sent, self.waited) = (0, false);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Corked<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.gathered.len() >= MOST {
            ready!(this.poll_send(context))?;
        }
        this.gathered.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.gathered.is_empty() {
            if !this.waited && this.gathered.len() < MOST {
                this.waited = true;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            ready!(this.poll_send(context))?;
        }
        Pin::new(&mut this.stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_send(context))?;
        Pin::new(&mut this.stream).poll_shutdown(context)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Corked<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}
