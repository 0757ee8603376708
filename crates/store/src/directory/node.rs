//! An open file or directory as the server uses it.

use std::any::Any;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fd::BorrowedFd;
use rustix::io::Errno;

use crate::copy::{Span, through_memory};
use crate::directory::errno::error;
use crate::directory::fence::Wait;
use crate::directory::file::OpenFile;
use crate::directory::quota::Growth;
use crate::directory::{
    clones, contents, create, data, entries, metadata, remove, rename, renew, replace, resolve, space,
};
use crate::{
    Changes, ChooseOffset, Cursor, Destination, Error, Extents, Extras, Failed, Held, Identity, Keeping, Kind,
    Metadata, Name, NamedNode, Names, NewNode, Node, Renewal, Replace, Replacement, Seen, Take, Use, Waits, waiting,
};

/// A file or directory.
pub(super) struct FileNode {
    file: OpenFile,
}

impl FileNode {
    pub(super) fn open(file: OpenFile) -> Arc<dyn Node> {
        Arc::new(FileNode { file })
    }

    /// A descriptor to read data with.
    fn data(&self) -> Result<BorrowedFd<'_>, Error> {
        match self.file.kind {
            Kind::Directory => Err(Error::IsDirectory),
            Kind::File | Kind::Stream => self.file.readable().ok_or(Error::Denied),
        }
    }

    /// Changes the data within the quota.
    fn write(&self, growth: Growth, change: impl FnOnce(BorrowedFd<'_>) -> Result<(), Errno>) -> Result<(), Error> {
        let fd = self.file.writable()?;
        self.file.volume.account(self.file.identity, fd, growth, || change(fd))
    }

    fn is_same_data(&self, other: &dyn Node) -> bool {
        other.kind() == Kind::File && other.identity() == self.file.identity
    }
}

/// The file that is known to lose its name.
fn replaced(replace: Replace) -> Option<Identity> {
    match replace {
        Replace::Only(file) => Some(file),
        Replace::No | Replace::Yes => None,
    }
}

/// What a node of another store is not.
pub(super) fn of_store(node: &dyn Node) -> Result<&OpenFile, Error> {
    node.as_any().downcast_ref::<FileNode>().map(|node| &node.file).ok_or(Error::CrossVolume)
}

impl Node for FileNode {
    fn kind(&self) -> Kind {
        self.file.kind
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

    fn try_hold(&self) -> Option<Held> {
        self.file.try_hold()
    }

    fn metadata(&self) -> Result<Metadata, Error> {
        self.file.may_wait_to_look("metadata");
        metadata::of(&self.file)
    }

    fn metadata_as_resolved(&self) -> Result<Metadata, Error> {
        self.file.may_wait_to_look("metadata_as_resolved");
        metadata::as_opened(&self.file)
    }

    fn try_metadata(&self) -> Result<Metadata, Error> {
        if self.file.is_local() { self.metadata() } else { Err(Error::WouldBlock) }
    }

    fn change(&self, changes: &Changes) -> Result<(), Error> {
        let _turn = self.file.begin("change")?;
        metadata::change(&self.file, changes)
    }

    fn prepare(&self, usage: Use) -> Result<(), Error> {
        self.file.may_wait("prepare");
        self.file.prepare(usage)
    }

    fn try_prepare(&self, usage: Use) -> Result<(), Error> {
        if self.file.waits == Waits::Never || self.file.is_prepared(usage) {
            self.file.prepare(usage)
        } else {
            Err(Error::WouldBlock)
        }
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        self.file.may_wait("read_at");
        if self.file.is_link {
            return Ok(0);
        }
        data::read(self.data()?, buffer, offset).map_err(error)
    }

    fn try_read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        if self.file.is_link {
            return Ok(0);
        }
        contents::try_read(&self.file, self.data()?, buffer, offset)
    }

