//! Whether what is sent unasked arrives: "If the server fails to send the notification to the client, the server MUST retry the send using an
//! alternate connection" (MS-SMB2 3.3.4.6, 3.3.4.7). A link that is cut says nothing; so while a notification is under way and the
//! session has another channel, the connection has to have what it sends acknowledged soon, or it ends, and what it did not
//! deliver goes out on the next one.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::mailbox::Letter;
use crate::transport::Transport;

/// How long sent bytes may stay unacknowledged meanwhile. Long for a network that works, short against the 35 seconds that a client has
/// for its answer.
const PATIENCE: Duration = Duration::from_millis(1_000);
/// A connection that still stands after this time has delivered what it sent before, as far as it can be told without an answer:
/// retransmissions are timed coarsely.
const DELIVERED_AFTER: Duration = Duration::from_millis(2_500);
/// How long bytes may stay unacknowledged from then on, until what has to be answered is. A client takes its time to write back what it cached,
/// and its network may falter meanwhile. But where something sent before was lost already, the kernel repeats that alone, at longer and
/// longer intervals, and finds only at the next of them that its time is over.
const PATIENCE_FOR_ANSWERS: Duration = Duration::from_millis(5_000);
/// How often it is looked whether there is an answer.
const LOOK_EVERY: Duration = Duration::from_millis(1_000);

/// What one connection has sent and perhaps not delivered.
#[derive(Default)]
pub(crate) struct Deliveries {
    letters: VecDeque<(Instant, Letter)>,
    timer: Option<Pin<Box<Sleep>>>,
    patience: Option<Duration>,
}

impl Deliveries {
    /// A letter is queued for sending.
    pub(crate) fn note(&mut self, letter: Letter) {
        self.letters.push_back((Instant::now(), letter));
        self.timer = None;
    }

    /// Keeps the stream impatient while something is under way. `drained`: all that was queued has gone into the stream.
    pub(crate) fn advance(&mut self, task: &mut Context<'_>, stream: &mut impl Transport, drained: bool) {
        if self.is_idle() || self.timer.as_ref().is_some_and(|timer| !timer.is_elapsed()) {
            return;
        }
        let now = Instant::now();
        // What is not drained is looked at again later.
        if drained {
            self.letters.retain(|(sent, letter)| now < *sent + DELIVERED_AFTER || letter.awaits_answer());
        }
        let newest = self.letters.back().map(|(sent, _)| *sent + DELIVERED_AFTER);
        let patience = newest.map(|due| if now < due { PATIENCE } else { PATIENCE_FOR_ANSWERS });
        if patience != self.patience {
            self.patience = patience;
            stream.set_patience(patience);
        }
        self.timer = newest.map(|due| Box::pin(sleep_until(if now < due { due } else { now + LOOK_EVERY })));
        if let Some(timer) = &mut self.timer
            && timer.as_mut().poll(task).is_ready()
        {
            task.waker().wake_by_ref();
        }
    }

    /// True where nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.letters.is_empty() && self.patience.is_none()
    }

    /// What the connection leaves undelivered.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Letter> {
        std::mem::take(&mut self.letters).into_iter().map(|(_, letter)| letter)
    }
}
