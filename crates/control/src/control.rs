//! From the catalog to the configuration that the server serves.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use parking_lot::Mutex;
use server::admin::{
    Account, Advertise, AdvertisedAddress, Anonymous, Configuration, Group, OpenSnapshots, OwnAddresses, Principal,
    PrincipalKind, Sealing, Secret, Settings, Share, Signing, Standing, nt_hash,
};
use tracing::{info, warn};

use crate::catalog::{
    self, BusyPolling, Catalog, Dialect, NewShare, ShareRecord, Snapshot, Source, StoredSettings, sense,
};
use crate::catalog_changes;
use crate::catalog_health::CatalogHealth;
use crate::name::host_label;
use crate::own_folder;
use crate::rates::Limits;
use crate::serve_option::{ServeOption, SettingView, views_of};
use crate::served_folder::{BeforeTouch, HANGS_AFTER};
use crate::server_health::ServerHealth;
use crate::share_gauges::{Gauge, ShareGauges};
use crate::stores::{Folders, Looks, Stores};
use crate::views::ShareUse;
use crate::{
    AccountKind, AccountName, DataFolder, Error, KnownCatalog, LockAfter, LockFor, MetadataCaching, Problem, ShareName,
};

/// The account and the share that a first start makes.
const FIRST_ACCOUNT: &str = "local";
const FIRST_SHARE: &str = "share";
/// What a data folder has where a server has run.
const OF_A_SERVER: [&str; 3] = ["metrics.db", "audit.log", "opens"];
/// How long the first configuration waits for its folders, so that what is well is served from the first moment on.
const FIRST_WAIT: Duration = HANGS_AFTER;

/// What `serve` is started with, which counts before the catalog.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// All options of `serve`, for people.
    pub options: Vec<ServeOption>,
    /// Where to listen; empty for what the catalog says.
    pub listen: Vec<SocketAddr>,
    /// The oldest dialect to accept.
    pub dialect_min: Option<Dialect>,
    /// Whether every request must be signed.
    pub signing: Option<Signing>,
    /// Whether every session must be sealed.
    pub sealing: Option<Sealing>,
    /// The most connections that one session may use at once.
    pub channels_max: Option<usize>,
    /// How long threads poll before they sleep.
    pub busy_poll: Option<BusyPolling>,
    /// Addresses that clients are told of; empty for what the catalog says.
    pub advertise: Vec<AdvertisedAddress>,
    /// Whether they are told of the machine's own addresses, too.
    pub own_addresses: Option<OwnAddresses>,
    /// Whether a session may be signed in again as the anonymous user.
    pub anonymous: Option<Anonymous>,
    /// After how many wrong passwords a user is locked.
    pub lock_after: Option<LockAfter>,
    /// How long a lock lasts.
    pub lock_for: Option<LockFor>,
    /// How much longer each call of a RAM disk takes that a store on another machine would be asked: for measurements.
    pub store_latency: Option<Duration>,
    /// The most credits for bursts that a share keeps, however many are provisioned: for tests, which cannot wait until a million are used.
    pub burst_credits_max: Option<u64>,
}

/// The catalog of a running server, with the stores of its shares. Nothing here waits for a folder's device but
/// [`Control::first_estate`], and that not for long.
pub struct Control {
    folder: DataFolder,
    /// `None` where what is at its path could not be opened.
    catalog: Option<Catalog>,
    overrides: Overrides,
    /// Nobody waits with these locked.
    stores: Arc<Mutex<Stores>>,
    limits: Limits,
    problems: Vec<Problem>,
    gauges: ShareGauges,
    told: KnownCatalog,
    /// What was read last. It counts until the catalog can be read again, whatever has become of that.
    known: Option<Arc<Snapshot>>,
    /// True where the open file took another's place and was not read yet.
    is_replaced: bool,
    /// The version of the open catalog that the last configuration was made of; `None` where that was another file.
    version: Option<i64>,
    /// Hears when a folder is served that was not; until somebody listens.
    changes: Option<Receiver<()>>,
    health: CatalogHealth,
    /// Hears that the catalog's file is to be looked at; until somebody listens.
    looks: Option<Receiver<()>>,
}

