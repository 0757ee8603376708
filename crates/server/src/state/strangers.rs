//! Connections on which nobody has signed in. So many may be there at a time, and all of them may hold so many bytes. Each has bytes of
//! its own that nobody else can take, as many as signing in needs; what it makes the server hold beyond them is charged to all strangers.
//!
//! A newcomer is never refused: where there are too many connections, or too many bytes, one that is there already ends. That is one of
//! those on which nothing has happened for longest, and of them the one whose neighbours (a /24, or a /48 of IPv6) hold most, then whose
//! address does. Somebody who signs in is among the youngest until it has done so, so that it loses its place only to who has so many
//! addresses, and connects so fast, that all other places are taken anew between two of its messages.

use std::cell::Cell;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::resource::address::AddressPrefix;
use crate::resource::budget::{Budget, Charge};
use crate::state::mailbox::Mailbox;

/// Before anybody has signed in nothing needs more: a token has at most 65,535 bytes (MS-SMB2 2.2.5, SecurityBufferLength).
pub(crate) const FRAME_BYTES_MAX_UNKNOWN: usize = 68 << 10;
/// The most connections on which nobody has signed in.
const STRANGERS_MAX: usize = 3_072;
/// Bytes that such a connection is taken to cost.
const CONNECTION_BYTES: u64 = 6 << 10;
/// Bytes that each has for itself: a begun sign-in, and the beginning of a short frame.
pub(crate) const OWN_BYTES: u64 = 6 << 10;
/// The part of the connections, and of the bytes, that one network may have.
pub(crate) const NETWORK_SHARE: u64 = 4;
/// The part of the bytes that is kept for what comes before who was told to end has ended.
const RESERVE_SHARE: u64 = 16;
/// So many of those on which nothing has happened for longest are compared when one has to end.
const COMPARED: usize = 64;
/// How often a connection counts as young again: when it has negotiated, and when its first sign-in has begun.
const STEPS_MAX: u8 = 2;
/// Connections that were told to end and have not yet, at which new ones wait to be accepted. They are more than there should be, so that
/// the reserve of descriptors must have room for them.
const ENDING_MAX: usize = 32;

/// All of them.
pub(crate) struct Strangers {
    limit: usize,
    budget: Arc<Budget>,
    inside: Mutex<Inside>,
    /// Told when one has ended that was told to.
    ended: Notify,
}

#[derive(Default)]
struct Inside {
    next: u64,
    /// By when something happened last.
    by_age: BTreeMap<u64, Known>,
    networks: HashMap<AddressPrefix, Network>,
    neighbours: HashMap<AddressPrefix, Neighbours>,
    /// Those that were told to end, and what they hold.
    ending: BTreeMap<u64, u64>,
}

/// One of them.
struct Known {
    from: AddressPrefix,
    mailbox: Weak<Mailbox>,
    budget: Arc<Budget>,
    of_network: Arc<Budget>,
    of_neighbours: Arc<Budget>,
}

/// What comes from one network.
struct Network {
    strangers: BTreeSet<u64>,
    budget: Arc<Budget>,
}

/// What comes from networks that are likely to be one's.
struct Neighbours {
    networks: usize,
    budget: Arc<Budget>,
}

/// A connection's place among them, given up when it is dropped: somebody has signed in, or it has ended.
pub(crate) struct Stranger {
    strangers: Arc<Strangers>,
    number: Cell<u64>,
    steps: Cell<u8>,
    /// What it may make the server hold.
    pub(crate) budget: Arc<Budget>,
    _connection: Charge,
}

/// Whether there is room for one more connection beside those there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Left,
    None,
}

impl Strangers {
    /// None yet, of `connections` that there may be in all.
    pub(crate) fn new(connections: u64, budget: &Arc<Budget>) -> Arc<Self> {
        let limit = usize::try_from(connections / 2).unwrap_or(usize::MAX).clamp(1, STRANGERS_MAX);
        Arc::new(Strangers { limit, budget: Arc::clone(budget), inside: Mutex::default(), ended: Notify::new() })
    }

    /// Waits until those that were told to end have made room for one more.
    pub(crate) async fn ready(&self) {
        loop {
            let ended = self.ended.notified();
            if self.inside.lock().ending.len() < ENDING_MAX {
                return;
            }
            ended.await;
        }
    }

