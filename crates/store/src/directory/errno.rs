//! What the kernel's error numbers mean here.

use rustix::io::Errno;

use crate::Error;

/// The meaning of an error wherever it has only one.
pub(super) fn error(errno: Errno) -> Error {
    match errno {
        Errno::NOENT => Error::NotFound,
        Errno::EXIST => Error::Exists,
        Errno::NOTDIR => Error::NotDirectory,
        Errno::ISDIR => Error::IsDirectory,
        Errno::NOTEMPTY => Error::NotEmpty,
        Errno::NAMETOOLONG | Errno::ILSEQ => Error::NameInvalid,
        Errno::ACCESS | Errno::PERM | Errno::LOOP | Errno::TXTBSY | Errno::BUSY => Error::Denied,
        Errno::ROFS => Error::ReadOnly,
        Errno::NOSPC | Errno::DQUOT => Error::Full,
        Errno::FBIG | Errno::OVERFLOW | Errno::TOOBIG => Error::TooLarge,
        Errno::MFILE | Errno::NFILE => Error::TooManyOpen,
        Errno::NOMEM => Error::NoMemory,
        Errno::MLINK => Error::TooManyLinks,
        Errno::XDEV => Error::CrossVolume,
        Errno::INVAL => Error::Invalid,
        Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY => Error::Unsupported,
        Errno::AGAIN => Error::WouldBlock,
        Errno::STALE | Errno::NOTCONN => Error::Gone,
        other => Error::Io(other.raw_os_error()),
    }
}

/// For opens through the fence: leaving the share, a loop of links, and what is neither file nor directory are
/// refused.
pub(super) fn opening(errno: Errno) -> Error {
    match errno {
        Errno::XDEV | Errno::LOOP | Errno::NXIO | Errno::NODEV => Error::Denied,
        other => error(other),
    }
}

/// For extended attributes that are read: what is said to have no room is no attribute that is not there.
pub(super) fn reading_attribute(errno: Errno) -> Error {
    match errno {
        Errno::RANGE => Error::TooLarge,
        other => error(other),
    }
}
