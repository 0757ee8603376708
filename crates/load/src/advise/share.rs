//! What a premium share of Azure Files gives for its size, as its documentation says.

/// Connections of one session that the service takes.
pub const AZURE_CHANNELS_MAX: usize = 4;
/// Requests per second to one file.
pub const FILE_IOPS: f64 = 8_000.0;
/// Bytes per second of one file.
pub const FILE_BYTES_PER_SECOND: f64 = (1_024_u64 << 20) as f64;
/// The most that any share has.
const IOPS_MAX: f64 = 102_400.0;
/// What may be provisioned, in GiB.
pub const PROVISIONED_GIB: std::ops::RangeInclusive<u32> = 100..=102_400;
/// Where the limits are written down.
pub(crate) const SOURCE: &str = "Azure Files: scalability targets and the provisioned v1 model";

/// The limits of a share (provisioned v1 model).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShareLimits {
    /// Requests per second, at all times.
    pub iops: f64,
    /// Requests per second while there are burst credits: an hour's worth when none were used.
    pub burst_iops: f64,
    /// Bytes per second, reads and writes together.
    pub bytes_per_second: f64,
}

impl ShareLimits {
    /// Of a share with so many GiB.
    pub fn of(provisioned_gib: u32) -> Self {
        let gib = f64::from(provisioned_gib);
        let mib_per_second = 100.0 + (0.04 * gib).ceil() + (0.06 * gib).ceil();
        ShareLimits {
            iops: (3_000.0 + gib).min(IOPS_MAX),
            burst_iops: (3.0 * gib).clamp(10_000.0, IOPS_MAX),
            bytes_per_second: mib_per_second * f64::from(1 << 20),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_the_documented_table() {
        for (gib, iops, burst_iops, mib) in [
            (100, 3_100.0, 10_000.0, 110.0),
            (500, 3_500.0, 10_000.0, 150.0),
            (5_120, 8_120.0, 15_360.0, 613.0),
            (102_400, 102_400.0, 102_400.0, 10_340.0),
        ] {
            let limits = ShareLimits::of(gib);
            assert_eq!((limits.iops, limits.burst_iops), (iops, burst_iops), "{gib} GiB");
            assert_eq!(limits.bytes_per_second / f64::from(1 << 20), mib, "{gib} GiB");
        }
    }
}
