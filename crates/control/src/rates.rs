//! The limits of shares and accounts, kept from one configuration to the next with what has been taken of them.

use std::collections::HashMap;
use std::sync::Arc;

use server::admin::{AccountLimit, ShareLimit};

use crate::catalog::{ShareRecord, Snapshot};

/// By the number of the share, and the name of the account.
#[derive(Default)]
pub(crate) struct Limits {
    shares: HashMap<i64, Arc<ShareLimit>>,
    accounts: HashMap<String, Arc<AccountLimit>>,
}

impl Limits {
    /// What a share is limited by.
    pub(crate) fn of(&mut self, share: &ShareRecord) -> Arc<ShareLimit> {
        let account = Arc::clone(self.accounts.entry(share.account.clone()).or_default());
        let limit = self.shares.entry(share.id).or_insert_with(|| Arc::new(ShareLimit::of(account)));
        Arc::clone(limit)
    }

    /// Forgets the limits of all shares and accounts that are not in the catalog.
    pub(crate) fn keep_only(&mut self, snapshot: &Snapshot) {
        self.shares.retain(|id, _| snapshot.shares.iter().any(|share| share.id == *id));
        self.accounts.retain(|name, _| snapshot.accounts.iter().any(|(account, _)| account.name == *name));
    }
}
