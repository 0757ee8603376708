//! What a connection takes along to another shard. It goes between two requests, when nothing of it is in flight.

use std::sync::Arc;
use std::time::Instant;

use crate::command::negotiation::Negotiation;
use crate::resource::budgets::Held;
use crate::state::credits::CreditWindow;
use crate::state::mailbox::Mailbox;
use crate::state::session::{Activity, Channel};
use crate::state::strangers::Stranger;

/// A connection on its way.
pub(crate) struct MigratedConnection {
    /// Where it comes from, and the shard it goes to.
    pub(crate) origin: Origin,
    pub(crate) accepted: Instant,
    pub(crate) window: CreditWindow,
    pub(crate) negotiation: Negotiation,
    pub(crate) channels: Vec<Channel>,
    /// Its place among strangers, where nobody has signed in.
    pub(crate) stranger: Option<Stranger>,
    /// What the user has less for it who signed in first.
    pub(crate) held: Option<Held>,
    /// AsyncIds up to this one were given.
    pub(crate) last_async_id: u64,
    pub(crate) activity: Arc<Activity>,
    pub(crate) mailbox: Arc<Mailbox>,
    /// Bytes that came in and were not looked at.
    pub(crate) unread: Vec<u8>,
}

impl MigratedConnection {
    /// That of a connection that is new to the server.
    pub(crate) fn of_new(origin: Origin) -> Self {
        MigratedConnection {
            origin,
            accepted: Instant::now(),
            window: CreditWindow::new(),
            negotiation: Negotiation::default(),
            channels: Vec::new(),
            stranger: None,
            held: None,
            last_async_id: 0,
            activity: Arc::default(),
            mailbox: Arc::default(),
            unread: Vec::new(),
        }
    }
}

/// Where a connection comes from and where it lives.
pub(crate) struct Origin {
    pub(crate) id: u64,
    pub(crate) peer: String,
    pub(crate) local: String,
    /// It never leaves this process, so that nobody is between its ends.
    pub(crate) is_inside: bool,
    pub(crate) shard: usize,
}
