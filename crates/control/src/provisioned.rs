//! What a share is provisioned with, and the rule for changing it: any value goes up at any time, and down 24 hours after it went up last.
//!
//! The time is an argument of every rule.

use std::ops::RangeInclusive;

use jiff::Timestamp;

use crate::provisioning::{
    ProvisionModel, burst_credits_max, next_decrease, v1_burst_iops, v1_iops, v1_mibps, v2_burst_iops,
    v2_recommended_iops, v2_recommended_mibps,
};
use crate::{Error, Measure, Reason};

/// What to provision a share with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Provision {
    /// The size in GiB.
    pub gib: u32,
    /// Operations per second, which v2 alone takes; where there are none, as many as are recommended for the size.
    pub iops: Option<u32>,
    /// Throughput in MiB/s, likewise.
    pub mibps: Option<u32>,
}

/// What a share is provisioned with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Provisioned {
    /// By which model.
    pub model: ProvisionModel,
    /// The size in GiB.
    pub gib: u32,
    /// Operations per second that it always has.
    pub iops: u32,
    /// Throughput in MiB/s, reads and writes together. It has no bursts.
    pub mibps: u32,
    /// Operations per second in a burst.
    pub burst_iops: u32,
    /// The most credits it can have, each for one operation above `iops`.
    pub burst_credits_max: u64,
    /// When each value was increased last.
    pub increased: Increases,
}

/// When each provisioned value was increased last. To be provisioned is an increase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Increases {
    /// The size; in v1 all that follows it, too.
    pub gib: Timestamp,
    /// Operations per second.
    pub iops: Timestamp,
    /// Throughput.
    pub mibps: Timestamp,
}

/// New values for a provisioned share; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProvisionChanges {
    /// The size in GiB.
    pub gib: Option<u32>,
    /// Operations per second, in v2.
    pub iops: Option<u32>,
    /// Throughput in MiB/s, in v2.
    pub mibps: Option<u32>,
}

impl Provision {
    /// A share of `model` with these values, made at `now`.
    pub fn by(self, model: ProvisionModel, now: Timestamp) -> Result<Provisioned, Error> {
        let now = whole_seconds(now);
        let increased = Increases { gib: now, iops: now, mibps: now };
        match model {
            ProvisionModel::V1 => {
                follows_size(self.iops, self.mibps)?;
                Provisioned::v1(self.gib, now)
            }
            ProvisionModel::V2 => {
                let iops = self.iops.unwrap_or_else(|| v2_recommended_iops(self.gib));
                let mibps = self.mibps.unwrap_or_else(|| v2_recommended_mibps(self.gib));
                Provisioned::v2(self.gib, iops, mibps, increased)
            }
        }
    }
}

impl Provisioned {
    /// A v1 share of `gib` GiB, increased last at `increased`. Fails where there is none of this size.
    pub fn v1(gib: u32, increased: Timestamp) -> Result<Self, Error> {
        let model = ProvisionModel::V1;
        within(model, gib, Measure::Size, &model.gib())?;
        let increased = Increases { gib: increased, iops: increased, mibps: increased };
        Ok(Self::of(model, gib, [v1_iops(gib), v1_mibps(gib), v1_burst_iops(gib)], increased))
    }

    /// A v2 share of `gib` GiB, `iops` operations per second and `mibps` MiB/s. Fails where there is none of these values.
    pub fn v2(gib: u32, iops: u32, mibps: u32, increased: Increases) -> Result<Self, Error> {
        let model = ProvisionModel::V2;
        within(model, gib, Measure::Size, &model.gib())?;
        within(model, iops, Measure::Iops, &model.iops())?;
        within(model, mibps, Measure::Throughput, &model.mibps())?;
        Ok(Self::of(model, gib, [iops, mibps, v2_burst_iops(iops)], increased))
    }