impl Control {
    /// Takes over `catalog`, which is that of `folder`, for as long as the server runs.
    pub fn new(folder: &DataFolder, catalog: Catalog, overrides: Overrides) -> Self {
        Control::touching(folder, catalog, overrides, Arc::new(|_| {}))
    }

    /// The same, with something that is called before a share's folder is touched.
    pub(crate) fn touching(
        folder: &DataFolder,
        catalog: Catalog,
        overrides: Overrides,
        before_touch: BeforeTouch,
    ) -> Self {
        let (mut stores, changes) = Stores::new(folder.clone(), before_touch);
        let (health, looks) = CatalogHealth::new();
        stores.delay_ram_disks(overrides.store_latency);
        Control {
            folder: folder.clone(),
            catalog: Some(catalog),
            limits: Limits::with_credits(overrides.burst_credits_max),
            overrides,
            stores: Arc::new(Mutex::new(stores)),
            problems: Vec::new(),
            gauges: ShareGauges::default(),
            told: KnownCatalog::default(),
            known: None,
            is_replaced: false,
            version: None,
            changes: Some(changes),
            health,
            looks: Some(looks),
        }
    }

    /// Reads the catalog and begins to open the folders that are new. A share whose folder is not open yet is left out and becomes a
    /// [`Problem`]; the others are served.
    pub fn configuration(&mut self) -> Result<Configuration, Error> {
        let (version, snapshot) = self.read()?;
        self.version = Some(version);
        Ok(self.estate_of(&snapshot))
    }

    /// The same of what the catalog said when it was last read; `None` where it never was.
    pub(crate) fn known_estate(&mut self) -> Option<Configuration> {
        let snapshot = self.known.clone()?;
        Some(self.estate_of(&snapshot))
    }

    fn estate_of(&mut self, snapshot: &Arc<Snapshot>) -> Configuration {
        self.stores.lock().keep_only(&snapshot.shares);
        self.limits.keep_only(snapshot);
        let before = std::mem::take(&mut self.problems);
        let shares: Vec<Share> = snapshot.shares.iter().filter_map(|share| self.share(share, snapshot)).collect();
        self.tell_problems(&before, snapshot);
        self.gauges.replace(snapshot.shares.iter().map(|share| self.gauge(share, &shares)));
        let is_awaited = |share: &&ShareRecord| !shares.iter().any(|served| served.name == share.name);
        let awaited = snapshot.shares.iter().filter(is_awaited).map(|share| share.name.clone()).collect();
        let settings = settings(&self.settings_over(snapshot.settings.clone()));
        self.told.replace(snapshot, &self.problems, settings.sealing);
        Configuration {
            principals: principals(snapshot),
            accounts: accounts(snapshot),
            groups: groups(snapshot),
            shares,
            awaited,
            settings,
        }
    }

    /// Reads the file that the catalog's path leads to now; gives its version, too, or an earlier one.
    fn read(&mut self) -> Result<(i64, Arc<Snapshot>), Error> {
        let mut catalog = match self.catalog.take() {
            Some(catalog) if !catalog.is_replaced(&self.folder) => catalog,
            replaced => {
                (self.version, self.is_replaced) = (None, true);
                // Closed first: where both have one log, closing the other would take away the locks of this one.
                drop(replaced);
                Catalog::reopen(&self.folder)?
            }
        };
        let read = catalog.version().and_then(|version| Ok((version, catalog.snapshot()?)));
        self.catalog = Some(catalog);
        let (version, snapshot) = read?;
        let is_reopened = std::mem::take(&mut self.is_replaced);
        if let Some(before) = &self.known
            && (is_reopened || before.restoration != snapshot.restoration)
        {
            info!(name: "catalog_replaced", "another catalog is in the place of the one before: what it says now takes effect");
            self.stores.lock().drop_disks_of_others(&before.shares, &snapshot.shares);
            self.health.look();
        }
        if let Some(before) = &self.known {
            catalog_changes::tell(before, &snapshot);
        }
        catalog_changes::tell_damages(self.known.as_deref(), &snapshot);
        if snapshot.former.iter().any(|former| former.until <= snapshot.read_at)
            && let Some(catalog) = &mut self.catalog
        {
            // Where it cannot be done now, it is with the next reading or the next command.
            let _ = catalog.forget_former(snapshot.read_at);
        }
        Ok((version, Arc::clone(self.known.insert(Arc::new(snapshot)))))
    }

