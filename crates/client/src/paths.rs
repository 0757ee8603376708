//! Which ways there are to a server, as its interfaces and this machine's suggest (MS-SMB2 3.2.5.14.11).

use tokio::time::Instant;

use crate::pairing::Pair;

/// What is known of the ways to the server.
#[derive(Default)]
pub(crate) struct Paths {
    pub(crate) pairs: Vec<Pair>,
    pub(crate) asked: Option<Instant>,
    pub(crate) tried: Option<Instant>,
    /// The pairs were learnt before they were needed, and have not been used.
    pub(crate) is_ahead: bool,
    /// The server takes no more channels than so many.
    pub(crate) limit: Option<usize>,
    /// The most channels that the interfaces have suggested: those that are down now come back.
    pub(crate) wanted: usize,
    /// The most channels that there have been at once.
    pub(crate) most: usize,
}
