//! A share with the names that Azure's management API has for its properties.

use std::num::NonZeroU32;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use crate::provisioning::{next_decrease, v1_egress_mibps, v1_ingress_mibps};
use crate::{ProvisionModel, Provisioned, ShareRecord};

/// What is not provisioned, or not of its model, is null.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShareProperties {
    /// The most it may hold, in GiB: what is provisioned, or a folder's quota.
    pub share_quota: Option<u32>,
    /// The protocol that clients use.
    pub enabled_protocols: &'static str,
    /// `Premium` of a provisioned share.
    pub access_tier: Option<&'static str>,
    /// Operations per second.
    pub provisioned_iops: Option<u32>,
    /// Throughput in MiB/s.
    pub provisioned_bandwidth_mibps: Option<u32>,
    /// The part of it that counts as what comes in, in MiB/s; of v1.
    #[serde(rename = "provisionedIngressMBps")]
    pub provisioned_ingress_mibps: Option<u32>,
    /// The part of it that counts as what goes out, in MiB/s; of v1.
    #[serde(rename = "provisionedEgressMBps")]
    pub provisioned_egress_mibps: Option<u32>,
    /// Operations per second in a burst.
    pub included_burst_iops: Option<u32>,
    /// The most credits for bursts.
    pub max_burst_credits_for_iops: Option<u64>,
    /// The credits that are left. The catalog does not know: a running server does.
    pub available_burst_credits: Option<u64>,
    /// From when on the size may be decreased.
    #[serde(serialize_with = "time")]
    pub next_allowed_quota_downgrade_time: Option<Timestamp>,
    /// From when on the operations may be decreased; of v2.
    #[serde(serialize_with = "time")]
    pub next_allowed_provisioned_iops_downgrade_time: Option<Timestamp>,
    /// From when on the throughput may be decreased; of v2.
    #[serde(serialize_with = "time")]
    pub next_allowed_provisioned_bandwidth_downgrade_time: Option<Timestamp>,
}

impl From<&ShareRecord> for ShareProperties {
    fn from(share: &ShareRecord) -> Self {
        let quota = share.source.quota_gib().map(NonZeroU32::get);
        let provisioned = share.provisioned.as_ref();
        let of_model = |model| provisioned.filter(|provisioned| provisioned.model == model);
        let (v1, v2) = (of_model(ProvisionModel::V1), of_model(ProvisionModel::V2));
        ShareProperties {
            share_quota: provisioned.map(|provisioned| provisioned.gib).or(quota),
            enabled_protocols: "SMB",
            access_tier: provisioned.map(|_| "Premium"),
            provisioned_iops: provisioned.map(|provisioned| provisioned.iops),
            provisioned_bandwidth_mibps: provisioned.map(|provisioned| provisioned.mibps),
            provisioned_ingress_mibps: v1.map(|v1| v1_ingress_mibps(v1.gib)),
            provisioned_egress_mibps: v1.map(|v1| v1_egress_mibps(v1.gib)),
            included_burst_iops: provisioned.map(|provisioned| provisioned.burst_iops),
            max_burst_credits_for_iops: provisioned.map(|provisioned| provisioned.burst_credits_max),
            available_burst_credits: None,
            next_allowed_quota_downgrade_time: next(provisioned, |provisioned| provisioned.increased.gib),
            next_allowed_provisioned_iops_downgrade_time: next(v2, |v2| v2.increased.iops),
            next_allowed_provisioned_bandwidth_downgrade_time: next(v2, |v2| v2.increased.mibps),
        }
    }
}

fn next(provisioned: Option<&Provisioned>, increased: impl Fn(&Provisioned) -> Timestamp) -> Option<Timestamp> {
    provisioned.map(|provisioned| next_decrease(increased(provisioned)))
}

/// A time as RFC 3339 has it.
fn time<S: Serializer>(time: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => to.collect_str(time),
        None => to.serialize_none(),
    }
}
