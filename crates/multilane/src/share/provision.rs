//! What `share create` and `share update` say about provisioned values and limits.

use std::num::NonZeroU32;

use clap::Args;
use control::{Error, LimitChanges, Provision, ProvisionChanges, ProvisionUpdate, ShareLimits};

use super::arguments::gib;

/// Of a new share.
#[derive(Debug, Args)]
pub(crate) struct ProvisionCreate {
    /// Provision this size in GiB, which is the quota, too: 100 to 102400 in v1, 32 to 262144 in v2. The account's SKU says which model
    /// it is; in an account without one it is v2 where --iops or --mibps is given
    #[arg(long, value_name = "GIB", conflicts_with = "quota", value_parser = size)]
    provisioned: Option<NonZeroU32>,

    /// Provision so many operations per second in v2, 3000 to 102400 [default: as recommended for the size]
    #[arg(long, value_name = "N", requires = "provisioned", value_parser = iops)]
    iops: Option<NonZeroU32>,

    /// Provision this throughput in MiB/s in v2, 100 to 10340 [default: as recommended for the size]
    #[arg(long, value_name = "N", requires = "provisioned", value_parser = mibps)]
    mibps: Option<NonZeroU32>,

    /// Limit a share that is not provisioned to so many operations per second, 10 to 10000000
    #[arg(long, value_name = "N", value_parser = iops_max)]
    iops_max: Option<NonZeroU32>,

    /// Limit a share that is not provisioned to so many MiB/s, 1 to 1000000
    #[arg(long, value_name = "N", value_parser = mibps_max)]
    mibps_max: Option<NonZeroU32>,

    /// Limit each user of the share to so many operations per second
    #[arg(long, value_name = "N", value_parser = iops_max)]
    user_iops_max: Option<NonZeroU32>,

    /// Limit each user of the share to so many MiB/s
    #[arg(long, value_name = "N", value_parser = mibps_max)]
    user_mibps_max: Option<NonZeroU32>,
}

/// Of a share that is there.
#[derive(Debug, Args)]
pub(crate) struct ProvisionChange {
    /// Provision this size in GiB, which is the quota, too; `none`, in an account without a SKU, provisions nothing and has no quota.
    /// What is provisioned can be decreased 24 hours after it was increased last
    #[arg(long, value_name = "GIB", conflicts_with = "quota", value_parser = size_or_none)]
    provisioned: Option<OrNone>,

    /// Provision so many operations per second, 3000 to 102400; in an account without a SKU the share is one of v2 from then on
    #[arg(long, value_name = "N", value_parser = iops)]
    iops: Option<NonZeroU32>,

    /// Provision this throughput in MiB/s, 100 to 10340; likewise
    #[arg(long, value_name = "N", value_parser = mibps)]
    mibps: Option<NonZeroU32>,

    /// Limit a share that is not provisioned to so many operations per second, 10 to 10000000, or `none`
    #[arg(long, value_name = "N", value_parser = iops_max_or_none)]
    iops_max: Option<OrNone>,

    /// Limit a share that is not provisioned to so many MiB/s, 1 to 1000000, or `none`
    #[arg(long, value_name = "N", value_parser = mibps_max_or_none)]
    mibps_max: Option<OrNone>,

    /// Limit each user of the share to so many operations per second, or `none`
    #[arg(long, value_name = "N", value_parser = iops_max_or_none)]
    user_iops_max: Option<OrNone>,

    /// Limit each user of the share to so many MiB/s, or `none`
    #[arg(long, value_name = "N", value_parser = mibps_max_or_none)]
    user_mibps_max: Option<OrNone>,
}

/// The options that change a share, of those above.
pub(crate) const CHANGES: [&str; 7] =
    ["provisioned", "iops", "mibps", "iops_max", "mibps_max", "user_iops_max", "user_mibps_max"];

/// A number, or none.
#[derive(Clone, Copy, Debug)]
struct OrNone(Option<NonZeroU32>);