    fn try_resident(&self, offset: u64, length: usize) -> Result<usize, Error> {
        if self.file.is_link {
            return Err(Error::Unsupported);
        }
        contents::try_resident(&self.file, self.data()?, offset, length)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> Result<(), Error> {
        let _turn = self.file.begin("write_at")?;
        let growth = Growth::Write { offset, length: data.len() as u64 };
        self.write(growth, |fd| data::write(fd, data, offset))
    }

    fn append(&self, data: &[u8], place: ChooseOffset<'_>) -> Result<u64, Error> {
        let _turn = self.file.begin("append")?;
        let fd = self.file.writable()?;
        let _held = self.file.volume.lock_end(self.file.identity);
        contents::append(&self.file, fd, data, place)
    }

    fn sync(&self) -> Result<(), Error> {
        self.file.may_wait("sync");
        // A symbolic link has no data, and the directory's names are the directory's.
        if self.file.is_link { Ok(()) } else { contents::sync(&self.file) }
    }

    fn set_length(&self, length: u64) -> Result<(), Error> {
        space::set_length(&self.file, self.file.writable()?, length)
    }

    fn set_allocation(&self, bytes: u64) -> Result<(), Error> {
        space::set_allocation(&self.file, self.file.writable()?, bytes)
    }

    fn reserve(&self, length: u64) -> Result<(), Error> {
        space::reserve(&self.file, self.file.writable()?, length)
    }

    fn zero(&self, offset: u64, length: u64, punch: bool) -> Result<(), Error> {
        let _turn = self.file.begin_of("zero", length)?;
        let growth = if punch { Growth::None } else { Growth::Zero { offset, length } };
        self.write(growth, |fd| data::zero(fd, offset, length, punch))
    }

    fn extents(&self, offset: u64, length: u64, count_max: usize) -> Result<Extents, Error> {
        let _turn = self.file.begin("extents")?;
        data::extents(self.data()?, offset, length, count_max).map_err(error)
    }

    fn copy_from(&self, source: &dyn Node, source_offset: u64, offset: u64, length: u64) -> Result<u64, Error> {
        let turn = self.file.begin("copy_from")?;
        let span = Span { source_offset, offset, length };
        let same = self.is_same_data(source);
        // What is in memory is not held while a device is read from.
        let kernel_may = self.file.waits != Waits::Never || source.waits() == Waits::Never;
        if let Some(from) = source.descriptor().filter(|_| kernel_may) {
            let to = self.file.writable()?;
            let length = length.min(data::length(from).map_err(error)?.saturating_sub(source_offset));
            let span = Span { length, ..span };
            let growth = Growth::Write { offset, length };
            let copied = self.file.volume.account(self.file.identity, to, growth, || data::copy(from, to, span));
            match copied {
                Err(Error::Unsupported) => {}
                answer => return answer,
            }
        }
        drop(turn);
        through_memory(self, source, span, same)
    }

    fn clone_from(&self, source: &dyn Node, source_offset: u64, offset: u64, length: u64) -> Result<u64, Error> {
        let _turn = self.file.begin("clone_from")?;
        if !self.file.volume.shares_extents {
            return Err(Error::Unsupported);
        }
        let (from, to) = (source.descriptor().ok_or(Error::Unsupported)?, self.file.writable()?);
        let span = Span { source_offset, offset, length };
        let growth = Growth::Write { offset, length };
        self.file.volume.account(self.file.identity, to, growth, || clones::share(from, to, span))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.data().ok()
    }

    fn place(&self) -> Option<PathBuf> {
        self.file.volume.place_of(self.file.fd()).map(|place| PathBuf::from(OsString::from_vec(place)))
    }

    fn target(&self) -> Result<Option<String>, Error> {
        replace::target(&self.file)
    }

    fn above(&self) -> Result<Option<Arc<dyn Node>>, Error> {
        match (waiting::is_allowed(), self.file.waits) {
            (true, _) => resolve::above(&self.file, Wait::May),
            (false, Waits::Never) => resolve::above(&self.file, Wait::OnRoot),
            (false, Waits::ForData | Waits::Always) => Err(Error::WouldBlock),
        }
    }

    fn keeping(&self) -> Keeping<'_> {
        self.file.keeping()
    }

