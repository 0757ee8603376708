//! `multilane user`.

use std::collections::BTreeMap;
use std::path::Path;

use control::{
    Catalog, DataFolder, Error, LockedUser, Request, StoredSettings, User, UserChanges, UserName, ask, ask_for_all,
};
use jiff::Timestamp;
use serde::Serialize;
use server::admin::{ShareRight, Standing};

use crate::arguments::UserCommand;
use crate::data;
use crate::live;
use crate::output::{Deleted, Output};
use crate::password;
use crate::question;
use crate::table::{Table, span};
use crate::unix_owner::OwnerOf;

/// A user as `--json` prints it.
#[derive(Serialize)]
struct Shown {
    name: String,
    account: String,
    sid: String,
    standing: &'static str,
    /// Such as `2027-01-31T18:00:00Z`.
    expires: Option<String>,
    /// Seconds that it stays locked.
    locked_seconds: Option<u64>,
    /// Whose its new files are on this machine, as `UID:GID`, where that is not as the share says.
    unix_owner: Option<String>,
    /// What the catalog says of it that makes no sense.
    damage: Option<&'static str>,
}

/// A user by itself, as `--json` prints it.
#[derive(Serialize)]
struct Whole {
    #[serde(flatten)]
    user: Shown,
    groups: Vec<String>,
    shares: Vec<OnShare>,
}

/// A user that was to be unlocked, as `--json` prints it.
#[derive(Serialize)]
struct Unlocked<'a> {
    user: &'a str,
    was_locked: bool,
}

/// A user whose password was changed, as `--json` prints it.
#[derive(Serialize)]
struct Changed {
    #[serde(flatten)]
    user: Whole,
    /// Until when sessions that the old one began go on; null where they have ended.
    sessions_until: Option<String>,
}

/// A share that a user may connect to, as `--json` prints it.
#[derive(Serialize)]
struct OnShare {
    share: String,
    right: &'static str,
}

/// The sessions that a user has before something is changed.
struct Sessions<'a> {
    folder: &'a DataFolder,
    user: &'a UserName,
    before: Option<Vec<u64>>,
}

impl<'a> Sessions<'a> {
    fn of(folder: &'a DataFolder, user: &'a UserName) -> Self {
        Sessions { folder, user, before: live::sessions_of(folder, user) }
    }

    /// What became of them, once the server knows of the change.
    fn ended(&self) -> String {
        let (Some(before), Some(after)) = (&self.before, live::sessions_of(self.folder, self.user)) else {
            return "no server runs, which could have sessions".to_owned();
        };
        match before.iter().filter(|id| !after.contains(id)).count() {
            0 if before.is_empty() => "there was no session".to_owned(),
            0 => "no session has ended".to_owned(),
            1 => "1 session has ended".to_owned(),
            count => format!("{count} sessions have ended"),
        }
    }
}

