//! The metrics there are, by Azure Monitor's names for file services.

/// What numbers of several times, shares or kinds of requests are made one by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregation {
    /// Their sum.
    Total,
    /// Their mean.
    Average,
    /// The smallest.
    Minimum,
    /// The largest.
    Maximum,
    /// How many there were.
    Count,
}

impl Aggregation {
    /// All of them.
    pub const ALL: [Aggregation; 5] =
        [Aggregation::Total, Aggregation::Average, Aggregation::Minimum, Aggregation::Maximum, Aggregation::Count];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Aggregation::Total => "Total",
            Aggregation::Average => "Average",
            Aggregation::Minimum => "Minimum",
            Aggregation::Maximum => "Maximum",
            Aggregation::Count => "Count",
        }
    }

    /// The one of this name, in any case.
    pub fn of(name: &str) -> Option<Self> {
        Aggregation::ALL.into_iter().find(|one| one.name().eq_ignore_ascii_case(name))
    }
}

/// What numbers are told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dimension {
    /// How a request ended.
    ResponseType,
    /// What it asked for.
    ApiName,
    /// How its user had proved who it is.
    Authentication,
    /// The share.
    FileShare,
}

impl Dimension {
    /// All of them.
    pub const ALL: [Dimension; 4] =
        [Dimension::ResponseType, Dimension::ApiName, Dimension::Authentication, Dimension::FileShare];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Dimension::ResponseType => "ResponseType",
            Dimension::ApiName => "ApiName",
            Dimension::Authentication => "Authentication",
            Dimension::FileShare => "FileShare",
        }
    }

    /// The one of this name, in any case.
    pub fn of(name: &str) -> Option<Self> {
        Dimension::ALL.into_iter().find(|one| one.name().eq_ignore_ascii_case(name))
    }
}

/// A metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Requests.
    Transactions,
    /// Bytes of requests.
    Ingress,
    /// Bytes of responses.
    Egress,
    /// How long requests were in the server, with all that they waited for.
    SuccessE2eLatency,
    /// The same without waiting for limits of their share.
    SuccessServerLatency,
    /// The part of the requests that the server did not fail.
    Availability,
    /// Requests a second, of the minute that had most.
    FileShareMaxUsedIops,
    /// MiB a second in and out, of the minute that had most.
    FileShareMaxUsedBandwidth,
    /// Credits for bursts that were left.
    FileShareAvailableBurstCredits,
    /// The most a share may hold.
    FileShareCapacityQuota,
    /// Bytes that the files of shares take.
    FileCapacity,
    /// How many shares there are.
    FileShareCount,
    /// Requests a second that a share is provisioned with.
    FileShareProvisionedIops,
    /// MiB a second that it is provisioned with.
    FileShareProvisionedBandwidth,
}

/// What is said of a metric.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// Its name.
    pub name: &'static str,
    /// What it counts, in words.
    pub description: &'static str,
    /// The unit, by Azure Monitor's name.
    pub unit: &'static str,
    /// What it is made one by where nothing else is asked for, and the others that make sense.
    pub aggregations: &'static [Aggregation],
    /// What it can be told apart by.
    pub dimensions: &'static [Dimension],
}

const OF_REQUESTS: &[Dimension] = &[Dimension::ApiName, Dimension::Authentication, Dimension::FileShare];
const OF_SHARES: &[Dimension] = &[Dimension::FileShare];
const LEVEL: &[Aggregation] = &[Aggregation::Average, Aggregation::Minimum, Aggregation::Maximum];
const PEAK: &[Aggregation] = &[Aggregation::Maximum, Aggregation::Average, Aggregation::Minimum];

