//! An open file, directory or stream behind a distance.

use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Distance;
use crate::{
    ChangeExtended, ChangeSecurity, Changes, ChooseOffset, Cursor, Destination, Error, ExtendedAttribute, Extents,
    Extras, Failed, Identity, Keeping, Kind, Metadata, Name, NamedNode, Names, NewNode, Node, Renewal, Replace,
    Replacement, Seen, Take, TakeStream, Time, Use, Waits, waiting,
};

/// A node of the store behind the distance.
pub(super) struct DelayedNode {
    node: Arc<dyn Node>,
    /// What it was opened for, of all that was asked of it.
    usage: Mutex<Use>,
    distance: Distance,
}

impl DelayedNode {
    pub(super) fn open(node: Arc<dyn Node>, usage: Use, distance: &Distance) -> Arc<dyn Node> {
        Arc::new(DelayedNode { node, usage: Mutex::new(usage), distance: distance.clone() })
    }

    /// One that was opened from this one.
    fn another(&self, node: Arc<dyn Node>, usage: Use) -> Arc<dyn Node> {
        DelayedNode::open(node, usage, &self.distance)
    }

    /// The node, after the time that it takes to have something asked of it.
    fn far(&self, call: &str) -> &dyn Node {
        self.distance.wait(call);
        &*self.node
    }

    fn far_extras(&self, call: &str) -> &dyn Extras {
        self.far(call).extras()
    }

    fn far_names(&self, call: &str) -> Result<&dyn Names, Error> {
        self.far(call).names()
    }
}

/// What others do to a store that is far away is not told.
fn from_afar(keeping: Keeping<'_>) -> Keeping<'_> {
    match keeping {
        Keeping::Nothing => Keeping::Nothing,
        Keeping::Watched(_) | Keeping::Untold => Keeping::Untold,
    }
}

/// What the store behind the distance knows a node as: its own, of which it takes copies and names together.
fn own(node: &dyn Node) -> &dyn Node {
    node.as_any().downcast_ref::<DelayedNode>().map_or(node, |delayed| &*delayed.node)
}

fn own_destination<'a>(to: Destination<'a>) -> Destination<'a> {
    Destination { directory: own(to.directory), name: to.name }
}

impl Node for DelayedNode {
    fn kind(&self) -> Kind {
        self.node.kind()
    }

    fn identity(&self) -> Identity {
        self.node.identity()
    }

    fn birth(&self) -> Option<Time> {
        self.node.birth()
    }

    fn waits(&self) -> Waits {
        Waits::Always
    }

    fn metadata(&self) -> Result<Metadata, Error> {
        self.far("metadata").metadata()
    }

    fn metadata_as_resolved(&self) -> Result<Metadata, Error> {
        self.node.metadata_as_resolved()
    }

    fn try_metadata(&self) -> Result<Metadata, Error> {
        Err(Error::WouldBlock)
    }

    fn change(&self, changes: &Changes) -> Result<(), Error> {
        self.far("change").change(changes)
    }

    fn prepare(&self, usage: Use) -> Result<(), Error> {
        if *self.usage.lock() >= usage {
            return Ok(());
        }
        self.far("prepare").prepare(usage)?;
        let mut known = self.usage.lock();
        *known = usage.max(*known);
        Ok(())
    }

    fn try_prepare(&self, usage: Use) -> Result<(), Error> {
        if *self.usage.lock() >= usage { Ok(()) } else { Err(Error::WouldBlock) }
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        self.far("read_at").read_at(buffer, offset)
    }

    fn try_read_at(&self, _buffer: &mut [u8], _offset: u64) -> Result<usize, Error> {
        Err(Error::WouldBlock)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> Result<(), Error> {
        self.far("write_at").write_at(data, offset)
    }

    fn append(&self, data: &[u8], place: ChooseOffset<'_>) -> Result<u64, Error> {
        self.far("append").append(data, place)
    }

    fn sync(&self) -> Result<(), Error> {
        self.far("sync").sync()
    }

    fn set_length(&self, length: u64) -> Result<(), Error> {
        self.far("set_length").set_length(length)
    }

    fn set_allocation(&self, bytes: u64) -> Result<(), Error> {
        self.far("set_allocation").set_allocation(bytes)
    }

    fn reserve(&self, length: u64) -> Result<(), Error> {
        self.far("reserve").reserve(length)
    }

    fn zero(&self, offset: u64, length: u64, punch: bool) -> Result<(), Error> {
        self.far("zero").zero(offset, length, punch)
    }

    fn extents(&self, offset: u64, length: u64, count_max: usize) -> Result<Extents, Error> {
        self.far("extents").extents(offset, length, count_max)
    }

    fn copy_from(&self, source: &dyn Node, source_offset: u64, offset: u64, length: u64) -> Result<u64, Error> {
        self.far("copy_from").copy_from(own(source), source_offset, offset, length)
    }

    fn clone_from(&self, source: &dyn Node, source_offset: u64, offset: u64, length: u64) -> Result<u64, Error> {
        self.far("clone_from").clone_from(own(source), source_offset, offset, length)
    }

    fn place(&self) -> Option<PathBuf> {
        self.node.place()
    }

    fn target(&self) -> Result<Option<String>, Error> {
        if !waiting::is_allowed() {
            return Err(Error::WouldBlock);
        }
        self.far("target").target()
    }

    fn above(&self) -> Result<Option<Arc<dyn Node>>, Error> {
        // Known here, but what it leads to must not be asked anything by who must not wait.
        if !waiting::is_allowed() && self.kind() == Kind::Directory {
            return Err(Error::WouldBlock);
        }
        Ok(self.node.above()?.map(|above| self.another(above, Use::Metadata)))
    }

    fn keeping(&self) -> Keeping<'_> {
        from_afar(self.node.keeping())
    }

