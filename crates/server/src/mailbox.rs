//! What other threads leave for a connection to send unasked: break notifications (MS-SMB2 3.3.4.6, 3.3.4.7).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use parking_lot::Mutex;
use wire::ids::SessionId;

/// Letters that may wait at a connection. A client that takes none for so long is lost anyway.
const LETTERS_MAX: usize = 65_536;

/// One message, unsigned, as it leaves.
pub(crate) struct Letter {
    /// The session whose keys seal it where that session seals.
    pub(crate) session: SessionId,
    /// Header and body.
    pub(crate) message: Vec<u8>,
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
    letters: VecDeque<Letter>,
    waker: Option<Waker>,
    closed: bool,
}

impl Mailbox {
    /// Leaves a letter; gives it back where the connection has ended or takes no more.
    pub(crate) fn post(&self, letter: Letter) -> Result<(), Letter> {
        let mut inside = self.inside.lock();
        if inside.closed || inside.letters.len() >= LETTERS_MAX {
            return Err(letter);
        }
        inside.letters.push_back(letter);
        self.filled.store(true, Ordering::Release);
        let waker = inside.waker.take();
        drop(inside);
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// The letters that wait.
    pub(crate) fn take(&self) -> VecDeque<Letter> {
        if !self.filled.load(Ordering::Acquire) {
            return VecDeque::new();
        }
        let mut inside = self.inside.lock();
        self.filled.store(false, Ordering::Release);
        std::mem::take(&mut inside.letters)
    }

    /// Has `waker` woken by the next letter; false where one waits already.
    pub(crate) fn watch(&self, waker: &Waker) -> bool {
        let mut inside = self.inside.lock();
        if !inside.letters.is_empty() {
            return false;
        }
        match &mut inside.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        true
    }

    /// Takes nothing more.
    pub(crate) fn close(&self) {
        let mut inside = self.inside.lock();
        inside.closed = true;
        inside.letters.clear();
        inside.waker = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter() -> Letter {
        Letter { session: SessionId(1), message: vec![1] }
    }

    #[test]
    fn a_letter_is_taken_once_and_none_after_the_end() {
        let mailbox = Mailbox::default();
        assert!(mailbox.watch(Waker::noop()));
        assert!(mailbox.post(letter()).is_ok());
        assert!(!mailbox.watch(Waker::noop()), "one waits");
        assert_eq!(mailbox.take().len(), 1);
        assert_eq!(mailbox.take().len(), 0);
        mailbox.close();
        assert!(mailbox.post(letter()).is_err());
    }
}
