//! An open file, directory or stream of a RAM disk.

use std::any::Any;
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::{RwLock, RwLockWriteGuard};

use crate::ram::inode::Inode;
use crate::ram::pages::Pages;
use crate::ram::{ROOT_FILE, names};
use crate::{
    Changes, ChooseOffset, Cursor, Destination, Entry, Error, Extents, Extras, Failed, Identity, Keeping, Kind,
    Metadata, Name, NamedNode, Names, NewNode, Node, Renewal, Replace, Replacement, Seen, Take, Use, Waits, copy,
    effort, fold, waiting,
};

/// The most names that are shown in one go.
pub(super) const PIECE_NAMES: usize = 1_024;

/// What a call shares of another file in one go.
const CLONE_BYTES_MAX: u64 = 4 << 20;

/// What begins at a place of a file, and its bytes.
enum Span {
    Data(u64),
    Hole(u64),
}

/// What begins at `offset`, of at most `length` bytes.
fn span_at(node: &dyn Node, offset: u64, length: u64) -> Result<Span, Error> {
    let found = node.extents(offset, length, 1)?;
    Ok(match found.ranges.first() {
        Some(data) if data.offset == offset => Span::Data(data.length),
        Some(data) => Span::Hole(data.offset - offset),
        None => Span::Hole(found.next.map_or(length, |next| next - offset)),
    })
}

/// A node; it keeps the file alive, whatever becomes of its names.
pub(super) struct RamNode {
    inode: Arc<Inode>,
    data: Arc<RwLock<Pages>>,
    kind: Kind,
}

impl RamNode {
    pub(super) fn open(inode: &Arc<Inode>) -> Arc<dyn Node> {
        Arc::new(RamNode { inode: Arc::clone(inode), data: Arc::clone(&inode.data), kind: inode.kind })
    }

    /// A stream of `inode`.
    pub(super) fn open_stream(inode: &Arc<Inode>, data: &Arc<RwLock<Pages>>) -> Arc<dyn Node> {
        Arc::new(RamNode { inode: Arc::clone(inode), data: Arc::clone(data), kind: Kind::Stream })
    }

    /// The next names in order, each with its folded form.
    fn piece(&self, cursor: &Cursor) -> Vec<(Box<str>, Entry)> {
        let names = self.inode.names.read();
        let from = cursor.after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let left = names.children.range::<str, _>((from, Bound::Unbounded));
        let entry = |child: &super::inode::Child| Entry { name: child.name.clone(), file: child.inode.identity.file };
        left.take(PIECE_NAMES).map(|(folded, child)| (folded.clone(), entry(child))).collect()
    }

    /// The data, where there is any.
    fn data(&self) -> Result<&RwLock<Pages>, Error> {
        match self.kind {
            Kind::Directory => Err(Error::IsDirectory),
            Kind::File if self.inode.target.is_some() => Err(Error::Denied),
            Kind::File | Kind::Stream => Ok(&self.data),
        }
    }
}

impl Node for RamNode {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn identity(&self) -> Identity {
        self.inode.identity
    }

    fn waits(&self) -> Waits {
        self.inode.waits
    }

    fn metadata(&self) -> Result<Metadata, Error> {
        self.inode.may_wait_to_look("metadata");
        let data = self.data.read();
        Ok(self.inode.metadata(self.kind, data.length(), data.allocated()))
    }

    fn try_metadata(&self) -> Result<Metadata, Error> {
        if self.inode.waits == Waits::Always { Err(Error::WouldBlock) } else { self.metadata() }
    }

    fn change(&self, changes: &Changes) -> Result<(), Error> {
        self.inode.may_wait("change");
        self.inode.change(changes);
        Ok(())
    }

    fn prepare(&self, _usage: Use) -> Result<(), Error> {
        self.inode.may_wait("prepare");
        Ok(())
    }

    fn try_prepare(&self, _usage: Use) -> Result<(), Error> {
        if self.inode.waits == Waits::Never { Ok(()) } else { Err(Error::WouldBlock) }
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        self.inode.may_wait("read_at");
        if self.inode.target.is_some() {
            return Ok(0);
        }
        Ok(self.data()?.read().read(buffer, offset))
    }

