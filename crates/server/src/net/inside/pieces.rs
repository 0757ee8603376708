//! One direction of a connection inside the process: pieces that are handed on as they are, in order, and so many at most. Nothing is
//! copied here, and the lock is held for no longer than it takes to move a piece.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use parking_lot::Mutex;

/// Bytes of one piece at most that are copied to be sent.
pub(super) const PIECE_BYTES_MAX: usize = 1 << 20;
/// With so many bytes on their way there is no room for more; the last piece may go beyond.
pub(super) const WAITING_BYTES_MAX: usize = 2 << 20;
/// The same for pieces, which may be short.
const WAITING_PIECES_MAX: usize = 256;

/// What goes in as a whole and comes out as a whole.
pub(super) trait Length {
    /// In bytes.
    fn length(&self) -> usize;
}

impl Length for Bytes {
    fn length(&self) -> usize {
        self.len()
    }
}

/// The two ends of a direction.
pub(super) fn direction<P: Length>() -> (Giver<P>, Taker<P>) {
    let state = State { waiting: VecDeque::new(), bytes: 0, stage: Stage::Open, giver: None, taker: None };
    let shared = Arc::new(Mutex::new(state));
    (Giver(Arc::clone(&shared)), Taker(shared))
}

/// Where pieces go in. When it is dropped, what waits is still taken.
pub(super) struct Giver<P: Length>(Arc<Mutex<State<P>>>);

/// Where they come out. When it is dropped, what waits is forgotten, and nothing more goes in.
pub(super) struct Taker<P: Length>(Arc<Mutex<State<P>>>);

struct State<P> {
    waiting: VecDeque<P>,
    bytes: usize,
    stage: Stage,
    giver: Option<Waker>,
    taker: Option<Waker>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    /// Nothing more goes in.
    Ended,
    /// Nothing comes out any more, either.
    Broken,
}

impl<P: Length> State<P> {
    fn has_room(&self) -> bool {
        self.bytes < WAITING_BYTES_MAX && self.waiting.len() < WAITING_PIECES_MAX
    }

    fn take(&mut self) -> Option<P> {
        let piece = self.waiting.pop_front()?;
        self.bytes -= piece.length();
        Some(piece)
    }

    /// Goes on to a stage; gives who waits.
    fn end(&mut self, stage: Stage) -> [Option<Waker>; 2] {
        if self.stage != Stage::Broken {
            self.stage = stage;
        }
        if stage == Stage::Broken {
            self.waiting.clear();
            self.bytes = 0;
        }
        [self.giver.take(), self.taker.take()]
    }
}

impl<P: Length> Giver<P> {
    /// Ready where a piece may go in; an error where nobody takes any more.
    pub(super) fn poll_room(&self, task: &Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.lock();
        if state.stage != Stage::Open {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if state.has_room() {
            return Poll::Ready(Ok(()));
        }
        remember(&mut state.giver, task);
        Poll::Pending
    }

    /// Puts a piece in, for which there was room. An empty one is none.
    pub(super) fn give(&self, piece: P) {
        let taker = {
            let mut state = self.0.lock();
            if state.stage != Stage::Open || piece.length() == 0 {
                return;
            }
            state.bytes += piece.length();
            state.waiting.push_back(piece);
            state.taker.take()
        };
        taker.into_iter().for_each(Waker::wake);
    }

    /// Bytes that nobody has taken yet.
    pub(super) fn untaken_bytes(&self) -> usize {
        self.0.lock().bytes
    }

    /// Forgets what waits, and lets nothing more in.
    pub(super) fn break_off(&self) {
        end(&self.0, Stage::Broken);
    }
}

impl<P: Length> Drop for Giver<P> {
    fn drop(&mut self) {
        end(&self.0, Stage::Ended);
    }
}

impl<P: Length> Taker<P> {
    /// What comes next; nothing at the end. An error where it was broken off.
    pub(super) fn poll_take(&self, task: &Context<'_>) -> Poll<io::Result<Option<P>>> {
        let (piece, giver) = {
            let mut state = self.0.lock();
            let Some(piece) = state.take() else {
                return match state.stage {
                    Stage::Open => {
                        remember(&mut state.taker, task);
                        Poll::Pending
                    }
                    Stage::Ended => Poll::Ready(Ok(None)),
                    Stage::Broken => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
                };
            };
            let giver = if state.has_room() { state.giver.take() } else { None };
            (piece, giver)
        };
        giver.into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(Some(piece)))
    }

