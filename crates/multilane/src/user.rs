//! `multilane user`.

use std::path::Path;

use control::{Catalog, Error, StoredSettings, User, UserChanges, UserName};
use jiff::Timestamp;
use serde::Serialize;
use server::admin::Standing;

use crate::arguments::UserCommand;
use crate::data;
use crate::output::{Deleted, Output};
use crate::password;
use crate::table::Table;

/// A user as `--json` prints it.
#[derive(Serialize)]
struct Shown {
    name: String,
    account: String,
    sid: String,
    standing: &'static str,
    /// Such as `2027-01-31T18:00:00Z`.
    expires: Option<String>,
}

/// A user by itself, as `--json` prints it.
#[derive(Serialize)]
struct Whole {
    #[serde(flatten)]
    user: Shown,
    groups: Vec<String>,
}

/// A user whose password was changed, as `--json` prints it.
#[derive(Serialize)]
struct Changed<'a> {
    changed: &'a str,
}

pub(crate) fn run(path: &Path, command: &UserCommand, output: Output) -> Result<(), Error> {
    let (folder, mut catalog) = data::open(path)?;
    let settings = catalog.settings()?;
    match command {
        UserCommand::Create { name, account, password_stdin } => {
            let user = catalog.add_user(name, &password::read(*password_stdin)?, account.as_ref())?;
            let created = |user: &Shown| format!("created user {} of account {}\n", user.name, user.account);
            output.print(&shown(user, &settings), created)?;
            data::reload(&folder).map(drop)
        }
        UserCommand::Passwd { name, password_stdin } => {
            catalog.set_password(name, &password::read(*password_stdin)?)?;
            data::forget(&folder, &catalog)?;
            output.print(&Changed { changed: name.as_str() }, |_| {
                format!("changed the password of {name}; sessions that the old one began have ended\n")
            })
        }
        UserCommand::Disable { name } => {
            change(&mut catalog, name, &UserChanges { disabled: Some(true), ..UserChanges::default() })?;
            data::reload(&folder)?;
            show(&mut catalog, name, output, "disabled, and its sessions have ended")
        }
        UserCommand::Enable { name } => {
            change(&mut catalog, name, &UserChanges { disabled: Some(false), ..UserChanges::default() })?;
            data::reload(&folder)?;
            show(&mut catalog, name, output, "enabled")
        }
        UserCommand::Expire { name, at } => {
            change(&mut catalog, name, &UserChanges { expires: Some(at.0), ..UserChanges::default() })?;
            data::reload(&folder)?;
            let how = at.0.map_or_else(|| "no longer expires".to_owned(), |at| format!("may sign in until {at}"));
            show(&mut catalog, name, output, &how)
        }
        UserCommand::Rename { name, to } => {
            change(&mut catalog, name, &UserChanges { name: Some(to.clone()), ..UserChanges::default() })?;
            data::reload(&folder)?;
            let how = format!("was {name}; the SID stays, and sessions that the old name began have ended");
            show(&mut catalog, to, output, &how)
        }
        UserCommand::Show { name } => {
            let whole = whole(&mut catalog, name)?;
            output.print(&whole, description)
        }
        UserCommand::List => {
            let users: Vec<Shown> = catalog.users()?.into_iter().map(|user| shown(user, &settings)).collect();
            output.print(&users, |users| table(users))
        }
        UserCommand::Delete { name } => {
            catalog.remove_user(name)?;
            output.print(&Deleted { deleted: name.as_str() }, |_| format!("deleted user {name}\n"))?;
            data::forget(&folder, &catalog)
        }
    }
}

fn change(catalog: &mut Catalog, name: &UserName, changes: &UserChanges) -> Result<(), Error> {
    catalog.update_user(name, changes).map(drop)
}

/// Says how a user is now.
fn show(catalog: &mut Catalog, name: &UserName, output: Output, how: &str) -> Result<(), Error> {
    output.print(&whole(catalog, name)?, |whole| format!("{}: {how}\n", whole.user.name))
}

fn whole(catalog: &mut Catalog, name: &UserName) -> Result<Whole, Error> {
    let (user, settings) = (catalog.user(name)?, catalog.settings()?);
    Ok(Whole { user: shown(user, &settings), groups: catalog.groups_of(name)? })
}

fn shown(user: User, settings: &StoredSettings) -> Shown {
    let standing = match user.standing(Timestamp::now()) {
        Standing::Good => "good",
        Standing::Disabled => "disabled",
        Standing::Expired => "expired",
    };
    let sid = settings.sid(user.relative_id);
    Shown { sid, name: user.name, account: user.account, standing, expires: user.expires.map(|at| at.to_string()) }
}

fn description(whole: &Whole) -> String {
    let Whole { user, groups } = whole;
    let expires = user.expires.as_deref().unwrap_or("never");
    let groups = if groups.is_empty() { "none".to_owned() } else { groups.join(", ") };
    format!(
        "name:     {}\naccount:  {}\nSID:      {}\nstanding: {}\nexpires:  {expires}\ngroups:   {groups}\n",
        user.name, user.account, user.sid, user.standing
    )
}

fn table(users: &[Shown]) -> String {
    let mut table = Table::new(["NAME", "ACCOUNT", "STANDING", "SID"]);
    for user in users {
        table.row([user.name.clone(), user.account.clone(), user.standing.to_owned(), user.sid.clone()]);
    }
    table.text()
}
