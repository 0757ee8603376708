//! How many things the server may hold at a time, from how many descriptors and how much memory it may have.

use std::io;
use std::os::fd::AsFd;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use store::CacheBounds;

use crate::resource::memory;
use crate::resource::pool::STACK_BYTES;

/// Descriptors that everything else needs: shards, stores, the catalog, the admin socket, what is opened on the way to a file.
const RESERVE_MIN: u64 = 64;
/// With less there is not enough for clients beside that.
const DESCRIPTORS_MIN: u64 = 2 * RESERVE_MIN;
/// The reserve is at least this part of all.
const RESERVE_SHARE: u64 = 16;
/// The most connections: each costs a few KiB, too.
const CONNECTIONS_MAX: u64 = 65_536;
/// The most opens of one user: each costs memory, too.
const OPENS_OF_USER_MAX: u64 = 65_536;
/// The most sessions of one user, who may be an account that many clients sign in with.
const SESSIONS_OF_USER_MAX: u64 = 16_384;

/// The most bytes that all peers together make the server hold.
const BYTES_MAX: u64 = 2 << 30;
/// With less the largest requests could not be served beside others.
const BYTES_MIN: u64 = 128 << 20;
/// The part of the memory that this is. What waits on top of it takes a third as much, the rest is for what follows and for the program.
const BYTES_PART: (u64, u64) = (3, 8);
/// With less memory than that there is not enough for all of it.
const MEMORY_MIN: u64 = BYTES_MIN / BYTES_PART.0 * BYTES_PART.1;

/// The parts of the memory for names of directories that are held, for buffers that are kept, and for the stacks of threads.
const NAMES_PART: u64 = 16;
const NAMES_BYTES_MIN: u64 = 8 << 20;
const KEPT_PART: u64 = 16;
/// The part of the memory for what is known of files, and how much that is at least and at most.
const KNOWN_PART: u64 = 32;
const KNOWN_BYTES: (u64, u64) = (8 << 20, 256 << 20);
/// The eighths of the descriptors that are kept open at most for who opens the file next, as long as so many are not in use; they are what others
/// have left, and given up where these want more.
const KNOWN_DESCRIPTORS_EIGHTHS: (u64, u64) = (5, 6);
const KNOWN_DESCRIPTORS_MAX: u64 = 16_384;
/// Small buffers that are kept at most.
const KEPT_SMALL_MAX: u64 = 16 << 20;
const STACKS_PART: u64 = 8;
/// What RAM disks leave of the memory: half, or all that everything else may take.
const BESIDE_RAM_DISKS_MAX: u64 = 4 << 30;
/// Threads that wait for devices: ten devices that hang leave some.
const THREADS: (u64, u64) = (40, 512);

/// The longest table of descriptors that is made ahead: 2 MiB of the kernel's memory.
const TABLE_MAX: u64 = 262_144;

/// The bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capacity {
    /// Descriptors there are.
    pub(crate) descriptors: u64,
    /// Connections of all.
    pub(crate) connections: u64,
    /// Connections of one user: half of all.
    pub(crate) connections_of_user: u64,
    /// Opens of all.
    pub(crate) opens: u64,
    /// Opens of one user: half of all, so that others always have some.
    pub(crate) opens_of_user: u64,
    /// Sessions of one user.
    pub(crate) sessions_of_user: u64,
    /// Bytes that all peers together make the server hold.
    pub(crate) bytes: u64,
    /// Bytes for names of directories that are held.
    pub(crate) names: u64,
    /// Bytes for what is known of files, and descriptors that are kept open for who opens them next.
    pub(crate) known_bytes: u64,
    pub(crate) known_descriptors: u64,
    /// Bytes of small buffers that all shards keep while nobody needs them, and of larger ones.
    pub(crate) kept_small_buffers: u64,
    pub(crate) kept_buffers: u64,
    /// Threads that wait for devices.
    pub(crate) threads: u64,
    /// Bytes of all RAM disks.
    pub(crate) ram_disks: u64,
}

