//! What DiskSpd does and a client without a mount cannot: refused by name, wherever it is asked for.

use super::wrong;
use crate::engine::Failure;

/// Something that cannot be done here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// `-a`, `<Affinity>`, `<GroupAffinity>`.
    Affinity,
    /// `-l`, `<UseLargePages>`.
    LargePages,
    /// `-e`, `<ETW>`.
    EventTracing,
    /// `-Sm`, `<MemoryMappedIo>`.
    MemoryMapping,
    /// `-N`, `<FlushType>`.
    Flushing,
    /// `-y`.
    Events,
    /// `-:`, `<ExperimentFlags>`.
    Experiments,
}

impl Refused {
    /// Says so; `name` is how it was asked for.
    pub(super) fn failure(self, name: &str) -> Failure {
        let (why, remedy) = match self {
            Refused::Affinity => (
                "ties threads to the cores of Windows' processor groups, which this machine does not have",
                "leave it out, and use taskset to keep the whole program on some cores",
            ),
            Refused::LargePages => (
                "asks Windows for buffers in large pages; here requests leave from the client's own buffers",
                "leave it out",
            ),
            Refused::EventTracing => (
                "counts the events of Windows' kernel logger, which this machine does not have",
                "leave it out, and use perf or tcpdump beside the run",
            ),
            Refused::MemoryMapping => (
                "maps the file into memory; a client without a mount has only READ and WRITE requests",
                "leave it out; -Su, -Sr, -Sb and -Sw say what may be cached",
            ),
            Refused::Flushing => (
                "chooses how mapped memory is flushed, and files are not mapped here",
                "leave it out; with -Sw each write is on the server's disk before it is answered",
            ),
            Refused::Events => (
                "waits for or sets an event of Windows, which this machine does not have",
                "leave it out; a script can wait for the program, and SIGINT ends a run in order",
            ),
            Refused::Experiments => {
                ("switches experiments inside DiskSpd's own program", "leave it out, or make the flags 0")
            }
        };
        wrong(format!("{name} {why}"), remedy)
    }
}
