//! Shares: where their files live and how they are guarded.

use std::fs;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::{Catalog, account_or_first, room_for_one};
use crate::look::Look;
use crate::served_folder::{self, HANGS_AFTER};
use crate::{AccountName, Error, ShareName};

/// Shares on one server: each has a store that stays open.
const SHARES_MAX: i64 = 1000;
/// The most characters in a comment.
const COMMENT_MAX: usize = 256;

/// Where a share's files live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A folder of this machine.
    Folder {
        /// Its absolute path.
        path: PathBuf,
        /// The most it may hold, in GiB; no bound where there is none.
        quota_gib: Option<NonZeroU32>,
    },
    /// Memory. What it holds goes when the share is deleted or the server stops.
    Ram {
        /// Its size in bytes.
        bytes: NonZeroU64,
    },
}

/// The permissions that new files and directories of a folder have on this machine; where nothing is said, 0600 and 0700.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modes {
    /// Of files.
    pub file: Option<u32>,
    /// Of directories.
    pub directory: Option<u32>,
}

/// A share to be made.
#[derive(Clone, Debug)]
pub struct NewShare {
    /// Its name.
    pub name: ShareName,
    /// Its account; the oldest where none is named.
    pub account: Option<AccountName>,
    /// Where its files live.
    pub source: Source,
    /// Refuse every change.
    pub read_only: bool,
    /// Refuse clients that do not seal.
    pub seal_required: bool,
    /// Keep clients' opens when the server restarts. Only folders can.
    pub continuous: bool,
    /// List only what the reader may read.
    pub access_based: bool,
    /// The permissions of what is made in a folder.
    pub modes: Modes,
    /// A sentence for people who browse.
    pub comment: String,
}

/// A share in the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareRecord {
    /// A number that names it for its life and no other share after it.
    pub id: i64,
    /// Its name, in the case it was given.
    pub name: String,
    /// Its account.
    pub account: String,
    /// Where its files live.
    pub source: Source,
    /// Refuse every change.
    pub read_only: bool,
    /// Refuse clients that do not seal.
    pub seal_required: bool,
    /// Keep clients' opens when the server restarts. Only folders can.
    pub continuous: bool,
    /// List only what the reader may read.
    pub access_based: bool,
    /// The permissions of what is made in a folder.
    pub modes: Modes,
    /// A sentence for people who browse.
    pub comment: String,
}

/// What to change about a share; `None` leaves a thing as it is.
#[derive(Clone, Debug, Default)]
pub struct ShareChanges {
    /// A new quota, or none. Only folders have one.
    pub quota_gib: Option<Option<NonZeroU32>>,
    /// Refuse every change, or not.
    pub read_only: Option<bool>,
    /// Refuse clients that do not seal, or not.
    pub seal_required: Option<bool>,
    /// Keep clients' opens when the server restarts, or not.
    pub continuous: Option<bool>,
    /// List only what the reader may read, or everything.
    pub access_based: Option<bool>,
    /// A new comment.
    pub comment: Option<String>,
}

impl Catalog {
    /// Makes a share. A folder must exist, and answer within two seconds, and must not hold the data folder, which would give away every key.
    pub fn create_share(&mut self, new: &NewShare) -> Result<ShareRecord, Error> {
        check_comment(&new.comment)?;
        let source = checked_source(&new.source, &self.folder)?;
        check_continuous(&source, new.continuous)?;
        self.write(|transaction| {
            let (account_id, _) = account_or_first(transaction, new.account.as_ref())?;
            room_for_one(transaction, "share", SHARES_MAX)?;
            if let Some(taken) = find(transaction, &new.name)? {
                return Err(Error::conflict(
                    format!("a share named {:?} exists already, of account {:?}", taken.name, taken.account),
                    "choose another name: a client's path names the server and the share, but no account",
                ));
            }
            insert(transaction, new, &source, account_id)?;
            find(transaction, &new.name)?.ok_or_else(|| no_share(&new.name))
        })
    }

