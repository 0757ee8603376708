//! `multilane account`.

use std::path::Path;

use control::provisioning::ProvisionedSum;
use control::{
    Account, AccountChanges, AccountPlan, Billing, Catalog, DataFolder, Error, Feature, Features, Key, Keys,
    MetadataCaching, ProvisionModel, Sku, StoredSettings,
};
use jiff::Timestamp;
use serde::Serialize;
use server::admin::Multichannel;

use crate::arguments::{AccountCommand, Retention, Switch};
use crate::data;
use crate::output::{Deleted, Output};
use crate::table::Table;

/// An account as `--json` prints it.
#[derive(Serialize)]
struct Shown {
    name: String,
    kind: &'static str,
    /// How it is billed; null of a local account.
    sku: Option<&'static str>,
    location: Option<String>,
    multichannel: &'static str,
    metadata_caching: &'static str,
    /// Why it has no metadata caching, if it has none.
    metadata_caching_problem: Option<String>,
    sid: String,
    shares: u64,
    users: u64,
    /// For how many days deleted shares are kept; null where they are not.
    share_retention_days: Option<u16>,
    /// What its shares are provisioned with, and may be; null where they are not provisioned.
    provisioned: Option<Used>,
}

/// What the shares of an account are provisioned with together, and may be at most: null where nothing bounds that.
#[derive(Serialize)]
struct Used {
    model: &'static str,
    shares: u64,
    shares_max: u64,
    gib: u64,
    gib_max: u64,
    iops: u64,
    iops_max: Option<u64>,
    mibps: u64,
    mibps_max: Option<u64>,
}

impl Used {
    fn of(model: ProvisionModel, sum: ProvisionedSum) -> Self {
        let most = model.account_max();
        let bounded = |most: u64| Some(most).filter(|most| *most < u64::MAX);
        Used {
            model: model.as_str(),
            shares: sum.shares,
            shares_max: most.shares,
            gib: sum.gib,
            gib_max: most.gib,
            iops: sum.iops,
            iops_max: bounded(most.iops),
            mibps: sum.mibps,
            mibps_max: bounded(most.mibps),
        }
    }

    fn sentence(&self) -> String {
        let of = |used: u64, most: Option<u64>, unit: &str| match most {
            Some(most) => format!("{used} of {most} {unit}"),
            None => format!("{used} {unit}"),
        };
        let parts = [
            of(self.shares, Some(self.shares_max), "shares"),
            of(self.gib, Some(self.gib_max), "GiB"),
            of(self.iops, self.iops_max, "IOPS"),
            of(self.mibps, self.mibps_max, "MiB/s"),
        ];
        format!("\nprovisioned ({}): {}\n", self.model, parts.join(", "))
    }
}

/// Keys as `--json` prints them.
#[derive(Serialize)]
struct ShownKeys {
    key1: String,
    key2: String,
}

pub(crate) fn run(path: &Path, command: &AccountCommand, output: Output) -> Result<(), Error> {
    let (folder, mut catalog) = match command {
        AccountCommand::Create { .. } => {
            let folder = DataFolder::create(path)?;
            let catalog = Catalog::open(&folder)?;
            data::tell(&catalog);
            (folder, catalog)
        }
        AccountCommand::List
        | AccountCommand::Show { .. }
        | AccountCommand::Update { .. }
        | AccountCommand::Keys { .. }
        | AccountCommand::Delete { .. } => data::open(path)?,
    };
    let told = Told { settings: catalog.settings()?, features: catalog.features()? };
    match command {
        AccountCommand::Create { name, kind, sku, location } => {
            let plan = AccountPlan::new(*kind, *sku, location.clone())?;
            let made = told.shown(catalog.create_account(name, plan)?, &catalog)?;
            output.print(&made, |_| {
                format!("created account {name}; `multilane account keys {name}` shows its keys\n")
            })?;
            data::reload(&folder).map(drop)
        }
        AccountCommand::List => {
            let accounts: Vec<Shown> =
                Result::from_iter(catalog.accounts()?.into_iter().map(|one| told.shown(one, &catalog)))?;
            output.print(&accounts, |accounts| table(accounts))
        }
        AccountCommand::Show { name } => {
            let account = told.shown(catalog.account(name)?, &catalog)?;
            output.print(&account, description)
        }
        AccountCommand::Update { name, multichannel, metadata_caching, share_retention } => {
            let changes = AccountChanges {
                multichannel: multichannel.map(|to| match to {
                    Switch::On => Multichannel::On,
                    Switch::Off => Multichannel::Off,
                }),
                metadata_caching: metadata_caching.map(|to| match to {
                    Switch::On => MetadataCaching::On,
                    Switch::Off => MetadataCaching::Off,
                }),
                retention_days: share_retention.map(|to| match to {
                    Retention::Days(days) => Some(days),
                    Retention::Off => None,
                }),
            };
            let account = told.shown(catalog.update_account(name, changes)?, &catalog)?;
            output.print(&account, |account| table(std::slice::from_ref(account)))?;
            data::reload(&folder).map(drop)
        }
        AccountCommand::Keys { name, regenerate: None, .. } => print_keys(catalog.keys(name)?, output),
        AccountCommand::Keys { name, regenerate: Some(number), grace } => {
            let key = if *number == 1 { Key::One } else { Key::Two };
            print_keys(catalog.regenerate_key(name, key, *grace)?, output)?;
            if let Some(grace) = grace {
                eprintln!("note: the old key signs in until {}", grace.until(Timestamp::now()));
            }
            data::forget(&folder, &catalog)
        }
        AccountCommand::Delete { name } => {
            catalog.delete_account(name)?;
            output.print(&Deleted { deleted: name.as_str() }, |_| format!("deleted account {name}\n"))?;
            data::forget(&folder, &catalog)
        }
    }
}

