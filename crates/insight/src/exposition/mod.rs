//! What the server did, as the text that Prometheus and its like read. `docs/METRICS.md` tells of each metric.
//!
//! Names and units follow Prometheus' conventions. How many series there are is bounded: they are told apart by share, of which
//! [`SHARES_MAX`](shares) have a name of their own, and by words of which there are a few; never by user, client or path.

mod classic;
mod encode;
mod families;
mod histogram;
mod observed;
mod otlp;
mod shares;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

pub use self::families::{FAMILIES, Family, Kind, PREFIX, Unit};
pub use self::observed::{LogLoss, Observed, ObservedLimits, ObservedShare, ObservedSpace};
pub use self::otlp::Sender;

use self::encode::Samples;
use self::shares::Names;

/// Which text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// OpenMetrics 1.0.0.
    OpenMetrics,
    /// The text of Prometheus, 0.0.4.
    Classic,
}

impl Format {
    /// What HTTP calls it.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Classic => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Makes the text. It remembers which shares have a name of their own.
#[derive(Debug, Default)]
pub struct Exposition {
    names: Names,
    /// How long the text was last.
    length: usize,
}

impl Exposition {
    /// The text of a server as it was seen.
    pub fn text(&mut self, observed: &Arc<Observed>, format: Format) -> Result<String, fmt::Error> {
        let open_metrics = self.open_metrics(observed)?;
        Ok(match format {
            Format::OpenMetrics => open_metrics,
            Format::Classic => classic::classic(&open_metrics),
        })
    }

    /// The same numbers as the body of a request of OTLP/HTTP in JSON, as they are `now`, counted from 1970-01-01 UTC.
    pub fn otlp(&mut self, observed: &Arc<Observed>, sender: &Sender, now: Duration) -> Result<String, fmt::Error> {
        let open_metrics = self.open_metrics(observed)?;
        Ok(otlp::request(&open_metrics, (sender, observed.version), (observed.since, now)))
    }

    fn open_metrics(&mut self, observed: &Arc<Observed>) -> Result<String, fmt::Error> {
        let shares = self.names.rows(observed);
        let mut registry = Registry::with_prefix(PREFIX);
        registry.register_collector(Box::new(Samples { server: Arc::clone(observed), shares }));
        let mut open_metrics = String::with_capacity(self.length + self.length / 8);
        text::encode(&mut open_metrics, &registry)?;
        self.length = open_metrics.len();
        Ok(open_metrics)
    }
}
