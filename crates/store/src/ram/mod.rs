//! A share that lives in memory and is gone with its store: for tests, scratch space and measurements.
//!
//! Every call answers at once. Reads share a file's lock, writes hold it alone. Names change one at a time
//! (`structure`), lookups go on meanwhile. Everything is charged against the capacity: data by the block, 1 KiB for
//! each name. Reads do not move the time of last access.

mod inode;
mod ledger;
mod node;
mod pages;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::{
    Error, Facts, Identity, Kind, Name, NewNode, Node, Replace, Resolved, SharePath, Space, Store, Use, Waits, fold,
    waiting,
};
use inode::{Child, Inode};
use ledger::Ledger;
use node::RamNode;

/// A RAM disk.
pub struct RamStore {
    volume: u64,
    ledger: Arc<Ledger>,
    root: Arc<Inode>,
    next_file: AtomicU64,
    structure: Mutex<()>,
    /// Something in it looks like a disk.
    has_disks: bool,
}

/// The number of the root on every RAM disk.
const ROOT_FILE: u64 = 1;
/// Marks volumes of RAM disks, which then cannot equal a device number.
const RAM_VOLUME: u64 = 1 << 63;

impl RamStore {
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
        let ledger = Ledger::new(capacity_bytes);
        let root = Inode::root(&ledger, Identity { volume, file: ROOT_FILE }, waits);
        RamStore {
            volume,
            ledger,
            root,
            next_file: AtomicU64::new(ROOT_FILE + 1),
            structure: Mutex::new(()),
            has_disks: waits != Waits::Never,
        }
    }

    /// The same with a directory that looks as if a device on which calls wait were mounted there: for tests, too.
    pub fn with_mounted(mut self, name: &str, waits: Waits) -> Result<Self, Error> {
        let new = NewNode { kind: Kind::Directory, attributes: 0, security: None };
        self.make(&SharePath::parse(name)?, new, |_| waits)?;
        self.has_disks = true;
        Ok(self)
    }

    fn make(
        &self,
        path: &SharePath,
        new: NewNode<'_>,
        waits: impl FnOnce(Waits) -> Waits,
    ) -> Result<Arc<Inode>, Error> {
        if new.kind == Kind::Stream {
            return Err(Error::Invalid);
        }
        let (parent, _, name) = self.parent(path)?;
        let file = self.next_file.fetch_add(1, Ordering::Relaxed);
        let identity = Identity { volume: self.volume, file };
        let inode = Inode::new(&self.ledger, identity, waits(parent.waits), new)?;
        let folded = fold(name.as_str());
        let _changing = self.structure.lock();
        let mut names = parent.names.write();
        if names.removed {
            return Err(Error::PathNotFound);
        }
        if names.children.contains_key(&folded) {
            return Err(Error::Exists);
        }
        names.children.insert(folded, Child { name, inode: Arc::clone(&inode) });
        parent.written();
        Ok(inode)
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
        if path.is_root() {
            return Ok(Resolved::Found { node: RamNode::open(&self.root), path: SharePath::root() });
        }
        let (parent, mut stored, name) = self.parent(path)?;
        Ok(match parent.child(&fold(name.as_str()))? {
            Some((name, inode)) => {
                stored.push(name.as_str());
                Resolved::Found { node: RamNode::open(&inode), path: stored }
            }
            None => {
                stored.push(name.as_str());
                Resolved::Missing { parent: RamNode::open(&parent), path: stored }
            }
        })
    }

    /// Follows all of `path`; gives the stored path too.
    fn directory(&self, path: &SharePath) -> Result<(Arc<Inode>, SharePath), Error> {
        let mut stored = SharePath::root();
        let mut inode = Arc::clone(&self.root);
        for name in path.names() {
            let (name, next) = inode.child(&fold(name))?.ok_or(Error::PathNotFound)?;
            stored.push(name.as_str());
            inode = next;
        }
        match inode.kind {
            Kind::Directory => Ok((inode, stored)),
            Kind::File | Kind::Stream => Err(Error::NotDirectory),
        }
    }

    /// The directory that holds `path`'s last name, the stored path so far, and the last name.
    fn parent(&self, path: &SharePath) -> Result<(Arc<Inode>, SharePath, Name), Error> {
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else { return Err(Error::Denied) };
        let (inode, stored) = self.directory(&parent)?;
        Ok((inode, stored, Name::new(name)?))
    }

    /// True where `below` is reached through `above` or is it.
    fn passes(&self, below: &SharePath, above: &Arc<Inode>) -> Result<bool, Error> {
        let mut inode = Arc::clone(&self.root);
        for name in below.names() {
            let (_, next) = inode.child(&fold(name))?.ok_or(Error::PathNotFound)?;
            if Arc::ptr_eq(&next, above) {
                return Ok(true);
            }
            inode = next;
        }
        Ok(false)
    }
}

