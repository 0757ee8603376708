//! The numbers of everything and everybody, as they are read at one moment.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use wire::ids::SessionId;

use crate::state::counters::api::Authentication;
use crate::state::counters::counts::{Counts, Sums};
use crate::state::counters::events::Events;
use crate::state::counters::registry::{
    ChannelKey, ClientPlace, EndedTotals, LiveChannel, SharePlace, UserName, UserPlace,
};
use crate::state::counters::totals::{Place, Totals};

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
    /// All shares that have no row of their own, in the same way.
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
    /// All users who have no row of their own.
    OtherUsers,
    /// The clients at an address; `None` for connections without one.
    Client(Option<IpAddr>),
    /// All addresses that have no row of their own.
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
    shares: BTreeMap<SharePlace, Counts>,
    users: BTreeMap<UserPlace, Counts>,
    clients: BTreeMap<ClientPlace, Counts>,
    sessions: BTreeMap<SessionId, (Arc<UserName>, Counts)>,
    channels: Vec<CountersRow>,
    /// Of sessions, what was done on channels that have ended.
    ended: HashMap<SessionId, Arc<Counts>>,
}

impl Rows {
    /// With what has ended.
    pub(super) fn of(totals: EndedTotals) -> Self {
        Rows {
            server: Sums::from(&*totals.server),
            shares: copied(&totals.shares),
            users: copied(&totals.users),
            clients: copied(&totals.clients),
            sessions: BTreeMap::new(),
            channels: Vec::new(),
            ended: totals.sessions,
        }
    }

    /// Adds what was counted in no session.
    pub(super) fn add_outside(&mut self, counts: &Counts) {
        self.server.add(counts);
        self.shares.entry(Place::Named((None, Authentication::Anonymous))).or_default().add(counts);
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
        self.users.entry(channel.user.clone()).or_default().add(&sum);
        self.clients.entry(channel.address).or_default().add(&sum);
        // The other totals have it already.
        sum.add(&channel.ended);
        let ended = self.ended.get(&key.session);
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
        let mut rows = vec![row(Scope::Server, self.server.into())];
        rows.extend(self.shares.into_iter().map(|(place, counts)| row(of_share(place), counts)));
        rows.extend(self.users.into_iter().map(|(place, counts)| row(of_user(place), counts)));
        rows.extend(self.clients.into_iter().map(|(place, counts)| row(of_client(place), counts)));
        rows.extend(self.sessions.into_iter().map(|(id, (user, counts))| {
            row(Scope::Session { id: id.0, user: user.name.clone(), account: user.account.clone() }, counts)
        }));
        rows.extend(self.channels);
        rows
    }
}

fn copied<K, O>(totals: &Totals<K, O>) -> BTreeMap<Place<K, O>, Counts>
where
    K: Ord + Hash + Clone,
    O: Ord + Hash + Clone,
{
    totals.each().map(|(place, counts)| (place.clone(), Counts::clone(counts))).collect()
}

fn of_share(place: SharePlace) -> Scope {
    match place {
        Place::Named((name, authentication)) => {
            Scope::Share { name: name.map(|name| name.to_string()), authentication }
        }
        Place::Others(authentication) => Scope::OtherShares { authentication },
    }
}

fn of_user(place: UserPlace) -> Scope {
    match place {
        Place::Named(user) => Scope::User { name: user.name.clone(), account: user.account.clone() },
        Place::Others(()) => Scope::OtherUsers,
    }
}

fn of_client(place: ClientPlace) -> Scope {
    match place {
        Place::Named(address) => Scope::Client(address),
        Place::Others(()) => Scope::OtherClients,
    }
}
