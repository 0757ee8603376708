//! How many lines of one kind the log takes: a place in the program may write a burst, and from there on so many a second.

use std::collections::HashMap;
use std::fmt::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::record;

/// Lines that one place in the program may write at once.
const BURST: u32 = 200;
/// From there on it writes one in this time.
const EVERY: Duration = Duration::from_millis(100);
/// A line that tells more bytes than so many counts as several: clients choose paths of kilobytes.
const LINE_BYTES: u32 = 512;

/// The limit, for all places. Lines of the levels debug and trace are not counted: who asks for them wants them all.
#[derive(Clone)]
pub(super) struct Limit(Arc<Inner>);

struct Inner {
    began: Instant,
    /// As many as the program has places that log.
    places: Mutex<HashMap<Identifier, Callsite>>,
    /// Lines that were left out at all places.
    left_out: AtomicU64,
}

struct Callsite {
    metadata: &'static Metadata<'static>,
    /// When the lines written so far are paid for.
    paid: Duration,
    left_out: u64,
}

impl Limit {
    pub(super) fn new(now: Instant) -> Self {
        Limit(Arc::new(Inner { began: now, places: Mutex::default(), left_out: AtomicU64::new(0) }))
    }

    /// What was left out since the last time: the event's name, or where it would have come from, and how many lines.
    pub(super) fn take_left_out(&self) -> Vec<(String, u64)> {
        let mut places = self.0.places.lock();
        let places = places.values_mut().filter(|place| place.left_out > 0);
        places.map(|place| (place.name(), std::mem::take(&mut place.left_out))).collect()
    }

    /// Lines that were left out since the log began.
    pub(super) fn left_out(&self) -> u64 {
        self.0.left_out.load(Ordering::Relaxed)
    }

    fn takes(&self, metadata: &'static Metadata<'static>, told: &Told, now: Instant) -> bool {
        if *metadata.level() > Level::INFO {
            return true;
        }
        let now = now.saturating_duration_since(self.0.began);
        let mut places = self.0.places.lock();
        let place = places.entry(metadata.callsite()).or_insert_with(|| Callsite {
            metadata,
            paid: Duration::ZERO,
            left_out: 0,
        });
        let paid = place.paid.max(now) + EVERY * (1 + told.bytes / LINE_BYTES);
        let takes = paid <= now + EVERY * BURST;
        match takes {
            true => place.paid = paid,
            false => {
                place.left_out += 1;
                self.0.left_out.fetch_add(1, Ordering::Relaxed);
            }
        }
        takes
    }
}

impl Callsite {
    fn name(&self) -> String {
        let metadata = self.metadata;
        match record::name_of(metadata) {
            Some(name) => name.to_owned(),
            None => format!("{}:{}", metadata.target(), metadata.line().unwrap_or(0)),
        }
    }
}

impl<S: Subscriber> Layer<S> for Limit {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let mut told = Told::default();
        event.record(&mut told);
        self.takes(event.metadata(), &told, Instant::now())
    }
}

/// How much an event tells.
#[derive(Default)]
struct Told {
    bytes: u32,
}

impl Visit for Told {
    fn record_debug(&mut self, _: &Field, value: &dyn fmt::Debug) {
        // It counts without fail.
        let _ = write!(self, "{value:?}");
    }
}

impl Write for Told {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes = self.bytes.saturating_add(u32::try_from(text.len()).unwrap_or(u32::MAX));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex as StdMutex;

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// Remembers where events came from.
    #[derive(Clone, Default)]
    struct Seen(Arc<StdMutex<Vec<&'static Metadata<'static>>>>);

    impl<S: Subscriber> Layer<S> for Seen {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            self.0.lock().unwrap().push(event.metadata());
        }
    }

    #[test]
    fn one_place_fills_no_log_and_takes_nothing_from_another() {
        let seen = Seen::default();
        let subscriber = tracing_subscriber::registry().with(seen.clone());
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!("one");
            tracing::info!("other");
            tracing::debug!("for who wants all");
        });
        let seen = seen.0.lock().unwrap();
        let [one, other, all] = seen[..] else { panic!("three places") };
        let now = Instant::now();
        let (limit, short) = (Limit::new(now), Told { bytes: 80 });
        assert_eq!((0..1_000).filter(|_| limit.takes(one, &short, now)).count(), 200);
        assert!(limit.takes(other, &short, now));
        assert_eq!((0..1_000).filter(|_| limit.takes(all, &short, now)).count(), 1_000);
        let left_out = limit.take_left_out();
        assert!(matches!(&left_out[..], [(_, 800)]), "{left_out:?}");
        assert!(limit.take_left_out().is_empty());
        assert_eq!(limit.left_out(), 800, "in all");
        assert_eq!((0..100).filter(|_| limit.takes(one, &short, now + Duration::from_secs(1))).count(), 10);
    }

    #[test]
    fn long_lines_count_as_several() {
        let (began, line) = (Instant::now(), "x".repeat(4_000));
        let limit = Limit::new(began);
        let seen = Seen::default();
        let subscriber = tracing_subscriber::registry().with(limit.clone()).with(seen.clone());
        tracing::subscriber::with_default(subscriber, || {
            (0..1_000).for_each(|_| tracing::info!(path = ?line, "refused"));
        });
        let written = seen.0.lock().unwrap().len();
        assert!((20..40).contains(&written), "{written}");
    }
}
