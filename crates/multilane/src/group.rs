//! `multilane group`.

use std::path::Path;

use clap::Subcommand;
use control::{AccountName, Error, Group, StoredSettings, UserName};
use serde::Serialize;
use server::admin::ShareRight;

use crate::data;
use crate::output::{Deleted, Output};
use crate::question;
use crate::table::Table;

const EXAMPLES: &str = "\
Examples:
  multilane group create editors
  multilane group add editors alice bob
  multilane group create staff
  multilane group add staff editors
  multilane group rename editors authors
  multilane share grant media staff read";

#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum GroupCommand {
    /// Make a group that holds nobody
    Create {
        /// Its name: accounts, users and groups share one space of names
        name: UserName,
        /// The account whose users it may hold [default: the oldest]
        #[arg(long, value_name = "NAME")]
        account: Option<AccountName>,
    },
    /// Put users and groups into a group; it counts at once
    Add {
        /// The group
        name: UserName,
        /// Who comes into it
        #[arg(required = true)]
        members: Vec<UserName>,
    },
    /// Take users and groups out of a group; it counts at once
    Remove {
        /// The group
        name: UserName,
        /// Who leaves it
        #[arg(required = true)]
        members: Vec<UserName>,
    },
    /// Show one group
    Show {
        /// Its name
        name: UserName,
    },
    /// List the groups
    List,
    /// Give a group another name; the SID stays, and with it all rights
    Rename {
        /// The group
        name: UserName,
        /// The new name
        to: UserName,
    },
    /// Delete a group: its members stay, and nothing is granted to it any more; nobody gets the SID again. At a terminal it is asked first, elsewhere it
    /// wants --force
    Delete {
        /// Its name
        name: UserName,
        /// Ask nothing
        #[arg(long)]
        force: bool,
    },
}

/// A group as `--json` prints it.
#[derive(Serialize)]
struct Shown {
    name: String,
    account: String,
    sid: String,
    members: Vec<String>,
}

pub(crate) fn run(path: &Path, command: &GroupCommand, output: Output) -> Result<(), Error> {
    let (folder, mut catalog) = data::open(path)?;
    let settings = catalog.settings()?;
    let changed = |group: Group, how: &str| {
        data::reload(&folder)?;
        output.print(&shown(group, &settings), |group| format!("{how} group {}\n", group.name))
    };
    match command {
        GroupCommand::Create { name, account } => changed(catalog.create_group(name, account.as_ref())?, "created"),
        GroupCommand::Add { name, members } => changed(catalog.add_members(name, members)?, "changed"),
        GroupCommand::Remove { name, members } => changed(catalog.remove_members(name, members)?, "changed"),
        GroupCommand::Show { name } => output.print(&shown(catalog.group(name)?, &settings), description),
        GroupCommand::List => {
            let groups: Vec<Shown> = catalog.groups()?.into_iter().map(|group| shown(group, &settings)).collect();
            output.print(&groups, |groups| table(groups))
        }
        GroupCommand::Rename { name, to } => changed(catalog.rename_group(name, to)?, "renamed"),
        GroupCommand::Delete { name, force } => {
            if !force {
                agree_to_delete(&shown(catalog.group(name)?, &settings), &catalog.granted_to(name)?)?;
            }
            catalog.delete_group(name)?;
            data::reload(&folder)?;
            output.print(&Deleted { deleted: name.as_str() }, |_| format!("deleted group {name}\n"))
        }
    }
}

/// Asks who sits at the terminal whether a group is to go, and says what goes.
fn agree_to_delete(group: &Shown, granted: &[(String, ShareRight)]) -> Result<(), Error> {
    let mut goes = vec![format!("its SID {}, which nobody gets again, whatever files name it", group.sid)];
    if !group.members.is_empty() {
        goes.push(format!("what {} may do by it", group.members.join(", ")));
    }
    goes.extend(granted.iter().map(|(share, right)| format!("its right on {share} ({right})")));
    let question = format!("With group {} goes {}. It cannot be undone. Delete it?", group.name, goes.join("; "));
    question::agree(&question, &group.name)
}

fn shown(group: Group, settings: &StoredSettings) -> Shown {
    Shown { sid: settings.sid(group.relative_id), name: group.name, account: group.account, members: group.members }
}

fn description(group: &Shown) -> String {
    let members = if group.members.is_empty() { "none".to_owned() } else { group.members.join(", ") };
    format!("name:    {}\naccount: {}\nSID:     {}\nmembers: {members}\n", group.name, group.account, group.sid)
}

fn table(groups: &[Shown]) -> String {
    let mut table = Table::new(["NAME", "ACCOUNT", "MEMBERS", "SID"]);
    for group in groups {
        table.row([group.name.clone(), group.account.clone(), group.members.len().to_string(), group.sid.clone()]);
    }
    table.text()
}
