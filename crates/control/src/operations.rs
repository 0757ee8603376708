//! What operators have a running server do, by a command or on the page. Each is logged with who wanted it.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use server::admin::{Admin, Multichannel, OpenView};
use tracing::info;

use crate::reload::reload;
use crate::{AccountChanges, AccountName, Catalog, Control, DataFolder, Error, LimitChanges, ShareName};

/// How long a change waits for programs that hold the catalog: less than who asks for it waits for an answer, so that what is said to have failed is not
/// done later.
pub(crate) const CATALOG_WAIT: Duration = Duration::from_secs(4);

/// Who wants something done.
#[derive(Clone, Copy, Debug)]
pub enum By<'a> {
    /// A command, which reaches the server through its admin socket.
    Command,
    /// An operator who has signed in to the page.
    Operator(&'a str),
    /// Somebody who has proved to have a key of the account, by the REST interface.
    Rest,
    /// A service principal, by the management interface; named as `principal:NAME`, which no operator is.
    Principal(&'a str),
}

/// What may be done with a running server.
#[derive(Clone)]
pub struct Operations {
    pub(crate) folder: DataFolder,
    /// Gone when the server has been told to end.
    pub(crate) control: Weak<Mutex<Control>>,
    admin: Arc<dyn Admin>,
}

impl Operations {
    /// Those of the server that `control` and `admin` are of.
    pub fn new(folder: &DataFolder, control: &Arc<Mutex<Control>>, admin: Arc<dyn Admin>) -> Self {
        Operations { folder: folder.clone(), control: Arc::downgrade(control), admin }
    }

    /// Ends a session with all its channels.
    pub fn close_session(&self, by: By<'_>, id: u64) -> Result<(), Error> {
        let user = self.admin.sessions().find(|session| session.id == id).map(|session| session.user);
        closed(self.admin.close_session(id), id, "session", "sessions")?;
        let user = user.unwrap_or_default();
        info!(name: "session_closed", operator = by.name(), session = id, user, "an operator has closed a session");
        Ok(())
    }

    /// Closes an open, as if its client had.
    pub fn close_open(&self, by: By<'_>, id: u64) -> Result<(), Error> {
        closed(self.admin.close_open(id), id, "open", "open-files")?;
        info!(name: "open_closed", operator = by.name(), open = id, "an operator has closed an open");
        Ok(())
    }

    /// The opens that `wanted` takes.
    pub fn opens(&self, wanted: impl Fn(&OpenView) -> bool) -> Vec<OpenView> {
        self.admin.opens().filter(wanted).collect()
    }

    /// The address of the client of each session.
    pub fn peers(&self) -> HashMap<u64, String> {
        self.admin.sessions().map(|session| (session.id, session.peer)).collect()
    }

    /// Unlocks a user that wrong passwords have locked; false where it was not.
    pub fn unlock_user(&self, by: By<'_>, relative_id: u32) -> bool {
        let was_locked = self.admin.unlock_user(relative_id);
        if was_locked {
            let user = self.control.upgrade().and_then(|control| control.lock().name_of_user(relative_id));
            let user = user.unwrap_or_default();
            info!(name: "user_unlocked", operator = by.name(), user, "an operator has unlocked a user");
        }
        was_locked
    }

    /// Changes a share's limits in the catalog, and has the server take that up.
    pub fn change_limits(&self, by: By<'_>, share: &ShareName, limits: LimitChanges) -> Result<(), Error> {
        if limits == LimitChanges::default() {
            return Err(Error::argument("no limit was named", "name one"));
        }
        let (share, before) = Catalog::reopen_within(&self.folder, CATALOG_WAIT)?.change_limits(share, limits)?;
        let (from, to) = (before.named_by(limits), share.limits.named_by(limits));
        info!(name: "limits_changed", operator = by.name(), share = share.name, from, to, "an operator has changed a share's limits");
        self.take_up()
    }

    /// Lets the sessions of an account have several channels, or no longer, and has the server take that up.
    pub fn switch_multichannel(&self, by: By<'_>, account: &AccountName, to: Multichannel) -> Result<(), Error> {
        let changes = AccountChanges { multichannel: Some(to), ..AccountChanges::default() };
        Catalog::reopen_within(&self.folder, CATALOG_WAIT)?.update_account(account, changes)?;
        let is_on = to == Multichannel::On;
        info!(name: "multichannel_switched", operator = by.name(), account = account.as_str(), on = is_on, "an operator has switched multichannel");
        self.take_up()
    }

    pub(crate) fn take_up(&self) -> Result<(), Error> {
        let ending =
            || Error::machine("the change is kept, and the server ends", "it takes effect when it starts again");
        reload(&*self.control.upgrade().ok_or_else(ending)?, &*self.admin).map(drop)
    }
}

impl By<'_> {
    /// The operator's name; a command has none.
    pub(crate) fn name(&self) -> &str {
        match self {
            By::Command | By::Rest => "",
            By::Operator(name) | By::Principal(name) => name,
        }
    }
}

fn closed(found: bool, id: u64, what: &str, list: &str) -> Result<(), Error> {
    if found {
        return Ok(());
    }
    Err(Error::missing(format!("there is no {what} {id}"), format!("`multilane {list}` shows those there are")))
}
