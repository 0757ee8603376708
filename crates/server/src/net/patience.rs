//! How long a connection waits for its client: one that takes nothing of what waits for it, or has begun a frame and sends nothing more of
//! it, holds memory for nothing. TCP does not end such a connection while its other side says that it is there. One that waits for memory
//! itself may hold that with what it asked before. And where a client dies while something is on its way to it, TCP repeats that for more than
//! fifteen minutes and asks for no sign of life meanwhile.
//!
//! Two others end a connection earlier: `delivery.rs`, where a notification has another way to its client, and `allowance.rs`, where others
//! wait for memory that is held for a client who is slow.

use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::command::connection::Disconnect;
use crate::net::transport::Transport;

/// How long nothing may move. A client that takes a kilobyte a second is slow: what it takes may show in steps of a packet, which is up to
/// 64 KiB on a machine of its own.
const PATIENCE: Duration = Duration::from_secs(75);
/// How often it is looked whether something has moved.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often the kernel is asked what its queue has delivered, where it takes nothing, or may have delivered all.
const ASK_EVERY: Duration = Duration::from_secs(5);

/// No sign of a client that is lost: it has said that it goes.
pub(crate) const HUNG_UP: Disconnect = Disconnect("the client hung up");

/// What a connection waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    /// Something waits to be sent.
    pub(crate) sends: bool,
    /// A frame has begun to arrive, and nothing keeps the server from receiving the rest.
    pub(crate) receives: bool,
    /// Nothing is received: memory is waited for, or what was asked before. It is looked now and then whether the client is there.
    pub(crate) is_stalled: bool,
    /// Memory is waited for.
    pub(crate) lacks_memory: bool,
    /// Requests that wait for other clients hold much meanwhile.
    pub(crate) is_parked: bool,
    /// Bytes that were sent in all, and received.
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

/// What a connection that waits should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    Wait,
    /// Its own requests that wait for other clients may hold what it waits for.
    CancelWaits,
}

/// Since when nothing has moved.
pub(crate) struct Patience {
    timer: Option<Pin<Box<Sleep>>>,
    /// True where the timer only looks whether all is acknowledged.
    is_slow: bool,
    sending: Stand<u64>,
    receiving: Stand<u64>,
    starving: Stand<u64>,
    /// How far the client has acknowledged what is on its way to it, and what it has sent.
    delivering: Stand<(u64, u64)>,
    asked: Option<Instant>,
    unacknowledged: u64,
    /// Of the bytes that were sent so many have arrived: the kernel said that nothing was unacknowledged. `None` where that is not known.
    arrived: Option<u64>,
}

/// Where one direction stands, and since when.
struct Stand<P>(Option<(P, Instant)>);

impl<P> Default for Stand<P> {
    fn default() -> Self {
        Stand(None)
    }
}

impl<P: Copy + PartialEq> Stand<P> {
    /// True where it has waited too long at `position`.
    fn is_over(&mut self, waits: bool, position: P, now: Instant) -> bool {
        match self.0.filter(|(known, _)| waits && *known == position) {
            Some((_, since)) => now >= since + PATIENCE,
            None => {
                self.0 = waits.then_some((position, now));
                false
            }
        }
    }
}

impl Default for Patience {
    /// With a connection that has sent nothing.
    fn default() -> Self {
        Patience { arrived: Some(0), ..Patience::of_moved() }
    }
}

impl Patience {
    /// With a connection that has sent something before, on another shard.
    pub(crate) fn of_moved() -> Self {
        Patience {
            timer: None,
            is_slow: false,
            sending: Stand::default(),
            receiving: Stand::default(),
            starving: Stand::default(),
            delivering: Stand::default(),
            asked: None,
            unacknowledged: 0,
            arrived: None,
        }
    }

