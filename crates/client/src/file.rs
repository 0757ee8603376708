//! An open file or directory (MS-SMB2 3.2.1.6).

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use wire::command::close::CloseFlags;
use wire::context::create::OnDiskId;
use wire::fscc::FileClass;
use wire::fscc::file::Basic;
use wire::security::{SecurityDescriptor, SecurityInformation};
use wire::status::Status;

use crate::command::ioctl::CopyKey;
use crate::command::query_directory::Entry;
use crate::command::query_info::Facts;
use crate::command::{close, create, flush, ioctl, query_directory, query_info, read, set_info, write};
use crate::data::Data;
use crate::error::Error;
use crate::mark::Mark;
use crate::network::Piece;
use crate::open_state::OpenState;
use crate::options::{Disposition, OpenOptions};
use crate::shared::Phase;
use crate::tree_state::{TreeState, wire_path};

/// An open file or directory. Clones are the same open. It is to be closed with [`File::close`]; an open that is only dropped stays open
/// until the session ends.
#[derive(Clone)]
pub struct File {
    pub(crate) state: Arc<OpenState>,
    facts: Facts,
    id: Option<OnDiskId>,
}

impl File {
    pub(crate) async fn open(
        (tree, mark): (&Arc<TreeState>, Option<Mark>),
        path: &str,
        options: OpenOptions,
    ) -> Result<File, Error> {
        let mut state = OpenState::new(tree, path, options)?.marked(mark);
        let created = create::create(&mut state).await?;
        state.opened(created.id, created.is_durable);
        let state = Arc::new(state);
        tree.shared.know_open(&state);
        let file = File { state, facts: created.facts, id: created.disk_id };
        match options.disposition {
            Disposition::Overwrite => file.emptied().await,
            Disposition::Open | Disposition::Create | Disposition::OpenOrCreate => Ok(file),
        }
    }

    /// Empties the file through the open, where the channel sequence guards it. A CREATE that overwrites might reach the server on a lost
    /// channel when it was replayed on another, and empty what was written since: nothing in MS-SMB2 keeps it from that.
    async fn emptied(mut self) -> Result<File, Error> {
        if self.facts.end_of_file == 0 {
            return Ok(self);
        }
        if let Err(error) = self.set_length(0).await {
            let _ = self.close().await;
            return Err(error);
        }
        (self.facts.end_of_file, self.facts.allocation) = (0, 0);
        Ok(self)
    }

    /// What it was when it was opened.
    pub fn facts(&self) -> Facts {
        self.facts
    }

    /// The server's number for it, where that was asked for and there is one.
    pub fn id(&self) -> Option<OnDiskId> {
        self.id
    }

    /// True where both are of one open.
    pub fn is_same(&self, other: &File) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    /// False once it is closed, or every connection was lost and the server kept nothing.
    pub fn is_open(&self) -> bool {
        let is_gone = matches!(self.state.tree.shared.state.lock().phase, Phase::Gone(_));
        self.state.file_id().is_ok() && !is_gone
    }

    /// True where the open made the name or emptied what had it.
    pub fn is_new(&self) -> bool {
        self.facts.end_of_file == 0 && self.state.options.disposition != Disposition::Open
    }

    /// What it is now.
    pub async fn facts_now(&self) -> Result<Facts, Error> {
        query_info::facts(&self.state).await
    }

    /// The most that one READ and one WRITE may move, in bytes.
    pub fn bytes_max(&self) -> (usize, usize) {
        let state = self.state.tree.shared.state.lock();
        let terms = state.identity.as_ref().map(|identity| identity.terms);
        terms.map_or((0, 0), |terms| (terms.read_bytes_max as usize, terms.write_bytes_max as usize))
    }

    /// Reads with one request; less than `length` at the end of the file, and nothing behind it.
    pub async fn read(&self, offset: u64, length: usize) -> Result<Data, Error> {
        read::read(&self.state, offset, length).await
    }

    /// The same for who may know where the data is: what is elsewhere has not been fetched.
    pub async fn read_piece(&self, offset: u64, length: usize) -> Result<Piece, Error> {
        read::read_piece(&self.state, offset, length).await
    }

    /// Writes all of `data` with one request. Where much of it is neither signed nor sealed, it is sent from where it lies.
    pub async fn write(&self, offset: u64, data: impl Into<Bytes>) -> Result<(), Error> {
        write::write(&self.state, offset, &data.into()).await
    }

    /// Has the server bring what was written to its disk.
    pub async fn flush(&self) -> Result<(), Error> {
        flush::flush(&self.state).await
    }

    /// What is in the directory and fits the pattern, without `.` and `..`.
    pub async fn entries(&self, pattern: &str) -> Result<Vec<Entry>, Error> {
        query_directory::entries(&self.state, pattern).await
    }

