//! Changes of a file's names, one at a time. A name is marked to go, or gets another one, never both at once: a mark that came in the
//! middle of a rename would be of a name that nobody has open any more.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::FileEntry;

/// Nobody else changes a name of the file, or marks one to go, as long as this lives.
pub(crate) struct NameChange {
    file: Option<Arc<FileEntry>>,
}

/// Those who want to change names of a file behind who does just now.
pub(super) type NameChangesWaiting = VecDeque<oneshot::Sender<NameChange>>;

impl NameChange {
    /// Begins to change names of `file`, or gives what tells when it is this one's turn.
    pub(crate) fn begin(file: &Arc<FileEntry>) -> Result<Self, oneshot::Receiver<Self>> {
        let mut state = file.state.lock();
        match &mut state.name_changes {
            None => {
                state.name_changes = Some(Box::default());
                Ok(NameChange { file: Some(Arc::clone(file)) })
            }
            Some(waiting) => {
                let (sender, turn) = oneshot::channel();
                waiting.push_back(sender);
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
            let Some(next) = state.name_changes.as_mut().and_then(|waiting| waiting.pop_front()) else {
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
        self.state.lock().name_changes.as_ref().is_some_and(|waiting| !waiting.is_empty())
    }
}
