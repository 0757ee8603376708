//! What operators have a running server do, by a command or on the page. Each is logged with who wanted it.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use server::admin::{Admin, AuditOrigin, Multichannel, NotedOrigin, OpenView};
use store::Store;
use tracing::info;

use crate::catalog::{own_folder, refuse_of_other};
use crate::count::count_bytes;
use crate::managed::changed;
use crate::reload::reload;
use crate::share_lease::may_change;
use crate::snapshots::{self, SnapshotsOf};
use crate::{
    AccountChanges, AccountName, AzureShare, Catalog, Control, DataFolder, Deletion, Error, FileService, LimitChanges,
    NewShare, Reason, ShareChanges, ShareName, ShareRecord, ShareSnapshot, SnapshotTime, Source, refused_by_lease,
};

/// How long a change waits for programs that hold the catalog: less than who asks for it waits for an answer, so that what is said to have failed is not
/// done later.
pub(crate) const CATALOG_WAIT: Duration = Duration::from_secs(4);

/// Snapshots of all shares of an account.
const SNAPSHOTS_MAX: usize = 1000;

/// What becomes of the snapshots of a share that is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithSnapshots {
    /// It is not deleted where it has some.
    Refused,
    /// Nor where one of them has a lease.
    Unleased,
    /// They go with it.
    All,
}

/// By which lease something is done.
#[derive(Clone, Copy, Debug)]
pub enum LeaseNamed<'a> {
    /// By this, or by none.
    This(Option<&'a str>),
    /// Whoever has one.
    Whatever,
}

