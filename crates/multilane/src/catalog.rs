//! `multilane catalog`.

use std::path::Path;
use std::process::ExitCode;

use clap::Subcommand;
use control::{Checked, DataFolder, Error, check_catalog};

use crate::backup::held;
use crate::hints::quoted;
use crate::output::Output;
use crate::table::printable;

const CHECK_EXIT_CODES: &str = "\
Folders in the data folder that were made for shares and belong to none are named; nothing is wrong by that.

Exit codes: 0 nothing is wrong, 1 that cannot be seen, 2 the command line is wrong, 3 something is wrong.";

/// The exit code where something is wrong with the catalog.
const PROBLEMS: u8 = 3;

#[derive(Debug, Subcommand)]
pub(crate) enum CatalogCommand {
    /// Look whether the catalog is whole and says what makes sense, and whether the folders of shares can be used, and name folders that belong to no share; nothing is changed
    #[command(after_help = CHECK_EXIT_CODES)]
    Check,
}

pub(crate) fn run(path: &Path, command: &CatalogCommand, output: Output) -> Result<ExitCode, Error> {
    let CatalogCommand::Check = command;
    let checked = check_catalog(&DataFolder::open(path)?)?;
    output.print(&checked, text)?;
    Ok(if checked.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(PROBLEMS) })
}

fn text(checked: &Checked) -> String {
    let mut text = String::new();
    for found in &checked.problems {
        text.push_str(&format!("wrong: {}\nhelp: {}\n", found.problem, found.remedy));
    }
    if text.is_empty() {
        let holds = checked.holds.as_ref().map(|holds| format!(", with {}", held(holds))).unwrap_or_default();
        text = format!("nothing is wrong with {}{holds}\n", checked.catalog.display());
    }
    for folder in &checked.unused_folders {
        let folder = folder.to_string_lossy();
        text.push_str(&format!(
            "note: the folder {} belongs to no share\nhelp: share it with `multilane share create NAME --path {}`, or remove it\n",
            printable(&folder),
            quoted(&folder)
        ));
    }
    text
}
