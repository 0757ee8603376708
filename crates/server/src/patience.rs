//! How long a connection waits for its client: one that takes nothing of what waits for it, or has begun a frame and sends nothing more of
//! it, holds memory for nothing. TCP does not end such a connection while its other side says that it is there. One that waits for memory
//! itself may hold that with what it asked before.

use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::connection::Disconnect;
use crate::transport::Transport;

/// How long nothing may move. A client that takes a kilobyte a second is slow: what it takes may show in steps of a packet, which is up to
/// 64 KiB on a machine of its own.
const PATIENCE: Duration = Duration::from_secs(75);
/// How often it is looked whether something has moved.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often the kernel is asked what its queue has delivered, where it takes nothing.
const ASK_EVERY: Duration = Duration::from_secs(5);

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
#[derive(Default)]
pub(crate) struct Patience {
    timer: Option<Pin<Box<Sleep>>>,
    sending: Stand,
    receiving: Stand,
    starving: Stand,
    asked: Option<Instant>,
    unacknowledged: u64,
}

/// Where one direction stands, and since when.
#[derive(Default)]
struct Stand(Option<(u64, Instant)>);

impl Stand {
    /// True where it has waited too long at `position`.
    fn is_over(&mut self, waits: bool, position: u64, now: Instant) -> bool {
        match self.0.filter(|(known, _)| waits && *known == position) {
            Some((_, since)) => now >= since + PATIENCE,
            None => {
                self.0 = waits.then_some((position, now));
                false
            }
        }
    }
}

impl Patience {
    /// Looks now and then, and has `task` called for that. An error where the client has kept the connection waiting for too long.
    pub(crate) fn advance(
        &mut self,
        task: &mut Context<'_>,
        stream: &mut impl Transport,
        state: State,
    ) -> Result<Advice, Disconnect> {
        let waits = state.sends || state.receives || state.is_stalled;
        if self.timer.as_ref().map_or(!waits, |timer| !timer.is_elapsed()) {
            return Ok(Advice::Wait);
        }
        if state.is_stalled && stream.has_hung_up() {
            return Err(Disconnect("the client hung up"));
        }
        let now = Instant::now();
        if state.sends && self.asked.is_none_or(|asked| now >= asked + ASK_EVERY) {
            self.asked = Some(now);
            self.unacknowledged = stream.unacknowledged().unwrap_or(0);
        }
        // What the kernel has taken moves in large steps, what the client has taken in small ones.
        let taken = state.sent.wrapping_sub(self.unacknowledged);
        let deaf = self.sending.is_over(state.sends, taken, now);
        let mute = self.receiving.is_over(state.receives, state.received, now);
        if deaf || mute {
            stream.give_up();
            return Err(Disconnect(if deaf { "it takes nothing" } else { "a frame has begun and does not end" }));
        }
        let starves = self.starving.is_over(state.lacks_memory, state.received, now);
        if starves {
            self.starving = Stand::default();
        }
        self.timer = waits.then(|| Box::pin(sleep_until(now + LOOK_EVERY)));
        if let Some(timer) = &mut self.timer
            && timer.as_mut().poll(task).is_ready()
        {
            task.waker().wake_by_ref();
        }
        Ok(if starves { Advice::CancelWaits } else { Advice::Wait })
    }
}
