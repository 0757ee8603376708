//! The times of a time span, which all of its threads share: what is answered between two of them counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::engine::timer::Timer;
use crate::profile::TimeSpan;

/// A moment, in nanoseconds from when the time span began.
pub(super) type Moment = u64;

/// When a time span counts and when it ends.
#[derive(Debug)]
pub(super) struct Window {
    began: Instant,
    /// What is answered from here on counts.
    pub(super) from: Moment,
    to: AtomicU64,
    end: AtomicU64,
    /// Wakes those who wait for a moment that will not come.
    cut: watch::Sender<()>,
}

impl Window {
    /// The window of a time span that begins now.
    pub(super) fn begin(span: &TimeSpan) -> Self {
        let from = moment(span.warmup);
        let to = from.saturating_add(moment(span.duration));
        let end = to.saturating_add(moment(span.cooldown));
        Window { began: Instant::now(), from, to: to.into(), end: end.into(), cut: watch::Sender::new(()) }
    }

    pub(super) fn now(&self) -> Moment {
        moment(self.began.elapsed())
    }

    /// What is answered from here on no longer counts.
    pub(super) fn to(&self) -> Moment {
        self.to.load(Ordering::Relaxed)
    }

    /// Nothing more is asked from here on.
    pub(super) fn end(&self) -> Moment {
        self.end.load(Ordering::Relaxed)
    }

    pub(super) fn counts(&self, at: Moment) -> bool {
        at >= self.from && at < self.to()
    }

    /// How long was measured.
    pub(super) fn measured(&self) -> Duration {
        Duration::from_nanos(self.to().saturating_sub(self.from))
    }

    /// Ends it at once, earlier than it was to end.
    pub(super) fn cut_short(&self) {
        let now = self.now();
        self.to.fetch_min(now, Ordering::Relaxed);
        self.end.fetch_min(now, Ordering::Relaxed);
        self.cut.send_replace(());
    }

    /// Waits for a moment, or for the end.
    pub(super) async fn wait_until(&self, at: Moment, timer: &mut Timer) {
        let mut cut = self.cut.subscribe();
        let at = self.began + Duration::from_nanos(at.min(self.end()));
        tokio::select! {
            () = timer.wait_until(at) => {}
            _ = cut.changed() => {}
        }
    }
}

fn moment(duration: Duration) -> Moment {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
