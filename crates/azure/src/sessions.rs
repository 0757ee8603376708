//! Files are reached as SMB clients reach them: by a session of the account on this server, so that opens, leases, locks, rights and budgets hold for both.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{Channels, Network, Session, Settings, Signing, Status, Target, Tree, WhenLost};
use control::{Keys, KnownCatalog, ShareRecord, SnapshotTime};
use secure::hmac_sha256;
use server::admin::snapshot_share;
use tokio::sync::Mutex;
use tokio::time::sleep;

use crate::auth::Proven;
use crate::failure::{Code, Failure, Lost};

/// When a key that was replaced is tried again: the catalog may know of it before the server does, or the other way round.
const AGAIN_AFTER: Duration = Duration::from_millis(250);
/// Snapshots that an account's session is connected to without anybody using them.
const UNUSED_MAX: usize = 8;
/// How long a key that the server goes on refusing is not tried: it would take that for guessing.
const REFUSED_FOR: Duration = Duration::from_secs(1);

/// The sessions there are, one for each account that asks. The account is who has proved its key, and the session signs in with that key.
pub(crate) struct Sessions {
    /// The way to the server, and the address by which that is asked for.
    network: Arc<dyn Network>,
    address: SocketAddr,
    catalog: KnownCatalog,
    /// Each account's by itself: who waits for the session of one keeps nobody of another waiting.
    accounts: parking_lot::Mutex<HashMap<String, OfAccount>>,
}

/// How an account is signed in.
type OfAccount = Arc<Mutex<SignedIn>>;

#[derive(Default)]
struct SignedIn {
    live: Option<Live>,
    /// What tells the key apart that was refused last, and when.
    refused: Option<([u8; 32], Instant)>,
}

/// A share as it was connected to: another one may have its name later, whether it wants encryption is told then, and where it was deleted and is there again
/// it has to be connected to once more.
#[derive(PartialEq, Eq, Hash)]
struct Which {
    number: i64,
    name: String,
    is_sealed: bool,
    changed: i64,
    /// What is connected to is that snapshot of it.
    snapshot: Option<SnapshotTime>,
}

impl Which {
    fn of(catalog: &KnownCatalog, share: &ShareRecord, snapshot: Option<SnapshotTime>) -> Self {
        let changed = catalog.share_changed(share);
        Which { number: share.id, name: share.name.clone(), is_sealed: share.seal_required, changed, snapshot }
    }
}

struct Live {
    /// What tells the key apart with which it signed in.
    key: [u8; 32],
    since: Instant,
    session: Session,
    trees: HashMap<Which, Tree>,
    /// Those of shares that have changed, which somebody used then.
    former: Vec<Tree>,
}

impl Live {
    /// True of one that is there: a key that was replaced has ended its session, and an operator may have.
    fn is_well(&self, keys: &Keys) -> bool {
        self.key == fingerprint(keys) && !self.session.has_ended()
    }

    /// Leaves shares and snapshots that are not as they were connected to, once nobody uses them.
    async fn leave_former(&mut self, catalog: &KnownCatalog) {
        let shares = catalog.shares();
        let is_former = |which: &Which| {
            let share = shares.iter().find(|share| share.id == which.number);
            share.is_none_or(|share| Which::of(catalog, share, which.snapshot) != *which)
        };
        self.former.extend(self.trees.extract_if(|which, _| is_former(which)).map(|(_, tree)| tree));
        for tree in self.former.extract_if(.., |tree| tree.is_unused()).collect::<Vec<_>>() {
            // One that is gone was left.
            let _ = tree.disconnect().await;
        }
    }

    /// Leaves snapshots that nobody uses, where there are many: the server keeps each open as long as somebody is connected to it.
    async fn leave_unused(&mut self) {
        let is_unused = |(which, tree): &(&Which, &Tree)| which.snapshot.is_some() && tree.is_unused();
        if self.trees.iter().filter(is_unused).count() < UNUSED_MAX {
            return;
        }
        let left: Vec<Tree> =
            self.trees.extract_if(|which, tree| is_unused(&(which, &*tree))).map(|(_, tree)| tree).collect();
        for tree in left {
            // One that is gone was left.
            let _ = tree.disconnect().await;
        }
    }
}

