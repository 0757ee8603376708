//! What can go wrong with a file, by cause.

use std::fmt;

/// Why a store did not do what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The answer is not in memory; ask again where waiting is allowed.
    WouldBlock,
    /// No such name.
    NotFound,
    /// A directory on the way does not exist.
    PathNotFound,
    /// The name is taken.
    Exists,
    /// A directory was needed.
    NotDirectory,
    /// A file was needed.
    IsDirectory,
    /// The directory has entries.
    NotEmpty,
    /// The name cannot be stored.
    NameInvalid,
    /// The operating system or the fence around the share says no.
    Denied,
    /// The store cannot be written.
    ReadOnly,
    /// No space, or the quota is reached.
    Full,
    /// Too large for this store: a file's length, an attribute, a stream.
    TooLarge,
    /// Too many names for one file.
    TooManyLinks,
    /// Names on different volumes.
    CrossVolume,
    /// The store cannot do this.
    Unsupported,
    /// An argument makes no sense for this node.
    Invalid,
    /// Another process serves the folder, or one that it lies in; its number, or 0 where that is not known.
    Served(u32),
    /// The folder lies in another that is served, or one in it, and one of them has no extended attributes.
    Nested,
    /// No more files can be open, in this process or on this machine.
    TooManyOpen,
    /// The machine has no memory for it.
    NoMemory,
    /// The node, or the folder behind the share, is no longer there.
    Gone,
    /// The device or the kernel failed, with its error number.
    Io(i32),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::WouldBlock => write!(f, "the answer is not in memory"),
            Error::NotFound => write!(f, "no such name"),
            Error::PathNotFound => write!(f, "a directory on the way does not exist"),
            Error::Exists => write!(f, "the name is taken"),
            Error::NotDirectory => write!(f, "not a directory"),
            Error::IsDirectory => write!(f, "is a directory"),
            Error::NotEmpty => write!(f, "the directory is not empty"),
            Error::NameInvalid => write!(f, "the name cannot be stored"),
            Error::Denied => write!(f, "access denied"),
            Error::ReadOnly => write!(f, "the store is read-only"),
            Error::Full => write!(f, "no space left"),
            Error::TooLarge => write!(f, "too large for this store"),
            Error::TooManyLinks => write!(f, "too many names for one file"),
            Error::CrossVolume => write!(f, "the names are on different volumes"),
            Error::Unsupported => write!(f, "the store cannot do this"),
            Error::Invalid => write!(f, "an argument makes no sense here"),
            Error::Served(0) => write!(f, "another server serves it"),
            Error::Served(number) => write!(f, "another server serves it, process {number}"),
            Error::Nested => {
                write!(f, "of two folders that are served one lies in the other, and not both have extended attributes")
            }
            Error::TooManyOpen => write!(f, "too many files are open on this machine"),
            Error::NoMemory => write!(f, "the machine has no memory left"),
            Error::Gone => write!(f, "the file or the folder behind the share is no longer there"),
            Error::Io(number) => write!(f, "input/output error {number}"),
        }
    }
}

impl std::error::Error for Error {}

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
