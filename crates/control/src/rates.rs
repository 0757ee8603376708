//! What shares and accounts are limited to, from what the catalog says of them. What has been taken is kept from one configuration to the next.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use server::admin::{AccountLimit, OpenLimits, Rate, RequestRate, ShareLimit, ShareRates};

use crate::catalog::{ShareRecord, Snapshot};
use crate::provisioning::{IOPS_MAX, MIBPS_MAX};
use crate::views::{ShareUse, Waited};
use crate::{Account, Billing, Feature, MetadataCaching, Provisioned, ShareLimits};

/// What clients may do with one file of a provisioned share.
const FILE: Rate = Rate { requests: Some(RequestRate::steady(8_000)), mib: Some(1_024) };
/// What all shares of an account of provisioned shares have together.
const ACCOUNT: Rate = Rate { requests: Some(RequestRate::steady(IOPS_MAX)), mib: Some(MIBPS_MAX) };
/// Requests a second beside reads and writes.
const METADATA_IOPS: u32 = 12_000;
/// The same with metadata caching.
const METADATA_IOPS_CACHED: u32 = 35_000;
/// Opens of a file or directory.
const OPENS: usize = 2_000;
/// The same where the account has [`Feature::HigherHandlesCount`]; and of a share's root.
const OPENS_HIGHER: usize = 10_000;

/// By the number of the share, and the name of the account.
#[derive(Default)]
pub(crate) struct Limits {
    shares: HashMap<i64, Arc<ShareLimit>>,
    accounts: HashMap<String, Arc<AccountLimit>>,
    /// No share keeps more credits than these, whatever is provisioned.
    credits_max: Option<u64>,
}

impl Limits {
    /// Of a server on which no share keeps more credits for bursts.
    pub(crate) fn with_credits(credits_max: Option<u64>) -> Self {
        Limits { credits_max, ..Limits::default() }
    }

    /// What a share is limited by, with what the catalog says now.
    pub(crate) fn of(&mut self, share: &ShareRecord, snapshot: &Snapshot) -> Arc<ShareLimit> {
        let account = snapshot.accounts.iter().map(|(account, _)| account).find(|one| one.name == share.account);
        let of_account = self.accounts.entry(share.account.clone()).or_default();
        of_account.change(account.map_or_else(Rate::default, account_rate));
        let limit = self.shares.entry(share.id).or_insert_with(|| Arc::new(ShareLimit::of(Arc::clone(of_account))));
        let mut rates = share_rates(share, account, snapshot);
        if let (Some(most), Some(requests)) = (self.credits_max, &mut rates.share.requests) {
            requests.credits_max = requests.credits_max.min(most);
        }
        limit.change(&rates);
        Arc::clone(limit)
    }

    /// What a share is limited by; `None` of one that was never served.
    pub(crate) fn known(&self, share: &ShareRecord) -> Option<Arc<ShareLimit>> {
        self.shares.get(&share.id).cloned()
    }

    /// How the requests of a share have met its limits; `None` of one that was never served.
    pub(crate) fn in_use(&self, share: &ShareRecord) -> Option<ShareUse> {
        let usage = self.shares.get(&share.id)?.usage();
        let waited = Waited {
            for_iops: usage.delayed_by_requests,
            to_read: usage.delayed_reads,
            to_write: usage.delayed_writes,
            for_metadata_iops: usage.delayed_by_metadata,
        };
        Some(ShareUse { share: share.name.clone(), burst_credits: usage.credits, waited, used_bytes: None })
    }

    /// Forgets the limits of all shares and accounts that are not in the catalog.
    pub(crate) fn keep_only(&mut self, snapshot: &Snapshot) {
        self.shares.retain(|id, _| snapshot.shares.iter().any(|share| share.id == *id));
        self.accounts.retain(|name, _| snapshot.accounts.iter().any(|(account, _)| account.name == *name));
    }
}

fn account_rate(account: &Account) -> Rate {
    match account.sku.map_or(Billing::Local, |sku| sku.billing()) {
        Billing::Provisioned(_) => ACCOUNT,
        Billing::Local | Billing::PayAsYouGo => Rate::default(),
    }
}

fn share_rates(share: &ShareRecord, account: Option<&Account>, snapshot: &Snapshot) -> ShareRates {
    let own = own_rates(&share.limits);
    let Some(provisioned) = &share.provisioned else { return own };
    let caches = account.is_some_and(|account| account.metadata_caching == MetadataCaching::On);
    let has_more = |account: &Account| {
        snapshot.features.has_feature(account, Feature::HigherHandlesCount, snapshot.read_at).is_ok()
    };
    let metadata = if caches { METADATA_IOPS_CACHED } else { METADATA_IOPS };
    let each = if account.is_some_and(has_more) { OPENS_HIGHER } else { OPENS };
    ShareRates {
        share: provisioned_rate(provisioned),
        metadata: Rate { requests: Some(RequestRate::steady(metadata)), mib: None },
        file: FILE,
        opens: OpenLimits { each, root: OPENS_HIGHER },
        ..own
    }
}