    fn of(model: ProvisionModel, gib: u32, [iops, mibps, burst_iops]: [u32; 3], increased: Increases) -> Self {
        let burst_credits_max = burst_credits_max(iops, burst_iops);
        Provisioned { model, gib, iops, mibps, burst_iops, burst_credits_max, increased }
    }

    /// The share with `changes` made at `now`. Fails where a value is decreased within 24 hours after its last increase, or has no such size.
    pub fn changed(&self, changes: ProvisionChanges, now: Timestamp) -> Result<Self, Error> {
        let now = whole_seconds(now);
        let old = &self.increased;
        let gib = changes.gib.unwrap_or(self.gib);
        match self.model {
            ProvisionModel::V1 => {
                follows_size(changes.iops, changes.mibps)?;
                // A size that cannot be is told before a time to wait for.
                let wanted = Self::v1(gib, old.gib)?;
                Self::v1(wanted.gib, moved(self.gib, gib, Measure::Size, old.gib, now)?)
            }
            ProvisionModel::V2 => {
                let (iops, mibps) = (changes.iops.unwrap_or(self.iops), changes.mibps.unwrap_or(self.mibps));
                let wanted = Self::v2(gib, iops, mibps, *old)?;
                let increased = Increases {
                    gib: moved(self.gib, gib, Measure::Size, old.gib, now)?,
                    iops: moved(self.iops, iops, Measure::Iops, old.iops, now)?,
                    mibps: moved(self.mibps, mibps, Measure::Throughput, old.mibps, now)?,
                };
                Ok(Provisioned { increased, ..wanted })
            }
        }
    }
}

/// When a value counts as increased last that was `old`, and increased at `increased`, and becomes `new` at `now`.
fn moved(old: u32, new: u32, measure: Measure, increased: Timestamp, now: Timestamp) -> Result<Timestamp, Error> {
    let next = next_decrease(increased);
    if new > old {
        return Ok(now);
    }
    if new == old || now >= next {
        return Ok(increased);
    }
    let unit = measure.unit();
    let refused = Error::conflict(
        format!(
            "what is provisioned was increased less than 24 hours ago: {old} {unit} cannot become {new} before {next}"
        ),
        format!("try again from {next} on, or leave it at {old} {unit} or more"),
    );
    Err(refused.because(Reason::TooSoon(measure)))
}

/// In v1 nothing but the size is provisioned.
fn follows_size(iops: Option<u32>, mibps: Option<u32>) -> Result<(), Error> {
    if iops.is_none() && mibps.is_none() {
        return Ok(());
    }
    Err(Error::conflict(
        "by provisioned v1 the IOPS and MiB/s of a share follow its size",
        "leave out --iops and --mibps and say more or less with --provisioned, or use an account of PremiumV2_LRS or PremiumV2_ZRS, or one \
         without --sku",
    ))
}

/// A share of `model` can have `number` of `unit`.
fn within(model: ProvisionModel, number: u32, measure: Measure, range: &RangeInclusive<u32>) -> Result<(), Error> {
    if range.contains(&number) {
        return Ok(());
    }
    let unit = measure.unit();
    let by_parts = match model {
        ProvisionModel::V1 if ProvisionModel::V2.gib().contains(&number) => {
            ", or have it provisioned v2, which has less and more: with --iops or --mibps in an account without --sku, or in one of PremiumV2_LRS or PremiumV2_ZRS"
        }
        ProvisionModel::V1 | ProvisionModel::V2 => "",
    };
    let refused = Error::argument(
        format!("a share of provisioned {} cannot have {number} {unit}", model.as_str()),
        format!("give it {} to {} {unit}{by_parts}", range.start(), range.end()),
    );
    Err(refused.because(Reason::OutOfRange(measure)))
}

impl Measure {
    /// What it is counted in.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Measure::Size => "GiB",
            Measure::Iops => "IOPS",
            Measure::Throughput => "MiB/s",
        }
    }
}

/// The catalog keeps seconds.
fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
