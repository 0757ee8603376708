//! Storage accounts.

use control::{ACCOUNTS_MAX, Account, AccountKind, AccountName, AccountPlan, By, Key, Keys, Region, Requester, Sku};
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use server::admin::Multichannel;

use super::answer::json as answered;
use super::subscriptions::LOCAL;
use super::{Ask, Failure, Management};
use crate::answer::{Answer, empty};

/// Their type.
pub(super) const TYPE: &str = "Microsoft.Storage/storageAccounts";

/// What an account is wanted to be. What is not named here, such as tags, is not kept.
#[derive(Deserialize)]
struct Wanted {
    sku: Option<WantedSku>,
    kind: Option<String>,
    location: Option<String>,
    #[serde(default)]
    properties: WantedProperties,
}

/// What would keep somebody out, or would change what an account is: it is as it is here for all of them.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WantedProperties {
    allow_shared_key_access: Option<bool>,
    public_network_access: Option<String>,
    minimum_tls_version: Option<String>,
    is_hns_enabled: Option<bool>,
    is_nfs_v3_enabled: Option<bool>,
    is_sftp_enabled: Option<bool>,
    network_acls: Option<WantedNetworkRules>,
    encryption: Option<WantedEncryption>,
    azure_files_identity_based_authentication: Option<WantedDirectory>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WantedNetworkRules {
    default_action: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WantedEncryption {
    key_source: Option<String>,
    require_infrastructure_encryption: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WantedDirectory {
    directory_service_options: Option<String>,
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

/// How many accounts there are, wherever they are, and may be.
pub(super) fn location_usages(management: &Management) -> Answer {
    let usage = json!({
        "unit": "Count",
        "currentValue": management.catalog.accounts().len(),
        "limit": ACCOUNTS_MAX,
        "name": { "value": "StorageAccounts", "localizedValue": "Storage Accounts" },
    });
    answered(StatusCode::OK, &json!({ "value": [usage] }))
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
    wanted.properties.refuse_other()?;
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
    let by = ask.requester()?;
    // New accounts of Azure have it where their kind can.
    let multichannel = match plan.kind() {
        AccountKind::FileStorage => Multichannel::On,
        AccountKind::StorageV2 => Multichannel::Off,
    };
    let made =
        management.changed(move |operations| operations.create_account(By::Requester(&by), &new, plan, multichannel));
    Ok(answered(StatusCode::OK, &told(management, ask, &made.await?)))
}

/// Tells an account: nothing that is kept of it changes.
pub(super) fn patch(management: &Management, ask: &Ask, name: &str) -> Result<Answer, Failure> {
    let account = management.account(name)?;
    let wanted: Wanted = ask.json()?;
    wanted.properties.refuse_other()?;
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
    let (by, name): (Requester, AccountName) = (ask.requester()?, account.name.parse()?);
    management.changed(move |operations| operations.delete_account(By::Requester(&by), &name)).await?;
    Ok(empty(StatusCode::OK))
}

pub(super) fn keys(management: &Management, ask: &Ask, name: &str) -> Result<Answer, Failure> {
    let keys = management.catalog.keys(name).ok_or_else(|| Failure::no_resource("storageAccounts", name))?;
    management.operations.note_secret_told(By::Requester(&ask.requester()?), "keys", name);
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
    let (by, name): (Requester, AccountName) = (ask.requester()?, management.account(name)?.name.parse()?);
    let keys = management.changed(move |operations| operations.regenerate_key(By::Requester(&by), &name, key)).await?;
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

impl WantedProperties {
    /// Refuses what no account here is: who asked for it would think that it were.
    fn refuse_other(&self) -> Result<(), Failure> {
        let directory = self.azure_files_identity_based_authentication.as_ref();
        let (network, encryption) = (self.network_acls.as_ref(), self.encryption.as_ref());
        let text = |value: Option<&String>, allowed: &[&str]| {
            value.is_some_and(|value| !allowed.iter().any(|one| value.eq_ignore_ascii_case(one)))
        };
        let yes = |value: Option<bool>| value == Some(true);
        let refused = [
            (self.allow_shared_key_access == Some(false), "allowSharedKeyAccess", "true"),
            (text(self.public_network_access.as_ref(), &["Enabled"]), "publicNetworkAccess", "Enabled"),
            (
                text(self.minimum_tls_version.as_ref(), &["TLS1_0", "TLS1_1", "TLS1_2"]),
                "minimumTlsVersion",
                "TLS1_2: TLS 1.2 and 1.3 are spoken",
            ),
            (yes(self.is_hns_enabled), "isHnsEnabled", "false"),
            (yes(self.is_nfs_v3_enabled), "isNfsV3Enabled", "false"),
            (yes(self.is_sftp_enabled), "isSftpEnabled", "false"),
            (
                text(network.and_then(|rules| rules.default_action.as_ref()), &["Allow"]),
                "networkAcls.defaultAction",
                "Allow: say by 'multilane share update NAME --hosts-allow' from where a share may be used",
            ),
            (
                text(encryption.and_then(|of| of.key_source.as_ref()), &["Microsoft.Storage"]),
                "encryption.keySource",
                "Microsoft.Storage",
            ),
            (
                yes(encryption.and_then(|of| of.require_infrastructure_encryption)),
                "encryption.requireInfrastructureEncryption",
                "false",
            ),
            (
                text(directory.and_then(|of| of.directory_service_options.as_ref()), &["None"]),
                "azureFilesIdentityBasedAuthentication.directoryServiceOptions",
                "None",
            ),
        ];
        match refused.into_iter().find(|(is_refused, ..)| *is_refused) {
            None => Ok(()),
            Some((_, name, allowed)) => {
                let message = format!("The property '{name}' cannot be this; it can be {allowed}.");
                Err(Failure::bad("InvalidRequestPropertyValue", message))
            }
        }
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
            "publicNetworkAccess": "Enabled",
            "networkAcls": { "bypass": "None", "defaultAction": "Allow", "ipRules": [], "virtualNetworkRules": [] },
            "minimumTlsVersion": "TLS1_2",
            "isHnsEnabled": false,
            "encryption": { "keySource": "Microsoft.Storage", "services": { "file": { "enabled": false } } },
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

/// Reads a body as each that this has, for who tests what reads it.
pub(super) fn read(body: &[u8]) {
    let _ = serde_json::from_slice::<NameToCheck>(body);
    let _ = serde_json::from_slice::<KeyToReplace>(body);
    if let Ok(wanted) = serde_json::from_slice::<Wanted>(body) {
        let _ = wanted.properties.refuse_other().and_then(|()| wanted.plan());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_account_here_is_is_refused() {
        let of = |text: &str| serde_json::from_str::<Wanted>(text).unwrap().properties.refuse_other();
        for right in [
            "{}",
            r#"{"properties":{"supportsHttpsTrafficOnly":true,"allowSharedKeyAccess":true,"minimumTlsVersion":"TLS1_2","networkAcls":{"bypass":"AzureServices","defaultAction":"allow"}}}"#,
            r#"{"properties":{"encryption":{"services":{"file":{"enabled":true}},"keySource":"Microsoft.Storage"},"azureFilesIdentityBasedAuthentication":{"directoryServiceOptions":"None"}}}"#,
        ] {
            assert_eq!(of(right), Ok(()), "{right}");
        }
        for (wrong, part) in [
            (r#"{"allowSharedKeyAccess":false}"#, "allowSharedKeyAccess"),
            (r#"{"publicNetworkAccess":"Disabled"}"#, "publicNetworkAccess"),
            (r#"{"minimumTlsVersion":"TLS1_3"}"#, "minimumTlsVersion"),
            (r#"{"isHnsEnabled":true}"#, "isHnsEnabled"),
            (r#"{"isNfsV3Enabled":true}"#, "isNfsV3Enabled"),
            (r#"{"isSftpEnabled":true}"#, "isSftpEnabled"),
            (r#"{"networkAcls":{"defaultAction":"Deny"}}"#, "--hosts-allow"),
            (r#"{"encryption":{"keySource":"Microsoft.Keyvault"}}"#, "keySource"),
            (r#"{"encryption":{"requireInfrastructureEncryption":true}}"#, "requireInfrastructureEncryption"),
            (
                r#"{"azureFilesIdentityBasedAuthentication":{"directoryServiceOptions":"AADKERB"}}"#,
                "directoryServiceOptions",
            ),
        ] {
            let failure = of(&format!(r#"{{"properties":{wrong}}}"#)).unwrap_err();
            assert!(failure.message.contains(part), "{wrong}: {}", failure.message);
        }
    }
}