    /// Looks now and then, and has `task` called for that. An error where the client has kept the connection waiting for too long.
    pub(crate) fn advance(
        &mut self,
        task: &mut Context<'_>,
        stream: &mut impl Transport,
        state: State,
    ) -> Result<Advice, Disconnect> {
        let waits = state.sends || state.receives || state.is_stalled || state.is_parked;
        let is_due = match &self.timer {
            Some(timer) => timer.is_elapsed() || (waits && self.is_slow),
            None if waits => true,
            None => {
                // What was sent just now is hardly acknowledged yet.
                self.look_again(task, waits, state.sent);
                false
            }
        };
        if !is_due {
            return Ok(Advice::Wait);
        }
        if state.is_stalled && stream.has_hung_up() {
            return Err(HUNG_UP);
        }
        let now = Instant::now();
        let is_asked = self.asked.is_none_or(|asked| now >= asked + ASK_EVERY);
        let is_lost =
            is_asked && (state.sends || self.arrived != Some(state.sent)) && self.is_lost(stream, &state, now);
        // What the kernel has taken moves in large steps, what the client has taken in small ones.
        let taken = state.sent.wrapping_sub(self.unacknowledged);
        let deaf = self.sending.is_over(state.sends, taken, now);
        let mute = self.receiving.is_over(state.receives, state.received, now);
        if deaf || mute || is_lost {
            stream.give_up();
            return Err(Disconnect(match (deaf, mute) {
                (true, _) => "it takes nothing",
                (false, true) => "a frame has begun and does not end",
                (false, false) => "it acknowledges nothing",
            }));
        }
        let starves = self.starving.is_over(state.lacks_memory, state.received, now);
        if starves {
            self.starving = Stand::default();
        }
        self.look_again(task, waits, state.sent);
        Ok(if starves { Advice::CancelWaits } else { Advice::Wait })
    }

    /// Asks the kernel how much of what was sent has arrived. True where nothing more of it has for too long, and nothing came from the client.
    fn is_lost(&mut self, stream: &impl Transport, state: &State, now: Instant) -> bool {
        self.asked = Some(now);
        self.unacknowledged = stream.unacknowledged().unwrap_or(0);
        if self.unacknowledged == 0 {
            self.arrived = Some(state.sent);
        }
        let stand = (state.sent.wrapping_sub(self.unacknowledged), state.received);
        self.delivering.is_over(self.unacknowledged > 0, stand, now)
    }