pub(crate) fn run(path: &Path, command: &UserCommand, output: Output) -> Result<(), Error> {
    let (folder, mut catalog) = data::open(path)?;
    let told = Told { settings: catalog.settings()?, output };
    match command {
        UserCommand::Create { name, account, password_stdin } => {
            catalog.refuse_taken_name(name)?;
            let password = password::read(*password_stdin)?;
            told.settings.password_length_min.check(&password)?;
            let user = catalog.add_user(name, &password, account.as_ref())?;
            let created = |user: &Shown| format!("created user {} of account {}\n", user.name, user.account);
            output.print(&told.shown(user, &Locked::new()), created)?;
            data::reload(&folder).map(drop)
        }
        UserCommand::Passwd { name, grace, password_stdin } => {
            // Nobody types a password twice for somebody who is not there.
            let user = catalog.user(name)?;
            let password = password::read(*password_stdin)?;
            told.settings.password_length_min.check(&password)?;
            let sessions = Sessions::of(&folder, name);
            catalog.set_password(name, &password, *grace)?;
            let until = grace.map(|grace| grace.until(Timestamp::now()).to_string());
            data::forget(&folder, &catalog)?;
            let went = match &until {
                Some(until) => format!("sessions that the old one began go on until {until}"),
                None => sessions.ended(),
            };
            let user = told.whole(&catalog, user, &locked(&folder))?;
            output.print(&Changed { user, sessions_until: until }, |changed| {
                format!("{}: has another password; {went}\n", changed.user.user.name)
            })
        }
        UserCommand::Disable { name } => {
            let sessions = Sessions::of(&folder, name);
            let user = catalog.update_user(name, &UserChanges { disabled: Some(true), ..UserChanges::default() })?;
            data::reload(&folder)?;
            told.changed(&folder, &catalog, user, &format!("disabled; {}", sessions.ended()))
        }
        UserCommand::Enable { name } => {
            let changes = UserChanges { disabled: Some(false), ..UserChanges::default() };
            let user = catalog.update_user(name, &changes)?;
            let how = match user.standing(Timestamp::now()) {
                Standing::Expired => {
                    format!("enabled, but it has expired: `multilane user expire {name} never` lets it sign in")
                }
                _ => "enabled".to_owned(),
            };
            data::reload(&folder)?;
            told.changed(&folder, &catalog, user, &how)
        }
        UserCommand::Unlock { name } => {
            let request = Request::UnlockUser { relative_id: catalog.user(name)?.relative_id };
            let was_locked = ask(&folder, &request)?.unwrap_or(false);
            output.print(&Unlocked { user: name.as_str(), was_locked }, |_| {
                format!("{name}: {}\n", if was_locked { "unlocked" } else { "was not locked" })
            })
        }
        UserCommand::Update { name, unix_owner: OwnerOf(owner), allow_root } => {
            if owner.is_some_and(|owner| owner.uid == 0) && !allow_root {
                return Err(Error::argument(
                    "what the user makes would be root's on this machine",
                    "name another user, or add --allow-root where that is what you want",
                ));
            }
            let changes = UserChanges { unix_owner: Some(*owner), ..UserChanges::default() };
            let user = catalog.update_user(name, &changes)?;
            if owner.is_some_and(|owner| !owner.can_be_given_files()) {
                eprintln!(
                    "warning: a server that runs as you do now may not give files away: run it as root, or with CAP_CHOWN; \
                     until then the user can make none"
                );
            }
            let how = owner.map_or_else(
                || "new files are whoever's the share says".to_owned(),
                |owner| format!("new files are those of user {} and group {} of this machine", owner.uid, owner.gid),
            );
            data::reload(&folder)?;
            told.changed(&folder, &catalog, user, &how)
        }
        UserCommand::Expire { name, at } => {
            let sessions = Sessions::of(&folder, name);
            let user = catalog.update_user(name, &UserChanges { expires: Some(at.0), ..UserChanges::default() })?;
            data::reload(&folder)?;
            let how = match at.0 {
                None => "no longer expires".to_owned(),
                Some(at) if at <= Timestamp::now() => format!("has expired at {at}; {}", sessions.ended()),
                Some(at) => format!("may sign in until {at}"),
            };
            told.changed(&folder, &catalog, user, &how)
        }
        UserCommand::Rename { name, to } => {
            let sessions = Sessions::of(&folder, name);
            let user = catalog.update_user(name, &UserChanges { name: Some(to.clone()), ..UserChanges::default() })?;
            data::reload(&folder)?;
            told.changed(&folder, &catalog, user, &format!("was {name}; the SID stays; {}", sessions.ended()))
        }
        UserCommand::Show { name } => {
            let whole = told.whole(&catalog, catalog.user(name)?, &locked(&folder))?;
            output.print(&whole, description)
        }
        UserCommand::List => {
            let locked = locked(&folder);
            let users: Vec<Shown> = catalog.users()?.into_iter().map(|user| told.shown(user, &locked)).collect();
            output.print(&users, |users| table(users))
        }
        UserCommand::Delete { name, force } => {
            if !force {
                let whole = told.whole(&catalog, catalog.user(name)?, &Locked::new())?;
                agree_to_delete(&whole, &catalog.granted_to(name)?)?;
            }
            catalog.remove_user(name)?;
            output.print(&Deleted { deleted: name.as_str() }, |_| format!("deleted user {name}\n"))?;
            data::forget(&folder, &catalog)
        }
    }
}

/// What users are told with.
struct Told {
    settings: StoredSettings,
    output: Output,
}

