//! What others leave for a connection: notifications that it sends, and sessions that it leaves.

use crate::command::connection::Ending;
use crate::net::connection::{Endpoint, FLUSH_BYTES, NOTIFICATIONS_AT_ONCE};
use crate::request::answer;
use crate::resource::turns::REQUEST_COST;
use crate::state::mailbox::{Messages, Notification};

impl Endpoint {
    /// True where others left something for it.
    pub(crate) fn has_messages(&self) -> bool {
        self.mailbox.is_filled() || self.has_unopened()
    }

    /// What others left for it, of the notifications a part.
    pub(crate) fn take_messages(&self) -> Messages {
        let mut unopened = self.unopened.borrow_mut();
        let mut messages = Messages::default();
        if unopened.is_empty() {
            messages = self.mailbox.take();
            std::mem::swap(&mut *unopened, &mut messages.notifications);
        }
        // What a client does not take stays a notification, and is not queued besides; but some are under way, so that it shows that it takes none.
        let is_full = self.outbox.borrow().bytes() >= FLUSH_BYTES && !self.deliveries.borrow().is_idle();
        let count = if is_full { 0 } else { unopened.len().min(NOTIFICATIONS_AT_ONCE) };
        messages.notifications = unopened.drain(..count).collect();
        messages
    }

    /// Does what others left for this connection to do, and queues what they left for it to send: notifications, which are not signed (MS-SMB2 3.3.4.6); sealed where the session seals everything.
    pub(crate) fn flush_notifications(&self) {
        if !self.has_messages() {
            return;
        }
        let messages = self.take_messages();
        for notification in messages.notifications {
            let channel = self.channel(notification.session);
            let seal = channel.as_deref().filter(|channel| channel.session.seal_required);
            answer::queue(self, notification.message.len(), seal, |messages| {
                messages.copy_from_slice(&notification.message)
            });
            self.deliver(notification);
        }
        for session in messages.leaving {
            self.leave(session);
        }
        if messages.ends && self.is_stranger() {
            tracing::info!(name: "stranger_ended", peer = %self.peer, "a connection on which nobody has signed in made room for others");
            self.end(Ending::Now);
        }
    }

    /// True where notifications are left that others wrote before.
    pub(super) fn has_unopened(&self) -> bool {
        !self.unopened.borrow().is_empty()
    }

    /// Sees to it that a notification that is queued arrives, here or on another channel.
    pub(crate) fn deliver(&self, notification: Notification) {
        self.turn.spend(REQUEST_COST);
        let hurries = self.has_another_way(&notification);
        self.deliveries.borrow_mut().note(notification, hurries);
    }

    /// True where another connection leads to who is told as well.
    pub(super) fn has_another_way(&self, notification: &Notification) -> bool {
        let session = self.server.sessions.find(notification.session);
        let connections =
            session.map_or(0, |session| match notification.is_of_client() && !session.keeps_to_itself() {
                true => self.server.clients.count(session.client, session.user.load().id),
                false => session.channel_count(),
            });
        connections > 1
    }
}
