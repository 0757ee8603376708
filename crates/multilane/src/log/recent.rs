//! The last events that have names, for who looks at the running server.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use super::record::{Record, name_of};

/// Events that are kept, each of at most 4 KiB as JSON.
const EVENTS_MAX: usize = 256;

/// The events. A copy sees the same.
#[derive(Clone, Default)]
pub(crate) struct RecentEvents(Arc<Mutex<VecDeque<Value>>>);

impl RecentEvents {
    /// All that are kept, the newest first.
    pub(crate) fn newest_first(&self) -> Vec<Value> {
        self.0.lock().iter().rev().cloned().collect()
    }
}

impl<S: Subscriber> Layer<S> for RecentEvents {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        // Those without a name are for who looks for a cause.
        if name_of(event.metadata()).is_none() {
            return;
        }
        // What has texts and numbers alone is written without fail.
        let value = serde_json::to_value(Record::of(event)).unwrap_or_default();
        let mut events = self.0.lock();
        let oldest = if events.len() >= EVENTS_MAX { events.pop_front() } else { None };
        events.push_back(value);
        drop(events);
        drop(oldest);
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[test]
    fn the_last_events_with_names_are_kept() {
        let recent = RecentEvents::default();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(recent.clone()), || {
            tracing::debug!("nobody keeps this");
            for number in 0..EVENTS_MAX + 5 {
                tracing::info!(name: "one_of_many", number, user = "<b>", "happened");
            }
        });
        let events = recent.newest_first();
        assert_eq!(events.len(), EVENTS_MAX);
        assert_eq!((&events[0]["number"], &events[0]["event"]), (&(EVENTS_MAX + 4).into(), &"one_of_many".into()));
        assert_eq!(events[EVENTS_MAX - 1]["number"], 5);
    }
}
