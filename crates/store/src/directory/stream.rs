//! An open named stream.
//!
//! Its data are in an attribute of the file until they outgrow it, and in a side file from then on. It is known by
//! its id, so that it is found again after it was renamed, and not mistaken for a later one with its name.
//!
//! A side file may be another file's, where another program copied the attribute. Then it is copied when the stream is
//! opened for its data; where that cannot be done it is read as it is, and what changes the data tries again.

use std::any::Any;
use std::cell::Cell;
use std::sync::OnceLock;

use parking_lot::{MutexGuard, RwLock};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};

use crate::copy::check_stream_name;
use crate::copy::{Span, through_memory};
use crate::directory::calls::{fsync, futimens};
use crate::directory::descriptor::Descriptor;
use crate::directory::errno::error;
use crate::directory::file::OpenFile;
use crate::directory::quota::Growth;
use crate::directory::side::{Nameless, Opened, Whose};
use crate::directory::side_name::{self, SideName};
use crate::directory::stat::stat;
use crate::directory::stream_value::{Body, INLINE_BYTES_MAX, Stays, StreamValue, VALUE_BYTES_MAX, key};
use crate::directory::streams::{self, Held, Kept};
use crate::directory::subject::Subject;
use crate::directory::{adopt, contents, data, metadata, side, space};
use crate::{
    Changes, ChooseOffset, Error, Extent, Extents, Extras, Failed, Identity, Kind, Metadata, NamedNode, Node, Renewal,
    Use, Waits, waiting,
};
use std::sync::Arc;

/// A stream and the file it belongs to.
pub(super) struct StreamNode {
    file: OpenFile,
    id: side_name::Id,
    /// Held for no call of the kernel: who must not wait asks for it, too.
    key: RwLock<Arc<str>>,
    /// The side file, where it is this file's.
    side: OnceLock<SideFile>,
    /// Another file's, to read.
    lent: OnceLock<(SideName, SideFile)>,
    /// The data were another file's when it was opened.
    copied: Option<SideName>,
}

/// An open side file.
struct SideFile {
    fd: Descriptor,
    /// It lies on another file system than the root's own, of which the file's [`Waits`] say nothing.
    elsewhere: bool,
}

impl SideFile {
    /// [`Error::WouldBlock`] where it has to be waited for.
    fn fd(&self) -> Result<BorrowedFd<'_>, Error> {
        if self.elsewhere && !waiting::is_allowed() { Err(Error::WouldBlock) } else { Ok(self.fd.as_fd()) }
    }
}

impl StreamNode {
    pub(super) fn new(file: OpenFile, kept: Kept, whose: Whose) -> Self {
        let copied = match kept.held {
            Held::Side(side) => Some(side).filter(|_| whose == Whose::Anothers),
            Held::Here(_) => None,
        };
        let (side, lent) = (OnceLock::new(), OnceLock::new());
        // As long as one stream of it is open.
        file.synced();
        StreamNode { file, id: kept.id, key: RwLock::new(kept.key.into()), side, lent, copied }
    }

    /// Its value. [`Error::Gone`] where it was removed.
    ///
    /// One look at one key says which stream is there: streams that change their names may have each other's key at the next look. Where it is not
    /// at the key that it was last found at, it is looked for while no stream of the file changes its name.
    fn value<'a>(&self, subject: &Subject<'_>, bytes: &'a mut [u8; VALUE_BYTES_MAX]) -> Result<StreamValue<'a>, Error> {
        let length = match self.look_at_key(subject, bytes)? {
            Some(length) => length,
            None => {
                let held = self.file.lock_to_look()?;
                self.look_for_key(&held, subject, bytes)?
            }
        };
        StreamValue::decode(&bytes[..length]).ok_or(Error::Gone)
    }

