//! Who calls the management interface, and how far its call has come.

use std::net::SocketAddr;
use std::sync::Arc;

use super::stays::Stay;

pub(crate) struct Caller {
    pub(crate) peer: SocketAddr,
    stay: Arc<Stay>,
}

impl Caller {
    pub(super) fn of(peer: SocketAddr, stay: &Arc<Stay>) -> Self {
        Caller { peer, stay: Arc::clone(stay) }
    }

    /// It has proved who it is.
    pub(crate) fn proves(&self) {
        self.stay.proves();
    }
}
