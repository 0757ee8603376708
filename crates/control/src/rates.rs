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
}

impl Limits {
    /// What a share is limited by, with what the catalog says now.
    pub(crate) fn of(&mut self, share: &ShareRecord, snapshot: &Snapshot) -> Arc<ShareLimit> {
        let account = snapshot.accounts.iter().map(|(account, _)| account).find(|one| one.name == share.account);
        let of_account = self.accounts.entry(share.account.clone()).or_default();
        of_account.change(account.map_or_else(Rate::default, account_rate));
        let limit = self.shares.entry(share.id).or_insert_with(|| Arc::new(ShareLimit::of(Arc::clone(of_account))));
        limit.change(&share_rates(share, account, snapshot));
        Arc::clone(limit)
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
        Some(ShareUse { share: share.name.clone(), burst_credits: usage.credits, waited })
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
