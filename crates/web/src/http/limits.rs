//! What those who connect may take.

use std::time::Duration;

use rustix::process::{Resource, getrlimit};

/// The part of all descriptors that connections may have: of the reserve, which shares and operators need, a quarter.
const DESCRIPTORS_PART: u64 = 64;
/// The least and the most that this is.
const CONNECTIONS: (u64, u64) = (8, 64);
/// Those that are told to come again, as a part of the others.
const REFUSED_PART: usize = 4;

/// Bounds of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Connections that are served at a time, each of which asks for one thing. Those of one thousand monitors come by turns.
    pub(crate) served: usize,
    /// Connections beyond those that are told to come again at a time. The others wait for that in the kernel's queue.
    pub(crate) refused: usize,
    /// How long the head of a request may take to arrive,
    pub(crate) head_within: Duration,
    /// and all of it, with its answer, until that is taken: as long as Prometheus waits.
    pub(crate) done_within: Duration,
    /// The same for who is told to come again.
    pub(crate) refused_within: Duration,
    /// Where all places are taken, who has said nothing for so long gives up its place,
    pub(crate) silent_at_least: Duration,
    /// and so does who has not taken its answer for so long.
    pub(crate) taking_at_least: Duration,
    /// Bytes of a request's head.
    pub(crate) head_bytes: usize,
}

impl Limits {
    /// Those for a process that may have as many descriptors as this one.
    pub(crate) fn of_this_process() -> Self {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        Limits::of(descriptors)
    }

    fn of(descriptors: u64) -> Self {
        let served = (descriptors / DESCRIPTORS_PART).clamp(CONNECTIONS.0, CONNECTIONS.1) as usize;
        Limits {
            served,
            refused: served / REFUSED_PART,
            head_within: Duration::from_secs(5),
            done_within: Duration::from_secs(10),
            refused_within: Duration::from_secs(1),
            silent_at_least: Duration::from_millis(250),
            taking_at_least: Duration::from_secs(2),
            head_bytes: 16 << 10,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_descriptors_are_few_connections() {
        let connections = |descriptors| {
            let limits = Limits::of(descriptors);
            (limits.served, limits.refused)
        };
        assert_eq!(connections(0), (8, 2));
        assert_eq!(connections(1_024), (16, 4));
        assert_eq!(connections(u64::MAX), (64, 16));
    }
}
