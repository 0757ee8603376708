//! How a connection ends, and what is told of it.

use tokio::task::yield_now;
use tokio::time::Instant;
use wire::ids::SessionId;

use crate::command::connection::{Disconnect, Ending};
use crate::net::connection::{Endpoint, NOTIFICATIONS_AT_ONCE};
use crate::net::patience::HUNG_UP;
use crate::state::break_notice::BreakNotice;
use crate::state::breaks;
use crate::state::mailbox::Notification;

impl Endpoint {
    /// Tells the end of each channel here whose session has not ended before it.
    pub(super) fn tell_end(&self, end: Disconnect) {
        tracing::debug!(peer = %self.peer, reason = end.0, "connection ended");
        for session in self.channels.borrow().values().map(|channel| &channel.session) {
            if !session.has_ended() {
                let channels_left = session.channel_count().saturating_sub(1);
                tracing::info!(
                    name: "channel_ended", peer = %self.peer, session = session.id.0, user = %session.user.load().name,
                    reason = end.0, channels_left, "a channel ended",
                );
            }
        }
    }

    /// Tells of a client that is likely to be gone, or its network.
    pub(super) fn tell_dead(&self, end: Disconnect) {
        if end != HUNG_UP {
            tracing::warn!(name: "connection_dead", peer = %self.peer, reason = end.0, "a connection was given up");
        }
    }

    /// Tells of a client that breaks the protocol.
    pub(super) fn tell_breach(&self, end: Disconnect) {
        tracing::info!(name: "protocol_broken", peer = %self.peer, reason = end.0, "a client broke the protocol; its connection ends");
    }

    /// Ends what lived on the connection.
    pub(crate) fn ended(&self) {
        for pending in self.undelivered() {
            breaks::send_again(&self.server, pending);
        }
        self.end_rest();
    }

    /// The same, a part at a time: thousands of notifications may be left for others to deliver.
    pub(super) async fn ended_in_turns(&self) {
        for (number, pending) in self.undelivered().enumerate() {
            if number % NOTIFICATIONS_AT_ONCE == NOTIFICATIONS_AT_ONCE - 1 {
                yield_now().await;
            }
            breaks::send_again(&self.server, pending);
        }
        self.end_rest();
    }

    /// Takes no more notifications, and gives what others have to deliver.
    pub(super) fn undelivered(&self) -> impl Iterator<Item = BreakNotice> {
        // A notification without another way goes with its session, of which no channel is left: those with one are kept here.
        let mut last: Option<((SessionId, bool), bool)> = None;
        let mut undelivered: Vec<Notification> = self.deliveries.borrow_mut().take().collect();
        undelivered.retain(|notification| {
            // Most are of one session: it is asked once.
            let whose = (notification.session, notification.is_of_client());
            let has_another_way = match last {
                Some((of, known)) if of == whose => known,
                Some(_) | None => self.has_another_way(notification),
            };
            last = Some((whose, has_another_way));
            has_another_way
        });
        self.server.clients.remove(&self.mailbox);
        undelivered.extend(self.unopened.take());
        undelivered.extend(self.mailbox.close());
        undelivered.into_iter().filter_map(|notification| notification.pending)
    }

    pub(super) fn end_rest(&self) {
        self.in_flight.cancel_all();
        if self.tally.has_noted() {
            self.tally.count(Instant::now());
        }
        self.outbox.borrow_mut().clear(&self.buffers);
        self.deferred.take();
        // Nothing more than before: it fits.
        self.allowance.end();
        if !self.lose_channels() {
            self.in_flight.cancel_outliving();
        }
    }

    pub(super) fn check_ending(&self, drained: bool) -> Result<(), Disconnect> {
        match self.ending() {
            Some(Ending::Now) => Err(Disconnect("ended by the server")),
            Some(Ending::Orderly) if drained && self.tasks() == 0 => Err(Disconnect("the server stops")),
            Some(Ending::Orderly) | None => Ok(()),
        }
    }
}
