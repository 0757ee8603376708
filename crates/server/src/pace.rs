//! How fast large frames arrive, and large answers are taken: who is slow holds memory for as long as it takes.

use std::time::Duration;

use tokio::time::Instant;

/// What moves at less than that is slow: 8 MiB take longer than ten seconds.
const QUICK_BYTES_A_SECOND: u32 = 768 << 10;
/// Of fewer bytes it is not said how fast they move.
const JUDGED_BYTES_MIN: u32 = 96 << 10;

/// How fast a connection sends or takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    Quick,
    Slow,
}

/// True where so many bytes have moved slowly; `None` where they are too few to say.
pub(crate) fn is_slow(bytes: u64, since: Instant) -> Option<bool> {
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    let quick = Duration::from_secs(1).checked_mul(bytes)? / QUICK_BYTES_A_SECOND;
    (bytes >= JUDGED_BYTES_MIN).then(|| since.elapsed() > quick)
}
