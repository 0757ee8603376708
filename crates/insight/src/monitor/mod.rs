//! The metrics of file services by Azure Monitor's names, kept across restarts: what is recorded each minute ([`Record`]), what of that waits
//! to be written ([`Backlog`]), where it is kept ([`Archive`]), and the series that are made of it ([`Query`]).

mod archive;
pub mod azure;
mod backlog;
mod filter;
mod interval;
mod metric;
mod query;
mod record;
mod tally;

pub use archive::{Archive, ArchiveError};
pub use backlog::Backlog;
pub use filter::{Filter, NoFilter};
pub use interval::Interval;
pub use metric::{Aggregation, Definition, Dimension, Metric};
pub use query::{Answer, Query, Series};
pub use record::Record;
pub use tally::{AskedOnce, OTHER_SHARES, Tally, Totals};
