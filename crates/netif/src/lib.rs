//! What both ends of a connection know of the machine they are on: its network interfaces, and which connections never leave it.
//!
//! # Example
//!
//! ```
//! for interface in netif::of_this_machine()? {
//!     println!("{} {} {} Gbit/s", interface.name, interface.address, interface.link_speed / 1_000_000_000);
//! }
//! # Ok::<(), std::io::Error>(())
//! ```

mod congestion;
mod inet_diag;
mod interfaces;

pub use congestion::{Pacing, is_within_machine};
pub use inet_diag::{TcpState, tcp_state, unacknowledged};
pub use interfaces::{LocalInterface, SPEED_UNKNOWN, of_this_machine};