    /// The same for who keeps others from changing what is kept beside the file.
    fn value_while<'a>(
        &self,
        held: &MutexGuard<'_, ()>,
        subject: &Subject<'_>,
        bytes: &'a mut [u8; VALUE_BYTES_MAX],
    ) -> Result<StreamValue<'a>, Error> {
        let length = match self.look_at_key(subject, bytes)? {
            Some(length) => length,
            None => self.look_for_key(held, subject, bytes)?,
        };
        StreamValue::decode(&bytes[..length]).ok_or(Error::Gone)
    }

    /// Reads the value at the key that it was last found at; gives its bytes. `None` where it has left, or is leaving.
    fn look_at_key(&self, subject: &Subject<'_>, bytes: &mut [u8; VALUE_BYTES_MAX]) -> Result<Option<usize>, Error> {
        let Some(length) = streams::load_bytes(subject, &self.key(), bytes)? else { return Ok(None) };
        let is_it = |value: StreamValue<'_>| value.id == self.id && value.stays == Stays::Here;
        Ok(StreamValue::decode(&bytes[..length]).is_some_and(is_it).then_some(length))
    }

    /// The same at whatever key it has now.
    fn look_for_key(
        &self,
        _held: &MutexGuard<'_, ()>,
        subject: &Subject<'_>,
        bytes: &mut [u8; VALUE_BYTES_MAX],
    ) -> Result<usize, Error> {
        let kept = streams::all(subject)?.into_iter().find(|kept| kept.id == self.id).ok_or(Error::Gone)?;
        let length = streams::load_bytes(subject, &kept.key, bytes)?.ok_or(Error::Gone)?;
        // Another program may have put another one there.
        StreamValue::decode(&bytes[..length]).filter(|value| value.id == self.id).ok_or(Error::Gone)?;
        *self.key.write() = kept.key.into();
        Ok(length)
    }

    /// The key that it was last found at.
    fn key(&self) -> Arc<str> {
        Arc::clone(&self.key.read())
    }

    /// Its side file to be changed, if it has one by now.
    fn side(&self) -> Result<Option<BorrowedFd<'_>>, Error> {
        if let Some(side) = self.side.get() {
            return side.fd().map(Some);
        }
        let (subject, mut bytes) = (self.file.subject(), [0; VALUE_BYTES_MAX]);
        let Some(side) = self.value(&subject, &mut bytes)?.side() else { return Ok(None) };
        let opened = side::open(&subject, &side, Use::ReadWrite)?;
        match opened.whose {
            Whose::Own => self.hold_side(self.hold(opened)).map(Some),
            Whose::Anothers => self.adopt(&side).map(Some),
        }
    }

    fn hold_side(&self, side: SideFile) -> Result<BorrowedFd<'_>, Error> {
        self.side.get_or_init(|| side).fd()
    }

    /// A side file to be read, whosever it is.
    fn look_at_side(&self, subject: &Subject<'_>, side: &SideName) -> Result<BorrowedFd<'_>, Error> {
        if let Some((_, lent)) = self.lent.get().filter(|(name, _)| name == side) {
            return lent.fd();
        }
        let opened = side::open(subject, side, Use::ReadWrite)?;
        match opened.whose {
            Whose::Own => self.hold_side(self.hold(opened)),
            Whose::Anothers => self.lent.get_or_init(|| (*side, self.hold(opened))).1.fd(),
        }
    }

    fn hold(&self, opened: Opened) -> SideFile {
        let volume = &self.file.volume;
        let of = match opened.elsewhere {
            None => (volume.waits, volume.identity.volume),
            Some(elsewhere) => (Waits::Always, elsewhere),
        };
        let fd = Descriptor::new(opened.fd, of).counted(volume.nameless());
        SideFile { fd, elsewhere: opened.elsewhere.is_some() }
    }

    /// Makes data that are another file's, in `from`, this file's own: copies them. May take long.
    fn adopt(&self, from: &SideName) -> Result<BorrowedFd<'_>, Error> {
        let volume = &self.file.volume;
        volume.check_writable()?;
        let _alone = volume.lock_adoption(self.file.identity)?;
        let subject = self.file.subject();
        let mut bytes = [0; VALUE_BYTES_MAX];
        match self.value(&subject, &mut bytes)?.side() {
            Some(side) if side == *from => {}
            Some(side) => {
                let opened = side::open(&subject, &side, Use::ReadWrite)?;
                return match opened.whose {
                    // Another was first.
                    Whose::Own => self.hold_side(self.hold(opened)),
                    // Another program has put another stream there.
                    Whose::Anothers => Err(Error::Gone),
                };
            }
            None => return Err(Error::Gone),
        }
        let copy = adopt::copy(&self.file, from)?;
        let held = volume.lock_file(self.file.identity);
        let value = self.value_while(&held, &subject, &mut bytes)?;
        if value.side() != Some(*from) {
            return Err(Error::Gone);
        }
        self.file.keep_while_open(SideName { id: value.id, owner: Some(subject.owner()?) })?;
        let fd = copy.keep(&subject, &self.key(), &value)?;
        self.hold_side(SideFile { fd, elsewhere: false })
    }

    /// Makes copied data its file's own as the stream is opened. Where that cannot be done they are read where they are; who changes
    /// them is told why.
    fn adopt_when_opened(&self) {
        if let Some(from) = self.copied.filter(|_| self.side.get().is_none()) {
            let _ = self.adopt(&from);
        }
    }

    /// True where opening the stream for its data copies them.
    fn is_to_be_adopted(&self) -> bool {
        self.copied.is_some() && self.side.get().is_none() && self.file.volume.check_removable().is_ok()
    }

    /// Lets `inline` work on data in the attribute, or gives the side file.
    fn inline_or_side<T>(&self, inline: impl FnOnce(&[u8]) -> T) -> Result<Result<T, BorrowedFd<'_>>, Error> {
        if let Some(side) = self.side.get() {
            return side.fd().map(Err);
        }
        let (subject, mut bytes) = (self.file.subject(), [0; VALUE_BYTES_MAX]);
        let value = self.value(&subject, &mut bytes)?;
        match value.body {
            Body::Here(data) => Ok(Ok(inline(data))),
            Body::Side(owner) => self.look_at_side(&subject, &SideName { id: value.id, owner }).map(Err),
        }
    }

    /// Changes the data in the attribute with `edit`, which gets them with zeros behind up to `length`, and leaves
    /// `length` of them; or gives the side file, to which they are moved where they do not fit.
    fn edit(
        &self,
        length: impl FnOnce(u64) -> u64,
        edit: impl FnOnce(&mut [u8]),
    ) -> Result<Option<BorrowedFd<'_>>, Error> {
        self.edit_within(|held| Ok(length(held)), edit)
    }

    /// The same where the length may be refused.
    fn edit_within(
        &self,
        length: impl FnOnce(u64) -> Result<u64, Error>,
        edit: impl FnOnce(&mut [u8]),
    ) -> Result<Option<BorrowedFd<'_>>, Error> {
        self.file.volume.check_writable()?;
        if let Some(side) = self.side.get() {
            return side.fd().map(Some);
        }
        let held = self.file.volume.lock_file(self.file.identity);
        let subject = self.file.subject();
        let mut bytes = [0; VALUE_BYTES_MAX];
        let value = self.value_while(&held, &subject, &mut bytes)?;
        let Body::Here(old) = value.body else {
            drop(held);
            return self.side()?.ok_or(Error::Gone).map(Some);
        };
        let key = self.key();
        let length = length(old.len() as u64)?;
        if length <= INLINE_BYTES_MAX as u64 {
            let mut new = [0; INLINE_BYTES_MAX];
            let new = &mut new[..length as usize];
            let common = old.len().min(new.len());
            new[..common].copy_from_slice(&old[..common]);
            edit(new);
            match streams::replace(&subject, &key, &value, &StreamValue { body: Body::Here(new), ..value }) {
                Err(Error::TooLarge | Error::Full) => {}
                answer => {
                    answer?;
                    self.touch();
                    return Ok(None);
                }
            }
        }
        self.file.keep_while_open(SideName { id: value.id, owner: Some(subject.owner()?) })?;
        let fd = streams::move_out(&subject, &key, &value, old)?;
        self.hold_side(SideFile { fd, elsewhere: false }).map(Some)
    }

    /// Changes a side file within the quota.
    fn change_side<T>(
        &self,
        fd: BorrowedFd<'_>,
        growth: Growth,
        change: impl FnOnce() -> Result<T, rustix::io::Errno>,
    ) -> Result<T, Error> {
        self.file.volume.check_writable()?;
        let answer = self.file.volume.account(self.file.identity, fd, growth, change)?;
        self.touch();
        Ok(answer)
    }

    /// Changes how much space a side file has.
    fn change_space(&self, change: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        self.file.volume.check_writable()?;
        change()?;
        self.touch();
        Ok(())
    }

    /// A stream's data are the file's: its time of last write moves.
    fn touch(&self) {
        let omitted = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        if let Some(fd) = self.file.readable() {
            let _ = futimens(fd, &Timestamps { last_access: omitted, last_modification: now });
        }
    }

    fn is_same_data(&self, other: &dyn Node) -> bool {
        let other = other.as_any().downcast_ref::<StreamNode>();
        // A copied file's streams have the ids of the original's.
        other.is_some_and(|other| other.id == self.id && other.file.identity == self.file.identity)
    }
}

