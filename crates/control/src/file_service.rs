//! What clients of Azure Files keep of an account and of its shares: "File service properties", metadata, stored access policies, leases.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Error, ShareLease};

/// CORS rules of an account ("Set File Service Properties").
const CORS_RULES_MAX: usize = 5;
/// The longest text of a rule.
const CORS_TEXT_MAX: usize = 256;
/// The most origins, and the most headers, of a rule.
const CORS_NAMES_MAX: usize = 64;
/// Bytes of a share's metadata, names and values together.
const METADATA_BYTES_MAX: usize = 8 << 10;
/// Stored access policies of a share ("Set Share ACL").
const POLICIES_MAX: usize = 5;
/// Characters of a policy's id, and of what else it says.
const POLICY_ID_MAX: usize = 64;
/// The days that deleted shares, or metrics, may be kept.
const DAYS: std::ops::RangeInclusive<u16> = 1..=365;

/// How an account's file service is set up. What it says of metrics is kept, and nothing follows from it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FileService {
    /// Metrics by the hour.
    pub hour_metrics: MetricsPolicy,
    /// Metrics by the minute.
    pub minute_metrics: MetricsPolicy,
    /// From where browsers may use it.
    pub cors: Vec<CorsRule>,
}

/// What is to be measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MetricsPolicy {
    /// Something is.
    pub enabled: bool,
    /// For each operation, too.
    pub include_apis: Option<bool>,
    /// For how many days it is kept; for ever where nothing is said.
    pub retention_days: Option<u16>,
}

/// Web pages of other origins that may use the service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorsRule {
    /// Their origins, or `*`.
    pub allowed_origins: Vec<String>,
    /// The methods that they may use.
    pub allowed_methods: Vec<String>,
    /// The headers that they may send, each perhaps with a `*` at its end.
    pub allowed_headers: Vec<String>,
    /// The headers that they may see.
    pub exposed_headers: Vec<String>,
    /// For how long a browser may believe this.
    pub max_age_seconds: u32,
}

/// What clients of Azure Files keep of a share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AzureShare {
    /// When the share was changed last, in milliseconds since 1970.
    pub(crate) modified: i64,
    /// Names with values.
    pub metadata: BTreeMap<String, String>,
    /// What signatures may name instead of saying it themselves.
    pub policies: Vec<StoredPolicy>,
    /// Who keeps others from deleting it.
    pub lease: Option<ShareLease>,
    /// The tier of a share that is not provisioned, where one was named, and since when in milliseconds since 1970.
    pub(crate) tier: Option<(AccessTier, i64)>,
}

/// A tier of Azure's for shares that are not provisioned. Nothing follows from it here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessTier {
    /// What a share has where nothing is said.
    TransactionOptimized,
    /// `Hot`.
    Hot,
    /// `Cool`.
    Cool,
}

/// A stored access policy. What it does not say, the signature that names it has to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredPolicy {
    /// What signatures name it by.
    pub id: String,
    /// From when on, as the client wrote it.
    pub start: Option<String>,
    /// Until when.
    pub expiry: Option<String>,
    /// For what, by the letters of a signature.
    pub permission: Option<String>,
}

impl FileService {
    /// Fails where it says more than there can be.
    pub fn check(&self) -> Result<(), Error> {
        if self.cors.len() > CORS_RULES_MAX {
            return Err(Error::argument(
                format!("there are {} CORS rules", self.cors.len()),
                format!("have {CORS_RULES_MAX} at most"),
            ));
        }
        for metrics in [&self.hour_metrics, &self.minute_metrics] {
            metrics.retention_days.map_or(Ok(()), check_days)?;
        }
        self.cors.iter().try_for_each(CorsRule::check)
    }
}

impl CorsRule {
    fn check(&self) -> Result<(), Error> {
        const METHODS: [&str; 9] = ["DELETE", "GET", "HEAD", "MERGE", "POST", "OPTIONS", "PUT", "PATCH", "TRACE"];
        let lists = [&self.allowed_origins, &self.allowed_headers, &self.exposed_headers];
        let is_long = |text: &String| text.len() > CORS_TEXT_MAX || text.contains(|c: char| c.is_control());
        if lists.iter().any(|list| list.len() > CORS_NAMES_MAX || list.iter().any(is_long)) {
            return Err(Error::argument(
                "a CORS rule has too many origins or headers, or one that is too long",
                format!("use {CORS_NAMES_MAX} at most, of {CORS_TEXT_MAX} characters at most"),
            ));
        }
        if self.allowed_origins.is_empty() || self.allowed_methods.is_empty() {
            return Err(Error::argument("a CORS rule has no origin or no method", "name one of each"));
        }
        match self.allowed_methods.iter().find(|method| !METHODS.contains(&method.as_str())) {
            Some(method) => {
                Err(Error::argument(format!("{method:?} is no method"), format!("use {}", METHODS.join(", "))))
            }
            None if self.allowed_methods.len() > METHODS.len() => {
                Err(Error::argument("a CORS rule names a method twice", "name each once"))
            }
            None => Ok(()),
        }
    }
}

impl AzureShare {
    /// When the share was changed last.
    pub fn modified(&self) -> Timestamp {
        Timestamp::from_millisecond(self.modified).unwrap_or_default()
    }

