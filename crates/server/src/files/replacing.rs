//! A file whose name another one is about to take, by a rename or a link.

use std::sync::Arc;

use store::Identity;
use wire::status::Status;

use super::{FileEntry, FileTable, Link};
use crate::Shared;

/// Nobody enters the file as long as this lives: who wants to looks the name up anew after that.
pub(crate) struct Replacing {
    server: Arc<Shared>,
    file: Arc<FileEntry>,
}

impl Replacing {
    /// Begins to put another file in the place of `identity`, which has the name `link`. Refuses where that goes already
    /// (MS-FSA 2.1.5.15.12), or where the file is open and `takes_open` is not set.
    pub(crate) fn begin(
        server: &Arc<Shared>,
        identity: Identity,
        link: &Link,
        takes_open: bool,
    ) -> Result<Self, Status> {
        loop {
            let file = server.files.find_or_insert(identity);
            let mut state = file.state.lock();
            if state.retired {
                continue;
            }
            if state.is_link_pending(Some(link)) {
                return Err(Status::DELETE_PENDING);
            }
            if !takes_open && !state.claims.is_empty() {
                return Err(Status::ACCESS_DENIED);
            }
            state.replacing += 1;
            drop(state);
            return Ok(Replacing { server: Arc::clone(server), file });
        }
    }
}

impl Drop for Replacing {
    fn drop(&mut self) {
        self.server.files.end_replacing(&self.file);
    }
}

impl FileTable {
    fn end_replacing(&self, file: &Arc<FileEntry>) {
        let mut state = file.state.lock();
        state.replacing -= 1;
        state.wake();
        self.retire_if_unused(file, state);
    }
}
