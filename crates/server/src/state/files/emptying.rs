//! A file that a CREATE empties: its data go, and its named streams with them.

use std::sync::Arc;

use wire::security::access::DELETE;
use wire::status::Status;

use super::{FileEntry, FileTable};

/// What an open does to what it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Empties {
    Nothing,
    Overwrites,
    Supersedes,
}

impl Empties {
    /// The right that others have to share with it beside those that the open is granted (MS-FSA 2.1.5.1.2).
    pub(super) fn needs_shared(self) -> u32 {
        match self {
            Empties::Supersedes => DELETE,
            Empties::Nothing | Empties::Overwrites => 0,
        }
    }

    /// True where this removes the named streams of the file whose `stream` is opened.
    pub(super) fn removes_streams(self, stream: &str) -> bool {
        self != Empties::Nothing && stream.is_empty()
    }
}

/// Nobody opens a named stream of the file as long as this lives: who wants to looks it up anew after that.
pub(crate) struct Emptying {
    files: Arc<FileTable>,
    file: Arc<FileEntry>,
}

impl Emptying {
    /// Begins to empty a file, which its caller has open. Refuses where a named stream is open that may not be deleted meanwhile.
    pub(crate) fn begin(files: &Arc<FileTable>, file: &Arc<FileEntry>) -> Result<Self, Status> {
        let mut state = file.state.lock();
        if state.claims.keep_streams() {
            return Err(Status::SHARING_VIOLATION);
        }
        state.emptying += 1;
        drop(state);
        Ok(Emptying { files: Arc::clone(files), file: Arc::clone(file) })
    }
}

impl Drop for Emptying {
    fn drop(&mut self) {
        self.files.end_emptying(&self.file);
    }
}

impl FileTable {
    fn end_emptying(&self, file: &Arc<FileEntry>) {
        let mut state = file.state.lock();
        state.emptying -= 1;
        self.streams_changed(file.identity);
        state.wake();
        self.retire_if_unused(file, state);
    }
}
