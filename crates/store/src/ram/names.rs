//! Making, moving and removing names in the directories of a RAM disk: one at a time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::ram::inode::{self, Child, Inode};
use crate::ram::ledger::Ledger;
use crate::{Error, Identity, Kind, Name, NewNode, Replace, Replacement, Waits, fold};

/// Names of a file, as on NTFS.
const LINKS_MAX: u32 = 1_024;

/// What all files of a disk have in common.
pub(super) struct Disk {
    pub(super) volume: u64,
    pub(super) ledger: Arc<Ledger>,
    next_file: AtomicU64,
    /// Held by whoever changes names.
    structure: Mutex<()>,
    /// Hears of what is to be durable, and may fail it.
    pub(super) synced: OnceLock<Synced>,
}

/// Told of each file that is to be durable.
pub(super) type Synced = Box<dyn Fn(Identity) -> Result<(), Error> + Send + Sync>;

impl Disk {
    /// A disk whose root is the file `root`.
    pub(super) fn new(volume: u64, ledger: Arc<Ledger>, root: u64) -> Arc<Self> {
        let (next_file, structure) = (AtomicU64::new(root + 1), Mutex::new(()));
        Arc::new(Disk { volume, ledger, next_file, structure, synced: OnceLock::new() })
    }

    fn new_identity(&self) -> Identity {
        Identity { volume: self.volume, file: self.next_file.fetch_add(1, Ordering::Relaxed) }
    }
}

/// Makes a file or directory whose name is free.
pub(super) fn create(directory: &Arc<Inode>, name: &Name, new: NewNode<'_>, waits: Waits) -> Result<Arc<Inode>, Error> {
    if new.kind == Kind::Stream {
        return Err(Error::Invalid);
    }
    check_directory(directory)?;
    let disk = &directory.disk;
    let inode = Inode::new(disk, disk.new_identity(), waits, new)?;
    // Who finds it finds what it lies in.
    inode.names.write().above = Arc::downgrade(directory);
    let child = Child::new(name, &inode)?;
    let _changing = disk.structure.lock();
    // Nothing goes for it.
    let _ = put(directory, child, Replace::No)?;
    directory.written();
    Ok(inode)
}

/// Gives what has `name` in `from` the name `new` in `to`.
pub(super) fn rename(
    (from, name): (&Arc<Inode>, &Name),
    (to, new): (&Arc<Inode>, &Name),
    expected: Identity,
    replace: Replace,
) -> Result<(), Error> {
    check_directory(to)?;
    check_disk(from, to)?;
    // What is replaced is freed once the lock is let go of, which is done first.
    let _replaced;
    let _changing = from.disk.structure.lock();
    let (from_fold, to_fold) = (fold(name.as_str()), fold(new.as_str()));
    let inode = find(from, &from_fold, expected)?;
    if lies_in(to, &inode) {
        return Err(Error::Denied);
    }
    // What the old name costs pays for the new one: on a full disk, too, a name that is no longer can be had.
    let moved = Child::instead_of(name, new, &inode)?;
    let gone = if Arc::ptr_eq(from, to) && from_fold == to_fold {
        _replaced = None;
        from.names.write().children.insert(to_fold.as_str().into(), moved)
    } else {
        let is_own = to.child(&to_fold)?.is_some_and(|(_, taken)| Arc::ptr_eq(&taken, &inode));
        _replaced = put(to, moved, if is_own { Replace::Yes } else { replace })?;
        from.names.write().children.remove(from_fold.as_str())
    };
    if let (Some(gone), Some(moved)) = (gone, to.names.write().children.get_mut(to_fold.as_str())) {
        moved.pay_with(gone);
    }
    from.written();
    to.written();
    inode.changed();
    Ok(())
}

/// The longest target of a symbolic link, in bytes: what the kernel takes in a folder.
const TARGET_BYTES_MAX: usize = 4_095;