    fn try_read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        match self.inode.waits {
            // Of a disk it is all in memory.
            Waits::Never | Waits::ForData if self.inode.target.is_some() => Ok(0),
            Waits::Never | Waits::ForData => Ok(self.data()?.read().read(buffer, offset)),
            Waits::Always => Err(Error::WouldBlock),
        }
    }

    fn write_at(&self, data: &[u8], offset: u64) -> Result<(), Error> {
        self.inode.may_wait("write_at");
        self.data()?.write().write(data, offset)?;
        self.inode.written();
        Ok(())
    }

    fn append(&self, data: &[u8], place: ChooseOffset<'_>) -> Result<u64, Error> {
        self.inode.may_wait("append");
        let mut pages = self.data()?.write();
        let offset = place(pages.length())?;
        pages.write(data, offset)?;
        self.inode.written();
        Ok(offset + data.len() as u64)
    }

    fn sync(&self) -> Result<(), Error> {
        self.inode.may_wait("sync");
        self.inode.disk.synced.get().map_or(Ok(()), |synced| synced(self.inode.identity))
    }

    fn set_length(&self, length: u64) -> Result<(), Error> {
        self.inode.may_wait("set_length");
        // What is cut off is freed once the lock is let go of.
        let gone = self.data()?.write().set_length(length)?;
        drop(gone);
        self.inode.written();
        Ok(())
    }

    fn set_allocation(&self, bytes: u64) -> Result<(), Error> {
        self.inode.may_wait("set_allocation");
        let mut pages = self.data()?.write();
        if bytes >= pages.length() {
            return pages.set_allocation(bytes);
        }
        let gone = pages.set_length(bytes)?;
        drop(pages);
        drop(gone);
        self.inode.written();
        Ok(())
    }

    fn reserve(&self, length: u64) -> Result<(), Error> {
        self.inode.may_wait("reserve");
        self.data()?.write().reserve(length)
    }

    fn zero(&self, offset: u64, length: u64, punch: bool) -> Result<(), Error> {
        self.inode.may_wait("zero");
        let data = self.data()?;
        let mut left = offset..offset.saturating_add(length);
        while !left.is_empty() {
            // Others have the lock between two parts, those first who wait for it.
            let mut pages = data.write();
            let gone = pages.zero(&mut left, punch);
            RwLockWriteGuard::unlock_fair(pages);
            drop(gone);
        }
        self.inode.written();
        Ok(())
    }

    fn extents(&self, offset: u64, length: u64, count_max: usize) -> Result<Extents, Error> {
        self.inode.may_wait("extents");
        Ok(self.data()?.read().extents(offset, length, count_max))
    }

    fn copy_from(&self, source: &dyn Node, source_offset: u64, offset: u64, length: u64) -> Result<u64, Error> {
        self.inode.may_wait("copy_from");
        self.data()?;
        let same = source.as_any().downcast_ref::<RamNode>().is_some_and(|node| Arc::ptr_eq(&node.data, &self.data));
        copy::through_memory(self, source, copy::Span { source_offset, offset, length }, same)
    }

    fn clone_from(&self, source: &dyn Node, source_offset: u64, offset: u64, length: u64) -> Result<u64, Error> {
        self.inode.may_wait("clone_from");
        let end = source_offset.checked_add(length).ok_or(Error::Invalid)?;
        if source.metadata()?.length < end {
            return Err(Error::Invalid);
        }
        let here = match span_at(source, source_offset, length)? {
            // Nothing is copied where it was cut in the meantime.
            Span::Data(bytes) => match self.copy_from(source, source_offset, offset, bytes.min(CLONE_BYTES_MAX))? {
                0 => return Err(Error::Invalid),
                done => return Ok(done),
            },
            Span::Hole(bytes) => span_at(self, offset, bytes)?,
        };
        match here {
            Span::Hole(bytes) => {
                self.inode.written();
                Ok(bytes)
            }
            Span::Data(bytes) => {
                let done = bytes.min(CLONE_BYTES_MAX);
                self.zero(offset, done, true)?;
                Ok(done)
            }
        }
    }

    fn target(&self) -> Result<Option<String>, Error> {
        if self.inode.target.is_some() && self.inode.waits != Waits::Never && !waiting::is_allowed() {
            return Err(Error::WouldBlock);
        }
        Ok(self.inode.target.as_deref().filter(|_| self.kind == Kind::File).map(str::to_owned))
    }

    fn above(&self) -> Result<Option<Arc<dyn Node>>, Error> {
        if self.kind != Kind::Directory {
            return Err(Error::NotDirectory);
        }
        effort::note(1);
        if self.inode.identity.file == ROOT_FILE {
            return Ok(None);
        }
        let names = self.inode.names.read();
        let above = names.above.upgrade().filter(|_| !names.removed).ok_or(Error::Gone)?;
        drop(names);
        if !waiting::is_allowed() && (self.inode.waits, above.waits) != (Waits::Never, Waits::Never) {
            return Err(Error::WouldBlock);
        }
        Ok(Some(RamNode::open(&above)))
    }

    fn keeping(&self) -> Keeping<'_> {
        // Nobody else changes it.
        Keeping::Untold
    }

    fn again(&self, _usage: Use) -> Result<Arc<dyn Node>, Error> {
        Ok(Arc::new(RamNode { inode: Arc::clone(&self.inode), data: Arc::clone(&self.data), kind: self.kind }))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn renew(&self, new: &Renewal<'_>) -> Result<(), Failed> {
        self.inode.may_wait("renew");
        if self.kind != Kind::File || self.inode.target.is_some() {
            return Err(Failed::untouched(Error::Invalid));
        }
        let mut extras = self.inode.extras.write();
        let mut pages = self.data.write();
        let reserved = pages.reserved();
        pages.reserve(new.reserved).map_err(Failed::untouched)?;
        if let Err(error) = extras.replace_extended(new.extended) {
            pages.set_reserved(reserved);
            return Err(Failed::untouched(error));
        }
        // What goes is freed once the locks are let go of.
        let streams = std::mem::take(&mut extras.streams);
        let data = pages.empty(new.reserved);
        self.inode.change(&Changes { attributes: new.attributes, ..Changes::default() });
        self.inode.written();
        drop((pages, extras));
        drop((streams, data));
        Ok(())
    }

    fn link(&self, to: Destination<'_>, replace: Replace) -> Result<(), Error> {
        self.inode.may_wait("link");
        names::link(&self.inode, (of_store(to.directory)?, to.name), replace)
    }

    fn extras(&self) -> &dyn Extras {
        &self.inode
    }

    fn names(&self) -> Result<&dyn Names, Error> {
        match self.kind {
            Kind::Directory => Ok(self),
            Kind::File | Kind::Stream => Err(Error::NotDirectory),
        }
    }
}