impl Capacity {
    /// That of a process with so many descriptors and bytes of memory: a third of the descriptors that are not kept in reserve is for
    /// connections, the rest for opens; three eighths of the memory are for what peers make it hold.
    pub(crate) fn of(descriptors: u64, memory: u64) -> Self {
        let shared = descriptors.saturating_sub((descriptors / RESERVE_SHARE).max(RESERVE_MIN)).max(8);
        let connections = (shared / 3).min(CONNECTIONS_MAX);
        let opens = shared - connections;
        Capacity {
            descriptors,
            connections,
            connections_of_user: connections / 2,
            opens,
            opens_of_user: (opens / 2).min(OPENS_OF_USER_MAX),
            sessions_of_user: SESSIONS_OF_USER_MAX,
            bytes: (memory / BYTES_PART.1 * BYTES_PART.0).clamp(BYTES_MIN, BYTES_MAX),
            names: (memory / NAMES_PART).max(NAMES_BYTES_MIN),
            known_bytes: (memory / KNOWN_PART).clamp(KNOWN_BYTES.0, KNOWN_BYTES.1),
            known_descriptors: (descriptors / 8 * KNOWN_DESCRIPTORS_EIGHTHS.0).min(KNOWN_DESCRIPTORS_MAX),
            kept_small_buffers: (memory / KEPT_PART / 4).min(KEPT_SMALL_MAX),
            kept_buffers: memory / KEPT_PART / 4 * 3,
            threads: (memory / STACKS_PART / STACK_BYTES).clamp(THREADS.0, THREADS.1),
            ram_disks: memory - (memory / 2).min(BESIDE_RAM_DISKS_MAX),
        }
    }

    /// What the cache of what is known of files may hold.
    pub(crate) fn known(&self) -> CacheBounds {
        let descriptors = usize::try_from(self.known_descriptors).unwrap_or(usize::MAX);
        let highest = i32::try_from(self.descriptors / 8 * KNOWN_DESCRIPTORS_EIGHTHS.1).unwrap_or(i32::MAX);
        CacheBounds { bytes: self.known_bytes, descriptors, highest_descriptor: highest, ..CacheBounds::default() }
    }

    /// The same where so many bytes are for what is known of files. RAM disks leave room for what is more than it would be.
    pub(crate) fn with_known_bytes(self, known_bytes: u64) -> Self {
        let more = known_bytes.saturating_sub(self.known_bytes);
        Capacity { known_bytes, ram_disks: self.ram_disks.saturating_sub(more), ..self }
    }

    /// What is for what is known of files, where nobody says how much.
    pub(crate) fn usual_known_bytes() -> u64 {
        (memory::left_to_this_process() / KNOWN_PART).clamp(KNOWN_BYTES.0, KNOWN_BYTES.1)
    }

    /// That of this process, which from now on may have as many descriptors as the machine allows it.
    pub(crate) fn of_this_process() -> Self {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let descriptors = match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
            Ok(()) => maximum,
            Err(error) => {
                let cause = io::Error::from(error);
                tracing::warn!(name: "descriptor_limit_fixed", error = %cause, descriptors = current, "the limit of descriptors cannot be raised");
                current
            }
        };
        let memory = memory::left_to_this_process();
        let descriptors = descriptors.unwrap_or(u64::from(u32::MAX));
        let capacity = Capacity::of(descriptors, memory);
        if descriptors < DESCRIPTORS_MIN {
            tracing::warn!(
                name: "descriptors_few",
                descriptors, descriptors_min = DESCRIPTORS_MIN,
                "{descriptors} descriptors are left to the server, which may end for want of them: allow it {DESCRIPTORS_MIN} at least, by `ulimit -n`"
            );
        }
        if memory < MEMORY_MIN {
            let (left, needed, empty) = (memory >> 20, MEMORY_MIN >> 20, memory::empty_addresses() >> 20);
            tracing::warn!(
                name: "memory_little",
                memory_mib = left, memory_min_mib = needed,
                "{left} MiB of memory are left to the server, which may end for want of them: allow it {needed} MiB, by \
                 `ulimit -d` or a container rather than by `ulimit -v`, of which {empty} MiB go to addresses that hold nothing"
            );
        }
        capacity
    }

    /// Has the kernel make the table of this process's descriptors as long as it will be, with a copy of `any` at its end. Else it makes a
    /// longer one in the middle of an accept or an open, and waits there until every core has seen it: tens of milliseconds.
    pub(crate) fn prepare_descriptors(&self, any: impl AsFd) {
        let Some(last) = i32::try_from(self.descriptors.min(TABLE_MAX)).ok().and_then(|count| count.checked_sub(1))
        else {
            return;
        };
        if let Err(cause) = rustix::io::fcntl_dupfd_cloexec(any, last) {
            tracing::debug!(%cause, last, "the table of descriptors grows when it has to");
        }
    }
}