    /// Has `task` called for the next look: soon where the connection waits, later where something may be on its way, else not at all.
    fn look_again(&mut self, task: &mut Context<'_>, waits: bool, sent: u64) {
        self.is_slow = !waits;
        let every = if waits { LOOK_EVERY } else { ASK_EVERY };
        let looks = waits || self.arrived != Some(sent);
        self.timer = looks.then(|| Box::pin(sleep_until(Instant::now() + every)));
        if let Some(timer) = &mut self.timer
            && timer.as_mut().poll(task).is_ready()
        {
            task.waker().wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::io::{self, IoSlice};
    use std::sync::Arc;
    use std::task::Poll;

    use store::Node;
    use tokio::io::{AsyncRead, ReadBuf};
    use tokio::time::timeout;

    use super::*;

    /// A stream of which the kernel tells something.
    #[derive(Default)]
    struct Told {
        unacknowledged: Option<u64>,
        asked: Cell<u32>,
        is_given_up: bool,
    }

    impl AsyncRead for Told {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    impl Transport for Told {
        fn poll_send(&mut self, _: &mut Context<'_>, _: &[IoSlice<'_>], _: bool) -> Poll<io::Result<usize>> {
            Poll::Pending
        }

        fn poll_send_file(
            &mut self,
            _: &mut Context<'_>,
            _: &Arc<dyn Node>,
            _: u64,
            _: usize,
        ) -> Poll<io::Result<usize>> {
            Poll::Pending
        }

        fn unacknowledged(&self) -> Option<u64> {
            self.asked.set(self.asked.get() + 1);
            self.unacknowledged
        }

        fn give_up(&mut self) {
            self.is_given_up = true;
        }
    }

    /// A connection that has sent and received so much and waits for nothing.
    fn drained(sent: u64, received: u64) -> State {
        State {
            sends: false,
            receives: false,
            is_stalled: false,
            lacks_memory: false,
            is_parked: false,
            sent,
            received,
        }
    }

    #[derive(Default)]
    struct Scene {
        patience: Patience,
        stream: Told,
    }

    impl Scene {
        fn sent(unacknowledged: u64) -> Scene {
            let stream = Told { unacknowledged: Some(unacknowledged), ..Told::default() };
            Scene { stream, ..Scene::default() }
        }

        /// Goes on for `span`, called by nobody but its patience; gives after what time it ended, where it did.
        async fn pass(&mut self, span: Duration, state: State) -> Option<Duration> {
            let since = Instant::now();
            let ends = poll_fn(|task| match self.patience.advance(task, &mut self.stream, state) {
                Ok(_) => Poll::Pending,
                Err(_) => Poll::Ready(since.elapsed()),
            });
            timeout(span, ends).await.ok()
        }

        async fn pass_seconds(&mut self, seconds: u64, state: State) -> Option<Duration> {
            self.pass(Duration::from_secs(seconds), state).await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_dies_while_an_answer_is_on_its_way_is_given_up() {
        let mut scene = Scene::sent(100);
        let ended = scene.pass_seconds(1_000, drained(100, 50)).await.expect("it ends");
        assert!((75..=85).contains(&ended.as_secs()), "{ended:?}");
        assert!(scene.stream.is_given_up);
    }

    #[tokio::test(start_paused = true)]
    async fn so_is_one_that_is_sent_more_and_one_whose_connection_has_moved() {
        let mut scene = Scene::sent(0);
        let mut ended = None;
        for second in 0..1_000 {
            // Notifications, that nobody takes.
            scene.stream.unacknowledged = Some(100 * (second + 1));
            ended = ended.or(scene.pass_seconds(1, drained(1_000 + 100 * second, 50)).await.map(|_| second));
        }
        assert!(ended.is_some_and(|second| (75..=85).contains(&second)), "{ended:?}");

        let mut moved = Scene { patience: Patience::of_moved(), ..Scene::sent(100) };
        let ended = moved.pass_seconds(1_000, drained(0, 0)).await.expect("it ends");
        assert!((75..=85).contains(&ended.as_secs()), "{ended:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_or_sends_a_little_stays() {
        let mut scene = Scene::sent(1_000);
        for minute in 0..20 {
            scene.stream.unacknowledged = Some(1_000 - minute);
            assert_eq!(scene.pass_seconds(60, drained(1_000, 50)).await, None);
        }
        for minute in 0..20 {
            assert_eq!(scene.pass_seconds(60, drained(1_000, 51 + minute)).await, None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_looked_at_once_all_is_acknowledged() {
        let mut scene = Scene::sent(100);
        assert_eq!(scene.pass_seconds(1, drained(0, 0)).await, None);
        assert!(scene.patience.timer.is_none(), "nothing was sent");
        assert_eq!(scene.pass_seconds(12, drained(100, 50)).await, None);
        assert!(scene.patience.timer.is_some());
        scene.stream.unacknowledged = Some(0);
        assert_eq!(scene.pass_seconds(10, drained(100, 50)).await, None);
        assert!(scene.patience.timer.is_none());
        let asked = scene.stream.asked.get();
        assert_eq!(scene.pass_seconds(1_000, drained(100, 50)).await, None);
        assert_eq!((scene.stream.asked.get(), scene.stream.is_given_up), (asked, false));
    }

    #[tokio::test(start_paused = true)]
    async fn nor_where_the_stream_does_not_tell() {
        let mut scene = Scene::default();
        assert_eq!(scene.pass_seconds(1_000, drained(100, 50)).await, None);
        assert!(scene.patience.timer.is_none() && scene.stream.asked.get() == 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_connection_asks_every_five_seconds_at_most() {
        let mut scene = Scene::sent(100);
        for tick in 1..=10_000 {
            // It waits for something now and then.
            let state = State { is_stalled: tick % 7 == 0, receives: tick % 7 == 0, ..drained(100 * tick, tick) };
            assert_eq!(scene.pass(Duration::from_millis(10), state).await, None);
        }
        let asked = scene.stream.asked.get();
        assert!((10..=20).contains(&asked), "{asked} times in 100 seconds");
    }

    #[tokio::test(start_paused = true)]
    async fn who_begins_to_wait_is_looked_at_within_a_second_whatever_is_on_its_way() {
        let mut scene = Scene::sent(100);
        assert_eq!(scene.pass_seconds(3, drained(100, 50)).await, None);
        let mute = State { receives: true, ..drained(100, 51) };
        let ended = scene.pass_seconds(1_000, mute).await.expect("it ends");
        assert!((75..=77).contains(&ended.as_secs()), "{ended:?}");
    }
}
