//! What other threads leave for a connection to send unasked: break notifications (MS-SMB2 3.3.4.6, 3.3.4.7).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use parking_lot::{Mutex, MutexGuard};
use wire::ids::SessionId;

use crate::breaks::Pending;
use crate::budget::Charge;

/// Letters that may wait at a connection. A client that takes none for so long is lost anyway.
const LETTERS_MAX: usize = 65_536;

/// One message, unsigned, as it leaves.
pub(crate) struct Letter {
    /// The session whose keys seal it where that session seals.
    pub(crate) session: SessionId,
    /// Header and body.
    pub(crate) message: Vec<u8>,
    /// What has to be told another way where this one fails.
    pub(crate) pending: Option<Pending>,
    /// What the user has less whose client is told, until that has arrived.
    pub(crate) _charge: Option<Charge>,
}

impl Letter {
    /// One that nobody has to answer.
    #[cfg(test)]
    pub(crate) fn plain(session: SessionId, message: Vec<u8>) -> Self {
        Letter { session, message, pending: None, _charge: None }
    }

    /// True where any connection of the client will do, whatever its sessions.
    pub(crate) fn is_of_client(&self) -> bool {
        self.pending.as_ref().is_some_and(Pending::is_of_client)
    }

    /// True where its client has to answer it and has not.
    pub(crate) fn awaits_answer(&self) -> bool {
        self.pending.as_ref().is_some_and(Pending::awaits_answer)
    }
}

/// What has arrived at a connection.
#[derive(Default)]
pub(crate) struct Post {
    /// To be sent.
    pub(crate) letters: VecDeque<Letter>,
    /// Sessions that give up their channel here.
    pub(crate) leaving: Vec<SessionId>,
    /// It is to end where nobody has signed in: others need its place.
    pub(crate) ends: bool,
}

/// A connection's letters; usable from any thread.
#[derive(Default)]
pub(crate) struct Mailbox {
    inside: Mutex<Inside>,
    /// Letters wait. Set under the lock, read without it.
    filled: AtomicBool,
}

#[derive(Default)]
struct Inside {
    post: Post,
    waker: Option<Waker>,
    closed: bool,
}

impl Mailbox {
    /// Asks the connection to be no longer a channel of `session`.
    pub(crate) fn leave(&self, session: SessionId) {
        let mut inside = self.inside.lock();
        if !inside.closed && !inside.post.leaving.contains(&session) {
            inside.post.leaving.push(session);
            self.announce(inside);
        }
    }

    /// Asks the connection to end, unless somebody has signed in meanwhile.
    pub(crate) fn end_stranger(&self) {
        let mut inside = self.inside.lock();
        if !inside.closed {
            inside.post.ends = true;
            self.announce(inside);
        }
    }

    /// Leaves a letter; gives it back where the connection has ended or takes no more.
    pub(crate) fn post(&self, letter: Letter) -> Result<(), Letter> {
        let mut inside = self.inside.lock();
        if inside.closed || inside.post.letters.len() >= LETTERS_MAX {
            return Err(letter);
        }
        inside.post.letters.push_back(letter);
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
    pub(crate) fn take(&self) -> Post {
        if !self.is_filled() {
            return Post::default();
        }
        let mut inside = self.inside.lock();
        self.filled.store(false, Ordering::Release);
        std::mem::take(&mut inside.post)
    }

    /// Has `waker` woken by the next letter; false where one waits already.
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

    /// Takes nothing more; gives the letters that wait.
    pub(crate) fn close(&self) -> VecDeque<Letter> {
        let mut inside = self.inside.lock();
        inside.closed = true;
        inside.waker = None;
        std::mem::take(&mut inside.post).letters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter() -> Letter {
        Letter::plain(SessionId(1), vec![1])
    }

    #[test]
    fn a_letter_is_taken_once_and_none_after_the_end() {
        let mailbox = Mailbox::default();
        assert!(mailbox.watch(Waker::noop()));
        assert!(mailbox.post(letter()).is_ok());
        assert!(!mailbox.watch(Waker::noop()), "one waits");
        assert_eq!(mailbox.take().letters.len(), 1);
        assert_eq!(mailbox.take().letters.len(), 0);
        assert!(mailbox.close().is_empty());
        assert!(mailbox.post(letter()).is_err());
    }
}
