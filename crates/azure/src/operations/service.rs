//! The service of an account: its shares, and whether its sessions may have several channels.

use control::{AccountName, By, ShareRecord};
use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use server::admin::Multichannel;

use super::{Ask, Service};
use crate::answer::{Answer, empty, xml};
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
    properties: Properties,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Properties {
    etag: String,
    quota: u64,
    enabled_protocols: &'static str,
    lease_status: &'static str,
    lease_state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    provisioned_iops: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", rename = "ProvisionedBandwidthMiBps")]
    provisioned_mibps: Option<u64>,
}

/// List Shares.
pub(super) fn list_shares(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let (prefix, marker) = (ask.query.get("prefix"), ask.query.get("marker").filter(|marker| !marker.is_empty()));
    let most = ask.results_max(SHARES_MAX)?;
    let mut shares: Vec<ShareRecord> = service.catalog.shares();
    shares.retain(|share| share.account == ask.by.account() && share.name.starts_with(prefix.unwrap_or_default()));
    shares.sort_by(|one, other| one.name.cmp(&other.name));
    let mut rest = shares.into_iter().filter(|share| marker.is_none_or(|marker| share.name.as_str() >= marker));
    let each = rest.by_ref().take(most).map(|share| told(&share)).collect();
    let next_marker = rest.next().map(|share| share.name).unwrap_or_default();
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

fn told(share: &ShareRecord) -> Share {
    let properties = Properties {
        etag: super::share::etag(share),
        quota: super::share::quota_gib(share),
        enabled_protocols: "SMB",
        lease_status: "unlocked",
        lease_state: "available",
        provisioned_iops: share.provisioned.map(|of| of.iops.into()),
        provisioned_mibps: share.provisioned.map(|of| of.mibps.into()),
    };
    Share { name: share.name.clone(), properties }
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
struct ServiceProperties {
    #[serde(default)]
    hour_metrics: Metrics,
    #[serde(default)]
    minute_metrics: Metrics,
    #[serde(default)]
    cors: String,
    protocol_settings: Option<ProtocolSettings>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
struct Metrics {
    version: String,
    enabled: bool,
    retention_policy: Retention,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
struct Retention {
    enabled: bool,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics { version: "1.0".into(), enabled: false, retention_policy: Retention::default() }
    }
}

#[derive(Deserialize, Serialize)]
struct ProtocolSettings {
    #[serde(rename = "SMB", alias = "Smb")]
    smb: Option<Smb>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Smb {
    multichannel: Option<Switch>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Switch {
    enabled: bool,
}

/// Get File Service Properties.
pub(super) fn properties(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let accounts = service.catalog.accounts();
    let account = accounts.iter().find(|account| account.name == ask.by.account());
    let enabled = account.is_some_and(|account| account.multichannel == Multichannel::On);
    let smb = Smb { multichannel: Some(Switch { enabled }) };
    let properties = ServiceProperties {
        hour_metrics: Metrics::default(),
        minute_metrics: Metrics::default(),
        cors: String::new(),
        protocol_settings: Some(ProtocolSettings { smb: Some(smb) }),
    };
    xml("StorageServiceProperties", &properties)
}

/// Set File Service Properties, of which there is the switch of multichannel.
pub(super) async fn set_properties(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let wrong = |_| Failure::new(Code::InvalidXmlDocument, "The body is not StorageServiceProperties in XML.");
    let text =
        std::str::from_utf8(&ask.body).map_err(|_| Failure::new(Code::InvalidXmlDocument, "The body is no UTF-8."))?;
    let wanted: ServiceProperties = quick_xml::de::from_str(text).map_err(wrong)?;
    let switch = wanted.protocol_settings.and_then(|of| of.smb).and_then(|smb| smb.multichannel);
    if let Some(Switch { enabled }) = switch {
        let to = if enabled { Multichannel::On } else { Multichannel::Off };
        let account: AccountName = ask.by.account().parse().map_err(refused)?;
        let operations = service.operations.clone();
        // It waits for the catalog's disk.
        let switched = tokio::task::spawn_blocking(move || operations.switch_multichannel(By::Rest, &account, to));
        switched
            .await
            .map_err(|_| Failure::new(Code::InternalError, "The change failed in the server."))?
            .map_err(refused)?;
    }
    Ok(empty(StatusCode::ACCEPTED))
}

/// What the catalog refuses, with its own words.
fn refused(error: control::Error) -> Failure {
    Failure::new(Code::InvalidHeaderValue, format!("{}: {}.", error.what(), error.remedy()))
}
