//! All cells, and the totals of those that have ended.
//!
//! One short lock is taken when a channel begins or ends, when it is used for another share, and by who reads. Who reads takes references under
//! the lock, one a channel, and adds up behind it: what changes meanwhile is another value than the one that was taken, and a cell that ends keeps
//! its numbers. So each request is found in one of them, and in one alone.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use wire::ids::SessionId;

use crate::state::counters::api::Authentication;
use crate::state::counters::cell::{Answered, Cell};
use crate::state::counters::channel::ShareKey;
use crate::state::counters::counts::Counts;
use crate::state::counters::events::EventCounters;
use crate::state::counters::totals::{Place, Totals};
use crate::state::counters::view::{CountersView, Rows};
use crate::state::user::User;

/// Shares, users and clients that have totals of their own.
const SHARES_MAX: usize = 4_096;
const USERS_MAX: usize = 1_024;
const CLIENTS_MAX: usize = 1_024;

/// Names a channel. A connection may be a channel of a session twice, and the first time be counted for when the second has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ChannelKey {
    pub(super) session: SessionId,
    number: u64,
}

/// Whose requests are counted, and where they come from.
pub(crate) struct Client {
    pub(super) user: Arc<UserName>,
    /// The number of its connection.
    pub(super) connection: u64,
    /// The client's address and port.
    pub(super) peer: String,
    pub(super) local: String,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct UserName {
    pub(super) account: String,
    pub(super) name: String,
}

impl Client {
    /// That of a channel of `user` on a connection between these ends.
    pub(crate) fn of(user: &User, connection: u64, (peer, local): (&str, &str)) -> Self {
        let user = UserName { account: user.account.clone(), name: user.name.clone() };
        Client { user: user.into(), connection, peer: peer.to_owned(), local: local.to_owned() }
    }

    /// The address alone; `None` where the connection has none.
    pub(super) fn address(&self) -> Option<IpAddr> {
        self.peer.parse().ok().map(|peer: SocketAddr| peer.ip().to_canonical())
    }
}

/// What the server has done.
pub(crate) struct Counters {
    began: Instant,
    /// Names this start of the server.
    start: u64,
    pub(crate) events: EventCounters,
    /// What belongs to no session, by shard.
    outside: Vec<Box<Cell>>,
    next_channel: AtomicU64,
    registry: Mutex<Registry>,
}

struct Registry {
    channels: BTreeMap<ChannelKey, Arc<LiveChannel>>,
    totals: EndedTotals,
}

/// A share, and how its users had proved who they are; the others are told apart by that alone.
pub(super) type SharePlace = Place<ShareKey, Authentication>;
pub(super) type UserPlace = Place<Arc<UserName>>;
pub(super) type ClientPlace = Place<Option<IpAddr>>;

/// What was counted in cells that have ended.
#[derive(Clone)]
pub(super) struct EndedTotals {
    /// Of sessions that go on, on other channels.
    pub(super) sessions: HashMap<SessionId, Arc<Counts>>,
    pub(super) server: Arc<Counts>,
    pub(super) shares: Totals<ShareKey, Authentication>,
    pub(super) users: Totals<Arc<UserName>>,
    pub(super) clients: Totals<Option<IpAddr>>,
}

#[derive(Clone)]
pub(super) struct LiveChannel {
    pub(super) client: Arc<Client>,
    pub(super) user: UserPlace,
    pub(super) address: ClientPlace,
    pub(super) cells: Vec<LiveCell>,
    /// What was counted in cells of its that have ended.
    pub(super) ended: Arc<Counts>,
}

#[derive(Clone)]
pub(super) struct LiveCell {
    pub(super) share: SharePlace,
    pub(super) cell: Arc<Cell>,
}

impl Counters {
    /// Nothing yet, of a server with this many shards.
    pub(crate) fn new(shards: usize) -> Arc<Self> {
        let mut totals = EndedTotals {
            sessions: HashMap::new(),
            server: Arc::default(),
            shares: Totals::of_at_most(SHARES_MAX),
            users: Totals::of_at_most(USERS_MAX),
            clients: Totals::of_at_most(CLIENTS_MAX),
        };
        let _outside = totals.shares.place((None, Authentication::Anonymous), Authentication::Anonymous);
        Arc::new(Counters {
            began: Instant::now(),
            start: RandomState::new().build_hasher().finish(),
            events: EventCounters::default(),
            outside: (0..shards.max(1)).map(|_| Cell::new()).collect(),
            next_channel: AtomicU64::new(0),
            registry: Mutex::new(Registry { channels: BTreeMap::new(), totals }),
        })
    }

