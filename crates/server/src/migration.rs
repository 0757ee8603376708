//! What a connection takes along to another shard. It goes between two requests, when nothing of it is in flight.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use crate::budgets::Held;
use crate::command::negotiate::Negotiation;
use crate::connection::Origin;
use crate::credits::CreditWindow;
use crate::mailbox::Mailbox;
use crate::session::{Activity, Channel};
use crate::strangers::Stranger;

/// A connection on its way.
pub(crate) struct Luggage {
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

impl Luggage {
    /// That of a connection that is new to the server.
    pub(crate) fn of_new(origin: Origin) -> Self {
        Luggage {
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

/// A channel that nobody else on its shard holds, ready to be taken along.
pub(crate) fn unshared(channel: Rc<Channel>) -> Result<Channel, Rc<Channel>> {
    Rc::try_unwrap(channel)
}
