//! The last events that have names, for who looks at the running server.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use super::record::{Record, name_of};

/// Events that are kept, each of at most 4 KiB as JSON: those that anybody may cause who has proved nothing, and the others.
const OF_STRANGERS_MAX: usize = 64;
const OTHERS_MAX: usize = 192;
/// The events of the first kind. As many of them as somebody likes push out none of what operators and users did.
const OF_STRANGERS: [&str; 12] = [
    "accept_failed",
    "connection_limit_reached",
    "dialect_refused",
    "metrics_accept_failed",
    "negotiate_tampered",
    "operator_sign_in_refused",
    "operator_sign_in_throttled",
    "page_accept_failed",
    "protocol_broken",
    "sign_in_refused",
    "sign_in_throttled",
    "stranger_ended",
];

/// The events. A copy sees the same.
#[derive(Clone, Default)]
pub(crate) struct RecentEvents(Arc<Mutex<Kept>>);

/// Each with its number.
#[derive(Default)]
struct Kept {
    next: u64,
    of_strangers: VecDeque<(u64, Value)>,
    others: VecDeque<(u64, Value)>,
}

impl RecentEvents {
    /// All that are kept, the newest first.
    pub(crate) fn newest_first(&self) -> Vec<Value> {
        let kept = self.0.lock();
        let mut all: Vec<_> = kept.of_strangers.iter().chain(&kept.others).cloned().collect();
        drop(kept);
        all.sort_unstable_by_key(|(number, _)| std::cmp::Reverse(*number));
        all.into_iter().map(|(_, event)| event).collect()
    }
}

impl<S: Subscriber> Layer<S> for RecentEvents {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        // Those without a name are for who looks for a cause.
        let Some(name) = name_of(event.metadata()) else { return };
        // What has texts and numbers alone is written without fail.
        let value = serde_json::to_value(Record::of(event)).unwrap_or_default();
        let mut kept = self.0.lock();
        kept.next += 1;
        let number = kept.next;
        let is_of_strangers = OF_STRANGERS.contains(&name);
        let most = if is_of_strangers { OF_STRANGERS_MAX } else { OTHERS_MAX };
        let events = if is_of_strangers { &mut kept.of_strangers } else { &mut kept.others };
        let oldest = if events.len() >= most { events.pop_front() } else { None };
        events.push_back((number, value));
        drop(kept);
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
            for number in 0..OTHERS_MAX + 5 {
                tracing::info!(name: "one_of_many", number, user = "<b>", "happened");
            }
        });
        let events = recent.newest_first();
        assert_eq!(events.len(), OTHERS_MAX);
        assert_eq!((&events[0]["number"], &events[0]["event"]), (&(OTHERS_MAX + 4).into(), &"one_of_many".into()));
        assert_eq!(events[OTHERS_MAX - 1]["number"], 5);
    }
    #[test]
    fn strangers_push_out_nothing_that_operators_did() {
        let recent = RecentEvents::default();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(recent.clone()), || {
            tracing::info!(name: "session_closed", operator = "ann", "closed");
            for number in 0..1_000 {
                tracing::info!(name: "operator_sign_in_refused", number, "refused");
            }
            tracing::info!(name: "open_closed", operator = "ann", "closed");
        });
        let events = recent.newest_first();
        assert_eq!(events.len(), OF_STRANGERS_MAX + 2);
        assert_eq!((&events[0]["event"], &events[1]["number"]), (&"open_closed".into(), &999.into()));
        assert_eq!(events[OF_STRANGERS_MAX + 1]["event"], "session_closed");
    }
}
