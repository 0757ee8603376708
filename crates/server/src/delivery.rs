//! Whether what is sent unasked arrives: "If the server fails to send the notification to the client, the server MUST retry the send using an
//! alternate connection" (MS-SMB2 3.3.4.6, 3.3.4.7). A link that is cut says nothing; so while a notification is under way and the
//! session has another channel, the connection has to have what it sends acknowledged soon, or it ends, and what it did not
//! deliver goes out on the next one.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::mailbox::Letter;
use crate::transport::Transport;

/// How long sent bytes may stay unacknowledged meanwhile. Long for a network that works, short against the 35 seconds that a client has
/// for its answer.
const PATIENCE: Duration = Duration::from_millis(1_000);
/// A connection that still stands after this time has delivered what it sent before: retransmissions are timed coarsely.
const DELIVERED_AFTER: Duration = Duration::from_millis(2_500);

/// What one connection has sent and perhaps not delivered.
#[derive(Default)]
pub(crate) struct Deliveries {
    letters: VecDeque<(Instant, Letter)>,
    timer: Option<Pin<Box<Sleep>>>,
    is_impatient: bool,
}

impl Deliveries {
    /// A letter is queued for sending.
    pub(crate) fn note(&mut self, letter: Letter) {
        self.letters.push_back((Instant::now(), letter));
    }

    /// Keeps the stream impatient while something is under way. `drained`: all that was queued has gone into the stream.
    pub(crate) fn advance(&mut self, task: &mut Context<'_>, stream: &mut impl Transport, drained: bool) {
        while let Some((sent, _)) = self.letters.front()
            && sent.elapsed() >= DELIVERED_AFTER
            && drained
        {
            self.letters.pop_front();
        }
        let Some((sent, _)) = self.letters.front() else {
            if std::mem::take(&mut self.is_impatient) {
                stream.set_patience(None);
                self.timer = None;
            }
            return;
        };
        if !self.is_impatient {
            self.is_impatient = true;
            stream.set_patience(Some(PATIENCE));
        }
        // What is not drained is looked at again when it is.
        let due = *sent + DELIVERED_AFTER;
        if due > Instant::now() {
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
            if timer.deadline() != due {
                timer.as_mut().reset(due);
            }
            if let Poll::Ready(()) = timer.as_mut().poll(task) {
                task.waker().wake_by_ref();
            }
        }
    }

    /// True where nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.letters.is_empty() && !self.is_impatient
    }

    /// What the connection leaves undelivered.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Letter> {
        std::mem::take(&mut self.letters).into_iter().map(|(_, letter)| letter)
    }
}
