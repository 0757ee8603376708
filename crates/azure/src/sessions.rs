//! Files are reached as SMB clients reach them: by a session of the account on this server, so that opens, leases, locks, rights and budgets hold for both.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use client::{Channels, Session, Settings, Signing, Target, Tcp, Tree};
use control::{Keys, KnownCatalog, ShareRecord};
use secure::hmac_sha256;
use tokio::sync::Mutex;

use crate::auth::Proven;
use crate::failure::{Code, Failure};

/// The sessions there are, one for each account that asks. The account is who has proved its key, and the session signs in with that key.
pub(crate) struct Sessions {
    server: SocketAddr,
    catalog: KnownCatalog,
    live: Mutex<HashMap<String, Live>>,
}

struct Live {
    /// What tells the key apart with which it signed in.
    key: [u8; 32],
    session: Session,
    /// By the number of each share, and its name: another share may have that later.
    trees: HashMap<(i64, String), Tree>,
}

impl Sessions {
    /// None yet; they will be of the server at this address.
    pub(crate) fn new(server: SocketAddr, catalog: KnownCatalog) -> Self {
        Sessions { server, catalog, live: Mutex::default() }
    }

    /// A share of an account, reached by a session of it.
    pub(crate) async fn share(&self, of: &Proven, share: &ShareRecord) -> Result<Tree, Failure> {
        let keys = self.catalog.keys(of.account()).ok_or_else(|| Failure::no_share(&share.name))?;
        let key = fingerprint(&keys);
        let mut live = self.live.lock().await;
        // A key that was replaced has ended its session, and an answer may have told of that already.
        if live.get(of.account()).is_some_and(|known| known.key != key) {
            live.remove(of.account());
        }
        if !live.contains_key(of.account()) {
            let session = self.sign_in(of.account(), &keys).await?;
            live.insert(of.account().to_owned(), Live { key, session, trees: HashMap::new() });
        }
        let known = live.get_mut(of.account()).ok_or_else(|| Failure::new(Code::ServerBusy, "Try again."))?;
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
        if let Some(known) = self.live.lock().await.get_mut(&share.account) {
            known.trees.retain(|(id, _), _| *id != share.id);
        }
    }

    /// Forgets an account's session, which no longer does what it is asked.
    pub(crate) async fn forget(&self, of: &Proven) {
        self.live.lock().await.remove(of.account());
    }

    async fn sign_in(&self, account: &str, keys: &Keys) -> Result<Session, Failure> {
        let target = Target {
            host: self.server.ip().to_string(),
            port: self.server.port(),
            user: account.to_owned(),
            password: keys.key1.clone(),
        };
        // Both ends are in this process: nobody is between them, and only where the server signs everything is this signed.
        let settings =
            Settings { channels: Channels::Exactly(1), signing: Signing::AsServerWants, ..Settings::default() };
        Ok(Session::connect(&target, settings, Arc::new(Tcp)).await?)
    }
}

/// Tells whether a key is another one, and nothing else of it.
fn fingerprint(keys: &Keys) -> [u8; 32] {
    hmac_sha256(b"multilane rest session", keys.key1.as_bytes())
}