impl Metric {
    /// All of them.
    pub const ALL: [Metric; 14] = [
        Metric::Transactions,
        Metric::Ingress,
        Metric::Egress,
        Metric::SuccessE2eLatency,
        Metric::SuccessServerLatency,
        Metric::Availability,
        Metric::FileShareMaxUsedIops,
        Metric::FileShareMaxUsedBandwidth,
        Metric::FileShareAvailableBurstCredits,
        Metric::FileShareCapacityQuota,
        Metric::FileCapacity,
        Metric::FileShareCount,
        Metric::FileShareProvisionedIops,
        Metric::FileShareProvisionedBandwidth,
    ];

    /// The one of this name, in any case.
    pub fn of(name: &str) -> Option<Self> {
        Metric::ALL.into_iter().find(|one| one.definition().name.eq_ignore_ascii_case(name))
    }

    /// What is said of it.
    pub fn definition(self) -> Definition {
        let of = |name, description, unit, aggregations, dimensions| Definition {
            name,
            description,
            unit,
            aggregations,
            dimensions,
        };
        match self {
            Metric::Transactions => {
                let text = "Requests that were answered, successes and errors.";
                of("Transactions", text, "Count", &[Aggregation::Total], &Dimension::ALL)
            }
            Metric::Ingress => of("Ingress", "Bytes of requests.", "Bytes", &[Aggregation::Total], OF_REQUESTS),
            Metric::Egress => of("Egress", "Bytes of responses.", "Bytes", &[Aggregation::Total], OF_REQUESTS),
            Metric::SuccessE2eLatency => {
                let text = "How long requests were in the server, with all that they waited for.";
                of("SuccessE2ELatency", text, "MilliSeconds", &[Aggregation::Average], OF_REQUESTS)
            }
            Metric::SuccessServerLatency => {
                let text = "How long requests were in the server, without what they waited for limits of their share.";
                of("SuccessServerLatency", text, "MilliSeconds", &[Aggregation::Average], OF_REQUESTS)
            }
            Metric::Availability => {
                let text = "The part of the requests that neither the server nor its store failed, in percent.";
                of("Availability", text, "Percent", &[Aggregation::Average], OF_REQUESTS)
            }
            Metric::FileShareMaxUsedIops => {
                let text = "Requests a second, of the minute that had most.";
                of("FileShareMaxUsedIOPS", text, "CountPerSecond", PEAK, OF_SHARES)
            }
            Metric::FileShareMaxUsedBandwidth => {
                let text = "MiB a second that were read and written, of the minute that had most.";
                of("FileShareMaxUsedBandwidthMiBps", text, "CountPerSecond", PEAK, OF_SHARES)
            }
            Metric::FileShareAvailableBurstCredits => {
                let text = "Credits for bursts that are left, of shares that are provisioned.";
                of("FileShareAvailableBurstCredits", text, "Count", LEVEL, OF_SHARES)
            }
            Metric::FileShareCapacityQuota => {
                of("FileShareCapacityQuota", "The most that shares may hold.", "Bytes", LEVEL, OF_SHARES)
            }
            Metric::FileCapacity => {
                let text = "Bytes that the files of shares take, of RAM disks and of folders with a quota.";
                of("FileCapacity", text, "Bytes", LEVEL, OF_SHARES)
            }
            Metric::FileShareCount => of("FileShareCount", "Shares that there are.", "Count", LEVEL, &[]),
            Metric::FileShareProvisionedIops => {
                let text = "Requests a second that shares are provisioned with.";
                of("FileShareProvisionedIOPS", text, "CountPerSecond", LEVEL, OF_SHARES)
            }
            Metric::FileShareProvisionedBandwidth => {
                let text = "MiB a second that shares are provisioned with.";
                of("FileShareProvisionedBandwidthMiBps", text, "CountPerSecond", LEVEL, OF_SHARES)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_case() {
        for metric in Metric::ALL {
            let definition = metric.definition();
            assert_eq!(Metric::of(&definition.name.to_lowercase()), Some(metric));
            assert!(!definition.aggregations.is_empty());
        }
        assert_eq!(Dimension::of("apiname"), Some(Dimension::ApiName));
        assert_eq!((Metric::of("Uptime"), Aggregation::of("Median")), (None, None));
    }
}
