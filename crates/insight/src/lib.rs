//! What the server did and how long it took, from two looks at its counters.
//!
//! # Example
//!
//! How fast a share was between two looks, which `server::admin::Admin::counters` gives:
//!
//! ```
//! use insight::{Change, Figures};
//! use server::admin::{CountersView, Scope};
//!
//! fn of_share(earlier: &CountersView, later: &CountersView, name: &str) -> Option<Figures> {
//!     let change = Change::between(earlier, later);
//!     let row = change.rows.iter().find(|row| row.scope == Scope::Share(Some(name.to_owned())))?;
//!     Some(Figures::of(&row.counts, change.passed))
//! }
//! ```

mod change;
mod figures;
mod latency;
pub mod monitor;

pub use change::Change;
pub use figures::{Figures, WaitedFor};
pub use latency::{Latencies, USEFUL_WORK};
