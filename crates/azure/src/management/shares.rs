//! Shares of an account.

use std::num::NonZeroU32;

use control::{By, ProvisionChanges, ProvisionUpdate, ShareChanges, ShareName, ShareProperties, ShareRecord};
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::json as answered;
use super::call::OfShare;
use super::{Ask, Failure, Management};
use crate::answer::Answer;
use crate::operations::{quota_gib, share_etag};

const TYPE: &str = "Microsoft.Storage/storageAccounts/fileServices/shares";
/// Shares of one answer, at most.
const SHARES_MAX: usize = 5000;

/// What a share is wanted to be. What is not said stays.
#[derive(Deserialize)]
struct Wanted {
    #[serde(default)]
    properties: WantedProperties,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WantedProperties {
    share_quota: Option<u32>,
    provisioned_iops: Option<u32>,
    provisioned_bandwidth_mibps: Option<u32>,
    enabled_protocols: Option<String>,
    root_squash: Option<String>,
    file_share_paid_bursting: Option<WantedBursting>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WantedBursting {
    #[serde(default)]
    paid_bursting_enabled: bool,
}

/// The shares by name, page by page.
pub(super) fn list(management: &Management, ask: &Ask, account: &str) -> Result<Answer, Failure> {
    let account = management.account(account)?;
    let most = match ask.query.get("$maxpagesize") {
        None => SHARES_MAX,
        Some(text) => {
            text.parse::<usize>().ok().filter(|most| *most > 0).map(|most| most.min(SHARES_MAX)).ok_or_else(|| {
                Failure::bad(
                    "InvalidRequestPropertyValue",
                    format!("$maxpagesize is {text:?}; allowed: 1 to {SHARES_MAX}."),
                )
            })?
        }
    };
    let prefix = ask.query.get("$filter").map(prefix).transpose()?.unwrap_or_default();
    let from = ask.query.get("$skiptoken").unwrap_or_default();
    let mut shares = management.catalog.shares();
    shares.retain(|share| {
        share.account == account.name && share.name.starts_with(&prefix) && share.name.as_str() >= from
    });
    shares.sort_by(|one, other| one.name.cmp(&other.name));
    let mut rest = shares.iter();
    let page: Vec<Value> = rest.by_ref().take(most).map(|share| told(management, share)).collect();
    let mut answer = json!({ "value": page });
    if let Some(next) = rest.next() {
        let here = management.id(&format!("storageAccounts/{}/fileServices/default/shares", account.name));
        let version = ask.query.get("api-version").unwrap_or_default();
        let name = percent_encoding::utf8_percent_encode(&next.name, percent_encoding::NON_ALPHANUMERIC);
        answer["nextLink"] =
            format!("{}{here}?api-version={version}&$maxpagesize={most}&$skipToken={name}", ask.origin).into();
    }
    Ok(answered(StatusCode::OK, &answer))
}

/// The prefix of `startswith(name, 'prefix')`, the one filter that the service has.
fn prefix(filter: &str) -> Result<String, Failure> {
    let wrong = || Failure::bad("InvalidFilter", format!("The filter {filter:?} is not startswith(name, 'PREFIX')."));
    let inner = filter.trim().strip_prefix("startswith(").and_then(|rest| rest.strip_suffix(')')).ok_or_else(wrong)?;
    let (name, value) = inner.split_once(',').ok_or_else(wrong)?;
    let value = value.trim().strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')).ok_or_else(wrong)?;
    if name.trim() != "name" || value.contains('\'') {
        return Err(wrong());
    }
    Ok(value.to_owned())
}

pub(super) fn get(management: &Management, ask: &Ask, of: &OfShare) -> Result<Answer, Failure> {
    let share = management.share(of)?;
    let mut told = told(management, &share);
    if ask.query.get("$expand").is_some_and(|expand| expand.split(',').any(|one| one.trim() == "stats")) {
        let used =
            management.gauges.read().into_iter().find(|one| one.share == share.name).and_then(|one| one.used_bytes);
        told["properties"]["shareUsageBytes"] = used.into();
    }
    Ok(answered(StatusCode::OK, &told))
}

/// Changes what a share is provisioned with, or the most that a folder may hold.
pub(super) async fn patch(management: &Management, ask: &Ask, of: &OfShare) -> Result<Answer, Failure> {
    let (share, wanted) = (management.share(of)?, ask.json::<Wanted>()?.properties);
    wanted.refuse_other()?;
    let changes = wanted.changes(&share);
    let (by, name): (String, ShareName) = (ask.by.clone(), share.name.parse()?);
    let changed = management.changed(move |operations| operations.change_share(By::Principal(&by), &name, &changes));
    let changed = changed.await.map_err(|failure| wanted.named(&share, failure))?;
    Ok(answered(StatusCode::OK, &told(management, &changed)))
}

impl WantedProperties {
    /// Refuses what no share here has.
    fn refuse_other(&self) -> Result<(), Failure> {
        let refused = |name: &str, allowed: &str| {
            Failure::bad(
                "InvalidRequestPropertyValue",
                format!("The property '{name}' cannot be this; it can be {allowed}."),
            )
        };
        if self.enabled_protocols.as_ref().is_some_and(|protocols| !protocols.eq_ignore_ascii_case("SMB")) {
            return Err(refused("enabledProtocols", "SMB"));
        }
        if self.root_squash.is_some() {
            return Err(refused("rootSquash", "absent: it is of NFS"));
        }
        if self.file_share_paid_bursting.as_ref().is_some_and(|bursting| bursting.paid_bursting_enabled) {
            return Err(refused("fileSharePaidBursting.paidBurstingEnabled", "false: nothing is paid here"));
        }
        Ok(())
    }

    fn changes(&self, share: &ShareRecord) -> ShareChanges {
        let (iops, mibps) = (self.provisioned_iops, self.provisioned_bandwidth_mibps);
        if share.provisioned.is_some() || iops.is_some() || mibps.is_some() {
            let update = ProvisionUpdate::Change(ProvisionChanges { gib: self.share_quota, iops, mibps });
            return ShareChanges { provision: Some(update), ..ShareChanges::default() };
        }
        ShareChanges { quota_gib: self.share_quota.map(NonZeroU32::new), ..ShareChanges::default() }
    }

    /// A refusal by the code that the service has for it, where a value was to be decreased too early.
    fn named(&self, share: &ShareRecord, failure: Failure) -> Failure {
        let Some(before) = share.provisioned.filter(|_| failure.status == StatusCode::CONFLICT) else { return failure };
        let is_less = |wanted: Option<u32>, before: u32| wanted.is_some_and(|wanted| wanted < before);
        let code = if is_less(self.share_quota, before.gib) {
            "ContainerQuotaDowngradeNotAllowed"
        } else if is_less(self.provisioned_iops, before.iops) {
            "FileShareProvisionedIopsDowngradeNotAllowed"
        } else if is_less(self.provisioned_bandwidth_mibps, before.mibps) {
            "FileShareProvisionedBandwidthDowngradeNotAllowed"
        } else {
            failure.code
        };
        Failure { code, ..failure }
    }
}

impl Management {
    /// A share of an account, whatever the case of its name.
    fn share(&self, of: &OfShare) -> Result<ShareRecord, Failure> {
        let account = self.account(&of.account)?;
        let share = self.catalog.share_of(&account.name, &of.share);
        share.ok_or_else(|| {
            Failure::missing("ShareNotFound", format!("The specified share '{}' does not exist.", of.share))
        })
    }
}

fn told(management: &Management, share: &ShareRecord) -> Value {
    let mut properties = serde_json::to_value(ShareProperties::from(share)).expect("properties are JSON");
    properties["shareQuota"] = quota_gib(share).into();
    properties["leaseStatus"] = "Unlocked".into();
    properties["leaseState"] = "Available".into();
    // A running server tells of these by its metrics.
    if let Some(properties) = properties.as_object_mut() {
        properties.remove("availableBurstCredits");
        properties.retain(|_, value| !value.is_null());
    }
    json!({
        "id": management.id(&format!("storageAccounts/{}/fileServices/default/shares/{}", share.account, share.name)),
        "name": share.name,
        "type": TYPE,
        "etag": share_etag(&management.catalog.azure_share(share)),
        "properties": properties,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_filter_is_a_prefix_of_the_name() {
        assert_eq!(prefix("startswith(name, 'pre')").unwrap(), "pre");
        assert_eq!(prefix("startswith(name,'')").unwrap(), "");
        for wrong in ["", "name eq 'a'", "startswith(name, pre)", "startswith(etag, 'a')", "startswith(name, 'a'b')"] {
            assert_eq!(prefix(wrong).unwrap_err().code, "InvalidFilter", "{wrong}");
        }
    }

    #[test]
    fn what_no_share_has_is_refused() {
        let refused = |json: &str| serde_json::from_str::<WantedProperties>(json).unwrap().refuse_other().is_err();
        assert!(!refused(
            r#"{"shareQuota":100,"enabledProtocols":"smb","fileSharePaidBursting":{"paidBurstingEnabled":false}}"#
        ));
        for wrong in [
            r#"{"enabledProtocols":"NFS"}"#,
            r#"{"rootSquash":"NoRootSquash"}"#,
            r#"{"fileSharePaidBursting":{"paidBurstingEnabled":true}}"#,
        ] {
            assert!(refused(wrong), "{wrong}");
        }
    }
}
