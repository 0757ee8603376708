//! A stream that gets another name, maybe that of an empty one, which goes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use store::{Identity, fold};
use wire::status::Status;

use super::{FileEntry, FileTable};

/// Nobody opens a stream by the old name or the new one as long as this lives: who wants to looks the name up anew after that.
pub(crate) struct StreamRename {
    files: Arc<FileTable>,
    file: Arc<FileEntry>,
}

impl StreamRename {
    /// Begins to give the stream `from` the name `to`: its caller has it open, and is alone in changing names of the file. Refuses where
    /// what has the new name is open (MS-FSA 2.1.5.15.12.1), or goes already.
    pub(crate) fn begin(files: &Arc<FileTable>, file: &Arc<FileEntry>, from: &str, to: &str) -> Result<Self, Status> {
        let mut state = file.state.lock();
        let (from, to) = (fold(from), fold(to));
        if state.claims.has_stream(&to) {
            return Err(Status::INVALID_PARAMETER);
        }
        if state.pending.as_ref().is_some_and(|pending| pending.streams.contains(&to)) {
            return Err(Status::DELETE_PENDING);
        }
        state.renaming_stream = Some(Box::new([from, to]));
        drop(state);
        Ok(StreamRename { files: Arc::clone(files), file: Arc::clone(file) })
    }
}

impl Drop for StreamRename {
    fn drop(&mut self) {
        let files = &self.files;
        let mut state = self.file.state.lock();
        state.renaming_stream = None;
        files.streams_changed(self.file.identity);
        state.wake();
        files.retire_if_unused(&self.file, state);
    }
}

impl FileTable {
    /// Changes when a name of a stream of the file means another one, or none, than it did; now and then also where nothing has changed. Who
    /// looks a stream up before entering it looks at this before and after.
    pub(crate) fn stream_changes(&self, file: Identity) -> u64 {
        self.stream_changes[FileTable::part_of(file)].load(Ordering::Acquire)
    }

    /// Called before anybody can enter who was kept out by the change.
    pub(super) fn streams_changed(&self, file: Identity) {
        self.stream_changes[FileTable::part_of(file)].fetch_add(1, Ordering::AcqRel);
    }
}