impl Drop for StreamNode {
    /// Another program may have taken the file's last name away: it did not see the side file.
    fn drop(&mut self) {
        if self.side.get().is_none() {
            return;
        }
        // To look may have to wait.
        let is_elsewheres = !waiting::is_allowed() && !self.file.is_local();
        if !is_elsewheres && !self.file.is_nameless() {
            return;
        }
        let Ok(file) = self.file.again_uncounted() else { return };
        let last = LastOfStream { file, id: self.id };
        if !waiting::is_allowed() {
            waiting::drop_elsewhere(self.file.identity.volume, Box::new(last));
        }
    }
}

/// A stream that was closed, of a file that may have no name: its side file goes when the last closes the file, if it has none indeed.
struct LastOfStream {
    file: OpenFile,
    id: side_name::Id,
}

impl Drop for LastOfStream {
    fn drop(&mut self) {
        let _locked = self.file.volume.lock_file(self.file.identity);
        if !self.file.is_nameless() {
            return;
        }
        let Ok(owner) = self.file.subject().owner() else { return };
        let side = SideName { id: self.id, owner: Some(owner) };
        let name = side.on_disk();
        if !self.file.synced().keeps(&name) {
            self.file.synced().keep_while_open(name, Box::new(Nameless::unmarked(&self.file.volume, side)));
        }
    }
}

