//! What is written to a connection: it tells that its other end takes its answer, and when that is sent.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::stays::{Doing, Stay, Turn};
use crate::parts::{First, Outlet, Parts, Sending};

/// A connection whose writes tell that its other end takes what it is sent. Parts of files are sent in their places.
pub(super) struct Watched<S> {
    stream: S,
    stay: Arc<Stay>,
    parts: Arc<Parts>,
    leaving: Arc<Leaving>,
    sending: Sending,
}

impl<S> Watched<S> {
    pub(super) fn of(stream: S, stay: Arc<Stay>, parts: Arc<Parts>, leaving: Arc<Leaving>) -> Self {
        Watched { stream, stay, parts, leaving, sending: Sending::default() }
    }

    fn wrote(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(count @ 1..)) = written {
            self.stay.takes(count);
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: Outlet> AsyncWrite for Watched<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = match this.sending.first(bytes, &this.parts)? {
            First::Bytes(count) => Pin::new(&mut this.stream).poll_write_vectored(context, &bytes[..count]),
            First::Part(length) => this.sending.poll(context, &mut this.stream, &this.parts, length),
        };
        this.wrote(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// HTTP asks for this whenever all that it had is written.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        if self.leaving.is_sent() {
            self.stay.does(Doing::Silent);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// A connection's answer on its way. HTTP, and what encrypts it, have some of it when its body has ended; with its turn it is over when they have none of it.
#[derive(Default)]
pub(super) struct Leaving(Mutex<Leaves>);

#[derive(Default)]
struct Leaves {
    answer: Option<OnItsWay>,
    /// Who waits until it is sent.
    waits: Option<Waker>,
}

struct OnItsWay {
    _turn: Option<Arc<Turn>>,
    is_handed_over: bool,
}

impl Leaving {
    /// An answer begins.
    pub(super) fn begin(&self, turn: Option<Arc<Turn>>) {
        self.0.lock().answer = Some(OnItsWay { _turn: turn, is_handed_over: false });
    }

    /// All of its body is handed over.
    pub(super) fn hand_over(&self) {
        if let Some(answer) = &mut self.0.lock().answer {
            answer.is_handed_over = true;
        }
    }

    /// What was handed over is written: true where that is an answer to its end.
    fn is_sent(&self) -> bool {
        let (sent, waits) = {
            let mut leaves = self.0.lock();
            let sent = leaves.answer.take_if(|answer| answer.is_handed_over);
            let waits = leaves.waits.take_if(|_| sent.is_some());
            (sent, waits)
        };
        waits.into_iter().for_each(Waker::wake);
        sent.is_some()
    }

    /// Waits until no answer is on its way: requests that were sent ahead are begun when their turn comes.
    pub(super) async fn sent(&self) {
        poll_fn(|context| {
            let mut leaves = self.0.lock();
            if leaves.answer.is_none() {
                return Poll::Ready(());
            }
            leaves.waits = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use futures_util::FutureExt;
    use server::FilePart;
    use tokio::time::timeout;

    use super::super::places::Places;
    use super::*;
    use crate::turns::Taker;

    /// A stream that has not sent what was written to it, until it may.
    struct Unsent {
        may_send: Arc<AtomicBool>,
    }

    impl AsyncWrite for Unsent {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            if self.may_send.load(Ordering::Relaxed) { Poll::Ready(Ok(())) } else { Poll::Pending }
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    impl Outlet for Unsent {
        const TAKES_PARTS: bool = false;

        fn poll_send(&mut self, _: &mut FilePart, _: &mut Context<'_>, _: usize) -> Poll<io::Result<usize>> {
            Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
        }
    }

    #[tokio::test]
    async fn an_answer_has_its_turn_until_it_is_sent_and_the_next_one_waits() {
        let (places, stay) = Places::with_one(16).await;
        let taker = Taker::of("first", [192, 0, 2, 1].into());
        let (leaving, may_send) = (Arc::<Leaving>::default(), Arc::<AtomicBool>::default());
        let unsent = Unsent { may_send: Arc::clone(&may_send) };
        let mut watched = Watched::of(unsent, Arc::clone(&stay), Arc::default(), Arc::clone(&leaving));
        let turn = places.turn_now(&taker, &stay).unwrap();
        let has_turn = || places.has_turn(&taker);
        stay.does(Doing::Taking);
        leaving.begin(Some(Arc::new(turn)));
        let mut next = pin!(leaving.sent());
        let mut flushed = || poll_fn(|context| Pin::new(&mut watched).poll_flush(context)).now_or_never();
        may_send.store(true, Ordering::Relaxed);
        assert!(flushed().is_some() && has_turn(), "some of it is written");
        may_send.store(false, Ordering::Relaxed);
        leaving.hand_over();
        assert!(flushed().is_none() && has_turn());
        assert_eq!(places.those(), [Doing::Taking]);
        assert!(next.as_mut().now_or_never().is_none());
        may_send.store(true, Ordering::Relaxed);
        assert!(flushed().is_some() && !has_turn());
        assert_eq!(places.those(), [Doing::Silent]);
        timeout(Duration::from_secs(60), next).await.unwrap();
    }
}
