//! What is logged, for tests.

use std::fmt::Debug;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

/// The events from the level `info` on, each as its name and its fields.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<(String, Fields)>>>);

impl Lines {
    /// The fields of each event of that name.
    pub(crate) fn of(&self, name: &str) -> Vec<String> {
        self.0.lock().iter().filter(|(known, _)| known == name).map(|(_, fields)| fields.joined()).collect()
    }

    /// Takes all events; gives the name of each that has this field, and what the field says.
    pub(crate) fn take(&self, field: &str) -> Vec<String> {
        let events = std::mem::take(&mut *self.0.lock());
        let said = |fields: &Fields| fields.0.iter().find(|(known, _)| *known == field).map(|(_, value)| value.clone());
        events.iter().filter_map(|(name, fields)| Some(format!("{name}: {}", said(fields)?))).collect()
    }
}

/// The fields of one event.
#[derive(Default)]
struct Fields(Vec<(&'static str, String)>);

impl Fields {
    fn joined(&self) -> String {
        self.0.iter().map(|(name, value)| format!("{name}={value} ")).collect()
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push((field.name(), format!("{value:?}")));
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
        self.0.lock().push((event.metadata().name().to_owned(), fields));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
