//! What the server did and how long it took, from two looks at its counters; and its audit log.
//!
//! # Example
//!
//! How fast a share was between two looks, which `server::admin::Admin::counters` gives:
//!
//! ```
//! use insight::{Change, Figures};
//! use server::admin::CountersView;
//!
//! fn of_share(earlier: &CountersView, later: &CountersView, name: &str) -> Figures {
//!     let change = Change::between(earlier, later);
//!     Figures::of(&change.of_share(name), change.passed)
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
pub mod why;

pub use change::Change;
pub use figures::{Figures, WaitedFor};
pub use history::{ChannelName, History, KEPT, LOOK_EVERY, Look, ShardTime, Slice};
pub use latency::{Latencies, USEFUL_WORK};
pub use minute::{Minute, Now};
