//! What both ends of a connection know of the machine they are on: its network interfaces, and which connections never leave it.

mod interfaces;
mod pacing;

pub use interfaces::{LocalInterface, SPEED_UNKNOWN, of_this_machine};
pub use pacing::{Pacing, is_within_machine};
