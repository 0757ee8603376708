//! The service of an account: its shares.

use std::collections::BTreeMap;

use control::{AccountKind, AzureShare, ShareProperties, ShareRecord};
use jiff::Timestamp;
use serde::Serialize;

use super::asked::check_hosts;
use super::share_properties::{LeaseTold, etag, of_snapshot, quota_gib, tier_name};
use super::{Ask, Service};
use crate::answer::{Answer, http_date, xml};
use crate::failure::{Code, Failure};

/// Shares of one answer, at most.
const SHARES_MAX: usize = 5000;

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Listing<'a> {
    #[serde(rename = "@ServiceEndpoint")]
    endpoint: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    marker: Option<&'a str>,
    max_results: usize,
    shares: Shares,
    next_marker: String,
}

#[derive(Serialize)]
struct Shares {
    #[serde(rename = "Share")]
    each: Vec<Share>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Share {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    properties: Properties,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<BTreeMap<String, String>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Properties {
    #[serde(rename = "Last-Modified")]
    modified: String,
    etag: String,
    quota: u64,
    access_tier: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    access_tier_change_time: Option<String>,
    enabled_protocols: &'static str,
    lease_status: &'static str,
    lease_state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_duration: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_retention_days: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provisioned_iops: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none", rename = "ProvisionedIngressMBps")]
    ingress_mibps: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none", rename = "ProvisionedEgressMBps")]
    egress_mibps: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none", rename = "ProvisionedBandwidthMiBps")]
    provisioned_mibps: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    included_burst_iops: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_burst_credits_for_iops: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_allowed_quota_downgrade_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_allowed_provisioned_iops_downgrade_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_allowed_provisioned_bandwidth_downgrade_time: Option<String>,
    paid_bursting_enabled: bool,
    enable_smb_directory_lease: bool,
}

/// What a listing has beside names and properties.
#[derive(Default)]
struct Include {
    metadata: bool,
    deleted: bool,
    snapshots: bool,
}

impl Include {
    fn of(ask: &Ask) -> Result<Self, Failure> {
        let mut include = Include::default();
        let words = ask.query.get("include").unwrap_or_default().split(',').map(str::trim);
        for word in words.filter(|word| !word.is_empty()) {
            match word.to_ascii_lowercase().as_str() {
                "metadata" => include.metadata = true,
                "deleted" => include.deleted = true,
                "snapshots" => include.snapshots = true,
                _ => {
                    let message = format!("include has {word:?}; allowed: metadata, deleted, snapshots.");
                    return Err(Failure::new(Code::InvalidQueryParameterValue, message));
                }
            }
        }
        Ok(include)
    }
}

/// List Shares.
pub(super) async fn list_shares(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let (prefix, marker) = (ask.query.get("prefix"), ask.query.get("marker").filter(|marker| !marker.is_empty()));
    let (most, include) = (ask.results_max(SHARES_MAX)?, Include::of(ask)?);
    let (account, kind) = (ask.by.account(), service.kind(ask.by.account()));
    let is_meant = |name: &str| name.starts_with(prefix.unwrap_or_default());
    let mut shares: Vec<(String, Share)> = Vec::new();
    let mut meant = service.catalog.shares();
    let is_for_asker = |share: &ShareRecord| check_hosts(share, ask.peer.ip()).is_ok();
    meant.retain(|share| share.account == account && is_meant(&share.name) && is_for_asker(share));
    if include.snapshots {
        let of = meant.clone();
        let snapshots = service.in_catalog(move |operations| operations.snapshots_of_all(&of)).await?;
        for (share, snapshot) in snapshots {
            let mut told = told(&of_snapshot(share.clone(), &snapshot), &snapshot.kept, kind, &include);
            told.snapshot = Some(snapshot.at.to_string());
            shares.push((format!("{}?{}", share.name, snapshot.at), told));
        }
    }
    for share in meant {
        let told = told(&share, &service.catalog.azure_share(&share), kind, &include);
        shares.push((share.name, told));
    }
    let deleted = if include.deleted { service.catalog.deleted_shares(account) } else { Vec::new() };
    for deleted in deleted.into_iter().filter(|deleted| is_meant(&deleted.share.name) && is_for_asker(&deleted.share)) {
        let mut told = told(&deleted.share, &service.catalog.azure_share(&deleted.share), kind, &include);
        told.deleted = Some(true);
        told.version = Some(deleted.version());
        told.properties.deleted_time = Some(http_date(deleted.deleted));
        told.properties.remaining_retention_days = Some(deleted.days_left(Timestamp::now()));
        // Several may have had the same name.
        shares.push((format!("{}!{}", deleted.share.name, deleted.version()), told));
    }
    shares.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut rest = shares.into_iter().filter(|(place, _)| marker.is_none_or(|marker| place.as_str() >= marker));
    let each = rest.by_ref().take(most).map(|(_, share)| share).collect();
    let next_marker = rest.next().map(|(place, _)| place).unwrap_or_default();
    xml(
        "EnumerationResults",
        &Listing {
            endpoint: format!("{}/", ask.endpoint),
            prefix,
            marker,
            max_results: most,
            shares: Shares { each },
            next_marker,
        },
    )
}

fn told(share: &ShareRecord, kept: &AzureShare, kind: AccountKind, include: &Include) -> Share {
    let (lease, known) = (LeaseTold::of(kept), ShareProperties::from(share));
    let properties = Properties {
        modified: http_date(kept.modified()),
        etag: etag(kept),
        quota: quota_gib(share),
        access_tier: tier_name(kept, kind),
        access_tier_change_time: kept.tier().map(|(_, since)| http_date(since)),
        enabled_protocols: "SMB",
        lease_status: lease.status,
        lease_state: lease.state,
        lease_duration: lease.duration,
        deleted_time: None,
        remaining_retention_days: None,
        provisioned_iops: known.provisioned_iops,
        ingress_mibps: known.provisioned_ingress_mibps,
        egress_mibps: known.provisioned_egress_mibps,
        provisioned_mibps: known.provisioned_bandwidth_mibps,
        included_burst_iops: known.included_burst_iops,
        max_burst_credits_for_iops: known.max_burst_credits_for_iops,
        next_allowed_quota_downgrade_time: known.next_allowed_quota_downgrade_time.map(http_date),
        next_allowed_provisioned_iops_downgrade_time: known.next_allowed_provisioned_iops_downgrade_time.map(http_date),
        next_allowed_provisioned_bandwidth_downgrade_time: known
            .next_allowed_provisioned_bandwidth_downgrade_time
            .map(http_date),
        paid_bursting_enabled: false,
        enable_smb_directory_lease: true,
    };
    let metadata = include.metadata.then(|| kept.metadata.clone());
    Share { name: share.name.clone(), snapshot: None, deleted: None, version: None, properties, metadata }
}