    /// Counts requests on a shard that belong to no session.
    pub(crate) fn count_outside(&self, shard: usize, answered: &Answered) {
        self.outside[shard % self.outside.len()].count(answered);
    }

    /// A channel of `session` begins.
    pub(super) fn begin(&self, session: SessionId, client: Client) -> ChannelKey {
        let key = ChannelKey { session, number: self.next_channel.fetch_add(1, Ordering::Relaxed) };
        let client = Arc::new(client);
        let mut registry = self.registry.lock();
        let user = registry.totals.users.place(Arc::clone(&client.user), ());
        let address = registry.totals.clients.place(client.address(), ());
        let channel = LiveChannel { client, user, address, cells: Vec::new(), ended: Arc::default() };
        registry.channels.insert(key, Arc::new(channel));
        key
    }

    /// A channel has one more cell.
    pub(super) fn add_cell(&self, key: ChannelKey, share: &ShareKey, cell: &Arc<Cell>) {
        let mut registry = self.registry.lock();
        let share = registry.totals.shares.place(share.clone(), share.1);
        if let Some(channel) = registry.channels.get_mut(&key) {
            Arc::make_mut(channel).cells.push(LiveCell { share, cell: Arc::clone(cell) });
        }
    }

    /// Nothing more is counted in a cell, and its channel goes on.
    pub(super) fn end_cell(&self, key: ChannelKey, cell: &Arc<Cell>) {
        let mut registry = self.registry.lock();
        let Registry { channels, totals } = &mut *registry;
        let Some(channel) = channels.get_mut(&key).map(Arc::make_mut) else { return };
        let Some(position) = channel.cells.iter().position(|live| Arc::ptr_eq(&live.cell, cell)) else { return };
        let ended = channel.cells.remove(position);
        let counts = ended.cell.read();
        Arc::make_mut(&mut channel.ended).add(&counts);
        totals.keep(&ended.share, channel, &counts);
    }

    /// A channel has ended. So has its session, where it was the last one.
    pub(super) fn end(&self, key: ChannelKey) {
        let mut registry = self.registry.lock();
        let Some(channel) = registry.channels.remove(&key) else { return };
        let mut sum = Counts::clone(&channel.ended);
        for live in &channel.cells {
            let counts = live.cell.read();
            sum.add(&counts);
            registry.totals.keep(&live.share, &channel, &counts);
        }
        if registry.channels_of(key.session).next().is_some() {
            Arc::make_mut(registry.totals.sessions.entry(key.session).or_default()).add(&sum);
        } else {
            registry.totals.sessions.remove(&key.session);
        }
    }

    /// What was done on a connection as a channel of a session that is there.
    pub(crate) fn of_channel(&self, session: SessionId, connection: u64) -> Counts {
        let registry = self.registry.lock();
        let of_session = registry.channels_of(session).map(|(_, channel)| channel);
        let channels: Vec<_> = of_session.filter(|channel| channel.client.connection == connection).cloned().collect();
        drop(registry);
        let mut sum = Counts::default();
        channels.iter().for_each(|channel| sum.add(&channel.sum()));
        sum
    }

    /// What the server has done until now.
    pub(crate) fn read(&self) -> CountersView {
        let events = self.events.read();
        let (channels, totals) = {
            let registry = self.registry.lock();
            let channels: Vec<_> = registry.channels.iter().map(|(key, channel)| (*key, Arc::clone(channel))).collect();
            (channels, registry.totals.clone())
        };
        let mut rows = Rows::of(totals);
        self.outside.iter().for_each(|cell| rows.add_outside(&cell.read()));
        channels.iter().for_each(|(key, channel)| rows.add_channel(*key, channel));
        CountersView { start: self.start, at: self.began.elapsed(), events, rows: rows.into_list() }
    }
}

impl Registry {
    fn channels_of(&self, session: SessionId) -> impl Iterator<Item = (&ChannelKey, &Arc<LiveChannel>)> {
        self.channels.range(ChannelKey { session, number: 0 }..=ChannelKey { session, number: u64::MAX })
    }
}

impl EndedTotals {
    /// Adds what was counted in a cell that has ended to the totals that it counts for, beside its channel's.
    fn keep(&mut self, share: &SharePlace, channel: &LiveChannel, counts: &Counts) {
        Arc::make_mut(&mut self.server).add(counts);
        self.shares.add(share, counts);
        self.users.add(&channel.user, counts);
        self.clients.add(&channel.address, counts);
    }
}

impl LiveChannel {
    fn sum(&self) -> Counts {
        let mut sum = Counts::clone(&self.ended);
        self.cells.iter().for_each(|live| sum.add(&live.cell.read()));
        sum
    }
}
