//! What the machine tells of the server: the CPU time of its shards, how its connections are doing, and what signing and sealing cost here.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::hint::black_box;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use insight::why::{Path as Connection, TimeOfDay};
use insight::{ShardTime, Throttled};
use jiff::Timestamp;
use secure::Role;
use secure::seal::{Cipher, NonceSpace, Sealer, TRANSFORM_HEADER_LENGTH};
use secure::sign::{SigningAlgorithm, SigningKey};
use wire::ids::SessionId;

/// The names of shards' threads begin with this, and end with their numbers.
const SHARD: &str = "multilane-";
/// That of the threads that wait for stores.
const POOL: &str = "multilane-io";
/// What is signed or sealed to see what that costs, and how often; the fastest counts.
const SAMPLE_BYTES: usize = 64 << 10;
const SAMPLES: usize = 8;

/// What threads have had of the cores since they began.
#[derive(Default)]
pub(crate) struct Threads {
    /// The shards, by their numbers; none where that cannot be read.
    pub(super) shards: Vec<ShardTime>,
    /// Those that wait for stores, by their numbers in the system.
    pub(super) pool: HashMap<u64, ShardTime>,
}

/// One thread.
struct Thread {
    name: String,
    number: u64,
    time: ShardTime,
    /// It runs, or would where it had a core.
    has_work: bool,
}

/// Shards, and threads that wait for stores; and a few others of the server's.
fn all_threads() -> impl Iterator<Item = Thread> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    threads.filter_map(|thread| {
        let read = |name| fs::read_to_string(thread.path().join(name)).ok();
        let name = read("comm")?.trim_end().to_owned();
        if !name.starts_with(SHARD) {
            return None;
        }
        Some(Thread {
            name,
            number: thread.file_name().to_str()?.parse().ok()?,
            time: shard_time(&read("schedstat")?)?,
            has_work: has_work(&read("stat")?),
        })
    })
}

/// Those of now.
pub(super) fn threads() -> Threads {
    let (mut shards, mut pool) = (Vec::new(), HashMap::new());
    for thread in all_threads() {
        match shard_number(&thread.name) {
            Some(number) => shards.push((number, thread.time)),
            None if thread.name == POOL => _ = pool.insert(thread.number, thread.time),
            None => {}
        }
    }
    shards.sort_unstable();
    Threads { shards: shards.into_iter().map(|(_, time)| time).collect(), pool }
}

/// Shards at one moment, to see later whether they had a core.
pub(crate) struct ShardsThen {
    at: Instant,
    times: HashMap<usize, ShardTime>,
}

/// The shards as they are now.
pub(crate) fn shards_now() -> ShardsThen {
    let times = all_threads().filter_map(|thread| Some((shard_number(&thread.name)?, thread.time)));
    ShardsThen { at: Instant::now(), times: times.collect() }
}

impl ShardsThen {
    /// True where each of these shards has had work since then, and for half of the time or more no core to do it on.
    pub(crate) fn had_no_core(&self, shards: &[usize]) -> bool {
        let half = self.at.elapsed() / 2;
        let now: HashMap<usize, Thread> =
            all_threads().filter_map(|thread| Some((shard_number(&thread.name)?, thread))).collect();
        let lacked = |number: &usize| {
            let (Some(before), Some(now)) = (self.times.get(number), now.get(number)) else { return false };
            lacked_core(*before, now.time, now.has_work, half)
        };
        !shards.is_empty() && shards.iter().all(lacked)
    }
}

/// The system counts a wait when it is over. One that goes on is seen by a thread that could run, and has not.
fn lacked_core(before: ShardTime, now: ShardTime, has_work: bool, half: Duration) -> bool {
    let (ran, waited) = (now.ran.saturating_sub(before.ran), now.waited.saturating_sub(before.waited));
    waited >= half || has_work && ran < half
}

/// By a thread's stat: its state stands behind its name, which may have any letter in it.
fn has_work(stat: &str) -> bool {
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R'))
}

