//! Files of a share and where they live: one trait, a directory on this machine, a RAM disk, and any of them behind a simulated distance, or
//! behind a cache of what is known of its files.
//!
//! The room knows no SMB. What SMB clients need kept (DOS attributes, creation time, named streams, extended
//! attributes, security descriptors) it keeps without understanding it. Every call may block unless it is named
//! `try_…`, [`Facts::never_blocks`] holds, or [`Node::waits`] says otherwise. Nothing here spawns a thread but [`Store::watch`].
//!
//! # Example
//!
//! A file of a RAM disk is written by one name and found by another way of writing it:
//!
//! ```
//! use store::{Error, Kind, NewNode, RamStore, Resolved, SharePath, Store, Use};
//!
//! let store = RamStore::new(16 << 20);
//! let new = NewNode { kind: Kind::File, attributes: 0, security: None, owner: None };
//! let file = store.create(&SharePath::parse("Notes.txt")?, new)?;
//! file.write_at(b"remember the milk", 0)?;
//!
//! let found = match store.resolve(&SharePath::parse("NOTES.TXT")?, Use::Read)? {
//!     Resolved::Found { node, .. } => node,
//!     Resolved::Missing { .. } => return Err(Error::NotFound),
//! };
//! let mut text = [0; 64];
//! let length = found.read_at(&mut text, 9)?;
//! assert_eq!(&text[..length], b"the milk");
//! # Ok::<(), Error>(())
//! ```

mod arrival;
mod cached;
mod copy;
mod delayed;
mod directory;
pub mod effort;
mod error;
mod held;
mod node;
mod path;
mod ram;
pub mod threads;
mod time;
pub mod waiting;
mod watch;

use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use arrival::{Heard, arrived, arrived_by_another, heard};
pub use cached::{Belief, CacheBounds, CachedStore, Known};
pub use delayed::DelayedStore;
pub use directory::{
    DirectoryOptions, DirectoryStore, FileSystem, Look, UnixOwner, limit_names, shown_name, stored_name,
};
pub use error::{Error, Failed, Left};
pub use held::Held;
pub use node::{Extras, Keeping, Names, Node, Seen};
pub use path::{Name, SharePath, fold};
pub use ram::{RamStore, limit_ram_disks};
pub use watch::{Foreign, Guard, Listener, Reach, What};

/// 100-nanosecond intervals since 1601-01-01 UTC (MS-DTYP FILETIME). Zero means "not known".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// Which file, whatever its name: the same on every share over the same folder, and for all streams of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The file system: the device number of a directory store, a number of its own for each RAM disk.
    pub volume: u64,
    /// The file within it: the inode number.
    pub file: u64,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file with data.
    File,
    /// A directory.
    Directory,
    /// A named stream of a file or directory.
    Stream,
}

/// DOS attribute bits that a store keeps (MS-FSCC 2.6): READONLY 0x1, HIDDEN 0x2, SYSTEM 0x4, ARCHIVE 0x20,
/// TEMPORARY 0x100, SPARSE_FILE 0x200, COMPRESSED 0x800, OFFLINE 0x1000, NOT_CONTENT_INDEXED 0x2000. DIRECTORY and NORMAL are never
/// stored: they follow from the rest.
pub type Attributes = u32;

/// What is known of a node at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// What it is.
    pub kind: Kind,
    /// It is a symbolic link, a [`Kind::File`] without data: [`Node::target`] says where it leads.
    pub is_link: bool,
    /// Which file it is, or whose stream.
    pub identity: Identity,
    /// The stored attribute bits. A file that another program made without its owner's write permission shows READONLY.
    pub attributes: Attributes,
    /// When it was made.
    pub creation: Time,
    /// Last read.
    pub access: Time,
    /// Last write of data.
    pub write: Time,
    /// Last change of anything.
    pub change: Time,
    /// Length of the data in bytes; zero for directories.
    pub length: u64,
    /// Bytes held on disk for the data; zero for directories.
    pub allocated: u64,
    /// Names this file has.
    pub links: u32,
}

/// Attribute bits to change. All others stay as they are at that moment, whoever changes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttributeChange {
    /// Bits to take away.
    pub clear: Attributes,
    /// Bits to set after that.
    pub set: Attributes,
}

impl AttributeChange {
    /// Replaces all bits.
    pub fn to(attributes: Attributes) -> Self {
        AttributeChange { clear: Attributes::MAX, set: attributes }
    }

    /// Sets bits beside those there are.
    pub fn setting(set: Attributes) -> Self {
        AttributeChange { clear: 0, set }
    }

