//! `multilane user`.

use std::io::{self, BufRead, Read};
use std::path::Path;

use control::{Error, StoredSettings, User};
use serde::Serialize;

use crate::arguments::UserCommand;
use crate::data;
use crate::output::{Deleted, Output};
use crate::table::Table;

/// Bytes of the line with the password: more than the longest that is taken.
const LINE_BYTES_MAX: u64 = 8192;

/// A user as `--json` prints it.
#[derive(Serialize)]
struct Shown {
    name: String,
    account: String,
    sid: String,
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
        UserCommand::Add { name, account, password_stdin: _ } => {
            let user = shown(catalog.add_user(name, &password()?, account.as_ref())?, &settings);
            output.print(&user, |user| format!("added user {} to account {}\n", user.name, user.account))?;
            data::reload(&folder).map(drop)
        }
        UserCommand::Password { name, password_stdin: _ } => {
            catalog.set_password(name, &password()?)?;
            data::forget(&folder, &catalog)?;
            output.print(&Changed { changed: name.as_str() }, |_| {
                format!("changed the password of {name}; sessions that the old one began have ended\n")
            })
        }
        UserCommand::List => {
            let users: Vec<Shown> = catalog.users()?.into_iter().map(|user| shown(user, &settings)).collect();
            output.print(&users, |users| table(users))
        }
        UserCommand::Remove { name } => {
            catalog.remove_user(name)?;
            output.print(&Deleted { deleted: name.as_str() }, |_| format!("removed user {name}\n"))?;
            data::forget(&folder, &catalog)
        }
    }
}

/// The first line of standard input, without its end.
pub(crate) fn password() -> Result<String, Error> {
    let mut line = String::new();
    io::stdin().lock().take(LINE_BYTES_MAX).read_line(&mut line).map_err(|cause| {
        Error::argument(format!("cannot read the password: {cause}"), "give it as one line of UTF-8 on standard input")
    })?;
    let bare = line.strip_suffix('\n').map_or(line.as_str(), |line| line.strip_suffix('\r').unwrap_or(line));
    Ok(bare.to_owned())
}

fn shown(user: User, settings: &StoredSettings) -> Shown {
    Shown { sid: settings.sid(user.relative_id), name: user.name, account: user.account }
}

fn table(users: &[Shown]) -> String {
    let mut table = Table::new(["NAME", "ACCOUNT", "SID"]);
    for user in users {
        table.row([user.name.clone(), user.account.clone(), user.sid.clone()]);
    }
    table.text()
}
