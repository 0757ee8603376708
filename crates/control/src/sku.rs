//! Kinds and SKUs of storage accounts, and which of them go together.

use std::fmt;
use std::str::FromStr;

use crate::{Error, ProvisionModel, Region};

/// What an account is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccountKind {
    /// Premium file shares.
    #[default]
    FileStorage,
    /// General purpose.
    StorageV2,
}

/// How an account is billed and how often what it holds is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sku {
    /// Provisioned v1, in one place.
    PremiumLrs,
    /// Provisioned v1, in several zones.
    PremiumZrs,
    /// Provisioned v2 on SSD, in one place.
    PremiumV2Lrs,
    /// Provisioned v2 on SSD, in several zones.
    PremiumV2Zrs,
    /// Pay-as-you-go, in one place.
    StandardLrs,
    /// Pay-as-you-go, in two regions.
    StandardGrs,
    /// Pay-as-you-go, in several zones.
    StandardZrs,
    /// Pay-as-you-go, in two regions, both read.
    StandardRagrs,
    /// Pay-as-you-go, in several zones and two regions.
    StandardGzrs,
    /// Pay-as-you-go, in several zones and two regions, both read.
    StandardRagzrs,
}

/// What the shares of an account are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Billing {
    /// Unmetered, or provisioned by either model: an account without a SKU.
    Local,
    /// Provisioned, each of them.
    Provisioned(ProvisionModel),
    /// Unmetered, and never provisioned.
    PayAsYouGo,
}

/// What an account is made as: a kind, a SKU that goes with it, a place. Nothing of it changes later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountPlan {
    kind: AccountKind,
    sku: Option<Sku>,
    location: Option<Region>,
}

impl AccountKind {
    /// The kind's name in the catalog and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            AccountKind::FileStorage => "FileStorage",
            AccountKind::StorageV2 => "StorageV2",
        }
    }
}

impl FromStr for AccountKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let all = [AccountKind::FileStorage, AccountKind::StorageV2];
        all.into_iter()
            .find(|kind| kind.as_str().eq_ignore_ascii_case(text))
            .ok_or_else(|| Error::argument(format!("{text:?} is no kind of account"), "use FileStorage or StorageV2"))
    }
}

impl Sku {
    /// All there are.
    pub const ALL: [Sku; 10] = [
        Sku::PremiumLrs,
        Sku::PremiumZrs,
        Sku::PremiumV2Lrs,
        Sku::PremiumV2Zrs,
        Sku::StandardLrs,
        Sku::StandardGrs,
        Sku::StandardZrs,
        Sku::StandardRagrs,
        Sku::StandardGzrs,
        Sku::StandardRagzrs,
    ];

    /// The SKU's name, as Azure spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Sku::PremiumLrs => "Premium_LRS",
            Sku::PremiumZrs => "Premium_ZRS",
            Sku::PremiumV2Lrs => "PremiumV2_LRS",
            Sku::PremiumV2Zrs => "PremiumV2_ZRS",
            Sku::StandardLrs => "Standard_LRS",
            Sku::StandardGrs => "Standard_GRS",
            Sku::StandardZrs => "Standard_ZRS",
            Sku::StandardRagrs => "Standard_RAGRS",
            Sku::StandardGzrs => "Standard_GZRS",
            Sku::StandardRagzrs => "Standard_RAGZRS",
        }
    }

    /// The kind of the accounts that have it.
    pub fn kind(self) -> AccountKind {
        match self.billing() {
            Billing::Local | Billing::Provisioned(_) => AccountKind::FileStorage,
            Billing::PayAsYouGo => AccountKind::StorageV2,
        }
    }

    /// What the shares of its accounts are.
    pub fn billing(self) -> Billing {
        match self {
            Sku::PremiumLrs | Sku::PremiumZrs => Billing::Provisioned(ProvisionModel::V1),
            Sku::PremiumV2Lrs | Sku::PremiumV2Zrs => Billing::Provisioned(ProvisionModel::V2),
            Sku::StandardLrs
            | Sku::StandardGrs
            | Sku::StandardZrs
            | Sku::StandardRagrs
            | Sku::StandardGzrs
            | Sku::StandardRagzrs => Billing::PayAsYouGo,
        }
    }

    /// The names of all that `kind` has, for a sentence.
    fn names(kind: AccountKind) -> String {
        let of_kind = Sku::ALL.into_iter().filter(|sku| sku.kind() == kind);
        let names: Vec<&str> = of_kind.map(Sku::as_str).collect();
        names.join(", ")
    }
}

impl fmt::Display for Sku {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Sku {
    type Err = Error;

    /// Reads a SKU's name, whatever its case.
    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Sku::ALL.into_iter().find(|sku| sku.as_str().eq_ignore_ascii_case(text));
        found.ok_or_else(|| {
            let is_hdd = text.get(..11).is_some_and(|start| start.eq_ignore_ascii_case("StandardV2_"));
            let what = if is_hdd { "is not served: no share is provisioned on HDD" } else { "is no SKU" };
            Error::argument(format!("{text:?} {what}"), format!("use {}", go_together()))
        })
    }
}

