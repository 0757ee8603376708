//! `multilane backup` and `multilane restore`.

use std::path::{Path, PathBuf};

use clap::Args;
use control::{Error, Existing, Holds, Problem, restore_catalog};

use crate::data;
use crate::output::Output;

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
Example:
  multilane restore /backup/multilane.db

The backup takes the place of accounts, users, operators, shares and settings, whole or not at all.
What was there before is kept in a file whose name is printed. A running server serves at once what
was restored: sessions of who may no longer sign in end.";

#[derive(Debug, Args)]
#[command(after_help = RESTORE_EXAMPLES)]
pub(crate) struct Restore {
    /// What `multilane backup` has made
    pub(crate) file: PathBuf,
}

pub(crate) fn back_up(path: &Path, arguments: &Backup, output: Output) -> Result<(), Error> {
    let (_, catalog) = data::open(path)?;
    let existing = if arguments.force { Existing::IsReplaced } else { Existing::IsKept };
    let made = catalog.back_up(&arguments.file, existing)?;
    output.print(&made, |made| format!("backed up {} to {}\n", held(&made.holds), made.file.display()))
}

pub(crate) fn restore(path: &Path, arguments: &Restore, output: Output) -> Result<(), Error> {
    let restored = restore_catalog(path, &arguments.file)?;
    // It stands, whatever becomes of the rest.
    output.print(&restored, |restored| {
        let mut text = format!("restored {} from {}\n", held(&restored.holds), restored.file.display());
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
    warn_of_names("may sign in again", &restored.back);
    warn_of_names("can sign in no longer", &restored.gone);
    // Opened once it has its log beside it, for which a full disk may have no room later.
    let (folder, _) = data::open(path)?;
    let served = data::reload(&folder)?;
    warn_of_shares(&served.unwrap_or(restored.problems));
    Ok(())
}

/// What a catalog holds, in words.
fn held(holds: &Holds) -> String {
    let counted = |count: usize, one: &str| if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") };
    format!(
        "{}, {}, {} and {}",
        counted(holds.accounts, "account"),
        counted(holds.users, "user"),
        counted(holds.operators, "operator"),
        counted(holds.shares, "share")
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
