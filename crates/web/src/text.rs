//! The text of the metrics, made for all who wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use insight::exposition::{Exposition, Format, Observed};
use tracing::warn;

use crate::flight::Work;
use crate::source::Stages;

/// Bytes of texts that are being taken. Beyond them no other is made until somebody has taken his, or was disconnected.
const TEXTS_BYTES_MAX: usize = 64 << 20;

/// Makes texts.
pub(crate) struct Texts {
    stages: Stages,
    exposition: Exposition,
    /// Bytes of those that are being taken.
    held: Arc<AtomicUsize>,
}

/// Why there is no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoText {
    /// The server does not serve yet.
    Starting,
    /// Too much is being taken, by who takes it slowly.
    Full,
    /// It could not be made.
    Failed,
}

/// A text that counts for as long as somebody takes it.
struct Held {
    text: String,
    all: Arc<AtomicUsize>,
}

impl Texts {
    pub(crate) fn of(stages: Stages) -> Self {
        Texts { stages, exposition: Exposition::default(), held: Arc::default() }
    }
}

impl Work for Texts {
    type Reading = Result<Arc<Observed>, NoText>;
    type Question = Format;
    type Answer = Result<Bytes, NoText>;

    fn read(&mut self) -> Self::Reading {
        if self.held.load(Ordering::Relaxed) > TEXTS_BYTES_MAX {
            return Err(NoText::Full);
        }
        self.stages.now().observe().map(Arc::new).ok_or(NoText::Starting)
    }

    fn answer(&mut self, observed: &Self::Reading, format: Format) -> Self::Answer {
        let observed = observed.as_ref().map_err(|why| *why)?;
        let text = self.exposition.text(observed, format).map_err(|cause| {
            warn!(name: "metrics_not_made", error = %cause, "metrics could not be made; please report it");
            NoText::Failed
        })?;
        self.held.fetch_add(text.len(), Ordering::Relaxed);
        Ok(Bytes::from_owner(Held { text, all: Arc::clone(&self.held) }))
    }
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.all.fetch_sub(self.text.len(), Ordering::Relaxed);
    }
}
