//! What may be chosen, with the names and defaults of Windows where it has them (Get-SmbClientConfiguration).

use std::time::Duration;

/// How a client behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many connections a session uses.
    pub channels: Channels,
    /// ConnectionCountPerNetworkInterface: of a pair of interfaces without RSS.
    pub connection_count_per_network_interface: usize,
    /// ConnectionCountPerRssNetworkInterface: of a pair of interfaces with RSS.
    pub connection_count_per_rss_network_interface: usize,
    /// MaximumConnectionCountPerServer.
    pub maximum_connection_count_per_server: usize,
    /// SessionTimeout: how long a request may stay without an answer, and how long a lost server is looked for.
    pub session_timeout: Duration,
    /// ExtendedSessionTimeout: the same for a request that the server said it would answer later.
    pub extended_session_timeout: Duration,
    /// What becomes of a session that the server no longer has, or does not answer.
    pub when_lost: WhenLost,
    /// Everything is encrypted, or the server is not spoken to.
    pub seal: bool,
    /// RequireSecuritySignature: what is not encrypted is signed.
    pub signing: Signing,
}

/// Whether requests that are not encrypted, and their answers, are signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signing {
    /// RequireSecuritySignature: always.
    Required,
    /// Where the server asks for it. A logon and the connection to a share are signed whatever it asks for.
    AsServerWants,
}

/// What becomes of a session without a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenLost {
    /// The server is looked for, and another one takes its place, signed in with the same password.
    SignInAgain,
    /// It ends, and who wants another one signs in.
    End,
}

/// How many connections a session uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    /// EnableMultiChannel: as many as the interfaces of both sides suggest.
    Automatic,
    /// So many, if the server takes them, over all pairs of interfaces in turn. One is multichannel off.
    Exactly(usize),
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            channels: Channels::Automatic,
            connection_count_per_network_interface: 1,
            connection_count_per_rss_network_interface: 4,
            maximum_connection_count_per_server: 32,
            session_timeout: Duration::from_secs(60),
            extended_session_timeout: Duration::from_secs(1000),
            when_lost: WhenLost::SignInAgain,
            seal: false,
            signing: Signing::Required,
        }
    }
}

impl Settings {
    /// True where one connection is all there may be.
    pub(crate) fn is_single(&self) -> bool {
        self.maximum_connection_count_per_server <= 1 || matches!(self.channels, Channels::Exactly(0..=1))
    }
}
