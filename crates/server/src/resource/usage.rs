//! What each network of a user's clients has had of the user's memory lately: who has had little does not stand behind those who had much,
//! on however many connections, one after the other or at once.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::resource::address::AddressPrefix;
use crate::resource::buffers::FRAME_BYTES_MAX;

/// Half of what was had is forgotten in that time.
const HALF_LIFE: Duration = Duration::from_secs(30);
/// Who has had more stands no further behind.
const HANDICAP_MAX: Duration = Duration::from_secs(600);
/// With more networks than so many those are forgotten that have had next to nothing.
const NETWORKS: usize = 1_024;

#[derive(Default)]
pub(crate) struct Usage(Mutex<HashMap<AddressPrefix, Had>>);

/// Seconds for which a largest frame was held, with those before `at` forgotten in part.
struct Had {
    seconds: f64,
    at: Instant,
}

impl Had {
    fn now(&self, now: Instant) -> f64 {
        let passed = now.duration_since(self.at).as_secs_f64() / HALF_LIFE.as_secs_f64();
        self.seconds * (-passed).exp2()
    }
}

impl Usage {
    /// A client of `network` has had `bytes` held for it for so long.
    pub(crate) fn add(&self, network: AddressPrefix, bytes: u64, span: Duration) {
        let now = Instant::now();
        let more = span.as_secs_f64() * bytes as f64 / FRAME_BYTES_MAX as f64;
        let mut all = self.0.lock();
        if all.len() >= NETWORKS && !all.contains_key(&network) {
            all.retain(|_, had| had.now(now) >= 1.0);
        }
        let had = all.entry(network).or_insert(Had { seconds: 0.0, at: now });
        *had = Had { seconds: had.now(now) + more, at: now };
    }

    /// For how long somebody of `network` stands behind others who wait.
    pub(crate) fn handicap(&self, network: AddressPrefix) -> Duration {
        let seconds = self.0.lock().get(&network).map_or(0.0, |had| had.now(Instant::now()));
        Duration::try_from_secs_f64(seconds).unwrap_or(HANDICAP_MAX).min(HANDICAP_MAX)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_has_had_much_stands_behind_until_that_is_forgotten() {
        let (usage, much) = (Usage::default(), AddressPrefix::of("192.0.2.1:1"));
        let little = AddressPrefix::of("192.0.2.2:1");
        for _ in 0..20 {
            usage.add(much, FRAME_BYTES_MAX as u64, Duration::from_secs(7));
        }
        usage.add(little, 1 << 20, Duration::from_secs(1));
        assert_eq!(usage.handicap(much), Duration::from_secs(140));
        assert!(usage.handicap(little) < Duration::from_secs(1));
        sleep(HALF_LIFE * 2).await;
        assert_eq!(usage.handicap(much), Duration::from_secs(35));
        for number in 0..5_000 {
            usage.add(
                AddressPrefix::of(&format!("10.0.{}.{}:1", number / 250, number % 250)),
                1 << 20,
                HALF_LIFE / 100,
            );
        }
        assert!(usage.0.lock().len() <= NETWORKS && usage.handicap(much) > Duration::from_secs(30));
    }
}