/// Opens one.
pub(super) fn open(file: &OpenFile, name: &str) -> Result<Option<NamedNode>, Error> {
    let Some((kept, whose)) = streams::find(&file.subject(), name)? else { return Ok(None) };
    let name = kept.name.clone();
    Ok(Some((name, Arc::new(StreamNode::new(file.again()?, kept, whose)))))
}

/// Makes an empty one. [`Error::Full`] too where the file system has no room for more attributes of this file: ext4
/// has 4 KiB for all names and values.
pub(super) fn create(file: &OpenFile, name: &str) -> Result<Arc<dyn Node>, Error> {
    file.volume.check_writable()?;
    check_stream_name(name)?;
    let _held = file.volume.lock_file(file.identity);
    let subject = file.subject();
    if streams::make_way(&subject, name)?.is_some() {
        return Err(Error::Exists);
    }
    let id = side_name::new_id()?;
    // What may fail comes before there is a stream that nobody has open.
    let again = file.again()?;
    let (key, long_name) = key(name, id);
    let saved =
        streams::save(&subject, &key, &StreamValue { id, name: long_name, body: Body::Here(&[]), stays: Stays::Here });
    saved.map_err(|error| if error == Error::TooLarge { Error::Full } else { error })?;
    let kept = Kept { key, name: name.to_owned(), id, held: Held::Here(0), stays: Stays::Here };
    Ok(Arc::new(StreamNode::new(again, kept, Whose::Own)))
}

