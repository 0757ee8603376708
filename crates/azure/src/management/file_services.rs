//! An account's file service: its switches, what its shares may have, and the formulas of what is provisioned.

use control::{
    Account, AccountChanges, AccountName, Billing, By, CorsRule, Dialect, Operations, ProvisionModel, Provisioned,
    Requester, StoredSettings, provisioning,
};
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use server::admin::{Multichannel, Sealing};

use super::answer::json as answered;
use super::{Ask, Failure, Management};
use crate::answer::Answer;

const TYPE: &str = "Microsoft.Storage/storageAccounts/fileServices";
/// How clients prove who they are.
const AUTHENTICATION: &str = "NTLMv2";
/// What seals sessions, of the service's names.
const CIPHERS: &str = "AES-128-CCM;AES-128-GCM;AES-256-GCM";
/// The service's dialects.
const DIALECTS: [(Dialect, &str); 3] =
    [(Dialect::Smb210, "SMB2.1"), (Dialect::Smb300, "SMB3.0"), (Dialect::Smb311, "SMB3.1.1")];

/// What a file service is wanted to be. What is not said stays.
#[derive(Default, Deserialize)]
struct Wanted {
    #[serde(default)]
    properties: WantedProperties,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WantedProperties {
    cors: Option<WantedCors>,
    share_delete_retention_policy: Option<WantedRetention>,
    protocol_settings: Option<WantedProtocols>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WantedCors {
    #[serde(default)]
    cors_rules: Vec<WantedRule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WantedRule {
    allowed_origins: Vec<String>,
    allowed_methods: Vec<String>,
    #[serde(default)]
    allowed_headers: Vec<String>,
    #[serde(default)]
    exposed_headers: Vec<String>,
    max_age_in_seconds: u32,
}

#[derive(Deserialize)]
struct WantedRetention {
    #[serde(default)]
    enabled: Option<bool>,
    days: Option<u16>,
}

#[derive(Deserialize)]
struct WantedProtocols {
    smb: Option<WantedSmb>,
    nfs: Option<WantedNfs>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WantedSmb {
    multichannel: Option<WantedSwitch>,
    versions: Option<String>,
    authentication_methods: Option<String>,
    kerberos_ticket_encryption: Option<String>,
    channel_encryption: Option<String>,
    encryption_in_transit: Option<WantedEncryption>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WantedNfs {
    encryption_in_transit: Option<WantedEncryption>,
}

#[derive(Deserialize)]
struct WantedSwitch {
    enabled: Option<bool>,
}

#[derive(Deserialize)]
struct WantedEncryption {
    required: Option<bool>,
}

/// What the server does, by the service's words.
struct Protocols {
    versions: String,
    seals_all: bool,
}

pub(super) async fn list(management: &Management, account: &str) -> Result<Answer, Failure> {
    let account = management.account(account)?;
    Ok(answered(StatusCode::OK, &json!({ "value": [told(management, &account, &protocols(management).await?)] })))
}

pub(super) async fn get(management: &Management, account: &str) -> Result<Answer, Failure> {
    let account = management.account(account)?;
    Ok(answered(StatusCode::OK, &told(management, &account, &protocols(management).await?)))
}

/// Sets a file service up otherwise. What the server does for all accounts can be asked for only as it is.
pub(super) async fn put(management: &Management, ask: &Ask, account: &str) -> Result<Answer, Failure> {
    let (account, wanted): (Account, Wanted) = (management.account(account)?, ask.json()?);
    let (properties, protocols) = (wanted.properties, protocols(management).await?);
    refuse_other(&properties, &protocols)?;
    let retention_days = properties.share_delete_retention_policy.map(WantedRetention::days).transpose()?.flatten();
    let mut service = management.catalog.file_service(&account.name);
    properties.cors.into_iter().for_each(|cors| service.cors = cors.rules());
    let smb = properties.protocol_settings.and_then(|of| of.smb);
    let switch = smb.and_then(|smb| smb.multichannel).and_then(|switch| switch.enabled);
    let to = switch.map(|enabled| if enabled { Multichannel::On } else { Multichannel::Off });
    let multichannel = to.filter(|to| *to != account.multichannel);
    let changes = AccountChanges { multichannel, retention_days, ..AccountChanges::default() };
    let (by, name): (Requester, AccountName) = (ask.requester()?, account.name.parse()?);
    let set = move |operations: &Operations| operations.set_file_service(By::Requester(&by), &name, &service, changes);
    management.changed(set).await?;
    let account = management.account(&account.name)?;
    Ok(answered(StatusCode::OK, &told(management, &account, &protocols)))
}

impl WantedRetention {
    /// For how many days deleted shares are to be kept, or that they are not; nothing where it says nothing.
    fn days(self) -> Result<Option<Option<u16>>, Failure> {
        match (self.enabled, self.days) {
            (Some(true), Some(days)) => Ok(Some(Some(days))),
            (Some(true), None) => Err(unsupported("shareDeleteRetentionPolicy", "enabled with a number of days")),
            (Some(false), _) => Ok(Some(None)),
            (None, _) => Ok(None),
        }
    }
}

impl WantedCors {
    fn rules(self) -> Vec<CorsRule> {
        let rule = |rule: WantedRule| CorsRule {
            allowed_origins: rule.allowed_origins,
            allowed_methods: rule.allowed_methods,
            allowed_headers: rule.allowed_headers,
            exposed_headers: rule.exposed_headers,
            max_age_seconds: rule.max_age_in_seconds,
        };
        self.cors_rules.into_iter().map(rule).collect()
    }
}

/// Refuses what the server does not do.
fn refuse_other(wanted: &WantedProperties, is: &Protocols) -> Result<(), Failure> {
    let Some(protocols) = &wanted.protocol_settings else { return Ok(()) };
    if let Some(smb) = &protocols.smb {
        same("versions", smb.versions.as_deref(), &is.versions, "change it with `serve --dialect-min`")?;
        same("authenticationMethods", smb.authentication_methods.as_deref(), AUTHENTICATION, "there is no Kerberos")?;
        same("kerberosTicketEncryption", smb.kerberos_ticket_encryption.as_deref(), "", "there is no Kerberos")?;
        same("channelEncryption", smb.channel_encryption.as_deref(), CIPHERS, "they are not chosen")?;
        let required = smb.encryption_in_transit.as_ref().and_then(|of| of.required);
        if required.is_some_and(|required| required != is.seals_all) {
            let what = format!("{}: change it with `serve --sealing`", is.seals_all);
            return Err(unsupported("smb.encryptionInTransit.required", &what));
        }
    }
    let nfs = protocols.nfs.as_ref().and_then(|nfs| nfs.encryption_in_transit.as_ref());
    if nfs.is_some_and(|nfs| nfs.required == Some(true)) {
        return Err(unsupported("nfs.encryptionInTransit.required", "false: there is no NFS"));
    }
    Ok(())
}

/// Refuses another list than the one there is. An empty one stands for the default.
fn same(name: &str, wanted: Option<&str>, is: &str, why: &str) -> Result<(), Failure> {
    let parts = |text: &str| {
        let mut parts: Vec<String> =
            text.split(';').map(|part| part.trim().to_ascii_lowercase()).filter(|part| !part.is_empty()).collect();
        parts.sort_unstable();
        parts
    };
    let wanted = parts(wanted.unwrap_or_default());
    if wanted.is_empty() || wanted == parts(is) {
        return Ok(());
    }
    Err(unsupported(&format!("smb.{name}"), &format!("'{is}': {why}")))
}

fn unsupported(name: &str, allowed: &str) -> Failure {
    Failure::bad("InvalidRequestPropertyValue", format!("The property '{name}' cannot be this; it can be {allowed}."))
}

async fn protocols(management: &Management) -> Result<Protocols, Failure> {
    let settings = management.changed(|operations| Ok(operations.settings())).await?;
    let settings: StoredSettings = settings.ok_or_else(|| {
        Failure::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", "The server ends just now.")
    })?;
    let seals_all = settings.sealing == Sealing::Required;
    let can = |dialect: Dialect| dialect.revision() >= settings.dialect_min.revision();
    // What cannot be sealed is refused where everything has to be.
    let is_let_in = |dialect: Dialect| can(dialect) && (!seals_all || dialect.revision() >= Dialect::Smb300.revision());
    let versions = DIALECTS.iter().filter(|(dialect, _)| is_let_in(*dialect)).map(|(_, name)| *name);
    Ok(Protocols { versions: versions.collect::<Vec<_>>().join(";"), seals_all })
}

fn told(management: &Management, account: &Account, protocols: &Protocols) -> Value {
    let service = management.catalog.file_service(&account.name);
    let rule = |rule: &CorsRule| {
        json!({
            "allowedOrigins": rule.allowed_origins,
            "allowedMethods": rule.allowed_methods,
            "allowedHeaders": rule.allowed_headers,
            "exposedHeaders": rule.exposed_headers,
            "maxAgeInSeconds": rule.max_age_seconds,
        })
    };
    json!({
        "id": management.id(&format!("storageAccounts/{}/fileServices/default", account.name)),
        "name": "default",
        "type": TYPE,
        "sku": super::accounts::sku(account),
        "properties": {
            "cors": { "corsRules": service.cors.iter().map(rule).collect::<Vec<_>>() },
            "shareDeleteRetentionPolicy": match account.retention_days {
                Some(days) => json!({ "enabled": true, "days": days }),
                None => json!({ "enabled": false }),
            },
            "protocolSettings": {
                "smb": {
                    "multichannel": { "enabled": account.multichannel == Multichannel::On },
                    "versions": protocols.versions,
                    "authenticationMethods": AUTHENTICATION,
                    "channelEncryption": CIPHERS,
                    "encryptionInTransit": { "required": protocols.seals_all },
                },
            },
        },
    })
}

pub(super) fn usages(management: &Management, account: &str) -> Result<Answer, Failure> {
    let account = management.account(account)?;
    Ok(answered(StatusCode::OK, &json!({ "value": [told_usage(management, &account)?] })))
}

pub(super) fn usage(management: &Management, account: &str) -> Result<Answer, Failure> {
    let account = management.account(account)?;
    Ok(answered(StatusCode::OK, &told_usage(management, &account)?))
}

/// What an account's shares may be provisioned with and are, and the formulas of bursts.
fn told_usage(management: &Management, account: &Account) -> Result<Value, Failure> {
    let model = match account.billing() {
        Billing::Provisioned(model) => model,
        // Its shares may be provisioned by either; the second has no formula that is not among these numbers.
        Billing::Local => ProvisionModel::V2,
        Billing::PayAsYouGo => {
            return Err(Failure::bad(
                "FeatureNotSupportedForAccount",
                format!("The shares of '{}' are not provisioned.", account.name),
            ));
        }
    };
    let (all, gib, iops, mibps) = (model.account_max(), model.gib(), model.iops(), model.mibps());
    let live = management.catalog.shares().into_iter().filter(|share| share.account == account.name);
    let live: Vec<_> = live.map(|share| share.provisioned).collect();
    let deleted = management.catalog.deleted_shares(&account.name).into_iter();
    let deleted: Vec<_> = deleted.map(|deleted| deleted.share.provisioned).collect();
    let (base_iops, base_mibps) = match model {
        ProvisionModel::V1 => (provisioning::v1_iops(0), provisioning::v1_mibps(0)),
        ProvisionModel::V2 => (provisioning::v2_recommended_iops(0), provisioning::v2_recommended_mibps(0)),
    };
    Ok(json!({
        "id": management.id(&format!("storageAccounts/{}/fileServices/default/usages/default", account.name)),
        "name": "default",
        "type": format!("{TYPE}/usages"),
        "properties": {
            "storageAccountLimits": {
                "maxFileShares": all.shares,
                "maxProvisionedStorageGiB": all.gib,
                "maxProvisionedIOPS": all.iops.min(provisioning::IOPS_MAX.into()),
                "maxProvisionedBandwidthMiBPerSec": all.mibps.min(provisioning::MIBPS_MAX.into()),
            },
            "fileShareLimits": {
                "minProvisionedStorageGiB": gib.start(),
                "maxProvisionedStorageGiB": gib.end(),
                "minProvisionedIOPS": iops.start(),
                "maxProvisionedIOPS": iops.end(),
                "minProvisionedBandwidthMiBPerSec": mibps.start(),
                "maxProvisionedBandwidthMiBPerSec": mibps.end(),
            },
            "fileShareRecommendations": {
                "baseIOPS": base_iops,
                "ioScalar": 1.0,
                "baseBandwidthMiBPerSec": base_mibps,
                "bandwidthScalar": 0.1,
            },
            "burstingConstants": {
                "burstFloorIOPS": provisioning::BURST_IOPS_MIN,
                "burstIOScalar": f64::from(provisioning::BURST_SCALAR),
                "burstTimeframeSeconds": provisioning::BURST_SECONDS,
            },
            "storageAccountUsage": {
                "liveShares": told_sum(&live),
                "softDeletedShares": told_sum(&deleted),
            },
        },
    }))
}

/// What shares are provisioned with together.
fn told_sum(shares: &[Option<Provisioned>]) -> Value {
    let sum = |of: fn(&Provisioned) -> u32| -> u64 { shares.iter().flatten().map(|one| u64::from(of(one))).sum() };
    json!({
        "fileShareCount": shares.len(),
        "provisionedStorageGiB": sum(|one| one.gib),
        "provisionedIOPS": sum(|one| one.iops),
        "provisionedBandwidthMiBPerSec": sum(|one| one.mibps),
    })
}

/// Reads a body as what is wanted, for who tests what reads it.
pub(super) fn read(body: &[u8]) {
    let Ok(Wanted { properties }) = serde_json::from_slice(body) else { return };
    let _ = properties.share_delete_retention_policy.map(WantedRetention::days);
    let _ = properties.cors.map(WantedCors::rules);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(json: &str) -> Option<String> {
        let wanted: Wanted = serde_json::from_str(json).unwrap();
        let is = Protocols { versions: "SMB3.0;SMB3.1.1".to_owned(), seals_all: false };
        refuse_other(&wanted.properties, &is).err().map(|failure| failure.message)
    }

    #[test]
    fn what_the_server_does_is_taken_and_nothing_else() {
        for right in [
            "{}",
            r#"{"properties":{"cors":{"corsRules":[]},"shareDeleteRetentionPolicy":{"enabled":false},"protocolSettings":{"smb":{"multichannel":{"enabled":true}},"nfs":{}}}}"#,
            r#"{"properties":{"protocolSettings":{"smb":{"versions":"SMB3.1.1; smb3.0;","authenticationMethods":"NTLMv2","channelEncryption":""}}}}"#,
            r#"{"properties":{"protocolSettings":{"smb":{"encryptionInTransit":{"required":false}}}}}"#,
        ] {
            assert_eq!(refused(right), None, "{right}");
        }
        for (wrong, part) in [
            (r#"{"smb":{"versions":"SMB3.1.1"}}"#, "smb.versions"),
            (r#"{"smb":{"authenticationMethods":"NTLMv2;Kerberos"}}"#, "NTLMv2"),
            (r#"{"smb":{"kerberosTicketEncryption":"AES-256"}}"#, "no Kerberos"),
            (r#"{"smb":{"channelEncryption":"AES-256-GCM"}}"#, "AES-128-CCM"),
            (r#"{"smb":{"encryptionInTransit":{"required":true}}}"#, "--sealing"),
            (r#"{"nfs":{"encryptionInTransit":{"required":true}}}"#, "no NFS"),
        ] {
            let message = refused(&format!(r#"{{"properties":{{"protocolSettings":{wrong}}}}}"#));
            assert!(message.as_ref().is_some_and(|message| message.contains(part)), "{wrong}: {message:?}");
        }
    }
}
