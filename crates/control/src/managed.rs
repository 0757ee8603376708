//! What the management interface has a running server do beside that: accounts, keys and features. Each is logged with who wanted it.

use jiff::{SignedDuration, Timestamp};
use server::admin::Multichannel;
use tracing::info;

use crate::operations::{CATALOG_WAIT, Operations};
use crate::{
    Account, AccountChanges, AccountName, AccountPlan, By, Catalog, Error, Feature, Features, Key, Keys, StoredSettings,
};

/// Whether a feature is to be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registration {
    /// It is, from now on.
    Registered,
    /// It is not.
    Unregistered,
}

impl Operations {
    /// Makes an account, whose sessions have several channels where it is so wanted.
    pub fn create_account(
        &self,
        by: By<'_>,
        name: &AccountName,
        plan: AccountPlan,
        multichannel: Multichannel,
    ) -> Result<Account, Error> {
        let mut catalog = self.to_change()?;
        let account = catalog.create_account(name, plan)?;
        let account = match multichannel {
            Multichannel::Off => account,
            on @ Multichannel::On => {
                let changes = AccountChanges { multichannel: Some(on), ..AccountChanges::default() };
                catalog.update_account(name, changes)?
            }
        };
        changed(by, "account created", name.as_str());
        self.take_up().map(|()| account)
    }

    /// Deletes an account that has neither shares nor users.
    pub fn delete_account(&self, by: By<'_>, name: &AccountName) -> Result<(), Error> {
        self.to_change()?.delete_account(name)?;
        changed(by, "account deleted", name.as_str());
        self.take_up()
    }

    /// Replaces one key of an account at once; gives both.
    pub fn regenerate_key(&self, by: By<'_>, name: &AccountName, key: Key) -> Result<Keys, Error> {
        let keys = self.to_change()?.regenerate_key(name, key, None)?;
        changed(by, "key replaced", name.as_str());
        self.take_up().map(|()| keys)
    }

    /// Notes who was told what opens an account: its keys, or what is signed with one.
    pub fn note_secret_told(&self, by: By<'_>, what: &str, account: &str) {
        info!(name: "secret_told", operator = by.name(), from = by.from(), what, of = account, "somebody was told what opens an account");
    }

    /// Registers a feature, or has it registered no longer. Gives all features as they are then.
    pub fn register_feature(&self, by: By<'_>, feature: Feature, wanted: Registration) -> Result<Features, Error> {
        let mut catalog = self.to_change()?;
        let features = match wanted {
            Registration::Registered => catalog.register_feature(feature, SignedDuration::ZERO, Timestamp::now()),
            Registration::Unregistered => catalog.unregister_feature(feature),
        }?;
        let what = match wanted {
            Registration::Registered => "feature registered",
            Registration::Unregistered => "feature unregistered",
        };
        changed(by, what, feature.as_str());
        self.take_up().map(|()| features)
    }

    /// The settings that count: what the server was started with before what the catalog says. `None` where the server ends.
    pub fn settings(&self) -> Option<StoredSettings> {
        self.control.upgrade()?.lock().settings_in_use()
    }

    fn to_change(&self) -> Result<Catalog, Error> {
        Catalog::reopen_within(&self.folder, CATALOG_WAIT)
    }
}

/// Tells who has changed something that the next reading of the catalog tells of, too.
pub(crate) fn changed(by: By<'_>, what: &str, of: &str) {
    info!(name: "catalog_changed", operator = by.name(), from = by.from(), what, of, "somebody has changed the catalog by an interface");
}
