//! A file whose name another one is about to take, by a rename or a link.

use std::sync::Arc;

use store::Identity;
use wire::command::create::ShareAccess;
use wire::security::access::DELETE;
use wire::status::Status;

use super::{FileEntry, FileTable, Link};
use crate::state::files::share_modes::Modes;
use crate::state::open_id::OpenId;

/// What an open shares that keeps others from nothing.
const SHARES_ALL: u32 = ShareAccess::READ.0 | ShareAccess::WRITE.0 | ShareAccess::DELETE.0;

/// Nobody enters the file as long as this lives: who wants to looks the name up anew after that.
pub(crate) struct Replacing {
    files: Arc<FileTable>,
    file: Arc<FileEntry>,
}

impl Replacing {
    /// Begins to put another file in the place of `identity`, which has the name `link`. Refuses where that goes already
    /// (MS-FSA 2.1.5.15.12), or where the file is open. With `takes_open` it may be, by those who share its deletion: that is what becomes of the
    /// file then (MS-FSCC 2.4.43, FILE_RENAME_POSIX_SEMANTICS), and who opens a file to delete it meets the same share modes.
    pub(crate) fn begin(
        files: &Arc<FileTable>,
        identity: Identity,
        link: &Link,
        takes_open: bool,
    ) -> Result<Self, Status> {
        loop {
            let file = files.find_or_insert(identity);
            let mut state = file.state.lock();
            if state.retired {
                continue;
            }
            if state.is_link_pending(Some(link)) {
                return Err(Status::DELETE_PENDING);
            }
            let in_the_way = match takes_open {
                true => state.claims.conflict_with("", Modes::of(DELETE, SHARES_ALL)),
                false => !state.claims.is_empty(),
            };
            if in_the_way {
                return Err(Status::ACCESS_DENIED);
            }
            state.replacing += 1;
            drop(state);
            return Ok(Replacing { files: Arc::clone(files), file });
        }
    }

    /// Begins to put another file in the place of the one that `open` has open, and nobody else (MS-FSA 2.1.5.10.37). Refuses where others have it
    /// open: they would go on with a file that no name leads to.
    pub(crate) fn begin_alone(files: &Arc<FileTable>, file: &Arc<FileEntry>, open: OpenId) -> Result<Self, Status> {
        let mut state = file.state.lock();
        if state.claims.len() != 1 || !state.has(open) || state.replacing > 0 {
            return Err(Status::SHARING_VIOLATION);
        }
        state.replacing += 1;
        drop(state);
        Ok(Replacing { files: Arc::clone(files), file: Arc::clone(file) })
    }
}

impl Drop for Replacing {
    fn drop(&mut self) {
        self.files.end_replacing(&self.file);
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
