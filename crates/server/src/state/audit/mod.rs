//! What is audited: who did what to which file of a share, from where, and what came of it. Each share says which classes of that are told ([`AuditClasses`]);
//! what tells of it is [`crate::state::auditing`] and, for requests, `request::audit`. What happens becomes an [`AuditEvent`] and goes to a sink at once, which takes it without waiting for anything.

mod classes;
mod deletion;
mod end;
mod event;
mod origin;
mod totals;

use std::fmt::Debug;
use std::sync::Arc;

pub use self::classes::{AuditClass, AuditClasses, UnknownClass};
pub(crate) use self::deletion::Armings;
pub use self::end::AuditEnd;
pub(crate) use self::end::{EndCell, SessionEnd};
pub(crate) use self::event::shortened;
pub use self::event::{
    AuditActor, AuditArming, AuditCategory, AuditEvent, AuditIds, AuditMoved, AuditPlace, AuditProof,
};
pub(crate) use self::origin::Speaker;
pub use self::origin::{AuditOrigin, AuditOrigins, AuditRefusal, AuditSource, AuditSpeaker, NotedOrigin};
pub(crate) use self::totals::OpenTotals;

/// What has become of events since the server started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditCounts {
    /// Events that are in the log.
    pub written: u64,
    /// Events that are not, and never will be.
    pub lost: u64,
    /// Of these, those that told of requests that were refused.
    pub lost_refused: u64,
}

/// Where audit events go. It is called on shards, so it waits for nothing: what it cannot take it counts as lost.
pub trait AuditSink: Send + Sync + Debug {
    /// Takes an event.
    fn record(&self, event: AuditEvent);

    /// How many have been written and lost.
    fn counts(&self) -> AuditCounts;
}

/// The way to the sink, where there is one.
#[derive(Default)]
pub(crate) struct Audit {
    sink: Option<Arc<dyn AuditSink>>,
}

impl Audit {
    /// The way to `sink`.
    pub(crate) fn to(sink: Arc<dyn AuditSink>) -> Self {
        Audit { sink: Some(sink) }
    }

    pub(crate) fn counts(&self) -> AuditCounts {
        self.sink.as_ref().map(|sink| sink.counts()).unwrap_or_default()
    }

    pub(crate) fn record(&self, event: AuditEvent) {
        if let Some(sink) = &self.sink {
            sink.record(event);
        }
    }
}