impl Sessions {
    /// None yet; they will be of the server that has this address in this network.
    pub(crate) fn new(network: Arc<dyn Network>, address: SocketAddr, catalog: KnownCatalog) -> Self {
        Sessions { network, address, catalog, accounts: parking_lot::Mutex::default() }
    }

    /// A share of an account, or a snapshot of that which the server has open, reached by a session of it.
    pub(crate) async fn share(
        &self,
        of: &Proven,
        share: &ShareRecord,
        snapshot: Option<SnapshotTime>,
    ) -> Result<Tree, Failure> {
        self.share_for(of.account(), share, snapshot).await
    }

    /// The same for the interface itself, whoever asks.
    pub(crate) async fn share_for(
        &self,
        account: &str,
        share: &ShareRecord,
        snapshot: Option<SnapshotTime>,
    ) -> Result<Tree, Failure> {
        let of_account = self.of_account(account);
        let mut signed_in = of_account.lock().await;
        match self.tree(account, &mut signed_in, (share, snapshot)).await {
            // The session has ended in this moment, as it does with its key.
            Err(failure) if failure.lost == Lost::Session => {
                self.tree(account, &mut signed_in, (share, snapshot)).await
            }
            done => done,
        }
    }

    /// The same where that is reached already, and nobody has to wait for it.
    pub(crate) fn known_share(&self, of: &Proven, share: &ShareRecord, snapshot: Option<SnapshotTime>) -> Option<Tree> {
        let keys = self.catalog.keys(of.account())?;
        let of_account = self.of_account(of.account());
        let signed_in = of_account.try_lock().ok()?;
        let live = signed_in.live.as_ref().filter(|live| live.is_well(&keys))?;
        live.trees.get(&Which::of(&self.catalog, share, snapshot)).cloned()
    }

    async fn tree(
        &self,
        account: &str,
        signed_in: &mut SignedIn,
        (share, snapshot): (&ShareRecord, Option<SnapshotTime>),
    ) -> Result<Tree, Failure> {
        let keys = self.catalog.keys(account).ok_or_else(|| Failure::no_share(&share.name))?;
        let known = match signed_in.live.take().filter(|live| live.is_well(&keys)) {
            Some(live) => signed_in.live.insert(live),
            None => {
                let live = self.live(account, &mut signed_in.refused).await?;
                signed_in.live.insert(live)
            }
        };
        let which = Which::of(&self.catalog, share, snapshot);
        if let Some(tree) = known.trees.get(&which) {
            return Ok(tree.clone());
        }
        let tree = match snapshot {
            None => known.session.tree(&share.name).await?,
            Some(at) => {
                known.leave_unused().await;
                known.session.tree(&snapshot_share(&share.name, &at.to_string())).await?
            }
        };
        known.leave_former(&self.catalog).await;
        known.trees.insert(which, tree.clone());
        Ok(tree)
    }

    /// Signs in, where it has to be once more, by then with another key.
    async fn live(&self, account: &str, refused: &mut Option<([u8; 32], Instant)>) -> Result<Live, Failure> {
        for is_last in [false, true] {
            let keys = self.catalog.keys(account).ok_or_else(changing)?;
            let (key, since) = (fingerprint(&keys), Instant::now());
            if !is_last && refused.is_some_and(|(of, at)| of == key && at.elapsed() < REFUSED_FOR) {
                return Err(changing());
            }
            match self.sign_in(account, &keys).await {
                Ok(session) => {
                    *refused = None;
                    return Ok(Live { key, since, session, trees: HashMap::new(), former: Vec::new() });
                }
                Err(error) if error.status() == Some(Status::LOGON_FAILURE) => *refused = Some((key, Instant::now())),
                Err(error) => return Err(error.into()),
            }
            if !is_last {
                sleep(AGAIN_AFTER).await;
            }
        }
        Err(changing())
    }

    /// Forgets how a share was reached, or a snapshot of it: it was deleted meanwhile, and is there again.
    pub(crate) async fn leave(&self, share: &ShareRecord, snapshot: Option<SnapshotTime>) {
        if let Some(known) = self.of_account(&share.account).lock().await.live.as_mut() {
            known.trees.retain(|which, _| (which.number, which.snapshot) != (share.id, snapshot));
        }
    }

    /// Forgets an account's session, which no longer does what it was asked since then. One that is newer stays.
    pub(crate) async fn forget(&self, of: &Proven, since: Instant) {
        self.of_account(of.account()).lock().await.live.take_if(|live| live.since <= since);
    }