/// Copies what of inline data lies in a range; gives the bytes copied.
fn read_inline(data: &[u8], buffer: &mut [u8], offset: u64) -> usize {
    let rest = usize::try_from(offset).ok().and_then(|offset| data.get(offset..)).unwrap_or(&[]);
    let count = rest.len().min(buffer.len());
    buffer[..count].copy_from_slice(&rest[..count]);
    count
}

/// The part of `data` that a range covers.
fn range_mut(data: &mut [u8], offset: u64, length: u64) -> &mut [u8] {
    let start = usize::try_from(offset).unwrap_or(usize::MAX).min(data.len());
    let end = usize::try_from(offset.saturating_add(length)).unwrap_or(usize::MAX).min(data.len());
    &mut data[start..end.max(start)]
}

impl Node for StreamNode {
    fn kind(&self) -> Kind {
        Kind::Stream
    }

    fn identity(&self) -> Identity {
        self.file.identity
    }

    fn birth(&self) -> Option<crate::Time> {
        self.file.birth()
    }

    fn waits(&self) -> Waits {
        self.file.waits
    }

    fn try_hold(&self) -> Option<crate::Held> {
        self.file.try_hold()
    }

    fn metadata(&self) -> Result<Metadata, Error> {
        self.file.may_wait_to_look("metadata");
        let base = metadata::of(&self.file)?;
        let unit = u64::from(self.file.volume.unit_bytes.max(1));
        let (length, allocated) = match self.inline_or_side(|data| data.len() as u64)? {
            Ok(length) => (length, length.next_multiple_of(unit)),
            Err(fd) => {
                let stat = stat(fd).map_err(error)?;
                (stat.stx_size, stat.stx_blocks * 512)
            }
        };
        Ok(Metadata { kind: Kind::Stream, length, allocated, ..base })
    }

    fn try_metadata(&self) -> Result<Metadata, Error> {
        if self.file.is_local() { self.metadata() } else { Err(Error::WouldBlock) }
    }

    fn change(&self, changes: &Changes) -> Result<(), Error> {
        let _turn = self.file.begin("change")?;
        metadata::change(&self.file, changes)
    }

    fn prepare(&self, usage: Use) -> Result<(), Error> {
        let _turn = self.file.begin("prepare")?;
        match usage {
            Use::Metadata => return Ok(()),
            Use::Read => {}
            Use::ReadWrite => self.file.volume.check_writable()?,
        }
        self.adopt_when_opened();
        Ok(())
    }

    fn try_prepare(&self, usage: Use) -> Result<(), Error> {
        match usage {
            Use::Metadata => return Ok(()),
            Use::Read => {}
            Use::ReadWrite => self.file.volume.check_writable()?,
        }
        if self.is_to_be_adopted() { Err(Error::WouldBlock) } else { Ok(()) }
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        self.file.may_wait("read_at");
        match self.inline_or_side(|data| read_inline(data, buffer, offset))? {
            Ok(count) => Ok(count),
            Err(fd) => data::read(fd, buffer, offset).map_err(error),
        }
    }

