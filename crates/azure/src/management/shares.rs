//! Shares of an account.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;

use control::{
    AccessTier, Account, AccountKind, AccountName, AzureShare, BREAK_SECONDS_MAX, Billing, By, DeletedShare,
    LEASE_SECONDS, LeaseAction, LeaseTime, NewShare, Provision, ProvisionChanges, ProvisionModel, ProvisionUpdate,
    Provisioned, Requester, ShareChanges, ShareName, ShareProperties, ShareRecord, Source, lease_by, provisioning,
    refused_by_lease,
};
use hyper::StatusCode;
use jiff::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::json as answered;
use super::call::OfShare;
use super::{Ask, Failure, Management, share_snapshots};
use crate::answer::{Answer, empty};
use crate::operations::{LeaseTold, guid, new_guid, new_share_name, quota_gib, share_etag, tier_name};

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
    access_tier: Option<String>,
    metadata: Option<BTreeMap<String, String>>,
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

/// Which deleted share is wanted again.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WantedAgain {
    deleted_share_name: String,
    deleted_share_version: String,
}

/// What is wanted of a lease.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WantedLease {
    action: String,
    lease_id: Option<String>,
    proposed_lease_id: Option<String>,
    lease_duration: Option<i64>,
    break_period: Option<u32>,
}

/// The shares by name, page by page; `$expand=deleted` has those among them that are deleted and kept, `$expand=snapshots` the
/// snapshots of each.
pub(super) async fn list(management: &Management, ask: &Ask, account: &str) -> Result<Answer, Failure> {
    let account = management.account(account)?;
    let most = match ask.query.get("$maxpagesize") {
        None => SHARES_MAX,
        Some(text) => page_size(text)?,
    };
    let prefix = ask.query.get("$filter").map(prefix).transpose()?.unwrap_or_default();
    let from = ask.query.get("$skiptoken").unwrap_or_default();
    let mut shares: Vec<(String, Value)> = management
        .catalog
        .shares()
        .iter()
        .filter(|share| share.account == account.name)
        .map(|share| (share.name.clone(), told(management, &account, share)))
        .collect();
    if ask.expands("snapshots") {
        shares.extend(share_snapshots::all(management, &account).await?);
    }
    if ask.expands("deleted") {
        let deleted = management.catalog.deleted_shares(&account.name);
        shares.extend(deleted.iter().map(|one| (one.share.name.clone(), told_deleted(management, &account, one))));
    }
    shares.retain(|(name, _)| name.starts_with(&prefix) && name.as_str() >= from);
    shares.sort_by(|one, other| one.0.cmp(&other.0));
    // Those of one name stay together.
    let mut end = shares.len().min(most);
    while end < shares.len() && shares[end].0 == shares[end - 1].0 {
        end += 1;
    }
    let next = shares.split_off(end).into_iter().next();
    let mut answer = json!({ "value": shares.into_iter().map(|(_, told)| told).collect::<Vec<_>>() });
    if let Some((next, _)) = next {
        let here = management.id(&format!("storageAccounts/{}/fileServices/default/shares", account.name));
        let kept = ["api-version", "$filter", "$expand"].iter().filter_map(|name| Some((*name, ask.query.get(name)?)));
        let size = most.to_string();
        let all = kept.chain([("$maxpagesize", size.as_str()), ("$skipToken", next.as_str())]);
        let all = all.map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC)));
        answer["nextLink"] = format!("{}{here}?{}", ask.origin, all.collect::<Vec<_>>().join("&")).into();
    }
    Ok(answered(StatusCode::OK, &answer))
}

