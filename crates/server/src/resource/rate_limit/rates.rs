//! What a limit allows, as costs in time. It may change while requests wait.

use std::sync::atomic::{AtomicU64, Ordering};

const NANOSECONDS: u64 = 1_000_000_000;
const MIB: u64 = 1 << 20;

/// How many requests a second, and with what bursts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRate {
    /// Requests a second that may always be made, 1 or more.
    pub baseline: u32,
    /// Requests a second while there are credits; at least the baseline.
    pub burst: u32,
    /// Credits that are kept at most. Each request above the baseline takes one, each below it that is not made gives one.
    pub credits_max: u64,
}

impl RequestRate {
    /// So many requests a second, without bursts.
    pub const fn steady(baseline: u32) -> Self {
        RequestRate { baseline, burst: baseline, credits_max: 0 }
    }
}

/// How much may be done in a second; nothing is bounded where nothing is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// Requests.
    pub requests: Option<RequestRate>,
    /// MiB read and written together, 1 or more.
    pub mib: Option<u32>,
}

impl Rate {
    /// True where nothing is bounded.
    pub fn is_unlimited(&self) -> bool {
        *self == Rate::default()
    }
}

/// A [`Rate`] in force: nanoseconds that a request or a MiB takes, 0 where that is not limited.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    baseline: AtomicU64,
    /// 0 where there are no bursts.
    burst: AtomicU64,
    /// As long as it takes to earn all credits.
    credits: AtomicU64,
    mib: AtomicU64,
    /// How often they were changed, counted last.
    changes: AtomicU64,
}

/// What one request costs under some rates, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Price {
    /// Of the request, at the baseline: what its credit takes to be earned.
    pub(super) baseline: u64,
    /// Of the request, at the rate of bursts.
    pub(super) burst: u64,
    /// How much of the baseline may be owed.
    pub(super) credits: u64,
    pub(super) bytes: u64,
}

impl Rates {
    #[cfg(test)]
    pub(crate) fn new(rate: Rate) -> Self {
        let rates = Rates::default();
        rates.change(rate);
        rates
    }

    pub(crate) fn change(&self, rate: Rate) {
        let (baseline, burst, credits) = match rate.requests {
            Some(RequestRate { baseline, burst, credits_max }) => {
                let each = |rate: u32| NANOSECONDS / u64::from(rate.max(1));
                let burst = if burst > baseline { each(burst) } else { 0 };
                (each(baseline), burst, credits_max.saturating_mul(each(baseline)))
            }
            None => (0, 0, 0),
        };
        let mib = rate.mib.map_or(0, |mib| NANOSECONDS / u64::from(mib.max(1)));
        let swap = |to: &AtomicU64, value| to.swap(value, Ordering::Relaxed) != value;
        let changed = [(&self.baseline, baseline), (&self.burst, burst), (&self.credits, credits), (&self.mib, mib)]
            .map(|(to, value)| swap(to, value));
        if changed.contains(&true) {
            self.changes.fetch_add(1, Ordering::Release);
        }
    }

    /// A number that is another after each change.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// True where nothing is limited.
    pub(crate) fn are_none(&self) -> bool {
        self.baseline.load(Ordering::Relaxed) == 0 && self.mib.load(Ordering::Relaxed) == 0
    }

    /// What a request with a MiB costs.
    pub(super) fn price_of_mib(&self) -> Price {
        self.price(MIB)
    }

    /// What a request with so many bytes costs.
    pub(super) fn price(&self, bytes: u64) -> Price {
        Price {
            baseline: self.baseline.load(Ordering::Relaxed),
            burst: self.burst.load(Ordering::Relaxed),
            credits: self.credits.load(Ordering::Relaxed),
            bytes: price_of(bytes, self.mib.load(Ordering::Relaxed)),
        }
    }

    /// What so many bytes cost, and what fewer cost by the same rates.
    pub(super) fn price_of_two(&self, bytes: u64, fewer: u64) -> (Price, Price) {
        let (price, mib) = (self.price(0), self.mib.load(Ordering::Relaxed));
        let of = |bytes| Price { bytes: price_of(bytes, mib), ..price };
        (of(bytes), of(fewer.min(bytes)))
    }

    /// How many credits so much time at the baseline is.
    pub(super) fn credits_in(&self, nanoseconds: u64) -> u64 {
        nanoseconds.checked_div(self.baseline.load(Ordering::Relaxed)).unwrap_or(0)
    }

    pub(super) fn credits_max(&self) -> u64 {
        self.credits_in(self.credits.load(Ordering::Relaxed))
    }
}

/// What so many bytes cost where a MiB costs that.
fn price_of(bytes: u64, mib: u64) -> u64 {
    bytes.saturating_mul(mib).div_ceil(MIB)
}

impl Price {
    /// Its part in what its payer has had of the limit.
    pub(super) fn weight(&self) -> u64 {
        self.baseline.max(self.bytes).max(1)
    }
}
