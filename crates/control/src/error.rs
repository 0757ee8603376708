//! What goes wrong in the control plane, told to an operator: what happened, and what to do.

use std::io;
use std::path::Path;

use crate::LeaseRefusal;

/// Whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An argument that can never be right.
    Argument,
    /// What was named does not exist.
    Missing,
    /// It exists already, or is in use.
    Conflict,
    /// The machine: disk, permissions, another process.
    Machine,
}

/// A sentence on what happened and one on what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}; {remedy}")]
pub struct Error {
    fault: Fault,
    what: String,
    remedy: String,
    of_catalog: OfCatalog,
    reason: Reason,
}

/// Why something is not done, for who has a word of its own for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// What the error says, and nobody has a word for.
    Other,
    /// There is no such share.
    NoShare,
    /// A share has that name.
    ShareExists,
    /// A provisioned value was increased less than 24 hours ago.
    TooSoon(Measure),
    /// No share is provisioned with such a value.
    OutOfRange(Measure),
    /// The account has no more of it.
    AccountFull(Measure),
    /// The account, or the server, has as many shares as it takes.
    TooManyShares,
    /// There are as many descriptors as are kept.
    TooManyPermissions,
    /// There was more to do than somebody waits for.
    TookTooLong,
    /// Others are at it, and it may be done when they are.
    Busy,
    /// A lease keeps it from being done.
    Lease(LeaseRefusal),
    /// There is no such snapshot of the share.
    NoSnapshot,
    /// No snapshots can be made of the share.
    SnapshotsUnsupported,
    /// It has as many as it may.
    TooManySnapshots,
    /// One is being made or deleted.
    SnapshotInProgress,
    /// It has some, and was to be deleted without them.
    HasSnapshots,
    /// A snapshot of it has a lease.
    SnapshotLeased,
    /// The disk is as full as it may be.
    DiskFull,
    /// The disk takes no changes.
    DiskReadOnly,
}

/// What a share is provisioned with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Its size.
    Size,
    /// Operations per second.
    Iops,
    /// Throughput.
    Throughput,
}

/// What kept the catalog's files from being used, where that makes a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OfCatalog {
    Other,
    /// Another program has held them for too long.
    Busy,
    /// There was no room.
    Full,
    /// They are damaged, or no catalog's.
    Damaged,
}

impl Error {
    fn new(fault: Fault, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Error { fault, what: what.into(), remedy: remedy.into(), of_catalog: OfCatalog::Other, reason: Reason::Other }
    }

    /// An argument that can never be right.
    pub fn argument(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Error::new(Fault::Argument, what, remedy)
    }

    /// Something named does not exist.
    pub fn missing(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Error::new(Fault::Missing, what, remedy)
    }

    /// Something exists already or is in use.
    pub fn conflict(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Error::new(Fault::Conflict, what, remedy)
    }

    /// The machine did not do its part.
    pub fn machine(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Error::new(Fault::Machine, what, remedy)
    }

    /// The operating system refused to do `what` with `path`.
    pub(crate) fn system(what: &str, path: &Path, cause: &io::Error) -> Self {
        let remedy = match cause.kind() {
            io::ErrorKind::PermissionDenied => "run the command as the user who owns the data folder",
            io::ErrorKind::StorageFull => "free some space on that disk",
            io::ErrorKind::ReadOnlyFilesystem => "have that file system mounted for writing",
            _ => "check the path and the disk under it",
        };
        let error = Error::machine(format!("cannot {what} {}: {cause}", path.display()), remedy);
        match cause.kind() {
            io::ErrorKind::StorageFull => error.because(Reason::DiskFull),
            io::ErrorKind::ReadOnlyFilesystem => error.because(Reason::DiskReadOnly),
            _ => error,
        }
    }

    /// The same, for this reason.
    pub fn because(self, reason: Reason) -> Self {
        Error { reason, ..self }
    }

    /// Why something is not done.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        self.fault
    }

    /// True where another program has held the catalog for too long.
    pub(crate) fn is_busy(&self) -> bool {
        self.of_catalog == OfCatalog::Busy
    }

    /// True where the disk of the catalog's files had no room.
    pub(crate) fn is_full(&self) -> bool {
        self.of_catalog == OfCatalog::Full
    }

    /// True where the catalog's files are damaged, or no catalog's.
    pub(crate) fn is_damage(&self) -> bool {
        self.of_catalog == OfCatalog::Damaged
    }

    /// What happened.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// What to do.
    pub fn remedy(&self) -> &str {
        &self.remedy
    }
}

impl From<rusqlite::Error> for Error {
    fn from(cause: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode;
        use rusqlite::ffi::SQLITE_IOERR_SHMSIZE;
        let what = format!("the catalog could not be used: {cause}");
        let (of_catalog, remedy) = match cause.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                (OfCatalog::Busy, "another program has held it for seconds; try again, or end that program")
            }
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                (OfCatalog::Other, "run the command as the user who owns the data folder")
            }
            Some(ErrorCode::DiskFull) => (OfCatalog::Full, "free some space on that disk"),
            // There is none for the index of the catalog's log.
            Some(_) if cause.sqlite_extended_error_code() == Some(SQLITE_IOERR_SHMSIZE) => {
                (OfCatalog::Full, "free some space on that disk")
            }
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => (
                OfCatalog::Damaged,
                "catalog.db in the data folder is damaged or no catalog; restore a backup with `multilane restore FILE`",
            ),
            _ => (OfCatalog::Other, "check the data folder and the disk under it"),
        };
        let reason = match of_catalog {
            OfCatalog::Full => Reason::DiskFull,
            _ if cause.sqlite_error_code() == Some(ErrorCode::ReadOnly) => Reason::DiskReadOnly,
            OfCatalog::Other | OfCatalog::Busy | OfCatalog::Damaged => Reason::Other,
        };
        Error { of_catalog, reason, ..Error::machine(what, remedy) }
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi::{self, SQLITE_BUSY, SQLITE_FULL, SQLITE_IOERR_SHMSIZE, SQLITE_READONLY};

    use super::*;

    #[test]
    fn a_disk_that_is_full_or_takes_no_changes_is_told_by_the_reason() {
        for (code, reason) in [
            (SQLITE_FULL, Reason::DiskFull),
            (SQLITE_IOERR_SHMSIZE, Reason::DiskFull),
            (SQLITE_READONLY, Reason::DiskReadOnly),
            (SQLITE_BUSY, Reason::Other),
        ] {
            let error = Error::from(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
            assert_eq!((error.fault(), error.reason()), (Fault::Machine, reason), "{code}");
        }
        for (kind, reason) in [
            (io::ErrorKind::StorageFull, Reason::DiskFull),
            (io::ErrorKind::ReadOnlyFilesystem, Reason::DiskReadOnly),
            (io::ErrorKind::NotADirectory, Reason::Other),
        ] {
            let error = Error::system("make", Path::new("/folder"), &kind.into());
            assert_eq!((error.fault(), error.reason()), (Fault::Machine, reason), "{kind}");
        }
    }
}
