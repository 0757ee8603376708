//! What operators, and clients of the REST interface, have a running server do. Each is logged with who wanted it.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use server::admin::{Admin, AuditOrigin, AuditRefusal, Multichannel, NotedOrigin, OpenView};
use tracing::info;

use crate::count::count_bytes;
use crate::managed::changed;
use crate::reload::reload;
use crate::snapshot_operations::WithSnapshots;
use crate::{
    AccountChanges, AccountName, AzureShare, By, Catalog, Control, DataFolder, Deletion, Error, FileService,
    LimitChanges, NewShare, Reason, ShareChanges, ShareName, ShareRecord, Source,
};

/// How long a change waits for programs that hold the catalog: less than who asks for it waits for an answer, so that what is said to have failed is not
/// done later.
pub(crate) const CATALOG_WAIT: Duration = Duration::from_secs(4);

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
        info!(name: "open_closed", operator = by.name(), from = by.from(), open = id, "somebody has closed an open");
        Ok(())
    }

    /// The opens that `wanted` takes.
    pub fn opens(&self, wanted: impl Fn(&OpenView) -> bool) -> Vec<OpenView> {
        self.admin.opens().filter(wanted).collect()
    }

    /// How many files an account may have open at most.
    pub fn opens_of_account_max(&self) -> u64 {
        self.admin.opens_of_user_max()
    }

    /// True where requests have waited for the disk of a share for so long that it hangs.
    pub fn disk_hangs(&self, share: &str) -> bool {
        let shares = self.admin.shares();
        shares.iter().any(|served| served.name == share && served.waits.as_ref().is_some_and(|waits| waits.hangs()))
    }

    /// Has the audit log tell what is done on behalf of `origin` of that, as long as it is noted.
    pub fn note_origin(&self, origin: AuditOrigin) -> Result<NotedOrigin, Error> {
        self.admin.origins().note(origin).map_err(|_| Error::machine("this machine gave no randomness", "try again"))
    }

    /// Has the audit log tell of a request that was refused.
    pub fn audit_refusal(&self, refusal: AuditRefusal) {
        self.admin.audit_refusal(refusal);
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
        let (share, before) = self.catalog()?.change_limits(share, limits)?;
        let (from, to) = (before.named_by(limits), share.limits.named_by(limits));
        info!(name: "limits_changed", operator = by.name(), share = share.name, from, to, "an operator has changed a share's limits");
        self.take_up()
    }

    /// Lets the sessions of an account have several channels, or no longer, and has the server take that up.
    pub fn switch_multichannel(&self, by: By<'_>, account: &AccountName, to: Multichannel) -> Result<(), Error> {
        let changes = AccountChanges { multichannel: Some(to), ..AccountChanges::default() };
        self.catalog()?.update_account(account, changes)?;
        let is_on = to == Multichannel::On;
        info!(name: "multichannel_switched", operator = by.name(), account = account.as_str(), on = is_on, "an operator has switched multichannel");
        self.take_up()
    }

    /// Makes a share for a client that has this kept of it, and has the server serve it.
    pub fn create_share(&self, by: By<'_>, new: &NewShare, kept: AzureShare) -> Result<ShareRecord, Error> {
        let share = self.catalog()?.create_share_with(new, &[], kept)?;
        changed(by, "share created", &share.name);
        self.take_up()?;
        Ok(share)
    }

    /// Changes a share of an account, and what is kept of it, for who names this lease, or none.
    pub fn update_share(
        &self,
        by: By<'_>,
        account: &AccountName,
        share: &ShareName,
        changes: &ShareChanges,
        lease: Option<&str>,
        keep: impl FnOnce(&mut AzureShare, Timestamp),
    ) -> Result<ShareRecord, Error> {
        let share = self.catalog()?.update_share_of(account, share, changes, lease, keep)?;
        changed(by, "share changed", &share.name);
        self.take_up()?;
        Ok(share)
    }

    /// Deletes a share of an account for who names this lease, or none. What clients have open on it is closed. Its snapshots go with its files, and are
    /// kept with them.
    pub fn delete_share(
        &self,
        by: By<'_>,
        account: &AccountName,
        share: &ShareName,
        lease: Option<&str>,
        snapshots: WithSnapshots,
    ) -> Result<Deletion, Error> {
        let mut catalog = self.catalog()?;
        let found = catalog.share(share).ok().filter(|found| found.account == account.as_str());
        // Until it is deleted nobody makes one, and nobody has a lease of one.
        let _turn = found.map(|found| self.refuse_for_snapshots(&found, snapshots)).transpose()?;
        let deletion = catalog.delete_share_of(account, share, lease)?;
        changed(by, "share deleted", &deletion.share().name);
        self.take_up()?;
        Ok(deletion)
    }

    pub(crate) fn control(&self) -> Result<Arc<Mutex<Control>>, Error> {
        self.control.upgrade().ok_or_else(|| Error::machine("the server ends", "ask it when it has started again"))
    }

    /// Has a deleted share of an account there again.
    pub fn undelete_share(
        &self,
        by: By<'_>,
        account: &AccountName,
        deleted: &ShareName,
        version: Option<&str>,
        new_name: &ShareName,
    ) -> Result<ShareRecord, Error> {
        let share = self.catalog()?.undelete_share(Some(account), deleted, version, Some(new_name))?;
        changed(by, "share undeleted", &share.name);
        self.take_up()?;
        Ok(share)
    }

    /// Changes what clients of Azure Files keep of a share of an account ([`Catalog::change_azure_share`]).
    pub fn change_azure_share<T>(
        &self,
        account: &AccountName,
        share: &ShareName,
        change: impl FnOnce(&mut AzureShare, Timestamp) -> Result<T, Error>,
    ) -> Result<(T, AzureShare), Error> {
        let changed = self.catalog()?.change_azure_share(account, share, change)?;
        self.take_up()?;
        Ok(changed)
    }

    /// Sets an account's file service up otherwise: what clients keep of it, and what the server does.
    pub fn set_file_service(
        &self,
        by: By<'_>,
        account: &AccountName,
        to: &FileService,
        changes: AccountChanges,
    ) -> Result<(), Error> {
        let mut catalog = self.catalog()?;
        to.check()?;
        catalog.update_account(account, changes)?;
        catalog.set_file_service(account, to)?;
        changed(by, "file service set", account.as_str());
        self.take_up()
    }

    /// Keeps a descriptor of files of a share by a name ([`Catalog::keep_permission`]).
    pub fn keep_permission(
        &self,
        account: &AccountName,
        share: &ShareName,
        name: &str,
        descriptor: &[u8],
    ) -> Result<(), Error> {
        self.catalog()?.keep_permission(account, share, name, descriptor)
    }

    /// A descriptor that is kept of a share, if there is one of that name.
    pub fn permission(&self, account: &AccountName, share: &ShareName, name: &str) -> Result<Option<Vec<u8>>, Error> {
        self.catalog()?.permission(account, share, name)
    }

    /// Bytes that the files of a share take, where they are counted all the time.
    pub fn used_bytes(&self, account: &AccountName, share: &ShareName) -> Result<Option<u64>, Error> {
        Ok(self.place_and_use(account, share)?.1)
    }

    /// The same, counted now where they are not counted all the time. Waits for the folder's device.
    pub fn count_used_bytes(&self, account: &AccountName, share: &ShareName) -> Result<u64, Error> {
        match self.place_and_use(account, share)? {
            (_, Some(used)) => Ok(used),
            (Source::Folder { path, .. }, None) => count_bytes(account, &path),
            (Source::Ram { .. }, None) => Ok(0),
        }
    }

    fn place_and_use(&self, account: &AccountName, share: &ShareName) -> Result<(Source, Option<u64>), Error> {
        let found = self.control()?.lock().place_and_use(account, share);
        found.ok_or_else(|| {
            Error::missing(
                format!("the account {:?} has no share {:?}", account.as_str(), share.as_str()),
                "`multilane share list` shows those there are",
            )
            .because(Reason::NoShare)
        })
    }

    pub(crate) fn catalog(&self) -> Result<Catalog, Error> {
        Catalog::reopen_within(&self.folder, CATALOG_WAIT)
    }

    pub(crate) fn take_up(&self) -> Result<(), Error> {
        let ending =
            || Error::machine("the change is kept, and the server ends", "it takes effect when it starts again");
        reload(&*self.control.upgrade().ok_or_else(ending)?, &*self.admin).map(drop)
    }
}

fn closed(found: bool, id: u64, what: &str, list: &str) -> Result<(), Error> {
    if found {
        return Ok(());
    }
    Err(Error::missing(format!("there is no {what} {id}"), format!("`multilane {list}` shows those there are")))
}