impl Default for Capacity {
    /// As many as there may be.
    fn default() -> Self {
        Capacity::of(u64::from(u32::MAX), u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::budgets::ANSWERS_BYTES;

    #[test]
    fn descriptors_are_shared_out_and_some_are_kept() {
        for descriptors in [0, 100, 1_024, 4_096, 524_288, 1 << 30] {
            let Capacity { connections, opens, opens_of_user, connections_of_user, .. } =
                Capacity::of(descriptors, u64::MAX);
            assert!(
                descriptors < 100 || connections + opens <= descriptors - RESERVE_MIN.min(descriptors),
                "{descriptors}"
            );
            assert!(opens_of_user >= 1 && opens_of_user <= opens / 2, "{descriptors}");
            assert!(connections_of_user >= 1 && connections_of_user <= connections, "{descriptors}");
        }
        let small = Capacity::of(1_024, 1 << 30);
        assert_eq!((small.connections, small.opens, small.opens_of_user), (320, 640, 320));
        assert_eq!(Capacity::default().opens_of_user, OPENS_OF_USER_MAX);
    }

    #[test]
    fn the_table_of_descriptors_is_as_long_as_it_will_be() {
        let capacity = Capacity { descriptors: 1_024, ..Capacity::default() };
        capacity.prepare_descriptors(std::fs::File::open("/proc/self/status").unwrap());
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let length = status.lines().find_map(|line| line.strip_prefix("FDSize:")).unwrap();
        assert!(length.trim().parse::<u64>().unwrap() >= 1_024, "{length}");
    }

    #[test]
    fn a_part_of_the_memory_is_for_peers_within_bounds() {
        let bytes = |memory| Capacity::of(1_024, memory).bytes;
        assert_eq!([0, 512 << 20, 1 << 30, 64 << 30].map(bytes), [BYTES_MIN, 192 << 20, 384 << 20, BYTES_MAX]);
    }

    #[test]
    fn more_for_what_is_known_of_files_is_less_for_ram_disks() {
        let usual = Capacity::of(1_024, 1 << 30);
        let more = usual.with_known_bytes(usual.known_bytes + (64 << 20));
        assert_eq!(more.known().bytes, usual.known_bytes + (64 << 20));
        assert_eq!(more.ram_disks, usual.ram_disks - (64 << 20));
        assert_eq!(usual.with_known_bytes(1 << 20), Capacity { known_bytes: 1 << 20, ..usual });
    }

    #[test]
    fn all_that_the_server_may_come_to_hold_fits_into_its_memory() {
        let everything = Capacity::default();
        assert!(everything.bytes * 2 <= BESIDE_RAM_DISKS_MAX);
        assert_eq!(Capacity::of(1_024, 512 << 20).ram_disks, 256 << 20);
        for memory in [MEMORY_MIN, 512 << 20, 1 << 30, 4 << 30] {
            let capacity = Capacity::of(1_024, memory);
            let answers = (capacity.bytes / 4).max(ANSWERS_BYTES);
            let peers = capacity.bytes + capacity.bytes / 4 + capacity.bytes / 16 + answers;
            let rest = capacity.names
                + capacity.known_bytes
                + capacity.kept_small_buffers
                + capacity.kept_buffers
                + capacity.threads * STACK_BYTES;
            // The program itself, and what allocators do not give back.
            let program = memory / 16;
            assert!(peers + rest + program <= memory, "{} of {} MiB", (peers + rest + program) >> 20, memory >> 20);
        }
    }
}