/// A snapshot that the server serves at least as long as somebody has this.
pub struct OpenedSnapshot {
    _store: Arc<dyn Store>,
}

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

    /// Has the audit log tell what is done on behalf of `origin` of that, as long as it is noted.
    pub fn note_origin(&self, origin: AuditOrigin) -> Result<NotedOrigin, Error> {
        self.admin.origins().note(origin).map_err(|_| Error::machine("this machine gave no randomness", "try again"))
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
        let has = found.as_ref().and_then(|found| self.snapshots_of(found));
        let times = has.as_ref().map_or_else(|| Ok(Vec::new()), SnapshotsOf::times)?;
        let leased =
            |at: &SnapshotTime| has.as_ref().and_then(|has| has.get(*at).ok()?).is_some_and(|one| one.is_leased());
        match snapshots {
            WithSnapshots::Refused if !times.is_empty() => {
                let what = format!("the share has {} snapshots", times.len());
                let remedy = "delete them first, or say that they are to be deleted with it";
                return Err(Error::conflict(what, remedy).because(Reason::HasSnapshots));
            }
            WithSnapshots::Unleased if times.iter().any(leased) => {
                let remedy = "end the lease first, or say that leased snapshots are to be deleted, too";
                let refused = Error::conflict("a snapshot of the share has a lease", remedy);
                return Err(refused.because(Reason::SnapshotLeased));
            }
            WithSnapshots::Refused | WithSnapshots::Unleased | WithSnapshots::All => {}
        }
        let deletion = catalog.delete_share_of(account, share, lease)?;
        changed(by, "share deleted", &deletion.share().name);
        self.take_up()?;
        if !times.is_empty() {
            own_folder::take_away_soon(self.folder.path().to_owned());
        }
        Ok(deletion)
    }

    /// Makes a snapshot of a share of an account, with this metadata or that of the share.
    pub fn take_snapshot(
        &self,
        by: By<'_>,
        account: &AccountName,
        share: &ShareName,
        metadata: Option<BTreeMap<String, String>>,
    ) -> Result<ShareSnapshot, Error> {
        let catalog = self.catalog()?;
        let record = catalog.share(share)?;
        refuse_of_other(&record, account)?;
        let mut kept = catalog.azure_share(share)?;
        let (shares, kept_shares) = (catalog.shares()?, catalog.deleted_shares()?);
        drop(catalog);
        let of = self.snapshots_of(&record).ok_or_else(|| snapshots::no_snapshots(unsupported(&record)))?;
        let count =
            |share: &ShareRecord| self.snapshots_of(share).map_or(Ok(0), |of| of.times().map(|times| times.len()));
        let all = shares.iter().chain(kept_shares.iter().map(|kept| &kept.share));
        let of_account = all.filter(|share| share.account == account.as_str());
        let counted: usize = of_account.map(count).sum::<Result<usize, Error>>()?;
        if counted >= SNAPSHOTS_MAX {
            let what = format!("the account has {counted} snapshots of its shares, as many as one may have");
            return Err(Error::conflict(what, "delete one of them first").because(Reason::TooManySnapshots));
        }
        (kept.lease, kept.policies) = (None, Vec::new());
        metadata.into_iter().for_each(|metadata| kept.metadata = metadata);
        kept.touch(Timestamp::now());
        kept.check()?;
        let quota_gib = record.provisioned.map(|of| of.gib).or(record.source.quota_gib().map(NonZeroU32::get));
        let snapshot = of.take(kept, quota_gib)?;
        changed(by, "snapshot made", &format!("{} {}", record.name, snapshot.at));
        Ok(snapshot)
    }

    /// When the snapshots of a share were made, the oldest first.
    pub fn snapshots(&self, share: &ShareRecord) -> Result<Vec<SnapshotTime>, Error> {
        self.snapshots_of(share).map_or_else(|| Ok(Vec::new()), |of| of.times())
    }

    /// A snapshot of a share. [`Reason::NoSnapshot`] where there is none of that time.
    pub fn snapshot(&self, share: &ShareRecord, at: SnapshotTime) -> Result<ShareSnapshot, Error> {
        let found = self.snapshots_of(share).map_or(Ok(None), |of| of.get(at))?;
        found.ok_or_else(|| snapshots::missing(at))
    }

    /// Changes what is kept of a snapshot as `change` does, which is told what it is now and the time. Where it refuses nothing is changed.
    pub fn change_snapshot<T>(
        &self,
        share: &ShareRecord,
        at: SnapshotTime,
        change: impl FnOnce(&mut AzureShare, Timestamp) -> Result<T, Error>,
    ) -> Result<(T, AzureShare), Error> {
        self.snapshots_of(share).ok_or_else(|| snapshots::missing(at))?.change(at, change)
    }

    /// Deletes a snapshot of a share for who may, by its lease. What clients have open in it is closed.
    pub fn delete_snapshot(
        &self,
        by: By<'_>,
        share: &ShareRecord,
        at: SnapshotTime,
        lease: LeaseNamed<'_>,
    ) -> Result<(), Error> {
        let of = self.snapshots_of(share).ok_or_else(|| snapshots::missing(at))?;
        of.delete(at, |snapshot| match lease {
            LeaseNamed::Whatever => Ok(()),
            LeaseNamed::This(lease) => {
                may_change(snapshot.kept.lease.as_ref(), lease, Timestamp::now()).map_err(refused_by_lease)
            }
        })?;
        changed(by, "snapshot deleted", &format!("{} {at}", share.name));
        self.control()?.lock().open_snapshots(share).close(&at.to_string());
        let taken_up = self.take_up();
        own_folder::take_away_soon(self.folder.path().to_owned());
        taken_up
    }

    /// The same for an operator, by the share's name.
    pub(crate) fn delete_snapshot_named(&self, share: &ShareName, at: SnapshotTime) -> Result<(), Error> {
        self.delete_snapshot(By::Command, &self.catalog()?.share(share)?, at, LeaseNamed::Whatever)
    }

    /// Has the server serve a snapshot to connections of this process, as `SHARE:TIME`, as long as somebody has what this gives, or is connected to it, unless
    /// it is deleted.
    pub fn open_snapshot(&self, share: &ShareRecord, at: SnapshotTime) -> Result<OpenedSnapshot, Error> {
        let of = self.snapshots_of(share).ok_or_else(|| snapshots::missing(at))?;
        let open = self.control()?.lock().open_snapshots(share);
        let name = at.to_string();
        of.get(at)?.ok_or_else(|| snapshots::missing(at))?;
        let store = match open.get(&name) {
            Some(store) => store,
            None => open.add(&name, of.open(at)?),
        };
        // Whoever deletes it moves it away first, and may not have found it open.
        if of.get(at)?.is_none() {
            open.close(&name);
            return Err(snapshots::missing(at));
        }
        Ok(OpenedSnapshot { _store: store })
    }

    fn snapshots_of(&self, share: &ShareRecord) -> Option<SnapshotsOf> {
        SnapshotsOf::of(&share.source, self.folder.path())
    }

    fn control(&self) -> Result<Arc<Mutex<Control>>, Error> {
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
            (Source::Folder { path, .. }, None) => count_bytes(&path),
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

    fn catalog(&self) -> Result<Catalog, Error> {
        Catalog::reopen_within(&self.folder, CATALOG_WAIT)
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

/// Why a share has no snapshots that is on nothing that the server made.
fn unsupported(share: &ShareRecord) -> String {
    match &share.source {
        Source::Folder { path, .. } => {
            format!("the folder {} of the share is one that an operator named", path.display())
        }
        Source::Ram { .. } => "the share is on a RAM disk".to_owned(),
    }
}

fn closed(found: bool, id: u64, what: &str, list: &str) -> Result<(), Error> {
    if found {
        return Ok(());
    }
    Err(Error::missing(format!("there is no {what} {id}"), format!("`multilane {list}` shows those there are")))
}
