//! `multilane account`.

use std::path::Path;

use control::{Account, Catalog, DataFolder, Error, Key, Keys, StoredSettings};
use serde::Serialize;
use server::admin::Multichannel;

use crate::arguments::{AccountCommand, Switch};
use crate::data;
use crate::output::{Deleted, Output};
use crate::table::Table;

/// An account as `--json` prints it.
#[derive(Serialize)]
struct Shown {
    name: String,
    kind: &'static str,
    multichannel: &'static str,
    sid: String,
    shares: u64,
    users: u64,
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
            (folder, catalog)
        }
        AccountCommand::List
        | AccountCommand::Show { .. }
        | AccountCommand::Update { .. }
        | AccountCommand::Keys { .. }
        | AccountCommand::Delete { .. } => data::open(path)?,
    };
    let settings = catalog.settings()?;
    match command {
        AccountCommand::Create { name, kind } => {
            let made = shown(catalog.create_account(name, *kind)?, &settings);
            output
                .print(&made, |_| format!("made account {name}; `multilane account keys {name}` shows its keys\n"))?;
            data::reload(&folder).map(drop)
        }
        AccountCommand::List => {
            let accounts: Vec<Shown> = catalog.accounts()?.into_iter().map(|one| shown(one, &settings)).collect();
            output.print(&accounts, |accounts| table(accounts))
        }
        AccountCommand::Show { name } => {
            let account = shown(catalog.account(name)?, &settings);
            output.print(&account, |account| table(std::slice::from_ref(account)))
        }
        AccountCommand::Update { name, multichannel } => {
            let wanted = match multichannel {
                Switch::On => Multichannel::On,
                Switch::Off => Multichannel::Off,
            };
            let account = shown(catalog.set_multichannel(name, wanted)?, &settings);
            output.print(&account, |account| table(std::slice::from_ref(account)))?;
            data::reload(&folder).map(drop)
        }
        AccountCommand::Keys { name, regenerate: None } => print_keys(catalog.keys(name)?, output),
        AccountCommand::Keys { name, regenerate: Some(number) } => {
            let key = if *number == 1 { Key::One } else { Key::Two };
            print_keys(catalog.regenerate_key(name, key)?, output)?;
            data::forget(&folder, &catalog)
        }
        AccountCommand::Delete { name } => {
            catalog.delete_account(name)?;
            output.print(&Deleted { deleted: name.as_str() }, |_| format!("deleted account {name}\n"))?;
            data::forget(&folder, &catalog)
        }
    }
}

fn shown(account: Account, settings: &StoredSettings) -> Shown {
    Shown {
        kind: account.kind.as_str(),
        multichannel: match account.multichannel {
            Multichannel::On => "on",
            Multichannel::Off => "off",
        },
        sid: settings.sid(account.relative_id),
        name: account.name,
        shares: account.shares,
        users: account.users,
    }
}

fn table(accounts: &[Shown]) -> String {
    let mut table = Table::new(["NAME", "KIND", "MULTICHANNEL", "SHARES", "USERS", "SID"]);
    for one in accounts {
        let (shares, users) = (one.shares.to_string(), one.users.to_string());
        table.row([one.name.clone(), one.kind.to_owned(), one.multichannel.to_owned(), shares, users, one.sid.clone()]);
    }
    table.text()
}

fn print_keys(keys: Keys, output: Output) -> Result<(), Error> {
    let keys = ShownKeys { key1: keys.key1.clone(), key2: keys.key2.clone() };
    output.print(&keys, |keys| format!("key1  {}\nkey2  {}\n", keys.key1, keys.key2))
}