    /// The same, where `trim` takes out of what was told so far what is not wanted, each time that more was told: of a large directory no more has to
    /// be held than that.
    pub async fn entries_among(&self, pattern: &str, trim: impl Fn(&mut Vec<Entry>)) -> Result<Vec<Entry>, Error> {
        query_directory::entries_among(&self.state, pattern, trim).await
    }

    /// Any of its information (MS-FSCC 2.4) as bytes.
    pub async fn information(&self, class: FileClass) -> Result<Vec<u8>, Error> {
        query_info::information(&self.state, class).await
    }

    /// Its path in the share, as the names in it were given when they were made.
    pub async fn path(&self) -> Result<String, Error> {
        query_info::path(&self.state).await
    }

    /// Makes the file longer, with zeros, or shorter.
    pub async fn set_length(&self, length: u64) -> Result<(), Error> {
        set_info::end_of_file(&self.state, length).await
    }

    /// Sets the time of the last write.
    pub async fn set_written(&self, time: wire::ids::FileTime) -> Result<(), Error> {
        self.set_basic(Basic { write: time, ..Basic::default() }).await
    }

    /// Sets times and attributes: zeros leave what there is, and a time of -1 keeps it from changing through this open (MS-FSCC 2.4.7).
    pub async fn set_basic(&self, basic: Basic) -> Result<(), Error> {
        set_info::basic(&self.state, basic).await
    }

    /// Its security descriptor, those parts that are named.
    pub async fn descriptor(&self, which: SecurityInformation) -> Result<SecurityDescriptor, Error> {
        query_info::descriptor(&self.state, which).await
    }

    /// Sets those parts of its security descriptor that are named.
    pub async fn set_descriptor(
        &self,
        descriptor: &SecurityDescriptor,
        which: SecurityInformation,
    ) -> Result<(), Error> {
        set_info::descriptor(&self.state, descriptor, which).await
    }

    /// Makes the file sparse: what is not written takes no space.
    pub async fn make_sparse(&self) -> Result<(), Error> {
        ioctl::make_sparse(&self.state).await
    }

    /// Has a range read as zeros.
    pub async fn zero(&self, range: Range<u64>) -> Result<(), Error> {
        ioctl::zero(&self.state, range).await
    }

    /// The first parts of a range that have storage, about `most` of them at most, in order; all of it up to the file's end where the file is not sparse.
    pub async fn allocated(&self, range: Range<u64>, most: usize) -> Result<Vec<Range<u64>>, Error> {
        ioctl::allocated(&self.state, range, most).await
    }

    /// Names the open as a source for [`File::copy_from`] in the same session.
    pub async fn copy_key(&self) -> Result<CopyKey, Error> {
        ioctl::copy_key(&self.state).await
    }

    /// Has the server copy a range of another open to the same place here.
    pub async fn copy_from(&self, source: &CopyKey, range: Range<u64>) -> Result<(), Error> {
        ioctl::copy_from(&self.state, source, range).await
    }

    /// Where the symbolic link leads that was opened itself; `None` where it is another kind of reparse point.
    pub async fn link(&self) -> Result<Option<String>, Error> {
        ioctl::link(&self.state).await
    }

    /// Gives it another name, from the share's root, in place of a file that has it where `replace`.
    pub async fn rename(&self, to: &str, replace: bool) -> Result<(), Error> {
        let to = wire_path(to);
        set_info::rename(&self.state, &to, replace).await?;
        self.state.was_renamed(to);
        Ok(())
    }

    /// It goes when it is closed.
    pub async fn delete_on_close(&self) -> Result<(), Error> {
        set_info::disposition(&self.state, true).await
    }

    /// It goes no longer when it is closed.
    pub async fn keep(&self) -> Result<(), Error> {
        set_info::disposition(&self.state, false).await
    }

    /// Closes it.
    pub async fn close(self) -> Result<(), Error> {
        self.close_with(CloseFlags::NONE).await.map(|_| ())
    }

    /// Closes it and tells what it was then; `None` where the answer was lost, or the server does not say.
    pub async fn close_and_look(self) -> Result<Option<Facts>, Error> {
        self.close_with(CloseFlags::POSTQUERY_ATTRIB).await
    }

    async fn close_with(self, flags: CloseFlags) -> Result<Option<Facts>, Error> {
        let was_open = self.state.file_id().is_ok();
        let (status, facts) = match close::close(&self.state, flags).await {
            // Every connection was lost, and the server has kept nothing: it closed the open, or was about to.
            Err(Error::OpenLost(_)) if was_open => (Status::FILE_CLOSED, None),
            answer => answer?,
        };
        // Asked a second time, after the first answer was lost.
        let is_closed = status == Status::SUCCESS || status == Status::FILE_CLOSED;
        self.state.lost();
        if is_closed { Ok(facts) } else { Err(Error::refused(status, format!("close {}", self.state.path))) }
    }
}
