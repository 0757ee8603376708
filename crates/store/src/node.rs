//! What is open: its data, what is kept beside the data, and the names in a directory.

use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;

use crate::{
    ChangeExtended, ChangeSecurity, Changes, ChooseOffset, Cursor, Destination, Error, ExtendedAttribute, Extents,
    Failed, Held, Identity, Kind, Metadata, Name, NamedNode, NewNode, Renewal, Replace, Replacement, StreamEntry, Take,
    TakeStream, Time, Use, Waits,
};

/// An open file, directory or stream: it stays usable when its name is renamed or removed.
///
/// Offsets and lengths are bytes. Reads past the end give fewer bytes, and zero at the end.
pub trait Node: Send + Sync + 'static {
    /// What it is.
    fn kind(&self) -> Kind;

    /// Which file it is, or whose stream.
    fn identity(&self) -> Identity;

    /// When the file was made, whatever a client has set since: of two files that had one number, one after the other, it tells which one
    /// this is. `None` where that is not known.
    fn birth(&self) -> Option<Time> {
        None
    }

    /// What calls on it that are not named `try_…` may have to wait for. The same for as long as it is open.
    fn waits(&self) -> Waits;

    /// To be had, and held, by who must not wait, before it changes a file in memory or asks for its extents: nobody makes a change that
    /// takes long as long as it is held. `None` where somebody does: who may wait is to do it. Held by a thread once at a time.
    fn try_hold(&self) -> Option<Held> {
        Some(Held::nothing())
    }

    /// What is known of it now.
    fn metadata(&self) -> Result<Metadata, Error>;

    /// What was known of it when it was resolved, or is now: for who looks right after, and no more than once, but for the pool that asks ahead.
    fn metadata_as_resolved(&self) -> Result<Metadata, Error> {
        self.metadata()
    }

    /// The same as [`Node::metadata`] without waiting: [`Error::WouldBlock`] where the answer is not in memory.
    fn try_metadata(&self) -> Result<Metadata, Error>;

    /// Changes attributes and times. Of several that change attributes at once none undoes what another has done.
    fn change(&self, changes: &Changes) -> Result<(), Error>;

    /// Makes the data usable as asked. Needed where the node was resolved for less.
    fn prepare(&self, usage: Use) -> Result<(), Error>;

    /// The same without waiting: [`Error::WouldBlock`] where the file has to be opened once more.
    fn try_prepare(&self, usage: Use) -> Result<(), Error> {
        self.prepare(usage)
    }

    /// Reads at `offset` into `buffer`; gives the bytes read.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error>;

    /// The same without waiting. Fewer bytes than asked for before the end of the file is [`Error::WouldBlock`].
    fn try_read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error>;

    /// How many of `length` bytes at `offset` can be taken from [`Node::descriptor`] without waiting, as well as can be told: fewer
    /// only where the data ends. [`Error::WouldBlock`] where they are not all in memory, [`Error::Unsupported`] where there is no descriptor.
    fn try_resident(&self, offset: u64, length: usize) -> Result<usize, Error> {
        let _ = (offset, length);
        Err(Error::Unsupported)
    }

    /// Writes all of `data` at `offset`, growing the file. Allocates nothing for a write within a file's length.
    fn write_at(&self, data: &[u8], offset: u64) -> Result<(), Error>;

    /// Writes all of `data` at the end of the data, wherever that is when its turn comes: of several that append at once
    /// none loses anything. `place` is told the length of the data and says where to write: there, or beyond it. Gives the offset
    /// behind what was written; where another program grows the file at the same moment, that may be less than where it is.
    fn append(&self, data: &[u8], place: ChooseOffset<'_>) -> Result<u64, Error>;

    /// Makes data and metadata durable.
    fn sync(&self) -> Result<(), Error>;

    /// Cuts or grows the data to `length`; what is new reads as zeros.
    fn set_length(&self, length: u64) -> Result<(), Error>;

    /// Has `bytes` of space for the data, and cuts data that is longer. Data that fits is never changed, whatever others write at the
    /// same time. Space beyond `bytes` is given back where the store can tell that nobody writes there.
    fn set_allocation(&self, bytes: u64) -> Result<(), Error>;

    /// Reserves space up to `length` without changing the length of the data. May do nothing.
    fn reserve(&self, length: u64) -> Result<(), Error>;

    /// Makes `length` bytes at `offset` read as zeros without changing the file's length; frees the space where
    /// `punch` is set and the store can.
    fn zero(&self, offset: u64, length: u64, punch: bool) -> Result<(), Error>;

    /// The first ranges that hold data within `length` bytes at `offset`, ascending, at most `count_max` of them. One call looks at a
    /// bounded number of things, whatever the file is like, and says where to go on; what it tells may end, or be nothing, anywhere.
    fn extents(&self, offset: u64, length: u64, count_max: usize) -> Result<Extents, Error>;

    /// Copies up to `length` bytes from `source` into this node; gives the bytes copied, fewer only at the source's end.
    fn copy_from(&self, source: &dyn Node, source_offset: u64, offset: u64, length: u64) -> Result<u64, Error>;

    /// Begins to share `length` bytes of extents with `source` instead of copying them; gives how many bytes are done, at least one, so
    /// that a call takes no long time. What is a hole there is one here. [`Error::Unsupported`] where the store cannot.
    fn clone_from(&self, source: &dyn Node, source_offset: u64, offset: u64, length: u64) -> Result<u64, Error>;

    /// The descriptor behind the data, for sendfile and copy_file_range; `None` where there is none.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Where it is on this machine now, whoever moved it there; `None` where it is in memory or cannot be told. Where it is gone, the
    /// answer leads nowhere, or to something else.
    fn place(&self) -> Option<PathBuf> {
        None
    }

    /// Where it leads, where it is a symbolic link: names as clients see them, with `/` between them. [`Error::WouldBlock`] for who must
    /// not wait where it would.
    fn target(&self) -> Result<Option<String>, Error> {
        Ok(None)
    }

    /// The directory that this directory lies in now; `None` for the root of the store. [`Error::WouldBlock`] for who must not wait where it
    /// would, and [`Error::Gone`] where the directory lies in the store no more.
    fn above(&self) -> Result<Option<Arc<dyn Node>>, Error> {
        Err(Error::NotDirectory)
    }

    /// Whether what it tells may be kept in memory, and who tells when it is so no more.
    fn keeping(&self) -> Keeping<'_> {
        Keeping::Nothing
    }

    /// True where what is known of it can be asked for by who must not wait: the answer is [`Error::WouldBlock`] where it is not in memory.
    fn answers_at_once(&self) -> bool {
        self.waits() != Waits::Always
    }

    /// The same file opened once more, with a position and a use of its own. [`Error::Unsupported`] for that of which nothing is kept.
    fn again(&self, usage: Use) -> Result<Arc<dyn Node>, Error> {
        let _ = usage;
        Err(Error::Unsupported)
    }

    /// For `copy_from` and `clone_from` between nodes of one store.
    fn as_any(&self) -> &dyn std::any::Any;

    /// Makes a file as good as new: it is empty, its attributes are those asked for, and all named streams are gone, those that cannot be shown
    /// among them. All of that is done or nothing. [`Error::Invalid`] for what is no file.
    fn renew(&self, new: &Renewal<'_>) -> Result<(), Failed>;

    /// Gives this file one more name. [`Error::IsDirectory`] for a directory.
    fn link(&self, to: Destination<'_>, replace: Replace) -> Result<(), Error> {
        let _ = (to, replace);
        Err(Error::Unsupported)
    }

    /// What is kept beside the data; a stream's is its file's.
    fn extras(&self) -> &dyn Extras;

    /// The names in it. [`Error::NotDirectory`] for what is no directory.
    fn names(&self) -> Result<&dyn Names, Error> {
        Err(Error::NotDirectory)
    }
}

