//! What a comparison of metadata came to, as its JSON has it. Names say their units.

use serde::Serialize;

use super::super::occasion::Occasion;
use super::super::servers;
use super::plan::{Caching, Workload};

/// The whole result.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// When it was made, and on what.
    #[serde(flatten)]
    pub occasion: Occasion,
    /// How it was measured.
    pub method: Method,
    /// What was compared; the first is what the others are compared with.
    pub servers: Vec<servers::Description>,
    /// One for each workload, server, number of clients, and caching where it can be switched.
    pub cases: Vec<Case>,
    /// What caching does: one for each workload and number of clients, of servers whose caching can be switched.
    pub effects: Vec<Effect>,
    /// The first server against each other one.
    pub against: Vec<Against>,
    /// What the reader should know beside that, in sentences.
    pub notes: Vec<String>,
}

/// How it was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Method {
    /// Rounds that count.
    pub rounds: u32,
    /// How long each workload was measured in a turn; deleting takes as long as it takes.
    pub run_seconds: f64,
    /// Files.
    pub files: usize,
    /// Folders that they lie in.
    pub folders: usize,
    /// The length of each file.
    pub file_bytes: usize,
    /// Operations of each client at once.
    pub depth: u32,
    /// The simulated latency of our own server's store, in milliseconds; `None` where there is none.
    pub store_latency_ms: Option<f64>,
    /// The same in sentences.
    pub description: String,
}

/// One case. Medians are over the rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// What clients do.
    pub workload: Workload,
    /// As in `servers`.
    pub server: String,
    /// Clients, each with a session of one connection.
    pub clients: usize,
    /// Whether the account had metadata caching; `None` where that is not ours to know.
    pub caching: Option<Caching>,
    /// Operations of each client at once.
    pub depth: u32,
    /// Rounds that it stands on.
    pub rounds: usize,
    /// Operations in all of them. All succeeded: one that does not ends the comparison.
    pub operations: u64,
    /// How long an operation took, from its first request to its last answer.
    pub latency: Latency,
    /// Operations of all clients in a second: available IOPS.
    pub operations_per_second_median: f64,
    /// Bytes that all clients sent and received, headers and all, in MiB a second.
    pub network_mibps_median: f64,
    /// The same for each operation.
    pub network_bytes_per_operation: f64,
}

/// In microseconds: medians of each round's figures.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    /// The mean.
    pub mean_us: f64,
    /// Half of the operations took longer.
    pub p50_us: f64,
    /// One of 100.
    pub p99_us: f64,
}

/// With caching divided by without it, round by round.
#[derive(Clone, Debug, Serialize)]
pub struct Effect {
    /// What clients do.
    pub workload: Workload,
    /// As in `servers`.
    pub server: String,
    /// Clients.
    pub clients: usize,
    /// Of the mean latency: below 1 where caching helps.
    pub latency_mean: Ratio,
    /// Of the latency that one operation in 100 exceeds.
    pub latency_p99: Ratio,
    /// Of operations a second: above 1 where caching helps.
    pub operations_per_second: Ratio,
    /// Of bytes a second over the network.
    pub network_mibps: Ratio,
    /// Operations a second without caching a second time, divided by the first time: what chance does.
    pub chance: Ratio,
}

/// The first server's operations a second divided by another's in the same round.
#[derive(Clone, Debug, Serialize)]
pub struct Against {
    /// What clients do.
    pub workload: Workload,
    /// The other.
    pub server: String,
    /// Clients on both.
    pub clients: usize,
    /// Whether the first server's account had metadata caching.
    pub caching: Option<Caching>,
    /// The ratio.
    pub operations_per_second: Ratio,
}

/// A ratio over the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The median.
    pub median: f64,
    /// The lowest.
    pub low: f64,
    /// The highest.
    pub high: f64,
}

impl Ratio {
    /// `1.50 (1.40 to 1.62)`.
    pub fn words(self) -> String {
        let Ratio { median, low, high } = self;
        format!("{median:.2} ({low:.2} to {high:.2})")
    }
}

/// What tests make pages and tables of.
#[cfg(test)]
pub(in crate::compare) mod examples {
    use super::*;
    use crate::compare::occasion::Network;
    use crate::compare::servers::Description;

    /// Of our server with and without caching and one whose name has markup in it: small files with 1 and 8 clients.
    pub(in crate::compare) fn report() -> Report {
        let server = |name: &str| Description {
            name: name.to_owned(),
            about: "files in memory".to_owned(),
            address: "127.0.0.1:4450".to_owned(),
            is_ours: true,
        };
        let case = |server: &str, caching, clients, operations| Case {
            workload: Workload::SmallFiles,
            server: server.to_owned(),
            clients,
            caching,
            depth: 4,
            rounds: 3,
            operations: 1_000,
            latency: Latency { mean_us: 500.0, p50_us: 400.0, p99_us: 900.0 },
            operations_per_second_median: operations,
            network_mibps_median: 4.0,
            network_bytes_per_operation: 5_000.0,
        };
        let ratio = |low, median, high| Ratio { median, low, high };
        let effect = Effect {
            workload: Workload::SmallFiles,
            server: "multilane".to_owned(),
            clients: 8,
            latency_mean: ratio(0.4, 0.5, 0.6),
            latency_p99: ratio(0.4, 0.5, 0.6),
            operations_per_second: ratio(1.8, 2.0, 2.1),
            network_mibps: ratio(1.8, 2.0, 2.1),
            chance: ratio(0.98, 1.0, 1.01),
        };
        let against = Against {
            workload: Workload::SmallFiles,
            server: "a|<b>".to_owned(),
            clients: 8,
            caching: Some(Caching::On),
            operations_per_second: ratio(2.5, 3.0, 3.5),
        };
        Report {
            occasion: Occasion {
                network: Network { name: "plain".to_owned(), description: "Nothing is simulated.".to_owned() },
                ..crate::compare::report::examples::report().occasion
            },
            method: Method {
                rounds: 3,
                run_seconds: 0.5,
                files: 1_000,
                folders: 10,
                file_bytes: 4096,
                depth: 4,
                store_latency_ms: Some(2.0),
                description: String::new(),
            },
            servers: vec![server("multilane"), server("a|<b>")],
            cases: vec![
                case("multilane", Some(Caching::Off), 1, 600.0),
                case("multilane", Some(Caching::On), 1, 900.0),
                case("multilane", Some(Caching::Off), 8, 1_000.0),
                case("multilane", Some(Caching::On), 8, 2_000.0),
                case("a|<b>", None, 8, 700.0),
            ],
            effects: vec![effect],
            against: vec![against],
            notes: vec!["The store is simulated.".to_owned()],
        }
    }
}
