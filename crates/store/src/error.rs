//! What can go wrong with a file, by cause.

/// Why a store did not do what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The answer is not in memory; ask again where waiting is allowed.
    #[error("the answer is not in memory")]
    WouldBlock,
    /// No such name.
    #[error("no such name")]
    NotFound,
    /// A directory on the way does not exist.
    #[error("a directory on the way does not exist")]
    PathNotFound,
    /// The name is taken.
    #[error("the name is taken")]
    Exists,
    /// A symbolic link stands on the way, which nobody here follows.
    #[error("a symbolic link is on the way")]
    Link,
    /// A directory was needed.
    #[error("not a directory")]
    NotDirectory,
    /// A file was needed.
    #[error("is a directory")]
    IsDirectory,
    /// The directory has entries.
    #[error("the directory is not empty")]
    NotEmpty,
    /// The name cannot be stored.
    #[error("the name cannot be stored")]
    NameInvalid,
    /// The operating system or the fence around the share says no.
    #[error("access denied")]
    Denied,
    /// The store cannot be written.
    #[error("the store is read-only")]
    ReadOnly,
    /// No space, or the quota is reached.
    #[error("no space left")]
    Full,
    /// Too large for this store: a file's length, an attribute, a stream.
    #[error("too large for this store")]
    TooLarge,
    /// Too many names for one file.
    #[error("too many names for one file")]
    TooManyLinks,
    /// Names on different volumes.
    #[error("the names are on different volumes")]
    CrossVolume,
    /// The store cannot do this.
    #[error("the store cannot do this")]
    Unsupported,
    /// An argument makes no sense for this node.
    #[error("an argument makes no sense here")]
    Invalid,
    /// Another process serves the folder, or one that it lies in; its number, or 0 where that is not known.
    #[error("another server serves it{}", process(*.0))]
    Served(u32),
    /// The folder lies in another that is served, or one in it, and one of them has no extended attributes.
    #[error("of two folders that are served one lies in the other, and not both have extended attributes")]
    Nested,
    /// No more files can be open, in this process or on this machine.
    #[error("too many files are open on this machine")]
    TooManyOpen,
    /// The machine has no memory for it.
    #[error("the machine has no memory left")]
    NoMemory,
    /// The node, or the folder behind the share, is no longer there.
    #[error("the file or the folder behind the share is no longer there")]
    Gone,
    /// The device or the kernel failed, with its error number.
    #[error("input/output error {0}")]
    Io(i32),
}

/// Which process that is, where it is known.
fn process(number: u32) -> String {
    if number == 0 { String::new() } else { format!(", process {number}") }
}

/// What a file is like where a change of several things failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Left {
    /// As it was before.
    AsItWas,
    /// Something may have changed.
    Changed,
}

/// A change of several things that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Why.
    pub error: Error,
    /// What the file is like now.
    pub left: Left,
}

impl Failed {
    /// Before anything was done.
    pub fn untouched(error: Error) -> Self {
        Failed { error, left: Left::AsItWas }
    }
}

/// Where nothing says otherwise, something has changed.
impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Failed { error, left: Left::Changed }
    }
}
