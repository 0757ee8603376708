//! Limits of a share's operations and throughput that are the operator's own, beside what is provisioned.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;

use crate::Error;

/// Operations per second that a share or user can be limited to.
const IOPS: RangeInclusive<u32> = 10..=10_000_000;
/// MiB/s that a share or user can be limited to.
const MIBPS: RangeInclusive<u32> = 1..=1_000_000;

/// The operator's own limits of a share; `None` where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareLimits {
    /// Operations per second of the whole share. A provisioned share has none.
    pub iops_max: Option<NonZeroU32>,
    /// Throughput of the whole share in MiB/s. A provisioned share has none.
    pub mibps_max: Option<NonZeroU32>,
    /// Operations per second of each of its users.
    pub user_iops_max: Option<NonZeroU32>,
    /// Throughput of each of its users in MiB/s.
    pub user_mibps_max: Option<NonZeroU32>,
}

/// New limits; `None` leaves one as it is, and `Some(None)` takes it away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitChanges {
    /// Of [`ShareLimits::iops_max`].
    pub iops_max: Option<Option<NonZeroU32>>,
    /// Of [`ShareLimits::mibps_max`].
    pub mibps_max: Option<Option<NonZeroU32>>,
    /// Of [`ShareLimits::user_iops_max`].
    pub user_iops_max: Option<Option<NonZeroU32>>,
    /// Of [`ShareLimits::user_mibps_max`].
    pub user_mibps_max: Option<Option<NonZeroU32>>,
}

impl ShareLimits {
    /// The limits with `changes` made.
    pub fn changed(self, changes: LimitChanges) -> Self {
        ShareLimits {
            iops_max: changes.iops_max.unwrap_or(self.iops_max),
            mibps_max: changes.mibps_max.unwrap_or(self.mibps_max),
            user_iops_max: changes.user_iops_max.unwrap_or(self.user_iops_max),
            user_mibps_max: changes.user_mibps_max.unwrap_or(self.user_mibps_max),
        }
    }

    /// Those limits, as text, that `changes` are about.
    pub(crate) fn named_by(self, changes: LimitChanges) -> String {
        let all = [
            ("iops_max", changes.iops_max, self.iops_max),
            ("mibps_max", changes.mibps_max, self.mibps_max),
            ("user_iops_max", changes.user_iops_max, self.user_iops_max),
            ("user_mibps_max", changes.user_mibps_max, self.user_mibps_max),
        ];
        let named = all.into_iter().filter(|(_, change, _)| change.is_some());
        let words =
            named.map(|(name, _, limit)| limit.map_or(format!("{name}=none"), |limit| format!("{name}={limit}")));
        words.collect::<Vec<_>>().join(" ")
    }

    /// Fails where a limit is out of its range.
    pub(crate) fn check(&self) -> Result<(), Error> {
        within("--iops-max", self.iops_max, &IOPS, "IOPS")?;
        within("--mibps-max", self.mibps_max, &MIBPS, "MiB/s")?;
        within("--user-iops-max", self.user_iops_max, &IOPS, "IOPS")?;
        within("--user-mibps-max", self.user_mibps_max, &MIBPS, "MiB/s")
    }

    /// Fails where the share as a whole has a limit, which one that is provisioned has not.
    pub(crate) fn check_provisioned(&self) -> Result<(), Error> {
        if self.iops_max.is_none() && self.mibps_max.is_none() {
            return Ok(());
        }
        Err(Error::conflict(
            "a provisioned share has no limits of its own beside what is provisioned",
            "change --provisioned, --iops or --mibps instead of --iops-max and --mibps-max; `none` takes those away, and --user-iops-max and \
             --user-mibps-max limit each user",
        ))
    }
}

fn within(option: &str, limit: Option<NonZeroU32>, range: &RangeInclusive<u32>, unit: &str) -> Result<(), Error> {
    match limit {
        Some(limit) if !range.contains(&limit.get()) => Err(Error::argument(
            format!("{option} cannot be {limit}"),
            format!("use {} to {} {unit}", range.start(), range.end()),
        )),
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fault;

    #[test]
    fn limits_keep_to_their_ranges_and_say_them() {
        let with = |iops, mibps| ShareLimits {
            iops_max: NonZeroU32::new(iops),
            user_mibps_max: NonZeroU32::new(mibps),
            ..ShareLimits::default()
        };
        for (iops, mibps) in [(10, 1), (10_000_000, 1_000_000), (0, 0)] {
            assert_eq!(with(iops, mibps).check(), Ok(()));
        }
        for (iops, mibps, range) in [
            (9, 1, "10 to 10000000 IOPS"),
            (10_000_001, 1, "10 to 10000000 IOPS"),
            (10, 1_000_001, "1 to 1000000 MiB/s"),
        ] {
            let error = with(iops, mibps).check().unwrap_err();
            assert!(error.fault() == Fault::Argument && error.remedy().contains(range), "{error}");
        }
    }

    #[test]
    fn a_change_touches_only_the_limits_that_it_names() {
        let before =
            ShareLimits { iops_max: NonZeroU32::new(10), mibps_max: NonZeroU32::new(20), ..ShareLimits::default() };
        let changes =
            LimitChanges { iops_max: Some(None), user_iops_max: Some(NonZeroU32::new(30)), ..LimitChanges::default() };
        let after = ShareLimits { iops_max: None, user_iops_max: NonZeroU32::new(30), ..before };
        assert_eq!(before.changed(changes), after);
        assert_eq!(after.named_by(changes), "iops_max=none user_iops_max=30");
    }
}