/// What limits of processor time have done: that of the server's control group, or of one around it.
pub(super) fn throttled() -> Throttled {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let tell = |path: &str| fs::read_to_string(path).ok().and_then(|text| throttled_of(&text));
    let stats = groups.lines().flat_map(cpu_stats).filter_map(|path| tell(&path));
    stats.max_by_key(|throttled| throttled.time).unwrap_or_default()
}

/// Where a line of `/proc/self/cgroup` says that the times of a group and of those around it are: both versions of control groups.
fn cpu_stats(line: &str) -> Vec<String> {
    let mut parts = line.splitn(3, ':');
    let (Some(_), Some(controllers), Some(group)) = (parts.next(), parts.next(), parts.next()) else {
        return Vec::new();
    };
    let roots: &[&str] = match controllers {
        "" => &["/sys/fs/cgroup", "/sys/fs/cgroup/unified"],
        of if of.split(',').any(|one| one == "cpu") => &["/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu"],
        _ => return Vec::new(),
    };
    let groups = || Path::new(group).ancestors().map(|group| group.to_string_lossy().trim_matches('/').to_owned());
    let at = |root: &&str| groups().map(|group| format!("{root}/{group}/cpu.stat")).collect::<Vec<_>>();
    roots.iter().flat_map(at).collect()
}

/// By a `cpu.stat`: microseconds in version 2, nanoseconds in version 1. `None` where there is no limit of that kind.
fn throttled_of(text: &str) -> Option<Throttled> {
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|number| number.trim().parse::<u64>().ok())
    };
    let microseconds = || number("throttled_usec").map(Duration::from_micros);
    let nanoseconds = || number("throttled_time").map(Duration::from_nanos);
    Some(Throttled { times: number("nr_throttled")?, time: microseconds().or_else(nanoseconds)? })
}

/// The number of the shard that a thread of this name is.
fn shard_number(name: &str) -> Option<usize> {
    name.trim_end().strip_prefix(SHARD)?.parse().ok()
}

/// The time of a thread, by its schedstat: nanoseconds in which it ran, and in which it waited for a core.
fn shard_time(schedstat: &str) -> Option<ShardTime> {
    let mut numbers = schedstat.split_ascii_whitespace().map(str::parse);
    let [ran, waited] = [numbers.next()?.ok()?, numbers.next()?.ok()?].map(Duration::from_nanos);
    Some(ShardTime { ran, waited })
}

/// How the connection between these ends is doing, and how long it has had something on its way. `None` where the system does not tell.
pub(super) fn path(local: &str, peer: &str) -> Option<(Connection, Duration)> {
    let ends: (SocketAddr, SocketAddr) = (local.parse().ok()?, peer.parse().ok()?);
    let state = netif::tcp_state(ends.0, ends.1).ok()?;
    let path = Connection {
        round_trip: state.round_trip,
        round_trip_min: state.round_trip_min,
        busy: 0.0,
        unanswered: state.unanswered,
    };
    Some((path, state.busy))
}

/// The time of the day, as the log has it.
pub(super) fn time_of_day() -> TimeOfDay {
    TimeOfDay::of(Timestamp::now().as_second())
}

/// What signing or sealing a byte costs here, in nanoseconds, by the names that sessions have for it. Takes some milliseconds.
pub(super) fn protection_costs() -> BTreeMap<String, f64> {
    let signing = [
        ("HMAC-SHA256", SigningAlgorithm::HmacSha256),
        ("AES-CMAC", SigningAlgorithm::AesCmac),
        ("AES-GMAC", SigningAlgorithm::AesGmac),
    ];
    let sealing = [
        ("AES-128-CCM", Cipher::Aes128Ccm),
        ("AES-128-GCM", Cipher::Aes128Gcm),
        ("AES-256-CCM", Cipher::Aes256Ccm),
        ("AES-256-GCM", Cipher::Aes256Gcm),
    ];
    let signed = signing.into_iter().map(|(name, algorithm)| (name.to_owned(), cost_of_signing(algorithm)));
    signed.chain(sealing.into_iter().map(|(name, cipher)| (name.to_owned(), cost_of_sealing(cipher)))).collect()
}

