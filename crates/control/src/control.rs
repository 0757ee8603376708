//! From the catalog to the estate that the server serves.

use std::net::SocketAddr;

use server::admin::{
    Account, Advertise, Anonymous, Estate, Principal, PrincipalKind, Sealing, Settings, Share, Signing, nt_hash,
};
use tracing::{info, warn};

use crate::catalog::{
    self, AccountKind, Catalog, Dialect, Modes, NewShare, ShareRecord, Snapshot, Source, StoredSettings,
};
use crate::stores::Stores;
use crate::{AccountName, DataFolder, Error, Problem, ShareName};

/// The account and the share that a first start makes.
const FIRST_ACCOUNT: &str = "local";
const FIRST_SHARE: &str = "share";

/// What the command line of `serve` decides over the catalog, for as long as the server runs.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
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
    /// What clients are told of the server's addresses.
    pub advertise: Advertise,
    /// Whether a session may be signed in again as nobody.
    pub anonymous: Anonymous,
}

/// The catalog of a running server, with the stores of its shares.
pub struct Control {
    catalog: Catalog,
    overrides: Overrides,
    stores: Stores,
    problems: Vec<Problem>,
}

impl Control {
    /// Takes over `catalog`, which is that of `folder`, for as long as the server runs.
    pub fn new(folder: &DataFolder, catalog: Catalog, overrides: Overrides) -> Self {
        Control { catalog, overrides, stores: Stores::new(folder.clone()), problems: Vec::new() }
    }

    /// Reads the catalog and opens the stores that are new. A share whose store cannot be opened is left out and becomes a
    /// [`Problem`]; the others are served.
    pub fn estate(&mut self) -> Result<Estate, Error> {
        let snapshot = self.catalog.snapshot()?;
        self.stores.keep_only(&snapshot.shares);
        self.problems.clear();
        let shares = snapshot.shares.iter().filter_map(|share| self.share(share)).collect();
        let settings = settings(&self.settings_over(snapshot.settings.clone()), &self.overrides);
        Ok(Estate { principals: principals(&snapshot), accounts: accounts(&snapshot), shares, settings })
    }

    /// Where to listen; empty for the default.
    pub fn listen(&mut self) -> Result<Vec<SocketAddr>, Error> {
        let stored = self.catalog.settings()?;
        Ok(self.settings_over(stored).listen)
    }

    /// Serves the folders that have taken the place of those that were served: made anew, or with something mounted there.
    pub fn follow_folders(&self) {
        self.stores.follow();
    }

    /// The same now and then from here on.
    pub fn keep_following_folders(&self) -> std::io::Result<()> {
        self.stores.keep_following()
    }

    /// The shares that the last estate left out.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    fn share(&mut self, share: &ShareRecord) -> Option<Share> {
        match self.stores.of(share) {
            Ok(store) => Some(Share {
                name: share.name.clone(),
                account: share.account.clone(),
                comment: share.comment.clone(),
                store,
                read_only: share.read_only,
                seal_required: share.seal_required,
                continuously_available: share.continuous,
                access_based: share.access_based,
            }),
            Err(problem) => {
                warn!(share = share.name, problem, "share is not served");
                self.problems.push(Problem { share: share.name.clone(), problem });
                None
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
        settings.channels_max = self.overrides.channels_max.unwrap_or(settings.channels_max);
        settings
    }
}

/// Makes a first account and a first share on a folder below the data folder, where there never was an account.
pub fn first_start(catalog: &mut Catalog, folder: &DataFolder) -> Result<(), Error> {
    if !catalog.is_new()? {
        return Ok(());
    }
    let path = folder.first_share();
    std::fs::create_dir_all(&path).map_err(|e| Error::system("make the folder of the first share", &path, &e))?;
    let account: AccountName = FIRST_ACCOUNT.parse()?;
    catalog.create_account(&account, AccountKind::FileStorage)?;
    catalog.create_share(&NewShare {
        name: FIRST_SHARE.parse::<ShareName>()?,
        account: Some(account),
        source: Source::Folder { path: path.clone(), quota_gib: None },
        read_only: false,
        seal_required: false,
        continuous: false,
        access_based: false,
        modes: Modes::default(),
        comment: String::new(),
    })?;
    info!(account = FIRST_ACCOUNT, share = FIRST_SHARE, folder = %path.display(), "first start: made an account and a share");
    Ok(())
}

fn accounts(snapshot: &Snapshot) -> Vec<Account> {
    let of = |account: &catalog::Account| Account { name: account.name.clone(), multichannel: account.multichannel };
    snapshot.accounts.iter().map(|(account, _)| of(account)).collect()
}

/// Accounts sign in with either key, users with their password.
fn principals(snapshot: &Snapshot) -> Vec<Principal> {
    let accounts = snapshot.accounts.iter().map(|(account, keys)| Principal {
        name: account.name.clone(),
        account: account.name.clone(),
        kind: PrincipalKind::Account,
        relative_id: account.relative_id,
        secrets: vec![nt_hash(&keys.key1), nt_hash(&keys.key2)],
    });
    let users = snapshot.users.iter().map(|(user, hash)| Principal {
        name: user.name.clone(),
        account: user.account.clone(),
        kind: PrincipalKind::User,
        relative_id: user.relative_id,
        secrets: vec![hash.clone()],
    });
    accounts.chain(users).collect()
}

fn settings(stored: &StoredSettings, overrides: &Overrides) -> Settings {
    Settings {
        server_name: stored.server_name.clone().unwrap_or_else(host_label),
        machine_sid: stored.machine_sid,
        server_guid: stored.server_guid,
        dialect_min: stored.dialect_min.revision(),
        signing: stored.signing,
        sealing: stored.sealing,
        channels_max: stored.channels_max,
        advertise: overrides.advertise.clone(),
        anonymous: overrides.anonymous,
    }
}

/// The host name's first label, as clients see it.
fn host_label() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    match name.split('.').next() {
        Some(label) if !label.is_empty() => label.to_owned(),
        Some(_) | None => "multilane".to_owned(),
    }
}