    fn try_read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        if !self.file.is_local() {
            return Err(Error::WouldBlock);
        }
        match self.inline_or_side(|data| read_inline(data, buffer, offset))? {
            Ok(count) => Ok(count),
            Err(fd) => contents::try_read(&self.file, fd, buffer, offset),
        }
    }

    fn write_at(&self, data: &[u8], offset: u64) -> Result<(), Error> {
        let _turn = self.file.begin("write_at")?;
        let count = data.len() as u64;
        let end = offset.checked_add(count).ok_or(Error::TooLarge)?;
        if count == 0 {
            return Ok(());
        }
        let edit = |held: &mut [u8]| range_mut(held, offset, count).copy_from_slice(data);
        match self.edit(|length| length.max(end), edit)? {
            None => Ok(()),
            Some(fd) => {
                let growth = Growth::Write { offset, length: count };
                self.change_side(fd, growth, || data::write(fd, data, offset))
            }
        }
    }

    fn append(&self, data: &[u8], place: ChooseOffset<'_>) -> Result<u64, Error> {
        let _turn = self.file.begin("append")?;
        let count = data.len() as u64;
        let _held = self.file.volume.lock_end(self.file.identity);
        let range = Cell::new((0, 0));
        let length = |held: u64| {
            let offset = place(held)?;
            let end = offset.checked_add(count).ok_or(Error::TooLarge)?;
            range.set((offset, end));
            Ok(end)
        };
        let edit = |held: &mut [u8]| range_mut(held, range.get().0, count).copy_from_slice(data);
        match self.edit_within(length, edit)? {
            None => Ok(range.get().1),
            Some(fd) => {
                self.file.volume.check_writable()?;
                let end = contents::append(&self.file, fd, data, place)?;
                self.touch();
                Ok(end)
            }
        }
    }

    fn sync(&self) -> Result<(), Error> {
        self.file.may_wait("sync");
        let side = self.inline_or_side(|_| ())?.err();
        self.file.sync_with(|| {
            side.map_or(Ok(()), |fd| fsync(fd).map_err(error))?;
            contents::sync_data(&self.file)
        })
    }

    fn set_length(&self, length: u64) -> Result<(), Error> {
        let turn = self.file.begin("set_length")?;
        let held = self.file.volume.lock_end(self.file.identity);
        let Some(fd) = self.edit(|_| length, |_| ())? else { return Ok(()) };
        drop(held);
        drop(turn);
        self.change_space(|| space::set_length(&self.file, fd, length))
    }

    fn set_allocation(&self, bytes: u64) -> Result<(), Error> {
        let turn = self.file.begin("set_allocation")?;
        let held = self.file.volume.lock_end(self.file.identity);
        if matches!(self.inline_or_side(|data| data.len() as u64 <= bytes)?, Ok(true)) {
            return Ok(());
        }
        let Some(fd) = self.edit(|held| held.min(bytes), |_| ())? else { return Ok(()) };
        drop(held);
        drop(turn);
        self.change_space(|| space::set_allocation(&self.file, fd, bytes))
    }

    fn reserve(&self, length: u64) -> Result<(), Error> {
        let turn = self.file.begin("reserve")?;
        let Some(fd) = self.side()? else { return Ok(()) };
        drop(turn);
        self.change_space(|| space::reserve(&self.file, fd, length))
    }

    fn zero(&self, offset: u64, length: u64, punch: bool) -> Result<(), Error> {
        let _turn = self.file.begin_of("zero", length)?;
        match self.edit(|held| held, |data| range_mut(data, offset, length).fill(0))? {
            None => Ok(()),
            Some(fd) => {
                let growth = if punch { Growth::None } else { Growth::Zero { offset, length } };
                self.change_side(fd, growth, || data::zero(fd, offset, length, punch))
            }
        }
    }

    fn extents(&self, offset: u64, length: u64, count_max: usize) -> Result<Extents, Error> {
        let _turn = self.file.begin("extents")?;
        match self.inline_or_side(|data| data.len() as u64)? {
            Ok(held) => {
                let end = held.min(offset.saturating_add(length));
                let extent = (offset < end && count_max > 0).then(|| Extent { offset, length: end - offset });
                Ok(Extents { ranges: extent.into_iter().collect(), next: None })
            }
            Err(fd) => data::extents(fd, offset, length, count_max).map_err(error),
        }
    }

    fn copy_from(&self, source: &dyn Node, source_offset: u64, offset: u64, length: u64) -> Result<u64, Error> {
        through_memory(self, source, Span { source_offset, offset, length }, self.is_same_data(source))
    }

    fn clone_from(&self, _source: &dyn Node, _: u64, _: u64, _: u64) -> Result<u64, Error> {
        Err(Error::Unsupported)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.side.get().filter(|side| !side.elsewhere).map(|side| side.fd.as_fd())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn renew(&self, _new: &Renewal<'_>) -> Result<(), Failed> {
        Err(Failed::untouched(Error::Invalid))
    }

    fn extras(&self) -> &dyn Extras {
        &self.file
    }
}