impl Names for RamNode {
    fn list(&self, cursor: &mut Cursor, take: Take<'_>) -> Result<bool, Error> {
        self.inode.may_wait("list");
        // Whoever takes a name may ask for more of it, which locks the names once more.
        let piece = self.piece(cursor);
        let more = piece.len() == PIECE_NAMES;
        for (folded, entry) in piece {
            if take(entry).is_break() {
                return Ok(true);
            }
            cursor.after = Some(folded);
        }
        Ok(more)
    }

    fn is_empty(&self) -> Result<bool, Error> {
        self.inode.may_wait("is_empty");
        Ok(self.inode.names.read().children.is_empty())
    }

    fn entry_metadata(&self, name: &Name) -> Result<Metadata, Error> {
        self.entry_metadata_after(name, &mut |_| {})
    }

    fn entry_metadata_after(&self, name: &Name, before: &mut dyn FnMut(Seen<'_>)) -> Result<Metadata, Error> {
        self.inode.may_wait("entry_metadata");
        let (_, inode) = self.inode.child(&fold(name.as_str()))?.ok_or(Error::NotFound)?;
        before(Seen { identity: inode.identity, kind: inode.kind, birth: None, keeping: Keeping::Untold });
        let data = inode.data.read();
        Ok(inode.metadata(inode.kind, data.length(), data.allocated()))
    }

    fn child(&self, name: &Name, _usage: Use) -> Result<Option<NamedNode>, Error> {
        self.inode.may_wait("child");
        let found = self.inode.child(&fold(name.as_str()))?;
        Ok(found.map(|(name, inode)| (name.as_str().to_owned(), RamNode::open(&inode))))
    }

    fn try_child(&self, name: &Name, _usage: Use) -> Result<Option<NamedNode>, Error> {
        let found = self.inode.child(&fold(name.as_str()))?;
        let waits = found.as_ref().map_or(self.inode.waits, |(_, inode)| inode.waits);
        if waits == Waits::Always || waits > self.inode.waits {
            return Err(Error::WouldBlock);
        }
        Ok(found.map(|(name, inode)| (name.as_str().to_owned(), RamNode::open(&inode))))
    }

    fn create(&self, name: &Name, new: NewNode<'_>) -> Result<Arc<dyn Node>, Error> {
        self.inode.may_wait("create");
        names::create(&self.inode, name, new, self.inode.waits).map(|inode| RamNode::open(&inode))
    }

    fn replace_with(&self, name: &Name, expected: Identity, new: Replacement<'_>) -> Result<Arc<dyn Node>, Error> {
        self.inode.may_wait("replace_with");
        names::replace_with(&self.inode, name, expected, new).map(|inode| RamNode::open(&inode))
    }

    fn rename(&self, name: &Name, expected: Identity, to: Destination<'_>, replace: Replace) -> Result<(), Error> {
        self.inode.may_wait("rename");
        names::rename((&self.inode, name), (of_store(to.directory)?, to.name), expected, replace)
    }

    fn remove(&self, name: &Name, expected: Identity) -> Result<(), Error> {
        self.inode.may_wait("remove");
        names::remove(&self.inode, name, expected)
    }
}

/// What a node of another store is not.
fn of_store(node: &dyn Node) -> Result<&Arc<Inode>, Error> {
    node.as_any().downcast_ref::<RamNode>().map(|node| &node.inode).ok_or(Error::CrossVolume)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RamStore, SharePath, Store};

    #[test]
    fn streams_are_listed_in_pieces_to_the_last() {
        let new = NewNode { kind: Kind::File, attributes: 0, security: None, owner: None };
        let node = RamStore::new(1 << 20).create(&SharePath::parse("file").unwrap(), new).unwrap();
        for count in [0, PIECE_NAMES, PIECE_NAMES + 1, 2 * PIECE_NAMES + 500] {
            for number in node.extras().streams().unwrap().len()..count {
                node.extras().create_stream(&format!("S{number:05}")).unwrap();
            }
            let names: Vec<_> = node.extras().streams().unwrap().into_iter().map(|stream| stream.name).collect();
            assert_eq!(names, (0..count).map(|number| format!("S{number:05}")).collect::<Vec<_>>());
        }
    }
}