    /// The same once all folders have been looked at, or two seconds are over.
    pub fn first_estate(&mut self) -> Result<Configuration, Error> {
        let until = Instant::now() + FIRST_WAIT;
        self.look()?.wait_out(until);
        self.configuration()
    }

    /// Where to listen; empty for the default.
    pub fn listen(&mut self) -> Result<Vec<SocketAddr>, Error> {
        let stored = self.read()?.1.settings.clone();
        Ok(self.settings_over(stored).listen)
    }

    /// Reads the catalog and has all folders looked at.
    pub(crate) fn look(&mut self) -> Result<Looks, Error> {
        let (_, snapshot) = self.read()?;
        self.stores.lock().keep_only(&snapshot.shares);
        for share in &snapshot.shares {
            // Why one cannot be opened is told with the configuration.
            let _ = self.stores.lock().keep(share);
        }
        Ok(self.stores.lock().look())
    }

    /// Who hears of folders that are served now, and something that makes itself heard there. `None` where somebody listens already.
    pub(crate) fn changes(&mut self) -> Option<(Receiver<()>, SyncSender<()>)> {
        self.changes.take().map(|changes| (changes, self.stores.lock().teller()))
    }

    /// Begins to look at the catalog's file now and then; gives who has it looked at.
    pub(crate) fn watch_catalog(&mut self) -> io::Result<CatalogHealth> {
        if let Some(looks) = self.looks.take() {
            self.health.watch(&self.folder, looks)?;
        }
        Ok(self.health.clone())
    }

    /// What the last look at the catalog's file found wrong.
    pub fn catalog_damage(&self) -> Option<String> {
        self.health.damage()
    }

    /// True where the catalog has changed since the last configuration, or was replaced. Where it cannot be asked just now it can be the next time.
    pub(crate) fn is_out_of_date(&self) -> bool {
        let is_new = |catalog: &Catalog| catalog.version().is_ok_and(|version| self.version != Some(version));
        let has_changed =
            self.catalog.as_ref().is_none_or(|catalog| catalog.is_replaced(&self.folder) || is_new(catalog));
        self.known.as_ref().is_some_and(|known| has_changed || known.is_over(Timestamp::now()))
    }

    /// Has nothing stay in the catalog's files that was taken away while another program read them.
    pub(crate) fn forget_rest(&self) {
        if let Some(catalog) = &self.catalog {
            catalog.forget_rest();
        }
    }

    /// Forgets the shares that were deleted and whose time is over; true where there were some. Nobody has them served by now.
    pub(crate) fn sweep_deleted(&mut self) -> bool {
        let now = Timestamp::now();
        let is_due = |known: &Arc<Snapshot>| known.deleted.iter().any(|deleted| deleted.kept_until <= now);
        if !self.known.as_ref().is_some_and(is_due) {
            return false;
        }
        let Some(catalog) = &mut self.catalog else { return false };
        match catalog.sweep_deleted(now) {
            Ok(gone) => {
                for ShareRecord { name, account, .. } in &gone {
                    info!(name: "deleted_share_gone", share = name, account, "a deleted share is gone for good");
                }
                !gone.is_empty()
            }
            Err(cause) => {
                warn!(name: "deleted_share_stays", error = %cause, "a deleted share whose time is over could not be taken away");
                false
            }
        }
    }

