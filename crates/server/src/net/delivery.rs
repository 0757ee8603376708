//! Whether what is sent unasked arrives: "If the server fails to send the notification to the client, the server MUST retry the send using an
//! alternate connection" (MS-SMB2 3.3.4.6, 3.3.4.7). A link that is cut says nothing, nor does a client that reads no more; so while a
//! notification is under way and the session has another channel, which may have come later, the connection has to have what it sends
//! acknowledged soon, or it ends, and what it did not deliver goes out on the next one.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::command::connection::Disconnect;
use crate::net::transport::Transport;
use crate::state::mailbox::Notification;

/// How long sent bytes may stay unacknowledged meanwhile. Long for a network that works, short against the 35 seconds that a client has
/// for its answer.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_millis(1_250);
/// How much longer the kernel waits. It ends a connection without a word to the client, who may hear well where only it is not heard; and it looks
/// when it sends again, which after a long silence is minutes later.
const LONGER: Duration = Duration::from_millis(500);
/// A connection that still stands after this time has delivered what it sent before, as far as it can be told without an answer:
/// retransmissions are timed coarsely.
const DELIVERED_AFTER: Duration = Duration::from_millis(3_000);
/// How long bytes may stay unacknowledged from then on, until what has to be answered is. A client takes its time to write back what it cached,
/// and its network may falter meanwhile. But where something sent before was lost already, the kernel repeats that alone, at longer and
/// longer intervals, and finds only at the next of them that its time is over.
const UNANSWERED_MAX: Duration = Duration::from_millis(5_000);
/// How often it is looked what is acknowledged, what is answered, and whether there is another way.
const LOOK_AT_DELIVERIES_EVERY: Duration = Duration::from_millis(250);

/// What one connection has sent and perhaps not delivered.
#[derive(Default)]
pub(crate) struct Deliveries {
    notifications: VecDeque<(Instant, Notification)>,
    timer: Option<Pin<Box<Sleep>>>,
    patience: Option<Duration>,
    /// How far into the stream the client has acknowledged, and since when no further.
    stand: Option<(u64, Instant)>,
}

impl Deliveries {
    /// A notification is queued for sending; `hurries`: there is another way for it.
    pub(crate) fn note(&mut self, notification: Notification, hurries: bool) {
        self.notifications.push_back((Instant::now(), notification));
        // Where it is impatient already it looks soon enough. To look anew for each notification would go through all of them each time.
        if hurries && self.patience != Some(UNACKNOWLEDGED_MAX) {
            self.timer = None;
        }
    }

    /// Keeps the stream impatient while something is under way that `has_another_way`. `passed_on`: bytes that have gone into the stream
    /// in all; `drained`: all that was queued is among them. An error where the client acknowledges nothing any more.
    pub(crate) fn advance(
        &mut self,
        task: &mut Context<'_>,
        stream: &mut impl Transport,
        passed_on: u64,
        drained: bool,
        has_another_way: impl Fn(&Notification) -> bool,
    ) -> Result<(), Disconnect> {
        if self.is_idle() || self.timer.as_ref().is_some_and(|timer| !timer.is_elapsed()) {
            return Ok(());
        }
        let now = Instant::now();
        // What is not drained is looked at again later.
        if drained {
            self.notifications
                .retain(|(sent, notification)| now < *sent + DELIVERED_AFTER || notification.awaits_answer());
        }
        let newest = self.notifications.back().map(|(sent, _)| *sent + DELIVERED_AFTER);
        let hurried =
            newest.filter(|_| self.notifications.iter().any(|(_, notification)| has_another_way(notification)));
        let patience = hurried.map(|due| if now < due { UNACKNOWLEDGED_MAX } else { UNANSWERED_MAX });
        if patience != self.patience {
            self.patience = patience;
            stream.set_patience(patience.map(|patience| patience + LONGER));
        }
        let unacknowledged = self.patience.and_then(|_| stream.unacknowledged()).unwrap_or(0);
        if self.stands_still(now, passed_on, unacknowledged) {
            stream.give_up();
            return Err(Disconnect("what it sends is not acknowledged"));
        }
        self.timer = newest.map(|_| Box::pin(sleep_until(now + LOOK_AT_DELIVERIES_EVERY)));
        if let Some(timer) = &mut self.timer
            && timer.as_mut().poll(task).is_ready()
        {
            task.waker().wake_by_ref();
        }
        Ok(())
    }

    /// True where something is unacknowledged, and as much as when patience began to run out. Bytes may have gone into the stream before it came
    /// to this shard, so that of the place that is acknowledged it can only be told whether it moves.
    fn stands_still(&mut self, now: Instant, passed_on: u64, unacknowledged: u64) -> bool {
        let acknowledged = passed_on.wrapping_sub(unacknowledged);
        match (self.stand, self.patience) {
            (Some((known, since)), Some(patience)) if unacknowledged > 0 && known == acknowledged => {
                now >= since + patience
            }
            _ => {
                self.stand = (unacknowledged > 0).then_some((acknowledged, now));
                false
            }
        }
    }

    /// True where nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.notifications.is_empty() && self.patience.is_none()
    }

    /// What the connection leaves undelivered.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Notification> {
        std::mem::take(&mut self.notifications).into_iter().map(|(_, notification)| notification)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use wire::ids::SessionId;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stream_is_patient_until_there_is_another_way() {
        let mut deliveries = Deliveries::default();
        let (mut stream, _far_end) = tokio::io::duplex(1);
        let mut task = Context::from_waker(Waker::noop());
        let notification = Notification::plain(SessionId(1), Vec::new());
        deliveries.note(notification, false);
        deliveries.advance(&mut task, &mut stream, 0, true, |_| false).unwrap();
        assert_eq!(deliveries.patience, None, "to break the only connection would help nobody");
        tokio::time::advance(LOOK_AT_DELIVERIES_EVERY * 2).await;
        deliveries.advance(&mut task, &mut stream, 0, true, |_| true).unwrap();
        assert_eq!(deliveries.patience, Some(UNACKNOWLEDGED_MAX));
    }

    #[test]
    fn a_client_that_acknowledges_less_than_is_sent_is_alive_and_one_that_acknowledges_nothing_is_not() {
        let mut deliveries = Deliveries { patience: Some(UNACKNOWLEDGED_MAX), ..Deliveries::default() };
        let (began, half) = (Instant::now(), UNACKNOWLEDGED_MAX / 2);
        let mut after = |time: Duration, passed_on, unacknowledged| {
            deliveries.stands_still(began + time, passed_on, unacknowledged)
        };
        assert!(!after(Duration::ZERO, 1_000, 900));
        // It takes a little, however much more is sent.
        assert!(!after(UNACKNOWLEDGED_MAX, 5_000, 4_899));
        assert!(!after(UNACKNOWLEDGED_MAX + half, 6_000, 5_899));
        assert!(after(UNACKNOWLEDGED_MAX * 2, 9_000, 8_899));
        // What came before is acknowledged, and something else is not.
        assert!(!after(UNACKNOWLEDGED_MAX * 3, 9_000, 0));
        assert!(!after(UNACKNOWLEDGED_MAX * 4, 9_100, 100));
        assert!(after(UNACKNOWLEDGED_MAX * 5, 9_100, 100));
    }
}