    /// Takes bits away.
    pub fn clearing(clear: Attributes) -> Self {
        AttributeChange { clear, set: 0 }
    }

    /// True where no bit is meant.
    pub fn is_nothing(&self) -> bool {
        *self == AttributeChange::default()
    }

    /// The bits `before`, changed.
    pub fn apply(&self, before: Attributes) -> Attributes {
        before & !self.clear | self.set
    }
}

/// What to change; what is `None` stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Which of the stored attribute bits change.
    pub attributes: AttributeChange,
    /// Set the creation time.
    pub creation: Option<Time>,
    /// Set the last access time.
    pub access: Option<Time>,
    /// Set the last write time.
    pub write: Option<Time>,
    /// Set the change time, where the store can (a directory store keeps it beside the file until the next change).
    pub change: Option<Time>,
}

/// A node to be made.
#[derive(Clone, Copy, Debug)]
pub struct NewNode<'a> {
    /// A file or a directory. Streams are made by [`Extras::create_stream`].
    pub kind: Kind,
    /// Its attribute bits.
    pub attributes: Attributes,
    /// Its security descriptor, kept as it is.
    pub security: Option<&'a [u8]>,
    /// Whose it is on this machine, where that is not as for all that is made in the store. Only folders of this machine have owners.
    pub owner: Option<UnixOwner>,
}

/// What takes the place of a file, in one step ([`Names::replace_with`]): a symbolic link, or an empty file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replacement<'a> {
    /// Where the link leads: names as clients see them, with `/` between them. `None` for an empty file.
    pub target: Option<&'a str>,
    /// Its security descriptor, kept as it is. A link has none where the store can keep nothing with links.
    pub security: Option<&'a [u8]>,
    /// Whose it is on this machine, as with [`NewNode::owner`].
    pub owner: Option<UnixOwner>,
}

impl<'a> Replacement<'a> {
    /// An empty file without a descriptor.
    pub const FILE: Self = Replacement { target: None, security: None, owner: None };

    /// A link without a descriptor.
    pub const fn link(target: &'a str) -> Self {
        Replacement { target: Some(target), security: None, owner: None }
    }
}

/// A symbolic link that a path leads to, or over.
pub struct LinkOnTheWay {
    /// The link.
    pub node: Arc<dyn Node>,
    /// Its own path.
    pub path: SharePath,
    /// Its target: names as clients see them, with `/` between them.
    pub target: String,
}

/// What the opener will do with a node's data; a directory store opens the file accordingly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// Look at metadata only.
    Metadata,
    /// Read data.
    Read,
    /// Read and write data.
    ReadWrite,
}

/// What calls on a node may have to wait for. It is a fact of the file system that the node lies on, not of its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Waits {
    /// Nothing: it is memory.
    Never,
    /// A device, for all that the kernel does not keep in memory while the file is open: data, what is kept with it, opening, closing and
    /// changes. Of what is kept with it a node remembers what it was asked for last.
    ForData,
    /// A device or another machine, whatever the call is.
    Always,
}

/// What a path led to.
pub enum Resolved {
    /// It exists. The name is as it is stored, whatever case was asked for.
    Found {
        /// The node, opened for the use asked for.
        node: Arc<dyn Node>,
        /// The whole path in stored case.
        path: SharePath,
    },
    /// The directory exists and has no such name.
    Missing {
        /// The directory that would hold it.
        parent: Arc<dyn Node>,
        /// The whole path: the directory in stored case, the last name as asked for.
        path: SharePath,
    },
}

impl fmt::Debug for Resolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resolved::Found { path, .. } => write!(f, "Found({path})"),
            Resolved::Missing { path, .. } => write!(f, "Missing({path})"),
        }
    }
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name as clients see it (see [`Name`] for names that Windows forbids).
    pub name: Name,
    /// Its identity as the directory tells it; [`Names::entry_metadata`] has the rest.
    pub file: u64,
}

/// How far a directory has been listed: at its beginning, or behind a name. It means something to the node that it came from alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Where the file system goes on.
    offset: u64,
    /// The last name that was taken, folded, where names are in order.
    after: Option<Box<str>>,
}

/// Takes a name of a listing, or leaves it to be the next one.
pub type Take<'a> = &'a mut dyn FnMut(Entry) -> ControlFlow<()>;

/// Takes a stream of a listing, or ends it. It asks nothing more of the node.
pub type TakeStream<'a> = &'a mut dyn FnMut(StreamEntry) -> ControlFlow<()>;

/// One named stream of a file or directory, the unnamed data stream not among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamEntry {
    /// Its name, without `:` and `:$DATA`.
    pub name: String,
    /// Bytes of data.
    pub length: u64,
    /// Bytes held on disk.
    pub allocated: u64,
}

