//! How fast a client sends what it has begun, and takes what waits for it: who is slow holds memory for as long as it takes.
//!
//! Only that time counts in which the server waits for the client: there is room for more of its frame, or an answer waits to be taken.
//! What waits for memory, for a disk or for a thread is not slow for that.

use std::time::Duration;

use tokio::time::Instant;

/// What moves at less than that is slow: 8 MiB take longer than ten seconds.
const QUICK_BYTES_A_SECOND: u64 = 768 << 10;
/// Of fewer bytes, in less than [`JUDGED_TIME_MIN`], it is not said how fast they move.
const JUDGED_BYTES_MIN: u64 = 96 << 10;
const JUDGED_TIME_MIN: Duration = Duration::from_secs(1);
/// The pace is that of one such span and of what has passed of the next.
const SPAN: Duration = Duration::from_secs(2);
/// More is not held against a client.
const ARREARS_MAX: Duration = Duration::from_secs(75);

/// How fast a connection sends or takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pace {
    #[default]
    Quick,
    Slow,
}

/// Who keeps a connection waiting that rests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Nothing has begun, and nothing is to be taken.
    #[default]
    Idle,
    /// Its client, for whom this many bytes are held meanwhile.
    ForClient { held: u64 },
    /// The server: memory, a disk, a thread, another client.
    ForServer,
}

/// Measures one connection each time that it rests.
#[derive(Default)]
pub(crate) struct Tempo {
    /// When it rested last, and what for.
    rested: Option<(Instant, Waiting)>,
    /// Bytes that had moved in all then.
    moved: u64,
    spans: [Span; 2],
    began: Option<Instant>,
    pace: Pace,
    /// For how long more than was earned with what moved the client was waited for.
    arrears: Duration,
}

#[derive(Clone, Copy, Default)]
struct Span {
    waited: Duration,
    moved: u64,
}

impl Tempo {
    /// The connection rests. `moved` bytes have been received and sent in all. A client that moves what is held for it within what `earned_by_all`
    /// gives for so many bytes is never in arrears. Tells for how long how much was held for the client since it rested last.
    pub(crate) fn rest(
        &mut self,
        waiting: Waiting,
        moved: u64,
        earned_by_all: impl FnOnce(u64) -> Duration,
    ) -> (Duration, u64) {
        let before = self.rested.map_or(Waiting::Idle, |(_, before)| before);
        if before == Waiting::Idle && waiting == Waiting::Idle {
            (self.moved, self.arrears) = (moved, Duration::ZERO);
            return (Duration::ZERO, 0);
        }
        let now = Instant::now();
        let (waited, held) = match (before, self.rested) {
            (Waiting::ForClient { held }, Some((since, _))) => (now - since, held),
            _ => (Duration::ZERO, 0),
        };
        // What has gathered while the server kept it waiting says nothing.
        let step = if before == Waiting::ForServer { 0 } else { moved - self.moved };
        (self.rested, self.moved) = (Some((now, waiting)), moved);
        self.judge(now, Span { waited, moved: step });
        self.arrears = match waiting {
            Waiting::Idle => Duration::ZERO,
            Waiting::ForServer => self.arrears,
            Waiting::ForClient { .. } => {
                let earned = earned_by_all(held).as_secs_f64() * step as f64 / held.max(1) as f64;
                let earned = Duration::try_from_secs_f64(earned).unwrap_or(Duration::MAX);
                (self.arrears + waited).saturating_sub(earned).min(ARREARS_MAX)
            }
        };
        (waited, held)
    }

    fn judge(&mut self, now: Instant, span: Span) {
        let passed = self.began.map_or(SPAN * 2, |began| now - began);
        if passed >= SPAN {
            self.began = Some(now);
            let last = if passed < SPAN * 2 { self.spans[1] } else { Span::default() };
            self.spans = [last, Span::default()];
        }
        self.spans[1].waited += span.waited;
        self.spans[1].moved += span.moved;
        let [last, this] = self.spans;
        let (waited, moved) = (last.waited + this.waited, last.moved + this.moved);
        if moved >= JUDGED_BYTES_MIN || waited >= JUDGED_TIME_MIN {
            let is_slow = (moved as f64) < waited.as_secs_f64() * QUICK_BYTES_A_SECOND as f64;
            self.pace = if is_slow { Pace::Slow } else { Pace::Quick };
        }
    }

    pub(crate) fn pace(&self) -> Pace {
        self.pace
    }

    /// For how long the client has been waited for beyond what it earned.
    pub(crate) fn arrears(&self) -> Duration {
        self.arrears
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    const ALL: fn(u64) -> Duration = |_| Duration::from_secs(60);
    const HELD: Waiting = Waiting::ForClient { held: 8 << 20 };

    /// Lets a client that is waited for move `bytes` a second for so many seconds, in steps of 100 ms.
    async fn go_on(tempo: &mut Tempo, bytes: u64, seconds: u64) {
        for _ in 0..seconds * 10 {
            sleep(Duration::from_millis(100)).await;
            tempo.rest(HELD, tempo.moved + bytes / 10, ALL);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_becomes_slow_or_quick_is_judged_anew_within_seconds() {
        let mut tempo = Tempo::default();
        tempo.rest(HELD, 0, ALL);
        go_on(&mut tempo, 300 << 10, 1).await;
        assert_eq!(tempo.pace(), Pace::Slow);
        go_on(&mut tempo, 10 << 20, 4).await;
        assert_eq!(tempo.pace(), Pace::Quick);
        go_on(&mut tempo, 0, 5).await;
        assert_eq!(tempo.pace(), Pace::Slow);
    }

    #[tokio::test(start_paused = true)]
    async fn who_moves_much_at_once_and_stands_still_then_is_slow_and_in_arrears() {
        let mut tempo = Tempo::default();
        tempo.rest(HELD, 7 << 20, ALL);
        assert_eq!(tempo.pace(), Pace::Quick);
        go_on(&mut tempo, 0, 5).await;
        assert_eq!(tempo.pace(), Pace::Slow);
        assert!(tempo.arrears() >= Duration::from_secs(4));
        tempo.rest(HELD, tempo.moved + 1, ALL);
        assert!(tempo.arrears() >= Duration::from_secs(4), "a byte earns nothing");
        go_on(&mut tempo, 1 << 20, 2).await;
        assert_eq!(tempo.arrears(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_slow_and_steady_is_never_in_arrears() {
        let mut tempo = Tempo::default();
        tempo.rest(HELD, 0, ALL);
        go_on(&mut tempo, 150 << 10, 50).await;
        assert_eq!((tempo.pace(), tempo.arrears()), (Pace::Slow, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn time_in_which_the_server_keeps_it_waiting_does_not_count_nor_what_gathers_then() {
        let mut tempo = Tempo::default();
        tempo.rest(HELD, 1 << 20, ALL);
        tempo.rest(Waiting::ForServer, 1 << 20, ALL);
        sleep(Duration::from_secs(100)).await;
        tempo.rest(Waiting::ForServer, 1 << 20, ALL);
        tempo.rest(HELD, 2 << 20, ALL);
        assert_eq!((tempo.pace(), tempo.arrears()), (Pace::Quick, Duration::ZERO));
        go_on(&mut tempo, 100 << 10, 2).await;
        assert_eq!(tempo.pace(), Pace::Slow);
        tempo.rest(Waiting::ForServer, tempo.moved, ALL);
        sleep(Duration::from_secs(100)).await;
        tempo.rest(HELD, tempo.moved + (1 << 20), ALL);
        assert_eq!(tempo.pace(), Pace::Slow, "what the kernel has gathered is not quick");
    }
}
