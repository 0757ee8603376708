//! Files are reached as SMB clients reach them: by a session of the account on this server, so that opens, leases, locks, rights and budgets hold for both.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use client::{Channels, Network, Session, Settings, Signing, Target, Tree, WhenLost};
use control::{Keys, KnownCatalog, ShareRecord};
use secure::hmac_sha256;
use tokio::sync::Mutex;

use crate::auth::Proven;
use crate::failure::Failure;

/// The sessions there are, one for each account that asks. The account is who has proved its key, and the session signs in with that key.
pub(crate) struct Sessions {
    /// The way to the server, and the address by which that is asked for.
    network: Arc<dyn Network>,
    address: SocketAddr,
    catalog: KnownCatalog,
    /// Each account's by itself: who waits for the session of one keeps nobody of another waiting.
    accounts: parking_lot::Mutex<HashMap<String, OfAccount>>,
}

/// An account's session, if there is one.
type OfAccount = Arc<Mutex<Option<Live>>>;

struct Live {
    /// What tells the key apart with which it signed in.
    key: [u8; 32],
    session: Session,
    /// By the number of each share, and its name: another share may have that later.
    trees: HashMap<(i64, String), Tree>,
}

impl Sessions {
    /// None yet; they will be of the server that has this address in this network.
    pub(crate) fn new(network: Arc<dyn Network>, address: SocketAddr, catalog: KnownCatalog) -> Self {
        Sessions { network, address, catalog, accounts: parking_lot::Mutex::default() }
    }

    /// A share of an account, reached by a session of it.
    pub(crate) async fn share(&self, of: &Proven, share: &ShareRecord) -> Result<Tree, Failure> {
        let keys = self.catalog.keys(of.account()).ok_or_else(|| Failure::no_share(&share.name))?;
        let key = fingerprint(&keys);
        let of_account = self.of_account(of.account());
        let mut live = of_account.lock().await;
        // A key that was replaced has ended its session, and an operator may have.
        let known = match live.take().filter(|known| known.key == key && !known.session.has_ended()) {
            Some(known) => live.insert(known),
            None => {
                let session = self.sign_in(of.account(), &keys).await?;
                live.insert(Live { key, session, trees: HashMap::new() })
            }
        };
        let which = (share.id, share.name.clone());
        if let Some(tree) = known.trees.get(&which) {
            return Ok(tree.clone());
        }
        let tree = known.session.tree(&share.name).await?;
        let shares = self.catalog.shares();
        known.trees.retain(|(id, name), _| shares.iter().any(|share| share.id == *id && share.name == *name));
        known.trees.insert(which, tree.clone());
        Ok(tree)
    }

    /// Forgets how a share was reached: it was deleted meanwhile, and is there again.
    pub(crate) async fn leave(&self, share: &ShareRecord) {
        if let Some(known) = self.of_account(&share.account).lock().await.as_mut() {
            known.trees.retain(|(id, _), _| *id != share.id);
        }
    }

    /// Forgets an account's session, which no longer does what it is asked.
    pub(crate) async fn forget(&self, of: &Proven) {
        *self.of_account(of.account()).lock().await = None;
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

    async fn sign_in(&self, account: &str, keys: &Keys) -> Result<Session, Failure> {
        let target = Target {
            host: self.address.ip().to_string(),
            port: self.address.port(),
            user: account.to_owned(),
            password: keys.key1.clone(),
        };
        // Both ends are in this process: nobody is between them, and only where the server signs everything is this signed.
        // The server ends a session when its key is replaced: signing in again with that would be refused, and be taken for somebody who guesses.
        let settings = Settings {
            channels: Channels::Exactly(1),
            signing: Signing::AsServerWants,
            when_lost: WhenLost::End,
            ..Settings::default()
        };
        Ok(Session::connect(&target, settings, Arc::clone(&self.network)).await?)
    }
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
    use control::{AccountKind, AccountName, Catalog, Control, DataFolder, NewShare, Overrides, Source};
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn share_of(account: &str, known: &KnownCatalog) -> (Proven, ShareRecord) {
        (Proven::by_key(account), known.share_of(account, &format!("of-{account}")).unwrap())
    }

    #[tokio::test]
    async fn an_account_that_signs_in_slowly_keeps_no_other_waiting() {
        let place = tempfile::tempdir().unwrap();
        let folder = DataFolder::create(place.path()).unwrap();
        let mut catalog = Catalog::open(&folder).unwrap();
        for account in ["slow", "other"] {
            let name: AccountName = account.parse().unwrap();
            catalog.create_account(&name, AccountKind::FileStorage).unwrap();
            let source = Source::Ram { bytes: NonZeroU64::new(1 << 20).unwrap() };
            let new = NewShare::new(format!("of-{account}").parse().unwrap(), source);
            catalog.create_share(&NewShare { account: Some(name), ..new }).unwrap();
        }
        let mut control = Control::new(&folder, catalog, Overrides::default());
        let known = control.catalog();
        control.configuration().unwrap();
        // It takes who comes and answers nobody.
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let sessions = Arc::new(Sessions::new(Arc::new(Tcp), silent.local_addr().unwrap(), known.clone()));
        let mut held = Vec::new();
        for account in ["slow", "other"] {
            let (sessions, (proven, share)) = (Arc::clone(&sessions), share_of(account, &known));
            tokio::spawn(async move { sessions.share(&proven, &share).await.map(drop) });
            let came = timeout(PATIENCE, silent.accept()).await;
            held.push(came.unwrap_or_else(|_| panic!("{account} does not sign in")).unwrap());
        }
        assert_eq!(sessions.accounts.lock().len(), 2);
    }
}
