//! What other threads leave for a connection to send unasked: break notifications (MS-SMB2 3.3.4.6, 3.3.4.7).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use parking_lot::{Mutex, MutexGuard};
use wire::ids::SessionId;

use crate::resource::budget::Charge;
use crate::state::break_notice::BreakNotice;

/// Notifications that may wait at a connection. A client that takes none for so long is lost anyway.
const NOTIFICATIONS_MAX: usize = 65_536;

/// One message, unsigned, as it leaves.
pub(crate) struct Notification {
    /// The session whose keys seal it where that session seals.
    pub(crate) session: SessionId,
    /// Header and body.
    pub(crate) message: Vec<u8>,
    /// What has to be told another way where this one fails.
    pub(crate) pending: Option<BreakNotice>,
    /// What the user has less whose client is told, until that has arrived.
    pub(crate) _charge: Option<Charge>,
}

impl Notification {
    /// One that nobody has to answer.
    #[cfg(test)]
    pub(crate) fn plain(session: SessionId, message: Vec<u8>) -> Self {
        Notification { session, message, pending: None, _charge: None }
    }

    /// True where any connection of the client will do, whatever its sessions.
    pub(crate) fn is_of_client(&self) -> bool {
        self.pending.as_ref().is_some_and(BreakNotice::is_of_client)
    }

    /// True where its client has to answer it and has not.
    pub(crate) fn awaits_answer(&self) -> bool {
        self.pending.as_ref().is_some_and(BreakNotice::awaits_answer)
    }
}

/// What has arrived at a connection.
#[derive(Default)]
pub(crate) struct Messages {
    /// To be sent.
    pub(crate) notifications: VecDeque<Notification>,
    /// Sessions that give up their channel here.
    pub(crate) leaving: Vec<SessionId>,
    /// It is to end where nobody has signed in: others need its place.
    pub(crate) ends: bool,
}

/// A connection's notifications; usable from any thread.
#[derive(Default)]
pub(crate) struct Mailbox {
    inside: Mutex<Inside>,
    /// Notifications wait. Set under the lock, read without it.
    filled: AtomicBool,
}

#[derive(Default)]
struct Inside {
    messages: Messages,
    waker: Option<Waker>,
    closed: bool,
}

impl Mailbox {
    /// Asks the connection to be no longer a channel of `session`.
    pub(crate) fn leave(&self, session: SessionId) {
        let mut inside = self.inside.lock();
        if !inside.closed && !inside.messages.leaving.contains(&session) {
            inside.messages.leaving.push(session);
            self.announce(inside);
        }
    }

    /// Asks the connection to end, unless somebody has signed in meanwhile.
    pub(crate) fn end_stranger(&self) {
        let mut inside = self.inside.lock();
        if !inside.closed {
            inside.messages.ends = true;
            self.announce(inside);
        }
    }

    /// Leaves a notification; gives it back where the connection has ended or takes no more.
    pub(crate) fn post(&self, notification: Notification) -> Result<(), Notification> {
        let mut inside = self.inside.lock();
        if inside.closed || inside.messages.notifications.len() >= NOTIFICATIONS_MAX {
            return Err(notification);
        }
        inside.messages.notifications.push_back(notification);
        self.announce(inside);
        Ok(())
    }

    fn announce(&self, mut inside: MutexGuard<'_, Inside>) {
        self.filled.store(true, Ordering::Release);
        let waker = inside.waker.take();
        drop(inside);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// True where something waits.
    pub(crate) fn is_filled(&self) -> bool {
        self.filled.load(Ordering::Acquire)
    }

    /// What waits.
    pub(crate) fn take(&self) -> Messages {
        if !self.is_filled() {
            return Messages::default();
        }
        let mut inside = self.inside.lock();
        self.filled.store(false, Ordering::Release);
        std::mem::take(&mut inside.messages)
    }

    /// Has `waker` woken by the next notification; false where one waits already.
    pub(crate) fn watch(&self, waker: &Waker) -> bool {
        let mut inside = self.inside.lock();
        if self.is_filled() {
            return false;
        }
        match &mut inside.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        true
    }

    /// True once its connection has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.inside.lock().closed
    }

    /// Takes nothing more; gives the notifications that wait.
    pub(crate) fn close(&self) -> VecDeque<Notification> {
        let mut inside = self.inside.lock();
        inside.closed = true;
        inside.waker = None;
        std::mem::take(&mut inside.messages).notifications
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notification() -> Notification {
        Notification::plain(SessionId(1), vec![1])
    }

    #[test]
    fn a_letter_is_taken_once_and_none_after_the_end() {
        let mailbox = Mailbox::default();
        assert!(mailbox.watch(Waker::noop()));
        assert!(mailbox.post(notification()).is_ok());
        assert!(!mailbox.watch(Waker::noop()), "one waits");
        assert_eq!(mailbox.take().notifications.len(), 1);
        assert_eq!(mailbox.take().notifications.len(), 0);
        assert!(mailbox.close().is_empty());
        assert!(mailbox.post(notification()).is_err());
    }
}
