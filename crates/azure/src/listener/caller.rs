//! Who calls the management interface, and how far its call has come.

use std::net::SocketAddr;
use std::sync::Arc;

use super::places::Places;
use super::stays::{Doing, Stay};
use crate::turns::{self, Taker};

pub(crate) struct Caller {
    pub(crate) peer: SocketAddr,
    /// Who pays for what it calls for, which is of no account.
    taker: Taker,
    places: Places,
    stay: Arc<Stay>,
}

impl Caller {
    pub(super) fn of(peer: SocketAddr, places: &Places, stay: &Arc<Stay>) -> Self {
        Caller { peer, taker: Taker::of("", peer.ip()), places: places.clone(), stay: Arc::clone(stay) }
    }

    pub(super) fn taker(&self) -> &Taker {
        &self.taker
    }

    /// It has proved who it is.
    pub(crate) fn proves(&self) {
        self.stay.proves();
    }

    /// It waits for an answer that is made at once.
    pub(crate) fn waits(&self) {
        self.stay.does(Doing::Waiting);
    }

    /// Its turn to be worked for. `None` where that does not come in time.
    pub(crate) async fn turn(&self) -> Option<turns::Turn> {
        self.places.run(&self.taker, &self.stay).await
    }
}