/// Has something else take the place of what has the name.
pub(super) fn replace_with(
    directory: &Arc<Inode>,
    name: &Name,
    expected: Identity,
    new: Replacement<'_>,
) -> Result<Arc<Inode>, Error> {
    let disk = &directory.disk;
    let (attributes, own) = (if new.target.is_some() { inode::ARCHIVE } else { 0 }, disk.new_identity());
    let node = NewNode { kind: Kind::File, attributes, security: new.security, owner: None };
    let made = match new.target {
        Some(target) if target.is_empty() || target.contains('\0') => return Err(Error::Invalid),
        Some(target) if target.len() > TARGET_BYTES_MAX => return Err(Error::NameInvalid),
        Some(target) => Inode::link_to(disk, (own, directory.waits), node, target)?,
        None => Inode::new(disk, own, directory.waits, node)?,
    };
    // What is replaced is freed once the lock is let go of, which is done first.
    let _replaced;
    let _changing = disk.structure.lock();
    let folded = fold(name.as_str());
    let taken = find(directory, &folded, expected)?;
    let spelled = directory.child(&folded)?.map_or_else(|| name.clone(), |(name, _)| name);
    if taken.data.read().length() > 0 || !taken.names.read().children.is_empty() {
        return Err(Error::NotEmpty);
    }
    if taken.links() > 1 {
        return Err(Error::TooManyLinks);
    }
    let child = Child::new(&spelled, &made)?;
    taken.names.write().removed = taken.kind == Kind::Directory;
    _replaced = directory.names.write().children.insert(folded.into_boxed_str(), child);
    taken.unlink();
    directory.written();
    Ok(made)
}

/// Gives a file the name `new` in `to`, too.
pub(super) fn link(inode: &Arc<Inode>, (to, new): (&Arc<Inode>, &Name), replace: Replace) -> Result<(), Error> {
    check_directory(to)?;
    check_disk(inode, to)?;
    if inode.kind == Kind::Directory {
        return Err(Error::IsDirectory);
    }
    // Freed once the lock is let go of, which is done first.
    let _replaced;
    let _changing = to.disk.structure.lock();
    if inode.links() == 0 {
        return Err(Error::NotFound);
    }
    if inode.links() >= LINKS_MAX {
        return Err(Error::TooManyLinks);
    }
    let child = Child::new(new, inode)?;
    inode.link();
    _replaced = put(to, child, replace).inspect_err(|_| inode.unlink())?;
    to.written();
    Ok(())
}

/// Removes a name.
pub(super) fn remove(directory: &Arc<Inode>, name: &Name, expected: Identity) -> Result<(), Error> {
    // Freed once the lock is let go of, which is done first.
    let inode;
    let _changing = directory.disk.structure.lock();
    let folded = fold(name.as_str());
    inode = find(directory, &folded, expected)?;
    let mut below = inode.names.write();
    if !below.children.is_empty() {
        return Err(Error::NotEmpty);
    }
    below.removed = inode.kind == Kind::Directory;
    drop(below);
    directory.names.write().children.remove(folded.as_str());
    inode.unlink();
    directory.written();
    Ok(())
}

fn check_directory(inode: &Inode) -> Result<(), Error> {
    if inode.kind == Kind::Directory { Ok(()) } else { Err(inode.is_no_directory()) }
}

fn check_disk(one: &Inode, other: &Inode) -> Result<(), Error> {
    if Arc::ptr_eq(&one.disk, &other.disk) { Ok(()) } else { Err(Error::CrossVolume) }
}

/// What a name leads to, if it is what the caller believes.
fn find(directory: &Arc<Inode>, folded: &str, expected: Identity) -> Result<Arc<Inode>, Error> {
    let (_, inode) = directory.child(folded)?.ok_or(Error::NotFound)?;
    if inode.identity == expected { Ok(inode) } else { Err(Error::NotFound) }
}

/// True where `below` lies in `above` or is it.
fn lies_in(below: &Arc<Inode>, above: &Arc<Inode>) -> bool {
    let mut at = Some(Arc::clone(below));
    while let Some(inode) = at {
        if Arc::ptr_eq(&inode, above) {
            return true;
        }
        at = inode.names.read().above.upgrade();
    }
    false
}

/// Puts a child in a directory where its name is free or may be replaced; gives the one that had it. To drop that may take as long as the
/// file is large: it is for who holds no lock.
fn put(directory: &Arc<Inode>, child: Child, replace: Replace) -> Result<Option<Child>, Error> {
    let (folded, placed) = (fold(child.name.as_str()), Arc::clone(&child.inode));
    let mut names = directory.names.write();
    if names.removed {
        return Err(Error::PathNotFound);
    }
    if let Some(taken) = names.children.get(folded.as_str()) {
        match (replace, taken.inode.kind) {
            (Replace::No, _) => return Err(Error::Exists),
            (Replace::Only(file), _) if file != taken.inode.identity => return Err(Error::Exists),
            (Replace::Only(_) | Replace::Yes, Kind::Directory) => return Err(Error::Denied),
            (Replace::Only(_) | Replace::Yes, Kind::File | Kind::Stream) => {}
        }
    }
    let gone = names.children.insert(folded.into_boxed_str(), child);
    drop(names);
    if let Some(gone) = &gone {
        gone.inode.unlink();
    }
    if placed.kind == Kind::Directory {
        placed.names.write().above = Arc::downgrade(directory);
    }
    Ok(gone)
}