/// Which kinds and SKUs there are, for a sentence.
fn go_together() -> String {
    format!(
        "{} with kind FileStorage, or {} with kind StorageV2",
        Sku::names(AccountKind::FileStorage),
        Sku::names(AccountKind::StorageV2)
    )
}

impl AccountPlan {
    /// A plan of these. Without a kind it is that of the SKU, or FileStorage. Fails where kind and SKU do not go together.
    pub fn new(kind: Option<AccountKind>, sku: Option<Sku>, location: Option<Region>) -> Result<Self, Error> {
        let of_sku = sku.map(Sku::kind);
        let kind = kind.or(of_sku).unwrap_or_default();
        match sku {
            Some(sku) if sku.kind() != kind => Err(Error::argument(
                format!("no account of kind {} has the SKU {sku}", kind.as_str()),
                format!("use {}", go_together()),
            )),
            Some(_) | None => Ok(AccountPlan { kind, sku, location }),
        }
    }

    /// What the account is for.
    pub fn kind(&self) -> AccountKind {
        self.kind
    }

    /// Its SKU; `None` for a local account.
    pub fn sku(&self) -> Option<Sku> {
        self.sku
    }

    /// The region that it is in, if it is in one.
    pub fn location(&self) -> Option<&Region> {
        self.location.as_ref()
    }
}

impl From<AccountKind> for AccountPlan {
    /// A local account.
    fn from(kind: AccountKind) -> Self {
        AccountPlan { kind, sku: None, location: None }
    }
}

/// What the shares of an account of `kind` and `sku` are.
pub(crate) fn billing(kind: AccountKind, sku: Option<Sku>) -> Billing {
    match (sku, kind) {
        (Some(sku), _) => sku.billing(),
        (None, AccountKind::FileStorage) => Billing::Local,
        (None, AccountKind::StorageV2) => Billing::PayAsYouGo,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fault;

    #[test]
    fn skus_are_read_whatever_their_case_and_keep_their_spelling() {
        for sku in Sku::ALL {
            for text in [sku.as_str().to_owned(), sku.as_str().to_lowercase(), sku.as_str().to_uppercase()] {
                assert_eq!(text.parse::<Sku>().unwrap(), sku);
            }
        }
        assert_eq!("premiumv2_lrs".parse::<Sku>().unwrap().to_string(), "PremiumV2_LRS");
    }

    #[test]
    fn what_is_no_sku_is_refused_with_those_there_are() {
        for text in [
            "",
            "Premium",
            "Premium_GRS",
            "PremiumV2_GRS",
            "Standard_LRS ",
            "é_LRS",
            "StandardV2_LRS",
            "standardv2_gzrs",
        ] {
            let error = text.parse::<Sku>().unwrap_err();
            assert!(
                error.fault() == Fault::Argument && error.remedy().contains("Standard_RAGZRS with kind StorageV2"),
                "{error}"
            );
            assert_eq!(error.what().contains("not served"), text.to_lowercase().starts_with("standardv2"), "{error}");
        }
    }

    #[test]
    fn kinds_and_skus_that_do_not_go_together_are_refused() {
        for sku in Sku::ALL {
            let (right, wrong) = match sku.billing() {
                Billing::PayAsYouGo => (AccountKind::StorageV2, AccountKind::FileStorage),
                Billing::Local | Billing::Provisioned(_) => (AccountKind::FileStorage, AccountKind::StorageV2),
            };
            assert_eq!(AccountPlan::new(None, Some(sku), None).unwrap().kind(), right);
            assert_eq!(AccountPlan::new(Some(right), Some(sku), None).unwrap().sku(), Some(sku));
            let error = AccountPlan::new(Some(wrong), Some(sku), None).unwrap_err();
            assert!(error.what().contains(sku.as_str()) && error.what().contains(wrong.as_str()), "{error}");
            assert!(error.remedy().contains("Premium_LRS") && error.remedy().contains("kind StorageV2"), "{error}");
        }
        assert_eq!(AccountPlan::new(None, None, None).unwrap(), AccountPlan::from(AccountKind::FileStorage));
    }

    #[test]
    fn accounts_without_a_sku_are_local_unless_they_are_general() {
        assert_eq!(billing(AccountKind::FileStorage, None), Billing::Local);
        assert_eq!(billing(AccountKind::StorageV2, None), Billing::PayAsYouGo);
        assert_eq!(billing(AccountKind::FileStorage, Some(Sku::PremiumZrs)), Billing::Provisioned(ProvisionModel::V1));
        assert_eq!(
            billing(AccountKind::FileStorage, Some(Sku::PremiumV2Zrs)),
            Billing::Provisioned(ProvisionModel::V2)
        );
    }
}
