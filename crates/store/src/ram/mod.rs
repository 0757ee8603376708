//! A share that lives in memory and is gone with its store: for tests, scratch space and measurements.
//!
//! Every call answers at once. Reads share a file's lock, writes hold it alone. Names change one at a time
//! ([`names`]), lookups go on meanwhile. Everything is charged against the capacity by the memory that it takes:
//! data by the block, files, names, streams and attributes by what the structures and texts have. Reads do not move the time of last access.

mod extras;
mod inode;
mod ledger;
mod names;
mod node;
mod pages;
mod table;

use std::sync::Arc;

use rustix::rand::{GetRandomFlags, getrandom};

use crate::{
    Error, Facts, Identity, Kind, Name, NewNode, Resolved, SharePath, Space, Store, Use, Waits, effort, fold, waiting,
};
use inode::Inode;
use ledger::Ledger;
use names::Disk;
use node::RamNode;

pub use ledger::limit_ram_disks;

/// A RAM disk.
pub struct RamStore {
    disk: Arc<Disk>,
    root: Arc<Inode>,
    /// Something in it looks like a disk.
    has_disks: bool,
}

/// Bytes of memory that an allocation takes: the allocator of glibc puts eight in front of it, and gives sixteens.
const fn heap_bytes(bytes: usize) -> u64 {
    match bytes {
        0 => 0,
        1..=24 => 32,
        _ => (bytes as u64 + 8).next_multiple_of(16),
    }
}

/// Bytes of memory for each entry of a `BTreeMap` whose keys and values together have `bytes`, in a tree that is as empty as one can be:
/// nodes have room for eleven entries and hold five of them, and a tree of two tiers holds 35 in six leaves and one node above.
const fn entry_bytes(bytes: usize) -> u64 {
    let leaf = 11 * bytes + 16;
    (6 * heap_bytes(leaf) + heap_bytes(leaf + 12 * size_of::<usize>())).div_ceil(35)
}

/// Bytes that what is shared takes: the value stands behind two counters.
const fn shared_bytes(bytes: usize) -> u64 {
    heap_bytes(bytes + 2 * size_of::<usize>())
}

/// The most bytes in a path: what the kernel takes of one in a folder (PATH_MAX less its terminator).
const PATH_BYTES_MAX: usize = 4_095;
/// The number of the root on every RAM disk.
const ROOT_FILE: u64 = 1;
/// Marks volumes of RAM disks, which then cannot equal a device number.
const RAM_VOLUME: u64 = 1 << 63;

impl RamStore {
    /// Bytes that its files take. What of its size nothing is left of may be more, where memory is short.
    pub fn used_bytes(&self) -> u64 {
        self.disk.ledger.used_bytes()
    }

    /// An empty disk that holds `capacity_bytes`.
    pub fn new(capacity_bytes: u64) -> Self {
        RamStore::that_waits(capacity_bytes, Waits::Never)
    }

    /// One that looks like a device on which calls wait: for tests of those who must not.
    pub fn that_waits(capacity_bytes: u64, waits: Waits) -> Self {
        let mut number = [0; 8];
        let volume = match getrandom(&mut number, GetRandomFlags::empty()) {
            Ok(_) => u64::from_ne_bytes(number),
            Err(_) => crate::Time::now().0,
        };
        let volume = volume | RAM_VOLUME;
        let disk = Disk::new(volume, Ledger::new(capacity_bytes), ROOT_FILE);
        let root = Inode::root(&disk, Identity { volume, file: ROOT_FILE }, waits);
        RamStore { disk, root, has_disks: waits != Waits::Never }
    }

    /// The same with a directory that looks as if a device on which calls wait were mounted there: for tests, too.
    pub fn with_mounted(mut self, name: &str, waits: Waits) -> Result<Self, Error> {
        let new = NewNode { kind: Kind::Directory, attributes: 0, security: None, owner: None };
        let path = SharePath::parse(name)?;
        let (parent, _, name) = self.parent(&path)?;
        names::create(&parent, &Name::new(name)?, new, waits)?;
        self.has_disks = true;
        Ok(self)
    }

    /// The same that tells `synced` of each file, directory or stream's file that is to be durable, which fails where that does: for tests.
    pub fn with_syncs(self, synced: impl Fn(Identity) -> Result<(), Error> + Send + Sync + 'static) -> Self {
        // Only the first one hears of them.
        let _ = self.disk.synced.set(Box::new(synced));
        self
    }