impl Told {
    /// Says how a user that was changed is now.
    fn changed(&self, folder: &DataFolder, catalog: &Catalog, user: User, how: &str) -> Result<(), Error> {
        let whole = self.whole(catalog, user, &locked(folder))?;
        self.output.print(&whole, |whole| format!("{}: {how}\n", whole.user.name))
    }

    fn whole(&self, catalog: &Catalog, user: User, locked: &Locked) -> Result<Whole, Error> {
        let groups = catalog.groups_of(&user)?;
        let shares = catalog.shares_of(&user)?;
        let shares = shares.into_iter().map(|(share, right)| OnShare { share, right: right.name() });
        Ok(Whole { user: self.shown(user, locked), groups, shares: shares.collect() })
    }

    fn shown(&self, user: User, locked: &Locked) -> Shown {
        let locked_seconds = locked.get(&user.relative_id).copied();
        let standing = match user.standing(Timestamp::now()) {
            _ if user.damage.is_some() => "damaged",
            Standing::Disabled => "disabled",
            Standing::Expired => "expired",
            Standing::Good if locked_seconds.is_some() => "locked",
            Standing::Good => "good",
        };
        let sid = self.settings.sid(user.relative_id);
        let expires = user.expires.map(|at| at.to_string());
        Shown {
            sid,
            name: user.name,
            account: user.account,
            standing,
            expires,
            locked_seconds,
            unix_owner: user.unix_owner.map(|owner| format!("{}:{}", owner.uid, owner.gid)),
            damage: user.damage,
        }
    }
}

/// For how many seconds users are locked, by the last numbers of their SIDs.
type Locked = BTreeMap<u32, u64>;

/// Asks who sits at the terminal whether a user is to go, and says what goes.
fn agree_to_delete(whole: &Whole, granted: &[(String, ShareRight)]) -> Result<(), Error> {
    let name = &whole.user.name;
    let mut goes = vec![format!("its SID {}, which nobody gets again, whatever files name it", whole.user.sid)];
    if !whole.groups.is_empty() {
        goes.push(format!("its place in {}", whole.groups.join(", ")));
    }
    goes.extend(granted.iter().map(|(share, right)| format!("its right on {share} ({right})")));
    let question = format!(
        "With user {name} goes {}. `multilane user disable {name}` can be undone, this cannot. Delete it?",
        goes.join("; ")
    );
    question::agree(&question, name)
}

/// Those whom the server that runs on `folder`, if one does, has locked.
fn locked(folder: &DataFolder) -> Locked {
    let locked = ask_for_all(folder, &Request::LockedUsers).unwrap_or_else(|error| {
        eprintln!("warning: the server does not say who is locked: {}", error.what());
        None
    });
    locked.unwrap_or_default().into_iter().map(|user: LockedUser| (user.relative_id, user.seconds)).collect()
}

fn description(whole: &Whole) -> String {
    let Whole { user, groups, shares } = whole;
    let shares: Vec<String> = shares.iter().map(|on| format!("{} ({})", on.share, on.right)).collect();
    let shares = if shares.is_empty() { "none".to_owned() } else { shares.join(", ") };
    let expires = user.expires.as_deref().unwrap_or("never");
    let groups = if groups.is_empty() { "none".to_owned() } else { groups.join(", ") };
    let locked = user.locked_seconds.map_or_else(|| "no".to_owned(), |seconds| format!("for {} more", span(seconds)));
    let owner = user.unix_owner.as_deref().unwrap_or("as the share says");
    let damage = user.damage.map_or_else(String::new, |what| {
        format!("damage:   the catalog says {what} that makes no sense; the user can be deleted\n")
    });
    format!(
        "name:     {}\naccount:  {}\nSID:      {}\nstanding: {}\nexpires:  {expires}\nlocked:   {locked}\nowner:    {owner}\ngroups:   {groups}\nshares:   {shares}\n{damage}",
        user.name, user.account, user.sid, user.standing
    )
}

fn table(users: &[Shown]) -> String {
    let mut table = Table::new(["NAME", "ACCOUNT", "STANDING", "EXPIRES", "SID"]);
    for user in users {
        let expires = user.expires.clone().unwrap_or_else(|| "never".to_owned());
        table.row([user.name.clone(), user.account.clone(), user.standing.to_owned(), expires, user.sid.clone()]);
    }
    table.text()
}