/// A range of a file that holds data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// A part of the answer of [`Node::extents`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extents {
    /// Ranges that hold data, ascending, none next to another.
    pub ranges: Vec<Extent>,
    /// Where to go on; `None` where all has been looked at.
    pub next: Option<u64>,
}

/// What a rename or link does when the new name is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replace {
    /// Fail with [`Error::Exists`].
    No,
    /// Replace this file, never a directory: [`Error::Exists`] where another one has the name. For who has judged the file first.
    Only(Identity),
    /// Replace whatever file has the name, never a directory.
    Yes,
}

/// Where a name is to be: in a directory that is open, wherever that stands by now.
#[derive(Clone, Copy)]
pub struct Destination<'a> {
    /// The directory, of the same store.
    pub directory: &'a dyn Node,
    /// The name in it.
    pub name: &'a Name,
}

/// What never changes about a store while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// No call ever waits for a device, whatever path or node it is about. Of a single node [`Node::waits`] tells more: in a folder that
    /// is memory a disk may be mounted.
    pub never_blocks: bool,
    /// Nothing can be written.
    pub read_only: bool,
    /// A number that names this volume.
    pub volume: u64,
    /// Bytes in an allocation unit.
    pub unit_bytes: u32,
    /// The store can share extents between files.
    pub shares_extents: bool,
    /// The largest file in bytes.
    pub file_length_max: u64,
}

/// How full a store is, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// All there is.
    pub total_bytes: u64,
    /// What may still be written.
    pub free_bytes: u64,
}

/// Says where appended data goes, told where the data ends ([`Node::append`]).
pub type ChooseOffset<'a> = &'a mut dyn FnMut(u64) -> Result<u64, Error>;

/// Makes a new security descriptor of the one there is ([`Extras::change_security`]).
pub type ChangeSecurity<'a> = &'a mut dyn FnMut(Result<Option<Vec<u8>>, Error>) -> Option<Vec<u8>>;

/// An extended attribute, name and value. An empty value is one that is to go.
pub type ExtendedAttribute = (String, Vec<u8>);

/// Says which extended attributes are to be set, told which there are ([`Extras::change_extended`]).
pub type ChangeExtended<'a> = &'a mut dyn FnMut(&[ExtendedAttribute]) -> Option<Vec<ExtendedAttribute>>;

/// What a file is to be like that is made as good as new ([`Node::renew`]).
#[derive(Clone, Copy, Debug, Default)]
pub struct Renewal<'a> {
    /// Its extended attributes, and no others. Of those with one name, in any case, the last counts.
    pub extended: &'a [ExtendedAttribute],
    /// Which of the stored attribute bits change.
    pub attributes: AttributeChange,
    /// Bytes of space to reserve for the data; 0 for none.
    pub reserved: u64,
}

/// A stream and its stored name.
pub type NamedNode = (String, Arc<dyn Node>);

