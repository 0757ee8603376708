//! What is logged, for tests.

use std::fmt::{Debug, Write};
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

/// The events from the level `info` on, each as its name and its fields.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<(String, String)>>>);

impl Lines {
    /// The fields of each event of that name.
    pub(crate) fn of(&self, name: &str) -> Vec<String> {
        self.0.lock().iter().filter(|(known, _)| known == name).map(|(_, fields)| fields.clone()).collect()
    }
}

/// The fields of one event.
#[derive(Default)]
struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // It writes to memory.
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::INFO
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.0.lock().push((event.metadata().name().to_owned(), fields.0));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
