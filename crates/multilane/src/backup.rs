//! `multilane backup` and `multilane restore`.

use std::path::{Path, PathBuf};

use clap::Args;
use control::{Error, Existing, Holds, LostShare, Problem, Restored, restore_catalog};
use rustix::fs::Access;
use rustix::io::Errno;

use crate::data;
use crate::hints::quoted;
use crate::output::Output;
use crate::question::{self, Answer};
use crate::table::printable;

const BACKUP_EXAMPLES: &str = "\
Examples:
  multilane backup /backup/multilane.db
  multilane backup --force /backup/multilane.db    replace the backup of that name

The file has accounts, users, operators, shares and settings, with keys and hashes of passwords:
only its owner may read it. What clients have stored is not in it. The server goes on meanwhile.";

#[derive(Debug, Args)]
#[command(after_help = BACKUP_EXAMPLES)]
pub(crate) struct Backup {
    /// The new file, in no folder that is shared
    pub(crate) file: PathBuf,

    /// Replace the backup that has this name
    #[arg(long)]
    pub(crate) force: bool,
}

const RESTORE_EXAMPLES: &str = "\
Examples:
  multilane restore /backup/multilane.db
  multilane restore --force /backup/multilane.db    also where it opens what was closed since

The backup takes the place of accounts, users, operators, shares and settings, whole or not at all.
What was there before is kept in a file whose name is printed. A running server serves at once what
was restored: sessions of who may no longer sign in end. Users that were disabled or deleted since
the backup, passwords and keys that were changed, rights that were taken away: all of that is as it
was then. The command names what it opens, and asks, or wants --force. It names shares that are not
in the backup, too, and where their files stay.";

#[derive(Debug, Args)]
#[command(after_help = RESTORE_EXAMPLES)]
pub(crate) struct Restore {
    /// What `multilane backup` has made
    pub(crate) file: PathBuf,

    /// Allow what the backup allows and is not allowed now
    #[arg(long)]
    pub(crate) force: bool,
}

pub(crate) fn back_up(path: &Path, arguments: &Backup, output: Output) -> Result<(), Error> {
    let (_, catalog) = data::open(path)?;
    let folder = arguments.file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    refuse_forbidden(folder, Access::WRITE_OK | Access::EXEC_OK, "make a file in")?;
    let existing = if arguments.force { Existing::IsReplaced } else { Existing::IsKept };
    let made = catalog.back_up(&arguments.file, existing)?;
    output.print(&made, |made| format!("backed up {} to {}\n", held(&made.holds), made.file.display()))
}

pub(crate) fn restore(path: &Path, arguments: &Restore, output: Output) -> Result<(), Error> {
    refuse_forbidden(&arguments.file, Access::READ_OK, "read")?;
    let restored = restored(path, arguments)?;
    // It stands, whatever becomes of the rest.
    output.print(&restored, |restored| {
        let mut text = format!("restored {} from {}\n", held(&restored.holds), restored.file.display());
        for opens in &restored.loosened {
            text.push_str(&format!("opens: {}\n", printable(opens)));
        }
        if let Some(kept) = &restored.kept {
            text.push_str(&format!("what was there before is kept in {}\n", kept.display()));
        }
        text
    })?;
    if restored.is_without_log {
        eprintln!(
            "warning: this is a copy of a catalog in use, and no log lies beside it: its last changes may be missing"
        );
    }
    if restored.is_unknown {
        warn_of_names("may sign in again", &restored.back);
        eprintln!(
            "warning: what was there before cannot be read, and nobody knows what is allowed again: \
             see `multilane user list` and `multilane share grants NAME`; \
             `multilane catalog check` names folders that belong to no share"
        );
    }
    warn_of_names("can sign in no longer", &restored.gone);
    restored.lost.iter().for_each(|share| eprintln!("warning: {}", printable(&lost(share))));
    // Opened once it has its log beside it, for which a full disk may have no room later.
    let (folder, _) = data::open(path)?;
    let served = data::reload(&folder)?;
    warn_of_shares(&served.unwrap_or(restored.problems));
    Ok(())
}

/// Refuses what this user may not do, and says which user that is: root acts as the owner of the data folder, who may do less than root.
fn refuse_forbidden(place: &Path, access: Access, what: &str) -> Result<(), Error> {
    if rustix::fs::access(place, access) != Err(Errno::ACCESS) {
        return Ok(());
    }
    let user = uzers::get_current_username().map(|name| name.to_string_lossy().into_owned());
    let user = user.unwrap_or_else(|| uzers::get_current_uid().to_string());
    let at = quoted(&place.to_string_lossy());
    Err(Error::machine(
        format!("user {user}, whose the data folder is, may not {what} {}", place.display()),
        format!("let {user} in on the way there, and do `chown {user} {at}`; or name another place"),
    ))
}

/// Restores where nothing is opened by it, or where that is wanted.
fn restored(path: &Path, arguments: &Restore) -> Result<Restored, Error> {
    if arguments.force {
        return restore_catalog(path, &arguments.file, &mut |_| true);
    }
    let mut seen = Vec::new();
    let refused = match restore_catalog(path, &arguments.file, &mut |loosened| {
        seen = loosened.to_vec();
        false
    }) {
        Err(refused) if !seen.is_empty() => refused,
        restored => return restored,
    };
    seen.iter().for_each(|opens| eprintln!("opens: {}", printable(opens)));
    match question::ask("Is that meant, and is the backup restored?") {
        // Not where something else has come in between.
        Answer::Yes => restore_catalog(path, &arguments.file, &mut |loosened| loosened == seen),
        Answer::No | Answer::NobodyToAsk => Err(refused),
    }
}

/// What a catalog holds, in words.
pub(crate) fn held(holds: &Holds) -> String {
    let counted = |count: usize, one: &str| if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") };
    format!(
        "{}, {}, {}, {} and {}",
        counted(holds.accounts, "account"),
        counted(holds.users, "user"),
        counted(holds.groups, "group"),
        counted(holds.operators, "operator"),
        counted(holds.shares, "share")
    )
}

/// That a share is not in the backup, and how its files are shared again.
fn lost(lost: &LostShare) -> String {
    let kind = if lost.deleted { "the deleted share" } else { "share" };
    let name = quoted(&lost.share);
    let Some(folder) = &lost.folder else {
        return format!("{kind} {name} is not in the backup, and is gone, as is what its RAM disk held");
    };
    let again = if lost.is_name_taken { "NAME" } else { &name };
    format!(
        "{kind} {name} is not in the backup, and is gone; its files stay in {folder}: `multilane share create {again} \
         --account {account} --path {at}` shares them again",
        folder = folder.display(),
        account = quoted(&lost.account),
        at = quoted(&folder.to_string_lossy()),
    )
}

fn warn_of_names(what: &str, names: &[String]) {
    if !names.is_empty() {
        eprintln!("warning: {what}: {}", names.join(", "));
    }
}

fn warn_of_shares(problems: &[Problem]) {
    for Problem { share, problem, .. } in problems {
        eprintln!("warning: share {share} is not served: {problem}");
    }
}
