//! That somebody has waited long for memory: from then on those that hold some have to move it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Who waits looks every second.
const LASTS: Duration = Duration::from_millis(2_500);

/// Of a user's connections, or of all.
pub(crate) struct Hunger {
    began: Instant,
    /// Milliseconds after that until which it lasts.
    until: AtomicU64,
    /// Who holds less is not meant.
    least: AtomicU64,
}

impl Default for Hunger {
    fn default() -> Self {
        Hunger { began: Instant::now(), until: AtomicU64::new(0), least: AtomicU64::new(0) }
    }
}

impl Hunger {
    /// Somebody waits still. Those are meant who hold `least` or more.
    pub(crate) fn note(&self, least: u64) {
        self.least.store(least, Ordering::Relaxed);
        self.until.fetch_max(self.at(LASTS), Ordering::Relaxed);
    }

    /// True where somebody waited a moment ago.
    pub(crate) fn is_felt(&self) -> bool {
        self.at(Duration::ZERO) < self.until.load(Ordering::Relaxed)
    }

    /// The same for who holds so much.
    pub(crate) fn is_felt_with(&self, held: u64) -> bool {
        held >= self.least.load(Ordering::Relaxed) && self.is_felt()
    }

    fn at(&self, from_now: Duration) -> u64 {
        u64::try_from((self.began.elapsed() + from_now).as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_is_felt_for_as_long_as_somebody_says_so_every_second() {
        let hunger = Hunger::default();
        assert!(!hunger.is_felt());
        for _ in 0..5 {
            hunger.note(5);
            sleep(Duration::from_secs(1)).await;
            assert!(hunger.is_felt() && hunger.is_felt_with(5) && !hunger.is_felt_with(4));
        }
        sleep(Duration::from_secs(2)).await;
        assert!(!hunger.is_felt());
    }
}
