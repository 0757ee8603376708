//! How an account's file service is set up ("Get and Set File Service Properties").

use control::{AccountChanges, By, CorsRule, FileService, MetricsPolicy};
use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use server::admin::Multichannel;

use super::{Ask, Service};
use crate::answer::{Answer, empty, xml};
use crate::failure::{Code, Failure};

/// What clients send and are told. What is left out stays as it is.
#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Properties {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hour_metrics: Option<Metrics>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    minute_metrics: Option<Metrics>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cors: Option<Cors>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    protocol_settings: Option<ProtocolSettings>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Metrics {
    #[serde(default = "version")]
    version: String,
    enabled: bool,
    #[serde(default, rename = "IncludeAPIs", skip_serializing_if = "Option::is_none")]
    include_apis: Option<bool>,
    #[serde(default)]
    retention_policy: Retention,
}

fn version() -> String {
    "1.0".to_owned()
}

#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Retention {
    enabled: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    days: Option<u16>,
}

#[derive(Default, Deserialize, Serialize)]
struct Cors {
    #[serde(rename = "CorsRule", default)]
    each: Vec<Rule>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Rule {
    allowed_origins: String,
    allowed_methods: String,
    #[serde(default)]
    allowed_headers: String,
    #[serde(default)]
    exposed_headers: String,
    max_age_in_seconds: u32,
}

#[derive(Default, Deserialize, Serialize)]
struct ProtocolSettings {
    #[serde(rename = "SMB", alias = "Smb", default, skip_serializing_if = "Option::is_none")]
    smb: Option<Smb>,
    #[serde(rename = "NFS", alias = "Nfs", default, skip_serializing_if = "Option::is_none")]
    nfs: Option<Nfs>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Smb {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    multichannel: Option<Switch>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    encryption_in_transit: Option<Required>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Nfs {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    encryption_in_transit: Option<Required>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Switch {
    enabled: bool,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Required {
    required: bool,
}

/// Get File Service Properties.
pub(super) fn get(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let accounts = service.catalog.accounts();
    let account = accounts.iter().find(|account| account.name == ask.by.account());
    let kept = service.catalog.file_service(ask.by.account());
    let enabled = account.is_some_and(|account| account.multichannel == Multichannel::On);
    let smb = Smb {
        multichannel: Some(Switch { enabled }),
        encryption_in_transit: Some(Required { required: service.catalog.seals_everything() }),
    };
    let properties = Properties {
        hour_metrics: Some(Metrics::of(&kept.hour_metrics)),
        minute_metrics: Some(Metrics::of(&kept.minute_metrics)),
        cors: Some(Cors { each: kept.cors.iter().map(Rule::of).collect() }),
        protocol_settings: Some(ProtocolSettings { smb: Some(smb), nfs: None }),
    };
    xml("StorageServiceProperties", &properties)
}

/// Set File Service Properties.
pub(super) async fn set(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let wanted = parsed(&ask.body)?;
    let (smb, nfs) = wanted.protocol_settings.map(|of| (of.smb, of.nfs)).unwrap_or_default();
    let smb = smb.unwrap_or_default();
    let seals = service.catalog.seals_everything();
    let is_right = |of: &Option<Required>| of.as_ref().is_none_or(|of| of.required == seals);
    if !is_right(&smb.encryption_in_transit)
        || nfs.and_then(|nfs| nfs.encryption_in_transit).is_some_and(|of| of.required)
    {
        let message = format!(
            "EncryptionInTransit is {seals} for SMB here, and there is no NFS: the server seals all sessions, or lets them be unsealed, by its own setting \
             (serve --sealing)."
        );
        return Err(Failure::new(Code::InvalidXmlNodeValue, message));
    }
    let multichannel = smb.multichannel.map(|of| if of.enabled { Multichannel::On } else { Multichannel::Off });
    let account = ask.account()?;
    let before = service.catalog.file_service(account.as_str());
    let to = FileService {
        hour_metrics: wanted.hour_metrics.map_or(Ok(before.hour_metrics), Metrics::policy)?,
        minute_metrics: wanted.minute_metrics.map_or(Ok(before.minute_metrics), Metrics::policy)?,
        cors: wanted.cors.map_or(before.cors, |cors| cors.each.into_iter().map(Rule::rule).collect()),
    };
    to.check().map_err(|error| wrong(error.what()))?;
    let changes = AccountChanges { multichannel, ..AccountChanges::default() };
    let by = ask.requester(&service.catalog);
    service
        .in_catalog(move |operations| operations.set_file_service(By::Requester(&by), &account, &to, changes))
        .await?;
    Ok(empty(StatusCode::ACCEPTED))
}

fn wrong(why: &str) -> Failure {
    Failure::new(Code::InvalidXmlDocument, format!("The body is not StorageServiceProperties: {why}."))
}

fn parsed(body: &[u8]) -> Result<Properties, Failure> {
    let text = std::str::from_utf8(body).map_err(|_| wrong("it is no UTF-8"))?;
    quick_xml::de::from_str(text.trim_start_matches('\u{feff}')).map_err(|_| wrong("it is no such XML"))
}

/// How many CORS rules a body sets, for who tests that there are never more than there can be.
pub(crate) fn rules(body: &[u8]) -> Option<usize> {
    let cors = parsed(body).ok()?.cors.unwrap_or_default().each.into_iter().map(Rule::rule).collect();
    let service = FileService { cors, ..FileService::default() };
    service.check().ok().map(|()| service.cors.len())
}

impl Metrics {
    fn of(policy: &MetricsPolicy) -> Self {
        let days = policy.retention_days;
        Metrics {
            version: version(),
            enabled: policy.enabled,
            include_apis: policy.include_apis.filter(|_| policy.enabled),
            retention_policy: Retention { enabled: days.is_some(), days },
        }
    }

    fn policy(self) -> Result<MetricsPolicy, Failure> {
        let Retention { enabled, days } = self.retention_policy;
        if enabled && days.is_none() {
            return Err(wrong("a RetentionPolicy that is enabled has no Days"));
        }
        Ok(MetricsPolicy {
            enabled: self.enabled,
            include_apis: self.include_apis,
            retention_days: days.filter(|_| enabled),
        })
    }
}

impl Rule {
    fn of(rule: &CorsRule) -> Self {
        Rule {
            allowed_origins: rule.allowed_origins.join(","),
            allowed_methods: rule.allowed_methods.join(","),
            allowed_headers: rule.allowed_headers.join(","),
            exposed_headers: rule.exposed_headers.join(","),
            max_age_in_seconds: rule.max_age_seconds,
        }
    }

    fn rule(self) -> CorsRule {
        let list = |text: &str| -> Vec<String> {
            text.split(',').map(str::trim).filter(|one| !one.is_empty()).map(str::to_owned).collect()
        };
        CorsRule {
            allowed_origins: list(&self.allowed_origins),
            allowed_methods: list(&self.allowed_methods.to_ascii_uppercase()),
            allowed_headers: list(&self.allowed_headers),
            exposed_headers: list(&self.exposed_headers),
            max_age_seconds: self.max_age_in_seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_send_is_read_and_what_they_leave_out_is_left() {
        let text = "<?xml version='1.0' encoding='utf-8'?>\n<StorageServiceProperties><HourMetrics><Version>1.0</Version>\
                    <Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs><RetentionPolicy><Enabled>true</Enabled><Days>5</Days>\
                    </RetentionPolicy></HourMetrics><Cors><CorsRule><AllowedOrigins>a, b</AllowedOrigins><AllowedMethods>GET,put</AllowedMethods>\
                    <AllowedHeaders /><ExposedHeaders></ExposedHeaders><MaxAgeInSeconds>10</MaxAgeInSeconds></CorsRule></Cors>\
                    </StorageServiceProperties>";
        let read = parsed(text.as_bytes()).unwrap();
        let hour = read.hour_metrics.unwrap().policy().unwrap();
        assert_eq!(hour, MetricsPolicy { enabled: true, include_apis: Some(true), retention_days: Some(5) });
        assert!(read.minute_metrics.is_none() && read.protocol_settings.is_none());
        let rule = read.cors.unwrap().each.remove(0).rule();
        assert_eq!(
            (rule.allowed_origins, rule.allowed_methods),
            (vec!["a".into(), "b".into()], vec!["GET".into(), "PUT".into()])
        );
        assert!(rule.allowed_headers.is_empty() && rule.exposed_headers.is_empty());
        assert!(
            parsed(b"<StorageServiceProperties><Cors /></StorageServiceProperties>")
                .unwrap()
                .cors
                .unwrap()
                .each
                .is_empty()
        );
    }

    #[test]
    fn what_are_no_properties_are_refused() {
        let metrics = |inner: &str| {
            format!("<StorageServiceProperties><HourMetrics>{inner}</HourMetrics></StorageServiceProperties>")
        };
        for wrong in [
            "",
            "{}",
            "<StorageServiceProperties>",
            &metrics("<Enabled>maybe</Enabled>"),
            &metrics("<Version>1.0</Version>"),
        ] {
            assert!(parsed(wrong.as_bytes()).is_err(), "{wrong}");
        }
        let without_days = metrics("<Enabled>true</Enabled><RetentionPolicy><Enabled>true</Enabled></RetentionPolicy>");
        let read = parsed(without_days.as_bytes()).unwrap();
        assert_eq!(read.hour_metrics.unwrap().policy().unwrap_err().code, Code::InvalidXmlDocument);
    }
}
