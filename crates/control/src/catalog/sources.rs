//! Where the files of shares live.

use std::fs;
use std::io;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::audit_place::audit_log_in;
use crate::look::Look;
use crate::own_folder;
use crate::served_folder::{self, HANGS_AFTER};
use crate::within::given_away;
use crate::{DataFolder, Error};

/// Where a share's files live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A folder of this machine.
    Folder {
        /// Its absolute path.
        path: PathBuf,
        /// The most it may hold, in GiB; no bound where there is none. Of a provisioned share it is the size that is provisioned.
        quota_gib: Option<NonZeroU32>,
    },
    /// Memory. What it holds goes when the share is deleted or the server stops.
    Ram {
        /// Its size in bytes.
        bytes: NonZeroU64,
    },
}

impl Source {
    /// Its folder. A RAM disk has none.
    pub(crate) fn folder(&self) -> Option<&Path> {
        match self {
            Source::Folder { path, .. } => Some(path),
            Source::Ram { .. } => None,
        }
    }

    /// True of a folder that was made for a share, in the data folder. It goes with the share.
    pub fn is_own(&self, data: &DataFolder) -> bool {
        matches!(self, Source::Folder { path, .. } if own_folder::is_own(path, data.path()))
    }

    /// True of this folder.
    pub(crate) fn is_at(&self, folder: &Path) -> bool {
        matches!(self, Source::Folder { path, .. } if path == folder)
    }

    /// The most that a folder may hold, in GiB. A RAM disk has its size.
    pub fn quota_gib(&self) -> Option<NonZeroU32> {
        match self {
            Source::Folder { quota_gib, .. } => *quota_gib,
            Source::Ram { .. } => None,
        }
    }
}

/// Whether clients may change what is in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changes {
    Allowed,
    Refused,
}

impl Changes {
    /// Of a share that is read-only, or not.
    pub(crate) fn of(read_only: bool) -> Self {
        if read_only { Changes::Refused } else { Changes::Allowed }
    }
}

/// The source with its folder's path absolute and free of symbolic links, so that it means the same to the server, which must be allowed to do there
/// what clients may.
pub(super) fn checked(source: &Source, changes: Changes, data: &Path) -> Result<Source, Error> {
    let Source::Folder { path, quota_gib } = source else {
        return Ok(source.clone());
    };
    let (asked, at) = (path.clone(), data.to_owned());
    let seen = move || {
        let whole = fs::canonicalize(asked)?;
        let (given_away, audit_log) = (given_away(&whole, &at), audit_log_in(&whole, &at));
        Ok((whole.is_dir(), given_away, audit_log, served_folder::unusable(&whole, changes), whole))
    };
    let look = Look::begin(seen)
        .map_err(|cause| Error::machine(format!("there is no thread to look at the folder: {cause}"), "try again"))?;
    let found = look.wait(Instant::now() + HANGS_AFTER).ok_or_else(|| {
        let remedy = "see what hangs there: a disk, a server, or the program of a FUSE file system; then try again";
        Error::machine(served_folder::silent(path), remedy)
    })?;
    let remedy = "make it with `mkdir`, or name another";
    let (is_folder, given_away, audit_log, unusable, whole) = found.map_err(|cause: io::Error| {
        Error::argument(format!("the folder {} cannot be shared: {cause}", path.display()), remedy)
    })?;
    if !is_folder {
        return Err(Error::argument(format!("{} is not a folder", path.display()), "name a folder"));
    }
    if let Some(given_away) = given_away {
        return Err(Error::argument(given_away, "share another folder, or one inside it"));
    }
    if let Some(log) = audit_log {
        return Err(Error::argument(
            format!("{} holds the audit log {}, which users of the share could change", whole.display(), log.display()),
            "share another folder, or have the server write its audit log elsewhere with `serve --audit-log`",
        ));
    }
    if let Some(unusable) = unusable {
        let remedy = match changes {
            Changes::Allowed => "give it to that user with `chown`, or share it with --read-only",
            Changes::Refused => "have that user be let in with `chmod` or `setfacl`",
        };
        return Err(Error::argument(unusable, remedy));
    }
    if whole.to_str().is_none() {
        let what = format!("the path {} is not UTF-8", whole.display());
        return Err(Error::argument(what, "rename the folder, or name another"));
    }
    Ok(Source::Folder { path: whole, quota_gib: *quota_gib })
}
