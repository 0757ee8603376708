//! Changes of a file's names, one at a time. A name is marked to go, or gets another one, never both at once: a mark that came in the
//! middle of a rename would be of a name that nobody has open any more.
//!
//! Those who wait take turns by user, so that nobody waits for all that another has asked for. What is done in a turn goes before all else
//! of its user (`InFlight::keep_others_waiting`), so that nobody waits for another's backlog either.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::FileEntry;

/// Nobody else changes a name of the file, or marks one to go, as long as this lives.
pub(crate) struct NameChange {
    file: Option<Arc<FileEntry>>,
}

/// Those who want to change names of a file behind who does just now, by user: each user has its turn.
#[derive(Default)]
pub(super) struct NameChangesWaiting {
    users: VecDeque<(u64, VecDeque<Called>)>,
    count: usize,
    /// How many there may be before those are looked for who wait no longer.
    looked_at: usize,
}

type Called = oneshot::Sender<NameChange>;

/// So many may wait without anybody looking whether they still do.
const FEW: usize = 32;

impl NameChangesWaiting {
    fn add(&mut self, user: u64, called: Called) {
        if self.count >= self.looked_at {
            self.forget_gone();
        }
        match self.users.iter_mut().find(|(known, _)| *known == user) {
            Some((_, line)) => line.push_back(called),
            None => self.users.push_back((user, VecDeque::from([called]))),
        }
        self.count += 1;
    }

    fn forget_gone(&mut self) {
        for (_, line) in &mut self.users {
            line.retain(|called| !called.is_closed());
        }
        self.users.retain(|(_, line)| !line.is_empty());
        self.count = self.users.iter().map(|(_, line)| line.len()).sum();
        self.looked_at = 2 * self.count.max(FEW);
    }

    fn next(&mut self) -> Option<Called> {
        let (user, mut line) = self.users.pop_front()?;
        let next = line.pop_front();
        if !line.is_empty() {
            self.users.push_back((user, line));
        }
        self.count -= 1;
        next
    }
}

impl NameChange {
    /// Begins to change names of `file` for `user` (`User::number`), or gives what tells when it is this one's turn.
    pub(crate) fn begin(file: &Arc<FileEntry>, user: u64) -> Result<Self, oneshot::Receiver<Self>> {
        let mut state = file.state.lock();
        match &mut state.name_changes {
            None => {
                state.name_changes = Some(Box::default());
                Ok(NameChange { file: Some(Arc::clone(file)) })
            }
            Some(waiting) => {
                let (called, turn) = oneshot::channel();
                waiting.add(user, called);
                Err(turn)
            }
        }
    }
}

impl Drop for NameChange {
    fn drop(&mut self) {
        let Some(file) = self.file.take() else { return };
        loop {
            let mut state = file.state.lock();
            let Some(next) = state.name_changes.as_mut().and_then(|waiting| waiting.next()) else {
                state.name_changes = None;
                return;
            };
            drop(state);
            match next.send(NameChange { file: Some(Arc::clone(&file)) }) {
                Ok(()) => return,
                // It waits no longer: the next one's turn.
                Err(mut unheard) => unheard.file = None,
            }
        }
    }
}

impl FileEntry {
    /// True where somebody wants to change a name of the file behind who does just now.
    #[cfg(test)]
    pub(crate) fn is_name_change_awaited(&self) -> bool {
        self.name_changes_awaited() > 0
    }

    /// How many are kept who want to.
    #[cfg(test)]
    pub(crate) fn name_changes_awaited(&self) -> usize {
        self.state.lock().name_changes.as_ref().map_or(0, |waiting| waiting.count)
    }
}