fn provisioned_rate(provisioned: &Provisioned) -> Rate {
    let requests = RequestRate {
        baseline: provisioned.iops,
        burst: provisioned.burst_iops,
        credits_max: provisioned.burst_credits_max,
    };
    Rate { requests: Some(requests), mib: Some(provisioned.mibps) }
}

/// The limits that an operator has given a share.
fn own_rates(limits: &ShareLimits) -> ShareRates {
    let rate = |iops: Option<NonZeroU32>, mibps: Option<NonZeroU32>| Rate {
        requests: iops.map(|iops| RequestRate::steady(iops.get())),
        mib: mibps.map(NonZeroU32::get),
    };
    ShareRates {
        share: rate(limits.iops_max, limits.mibps_max),
        user: rate(limits.user_iops_max, limits.user_mibps_max),
        ..ShareRates::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::tests::ram;
    use crate::{AccountChanges, AccountPlan, Catalog, DataFolder, NewShare, Provision, Sku};

    /// What a share of one account, of `sku` or local, is limited to.
    fn rates(sku: Option<Sku>, new: NewShare, change: impl FnOnce(&mut Catalog)) -> (ShareRates, Rate) {
        let place = tempfile::tempdir().unwrap();
        let mut catalog = Catalog::open(&DataFolder::create(&place.path().join("data")).unwrap()).unwrap();
        catalog.create_account(&"abc".parse().unwrap(), AccountPlan::new(None, sku, None).unwrap()).unwrap();
        catalog.create_share(&new).unwrap();
        change(&mut catalog);
        let snapshot = catalog.snapshot().unwrap();
        let account = &snapshot.accounts[0].0;
        (share_rates(&snapshot.shares[0], Some(account), &snapshot), account_rate(account))
    }

    fn provisioned(gib: u32, iops: Option<u32>, mibps: Option<u32>) -> NewShare {
        NewShare { provision: Some(Provision { gib, iops, mibps }), ..ram("one") }
    }

    fn share(baseline: u32, burst: u32, credits_max: u64, mib: u32) -> Rate {
        Rate { requests: Some(RequestRate { baseline, burst, credits_max }), mib: Some(mib) }
    }

    #[test]
    fn what_is_provisioned_is_what_a_share_may_do() {
        let (v1, account) = rates(Some(Sku::PremiumLrs), provisioned(100, None, None), |_| ());
        assert_eq!(v1.share, share(3_100, 10_000, 24_840_000, 110));
        assert_eq!((v1.file, v1.user), (FILE, Rate::default()));
        assert_eq!(v1.metadata, Rate { requests: Some(RequestRate::steady(12_000)), mib: None }, "not registered");
        assert_eq!(v1.opens, OpenLimits { each: 2_000, root: 10_000 });
        assert_eq!(account, ACCOUNT);
        let (v2, _) = rates(Some(Sku::PremiumV2Lrs), provisioned(1_024, Some(20_000), Some(500)), |_| ());
        assert_eq!(v2.share, share(20_000, 60_000, 144_000_000, 500));
    }

    #[test]
    fn features_raise_what_metadata_and_opens_are_limited_to() {
        let (local, account) = rates(None, provisioned(100, None, None), |_| ());
        assert_eq!(local.metadata.requests, Some(RequestRate::steady(35_000)));
        assert_eq!(local.opens, OpenLimits { each: 10_000, root: 10_000 });
        assert_eq!(account, Rate::default());
        let off = AccountChanges { metadata_caching: Some(MetadataCaching::Off), ..AccountChanges::default() };
        let switch_off = |catalog: &mut Catalog| drop(catalog.update_account(&"abc".parse().unwrap(), off).unwrap());
        let (local, _) = rates(None, provisioned(100, None, None), switch_off);
        assert_eq!(local.metadata.requests, Some(RequestRate::steady(12_000)));
        let register = |catalog: &mut Catalog| {
            let (feature, now) = (Feature::HigherHandlesCount, jiff::Timestamp::now());
            catalog.register_feature(feature, jiff::SignedDuration::ZERO, now).unwrap();
        };
        let (premium, _) = rates(Some(Sku::PremiumLrs), provisioned(100, None, None), register);
        assert_eq!(premium.opens.each, 10_000);
    }

    #[test]
    fn a_share_has_the_limits_of_its_operator_and_else_none() {
        assert_eq!(rates(None, ram("one"), |_| ()), (ShareRates::default(), Rate::default()));
        let limits =
            ShareLimits { iops_max: NonZeroU32::new(50), user_mibps_max: NonZeroU32::new(3), ..ShareLimits::default() };
        let (limited, _) = rates(None, NewShare { limits, ..ram("one") }, |_| ());
        let share = Rate { requests: Some(RequestRate::steady(50)), mib: None };
        assert_eq!(limited, ShareRates { share, user: Rate { requests: None, mib: Some(3) }, ..ShareRates::default() });
        let new = NewShare { limits: ShareLimits { iops_max: None, ..limits }, ..provisioned(100, None, None) };
        let (both, _) = rates(None, new, |_| ());
        assert_eq!((both.share.mib, both.user.mib), (Some(110), Some(3)));
    }
}