    /// The data folder.
    pub(crate) fn data(&self) -> DataFolder {
        self.folder.clone()
    }

    /// True where a folder is served by now that the last configuration left out, or the other way round.
    pub(crate) fn is_behind(&self) -> bool {
        self.stores.lock().are_behind()
    }

    /// True where the catalog cannot be read, and a time has come that it named when it was: what it says of that counts all the same.
    pub(crate) fn is_overtaken(&self) -> bool {
        let cannot_be_read = self.catalog.is_none() || self.is_replaced;
        cannot_be_read && self.known.as_ref().is_some_and(|known| known.is_over(Timestamp::now()))
    }

    /// The shares that the last configuration left out, and those whose folder is not as it should be.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// How the requests of each share have met its limits.
    pub fn limits_in_use(&self) -> Vec<ShareUse> {
        let shares = self.known.iter().flat_map(|snapshot| &snapshot.shares);
        let used = |share: &ShareRecord| self.stores.lock().gauge(share).used_bytes();
        shares.filter_map(|share| Some(ShareUse { used_bytes: used(share), ..self.limits.in_use(share)? })).collect()
    }

    /// The snapshots of a share that are open, where it is served.
    pub(crate) fn open_snapshots(&self, share: &ShareRecord) -> Arc<OpenSnapshots> {
        self.stores.lock().snapshots(share)
    }

    /// Where the files of a share of an account are, and the bytes that they take where those are counted.
    pub(crate) fn place_and_use(&self, account: &AccountName, share: &ShareName) -> Option<(Source, Option<u64>)> {
        let is_it = |one: &&ShareRecord| {
            one.account == account.as_str() && store::fold(&one.name) == store::fold(share.as_str())
        };
        let share = self.known.as_ref()?.shares.iter().find(is_it)?;
        Some((share.source.clone(), self.stores.lock().gauge(share).used_bytes()))
    }

    /// The shares that the catalog had when it was read last.
    pub fn shares(&self) -> Vec<ShareRecord> {
        self.known.iter().flat_map(|snapshot| &snapshot.shares).cloned().collect()
    }

    /// The name of the user whose SID has this last number, as the catalog had it when it was read last.
    pub(crate) fn name_of_user(&self, relative_id: u32) -> Option<String> {
        let mut users = self.known.iter().flat_map(|snapshot| &snapshot.users).map(|(user, _)| user);
        users.find(|user| user.relative_id == relative_id).map(|user| user.name.clone())
    }

    /// The options of `serve`, and what each of them is now.
    pub fn settings(&self) -> Vec<SettingView> {
        let kept = self.known.as_ref().map(|snapshot| &snapshot.settings);
        views_of(&self.overrides.options, kept)
    }

    /// The settings that count, where the catalog was read.
    pub(crate) fn settings_in_use(&self) -> Option<StoredSettings> {
        self.known.as_ref().map(|snapshot| self.settings_over(snapshot.settings.clone()))
    }

    /// Has other options of `serve` count. The next configuration is made with them; where to listen stays as it is.
    pub fn override_with(&mut self, overrides: Overrides) {
        self.overrides = overrides;
    }

    /// What is known of the shares, for who looks often.
    pub fn gauges(&self) -> ShareGauges {
        self.gauges.clone()
    }

    /// How the server is, for who looks often.
    pub fn server_health(&self) -> ServerHealth {
        ServerHealth::new(self.told.clone(), self.health.shared(), self.folder.path().to_owned())
    }

    /// What the catalog said last, for who must not wait for its disk.
    pub fn catalog(&self) -> KnownCatalog {
        self.told.clone()
    }

    /// The folders of the shares.
    pub fn folders(&self) -> Folders {
        Folders(Arc::clone(&self.stores))
    }

