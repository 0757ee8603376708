//! An open file, directory or stream of which what is known is kept.

use std::any::Any;
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use rustix::fd::BorrowedFd;

use super::Shared;
use super::changing::Part;
use super::entry::{Dated, Entry, Facts};
use super::listed::Listing;
use crate::{
    Changes, ChooseOffset, Destination, Error, Extents, Extras, Failed, Held, Identity, Keeping, Kind, Metadata, Names,
    Node, Renewal, Replace, Time, Use, Waits, waiting,
};

/// What is open of something that is known.
pub(super) struct Opened {
    pub(super) node: Arc<dyn Node>,
    /// It is kept for others, too.
    pub(super) is_shared: bool,
}

/// A node of the store behind the cache.
pub(super) struct CachedNode {
    pub(super) shared: Arc<Shared>,
    node: Arc<dyn Node>,
    /// Others have the same node, and it is to be used for no more than reading.
    pub(super) is_shared: bool,
    /// The file opened once more, for what the shared node is not to be used for.
    for_write: OnceLock<Arc<dyn Node>>,
    /// What is known of the file, or of that whose stream it is.
    entry: Option<Arc<Entry>>,
    pub(super) dotted: bool,
    /// Its data was changed through this node.
    has_written: AtomicBool,
    /// Of a directory.
    pub(super) listing: Listing,
}

impl CachedNode {
    fn open(
        shared: &Arc<Shared>,
        node: Arc<dyn Node>,
        is_shared: bool,
        (entry, dotted): (Option<Arc<Entry>>, bool),
    ) -> Arc<dyn Node> {
        Arc::new(CachedNode {
            shared: Arc::clone(shared),
            node,
            is_shared,
            for_write: OnceLock::new(),
            entry,
            dotted,
            has_written: AtomicBool::new(false),
            listing: Listing::default(),
        })
    }

    /// One that the store has opened.
    pub(super) fn found(shared: &Arc<Shared>, node: Arc<dyn Node>, dotted: bool) -> Arc<dyn Node> {
        let entry = shared.entry(&*node);
        CachedNode::open(shared, node, false, (entry, dotted))
    }

    /// One of what is known.
    pub(super) fn opened(shared: &Arc<Shared>, opened: Opened, (entry, dotted): (Arc<Entry>, bool)) -> Arc<dyn Node> {
        CachedNode::open(shared, opened.node, opened.is_shared, (Some(entry), dotted))
    }

    /// A stream of this file.
    pub(super) fn stream_of(&self, stream: Arc<dyn Node>) -> Arc<dyn Node> {
        CachedNode::open(&self.shared, stream, false, (self.entry.clone(), self.dotted))
    }

    /// The node of the store that can do most.
    pub(super) fn own(&self) -> &Arc<dyn Node> {
        self.for_write.get().unwrap_or(&self.node)
    }

    /// The same to list with, whose position is not that of others.
    pub(super) fn to_list(&self) -> Result<Arc<dyn Node>, Error> {
        if !self.is_shared {
            return Ok(Arc::clone(&self.node));
        }
        match self.shared.with_room(|| self.node.again(Use::Read)) {
            // It may be read no more, and was when it was opened.
            Err(Error::Denied) => Ok(Arc::clone(&self.node)),
            again => again,
        }
    }

    /// What is known of the file, where it may be believed: all news have been heard.
    pub(super) fn believed(&self) -> Option<&Arc<Entry>> {
        let entry = self.entry.as_ref().filter(|entry| self.shared.is_on() && self.shared.known.is_alive(entry))?;
        self.shared.known.hear(self.shared.home);
        Some(entry).filter(|entry| self.shared.known.is_alive(entry))
    }

    /// [`Error::WouldBlock`] for who must not wait where the store would have to be asked for that.
    pub(super) fn check_may_ask(&self) -> Result<(), Error> {
        if waiting::is_allowed() || self.own().answers_at_once() { Ok(()) } else { Err(Error::WouldBlock) }
    }

    /// Asks something of the file, and notes it where nothing has changed meanwhile.
    pub(super) fn learn<T>(
        &self,
        entry: &Entry,
        ask: impl FnOnce() -> Result<T, Error>,
        note: impl FnOnce(&mut Facts, &T, Instant),
    ) -> Result<T, Error> {
        let known = &self.shared.known;
        let (asked, at) = (known.stripes.ask(known.slot(entry.identity)), Instant::now());
        let told = ask()?;
        if let Some(asked) = asked {
            // Every change is noted before this is locked.
            let mut facts = entry.facts.lock();
            if known.is_alive(entry) && known.stripes.holds(asked) {
                note(&mut facts, &told, at);
            }
        }
        Ok(told)
    }

