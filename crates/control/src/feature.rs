//! Features that are registered for the whole data folder, as Azure registers them for a subscription, and which accounts have them.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;

use crate::{Account, AccountKind, Error, Region};

/// Something that accounts with a SKU have only where it is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Metadata caching.
    MetadataCache,
    /// More handles of one file or directory at once.
    HigherHandlesCount,
}

/// Whether a feature is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureState {
    /// It is not.
    NotRegistered,
    /// It will be.
    Registering {
        /// From when on.
        until: Timestamp,
    },
    /// It is.
    Registered,
}

/// The regions that metadata caching is available in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Regions {
    /// All there are.
    Any,
    /// These.
    Only(Vec<Region>),
}

/// What is registered, and where metadata caching is available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features {
    /// From when on each feature is registered, in the order of [`Feature::ALL`].
    pub(crate) registered_from: [Option<Timestamp>; 2],
    /// Where metadata caching is available.
    pub(crate) regions: Regions,
}

/// Why an account does not have a feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyNot {
    /// No account of its kind has it.
    Kind(AccountKind),
    /// It is not registered.
    NotRegistered,
    /// It will be registered.
    Registering {
        /// From when on.
        until: Timestamp,
    },
    /// It is not available in the account's region.
    Region(Region),
}

impl Feature {
    /// All there are.
    pub const ALL: [Feature; 2] = [Feature::MetadataCache, Feature::HigherHandlesCount];

    /// The feature's name, as Azure spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Feature::MetadataCache => "AzurePremiumFilesMetadataCacheFeature",
            Feature::HigherHandlesCount => "HigherHandlesCountOnSmb",
        }
    }

    /// What it gives, in a few words.
    pub fn gives(self) -> &'static str {
        match self {
            Feature::MetadataCache => "metadata caching",
            Feature::HigherHandlesCount => "more handles of one file or directory",
        }
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Feature {
    type Err = Error;

    /// Reads a feature's name, whatever its case.
    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Feature::ALL.into_iter().find(|feature| feature.as_str().eq_ignore_ascii_case(text));
        found.ok_or_else(|| {
            let [one, other] = Feature::ALL.map(Feature::as_str);
            Error::argument(format!("there is no feature {text:?}"), format!("use {one} or {other}"))
        })
    }
}

impl FeatureState {
    /// The state's name, as Azure spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            FeatureState::NotRegistered => "NotRegistered",
            FeatureState::Registering { .. } => "Registering",
            FeatureState::Registered => "Registered",
        }
    }
}

impl Regions {
    /// The regions of metadata caching's first preview.
    const FIRST: [&str; 8] = [
        "australiaeast",
        "brazilsoutheast",
        "francesouth",
        "germanywestcentral",
        "saudinorth",
        "switzerlandnorth",
        "uaecentral",
        "westcentralus",
    ];

    fn have(&self, region: &Region) -> bool {
        match self {
            Regions::Any => true,
            Regions::Only(regions) => regions.contains(region),
        }
    }
}

impl Default for Regions {
    fn default() -> Self {
        Regions::Only(Regions::FIRST.into_iter().filter_map(|name| name.parse().ok()).collect())
    }
}

impl Features {
    /// The state of `feature` at `now`.
    pub fn state(&self, feature: Feature, now: Timestamp) -> FeatureState {
        match self.registered_from(feature) {
            None => FeatureState::NotRegistered,
            Some(until) if until > now => FeatureState::Registering { until },
            Some(_) => FeatureState::Registered,
        }
    }

    /// Where metadata caching is available.
    pub fn regions(&self) -> &Regions {
        &self.regions
    }

    /// Whether `account` has `feature` at `now`, and why it has not. A local account of kind FileStorage has every feature.
    pub fn has_feature(&self, account: &Account, feature: Feature, now: Timestamp) -> Result<(), WhyNot> {
        if account.kind != AccountKind::FileStorage {
            return Err(WhyNot::Kind(account.kind));
        }
        if account.sku.is_none() {
            return Ok(());
        }
        match self.state(feature, now) {
            FeatureState::NotRegistered => return Err(WhyNot::NotRegistered),
            FeatureState::Registering { until } => return Err(WhyNot::Registering { until }),
            FeatureState::Registered => {}
        }
        match (&account.location, feature) {
            (Some(region), Feature::MetadataCache) if !self.regions.have(region) => Err(WhyNot::Region(region.clone())),
            (Some(_) | None, Feature::MetadataCache | Feature::HigherHandlesCount) => Ok(()),
        }
    }

    /// When the state of some feature changes next by itself after `now`.
    pub(crate) fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        self.registered_from.into_iter().flatten().filter(|from| *from > now).min()
    }

    /// From when on `feature` is registered, if it is.
    pub fn registered_from(&self, feature: Feature) -> Option<Timestamp> {
        let [metadata_cache, higher_handles_count] = self.registered_from;
        match feature {
            Feature::MetadataCache => metadata_cache,
            Feature::HigherHandlesCount => higher_handles_count,
        }
    }
}