    /// The same without waiting.
    pub(super) fn take(&self) -> Option<P> {
        match self.poll_take(&Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(piece)) => piece,
            Poll::Ready(Err(_)) | Poll::Pending => None,
        }
    }

    /// True where nothing more goes in.
    pub(super) fn has_ended(&self) -> bool {
        self.0.lock().stage != Stage::Open
    }
}

impl<P: Length> Drop for Taker<P> {
    fn drop(&mut self) {
        end(&self.0, Stage::Broken);
    }
}

fn end<P: Length>(shared: &Mutex<State<P>>, stage: Stage) {
    let wakers = shared.lock().end(stage);
    wakers.into_iter().flatten().for_each(Waker::wake);
}

fn remember(place: &mut Option<Waker>, task: &Context<'_>) {
    match place {
        Some(waker) => waker.clone_from(task.waker()),
        None => *place = Some(task.waker().clone()),
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures_util::FutureExt;

    use super::*;

    fn piece(bytes: usize) -> Bytes {
        Bytes::from(vec![1; bytes])
    }

    fn has_room(giver: &Giver<Bytes>) -> bool {
        poll_fn(|task| giver.poll_room(task)).now_or_never().is_some_and(|room| room.is_ok())
    }

    fn taken(taker: &Taker<Bytes>) -> Option<io::Result<Option<Bytes>>> {
        poll_fn(|task| taker.poll_take(task)).now_or_never()
    }

    #[test]
    fn pieces_come_out_as_they_went_in() {
        let (giver, taker) = direction();
        let (one, other) = (piece(5), piece(PIECE_BYTES_MAX));
        let place = other.as_ptr();
        giver.give(one);
        giver.give(other);
        giver.give(Bytes::new());
        assert_eq!(giver.untaken_bytes(), PIECE_BYTES_MAX + 5);
        assert_eq!(taken(&taker).unwrap().unwrap().unwrap().len(), 5);
        let other = taken(&taker).unwrap().unwrap().unwrap();
        assert_eq!((other.as_ptr(), other.len()), (place, PIECE_BYTES_MAX), "it is not copied");
        assert!(taken(&taker).is_none() && giver.untaken_bytes() == 0);
    }

    #[tokio::test]
    async fn there_is_room_for_so_much_and_who_waits_is_called() {
        let (giver, taker) = direction();
        for _ in 0..WAITING_BYTES_MAX / PIECE_BYTES_MAX {
            assert!(has_room(&giver));
            giver.give(piece(PIECE_BYTES_MAX));
        }
        assert!(!has_room(&giver));
        let waits = tokio::spawn(async move {
            poll_fn(|task| giver.poll_room(task)).await.unwrap();
            giver
        });
        tokio::task::yield_now().await;
        assert!(!waits.is_finished());
        assert!(taker.take().is_some());
        let giver = waits.await.unwrap();
        (0..WAITING_PIECES_MAX).for_each(|_| drop(taker.take()));
        (0..WAITING_PIECES_MAX).for_each(|_| giver.give(piece(1)));
        assert!(!has_room(&giver), "short pieces are counted, too");
    }

    #[tokio::test]
    async fn who_takes_is_called_for_what_comes() {
        let (giver, taker) = direction();
        let waits = tokio::spawn(async move { poll_fn(|task| taker.poll_take(task)).await });
        tokio::task::yield_now().await;
        giver.give(Bytes::from_static(b"a"));
        assert_eq!(waits.await.unwrap().unwrap().unwrap(), &b"a"[..]);
    }

    #[test]
    fn what_waits_is_taken_after_the_end_and_not_after_a_break() {
        let (giver, taker) = direction();
        giver.give(piece(3));
        assert!(!taker.has_ended());
        drop(giver);
        assert!(taker.has_ended());
        assert_eq!(taken(&taker).unwrap().unwrap().unwrap().len(), 3);
        assert!(taken(&taker).unwrap().unwrap().is_none());

        let (giver, taker) = direction();
        giver.give(piece(3));
        giver.break_off();
        drop(giver);
        assert_eq!(taken(&taker).unwrap().unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }

    #[tokio::test]
    async fn who_gives_hears_that_nobody_takes_any_more() {
        let (giver, taker) = direction();
        (0..3).for_each(|_| giver.give(piece(PIECE_BYTES_MAX)));
        let waits = tokio::spawn(async move {
            let refused = poll_fn(|task| giver.poll_room(task)).await;
            (refused.unwrap_err().kind(), giver.untaken_bytes())
        });
        tokio::task::yield_now().await;
        drop(taker);
        assert_eq!(waits.await.unwrap(), (io::ErrorKind::BrokenPipe, 0));
    }
}