    /// It was changed at `now`.
    pub fn touch(&mut self, now: Timestamp) {
        self.modified = now.as_millisecond();
    }

    /// The tier that was named, and since when.
    pub fn tier(&self) -> Option<(AccessTier, Timestamp)> {
        self.tier.map(|(tier, since)| (tier, Timestamp::from_millisecond(since).unwrap_or_default()))
    }

    /// Has this tier from `now` on.
    pub fn set_tier(&mut self, tier: AccessTier, now: Timestamp) {
        if self.tier.is_none_or(|(before, _)| before != tier) {
            self.tier = Some((tier, now.as_millisecond()));
        }
    }

    /// The policy of this id.
    pub fn policy(&self, id: &str) -> Option<&StoredPolicy> {
        self.policies.iter().find(|policy| policy.id == id)
    }

    /// Fails where it says more than there can be.
    pub fn check(&self) -> Result<(), Error> {
        let bytes: usize = self.metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > METADATA_BYTES_MAX {
            return Err(Error::argument(
                format!("the metadata has {bytes} bytes"),
                format!("use {METADATA_BYTES_MAX} at most"),
            ));
        }
        if self.policies.len() > POLICIES_MAX {
            return Err(Error::argument(
                format!("there are {} stored access policies", self.policies.len()),
                format!("have {POLICIES_MAX} at most"),
            ));
        }
        let ids: std::collections::BTreeSet<&str> = self.policies.iter().map(|policy| policy.id.as_str()).collect();
        let is_long = |text: &str| text.chars().count() > POLICY_ID_MAX || text.contains(char::is_control);
        let texts = |policy: &StoredPolicy| {
            let others = [&policy.start, &policy.expiry, &policy.permission];
            others.into_iter().flatten().any(|text| is_long(text)) || is_long(&policy.id) || policy.id.is_empty()
        };
        if ids.len() < self.policies.len() || self.policies.iter().any(texts) {
            return Err(Error::argument(
                "a stored access policy has the id of another one, or an id, a time or permissions that are too long",
                format!("use ids of 1 to {POLICY_ID_MAX} characters, each once"),
            ));
        }
        Ok(())
    }
}

/// Fails for days that nothing can be kept.
pub(crate) fn check_days(days: u16) -> Result<(), Error> {
    if DAYS.contains(&days) {
        return Ok(());
    }
    let remedy = format!("use {} to {}", DAYS.start(), DAYS.end());
    Err(Error::argument(format!("nothing can be kept for {days} days"), remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule() -> CorsRule {
        CorsRule {
            allowed_origins: vec!["https://example.com".into()],
            allowed_methods: vec!["GET".into()],
            allowed_headers: vec![],
            exposed_headers: vec!["x-ms-*".into()],
            max_age_seconds: 60,
        }
    }

    fn policy(id: &str) -> StoredPolicy {
        StoredPolicy { id: id.to_owned(), start: None, expiry: None, permission: Some("r".to_owned()) }
    }

    #[test]
    fn an_account_has_five_rules_at_most_and_none_without_an_origin() {
        let of = |cors: Vec<CorsRule>| FileService { cors, ..FileService::default() };
        assert!(of(vec![rule(); 5]).check().is_ok());
        assert!(of(vec![rule(); 6]).check().is_err());
        for wrong in [
            CorsRule { allowed_origins: vec![], ..rule() },
            CorsRule { allowed_methods: vec![], ..rule() },
            CorsRule { allowed_methods: vec!["BREW".into()], ..rule() },
            CorsRule { allowed_methods: vec!["GET".into(); 10], ..rule() },
            CorsRule { allowed_headers: vec!["x".repeat(257)], ..rule() },
            CorsRule { exposed_headers: vec!["x".into(); 65], ..rule() },
        ] {
            assert!(of(vec![wrong.clone()]).check().is_err(), "{wrong:?}");
        }
        let kept_for = |days| MetricsPolicy { retention_days: Some(days), ..MetricsPolicy::default() };
        for (days, is_right) in [(0, false), (1, true), (365, true), (366, false)] {
            let service = FileService { hour_metrics: kept_for(days), ..FileService::default() };
            assert_eq!(service.check().is_ok(), is_right, "{days}");
        }
    }

    #[test]
    fn a_share_has_five_policies_of_different_ids_and_metadata_of_8_kib() {
        let of = |policies: Vec<StoredPolicy>| AzureShare { policies, ..AzureShare::default() };
        assert!(of(["a", "b", "c", "d", "e"].map(policy).to_vec()).check().is_ok());
        assert!(of(["a", "b", "c", "d", "e", "f"].map(policy).to_vec()).check().is_err());
        for wrong in [&["a", "a"][..], &[""], &["x".repeat(65).as_str()], &["a\n"]] {
            assert!(of(wrong.iter().map(|id| policy(id)).collect()).check().is_err(), "{wrong:?}");
        }
        let holds = |bytes: usize| {
            let metadata = [("name".to_owned(), "v".repeat(bytes - 4))].into();
            AzureShare { metadata, ..AzureShare::default() }
        };
        assert!(holds(8192).check().is_ok());
        assert!(holds(8193).check().is_err());
    }
}
