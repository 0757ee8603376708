//! How much memory the process may take: what the machine has, and what is allowed to who was started on it.

use std::fs;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

/// Where the groups of processes are that the kernel bounds together, and which of them this process is in.
const GROUPS: (&str, &str) = ("/sys/fs/cgroup", "/proc/self/cgroup");

/// Addresses that threads' stacks and files in memory take.
const STACKS_BYTES: u64 = 256 << 20;
/// Addresses that the C library takes for its arenas, most of which hold nothing: eight of 64 MiB for each core.
const ARENAS_OF_CORE_BYTES: u64 = 8 * (64 << 20);

/// The part of all addresses that may hold something at a time: the heap keeps those that it had, which buffers cannot have.
const ADDRESSES_PART: (u64, u64) = (5, 6);

/// Bytes that this process may still take, by the machine's memory, RLIMIT_AS, RLIMIT_DATA and the limits of its control groups.
pub(crate) fn left_to_this_process() -> u64 {
    let machine = rustix::system::sysinfo();
    let (all, data) = used(&fs::read_to_string("/proc/self/status").unwrap_or_default());
    let of_process = [(Resource::As, all + empty_addresses()), (Resource::Data, data)]
        .map(|(resource, used)| getrlimit(resource).current.map_or(u64::MAX, |limit| of_addresses(limit, used)));
    let of_groups = fs::read_to_string(GROUPS.1).map_or(u64::MAX, |own| of_groups(&own, Path::new(GROUPS.0)));
    let of_machine = (machine.totalram as u64).saturating_mul(u64::from(machine.mem_unit));
    of_process.into_iter().fold(of_machine.min(of_groups), u64::min)
}

/// What may be held where so many bytes of addresses may be had.
fn of_addresses(limit: u64, used: u64) -> u64 {
    limit.saturating_sub(used) / ADDRESSES_PART.1 * ADDRESSES_PART.0
}

/// Bytes of addresses that the process takes in the end and that hold nothing: they count for RLIMIT_AS alone.
pub(crate) fn empty_addresses() -> u64 {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    cores * ARENAS_OF_CORE_BYTES + STACKS_BYTES
}

/// Bytes of address space, and of data, that are in use by `/proc/PID/status`.
fn used(status: &str) -> (u64, u64) {
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0) << 10
    };
    (bytes("VmSize:"), bytes("VmData:"))
}

/// The least that the control groups named in `own` allow, and those around them. It is asked for below `root`, where a container has its
/// own group at the top.
fn of_groups(own: &str, root: &Path) -> u64 {
    let mut least = u64::MAX;
    for line in own.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
        let (top, name) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            named if named.split(',').any(|one| one == "memory") => (root.join("memory"), "memory.limit_in_bytes"),
            _ => continue,
        };
        let group = top.join(group.trim_start_matches('/'));
        for folder in group.ancestors().take_while(|folder| folder.starts_with(&top)) {
            let limit = fs::read_to_string(folder.join(name)).ok().and_then(|text| text.trim().parse().ok());
            least = least.min(limit.unwrap_or(u64::MAX));
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn the_least_of_the_groups_around_is_what_counts() {
        let root = tree(&[
            ("a/b/memory.max", "max\n"),
            ("a/memory.max", "1048576\n"),
            ("memory.max", "2097152\n"),
            ("memory/x/memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory/memory.limit_in_bytes", "524288\n"),
            ("cpu/memory.max", "1\n"),
        ]);
        let least = |own| of_groups(own, root.path());
        assert_eq!(least("0::/a/b\n"), 1 << 20);
        assert_eq!(least("0::/\n"), 2 << 20);
        assert_eq!(least("0::/of/another/namespace\n"), 2 << 20);
        assert_eq!(least("9:cpu:/\n4:memory:/x\n0::/a\n"), 512 << 10);
        assert_eq!(least("4:cpu,memory:/x\n"), 512 << 10);
        assert_eq!(least("9:cpu:/\nnonsense\n"), u64::MAX);
        assert_eq!(of_groups("0::/\n", Path::new("/nowhere")), u64::MAX);
    }

    #[test]
    fn what_is_in_use_is_read_from_the_kernels_lines() {
        assert_eq!(used("Name:\tx\nVmSize:\t  500 kB\nVmRSS:\t 7 kB\nVmData:\t   20 kB\n"), (500 << 10, 20 << 10));
        assert_eq!(used("VmSize:\tmuch\n"), (0, 0));
    }

    #[test]
    fn a_part_of_the_addresses_is_the_heaps_to_keep() {
        assert_eq!(of_addresses(700 << 20, 100 << 20), 500 << 20);
        assert_eq!(of_addresses(1, 2), 0);
    }

    #[test]
    fn some_memory_is_left_here() {
        let left = left_to_this_process();
        assert!(left > 1 << 20 && left < 1 << 50, "{left} bytes");
    }
}
