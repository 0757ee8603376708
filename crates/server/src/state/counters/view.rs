//! The numbers of everything and everybody, as they are read at one moment.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use wire::ids::SessionId;

use crate::state::counters::api::Authentication;
use crate::state::counters::channel::ShareKey;
use crate::state::counters::counts::{Counts, Sums};
use crate::state::counters::events::Events;
use crate::state::counters::registry::{ChannelKey, EndedTotals, LiveChannel, UserName};

/// What a row of numbers is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Everything that the server has done.
    Server,
    /// A share, and how its users had proved who they are. The rows of a share add up to all that was done there.
    Share {
        /// Its name; `None` for requests to no share.
        name: Option<String>,
        /// How those who asked had signed in.
        authentication: Authentication,
    },
    /// All shares that have no place of their own, in the same way.
    OtherShares {
        /// How those who asked had signed in.
        authentication: Authentication,
    },
    /// A user, or the holder of an account's key.
    User {
        /// The name.
        name: String,
        /// The storage account.
        account: String,
    },
    /// All users who have no place of their own any more.
    OtherUsers,
    /// The clients at an address; `None` for connections without one.
    Client(Option<IpAddr>),
    /// All addresses that have no place of their own any more.
    OtherClients,
    /// A session that is there.
    Session {
        /// The SessionId on the wire.
        id: u64,
        /// Who signed in.
        user: String,
        /// The storage account.
        account: String,
    },
    /// A channel that is there.
    Channel {
        /// The SessionId on the wire.
        session: u64,
        /// The number of its connection.
        connection: u64,
        /// The client's address and port.
        peer: String,
        /// The server's address and port.
        local: String,
    },
}

/// The numbers of one scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountersRow {
    /// What they are about.
    pub scope: Scope,
    /// The numbers.
    pub counts: Counts,
}

/// What the server had done at one moment.
///
/// The rows of shares add up to the server's. Those of users do, and those of clients, but for what was done in no session: NEGOTIATE, signing in,
/// binding, and what was refused for want of a session. That counts for the server, and as requests to no share. The rows of sessions and
/// channels are of those that are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountersView {
    /// Names the start of the server: another number after each.
    pub start: u64,
    /// When, counted from the start of the server.
    pub at: Duration,
    /// What happens seldom.
    pub events: Events,
    /// The numbers, the server's first.
    pub rows: Vec<CountersRow>,
}

/// The rows while they are added up.
pub(super) struct Rows {
    server: Sums,
    // There may be many of these, and each has few numbers that are not zero.
    shares: BTreeMap<ShareKey, Counts>,
    users: BTreeMap<Arc<UserName>, Counts>,
    clients: BTreeMap<Option<IpAddr>, Counts>,
    sessions: BTreeMap<SessionId, (Arc<UserName>, Counts)>,
    channels: Vec<CountersRow>,
    totals: EndedTotals,
}

impl Rows {
    /// With what has ended.
    pub(super) fn of(totals: EndedTotals) -> Self {
        Rows {
            server: Sums::from(&*totals.server),
            shares: totals.shares.named().map(|(share, counts)| (share.clone(), Counts::clone(counts))).collect(),
            users: totals.users.named().map(|(user, counts)| (Arc::clone(user), Counts::clone(counts))).collect(),
            clients: totals.clients.named().map(|(client, counts)| (*client, Counts::clone(counts))).collect(),
            sessions: BTreeMap::new(),
            channels: Vec::new(),
            totals,
        }
    }

    /// Adds what was counted in no session.
    pub(super) fn add_outside(&mut self, counts: &Counts) {
        self.server.add(counts);
        self.shares.entry((None, Authentication::Anonymous)).or_default().add(counts);
    }

    /// Adds what was counted on a channel that is there.
    pub(super) fn add_channel(&mut self, key: ChannelKey, channel: &LiveChannel) {
        let client = &channel.client;
        let mut sum = Counts::default();
        for live in &channel.cells {
            let counts = live.cell.read();
            self.shares.entry(live.share.clone()).or_default().add(&counts);
            sum.add(&counts);
        }
        self.server.add(&sum);
        self.users.entry(Arc::clone(&client.user)).or_default().add(&sum);
        self.clients.entry(client.address()).or_default().add(&sum);
        // The other totals have it already.
        sum.add(&channel.ended);
        let ended = self.totals.sessions.get(&key.session);
        let begin = || (Arc::clone(&client.user), ended.map(|ended| Counts::clone(ended)).unwrap_or_default());
        self.sessions.entry(key.session).or_insert_with(begin).1.add(&sum);
        let scope = Scope::Channel {
            session: key.session.0,
            connection: client.connection,
            peer: client.peer.clone(),
            local: client.local.clone(),
        };
        self.channels.push(CountersRow { scope, counts: sum });
    }

    pub(super) fn into_list(self) -> Vec<CountersRow> {
        let row = |scope, counts| CountersRow { scope, counts };
        let EndedTotals { shares, users, clients, .. } = self.totals;
        let mut rows = vec![row(Scope::Server, self.server.into())];
        rows.extend(self.shares.into_iter().map(|((name, authentication), counts)| {
            row(Scope::Share { name: name.map(|name| name.to_string()), authentication }, counts)
        }));
        rows.extend(
            self.users.into_iter().map(|(user, counts)| {
                row(Scope::User { name: user.name.clone(), account: user.account.clone() }, counts)
            }),
        );
        rows.extend(self.clients.into_iter().map(|(client, counts)| row(Scope::Client(client), counts)));
        rows.extend(self.sessions.into_iter().map(|(id, (user, counts))| {
            row(Scope::Session { id: id.0, user: user.name.clone(), account: user.account.clone() }, counts)
        }));
        rows.extend(self.channels);
        let others = [
            (Scope::OtherShares { authentication: Authentication::Ntlm }, shares.others()),
            (Scope::OtherUsers, users.others()),
            (Scope::OtherClients, clients.others()),
        ];
        let others = others.into_iter().filter(|(_, counts)| ***counts != Counts::default());
        rows.extend(others.map(|(scope, counts)| CountersRow { scope, counts: Counts::clone(counts) }));
        rows
    }
}
