//! The formulas and limits of provisioned shares, by the two models that Azure Files has for SSD.

use std::ops::RangeInclusive;

use jiff::{SignedDuration, Timestamp};

use crate::{Error, Measure, Provisioned, Reason};

/// The most operations per second of a share, provisioned or in a burst, and of an account with provisioned v2.
pub const IOPS_MAX: u32 = 102_400;
/// The most throughput of a share, and of an account with provisioned v2, in MiB/s.
pub const MIBPS_MAX: u32 = 10_340;
/// The least that a burst reaches, in operations per second.
pub const BURST_IOPS_MIN: u32 = 10_000;
/// How often a burst reaches what there always is, where that is more.
pub const BURST_SCALAR: u32 = 3;
/// For how long a share bursts at its highest rate with all its credits.
pub const BURST_SECONDS: u64 = 3_600;
/// How long after its last increase a value may be decreased.
const DECREASE_AFTER: SignedDuration = SignedDuration::from_hours(24);

/// Which of the two models a share is provisioned by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProvisionModel {
    /// The size is provisioned, and operations and throughput follow it.
    V1,
    /// Size, operations and throughput are provisioned apart.
    V2,
}

/// What several provisioned shares have together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProvisionedSum {
    /// How many they are.
    pub shares: u64,
    /// Their sizes, in GiB.
    pub gib: u64,
    /// Their operations per second.
    pub iops: u64,
    /// Their throughput, in MiB/s.
    pub mibps: u64,
}

impl ProvisionModel {
    /// The model's name in the catalog and for operators.
    pub fn as_str(self) -> &'static str {
        match self {
            ProvisionModel::V1 => "v1",
            ProvisionModel::V2 => "v2",
        }
    }

    /// The sizes of a share, in GiB.
    pub fn gib(self) -> RangeInclusive<u32> {
        match self {
            ProvisionModel::V1 => 100..=102_400,
            ProvisionModel::V2 => 32..=262_144,
        }
    }

    /// The operations per second that can be provisioned in v2, and that follow a size in v1.
    pub fn iops(self) -> RangeInclusive<u32> {
        match self {
            ProvisionModel::V1 => v1_iops(*self.gib().start())..=IOPS_MAX,
            ProvisionModel::V2 => 3_000..=IOPS_MAX,
        }
    }

    /// The throughput in MiB/s that can be provisioned in v2, and that follows a size in v1.
    pub fn mibps(self) -> RangeInclusive<u32> {
        match self {
            ProvisionModel::V1 => v1_mibps(*self.gib().start())..=MIBPS_MAX,
            ProvisionModel::V2 => 100..=MIBPS_MAX,
        }
    }

    /// What all shares of one account may have together. v1 bounds the size alone: shares may be promised more operations and throughput than
    /// an account gives.
    pub fn account_max(self) -> ProvisionedSum {
        let gib = u64::from(*self.gib().end());
        match self {
            ProvisionModel::V1 => ProvisionedSum { shares: 1_024, gib, iops: u64::MAX, mibps: u64::MAX },
            ProvisionModel::V2 => ProvisionedSum { shares: 50, gib, iops: IOPS_MAX.into(), mibps: MIBPS_MAX.into() },
        }
    }
}

/// What a v1 share of `gib` GiB always has, in operations per second.
pub fn v1_iops(gib: u32) -> u32 {
    gib.saturating_add(3_000).min(IOPS_MAX)
}

/// What a v1 share of `gib` GiB reaches in a burst, in operations per second.
pub fn v1_burst_iops(gib: u32) -> u32 {
    burst_of(gib)
}

/// The throughput of a v1 share of `gib` GiB in MiB/s: what comes in and what goes out, together.
pub fn v1_mibps(gib: u32) -> u32 {
    v1_ingress_mibps(gib).saturating_add(v1_egress_mibps(gib)).min(MIBPS_MAX)
}

/// The part of it that counts as what comes in, in MiB/s.
pub fn v1_ingress_mibps(gib: u32) -> u32 {
    hundredths(4, gib).saturating_add(40)
}

/// The part of it that counts as what goes out, in MiB/s.
pub fn v1_egress_mibps(gib: u32) -> u32 {
    hundredths(6, gib).saturating_add(60)
}

/// The operations per second that are recommended for a v2 share of `gib` GiB.
pub fn v2_recommended_iops(gib: u32) -> u32 {
    gib.saturating_add(3_000).min(IOPS_MAX)
}

/// The throughput that is recommended for a v2 share of `gib` GiB, in MiB/s.
pub fn v2_recommended_mibps(gib: u32) -> u32 {
    hundredths(10, gib).saturating_add(100).min(MIBPS_MAX)
}

/// What a v2 share of `iops` operations per second reaches in a burst.
pub fn v2_burst_iops(iops: u32) -> u32 {
    burst_of(iops)
}

/// The most credits of a share, v1 or v2, that always has `iops` and bursts to `burst_iops`.
pub fn burst_credits_max(iops: u32, burst_iops: u32) -> u64 {
    u64::from(burst_iops.saturating_sub(iops)) * BURST_SECONDS
}

fn burst_of(number: u32) -> u32 {
    number.saturating_mul(BURST_SCALAR).clamp(BURST_IOPS_MIN, IOPS_MAX)
}

/// So many hundredths of `gib`, rounded up.
fn hundredths(count: u64, gib: u32) -> u32 {
    u32::try_from((count * u64::from(gib)).div_ceil(100)).unwrap_or(u32::MAX)
}

/// From when on a value may be decreased that was increased last at `increased`.
pub fn next_decrease(increased: Timestamp) -> Timestamp {
    increased.saturating_add(DECREASE_AFTER).unwrap_or(Timestamp::MAX)
}

impl ProvisionedSum {
    /// One more share, or the same with other values, beside these in an account of `model`. Fails where the account has no room for it.
    pub fn room_for(&self, wanted: &Provisioned, model: ProvisionModel) -> Result<(), Error> {
        let max = model.account_max();
        let left = |have: u64, max: u64| max.saturating_sub(have);
        if left(self.shares, max.shares) == 0 {
            return Err(Error::conflict(
                format!(
                    "the account has {} shares, as many as one of provisioned {} takes",
                    self.shares,
                    model.as_str()
                ),
                "delete a share of it first, or use another account",
            )
            .because(Reason::TooManyShares));
        }
        let sums = [
            (wanted.gib, left(self.gib, max.gib), Measure::Size),
            (wanted.iops, left(self.iops, max.iops), Measure::Iops),
            (wanted.mibps, left(self.mibps, max.mibps), Measure::Throughput),
        ];
        let least = [model.gib(), model.iops(), model.mibps()].map(|range| u64::from(*range.start()));
        let beyond = sums.into_iter().zip(least).find(|((wanted, left, _), _)| u64::from(*wanted) > *left);
        let Some(((wanted, left, measure), least)) = beyond else { return Ok(()) };
        let unit = measure.unit();
        let ask = if left < least { String::new() } else { format!("ask for {left} {unit} or less, ") };
        let refused = Error::conflict(
            format!("the account has {left} {unit} left for this share, which comes to {wanted}"),
            format!("{ask}decrease or delete another share, or use another account"),
        );
        Err(refused.because(Reason::AccountFull(measure)))
    }
}

#[cfg(test)]
mod tests;
