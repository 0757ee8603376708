//! What the catalog said when it was read last, for who has to know without waiting for its disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use parking_lot::Mutex;
use server::admin::Sealing;

use crate::catalog::{Account, DeletedShare, Keys, ShareRecord, Snapshot};
use crate::{AzureShare, Features, FileService, Problem};

/// The accounts, shares and operators of a running server, and whether it is one for development. A copy sees the same, and what is read later.
#[derive(Clone, Default)]
pub struct KnownCatalog(Arc<Mutex<Known>>, Arc<AtomicBool>);

#[derive(Clone, Default)]
struct Known {
    snapshot: Option<Arc<Snapshot>>,
    problems: Arc<[Problem]>,
    seals_everything: bool,
}

impl KnownCatalog {
    /// The accounts, the oldest first.
    pub fn accounts(&self) -> Vec<Account> {
        self.snapshot().iter().flat_map(|known| &known.accounts).map(|(account, _)| account.clone()).collect()
    }

    /// The keys of an account, if there is one of that name.
    pub fn keys(&self, account: &str) -> Option<Keys> {
        let snapshot = self.snapshot()?;
        snapshot.accounts.iter().find(|(known, _)| known.name == account).map(|(_, keys)| keys.clone())
    }

    /// True where there is an account of that name.
    pub fn has_account(&self, account: &str) -> bool {
        self.snapshot().is_some_and(|known| known.accounts.iter().any(|(known, _)| known.name == account))
    }

    /// A share of an account, if it has one of that name in any case.
    pub fn share_of(&self, account: &str, name: &str) -> Option<ShareRecord> {
        let snapshot = self.snapshot()?;
        let is_it = |share: &&ShareRecord| share.account == account && share.name.eq_ignore_ascii_case(name);
        snapshot.shares.iter().find(is_it).cloned()
    }

    /// The shares, by name.
    pub fn shares(&self) -> Vec<ShareRecord> {
        self.snapshot().iter().flat_map(|known| &known.shares).cloned().collect()
    }

    /// What is registered, and where metadata caching is available; `None` before the catalog was read.
    pub fn features(&self) -> Option<Features> {
        self.snapshot().map(|known| known.features.clone())
    }

    /// The shares of an account that are deleted and kept, by name.
    pub fn deleted_shares(&self, account: &str) -> Vec<DeletedShare> {
        let now = Timestamp::now();
        let snapshot = self.snapshot();
        let all = snapshot.iter().flat_map(|known| &known.deleted);
        all.filter(|deleted| deleted.share.account == account && deleted.kept_until > now).cloned().collect()
    }

    /// What clients of Azure Files keep of a share.
    pub fn azure_share(&self, share: &ShareRecord) -> AzureShare {
        self.snapshot().and_then(|known| known.azure_shares.get(&share.id).cloned()).unwrap_or_default()
    }

    /// When a share was changed last, in milliseconds since 1970. That it was deleted and is there again is a change, too.
    pub fn share_changed(&self, share: &ShareRecord) -> i64 {
        self.snapshot()
            .and_then(|known| known.azure_shares.get(&share.id).map(|kept| kept.modified))
            .unwrap_or_default()
    }

    /// How an account's file service is set up.
    pub fn file_service(&self, account: &str) -> FileService {
        self.snapshot().and_then(|known| known.file_services.get(account).cloned()).unwrap_or_default()
    }

    /// True where every session must be sealed, by the catalog or by how the server was started.
    pub fn seals_everything(&self) -> bool {
        self.0.lock().seals_everything
    }

    /// The shares that are not served, and those whose folder is not as it should be.
    pub fn problems(&self) -> Arc<[Problem]> {
        Arc::clone(&self.0.lock().problems)
    }

    /// Has the service principal that everybody knows, for a server that this machine alone reaches.
    pub fn add_development_principal(&self) {
        self.1.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_development_principal(&self) -> bool {
        self.1.load(Ordering::Relaxed)
    }

    pub(crate) fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.0.lock().snapshot.clone()
    }

    /// The catalog was read again, and is served but for these problems.
    pub(crate) fn replace(&self, snapshot: &Arc<Snapshot>, problems: &[Problem], sealing: Sealing) {
        let seals_everything = sealing == Sealing::Required;
        let known = Known { snapshot: Some(Arc::clone(snapshot)), problems: problems.into(), seals_everything };
        let before = std::mem::replace(&mut *self.0.lock(), known);
        drop(before);
    }
}