/// Whether what a node tells of its file may be kept in memory.
#[derive(Clone, Copy, Debug)]
pub enum Keeping<'a> {
    /// No.
    Nothing,
    /// Yes: the kernel tells of changes of what this descriptor leads to, which is good for nothing else.
    Watched(BorrowedFd<'a>),
    /// As long as one believes it: nobody tells.
    Untold,
}

/// Which file something is, for who keeps in memory what is told of it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Which file it is now.
    pub identity: Identity,
    /// What kind of file.
    pub kind: Kind,
    /// When it was made, where that is known: another that has its number later was made later.
    pub birth: Option<Time>,
    /// Whether what it tells may be kept.
    pub keeping: Keeping<'a>,
}

impl<'a> Seen<'a> {
    /// What an open node is of.
    pub fn of(node: &'a dyn Node) -> Self {
        Seen { identity: node.identity(), kind: node.kind(), birth: node.birth(), keeping: node.keeping() }
    }
}

/// What a file or directory has beside its data: a security descriptor, extended attributes and named streams.
pub trait Extras {
    /// The stored security descriptor, as it was set.
    fn security(&self) -> Result<Option<Vec<u8>>, Error>;

    /// The same where it has `bytes_max` at the most: [`Error::WouldBlock`] where it is longer, which is found out without reading it.
    fn security_within(&self, bytes_max: usize) -> Result<Option<Vec<u8>>, Error> {
        let stored = self.security()?;
        if stored.as_ref().is_some_and(|stored| stored.len() > bytes_max) { Err(Error::WouldBlock) } else { Ok(stored) }
    }