    fn again(&self, usage: Use) -> Result<Arc<dyn Node>, Error> {
        self.file.may_wait("again");
        let again = self.file.opened_again()?;
        again.prepare(usage)?;
        Ok(FileNode::open(again))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn renew(&self, new: &Renewal<'_>) -> Result<(), Failed> {
        if self.file.is_link {
            return Err(Failed::untouched(Error::Invalid));
        }
        renew::renew(&self.file, new)
    }

    fn link(&self, to: Destination<'_>, replace: Replace) -> Result<(), Error> {
        waiting::may_wait("link");
        let _turn = self.file.begin_names(self.file.identity, replaced(replace));
        rename::link(&self.file, (of_store(to.directory)?, to.name), replace)
    }

    fn extras(&self) -> &dyn Extras {
        &self.file
    }

    fn names(&self) -> Result<&dyn Names, Error> {
        match self.file.kind {
            Kind::Directory => Ok(self),
            Kind::File | Kind::Stream => Err(Error::NotDirectory),
        }
    }
}

impl Names for FileNode {
    fn list(&self, cursor: &mut Cursor, take: Take<'_>) -> Result<bool, Error> {
        waiting::may_wait("list");
        entries::list(&self.file, cursor, take)
    }

    fn is_empty(&self) -> Result<bool, Error> {
        waiting::may_wait("is_empty");
        entries::is_empty(&self.file)
    }

    fn entry_metadata(&self, name: &Name) -> Result<Metadata, Error> {
        waiting::may_wait("entry_metadata");
        entries::metadata(&self.file, name)
    }

    fn entry_metadata_after(&self, name: &Name, before: &mut dyn FnMut(Seen<'_>)) -> Result<Metadata, Error> {
        waiting::may_wait("entry_metadata_after");
        entries::metadata_after(&self.file, name, before)
    }

    fn child(&self, name: &Name, usage: Use) -> Result<Option<NamedNode>, Error> {
        waiting::may_wait("child");
        resolve::child(&self.file, name, usage)
    }

    fn has(&self, name: &Name, file: Identity) -> Result<bool, Error> {
        waiting::may_wait("has");
        resolve::has(&self.file, name, file)
    }

    fn try_child(&self, name: &Name, usage: Use) -> Result<Option<NamedNode>, Error> {
        match self.file.waits {
            Waits::Never => resolve::try_child(&self.file, name, usage),
            Waits::ForData | Waits::Always => Err(Error::WouldBlock),
        }
    }

    fn create(&self, name: &Name, new: NewNode<'_>) -> Result<Arc<dyn Node>, Error> {
        waiting::may_wait("create");
        create::create(&self.file, name, new, Wait::May)
    }

    fn try_create(&self, name: &Name, new: NewNode<'_>) -> Result<Arc<dyn Node>, Error> {
        match self.file.waits {
            Waits::Never => create::create(&self.file, name, new, Wait::OnRoot),
            Waits::ForData | Waits::Always => Err(Error::WouldBlock),
        }
    }

    fn replace_with(&self, name: &Name, expected: Identity, new: Replacement<'_>) -> Result<Arc<dyn Node>, Error> {
        waiting::may_wait("replace_with");
        let _turn = self.file.begin_names(expected, None);
        replace::replace_with(&self.file, name, expected, new)
    }

    fn rename(&self, name: &Name, expected: Identity, to: Destination<'_>, replace: Replace) -> Result<(), Error> {
        waiting::may_wait("rename");
        let _turn = self.file.begin_names(expected, replaced(replace));
        rename::rename((&self.file, name), (of_store(to.directory)?, to.name), expected, replace)
    }

    fn remove(&self, name: &Name, expected: Identity) -> Result<(), Error> {
        waiting::may_wait("remove");
        let _turn = self.file.begin_names(expected, None);
        remove::remove(&self.file, name, expected)
    }
}