    fn metadata_by(&self, ask: impl FnOnce(&dyn Node) -> Result<Metadata, Error>) -> Result<Metadata, Error> {
        let (known, node) = (&self.shared.known, &**self.own());
        let believed = self.believed().filter(|_| self.kind() != Kind::Stream);
        let Some(entry) = believed else {
            self.check_may_ask()?;
            return ask(node);
        };
        if let Some(metadata) = entry.metadata(self.dotted, self.shared.belief()) {
            return Ok(metadata);
        }
        self.check_may_ask()?;
        let may_be_known = Cell::new(false);
        self.learn(
            entry,
            || {
                // After the count of its changes was looked at: who begins to write it has the kernel tell of its data no more.
                may_be_known.set(known.may_know_metadata(entry, node.keeping()));
                if may_be_known.get() { node.metadata() } else { ask(node) }
            },
            |facts, metadata, at| {
                // Who begins to write after this finds it and forgets it.
                if may_be_known.get() && !known.is_written(entry.identity) {
                    facts.metadata = Some(Dated::new((*metadata, self.dotted), at));
                }
            },
        )
    }

    /// True where the node is not to be used so because others have it, too.
    fn writes_apart(&self, usage: Use) -> bool {
        self.is_shared && usage == Use::ReadWrite && self.kind() != Kind::Directory
    }

    /// Notes that the data is changed through this node.
    fn writes(&self) -> &dyn Node {
        if !self.has_written.load(Ordering::Relaxed) && !self.has_written.swap(true, Ordering::SeqCst) {
            self.shared.known.begin_writing(self.identity(), &**self.own());
        }
        &**self.own()
    }

    /// Changes something about the file.
    pub(super) fn changes<T>(&self, part: Part, change: impl FnOnce(&dyn Node) -> T) -> T {
        let _changing = self.shared.known.changing(self.shared.home).file(self.identity(), part);
        change(&**self.own())
    }
}

impl Drop for CachedNode {
    fn drop(&mut self) {
        if *self.has_written.get_mut() {
            self.shared.known.end_writing(self.node.identity());
        }
    }
}

/// What the store behind the cache knows a node as.
pub(super) fn own(node: &dyn Node) -> &dyn Node {
    node.as_any().downcast_ref::<CachedNode>().map_or(node, |cached| &**cached.own())
}

pub(super) fn own_destination<'a>(to: Destination<'a>) -> Destination<'a> {
    Destination { directory: own(to.directory), name: to.name }
}

/// The file that loses its name to another, where that is known.
pub(super) fn replaced(to: Destination<'_>, replace: Replace) -> Option<Identity> {
    match replace {
        Replace::No => None,
        Replace::Only(file) => Some(file),
        Replace::Yes => {
            let found = own(to.directory).names().ok()?.child(to.name, Use::Metadata).ok()??;
            Some(found.1.identity())
        }
    }
}