    fn again(&self, usage: Use) -> Result<Arc<dyn Node>, Error> {
        Ok(self.another(self.far("again").again(usage)?, usage))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn renew(&self, new: &Renewal<'_>) -> Result<(), Failed> {
        self.far("renew").renew(new)
    }

    fn link(&self, to: Destination<'_>, replace: Replace) -> Result<(), Error> {
        self.far("link").link(own_destination(to), replace)
    }

    fn extras(&self) -> &dyn Extras {
        self
    }

    fn names(&self) -> Result<&dyn Names, Error> {
        self.node.names()?;
        Ok(self)
    }
}

impl Extras for DelayedNode {
    fn security(&self) -> Result<Option<Vec<u8>>, Error> {
        self.far_extras("security").security()
    }

    fn security_within(&self, bytes_max: usize) -> Result<Option<Vec<u8>>, Error> {
        self.far_extras("security").security_within(bytes_max)
    }

    fn change_security(&self, change: ChangeSecurity<'_>) -> Result<(), Error> {
        self.far_extras("change_security").change_security(change)
    }

    fn extended(&self) -> Result<Vec<ExtendedAttribute>, Error> {
        self.far_extras("extended").extended()
    }

    fn set_extended(&self, name: &str, value: &[u8]) -> Result<(), Error> {
        self.far_extras("set_extended").set_extended(name, value)
    }

    fn change_extended(&self, change: ChangeExtended<'_>) -> Result<(), Failed> {
        self.far_extras("change_extended").change_extended(change)
    }

    fn list_streams(&self, take: TakeStream<'_>) -> Result<(), Error> {
        self.far_extras("list_streams").list_streams(take)
    }

    fn stream(&self, name: &str) -> Result<Option<NamedNode>, Error> {
        let found = self.far_extras("stream").stream(name)?;
        Ok(found.map(|(name, stream)| (name, self.another(stream, Use::Metadata))))
    }

    fn create_stream(&self, name: &str) -> Result<Arc<dyn Node>, Error> {
        Ok(self.another(self.far_extras("create_stream").create_stream(name)?, Use::ReadWrite))
    }

    fn rename_stream(&self, from: &str, to: &str, replace: Replace) -> Result<(), Error> {
        self.far_extras("rename_stream").rename_stream(from, to, replace)
    }

    fn remove_stream(&self, name: &str) -> Result<(), Error> {
        self.far_extras("remove_stream").remove_stream(name)
    }
}

impl Names for DelayedNode {
    fn list(&self, cursor: &mut Cursor, take: Take<'_>) -> Result<bool, Error> {
        self.far_names("list")?.list(cursor, take)
    }

    fn is_empty(&self) -> Result<bool, Error> {
        self.far_names("is_empty")?.is_empty()
    }

    fn entry_metadata(&self, name: &Name) -> Result<Metadata, Error> {
        self.far_names("entry_metadata")?.entry_metadata(name)
    }

    fn entry_metadata_after(&self, name: &Name, before: &mut dyn FnMut(Seen<'_>)) -> Result<Metadata, Error> {
        let names = self.far_names("entry_metadata_after")?;
        names.entry_metadata_after(name, &mut |seen| before(Seen { keeping: from_afar(seen.keeping), ..seen }))
    }

    fn child(&self, name: &Name, usage: Use) -> Result<Option<NamedNode>, Error> {
        let found = self.far_names("child")?.child(name, usage)?;
        Ok(found.map(|(name, child)| (name, self.another(child, usage))))
    }

    fn has(&self, name: &Name, file: Identity) -> Result<bool, Error> {
        self.far_names("has")?.has(name, file)
    }

    fn try_child(&self, _name: &Name, _usage: Use) -> Result<Option<NamedNode>, Error> {
        Err(Error::WouldBlock)
    }

    fn create(&self, name: &Name, new: NewNode<'_>) -> Result<Arc<dyn Node>, Error> {
        Ok(self.another(self.far_names("create")?.create(name, new)?, Use::ReadWrite))
    }

    fn replace_with(&self, name: &Name, expected: Identity, new: Replacement<'_>) -> Result<Arc<dyn Node>, Error> {
        Ok(self.another(self.far_names("replace_with")?.replace_with(name, expected, new)?, Use::Metadata))
    }

    fn rename(&self, name: &Name, expected: Identity, to: Destination<'_>, replace: Replace) -> Result<(), Error> {
        self.far_names("rename")?.rename(name, expected, own_destination(to), replace)
    }

    fn remove(&self, name: &Name, expected: Identity) -> Result<(), Error> {
        self.far_names("remove")?.remove(name, expected)
    }
}
