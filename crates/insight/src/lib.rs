//! What the server did and how long it took, from two looks at its counters; and its audit log.
//!
//! # Example
//!
//! How fast the server was between two looks, which `server::admin::Admin::counters` gives:
//!
//! ```
//! use insight::{Change, Figures};
//! use server::admin::{CountersView, Scope};
//!
//! fn of_server(earlier: &CountersView, later: &CountersView) -> Option<Figures> {
//!     let change = Change::between(earlier, later);
//!     let row = change.rows.iter().find(|row| row.scope == Scope::Server)?;
//!     Some(Figures::of(&row.counts, change.passed))
//! }
//! ```

pub mod audit;
mod change;
pub mod exposition;
mod figures;
mod history;
#[cfg(test)]
mod history_tests;
mod latency;
mod minute;
pub mod monitor;
pub mod shown;
pub mod why;

pub use change::Change;
pub use figures::{Figures, WaitedFor};
pub use history::{ChannelName, History, KEPT, LOOK_EVERY, Look, ShardTime, Slice, Throttled};
pub use latency::{Latencies, USEFUL_WORK};
pub use minute::{Minute, Now};
