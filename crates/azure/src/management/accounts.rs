//! Storage accounts.

use control::{Account, AccountKind, AccountName, AccountPlan, By, Key, Keys, Region, Sku};
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use server::admin::Multichannel;

use super::answer::json as answered;
use super::subscriptions::LOCAL;
use super::{Ask, Failure, Management};
use crate::answer::{Answer, empty};

const TYPE: &str = "Microsoft.Storage/storageAccounts";

/// What an account is wanted to be. What is not named here, such as network rules, is not kept.
#[derive(Deserialize)]
struct Wanted {
    sku: Option<WantedSku>,
    kind: Option<String>,
    location: Option<String>,
}

#[derive(Deserialize)]
struct WantedSku {
    name: String,
}

#[derive(Deserialize)]
struct NameToCheck {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct KeyToReplace {
    key_name: String,
}

/// The SKUs there are.
pub(super) fn skus() -> Answer {
    let told = |sku: Sku| {
        json!({
            "resourceType": "storageAccounts",
            "name": sku.as_str(),
            "tier": tier(sku.kind()),
            "kind": sku.kind().as_str(),
            "locations": [LOCAL],
            "capabilities": [],
            "restrictions": [],
        })
    };
    answered(StatusCode::OK, &json!({ "value": Sku::ALL.map(told) }))
}

/// Whether a new account may have a name.
pub(super) fn check_name(management: &Management, ask: &Ask) -> Result<Answer, Failure> {
    let NameToCheck { name } = ask.json()?;
    let (reason, message) = match name.parse::<AccountName>() {
        Err(error) => ("AccountNameInvalid", format!("{}: {}.", error.what(), error.remedy())),
        Ok(_) if management.catalog.has_account(&name) => {
            ("AlreadyExists", format!("The storage account named {name} is already taken."))
        }
        Ok(_) => return Ok(answered(StatusCode::OK, &json!({ "nameAvailable": true }))),
    };
    Ok(answered(StatusCode::OK, &json!({ "nameAvailable": false, "reason": reason, "message": message })))
}

pub(super) fn list(management: &Management, ask: &Ask) -> Answer {
    let accounts = management.catalog.accounts();
    let all: Vec<Value> = accounts.iter().map(|account| told(management, ask, account)).collect();
    answered(StatusCode::OK, &json!({ "value": all }))
}

pub(super) fn get(management: &Management, ask: &Ask, name: &str) -> Result<Answer, Failure> {
    Ok(answered(StatusCode::OK, &told(management, ask, &management.account(name)?)))
}

/// Makes an account. One that is there already stays as it is, and must be what is wanted.
pub(super) async fn put(management: &Management, ask: &Ask, name: &str) -> Result<Answer, Failure> {
    let wanted: Wanted = ask.json()?;
    let plan = wanted.plan()?;
    if let Ok(account) = management.account(name) {
        if account.kind != plan.kind() || plan.sku().is_some_and(|sku| account.sku != Some(sku)) {
            return Err(Failure::new(
                StatusCode::CONFLICT,
                "StorageAccountOperationNotAllowed",
                format!("The account '{name}' is there, and its kind and SKU do not change: delete it first."),
            ));
        }
        return Ok(answered(StatusCode::OK, &told(management, ask, &account)));
    }
    let new: AccountName = name.parse().map_err(|error: control::Error| {
        Failure::bad("AccountNameInvalid", format!("{}: {}.", error.what(), error.remedy()))
    })?;
    let by = ask.by.clone();
    // New accounts of Azure have it where their kind can.
    let multichannel = match plan.kind() {
        AccountKind::FileStorage => Multichannel::On,
        AccountKind::StorageV2 => Multichannel::Off,
    };
    let made =
        management.changed(move |operations| operations.create_account(By::Principal(&by), &new, plan, multichannel));
    Ok(answered(StatusCode::OK, &told(management, ask, &made.await?)))
}

/// Tells an account: nothing that is kept of it changes.
pub(super) fn patch(management: &Management, ask: &Ask, name: &str) -> Result<Answer, Failure> {
    let account = management.account(name)?;
    let wanted: Wanted = ask.json()?;
    let plan = wanted.plan()?;
    let is_other = wanted.kind.is_some_and(|_| plan.kind() != account.kind)
        || wanted.sku.is_some_and(|_| plan.sku() != account.sku);
    if is_other {
        return Err(Failure::new(
            StatusCode::CONFLICT,
            "StorageAccountOperationNotAllowed",
            "The kind and the SKU of an account do not change.",
        ));
    }
    Ok(answered(StatusCode::OK, &told(management, ask, &account)))
}

/// Deletes an account. One that has shares or users stays.
pub(super) async fn delete(management: &Management, ask: &Ask, name: &str) -> Result<Answer, Failure> {
    let Ok(account) = management.account(name) else { return Ok(empty(StatusCode::NO_CONTENT)) };
    let (by, name): (String, AccountName) = (ask.by.clone(), account.name.parse()?);
    management.changed(move |operations| operations.delete_account(By::Principal(&by), &name)).await?;
    Ok(empty(StatusCode::OK))
}

pub(super) fn keys(management: &Management, name: &str) -> Result<Answer, Failure> {
    let keys = management.catalog.keys(name).ok_or_else(|| Failure::no_resource("storageAccounts", name))?;
    Ok(told_keys(&keys))
}

pub(super) async fn regenerate_key(management: &Management, ask: &Ask, name: &str) -> Result<Answer, Failure> {
    let wanted: KeyToReplace = ask.json()?;
    let key = match wanted.key_name.to_ascii_lowercase().as_str() {
        "key1" => Key::One,
        "key2" => Key::Two,
        _ => {
            let message = format!("There is no key '{}'; there are key1 and key2.", wanted.key_name);
            return Err(Failure::bad("InvalidRequestPropertyValue", message));
        }
    };
    let (by, name): (String, AccountName) = (ask.by.clone(), management.account(name)?.name.parse()?);
    let keys = management.changed(move |operations| operations.regenerate_key(By::Principal(&by), &name, key)).await?;
    Ok(told_keys(&keys))
}

fn told_keys(keys: &Keys) -> Answer {
    let told = |name: &str, value: &str| json!({ "keyName": name, "value": value, "permissions": "FULL" });
    answered(StatusCode::OK, &json!({ "keys": [told("key1", &keys.key1), told("key2", &keys.key2)] }))
}

impl Wanted {
    fn plan(&self) -> Result<AccountPlan, Failure> {
        let (kind, sku) = (self.kind.as_deref(), self.sku.as_ref().map(|sku| sku.name.as_str()));
        let kind = kind.map(str::parse::<AccountKind>).transpose()?;
        let sku = sku.filter(|name| !name.eq_ignore_ascii_case(LOCAL)).map(str::parse::<Sku>).transpose()?;
        let location = self.location.as_deref().filter(|name| !name.eq_ignore_ascii_case(LOCAL));
        Ok(AccountPlan::new(kind, sku, location.map(str::parse::<Region>).transpose()?)?)
    }
}

impl Management {
    /// An account of this name.
    pub(super) fn account(&self, name: &str) -> Result<Account, Failure> {
        let mut accounts = self.catalog.accounts().into_iter();
        accounts.find(|account| account.name == name).ok_or_else(|| Failure::no_resource("storageAccounts", name))
    }
}

/// An account as the service tells it.
fn told(management: &Management, ask: &Ask, account: &Account) -> Value {
    let location = account.location.as_ref().map_or(LOCAL, Region::as_str);
    json!({
        "id": management.id(&format!("storageAccounts/{}", account.name)),
        "name": account.name,
        "type": TYPE,
        "location": location,
        "tags": {},
        "kind": account.kind.as_str(),
        "sku": sku(account),
        "properties": {
            "provisioningState": "Succeeded",
            "primaryLocation": location,
            "statusOfPrimary": "available",
            "primaryEndpoints": { "file": format!("{}/{}/", ask.origin, account.name) },
            "supportsHttpsTrafficOnly": ask.origin.starts_with("https:"),
            "allowSharedKeyAccess": true,
            "allowBlobPublicAccess": false,
            "isHnsEnabled": false,
            "largeFileSharesState": "Enabled",
            "privateEndpointConnections": [],
        },
    })
}

/// An account's SKU. A local one, which is not billed, has the SKU `Local`.
pub(super) fn sku(account: &Account) -> Value {
    json!({ "name": account.sku.map_or("Local", Sku::as_str), "tier": tier(account.kind) })
}

fn tier(kind: AccountKind) -> &'static str {
    match kind {
        AccountKind::FileStorage => "Premium",
        AccountKind::StorageV2 => "Standard",
    }
}