/// The files of one share.
///
/// Symbolic links are files of their own that are never followed, so that paths never leave the root, whatever links or races there are.
/// Names are found whatever their case and keep the case they were made with.
pub trait Store: Send + Sync + 'static {
    /// What never changes.
    fn facts(&self) -> Facts;

    /// How full it is.
    fn space(&self) -> Result<Space, Error>;

    /// Follows `path` from the root. [`Error::PathNotFound`] where a directory on the way is missing,
    /// [`Error::NotDirectory`] where it is a file, [`Error::Link`] where it is a symbolic link.
    fn resolve(&self, path: &SharePath, usage: Use) -> Result<Resolved, Error>;

    /// The same without waiting: [`Error::WouldBlock`] where the answer is not in memory.
    fn try_resolve(&self, path: &SharePath, usage: Use) -> Result<Resolved, Error>;

    /// The first symbolic link on the way that `path` says, its last name included; `None` where there is none. What was found
    /// before may have changed.
    fn link_on(&self, path: &SharePath) -> Result<Option<LinkOnTheWay>, Error> {
        let names: Vec<&str> = path.names().collect();
        // Behind a link everything is on the way over it: the first one is found by halves.
        let (mut before, mut behind) = (0, names.len());
        while before < behind {
            let middle = before + (behind - before) / 2;
            let mut upto = SharePath::root();
            names.iter().take(middle + 1).for_each(|name| upto.push(name));
            match self.resolve(&upto, Use::Metadata) {
                Err(Error::Link) => behind = middle,
                Ok(Resolved::Found { node, path }) => match node.target()? {
                    Some(target) => return Ok(Some(LinkOnTheWay { node, path, target })),
                    None => before = middle + 1,
                },
                Ok(Resolved::Missing { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The volume that `path` leads to, as far as that is known without asking any device: the root's, or that of what is mounted on the
    /// way. Never waits.
    fn volume_at(&self, path: &SharePath) -> u64 {
        let _ = path;
        self.facts().volume
    }

    /// Which directories lie on the way to the directory `path`: the root first, `path` itself last. Ends where one is missing.
    fn lineage(&self, path: &SharePath) -> Vec<Identity> {
        let mut paths = vec![path.clone()];
        while let Some(parent) = paths.last().and_then(SharePath::parent) {
            paths.push(parent);
        }
        let identity = |path: SharePath| match self.resolve(&path, Use::Metadata) {
            Ok(Resolved::Found { node, .. }) => Some(node.identity()),
            Ok(Resolved::Missing { .. }) | Err(_) => None,
        };
        paths.into_iter().rev().map_while(identity).collect()
    }

    /// A number for the root directory, which no other store's root has at the same time. Never waits.
    fn root(&self) -> Identity {
        Identity { volume: self.facts().volume, file: 0 }
    }

    /// Which directories the root lies in: the root itself first, then outwards. Tells whether two stores have files in common. Asks no
    /// device: of one that hangs others want to know it, too.
    fn above(&self) -> Vec<Identity> {
        self.lineage(&SharePath::root())
    }

    /// Where `path` is on this machine now; `None` where it is in memory or cannot be told.
    fn place_of(&self, path: &SharePath) -> Option<PathBuf> {
        let _ = path;
        None
    }

    /// The path of what is at a place of this machine now; `None` where that is not below the root.
    fn path_at(&self, place: &Path) -> Option<SharePath> {
        let _ = place;
        None
    }

    /// Tells `listener`, a little later and on a thread of the store's own, what changes in the directory `of` until the guard is
    /// dropped: what other programs do, and what is done through this store too. `None` where no other program can do anything.
    /// [`Error::NotFound`] where `path` is another directory. What is below it is watched by [`Guard::go_on`], which has to be called
    /// until it is done.
    fn watch(
        &self,
        path: &SharePath,
        of: Identity,
        reach: Reach,
        listener: Arc<dyn Listener>,
    ) -> Result<Option<Guard>, Error> {
        let _ = (path, of, reach, listener);
        Ok(None)
    }

    /// The directory that has a path's last name, and that name. [`Error::Denied`] for the root, which has none.
    fn directory_of(&self, path: &SharePath) -> Result<(Arc<dyn Node>, Name), Error> {
        let (Some(above), Some(name)) = (path.parent(), path.name()) else { return Err(Error::Denied) };
        match self.resolve(&above, Use::Metadata)? {
            Resolved::Found { node, .. } if node.kind() == Kind::Directory => Ok((node, Name::new(name)?)),
            Resolved::Found { node, .. } if node.metadata()?.is_link => Err(Error::Link),
            Resolved::Found { .. } => Err(Error::NotDirectory),
            Resolved::Missing { .. } => Err(Error::PathNotFound),
        }
    }

    /// [`Names::create`] where a path leads now. Like the next three it is for who has judged no directory on the way: who has works in
    /// the directory that was judged, which may stand elsewhere by now.
    fn create(&self, path: &SharePath, new: NewNode<'_>) -> Result<Arc<dyn Node>, Error> {
        let (directory, name) = self.directory_of(path)?;
        directory.names()?.create(&name, new)
    }

    /// [`Names::rename`] by paths.
    fn rename(&self, from: &SharePath, to: &SharePath, expected: Identity, replace: Replace) -> Result<(), Error> {
        let ((from, name), (to, new)) = (self.directory_of(from)?, self.directory_of(to)?);
        from.names()?.rename(&name, expected, Destination { directory: &*to, name: &new }, replace)
    }

    /// [`Node::link`] by paths.
    fn link(&self, from: &SharePath, to: &SharePath, expected: Identity, replace: Replace) -> Result<(), Error> {
        let ((from, name), (to, new)) = (self.directory_of(from)?, self.directory_of(to)?);
        let (_, file) = from.names()?.child(&name, Use::Metadata)?.ok_or(Error::NotFound)?;
        if file.identity() != expected {
            return Err(Error::NotFound);
        }
        file.link(Destination { directory: &*to, name: &new }, replace)
    }

    /// [`Names::remove`] where a path leads now.
    fn remove(&self, path: &SharePath, expected: Identity) -> Result<(), Error> {
        let (directory, name) = self.directory_of(path)?;
        directory.names()?.remove(&name, expected)
    }
}