    fn of_account(&self, account: &str) -> OfAccount {
        let mut accounts = self.accounts.lock();
        if let Some(known) = accounts.get(account) {
            return Arc::clone(known);
        }
        // As many as there are accounts.
        accounts.retain(|account, _| self.catalog.has_account(account));
        Arc::clone(accounts.entry(account.to_owned()).or_default())
    }

    async fn sign_in(&self, account: &str, keys: &Keys) -> Result<Session, client::Error> {
        let target = Target {
            host: self.address.ip().to_string(),
            port: self.address.port(),
            user: account.to_owned(),
            password: keys.key1.clone(),
        };
        // Both ends are in this process: nobody is between them, and nothing is signed.
        // The server ends a session when its key is replaced: signing in again with that would be refused, and be taken for somebody who guesses.
        let settings = Settings {
            channels: Channels::Exactly(1),
            signing: Signing::AsServerWants,
            when_lost: WhenLost::End,
            ..Settings::default()
        };
        Session::connect(&target, settings, Arc::clone(&self.network)).await
    }
}

/// The server does not take the account's key, or there is none by now.
fn changing() -> Failure {
    Failure::new(
        Code::ServerBusy,
        "A key of the account was replaced, and the file server does not take it yet; try again.",
    )
}

/// Tells whether a key is another one, and nothing else of it.
fn fingerprint(keys: &Keys) -> [u8; 32] {
    hmac_sha256(b"multilane rest session", keys.key1.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;
    use std::time::Duration;

    use client::Tcp;
    use control::{
        AccountChanges, AccountKind, AccountName, Catalog, Control, DataFolder, Key, NewShare, Overrides, Source,
    };
    use server::{Config, Server};
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn share_of(account: &str, known: &KnownCatalog) -> (Proven, ShareRecord) {
        (Proven::by_key(account), known.share_of(account, &format!("of-{account}")).unwrap())
    }

    /// A catalog of these accounts, each with a share.
    fn catalog_of(accounts: &[&str], place: &std::path::Path) -> (DataFolder, Control) {
        let folder = DataFolder::create(place).unwrap();
        let mut catalog = Catalog::open(&folder).unwrap();
        for account in accounts {
            let name: AccountName = account.parse().unwrap();
            catalog.create_account(&name, AccountKind::FileStorage).unwrap();
            let source = Source::Ram { bytes: NonZeroU64::new(1 << 20).unwrap() };
            let new = NewShare::new(format!("of-{account}").parse().unwrap(), source);
            catalog.create_share(&NewShare { account: Some(name), ..new }).unwrap();
        }
        let control = Control::new(&folder, catalog, Overrides::default());
        (folder, control)
    }

    /// What is served once every folder has answered.
    async fn settled(control: &mut Control) -> server::admin::Configuration {
        let waiting = async {
            loop {
                let configuration = control.configuration().unwrap();
                if control.catalog().problems().is_empty() {
                    return configuration;
                }
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, waiting).await.unwrap()
    }

    /// A server of these, and sessions on it.
    fn served(control: &mut Control, known: &KnownCatalog) -> (Server, Sessions) {
        let config =
            Config { listen: vec!["127.0.0.1:0".parse().unwrap()], shards: 1, opens: None, metadata_cache_bytes: None };
        let server = Server::start(&config, control.configuration().unwrap()).unwrap();
        let address = server.addresses()[0];
        let inside = Arc::new(crate::inside::Inside(server.connector(address)));
        (server, Sessions::new(inside, address, known.clone()))
    }

    #[tokio::test]
    async fn a_key_that_is_being_replaced_is_tried_once_more() {
        let place = tempfile::tempdir().unwrap();
        let (folder, mut control) = catalog_of(&["work"], place.path());
        let known = control.catalog();
        let (server, sessions) = served(&mut control, &known);
        let admin = server.admin();
        let (proven, share) = share_of("work", &known);
        let before = sessions.share(&proven, &share, None).await.unwrap();
        let mut changes = Catalog::open(&folder).unwrap();
        let mut replace = || {
            changes.regenerate_key(&"work".parse().unwrap(), Key::One, None).unwrap();
            control.configuration().unwrap()
        };
        // What is known is ahead of the server.
        let configuration = replace();
        let (again, ()) = tokio::join!(sessions.share(&proven, &share, None), async {
            sleep(AGAIN_AFTER / 2).await;
            admin.replace(configuration);
        });
        assert_ne!(again.unwrap().session_id(), before.session_id());
        // A key that is not taken in time is not tried all the time.
        let configuration = replace();
        for _ in 0..10 {
            let failure = sessions.share(&proven, &share, None).await.map(drop).unwrap_err();
            assert_eq!((failure.code, failure.lost), (Code::ServerBusy, Lost::Nothing));
        }
        admin.replace(configuration);
        sleep(REFUSED_FOR).await;
        let since = Instant::now();
        let last = sessions.share(&proven, &share, None).await.unwrap();
        sessions.forget(&proven, since).await;
        assert_eq!(sessions.share(&proven, &share, None).await.unwrap().session_id(), last.session_id(), "it is newer");
        sessions.forget(&proven, Instant::now()).await;
        assert_ne!(sessions.share(&proven, &share, None).await.unwrap().session_id(), last.session_id());
        server.stop(Duration::ZERO);
    }

    #[tokio::test]
    async fn a_share_that_is_there_again_is_connected_to_anew() {
        let place = tempfile::tempdir().unwrap();
        let (folder, mut control) = catalog_of(&["work"], place.path());
        let mut changes = Catalog::open(&folder).unwrap();
        let (account, name) = ("work".parse::<AccountName>().unwrap(), "kept".parse().unwrap());
        let keeps = AccountChanges { retention_days: Some(Some(7)), ..AccountChanges::default() };
        changes.update_account(&account, keeps).unwrap();
        let source = Source::Folder { path: std::path::PathBuf::new(), quota_gib: None };
        let new = NewShare::new("kept".parse().unwrap(), source);
        changes.create_share(&NewShare { account: Some(account), ..new }).unwrap();
        let known = control.catalog();
        settled(&mut control).await;
        let (server, sessions) = served(&mut control, &known);
        let (proven, share) = (Proven::by_key("work"), known.share_of("work", "kept").unwrap());
        let before = sessions.share(&proven, &share, None).await.unwrap();
        let used = before.open("", client::OpenOptions::default()).await.unwrap();
        assert!(sessions.known_share(&proven, &share, None).is_some());
        for change in [
            |catalog: &mut Catalog, name: &_| catalog.delete_share(name).map(drop),
            |catalog: &mut Catalog, name: &_| catalog.undelete_share(None, name, None, None).map(drop),
        ] {
            change(&mut changes, &name).unwrap();
            server.admin().replace(settled(&mut control).await);
        }
        let share = known.share_of("work", "kept").unwrap();
        assert!(sessions.known_share(&proven, &share, None).is_none());
        let after = sessions.share(&proven, &share, None).await.unwrap();
        assert!(after.facts("").await.is_ok() && before.facts("").await.is_err());
        assert_eq!(after.session_id(), before.session_id(), "leases are of the session");
        assert!(sessions.known_share(&proven, &share, None).is_some());
        // What nobody uses any more is left with the next change.
        let former = async || sessions.of_account("work").lock().await.live.as_ref().unwrap().former.len();
        assert_eq!(former().await, 1);
        drop((used, before));
        let other = known.share_of("work", "of-work").unwrap();
        sessions.share(&proven, &other, None).await.unwrap();
        assert_eq!(former().await, 0);
        server.stop(Duration::ZERO);
    }

    #[tokio::test]
    async fn an_account_that_signs_in_slowly_keeps_no_other_waiting() {
        let place = tempfile::tempdir().unwrap();
        let (_folder, mut control) = catalog_of(&["slow", "other"], place.path());
        let known = control.catalog();
        control.configuration().unwrap();
        // It takes who comes and answers nobody.
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let sessions = Arc::new(Sessions::new(Arc::new(Tcp), silent.local_addr().unwrap(), known.clone()));
        let mut held = Vec::new();
        for account in ["slow", "other"] {
            let (sessions, (proven, share)) = (Arc::clone(&sessions), share_of(account, &known));
            tokio::spawn(async move { sessions.share(&proven, &share, None).await.map(drop) });
            let came = timeout(PATIENCE, silent.accept()).await;
            held.push(came.unwrap_or_else(|_| panic!("{account} does not sign in")).unwrap());
        }
        assert_eq!(sessions.accounts.lock().len(), 2);
    }
}