    /// Replaces the stored security descriptor by what `change` makes of it, in one step: nobody else changes it in between, through
    /// whatever name or share. `change` is given what [`Extras::security`] would have given, asks nothing of the store, and
    /// gives `None` to leave the descriptor as it is.
    fn change_security(&self, change: ChangeSecurity<'_>) -> Result<(), Error>;

    /// Stores a security descriptor, whatever there was.
    fn set_security(&self, descriptor: &[u8]) -> Result<(), Error> {
        self.change_security(&mut |_| Some(descriptor.to_vec()))
    }

    /// All extended attributes, name and value, in the order they were set or by name.
    fn extended(&self) -> Result<Vec<ExtendedAttribute>, Error>;

    /// Sets an extended attribute; an empty value removes it. Names compare without case.
    fn set_extended(&self, name: &str, value: &[u8]) -> Result<(), Error>;

    /// Sets extended attributes as `change` says, all of them or none, in one step: nobody else sets one in between, through whatever name
    /// or share. `change` is given what [`Extras::extended`] would have given, asks nothing of the store, names each once, and gives `None` to
    /// leave them as they are.
    fn change_extended(&self, change: ChangeExtended<'_>) -> Result<(), Failed>;

    /// Shows the named streams until `take` wants no more. Like the next two it is [`Error::WouldBlock`] for who must not wait where there are
    /// many of them, in memory, too: nothing was shown or made. What comes and goes meanwhile may be shown or not.
    fn list_streams(&self, take: TakeStream<'_>) -> Result<(), Error>;

    /// All named streams.
    fn streams(&self) -> Result<Vec<StreamEntry>, Error> {
        let mut all = Vec::new();
        self.list_streams(&mut |stream| {
            all.push(stream);
            ControlFlow::Continue(())
        })?;
        Ok(all)
    }

    /// Opens a named stream, whatever the case of `name`; gives its stored name too. `None` where there is none.
    fn stream(&self, name: &str) -> Result<Option<NamedNode>, Error>;

    /// Makes a named stream: [`Error::Exists`] where there is one.
    fn create_stream(&self, name: &str) -> Result<Arc<dyn Node>, Error>;

    /// Renames a named stream of this file; with [`Replace::Yes`] a stream that has the name goes.
    fn rename_stream(&self, from: &str, to: &str, replace: Replace) -> Result<(), Error>;

    /// Removes a named stream. Nodes of it that are open keep working, or give [`Error::Gone`].
    fn remove_stream(&self, name: &str) -> Result<(), Error>;
}

/// The names in a directory, and how they are made, changed and removed.
pub trait Names: Node {
    /// Shows `take` the names in this directory from the cursor on, `.` and `..` not among them, in no order: at most some thousand of
    /// them, and none after one that it does not take. The cursor then stands behind the last one taken. False where there are no more.
    ///
    /// Whatever is made and removed between two calls, no name is shown twice, and none that stays is left out, as far as the file
    /// system keeps to what POSIX says of `seekdir`.
    fn list(&self, cursor: &mut Cursor, take: Take<'_>) -> Result<bool, Error>;

    /// True where [`Names::list`] has nothing to show.
    fn is_empty(&self) -> Result<bool, Error>;

    /// Shows `take` all names in this directory, in at most `pieces_max` calls of [`Names::list`]. False where that was not enough, or one was
    /// not taken.
    fn list_all(&self, pieces_max: usize, take: Take<'_>) -> Result<bool, Error> {
        list_on(self, &mut Cursor::default(), pieces_max, take)
    }

    /// Metadata of a name in this directory; [`Error::NotFound`] where it has gone since.
    fn entry_metadata(&self, name: &Name) -> Result<Metadata, Error>;

    /// The same for who keeps it in memory: `before` is called with what has the name, before its metadata is asked for, and not where
    /// nothing may be kept of that. Nothing is opened for its data, mounted or waited for.
    fn entry_metadata_after(&self, name: &Name, before: &mut dyn FnMut(Seen<'_>)) -> Result<Metadata, Error> {
        let _ = before;
        self.entry_metadata(name)
    }

    /// What has `name` in this directory, whatever its case, with its stored name; `None` where nothing has.
    fn child(&self, name: &Name, usage: Use) -> Result<Option<NamedNode>, Error>;

    /// True where `name` in this directory is `file`.
    fn has(&self, name: &Name, file: Identity) -> Result<bool, Error> {
        Ok(self.child(name, Use::Metadata)?.is_some_and(|(_, child)| child.identity() == file))
    }

    /// What [`Names::child`] gives without waiting: [`Error::WouldBlock`] where the answer is not in memory.
    fn try_child(&self, name: &Name, usage: Use) -> Result<Option<NamedNode>, Error> {
        self.child(name, usage)
    }

    /// What [`Names::create`] makes without waiting: [`Error::WouldBlock`], and nothing made, where it would wait, or read through the
    /// directory first.
    fn try_create(&self, name: &Name, new: NewNode<'_>) -> Result<Arc<dyn Node>, Error> {
        if self.waits() == Waits::Never { self.create(name, new) } else { Err(Error::WouldBlock) }
    }

    /// Makes a file or directory in this directory, exclusively, opened for [`Use::ReadWrite`]: [`Error::Exists`] where the name is
    /// taken in any case.
    fn create(&self, name: &Name, new: NewNode<'_>) -> Result<Arc<dyn Node>, Error>;

    /// Has something else take the place of what has `name` in this directory, in one step, and opens it. `expected` is what the caller
    /// believes has the name; [`Error::NotFound`] where it is something else by now. [`Error::NotEmpty`] for a directory with entries or a file with data,
    /// [`Error::TooManyLinks`] for a file with more names, [`Error::Invalid`] for a target that is no link's.
    fn replace_with(&self, name: &Name, expected: Identity, new: Replacement<'_>) -> Result<Arc<dyn Node>, Error> {
        let _ = (name, expected, new);
        Err(Error::Unsupported)
    }

    /// Gives what has `name` in this directory another name, there or in another directory. `expected` is what the caller believes it
    /// to be; [`Error::NotFound`] where it is something else by now. A change of case alone is a rename too. A directory does not move
    /// below itself: [`Error::Denied`].
    fn rename(&self, name: &Name, expected: Identity, to: Destination<'_>, replace: Replace) -> Result<(), Error>;

    /// Removes a name in this directory; the data goes with the last name and the last node. `expected` as with [`Names::rename`].
    /// [`Error::NotEmpty`] for a directory with entries.
    fn remove(&self, name: &Name, expected: Identity) -> Result<(), Error>;
}

/// Shows `take` all names from the cursor on, in at most `pieces_max` calls of [`Names::list`]. False where that was not enough, or one was not taken.
pub(crate) fn list_on<N: Names + ?Sized>(
    names: &N,
    cursor: &mut Cursor,
    pieces_max: usize,
    take: Take<'_>,
) -> Result<bool, Error> {
    let mut all_taken = true;
    for _ in 0..pieces_max {
        let more = names.list(cursor, &mut |entry| {
            let taken = take(entry);
            all_taken &= taken.is_continue();
            taken
        })?;
        if !more || !all_taken {
            return Ok(all_taken);
        }
    }
    Ok(false)
}