    /// All shares, by name.
    pub fn shares(&self) -> Result<Vec<ShareRecord>, Error> {
        all(&self.connection)
    }

    /// One share, whatever the case of its name.
    pub fn share(&self, name: &ShareName) -> Result<ShareRecord, Error> {
        find(&self.connection, name)?.ok_or_else(|| no_share(name))
    }

    /// Changes a share; gives it as it is then.
    pub fn update_share(&mut self, name: &ShareName, changes: &ShareChanges) -> Result<ShareRecord, Error> {
        changes.comment.as_deref().map_or(Ok(()), check_comment)?;
        self.write(|transaction| {
            let mut share = find(transaction, name)?.ok_or_else(|| no_share(name))?;
            if let Some(quota) = changes.quota_gib {
                match &mut share.source {
                    Source::Folder { quota_gib, .. } => *quota_gib = quota,
                    Source::Ram { .. } => return Err(ram_has_no_quota()),
                }
            }
            share.read_only = changes.read_only.unwrap_or(share.read_only);
            share.seal_required = changes.seal_required.unwrap_or(share.seal_required);
            share.comment = changes.comment.clone().unwrap_or(share.comment);
            share.continuous = changes.continuous.unwrap_or(share.continuous);
            share.access_based = changes.access_based.unwrap_or(share.access_based);
            check_continuous(&share.source, share.continuous)?;
            let quota = match share.source {
                Source::Folder { quota_gib, .. } => quota_gib.map(NonZeroU32::get),
                Source::Ram { .. } => None,
            };
            transaction.execute(
                "UPDATE share SET quota_gib = ?2, read_only = ?3, seal_required = ?4, comment = ?5, continuous = ?6,
                     access_based = ?7
                 WHERE id = ?1",
                params![
                    share.id,
                    quota,
                    share.read_only,
                    share.seal_required,
                    share.comment,
                    share.continuous,
                    share.access_based
                ],
            )?;
            Ok(share)
        })
    }

    /// Takes a share out of the catalog; gives it as it was. A folder keeps its files.
    pub fn delete_share(&mut self, name: &ShareName) -> Result<ShareRecord, Error> {
        self.write(|transaction| {
            let share = find(transaction, name)?.ok_or_else(|| no_share(name))?;
            transaction.execute("DELETE FROM share WHERE id = ?1", [share.id])?;
            Ok(share)
        })
    }
}

/// What a RAM disk holds does not survive a restart, so no open of it can.
fn check_continuous(source: &Source, continuous: bool) -> Result<(), Error> {
    match source {
        Source::Ram { .. } if continuous => Err(Error::argument(
            "a RAM disk cannot be continuously available: it is empty after a restart",
            "share a folder, or leave out --continuous",
        )),
        Source::Ram { .. } | Source::Folder { .. } => Ok(()),
    }
}

/// A RAM disk's size is all the quota it has.
pub(crate) fn ram_has_no_quota() -> Error {
    Error::argument("a RAM disk has no quota", "its size is what --ram said: leave out --quota")
}