impl WhyNot {
    /// The refusal of what `feature` gives to the account called `account`.
    pub fn refusal(&self, account: &str, feature: Feature) -> Error {
        let gives = feature.gives();
        match self {
            WhyNot::Kind(kind) => Error::conflict(
                format!("account {account:?} is of kind {}", kind.as_str()),
                format!(
                    "only accounts of kind FileStorage have {gives}; make one with `multilane account create NAME`"
                ),
            ),
            WhyNot::NotRegistered => Error::conflict(
                format!("account {account:?} has a SKU, and {feature}, which gives it {gives}, is not registered"),
                format!("register it with `multilane features register {feature}`"),
            ),
            WhyNot::Registering { until } => Error::conflict(
                format!("{feature}, which gives account {account:?} {gives}, is registered from {until} on"),
                "try again then",
            ),
            WhyNot::Region(region) => Error::conflict(
                format!("there is no {gives} in {region}, the location of account {account:?}"),
                "`multilane features regions` shows where there is; change that with `--set A,B,C` or `--any`",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use server::admin::Multichannel;

    use super::*;
    use crate::{Fault, MetadataCaching, Sku};

    fn account(kind: AccountKind, sku: Option<Sku>, location: Option<&str>) -> Account {
        Account {
            name: "abc".to_owned(),
            kind,
            sku,
            location: location.map(|name| name.parse().unwrap()),
            multichannel: Multichannel::Off,
            metadata_caching: MetadataCaching::Off,
            relative_id: 1000,
            shares: 0,
            users: 0,
            retention_days: None,
        }
    }

    fn premium(location: Option<&str>) -> Account {
        account(AccountKind::FileStorage, Some(Sku::PremiumLrs), location)
    }

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn registered(cache: Option<i64>, handles: Option<i64>) -> Features {
        Features { registered_from: [cache.map(second), handles.map(second)], regions: Regions::default() }
    }

    #[test]
    fn features_are_found_whatever_their_case_and_others_refused_with_both_names() {
        for feature in Feature::ALL {
            assert_eq!(feature.as_str().to_lowercase().parse::<Feature>().unwrap(), feature);
        }
        let error = "MetadataCache".parse::<Feature>().unwrap_err();
        assert_eq!(error.fault(), Fault::Argument);
        assert!(Feature::ALL.iter().all(|feature| error.remedy().contains(feature.as_str())), "{error}");
    }

    #[test]
    fn registering_takes_until_its_time_has_come() {
        let features = registered(Some(100), None);
        let state = |now| features.state(Feature::MetadataCache, second(now));
        assert_eq!(state(99), FeatureState::Registering { until: second(100) });
        assert_eq!((state(100), state(1000)), (FeatureState::Registered, FeatureState::Registered));
        assert_eq!(features.state(Feature::HigherHandlesCount, second(100)), FeatureState::NotRegistered);
        assert_eq!(features.next_change(second(99)), Some(second(100)));
        assert_eq!(features.next_change(second(100)), None);
        let names = [state(99), state(100), FeatureState::NotRegistered].map(FeatureState::as_str);
        assert_eq!(names, ["Registering", "Registered", "NotRegistered"]);
    }

    #[test]
    fn local_accounts_have_every_feature_and_standard_ones_none() {
        let features = registered(Some(0), Some(0));
        for feature in Feature::ALL {
            let local = account(AccountKind::FileStorage, None, Some("nowhere"));
            assert_eq!(registered(None, None).has_feature(&local, feature, second(1)), Ok(()));
            for sku in [None, Some(Sku::StandardLrs)] {
                let standard = account(AccountKind::StorageV2, sku, None);
                let why = features.has_feature(&standard, feature, second(1)).unwrap_err();
                assert_eq!(why, WhyNot::Kind(AccountKind::StorageV2));
                assert!(why.refusal("abc", feature).remedy().contains("FileStorage"));
            }
        }
    }

    #[test]
    fn accounts_with_a_sku_have_what_is_registered() {
        let features = registered(Some(100), Some(50));
        let has = |feature, now| features.has_feature(&premium(None), feature, second(now));
        assert_eq!(has(Feature::MetadataCache, 99), Err(WhyNot::Registering { until: second(100) }));
        assert_eq!(has(Feature::MetadataCache, 100), Ok(()));
        assert_eq!(has(Feature::HigherHandlesCount, 99), Ok(()));
        let none = registered(None, None).has_feature(&premium(None), Feature::HigherHandlesCount, second(9));
        assert_eq!(none, Err(WhyNot::NotRegistered));
        let refusal = WhyNot::NotRegistered.refusal("abc", Feature::HigherHandlesCount);
        assert!(refusal.fault() == Fault::Conflict && refusal.remedy().contains("register HigherHandlesCountOnSmb"));
    }

    #[test]
    fn metadata_caching_keeps_to_its_regions_and_the_other_feature_does_not() {
        let mut features = registered(Some(0), Some(0));
        let has = |features: &Features, place, feature| features.has_feature(&premium(Some(place)), feature, second(1));
        for name in Regions::FIRST {
            assert_eq!(has(&features, name, Feature::MetadataCache), Ok(()), "{name}");
        }
        let why = has(&features, "West Europe", Feature::MetadataCache).unwrap_err();
        assert_eq!(why, WhyNot::Region("westeurope".parse().unwrap()));
        assert!(why.refusal("abc", Feature::MetadataCache).remedy().contains("features regions"));
        assert_eq!(has(&features, "westeurope", Feature::HigherHandlesCount), Ok(()));
        features.regions = Regions::Any;
        assert_eq!(has(&features, "westeurope", Feature::MetadataCache), Ok(()));
        features.regions = Regions::Only(Vec::new());
        assert!(has(&features, "australiaeast", Feature::MetadataCache).is_err());
    }
}
