//! From a socket to a channel: connecting, NEGOTIATE and SESSION_SETUP (MS-SMB2 3.2.4.2).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use wire::ids::SessionId;

use crate::channel::Channel;
use crate::connection::Connection;
use crate::error::Error;
use crate::guard::Guard;
use crate::handshake::{self, Identity, Offer, Terms};
use crate::shared::Shared;

/// How long a connection may take until it is a channel.
const SETUP_MAX: Duration = Duration::from_secs(5);

impl Shared {
    /// Connects and signs in to a new session, which takes the place of `previous`.
    pub(crate) async fn open_first(&self, to: SocketAddr, previous: SessionId) -> Result<(Identity, Channel), Error> {
        let work = async {
            let (connection, local) = self.connect(None, to).await?;
            let offer = self.offer(None);
            let (terms, preauth) = handshake::negotiate(&connection, &offer).await?;
            let identity = handshake::sign_in(&connection, terms, preauth, &self.credentials, previous).await?;
            if self.settings.seal && identity.seals.is_none() {
                return Err(Error::Lacking("encryption"));
            }
            self.trust(&connection, &identity);
            let signed = Guard::Signed(Arc::clone(&identity.signing));
            let channel = Channel::new(connection, &identity, signed, (local, to));
            Ok((identity, channel))
        };
        timeout(SETUP_MAX, work).await.unwrap_or_else(|_| Err(Error::unreachable(&self.host, &timed_out())))
    }

    /// Connects and binds the session to one more channel.
    pub(crate) async fn open_more(
        &self,
        from: Option<IpAddr>,
        to: SocketAddr,
        identity: &Identity,
    ) -> Result<Channel, Error> {
        let work = async {
            let (connection, local) = self.connect(from, to).await?;
            let offer = self.offer(Some(&identity.terms));
            let (_, preauth) = handshake::negotiate(&connection, &offer).await?;
            let key = handshake::bind(&connection, preauth, &self.credentials, identity).await?;
            self.trust(&connection, identity);
            Ok(Channel::new(connection, identity, Guard::Signed(key), (local, to)))
        };
        timeout(SETUP_MAX, work).await.unwrap_or_else(|_| Err(Error::unreachable(&self.host, &timed_out())))
    }

    async fn connect(&self, from: Option<IpAddr>, to: SocketAddr) -> Result<(Connection, IpAddr), Error> {
        let stream = self.network.connect(from, to).await;
        let stream = stream.map_err(|cause| Error::unreachable(&to.to_string(), &cause))?;
        let local = stream.local;
        Ok((Connection::start(stream, self.unsolicited.clone(), Arc::clone(&self.send_load)), local))
    }

    fn offer<'a>(&'a self, terms: Option<&'a Terms>) -> Offer<'a> {
        Offer { client_guid: self.client_guid, name: &self.host, signing: self.settings.signing, terms }
    }

    fn trust(&self, connection: &Connection, identity: &Identity) {
        let terms = &identity.terms;
        let most = terms.read_bytes_max.max(terms.transact_bytes_max);
        connection.trust(most as usize, identity.seals.clone());
    }
}

fn timed_out() -> std::io::Error {
    std::io::ErrorKind::TimedOut.into()
}