/// What an account is told with.
struct Told {
    settings: StoredSettings,
    features: Features,
}

impl Told {
    fn shown(&self, account: Account, catalog: &Catalog) -> Result<Shown, Error> {
        let cache = self.features.has_feature(&account, Feature::MetadataCache, Timestamp::now());
        let provisioned = match account.billing() {
            Billing::Provisioned(model) => Some(Used::of(model, catalog.provisioned_sum(&account)?)),
            Billing::Local | Billing::PayAsYouGo => None,
        };
        Ok(Shown {
            kind: account.kind.as_str(),
            sku: account.sku.map(Sku::as_str),
            location: account.location.as_ref().map(ToString::to_string),
            multichannel: match account.multichannel {
                Multichannel::On => "on",
                Multichannel::Off => "off",
            },
            metadata_caching: match account.metadata_caching {
                MetadataCaching::On => "on",
                MetadataCaching::Off => "off",
            },
            metadata_caching_problem: match (cache, account.metadata_caching) {
                (Err(why), _) => Some(why.refusal(&account.name, Feature::MetadataCache).what().to_owned()),
                (Ok(()), MetadataCaching::Off) => Some(format!(
                    "it was switched off; `account update {} --metadata-caching on` switches it on",
                    account.name
                )),
                (Ok(()), MetadataCaching::On) => None,
            },
            sid: self.settings.sid(account.relative_id),
            name: account.name,
            shares: account.shares,
            users: account.users,
            share_retention_days: account.retention_days,
            provisioned,
        })
    }
}

fn table(accounts: &[Shown]) -> String {
    let mut table =
        Table::new(["NAME", "KIND", "SKU", "LOCATION", "MULTICHANNEL", "METADATA CACHING", "SHARES", "USERS", "SID"]);
    for one in accounts {
        table.row([
            one.name.clone(),
            one.kind.to_owned(),
            one.sku.unwrap_or("local").to_owned(),
            one.location.clone().unwrap_or_default(),
            one.multichannel.to_owned(),
            one.metadata_caching.to_owned(),
            one.shares.to_string(),
            one.users.to_string(),
            one.sid.clone(),
        ]);
    }
    table.text()
}

/// The table, and under it what its shares are provisioned with, why there is no metadata caching, and how long deleted shares are kept.
fn description(account: &Shown) -> String {
    let problem = account.metadata_caching_problem.as_ref();
    let told = problem.map(|problem| format!("\nno metadata caching: {problem}\n")).unwrap_or_default();
    let kept = account.share_retention_days.map(|days| format!("\ndeleted shares are kept for {days} days\n"));
    let provisioned = account.provisioned.as_ref().map(Used::sentence).unwrap_or_default();
    table(std::slice::from_ref(account)) + &provisioned + &told + &kept.unwrap_or_default()
}

fn print_keys(keys: Keys, output: Output) -> Result<(), Error> {
    let keys = ShownKeys { key1: keys.key1.clone(), key2: keys.key2.clone() };
    output.print(&keys, |keys| format!("key1  {}\nkey2  {}\n", keys.key1, keys.key2))
}