impl ProvisionCreate {
    pub(crate) fn provision(&self) -> Option<Provision> {
        let number = |given: Option<NonZeroU32>| given.map(NonZeroU32::get);
        let (iops, mibps) = (number(self.iops), number(self.mibps));
        self.provisioned.map(|gib| Provision { gib: gib.get(), iops, mibps })
    }

    pub(crate) fn limits(&self) -> ShareLimits {
        ShareLimits {
            iops_max: self.iops_max,
            mibps_max: self.mibps_max,
            user_iops_max: self.user_iops_max,
            user_mibps_max: self.user_mibps_max,
        }
    }
}

impl ProvisionChange {
    /// `None` where nothing is said of it.
    pub(crate) fn provision(&self) -> Result<Option<ProvisionUpdate>, Error> {
        let number = |given: Option<NonZeroU32>| given.map(NonZeroU32::get);
        let (iops, mibps) = (number(self.iops), number(self.mibps));
        let values = |gib| Some(ProvisionUpdate::Change(ProvisionChanges { gib, iops, mibps }));
        match (self.provisioned, iops.or(mibps)) {
            (None, None) => Ok(None),
            (Some(OrNone(None)), None) => Ok(Some(ProvisionUpdate::Remove)),
            (None, Some(_)) => Ok(values(None)),
            (Some(OrNone(Some(gib))), _) => Ok(values(Some(gib.get()))),
            (Some(OrNone(None)), Some(_)) => Err(Error::argument(
                "a share that is not provisioned has no --iops and --mibps",
                "leave them out, or give a size with --provisioned GIB",
            )),
        }
    }

    pub(crate) fn limits(&self) -> LimitChanges {
        let change = |given: Option<OrNone>| given.map(|OrNone(limit)| limit);
        LimitChanges {
            iops_max: change(self.iops_max),
            mibps_max: change(self.mibps_max),
            user_iops_max: change(self.user_iops_max),
            user_mibps_max: change(self.user_mibps_max),
        }
    }
}

fn size(text: &str) -> Result<NonZeroU32, Error> {
    let remedy =
        "use a whole number of GiB, such as 1024, 1024G or 1T: from 100 to 102400 in v1 and from 32 to 262144 in v2";
    gib(text).map_err(|_| Error::argument(format!("{text:?} is no size"), remedy))
}

fn size_or_none(text: &str) -> Result<OrNone, Error> {
    or_none(text, size)
}

fn iops(text: &str) -> Result<NonZeroU32, Error> {
    number(text, "number of operations per second", "use a whole number from 3000 to 102400")
}

fn mibps(text: &str) -> Result<NonZeroU32, Error> {
    number(text, "throughput", "use a whole number of MiB/s from 100 to 10340")
}

fn iops_max(text: &str) -> Result<NonZeroU32, Error> {
    number(
        text,
        "limit of operations per second",
        "use a whole number from 10 to 10000000; `share update` takes `none`, too",
    )
}

fn iops_max_or_none(text: &str) -> Result<OrNone, Error> {
    or_none(text, iops_max)
}

fn mibps_max(text: &str) -> Result<NonZeroU32, Error> {
    number(
        text,
        "limit of throughput",
        "use a whole number of MiB/s from 1 to 1000000; `share update` takes `none`, too",
    )
}

fn mibps_max_or_none(text: &str) -> Result<OrNone, Error> {
    or_none(text, mibps_max)
}

fn number(text: &str, what: &str, remedy: &str) -> Result<NonZeroU32, Error> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| text.parse().ok()).flatten();
    number.ok_or_else(|| Error::argument(format!("{text:?} is no {what}"), remedy))
}

fn or_none(text: &str, number: impl Fn(&str) -> Result<NonZeroU32, Error>) -> Result<OrNone, Error> {
    if text == "none" { Ok(OrNone(None)) } else { number(text).map(|number| OrNone(Some(number))) }
}
