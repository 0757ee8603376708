//! The command line of `multilane compare`.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use control::Error;
use load::compare::{Op, Protection, Workload};
use load::network::{Network, Sides};

use crate::arguments::{Switch, milliseconds};
use crate::remote::arguments::Who;
use crate::remote::place::Place;

const EXAMPLES: &str = "\
Examples:
  multilane compare --quick
  multilane compare --quick --against samba --json result.json --html result.html
  multilane compare --workload mt-multi --op read --block 4K --block 1M --channels 1 --channels 4
  multilane compare --network rss --workload mt-multi --channels 4
  multilane compare --server smb://alice@nas/media --protection seal
  multilane compare --metadata --store-latency 2 --html metadata.html

Without --server it starts this program's own server on a free port of the loopback address, with a private data folder and a
RAM disk, and takes it away afterwards. On servers that run it makes files multilane-compare-*, and removes them.
The password for those is taken from MULTILANE_PASSWORD, or from standard input with --password-stdin.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Compare {
    /// A subset of the cases that ends within three minutes
    #[arg(long)]
    pub(crate) quick: bool,

    /// Measure metadata instead: clients who create, open, look at, read and delete small files, with the account's metadata caching off
    /// and on. On a server that runs it is as it is
    #[arg(
        long,
        conflicts_with_all = ["workload", "op", "block", "protection", "channels", "threads", "file_size", "curves"]
    )]
    pub(crate) metadata: bool,

    /// Of --metadata: only this number of clients; may be given several times
    #[arg(long, value_name = "N", requires = "metadata")]
    pub(crate) clients: Vec<usize>,

    /// Of --metadata: so many files, a hundred in each folder [default: 10000, with --quick 1000]
    #[arg(long, value_name = "N", requires = "metadata")]
    pub(crate) files: Option<usize>,

    /// Of --metadata: simulate a remote store behind our own server's RAM disk, each call of which takes so many milliseconds
    #[arg(long, value_name = "MS", requires = "metadata", conflicts_with = "server", value_parser = milliseconds)]
    pub(crate) store_latency: Option<Duration>,

    /// Measure this server, which runs, instead of our own
    #[arg(long, value_name = "SHARE")]
    pub(crate) server: Option<Place>,

    /// Measure this one in alternation; may be given several times. `samba` starts Debian's smbd
    #[arg(long, value_name = "SHARE|samba")]
    pub(crate) against: Vec<Other>,

    /// Measure over this network: plain, the loopback; quad, four links; rss, a link with receive queues; or d32s-v3, a link of which
    /// one direction is metered. All but plain are simulated, which needs root and iproute2
    #[arg(long, value_name = "NAME", default_value = "plain", conflicts_with = "server")]
    pub(crate) network: Network,

    /// This is the client's host of a network that is built
    #[arg(long, hide = true)]
    pub(crate) inside: Option<Sides>,

    /// Only this workload: mt-multi, mt-single, st-single or st-multi; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) workload: Vec<Workload>,

    /// Only reads, or only writes
    #[arg(long, value_name = "read|write")]
    pub(crate) op: Vec<Op>,

    /// Only this block size, such as 64K; may be given several times
    #[arg(long, value_name = "SIZE", value_parser = bytes::<u32>)]
    pub(crate) block: Vec<u32>,

    /// Only plain, sign or seal; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) protection: Vec<Protection>,

    /// Only this number of channels, and 1; may be given several times
    #[arg(long, value_name = "N")]
    pub(crate) channels: Vec<usize>,

    /// Rounds that count; one more goes before them [default: 4, with --quick 3]
    #[arg(long, value_name = "N")]
    pub(crate) rounds: Option<u32>,

    /// How long each run is measured [default: 0.5, with --quick 0.2]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) seconds: Option<Duration>,

    /// Threads for each file, of the workloads with many [default: 8]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<u32>,

    /// Requests in flight of each thread [default: 8 of many threads, less with large blocks; 16 of a single one]; of --metadata,
    /// operations of each client at once [default: 4]
    #[arg(long = "outstanding", alias = "depth", value_name = "N")]
    pub(crate) depth: Option<u32>,

    /// The length of each file [default: 64M, with --quick 16M]
    #[arg(long, value_name = "SIZE", value_parser = bytes::<u64>)]
    pub(crate) file_size: Option<u64>,

    /// Measure, too, what our server costs against connections and open files [default: on where all cases are measured]
    #[arg(long, value_name = "on|off")]
    pub(crate) curves: Option<Switch>,

    /// Write the result as JSON, to standard output where FILE is `-`
    #[arg(id = "json", long = "json", value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Write the result as one HTML page with charts
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Write the result as a section of a document in Markdown: the command, the machine and all tables
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) who: Who,
}

/// Another server.
#[derive(Clone, Debug)]
pub(crate) enum Other {
    /// Debian's smbd, started for this.
    Samba,
    /// One that runs.
    Running(Place),
}

impl FromStr for Other {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text.eq_ignore_ascii_case("samba") { Ok(Other::Samba) } else { text.parse().map(Other::Running) }
    }
}

/// `4096`, `4K`, `1M`, `2G`.
fn bytes<T: TryFrom<u64>>(text: &str) -> Result<T, Error> {
    let bytes = control::parse_bytes(text).flatten().and_then(|bytes| bytes.try_into().ok());
    bytes
        .ok_or_else(|| Error::argument(format!("{text:?} is no size in bytes"), "use a number such as 4096, 64K or 1M"))
}

fn seconds(text: &str) -> Result<Duration, Error> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| Error::argument(format!("{text:?} is no number of seconds"), "use a number such as 0.5"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_of_1024() {
        for (text, size) in [
            ("512", 512),
            ("4K", 4096),
            ("4KB", 4096),
            ("64KiB", 65536),
            ("64k", 65536),
            ("1M", 1 << 20),
            ("1G", 1 << 30),
        ] {
            assert_eq!(bytes::<u32>(text).unwrap(), size);
        }
        for text in ["", "K", "-1", "4 K", "1.5M", "99999999999999999999", "4G"] {
            assert!(bytes::<u32>(text).is_err(), "{text}");
        }
    }
}
