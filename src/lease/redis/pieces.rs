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
pub(super) struct Pieces<S> {
    stream: S,
    answers: Vec<u8>,
    taken: usize,
    /// A piece was handed out in this turn, and there is more.
    rests: bool,
}

impl<S> Pieces<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, answers: Vec::with_capacity(CHUNK), taken: 0, rests: false }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Pieces<S> {
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

impl<S: AsyncWrite + Unpin> AsyncWrite for Pieces<S> {
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

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// What each turn hands out; 0 is a turn of the others.
    fn turns(answers: &[u8], count: usize) -> Vec<usize> {
        let mut stream = Pieces::new(answers);
        let mut context = Context::from_waker(Waker::noop());
        let turn = |_| {
            let mut bytes = [0; CHUNK];
            let mut buffer = ReadBuf::new(&mut bytes);
            match Pin::new(&mut stream).poll_read(&mut context, &mut buffer) {
                Poll::Ready(read) => read.map(|()| buffer.filled().len()).unwrap(),
                Poll::Pending => 0,
            }
        };
        (0..count).map(turn).collect()
    }

    #[test]
    fn short_answers_come_in_pieces_with_a_turn_of_the_others_between_and_long_ones_at_once() {
        assert_eq!(turns(&[b'+'; 150], 5), [64, 0, 64, 0, 22]);
        assert_eq!(turns(&[b'+'; 10], 1), [10]);
        assert_eq!(turns(&[b'+'; 2_000], 1), [2_000]);
    }
}
