//! What both ends of a connection know of the machine they are on: its network interfaces, and which connections never leave it.

mod congestion;
mod interfaces;

pub use congestion::{Pacing, is_within_machine};
pub use interfaces::{LocalInterface, SPEED_UNKNOWN, of_this_machine};
