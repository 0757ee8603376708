//! What the machine tells of the server: the CPU time of its shards, how its connections are doing, and what signing and sealing cost here.

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use insight::ShardTime;
use insight::why::{Path, TimeOfDay};
use jiff::Timestamp;
use secure::Role;
use secure::seal::{Cipher, NonceSpace, Sealer, TRANSFORM_HEADER_LENGTH};
use secure::sign::{SigningAlgorithm, SigningKey};
use wire::ids::SessionId;

/// The names of shards' threads begin with this, and end with their numbers.
const SHARD: &str = "multilane-";
/// What is signed or sealed to see what that costs, and how often; the fastest counts.
const SAMPLE_BYTES: usize = 64 << 10;
const SAMPLES: usize = 8;

/// The time of each shard since it began, by its number; empty where it cannot be read.
pub(super) fn shard_times() -> Vec<ShardTime> {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    let times = threads.flatten().filter_map(|thread| {
        let read = |name| fs::read_to_string(thread.path().join(name)).ok();
        let number = shard_number(&read("comm")?)?;
        Some((number, shard_time(&read("schedstat")?)?))
    });
    let mut times: Vec<(usize, ShardTime)> = times.collect();
    times.sort_unstable();
    times.into_iter().map(|(_, time)| time).collect()
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
pub(super) fn path(local: &str, peer: &str) -> Option<(Path, Duration)> {
    let ends: (SocketAddr, SocketAddr) = (local.parse().ok()?, peer.parse().ok()?);
    let state = netif::tcp_state(ends.0, ends.1).ok()?;
    let path = Path {
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