fn page_size(text: &str) -> Result<usize, Failure> {
    let size = text.parse::<usize>().ok().filter(|size| *size > 0).map(|size| size.min(SHARES_MAX));
    size.ok_or_else(|| {
        Failure::bad("InvalidRequestPropertyValue", format!("$maxpagesize is {text:?}; allowed: 1 to {SHARES_MAX}."))
    })
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

/// Tells a share; `$expand=stats` what it holds, too.
pub(super) async fn get(management: &Management, ask: &Ask, of: &OfShare) -> Result<Answer, Failure> {
    if let Some(at) = ask.snapshot {
        return share_snapshots::get(management, of, at).await;
    }
    let (account, share) = management.share(of)?;
    let mut told = told(management, &account, &share);
    if ask.expands("stats") {
        let (account, name): (AccountName, ShareName) = (account.name.parse()?, share.name.parse()?);
        let used = management.changed(move |operations| operations.count_used_bytes(&account, &name)).await?;
        told["properties"]["shareUsageBytes"] = used.into();
    }
    Ok(answered(StatusCode::OK, &told))
}

/// The metadata that a body wants.
pub(super) fn wanted_metadata(ask: &Ask) -> Result<Option<BTreeMap<String, String>>, Failure> {
    // It may be empty where nothing is wanted.
    if ask.body.is_empty() { Ok(None) } else { Ok(ask.json::<Wanted>()?.properties.metadata) }
}

/// Makes a share, in a folder that is made for it. One that is there already is changed to what is wanted.
pub(super) async fn put(management: &Management, ask: &Ask, of: &OfShare) -> Result<Answer, Failure> {
    if ask.expands("snapshots") {
        return share_snapshots::put(management, ask, of).await;
    }
    let account = management.account(&of.account)?;
    if management.catalog.share_of(&account.name, &of.share).is_some() {
        return patch(management, ask, of).await;
    }
    let wanted = ask.json::<Wanted>()?.properties;
    wanted.refuse_other()?;
    let name = new_share_name(&of.share).map_err(Failure::of_data_plane)?;
    let (provision, quota_gib) = wanted.provision(&account)?;
    let source = Source::Folder { path: PathBuf::new(), quota_gib };
    let new = NewShare { account: Some(account.name.parse()?), provision, ..NewShare::new(name.clone(), source) };
    let mut kept = AzureShare::default();
    wanted.tier(&account)?.into_iter().for_each(|tier| kept.set_tier(tier, Timestamp::now()));
    wanted.metadata.into_iter().for_each(|metadata| kept.metadata = metadata);
    let by = ask.requester()?;
    let share = management.changed(move |operations| operations.create_share(By::Requester(&by), &new, kept)).await?;
    Ok(answered(StatusCode::CREATED, &told(management, &account, &share)))
}

/// Changes what a share is provisioned with, or the most that a folder may hold; its metadata and its tier.
pub(super) async fn patch(management: &Management, ask: &Ask, of: &OfShare) -> Result<Answer, Failure> {
    let ((account, share), wanted) = (management.share(of)?, ask.json::<Wanted>()?.properties);
    wanted.refuse_other()?;
    let tier = wanted.tier(&account)?;
    let changes = wanted.changes(&share);
    let (by, of_account): (Requester, AccountName) = (ask.requester()?, account.name.parse()?);
    let name: ShareName = share.name.parse()?;
    let keep = move |kept: &mut AzureShare, now| {
        wanted.metadata.into_iter().for_each(|metadata| kept.metadata = metadata);
        tier.into_iter().for_each(|tier| kept.set_tier(tier, now));
    };
    let changed = management.changed(move |operations| {
        operations.update_share(By::Requester(&by), &of_account, &name, &changes, None, keep)
    });
    Ok(answered(StatusCode::OK, &told(management, &account, &changed.await?)))
}

/// Deletes a share, for as many days as its account keeps them. A lease keeps it from that.
pub(super) async fn delete(management: &Management, ask: &Ask, of: &OfShare) -> Result<Answer, Failure> {
    let account = management.account(&of.account)?;
    let Some(share) = management.catalog.share_of(&account.name, &of.share) else {
        return Ok(empty(StatusCode::NO_CONTENT));
    };
    if let Some(at) = ask.snapshot {
        return share_snapshots::delete(management, ask, share, at).await;
    }
    let snapshots = share_snapshots::deleted_with(&ask.query)?;
    let by = ask.requester()?;
    let (account, name): (AccountName, ShareName) = (account.name.parse()?, share.name.parse()?);
    let deleted = management
        .changed(move |operations| operations.delete_share(By::Requester(&by), &account, &name, None, snapshots));
    deleted.await?;
    Ok(empty(StatusCode::OK))
}

/// Has a deleted share there again, by its name or another.
pub(super) async fn restore(management: &Management, ask: &Ask, of: &OfShare) -> Result<Answer, Failure> {
    let (account, wanted) = (management.account(&of.account)?, ask.json::<WantedAgain>()?);
    let (by, account): (Requester, AccountName) = (ask.requester()?, account.name.parse()?);
    let (deleted, name): (ShareName, ShareName) = (wanted.deleted_share_name.parse()?, of.share.parse()?);
    let version = wanted.deleted_share_version;
    let restored = management.changed(move |operations| {
        operations.undelete_share(By::Requester(&by), &account, &deleted, Some(&version), &name)
    });
    restored.await?;
    Ok(empty(StatusCode::OK))
}

/// Acquires, renews, changes, releases or breaks a share's lease.
pub(super) async fn lease(management: &Management, ask: &Ask, of: &OfShare) -> Result<Answer, Failure> {
    let ((account, share), action) = (management.share(of)?, ask.json::<WantedLease>()?.action()?);
    let is_broken = matches!(action, LeaseAction::Break { .. });
    let (account, name): (AccountName, ShareName) = (account.name.parse()?, share.name.parse()?);
    let snapshot = ask.snapshot;
    let changed = management.changed(move |operations| {
        let change =
            |kept: &mut AzureShare, _| lease_by(&mut kept.lease, &action, LeaseTime::now()).map_err(refused_by_lease);
        match snapshot {
            Some(at) => operations.change_snapshot(&share, at, change),
            None => operations.change_azure_share(&account, &name, change),
        }
    });
    let (left, kept) = changed.await?;
    let id = kept.lease.as_ref().map(|lease| lease.id().to_owned());
    let told = if is_broken {
        json!({ "leaseId": id, "leaseTimeSeconds": left.to_string() })
    } else {
        json!({ "leaseId": id })
    };
    Ok(answered(StatusCode::OK, &told))
}

impl WantedLease {
    fn action(self) -> Result<LeaseAction, Failure> {
        let wrong = |what: &str| {
            Failure::bad("InvalidRequestPropertyValue", format!("The lease cannot be changed so: {what}."))
        };
        let named = |id: &Option<String>, name: &str| {
            let id = id.as_deref().ok_or_else(|| wrong(&format!("{name} is missing")))?;
            guid(name, id).map_err(|_| wrong(&format!("{name} is no GUID")))
        };
        Ok(match self.action.to_ascii_lowercase().as_str() {
            "acquire" => LeaseAction::Acquire {
                id: match &self.proposed_lease_id {
                    Some(_) => named(&self.proposed_lease_id, "proposedLeaseId")?,
                    None => new_guid().map_err(|failure| wrong(&failure.message))?,
                },
                seconds: match self.lease_duration.unwrap_or(-1) {
                    -1 => None,
                    given => {
                        let seconds = u32::try_from(given).ok().filter(|seconds| LEASE_SECONDS.contains(seconds));
                        Some(seconds.ok_or_else(|| wrong("leaseDuration is -1, or 15 to 60 seconds"))?)
                    }
                },
            },
            "renew" => LeaseAction::Renew { id: named(&self.lease_id, "leaseId")? },
            "change" => LeaseAction::Change {
                id: named(&self.lease_id, "leaseId")?,
                to: named(&self.proposed_lease_id, "proposedLeaseId")?,
            },
            "release" => LeaseAction::Release { id: named(&self.lease_id, "leaseId")? },
            "break" if self.break_period.is_none_or(|period| period <= BREAK_SECONDS_MAX) => {
                LeaseAction::Break { period: self.break_period }
            }
            _ => return Err(wrong("action is Acquire, Renew, Change, Release, or Break within 60 seconds")),
        })
    }
}

impl WantedProperties {
    /// Refuses what no share here has.
    fn refuse_other(&self) -> Result<(), Failure> {
        let refused = |name: &str, allowed: &str| {
            let message = format!("The property '{name}' cannot be this; it can be {allowed}.");
            Err(Failure::bad("InvalidRequestPropertyValue", message))
        };
        if self.enabled_protocols.as_ref().is_some_and(|protocols| !protocols.eq_ignore_ascii_case("SMB")) {
            return refused("enabledProtocols", "SMB");
        }
        if self.root_squash.is_some() {
            return refused("rootSquash", "absent: it is of NFS");
        }
        if self.file_share_paid_bursting.as_ref().is_some_and(|bursting| bursting.paid_bursting_enabled) {
            return refused("fileSharePaidBursting.paidBurstingEnabled", "false: nothing is paid here");
        }
        if self.share_quota == Some(0) {
            return refused("shareQuota", "a number of GiB");
        }
        Ok(())
    }

    /// What a new share is provisioned with, or else its quota.
    fn provision(&self, account: &Account) -> Result<(Option<Provision>, Option<NonZeroU32>), Failure> {
        let (iops, mibps) = (self.provisioned_iops, self.provisioned_bandwidth_mibps);
        match (account.billing(), self.share_quota) {
            // Somebody who says nothing is given the least.
            (Billing::Provisioned(model), gib) => {
                Ok((Some(Provision { gib: gib.unwrap_or(*model.gib().start()), iops, mibps }), None))
            }
            (Billing::Local | Billing::PayAsYouGo, Some(gib)) if iops.or(mibps).is_some() => {
                Ok((Some(Provision { gib, iops, mibps }), None))
            }
            (Billing::Local | Billing::PayAsYouGo, None) if iops.or(mibps).is_some() => {
                Err(Failure::bad("InvalidRequestPropertyValue", "What is provisioned needs a shareQuota, too."))
            }
            (Billing::Local | Billing::PayAsYouGo, gib) => Ok((None, gib.and_then(NonZeroU32::new))),
        }
    }

    fn changes(&self, share: &ShareRecord) -> ShareChanges {
        let wanted = self.provision_changes(share.provisioned.as_ref());
        let ProvisionChanges { gib, iops, mibps } = wanted;
        if share.provisioned.is_some() || iops.or(mibps).is_some() {
            let change = ProvisionUpdate::Change(wanted);
            return ShareChanges { provision: gib.or(iops).or(mibps).map(|_| change), ..ShareChanges::default() };
        }
        ShareChanges { quota_gib: gib.map(NonZeroU32::new), ..ShareChanges::default() }
    }

    /// The values that differ from what the share has. `az` sends back all that it was told of a share, with what it changes: by provisioned v1, IOPS and
    /// throughput that the share has, or will have by the new size, ask for nothing.
    fn provision_changes(&self, provisioned: Option<&Provisioned>) -> ProvisionChanges {
        let gib = self.share_quota;
        let v1 = provisioned.filter(|provisioned| provisioned.model == ProvisionModel::V1);
        let unless = |wanted: Option<u32>, now: fn(&Provisioned) -> u32, by_size: fn(u32) -> u32| {
            let is_had =
                |value| v1.is_some_and(|share| value == now(share) || gib.is_some_and(|gib| value == by_size(gib)));
            wanted.filter(|value| !is_had(*value))
        };
        ProvisionChanges {
            gib,
            iops: unless(self.provisioned_iops, |share| share.iops, provisioning::v1_iops),
            mibps: unless(self.provisioned_bandwidth_mibps, |share| share.mibps, provisioning::v1_mibps),
        }
    }

    /// The tier that is named. Shares of file storage have one, and others have three to choose from.
    fn tier(&self, account: &Account) -> Result<Option<AccessTier>, Failure> {
        let Some(tier) = &self.access_tier else { return Ok(None) };
        match (tier.to_ascii_lowercase().as_str(), account.kind) {
            ("premium", AccountKind::FileStorage) => Ok(None),
            ("transactionoptimized", AccountKind::StorageV2) => Ok(Some(AccessTier::TransactionOptimized)),
            ("hot", AccountKind::StorageV2) => Ok(Some(AccessTier::Hot)),
            ("cool", AccountKind::StorageV2) => Ok(Some(AccessTier::Cool)),
            (_, kind) => {
                let message = format!("No share of an account of kind {} has the tier {tier}.", kind.as_str());
                Err(Failure::bad("InvalidRequestPropertyValue", message))
            }
        }
    }
}

impl Management {
    /// A share with its account, whatever the case of its name.
    pub(super) fn share(&self, of: &OfShare) -> Result<(Account, ShareRecord), Failure> {
        let account = self.account(&of.account)?;
        let share = self.catalog.share_of(&account.name, &of.share).ok_or_else(|| {
            Failure::missing("ShareNotFound", format!("The specified share '{}' does not exist.", of.share))
        })?;
        Ok((account, share))
    }
}

fn told(management: &Management, account: &Account, share: &ShareRecord) -> Value {
    told_as(management, account, share, &management.catalog.azure_share(share))
}

/// A share of which this is kept.
pub(super) fn told_as(management: &Management, account: &Account, share: &ShareRecord, kept: &AzureShare) -> Value {
    let mut properties = serde_json::to_value(ShareProperties::from(share)).expect("properties are JSON");
    if let Some(properties) = properties.as_object_mut() {
        // A running server tells of these by its metrics.
        properties.remove("availableBurstCredits");
        properties.retain(|_, value| !value.is_null());
    }
    let lease = LeaseTold::of(kept);
    properties["shareQuota"] = quota_gib(share).into();
    properties["accessTier"] = tier_name(kept, account.kind).into();
    properties["leaseStatus"] = capitalized(lease.status).into();
    properties["leaseState"] = capitalized(lease.state).into();
    properties["lastModifiedTime"] = kept.modified().to_string().into();
    if !kept.metadata.is_empty() {
        properties["metadata"] = json!(kept.metadata);
    }
    json!({
        "id": management.id(&format!("storageAccounts/{}/fileServices/default/shares/{}", share.account, share.name)),
        "name": share.name,
        "type": TYPE,
        "etag": share_etag(kept),
        "properties": properties,
    })
}

/// A word as this interface has it: with a capital letter.
fn capitalized(word: &str) -> String {
    word.char_indices().map(|(at, letter)| if at == 0 { letter.to_ascii_uppercase() } else { letter }).collect()
}

fn told_deleted(management: &Management, account: &Account, deleted: &DeletedShare) -> Value {
    let mut told = told(management, account, &deleted.share);
    let properties = &mut told["properties"];
    properties["deleted"] = true.into();
    properties["deletedTime"] = deleted.deleted.to_string().into();
    properties["remainingRetentionDays"] = deleted.days_left(Timestamp::now()).into();
    properties["version"] = deleted.version().into();
    told
}

/// Reads a body as each that this has, for who tests what reads it.
pub(super) fn read(body: &[u8]) {
    let _ = serde_json::from_slice::<Wanted>(body).map(|wanted| wanted.properties.refuse_other());
    let _ = serde_json::from_slice::<WantedAgain>(body);
    let _ = serde_json::from_slice::<WantedLease>(body).map(WantedLease::action);
}

#[cfg(test)]
mod tests {
    use control::Increases;

    use super::*;

    fn wanted(json: &str) -> WantedProperties {
        serde_json::from_str(json).unwrap()
    }

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
        let right =
            r#"{"shareQuota":100,"enabledProtocols":"smb","fileSharePaidBursting":{"paidBurstingEnabled":false}}"#;
        assert!(wanted(right).refuse_other().is_ok());
        for wrong in [
            r#"{"enabledProtocols":"NFS"}"#,
            r#"{"rootSquash":"NoRootSquash"}"#,
            r#"{"shareQuota":0}"#,
            r#"{"fileSharePaidBursting":{"paidBurstingEnabled":true}}"#,
        ] {
            assert!(wanted(wrong).refuse_other().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_a_v1_share_was_told_to_have_asks_for_nothing() {
        let v1 = Provisioned::v1(1024, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!((v1.iops, v1.mibps), (4024, 203));
        let changes = |json: &str, share: &Provisioned| {
            let ProvisionChanges { gib, iops, mibps } = wanted(json).provision_changes(Some(share));
            [gib, iops, mibps]
        };
        let told = r#"{"shareQuota":1024,"provisionedIops":4024,"provisionedBandwidthMibps":203}"#;
        assert_eq!(changes(told, &v1), [Some(1024), None, None]);
        let grown = told.replace(r#""shareQuota":1024"#, r#""shareQuota":2048"#);
        assert_eq!(changes(&grown, &v1), [Some(2048), None, None]);
        let by_size = r#"{"shareQuota":2048,"provisionedIops":5048,"provisionedBandwidthMibps":305}"#;
        assert_eq!(changes(by_size, &v1), [Some(2048), None, None]);
        let other = r#"{"shareQuota":1024,"provisionedIops":5048,"provisionedBandwidthMibps":203}"#;
        assert_eq!(changes(other, &v1), [Some(1024), Some(5048), None]);
        // By v2 they are values of their own.
        let now = Timestamp::UNIX_EPOCH;
        let v2 = Provisioned::v2(1024, 4024, 203, Increases { gib: now, iops: now, mibps: now }).unwrap();
        assert_eq!(changes(told, &v2), [Some(1024), Some(4024), Some(203)]);
    }

    #[test]
    fn leases_are_asked_for_by_the_services_words() {
        let action = |json: &str| serde_json::from_str::<WantedLease>(json).unwrap().action();
        const ID: &str = "f0e1d2c3-b4a5-9687-7869-5a4b3c2d1e0f";
        let action = |json: &str| action(&json.replace("ID", ID));
        let id = || ID.to_owned();
        let acquired = LeaseAction::Acquire { id: id(), seconds: Some(15) };
        assert_eq!(action(r#"{"action":"Acquire","proposedLeaseId":"ID","leaseDuration":15}"#), Ok(acquired));
        let forever = LeaseAction::Acquire { id: id(), seconds: None };
        assert_eq!(action(r#"{"action":"acquire","proposedLeaseId":"ID","leaseDuration":-1}"#), Ok(forever));
        assert_eq!(action(r#"{"action":"Break","breakPeriod":7}"#), Ok(LeaseAction::Break { period: Some(7) }));
        assert_eq!(action(r#"{"action":"Release","leaseId":"ID"}"#), Ok(LeaseAction::Release { id: id() }));
        for wrong in [
            r#"{"action":"Acquire","leaseDuration":14}"#,
            r#"{"action":"Acquire","leaseDuration":61}"#,
            r#"{"action":"Renew"}"#,
            r#"{"action":"Change","leaseId":"ID"}"#,
            r#"{"action":"Keep"}"#,
            r#"{"action":"Break","breakPeriod":61}"#,
            r#"{"action":"Renew","leaseId":"a"}"#,
        ] {
            assert!(action(wrong).is_err(), "{wrong}");
        }
    }
}