/// All shares, by name.
pub(super) fn all(connection: &Connection) -> Result<Vec<ShareRecord>, Error> {
    let mut select = connection.prepare(&select("ORDER BY folded_name"))?;
    let rows = select.query_map([], record)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn find(connection: &Connection, name: &ShareName) -> Result<Option<ShareRecord>, Error> {
    let folded = store::fold(name.as_str());
    Ok(connection.query_row(&select("WHERE folded_name = ?1"), [folded], record).optional()?)
}

/// The columns that [`record`] reads, of the rows that `which` says.
fn select(which: &str) -> String {
    format!(
        "SELECT id, share.name, account.name, folder, ram_bytes, quota_gib, read_only, seal_required, comment,
                continuous, access_based, file_mode, directory_mode
         FROM share JOIN account ON account.relative_id = share.account {which}"
    )
}

fn record(row: &Row<'_>) -> rusqlite::Result<ShareRecord> {
    let folder: Option<String> = row.get(3)?;
    let source = match folder {
        Some(path) => Source::Folder { path: path.into(), quota_gib: row.get(5)? },
        None => Source::Ram {
            bytes: NonZeroU64::try_from(u64::try_from(row.get::<_, i64>(4)?).unwrap_or(1)).unwrap_or(NonZeroU64::MIN),
        },
    };
    Ok(ShareRecord {
        id: row.get(0)?,
        name: row.get(1)?,
        account: row.get(2)?,
        source,
        read_only: row.get(6)?,
        seal_required: row.get(7)?,
        comment: row.get(8)?,
        continuous: row.get(9)?,
        access_based: row.get(10)?,
        modes: Modes { file: row.get(11)?, directory: row.get(12)? },
    })
}

fn insert(transaction: &Transaction<'_>, new: &NewShare, source: &Source, account_id: u32) -> Result<(), Error> {
    let (folder, ram_bytes, quota_gib) = match source {
        Source::Folder { path, quota_gib } => (path.to_str(), None, quota_gib.map(NonZeroU32::get)),
        Source::Ram { bytes } => (None, Some(i64::try_from(bytes.get()).unwrap_or(i64::MAX)), None),
    };
    transaction.execute(
        "INSERT INTO share (name, folded_name, account, folder, ram_bytes, quota_gib, read_only, seal_required, comment,
                            continuous, access_based, file_mode, directory_mode)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        params![
            new.name.as_str(),
            store::fold(new.name.as_str()),
            account_id,
            folder,
            ram_bytes,
            quota_gib,
            new.read_only,
            new.seal_required,
            new.comment,
            new.continuous,
            new.access_based,
            new.modes.file,
            new.modes.directory
        ],
    )?;
    Ok(())
}

/// The source with its folder's path absolute and free of symbolic links, so that it means the same to the server.
fn checked_source(source: &Source, data: &Path) -> Result<Source, Error> {
    let Source::Folder { path, quota_gib } = source else {
        return Ok(source.clone());
    };
    let asked = path.clone();
    let look = Look::begin(move || fs::canonicalize(asked).map(|whole| (whole.is_dir(), whole)))
        .map_err(|cause| Error::machine(format!("there is no thread to look at the folder: {cause}"), "try again"))?;
    let found = look.wait(Instant::now() + HANGS_AFTER).ok_or_else(|| {
        let remedy = "see what hangs there: a disk, a server, or the program of a FUSE file system; then try again";
        Error::machine(served_folder::silent(path), remedy)
    })?;
    let remedy = "make it with `mkdir`, or name another";
    let (is_folder, whole) = found
        .map_err(|cause| Error::argument(format!("the folder {} cannot be shared: {cause}", path.display()), remedy))?;
    if !is_folder {
        return Err(Error::argument(format!("{} is not a folder", path.display()), "name a folder"));
    }
    if data.starts_with(&whole) {
        return Err(Error::argument(
            format!("{} holds the data folder {}, with the keys of every account", whole.display(), data.display()),
            "share another folder, or one inside it",
        ));
    }
    if whole.to_str().is_none() {
        let what = format!("the path {} is not UTF-8", whole.display());
        return Err(Error::argument(what, "rename the folder, or name another"));
    }
    Ok(Source::Folder { path: whole, quota_gib: *quota_gib })
}

fn check_comment(comment: &str) -> Result<(), Error> {
    if comment.chars().count() <= COMMENT_MAX && !comment.contains(char::is_control) {
        return Ok(());
    }
    let remedy = format!("use at most {COMMENT_MAX} characters on one line");
    Err(Error::argument("the comment is too long or has control characters", remedy))
}

fn no_share(name: &ShareName) -> Error {
    Error::missing(format!("there is no share {:?}", name.as_str()), "`multilane share list` shows those there are")
}