    /// Notes that `call` may wait, where something on the way does.
    fn may_wait(&self, call: &str, paths: &[&SharePath]) {
        if self.has_disks && paths.iter().any(|path| self.waits_on_the_way(path) != Waits::Never) {
            waiting::may_wait(call);
        }
    }

    /// The most that has to be waited for on the way.
    fn waits_on_the_way(&self, path: &SharePath) -> Waits {
        let (mut inode, mut waits) = (Arc::clone(&self.root), self.root.waits);
        for name in path.names() {
            let Ok(Some((_, next))) = inode.child(&fold(name)) else { break };
            (inode, waits) = (Arc::clone(&next), waits.max(next.waits));
        }
        waits
    }

    fn find(&self, path: &SharePath) -> Result<Resolved, Error> {
        if path.as_str().len() > PATH_BYTES_MAX {
            return Err(Error::NameInvalid);
        }
        if path.is_root() {
            return Ok(Resolved::Found { node: RamNode::open(&self.root), path: SharePath::root() });
        }
        let (parent, mut stored, name) = self.parent(path)?;
        Ok(match parent.child(&fold(name))? {
            Some((name, inode)) => {
                stored.push(name.as_str());
                Resolved::Found { node: RamNode::open(&inode), path: stored }
            }
            None => {
                stored.push(name);
                Resolved::Missing { parent: RamNode::open(&parent), path: stored }
            }
        })
    }

    /// Follows all `names`; gives the stored path too, which has room for `bytes`.
    fn directory<'a>(
        &self,
        names: impl Iterator<Item = &'a str>,
        bytes: usize,
    ) -> Result<(Arc<Inode>, SharePath), Error> {
        let mut stored = SharePath::with_room(bytes);
        let mut inode = Arc::clone(&self.root);
        for name in names {
            effort::note(1);
            let (name, next) = inode.child(&fold(name))?.ok_or(Error::PathNotFound)?;
            stored.push(name.as_str());
            inode = next;
        }
        match inode.kind {
            Kind::Directory => Ok((inode, stored)),
            Kind::File | Kind::Stream => Err(inode.is_no_directory()),
        }
    }

    /// The directory that holds `path`'s last name, the stored path so far, and the last name.
    fn parent<'a>(&self, path: &'a SharePath) -> Result<(Arc<Inode>, SharePath, &'a str), Error> {
        let mut names = path.names();
        let name = names.next_back().ok_or(Error::Denied)?;
        let (inode, stored) = self.directory(names, path.as_str().len())?;
        Ok((inode, stored, name))
    }
}

impl Store for RamStore {
    fn facts(&self) -> Facts {
        Facts {
            never_blocks: !self.has_disks,
            read_only: false,
            volume: self.disk.volume,
            unit_bytes: table::BLOCK_BYTES as u32,
            shares_extents: true,
            file_length_max: pages::LENGTH_MAX,
        }
    }

    fn root(&self) -> Identity {
        self.root.identity
    }

    fn space(&self) -> Result<Space, Error> {
        Ok(Space { total_bytes: self.disk.ledger.capacity_bytes(), free_bytes: self.disk.ledger.free_bytes() })
    }

    fn volume_at(&self, path: &SharePath) -> u64 {
        // What looks as if it were mounted.
        let is_other = self.has_disks && self.waits_on_the_way(path) != self.root.waits;
        self.disk.volume ^ u64::from(is_other)
    }

    fn resolve(&self, path: &SharePath, _usage: Use) -> Result<Resolved, Error> {
        self.may_wait("resolve", &[path]);
        self.find(path)
    }

    fn try_resolve(&self, path: &SharePath, _usage: Use) -> Result<Resolved, Error> {
        let waits = if self.has_disks { self.waits_on_the_way(path) } else { Waits::Never };
        if waits == Waits::Always || waits > self.root.waits {
            return Err(Error::WouldBlock);
        }
        self.find(path)
    }

    fn lineage(&self, path: &SharePath) -> Vec<Identity> {
        self.may_wait("lineage", &[path]);
        let mut inode = Arc::clone(&self.root);
        let mut lineage = vec![inode.identity];
        for name in path.names() {
            effort::note(1);
            let Ok(Some((_, next))) = inode.child(&fold(name)) else { break };
            lineage.push(next.identity);
            inode = next;
        }
        lineage
    }
}
