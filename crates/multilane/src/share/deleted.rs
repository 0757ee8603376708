//! Shares that were deleted: what commands say of them.

use control::{
    Catalog, DataFolder, DeletedShare, Deletion, Error, LeaseState, LeaseTime, ShareName, ShareSnapshot, Source,
    lease_state,
};
use serde::Serialize;

use crate::data;
use crate::question;
use crate::table::{Table, printable};

/// A share that is deleted and kept, as `--json` prints it.
#[derive(Serialize)]
pub(super) struct Shown {
    name: String,
    account: String,
    version: String,
    deleted: String,
    kept_until: String,
    /// Its folder.
    path: Option<std::path::PathBuf>,
}

/// A share that was deleted just now, as `--json` prints it.
#[derive(Serialize)]
pub(super) struct Gone<'a> {
    deleted: &'a str,
    /// Until when it can be had again; null where it cannot.
    kept_until: Option<String>,
    /// The commands that make one like it, with its rights.
    again: Vec<String>,
}

impl<'a> Gone<'a> {
    pub(super) fn of(deletion: &'a Deletion, again: Vec<String>) -> Self {
        let kept_until = match deletion {
            Deletion::Kept(kept) => Some(format!("{:.0}", kept.kept_until)),
            Deletion::FilesStay(_) | Deletion::FilesGo(_) => None,
        };
        Gone { deleted: &deletion.share().name, kept_until, again }
    }
}

pub(super) fn shown(shares: Vec<DeletedShare>) -> Vec<Shown> {
    let shown = |deleted: DeletedShare| Shown {
        version: deleted.version(),
        deleted: format!("{:.0}", deleted.deleted),
        kept_until: format!("{:.0}", deleted.kept_until),
        path: match deleted.share.source {
            Source::Folder { path, .. } => Some(path),
            Source::Ram { .. } => None,
        },
        name: deleted.share.name,
        account: deleted.share.account,
    };
    shares.into_iter().map(shown).collect()
}

pub(super) fn table(shares: &[Shown]) -> String {
    let mut table = Table::new(["NAME", "ACCOUNT", "VERSION", "DELETED", "KEPT UNTIL"]);
    for one in shares {
        table.row([&one.name, &one.account, &one.version, &one.deleted, &one.kept_until].map(Clone::clone));
    }
    table.text()
}

/// What is to be known below a list of shares.
pub(super) fn note(kept: usize) -> String {
    match kept {
        0 => String::new(),
        1 => "\n1 deleted share is kept: see `multilane share list --deleted`\n".to_owned(),
        kept => format!("\n{kept} deleted shares are kept: see `multilane share list --deleted`\n"),
    }
}

pub(super) fn text(deletion: &Deletion, gone: &Gone<'_>) -> String {
    let share = deletion.share();
    let (kept, how) = match (deletion, &share.source) {
        (Deletion::Kept(kept), _) => {
            return format!(
                "deleted share {}; it is kept until {:.0}, and `multilane share undelete` has it there again\n",
                share.name, kept.kept_until
            );
        }
        (Deletion::FilesStay(_), Source::Folder { path, .. }) => (
            format!(
                "the files in {} are still there, and so is .multilane, which has streams and descriptors of some of them",
                path.display()
            ),
            "such a share",
        ),
        (Deletion::FilesGo(_), Source::Folder { .. }) => {
            ("the folder that was made for it is gone with its files".to_owned(), "such a share, empty,")
        }
        (Deletion::FilesStay(_) | Deletion::FilesGo(_), Source::Ram { .. }) => {
            ("the files on its RAM disk are gone".to_owned(), "such a share")
        }
    };
    let again: Vec<String> = gone.again.iter().map(|command| format!("  {}\n", printable(command))).collect();
    format!("deleted share {}; {kept}\nto have {how} again:\n{}", share.name, again.concat())
}

/// Asks whether to go on where files go with the share, or somebody has a lease of it.
pub(super) fn agree(catalog: &Catalog, folder: &DataFolder, name: &ShareName) -> Result<(), Error> {
    let share = catalog.share(name)?;
    let lease = catalog.azure_share(name)?.lease;
    if matches!(lease_state(lease.as_ref(), LeaseTime::now()), LeaseState::Leased | LeaseState::Breaking) {
        return Err(Error::conflict(
            format!("a client of Azure Files has a lease of the share {:?}, so that nobody deletes it", share.name),
            "have it released or broken, or go on with --force",
        ));
    }
    let all = catalog.snapshots(name)?;
    if all.iter().any(ShareSnapshot::is_leased) {
        return Err(Error::conflict(
            format!(
                "a client of Azure Files has a lease of a snapshot of the share {:?}, so that nobody deletes it",
                share.name
            ),
            "have it released or broken, or go on with --force",
        ));
    }
    let is_kept = catalog.account(&share.account.parse()?)?.retention_days.is_some();
    let snapshots = match all.len() {
        0 => None,
        1 => Some("a snapshot".to_owned()),
        more => Some(format!("{more} snapshots")),
    };
    let goes = match (share.source.is_own(folder), snapshots) {
        (true, None) => "all files".to_owned(),
        (true, Some(snapshots)) => format!("all files and {snapshots}"),
        (false, Some(snapshots)) => snapshots,
        (false, None) => return Ok(()),
    };
    if is_kept {
        return Ok(());
    }
    let question = match share.source.is_own(folder) {
        true => format!("The folder of share {} was made for it, and goes with {goes}. Delete them?", share.name),
        false => format!("With share {} go {goes} of it, and not its files. Delete them?", share.name),
    };
    match question::ask(&question) {
        question::Answer::Yes => Ok(()),
        question::Answer::No | question::Answer::NobodyToAsk => Err(Error::conflict(
            format!("{goes} of share {:?} would go with it, and nothing is changed", share.name),
            "go on with --force, or have deleted shares kept with `account update --share-retention DAYS`",
        )),
    }
}

/// Has the server take up that a share is gone. Where none runs, what is to go goes now.
pub(super) fn take_away(folder: &DataFolder, catalog: &mut Catalog) -> Result<(), Error> {
    if data::reload(folder)?.is_none() && !folder.is_served() {
        catalog.sweep()?;
    }
    Ok(())
}