impl Node for CachedNode {
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
        self.node.waits()
    }

    fn try_hold(&self) -> Option<Held> {
        self.own().try_hold()
    }

    fn metadata(&self) -> Result<Metadata, Error> {
        self.metadata_by(|node| node.metadata())
    }

    fn metadata_as_resolved(&self) -> Result<Metadata, Error> {
        // A node that is shared was opened by somebody else, some time ago.
        let is_shared = self.is_shared;
        self.metadata_by(|node| if is_shared { node.metadata() } else { node.metadata_as_resolved() })
    }

    fn try_metadata(&self) -> Result<Metadata, Error> {
        self.metadata_by(|node| node.try_metadata())
    }

    fn change(&self, changes: &Changes) -> Result<(), Error> {
        self.changes(Part::Metadata, |node| node.change(changes))
    }

    fn prepare(&self, usage: Use) -> Result<(), Error> {
        if !self.writes_apart(usage) {
            return self.node.prepare(usage);
        }
        if self.for_write.get().is_none() {
            let again = self.shared.with_room(|| self.node.again(usage))?;
            let _ = self.for_write.set(again);
        }
        Ok(())
    }

    fn try_prepare(&self, usage: Use) -> Result<(), Error> {
        match (self.writes_apart(usage), self.for_write.get()) {
            (false, _) => self.node.try_prepare(usage),
            (true, Some(_)) => Ok(()),
            (true, None) if self.waits() == Waits::Never => self.prepare(usage),
            (true, None) => Err(Error::WouldBlock),
        }
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        self.own().read_at(buffer, offset)
    }

    fn try_read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        self.own().try_read_at(buffer, offset)
    }

    fn try_resident(&self, offset: u64, length: usize) -> Result<usize, Error> {
        self.own().try_resident(offset, length)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> Result<(), Error> {
        self.writes().write_at(data, offset)
    }

    fn append(&self, data: &[u8], place: ChooseOffset<'_>) -> Result<u64, Error> {
        self.writes().append(data, place)
    }

    fn sync(&self) -> Result<(), Error> {
        self.own().sync()
    }

    fn set_length(&self, length: u64) -> Result<(), Error> {
        self.writes().set_length(length)
    }

    fn set_allocation(&self, bytes: u64) -> Result<(), Error> {
        self.writes().set_allocation(bytes)
    }

    fn reserve(&self, length: u64) -> Result<(), Error> {
        self.writes().reserve(length)
    }

    fn zero(&self, offset: u64, length: u64, punch: bool) -> Result<(), Error> {
        self.writes().zero(offset, length, punch)
    }

    fn extents(&self, offset: u64, length: u64, count_max: usize) -> Result<Extents, Error> {
        self.own().extents(offset, length, count_max)
    }

    fn copy_from(&self, source: &dyn Node, source_offset: u64, offset: u64, length: u64) -> Result<u64, Error> {
        self.writes().copy_from(own(source), source_offset, offset, length)
    }

    fn clone_from(&self, source: &dyn Node, source_offset: u64, offset: u64, length: u64) -> Result<u64, Error> {
        self.writes().clone_from(own(source), source_offset, offset, length)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.own().descriptor()
    }

    fn place(&self) -> Option<PathBuf> {
        self.node.place()
    }

    fn target(&self) -> Result<Option<String>, Error> {
        self.node.target()
    }

    fn above(&self) -> Result<Option<Arc<dyn Node>>, Error> {
        // Of the root that is said without asking, and it may lie in another share.
        let entry = self.believed().filter(|entry| entry.identity != self.shared.store.root());
        let Some(entry) = entry else {
            let above = self.node.above()?;
            return Ok(above.map(|above| CachedNode::found(&self.shared, above, false)));
        };
        let known = entry.above(self.shared.belief()).filter(|above| self.shared.known.is_alive(above));
        if let Some(node) = known.and_then(|above| self.shared.node(&above, false, Use::Metadata)) {
            return Ok(Some(node));
        }
        let above = self.learn(
            entry,
            || self.node.above(),
            |facts, above, at| {
                let found = above.as_ref().and_then(|above| self.shared.entry(&**above));
                facts.above = found.map(|found| Dated::new(Arc::downgrade(&found), at));
            },
        )?;
        Ok(above.map(|above| CachedNode::found(&self.shared, above, false)))
    }

    fn keeping(&self) -> Keeping<'_> {
        self.node.keeping()
    }

    fn answers_at_once(&self) -> bool {
        self.believed().is_some() || self.node.answers_at_once()
    }

    fn again(&self, usage: Use) -> Result<Arc<dyn Node>, Error> {
        let again = self.node.again(usage)?;
        Ok(CachedNode::open(&self.shared, again, false, (self.entry.clone(), self.dotted)))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn renew(&self, new: &Renewal<'_>) -> Result<(), Failed> {
        self.writes();
        self.changes(Part::Everything, |node| node.renew(new))
    }

    fn link(&self, to: Destination<'_>, replace: Replace) -> Result<(), Error> {
        let known = &self.shared.known;
        let changing = known.changing(self.shared.home).file(self.identity(), Part::Metadata);
        let _changing = changing.name(to.directory.identity(), to.name.as_str()).gone(replaced(to, replace));
        self.own().link(own_destination(to), replace)
    }

    fn extras(&self) -> &dyn Extras {
        self
    }

    fn names(&self) -> Result<&dyn Names, Error> {
        self.node.names()?;
        Ok(self)
    }
}