impl Store for RamStore {
    fn facts(&self) -> Facts {
        Facts {
            never_blocks: !self.has_disks,
            read_only: false,
            volume: self.volume,
            unit_bytes: pages::BLOCK_BYTES as u32,
            shares_extents: true,
            file_length_max: pages::LENGTH_MAX,
        }
    }

    fn space(&self) -> Result<Space, Error> {
        Ok(Space { total_bytes: self.ledger.capacity_bytes(), free_bytes: self.ledger.free_bytes() })
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
            let Ok(Some((_, next))) = inode.child(&fold(name)) else { break };
            lineage.push(next.identity);
            inode = next;
        }
        lineage
    }

    fn create(&self, path: &SharePath, new: NewNode<'_>) -> Result<Arc<dyn Node>, Error> {
        self.may_wait("create", &[path]);
        Ok(RamNode::open(&self.make(path, new, |waits| waits)?))
    }

    fn rename(&self, from: &SharePath, to: &SharePath, expected: Identity, replace: Replace) -> Result<(), Error> {
        self.may_wait("rename", &[from, to]);
        let _changing = self.structure.lock();
        let (from_parent, _, from_name) = self.parent(from)?;
        let (to_parent, _, to_name) = self.parent(to)?;
        let (from_fold, to_fold) = (fold(from_name.as_str()), fold(to_name.as_str()));
        let inode = find(&from_parent, &from_fold, expected)?;
        if let Some(above) = to.parent()
            && self.passes(&above, &inode)?
        {
            return Err(Error::Denied);
        }
        let same_place = Arc::ptr_eq(&from_parent, &to_parent) && from_fold == to_fold;
        let moved = Child { name: to_name, inode: Arc::clone(&inode) };
        if same_place {
            from_parent.names.write().children.insert(to_fold, moved);
        } else {
            let is_own = to_parent.child(&to_fold)?.is_some_and(|(_, taken)| Arc::ptr_eq(&taken, &inode));
            place(&to_parent, to_fold, moved, if is_own { Replace::Yes } else { replace })?;
            from_parent.names.write().children.remove(&from_fold);
        }
        from_parent.written();
        to_parent.written();
        inode.changed();
        Ok(())
    }

    fn link(&self, from: &SharePath, to: &SharePath, expected: Identity, replace: Replace) -> Result<(), Error> {
        self.may_wait("link", &[from, to]);
        let _changing = self.structure.lock();
        let (from_parent, _, from_name) = self.parent(from)?;
        let (to_parent, _, to_name) = self.parent(to)?;
        let inode = find(&from_parent, &fold(from_name.as_str()), expected)?;
        if inode.kind == Kind::Directory {
            return Err(Error::IsDirectory);
        }
        let folded = fold(to_name.as_str());
        inode.link();
        match place(&to_parent, folded, Child { name: to_name, inode: Arc::clone(&inode) }, replace) {
            Ok(()) => to_parent.written(),
            Err(error) => {
                inode.unlink();
                return Err(error);
            }
        }
        Ok(())
    }

    fn remove(&self, path: &SharePath, expected: Identity) -> Result<(), Error> {
        self.may_wait("remove", &[path]);
        let _changing = self.structure.lock();
        let (parent, _, name) = self.parent(path)?;
        let folded = fold(name.as_str());
        let inode = find(&parent, &folded, expected)?;
        let mut below = inode.names.write();
        if !below.children.is_empty() {
            return Err(Error::NotEmpty);
        }
        below.removed = true;
        drop(below);
        parent.names.write().children.remove(&folded);
        inode.unlink();
        parent.written();
        Ok(())
    }
}

/// What a name leads to, if it is what the caller believes.
fn find(parent: &Arc<Inode>, folded: &str, expected: Identity) -> Result<Arc<Inode>, Error> {
    let (_, inode) = parent.child(folded)?.ok_or(Error::NotFound)?;
    if inode.identity == expected { Ok(inode) } else { Err(Error::NotFound) }
}

/// Puts a child in a directory where its name is free or may be replaced.
fn place(parent: &Arc<Inode>, folded: String, child: Child, replace: Replace) -> Result<(), Error> {
    let mut names = parent.names.write();
    if let Some(taken) = names.children.get(&folded) {
        match (replace, taken.inode.kind) {
            (Replace::No, _) => return Err(Error::Exists),
            (Replace::Yes, Kind::Directory) => return Err(Error::Denied),
            (Replace::Yes, Kind::File | Kind::Stream) => {}
        }
    }
    if let Some(gone) = names.children.insert(folded, child) {
        gone.inode.unlink();
    }
    Ok(())
}