    fn share(&mut self, share: &ShareRecord, snapshot: &Snapshot) -> Option<Share> {
        if let Some(problem) = sense::of_share(share) {
            self.problems.push(Problem { share: share.name.clone(), problem, served: false });
            return None;
        }
        let account = snapshot.accounts.iter().find(|(account, _)| account.name.as_str() == share.account);
        let caches = account.is_some_and(|(account, _)| account.metadata_caching == MetadataCaching::On);
        let known = self.stores.lock().of(share, caches);
        if let Some(problem) = known.problem {
            self.problems.push(Problem { share: share.name.clone(), problem, served: known.store.is_some() });
        }
        Some(Share {
            name: share.name.clone(),
            account: share.account.clone(),
            comment: share.comment.clone(),
            store: known.store?,
            read_only: share.read_only,
            seal_required: share.seal_required,
            continuously_available: share.continuous,
            access_based: share.access_based,
            time_machine: share.time_machine,
            rights: snapshot.rights.get(&share.id).cloned().unwrap_or_default(),
            audit: share.audit,
            limit: self.limits.of(share, snapshot),
            snapshots: self.stores.lock().snapshots(share),
        })
    }

    /// Where a share is read, of those that are `served`.
    fn gauge(&self, share: &ShareRecord, served: &[Share]) -> Gauge {
        Gauge {
            share: share.name.clone(),
            is_served: served.iter().any(|one| one.name == share.name),
            provisioned: share.provisioned,
            limits: share.limits,
            limit: self.limits.known(share),
            space: self.stores.lock().gauge(share),
        }
    }

    /// Logs what is new about shares that are not served.
    fn tell_problems(&self, before: &[Problem], snapshot: &Snapshot) {
        for Problem { share, problem, .. } in self.problems.iter().filter(|one| !one.served && !before.contains(one)) {
            warn!(name: "share_not_served", share, reason = problem, "share is not served yet");
        }
        for Problem { share, .. } in before.iter().filter(|one| !one.served) {
            let is_there = snapshot.shares.iter().any(|one| one.name == *share);
            if is_there && !self.problems.iter().any(|one| one.share == *share && !one.served) {
                info!(name: "share_served", share, "share is served now");
            }
        }
    }

    fn settings_over(&self, mut settings: StoredSettings) -> StoredSettings {
        if !self.overrides.listen.is_empty() {
            settings.listen.clone_from(&self.overrides.listen);
        }
        settings.dialect_min = self.overrides.dialect_min.unwrap_or(settings.dialect_min);
        settings.signing = self.overrides.signing.unwrap_or(settings.signing);
        settings.sealing = self.overrides.sealing.unwrap_or(settings.sealing);
        settings.busy_poll = self.overrides.busy_poll.unwrap_or(settings.busy_poll);
        settings.channels_max = self.overrides.channels_max.unwrap_or(settings.channels_max);
        if !self.overrides.advertise.is_empty() {
            settings.advertise.clone_from(&self.overrides.advertise);
        }
        settings.own_addresses = self.overrides.own_addresses.unwrap_or(settings.own_addresses);
        settings.anonymous = self.overrides.anonymous.unwrap_or(settings.anonymous);
        settings.lock_after = self.overrides.lock_after.unwrap_or(settings.lock_after);
        settings.lock_for = self.overrides.lock_for.unwrap_or(settings.lock_for);
        settings
    }
}

/// Makes a first account and a first share on a folder below the data folder, where there never was an account.
pub fn first_start(catalog: &mut Catalog, folder: &DataFolder) -> Result<(), Error> {
    if !catalog.is_new()? {
        return Ok(());
    }
    if OF_A_SERVER.iter().any(|name| folder.path().join(name).exists()) {
        warn!(name: "catalog_lost", folder = %folder.path().display(), "a server has run here, and its catalog is gone: accounts, keys, users and shares are new; restore a backup with `multilane restore FILE`");
    }
    make_first(catalog, folder, FIRST_ACCOUNT, None)
}