    /// Takes a new connection. Where there are too many, one of its network or of all is told to end; `None` where none can make room.
    pub(crate) fn enter(self: &Arc<Self>, from: AddressPrefix, mailbox: &Arc<Mailbox>, room: Room) -> Option<Stranger> {
        let mut inside = self.inside.lock();
        let of_network = inside.networks.get(&from).and_then(|network| {
            let is_full = network.strangers.len() >= self.limit.div_ceil(NETWORK_SHARE as usize);
            network.strangers.first().copied().filter(|_| is_full)
        });
        let is_full = room == Room::None || inside.by_age.len() >= self.limit;
        match of_network.or_else(|| inside.dispensable().filter(|_| is_full)) {
            Some(_) if inside.ending.len() >= ENDING_MAX => return None,
            Some(number) => inside.end(number),
            None if room == Room::None => return None,
            None => {}
        }
        let (of_network, of_neighbours) = inside.budgets_of(from, &self.budget);
        let budget = of_network.share(u64::MAX, OWN_BYTES);
        let _connection = of_network.overdraw(CONNECTION_BYTES);
        let known =
            Known { from, mailbox: Arc::downgrade(mailbox), budget: Arc::clone(&budget), of_network, of_neighbours };
        let number = Cell::new(inside.add(known));
        Some(Stranger { strangers: Arc::clone(self), number, steps: Cell::new(0), budget, _connection })
    }

    /// Tells some to end where all hold so much that little is left for what comes next.
    pub(crate) fn make_room(&self) {
        let most = self.budget.limit() - self.budget.limit() / RESERVE_SHARE;
        if self.budget.used() <= most {
            return;
        }
        let mut inside = self.inside.lock();
        while self.budget.used().saturating_sub(inside.ending.values().sum()) > most
            && inside.ending.len() < ENDING_MAX
            && let Some(number) = inside.dispensable()
        {
            inside.end(number);
        }
    }

    /// Tells one to end: there are no descriptors left.
    pub(crate) fn end_one(&self) {
        let mut inside = self.inside.lock();
        if let Some(number) = inside.dispensable() {
            inside.end(number);
        }
    }
}

impl Inside {
    /// The budget of a network, and that of its neighbours.
    fn budgets_of(&mut self, from: AddressPrefix, all: &Arc<Budget>) -> (Arc<Budget>, Arc<Budget>) {
        let Inside { networks, neighbours, .. } = self;
        let neighbours = neighbours
            .entry(from.neighbours())
            .or_insert_with(|| Neighbours { networks: 0, budget: all.below(u64::MAX) });
        let network = networks.entry(from).or_insert_with(|| {
            neighbours.networks += 1;
            let budget = neighbours.budget.below(all.limit() / NETWORK_SHARE);
            Network { strangers: BTreeSet::new(), budget }
        });
        (Arc::clone(&network.budget), Arc::clone(&neighbours.budget))
    }

    /// Adds one as the youngest; gives its number.
    fn add(&mut self, known: Known) -> u64 {
        let number = self.next;
        self.next += 1;
        if let Some(network) = self.networks.get_mut(&known.from) {
            network.strangers.insert(number);
        }
        self.by_age.insert(number, known);
        number
    }

    /// The one that ends where one has to.
    fn dispensable(&self) -> Option<u64> {
        let mut found = None;
        for (number, known) in self.by_age.iter().take(COMPARED) {
            let holds = (known.of_neighbours.used(), known.of_network.used(), known.budget.used());
            // Of equals the one that comes first.
            if found.is_none_or(|(_, most)| holds > most) {
                found = Some((*number, holds));
            }
        }
        found.map(|(number, _)| number)
    }

    fn end(&mut self, number: u64) {
        let Some(known) = self.by_age.remove(&number) else { return };
        self.leave_network(known.from, number);
        self.ending.insert(number, CONNECTION_BYTES + known.budget.used().max(OWN_BYTES));
        if let Some(mailbox) = known.mailbox.upgrade() {
            mailbox.end_stranger();
        }
    }

    fn leave_network(&mut self, from: AddressPrefix, number: u64) {
        let Some(network) = self.networks.get_mut(&from) else { return };
        network.strangers.remove(&number);
        if !network.strangers.is_empty() {
            return;
        }
        self.networks.remove(&from);
        if let Entry::Occupied(mut neighbours) = self.neighbours.entry(from.neighbours()) {
            neighbours.get_mut().networks -= 1;
            if neighbours.get().networks == 0 {
                neighbours.remove();
            }
        }
    }
}

