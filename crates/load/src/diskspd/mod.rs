//! DiskSpd's language, as version 2.2 speaks it: its command line and profiles are read, its reports are written.
//!
//! What cannot apply to a client without a mount is refused by name (`refused.rs`). All else has DiskSpd's meaning and layout, so that
//! scripts which were written for one work with the other.

mod caching;
pub mod command_line;
mod distribution;
mod help;
pub mod machine;
mod options;
mod order;
pub mod profile_xml;
mod refused;
pub mod report_text;
pub mod report_xml;
mod size;
mod totals;
mod validate;
mod xml;

pub use help::HELP;

use crate::engine::Failure;

/// What is wrong, and what to write instead.
fn wrong(what: impl Into<String>, remedy: impl Into<String>) -> Failure {
    Failure { what: what.into(), remedy: remedy.into() }
}