fn cost_of_signing(algorithm: SigningAlgorithm) -> f64 {
    let key = SigningKey::new(algorithm, [7; 16]);
    let mut message = vec![0; SAMPLE_BYTES];
    fastest(|| key.sign(black_box(&mut message), Role::Server))
}

fn cost_of_sealing(cipher: Cipher) -> f64 {
    let sealer = Sealer::new(cipher, &[7; 32]);
    let mut frame = vec![0; TRANSFORM_HEADER_LENGTH + SAMPLE_BYTES];
    let Ok(mut nonces) = NonceSpace::new().lease() else { return 0.0 };
    fastest(|| {
        if let Some(nonce) = nonces.take() {
            let _ = black_box(sealer.seal(black_box(&mut frame), SessionId(1), nonce));
        }
    })
}

/// Nanoseconds for a byte of the sample.
fn fastest(mut work: impl FnMut()) -> f64 {
    let times = (0..SAMPLES).map(|_| {
        let began = Instant::now();
        work();
        began.elapsed()
    });
    times.min().unwrap_or_default().as_secs_f64() * 1e9 / SAMPLE_BYTES as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_thread_is_what_it_ran_and_waited() {
        let time = ShardTime { ran: Duration::from_secs(2), waited: Duration::from_millis(5) };
        assert_eq!(shard_time("2000000000 5000000 77\n"), Some(time));
        assert_eq!((shard_time(""), shard_time("1"), shard_time("a b c")), (None, None, None));
    }

    #[test]
    fn a_thread_that_could_run_and_has_not_had_no_core() {
        let at = |ran, waited| ShardTime { ran: Duration::from_millis(ran), waited: Duration::from_millis(waited) };
        let half = Duration::from_secs(5);
        assert!(lacked_core(at(100, 0), at(300, 7_000), false, half), "it waited for one");
        assert!(lacked_core(at(100, 0), at(120, 10), true, half), "it waits for one");
        assert!(!lacked_core(at(100, 0), at(9_900, 50), true, half), "it runs, and comes to no end");
        assert!(!lacked_core(at(100, 0), at(110, 5), false, half), "it waits for something else");
        assert!(has_work("7 (a) R) S) R 1 2 3") && !has_work("7 (multilane-0) S 1 2 3") && !has_work(""));
    }

    #[test]
    fn a_limit_of_processor_time_is_read_in_both_versions_of_control_groups() {
        let told = |times, millis| Some(Throttled { times, time: Duration::from_millis(millis) });
        let second = "usage_usec 5\nnr_periods 9\nnr_throttled 3\nthrottled_usec 41000\nnr_bursts 0\n";
        assert_eq!(throttled_of(second), told(3, 41));
        assert_eq!(throttled_of("nr_periods 9\nnr_throttled 3\nthrottled_time 41000000\n"), told(3, 41));
        assert_eq!(throttled_of("usage_usec 5\nuser_usec 4\n"), None);
        let paths = cpu_stats("0::/system.slice/multilane.service");
        assert!(paths.contains(&"/sys/fs/cgroup/system.slice/multilane.service/cpu.stat".to_owned()), "{paths:?}");
        assert!(paths.contains(&"/sys/fs/cgroup/system.slice/cpu.stat".to_owned()), "{paths:?}");
        let first = cpu_stats("4:cpu,cpuacct:/hours");
        assert!(first.contains(&"/sys/fs/cgroup/cpu,cpuacct/hours/cpu.stat".to_owned()), "{first:?}");
        assert!(cpu_stats("3:cpuset:/x").is_empty());
    }

    #[test]
    fn only_shards_are_told_of() {
        assert_eq!(shard_number("multilane-0\n"), Some(0));
        assert_eq!(shard_number("multilane-12\n"), Some(12));
        for other in ["multilane-look-like\n", "multilane-\n", "multilane\n", "log\n", ""] {
            assert_eq!(shard_number(other), None, "{other:?}");
        }
    }

    #[test]
    fn what_protects_costs_something() {
        let costs = protection_costs();
        assert_eq!(costs.len(), 7);
        assert!(costs.values().all(|nanos| *nanos > 0.0), "{costs:?}");
    }
}