/// Makes an account, with this first key where one is named, and its share.
pub(crate) fn make_first(
    catalog: &mut Catalog,
    folder: &DataFolder,
    name: &str,
    key: Option<&str>,
) -> Result<(), Error> {
    let path = folder.first_share();
    if !path.exists() {
        own_folder::make_for_share(&path)?;
    }
    let account: AccountName = name.parse()?;
    catalog.create_account_with_key(&account, AccountKind::FileStorage, key)?;
    let source = Source::Folder { path: path.clone(), quota_gib: None };
    let new = NewShare::new(FIRST_SHARE.parse::<ShareName>()?, source);
    catalog.create_share(&NewShare { account: Some(account), ..new })?;
    info!(name: "first_start", account = name, share = FIRST_SHARE, folder = %path.display(), "first start: made an account and a share");
    Ok(())
}

fn accounts(snapshot: &Snapshot) -> Vec<Account> {
    let of = |account: &catalog::Account| Account { name: account.name.clone(), multichannel: account.multichannel };
    snapshot.accounts.iter().map(|(account, _)| of(account)).collect()
}

fn groups(snapshot: &Snapshot) -> Vec<Group> {
    let of = |group: &catalog::Group| Group {
        name: group.name.clone(),
        account: group.account.clone(),
        relative_id: group.relative_id,
    };
    snapshot.groups.iter().filter(|group| sense::of_group(group).is_none()).map(of).collect()
}

/// The groups that a user is in, of those that there are.
fn groups_of(snapshot: &Snapshot, relative_id: u32) -> Vec<u32> {
    let of = snapshot.groups_of.get(&relative_id).into_iter().flatten().copied();
    of.filter(|group| sense::is_relative_id(*group)).collect()
}

/// Accounts sign in with either key, users with their password. Rows that make no sense are nobody's, and a key that is none lets nobody in.
fn principals(snapshot: &Snapshot) -> Vec<Principal> {
    let now = Timestamp::now();
    let former = |relative_id: u32| -> Vec<Secret> {
        let of = snapshot.former.iter().filter(|former| former.relative_id == relative_id && former.until > now);
        of.map(|former| former.nt_hash.clone()).collect()
    };
    let accounts = snapshot.accounts.iter().filter(|(account, _)| sense::of_account(account).is_none());
    let accounts = accounts.map(|(account, keys)| Principal {
        name: account.name.clone(),
        account: account.name.clone(),
        kind: PrincipalKind::Account,
        relative_id: account.relative_id,
        // Who replaces a key that many programs have gives them time to learn the new one.
        secrets: [&keys.key1, &keys.key2]
            .into_iter()
            .filter(|key| sense::is_key(key))
            .map(|key| nt_hash(key))
            .chain(former(account.relative_id))
            .collect(),
        former: Vec::new(),
        unix_owner: None,
        groups: Vec::new(),
        standing: Standing::Good,
    });
    // Who is damaged has no password, and is nobody.
    let users = snapshot.users.iter().filter(|(user, _)| sense::of_user(user).is_none());
    let users = users.filter_map(|(user, hash)| hash.as_ref().map(|hash| (user, hash)));
    let users = users.map(|(user, hash)| Principal {
        name: user.name.clone(),
        account: user.account.clone(),
        kind: PrincipalKind::User,
        relative_id: user.relative_id,
        secrets: vec![hash.clone()],
        former: former(user.relative_id),
        unix_owner: user.unix_owner,
        groups: groups_of(snapshot, user.relative_id),
        standing: user.standing(now),
    });
    accounts.chain(users).collect()
}

fn settings(stored: &StoredSettings) -> Settings {
    Settings {
        server_name: stored.server_name.clone().filter(|name| sense::is_server_name(name)).unwrap_or_else(host_label),
        machine_sid: stored.machine_sid,
        server_guid: stored.server_guid,
        dialect_min: stored.dialect_min.revision(),
        signing: stored.signing,
        sealing: stored.sealing,
        channels_max: stored.channels_max,
        advertise: Advertise { addresses: stored.advertise.clone(), own: stored.own_addresses },
        anonymous: stored.anonymous,
        busy_poll: stored.busy_poll.polling(),
        lock: stored.lock(),
    }
}