impl Stranger {
    /// Signing in has gone on: it is young again, so that nobody who only comes later takes its place.
    pub(crate) fn step(&self) {
        if self.steps.get() == STEPS_MAX {
            return;
        }
        self.steps.set(self.steps.get() + 1);
        let mut inside = self.strangers.inside.lock();
        if let Some(known) = inside.by_age.remove(&self.number.get()) {
            if let Some(network) = inside.networks.get_mut(&known.from) {
                network.strangers.remove(&self.number.get());
            }
            self.number.set(inside.add(known));
        }
    }

    /// Sees to it that others have room beside it.
    pub(crate) fn make_room(&self) {
        self.strangers.make_room();
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let mut inside = self.strangers.inside.lock();
        match inside.by_age.remove(&self.number.get()) {
            Some(known) => inside.leave_network(known.from, self.number.get()),
            None => {
                inside.ending.remove(&self.number.get());
                drop(inside);
                self.strangers.ended.notify_waiters();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    const KIB: u64 = 1 << 10;
    const ALL: u64 = 40 << 20;
    const PLACE: u64 = CONNECTION_BYTES + OWN_BYTES;

    struct Door {
        strangers: Arc<Strangers>,
        budget: Arc<Budget>,
        inside: Vec<(Stranger, Arc<Mailbox>)>,
    }

    impl Door {
        fn new(connections: u64) -> Self {
            let budget = Budget::new(ALL);
            Door { strangers: Strangers::new(connections, &budget), budget, inside: Vec::new() }
        }

        /// One from a network that has no neighbours.
        fn enter(&mut self, host: usize, room: Room) -> bool {
            self.enter_from(&format!("10.{}.{}.1:1", host / 256, host % 256), room)
        }

        fn enter_from(&mut self, peer: &str, room: Room) -> bool {
            let mailbox = Arc::<Mailbox>::default();
            let entered = self.strangers.enter(AddressPrefix::of(peer), &mailbox, room);
            let is_in = entered.is_some();
            self.inside.extend(entered.map(|stranger| (stranger, mailbox)));
            is_in
        }

        fn budget(&self, at: usize) -> &Arc<Budget> {
            &self.inside[at].0.budget
        }

        /// Which were told to end, by when they came.
        fn told(&self) -> Vec<usize> {
            let told = |(at, (_, mailbox)): (usize, &(Stranger, Arc<Mailbox>))| mailbox.take().ends.then_some(at);
            self.inside.iter().enumerate().filter_map(told).collect()
        }

        /// Those that were told to end do; gives their numbers.
        fn end_told(&mut self) -> Vec<u64> {
            let ended = self.inside.extract_if(.., |(_, mailbox)| mailbox.take().ends);
            ended.map(|(stranger, _)| stranger.number.get()).collect()
        }
    }

    #[test]
    fn one_network_has_its_share_and_then_its_own_oldest_go() {
        let mut door = Door::new(80);
        assert!(door.enter(1, Room::Left));
        assert!((0..13).all(|_| door.enter(2, Room::Left)));
        assert_eq!(door.told(), [1, 2, 3], "a quarter of forty may stay");
        assert!(door.enter(3, Room::Left));
        assert_eq!(door.told(), [0; 0]);
    }

    #[test]
    fn where_all_have_one_the_oldest_goes_whoever_comes() {
        let mut door = Door::new(20);
        assert!((0..12).all(|host| door.enter(host, Room::Left)));
        assert_eq!(door.told(), [0, 1]);
    }

    #[test]
    fn who_has_most_goes_before_the_oldest_of_those_who_have_one() {
        let mut door = Door::new(20);
        assert!((0..6).all(|host| door.enter(host, Room::Left)));
        assert!((0..2).all(|_| door.enter(99, Room::Left)));
        assert!(door.enter_from("10.77.1.1:1", Room::Left) && door.enter_from("10.77.1.2:1", Room::Left));
        assert!(door.enter(100, Room::Left));
        assert_eq!(door.end_told(), [6], "of an address that has two");
        assert!(door.enter(101, Room::Left));
        assert_eq!(door.end_told(), [8], "of addresses that are likely to be one's");
        assert!(door.enter(102, Room::Left));
        assert_eq!(door.end_told(), [0]);
    }

    #[test]
    fn addresses_of_one_site_are_one_to_those_who_come_from_elsewhere() {
        let mut door = Door::new(2_000);
        assert!(door.enter(1, Room::Left));
        for net in 0..3_000 {
            assert!(door.enter_from(&format!("[2001:db8:0:{net:x}::1]:1"), Room::Left));
            door.end_told();
        }
        assert_eq!(door.inside.len(), 1_000);
        assert_eq!(door.inside[0].0.number.get(), 0, "the first is still there");
        assert!(door.strangers.inside.lock().neighbours.len() == 2);
    }

    #[test]
    fn who_goes_on_with_signing_in_is_young_again_twice() {
        let mut door = Door::new(20);
        assert!((0..10).all(|host| door.enter(host, Room::Left)));
        door.inside[0].0.step();
        assert!(door.enter(10, Room::Left));
        assert_eq!(door.told(), [1]);
        (0..8).for_each(|_| door.inside[2].0.step());
        assert_eq!(door.inside[2].0.steps.get(), STEPS_MAX);
        let number = door.inside[2].0.number.get();
        door.inside[2].0.step();
        assert_eq!(door.inside[2].0.number.get(), number);
    }

    #[test]
    fn where_the_server_is_full_a_stranger_makes_room_and_where_there_is_none_nobody_enters() {
        let mut door = Door::new(1_000);
        assert!(!door.enter(1, Room::None));
        assert!(door.enter(1, Room::Left));
        assert!(door.enter(2, Room::None));
        assert_eq!(door.told(), [0]);
    }

    #[test]
    fn no_more_are_taken_than_the_shards_can_end() {
        let mut door = Door::new(20);
        let entered = (0..200).filter(|host| door.enter(*host, Room::Left)).count();
        assert_eq!(entered, 10 + ENDING_MAX);
        let ready = |door: &Door| std::pin::pin!(door.strangers.ready()).poll(&mut Context::from_waker(Waker::noop()));
        assert!(ready(&door).is_pending());
        door.end_told();
        assert!(ready(&door).is_ready() && door.enter(1, Room::Left));
        door.inside.clear();
        let inside = door.strangers.inside.lock();
        assert!(inside.networks.is_empty() && inside.neighbours.is_empty() && inside.ending.is_empty());
        assert_eq!(door.budget.used(), 0);
    }

    #[test]
    fn a_network_has_a_share_of_the_bytes_and_each_connection_its_own() {
        let mut door = Door::new(8_192);
        assert!(door.enter(1, Room::Left) && door.enter(1, Room::Left) && door.enter(2, Room::Left));
        let _held = door.budget(0).charge(ALL / 4 - 2 * CONNECTION_BYTES - OWN_BYTES).unwrap();
        let _own = door.budget(1).charge(OWN_BYTES).unwrap();
        assert!(door.budget(1).charge(1).is_none());
        assert!(door.budget(2).charge(1 << 20).is_some());
    }

    #[test]
    fn who_holds_most_ends_where_little_is_left_and_newcomers_have_their_own() {
        let mut door = Door::new(8_192);
        // Ten thousand that have an address each, and begin a frame of 68 KiB each.
        let (mut held, mut newcomers) = (Vec::new(), 0);
        for host in 0..10_000 {
            assert!(door.enter(host, Room::Left));
            let (stranger, mailbox) = door.inside.pop().unwrap();
            let charge = stranger.budget.charge(68 * KIB);
            assert!(charge.is_some(), "{host} has no room beside {}", door.budget.used());
            stranger.make_room();
            held.push((stranger, mailbox, charge));
            assert!(door.budget.used() <= ALL);
            held.retain(|(_, mailbox, _)| !mailbox.take().ends);
            match host % 200 {
                0 => assert!(door.enter(20_000 + host, Room::Left)),
                // It has signed in.
                199 => {
                    assert_eq!(door.end_told(), [0; 0], "beside 200 that came after it");
                    assert!(door.budget(0).charge(OWN_BYTES).is_some());
                    door.inside.clear();
                    newcomers += 1;
                }
                _ => {}
            }
        }
        assert!(newcomers == 50 && (500..900).contains(&held.len()), "{} stay", held.len());
    }

    #[test]
    fn all_places_and_what_they_hold_fit() {
        assert!(STRANGERS_MAX as u64 * PLACE <= ALL * (RESERVE_SHARE - 1) / RESERVE_SHARE);
    }
}
