//! Who waits for others to give up what they cache of a file, or for its name to be free. Thousands may, and a change lets few of them go
//! on: they look again one behind the other, so that a shard serves others between two of them.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use tokio::sync::oneshot;

use super::FileEntry;

/// So many look again at a time.
pub(super) const LOOKING_MAX: usize = 4;

/// Those who wait at one file, in the order in which they came.
#[derive(Default)]
pub(super) struct Waiters {
    queue: VecDeque<Waiter>,
    /// How many of them, the first ones, look again because something has changed.
    due: usize,
    /// How many were told so and have not begun to look.
    looking: usize,
}

struct Waiter {
    sender: oneshot::Sender<Look>,
    file: Weak<FileEntry>,
}

/// Tells who waits to look again. When it is dropped the next one is told, whatever comes of this one's look: that may take long.
pub(crate) struct Look {
    file: Weak<FileEntry>,
}

impl Waiters {
    /// One more who waits.
    pub(super) fn add(&mut self, file: &Arc<FileEntry>) -> oneshot::Receiver<Look> {
        let (sender, changed) = oneshot::channel();
        if self.queue.len() == self.queue.capacity() {
            self.forget_gone();
            // Room for as many again: who comes does not go through all who wait each time.
            self.queue.reserve_exact(self.queue.len().max(1));
        }
        self.queue.push_back(Waiter { sender, file: Arc::downgrade(file) });
        changed
    }

    /// Forgets those who wait no longer.
    fn forget_gone(&mut self) {
        let (mut position, mut due) = (0, 0);
        self.queue.retain(|waiter| {
            let stays = !waiter.sender.is_closed();
            due += usize::from(stays && position < self.due);
            position += 1;
            stays
        });
        self.due = due;
    }

    /// Has all who wait look again, one after the other.
    pub(super) fn wake(&mut self) {
        self.due = self.queue.len();
        self.call();
    }

    fn call(&mut self) {
        while self.looking < LOOKING_MAX && self.due > 0 {
            let Some(Waiter { sender, file }) = self.queue.pop_front() else { break };
            self.due -= 1;
            match sender.send(Look { file }) {
                Ok(()) => self.looking += 1,
                // It waits no longer. The file is locked: nobody is told from here but by this loop.
                Err(mut unheard) => unheard.file = Weak::new(),
            }
        }
        if self.queue.is_empty() {
            self.queue = VecDeque::new();
        }
    }

    /// How many wait just now.
    pub(super) fn count(&self) -> usize {
        self.queue.iter().filter(|waiter| !waiter.sender.is_closed()).count()
    }

    /// How many wait, or did.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }
}

impl Drop for Look {
    fn drop(&mut self) {
        if let Some(file) = self.file.upgrade() {
            let waiters = &mut file.state.lock().waiting;
            waiters.looking -= 1;
            waiters.call();
        }
    }
}
