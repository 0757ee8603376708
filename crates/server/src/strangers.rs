//! Connections on which nobody has signed in. So many may be there at a time, and each network has a share of them; beyond that the oldest
//! goes. Everything such a connection makes the server hold is charged to its network, below the budget of all strangers.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::address::AddressPrefix;
use crate::budget::Budget;
use crate::mailbox::Mailbox;

/// The most connections on which nobody has signed in. Each costs some 6 KiB.
const STRANGERS_MAX: usize = 4_096;
/// The part of them, and of their bytes, that one network may have.
pub(crate) const NETWORK_SHARE: u64 = 4;
/// Connections that were told to end and have not yet, at which no new one is taken. They are more than there should be, so that the
/// reserve of descriptors must have room for them.
const ENDING_MAX: usize = 32;

/// All of them.
pub(crate) struct Strangers {
    limit: usize,
    budget: Arc<Budget>,
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    next: u64,
    by_age: BTreeMap<u64, (AddressPrefix, Weak<Mailbox>)>,
    networks: HashMap<AddressPrefix, Network>,
    ending: usize,
}

/// What comes from one network.
struct Network {
    strangers: BTreeSet<u64>,
    budget: Arc<Budget>,
}

/// A connection's place among them, given up when it is dropped: somebody has signed in, or it has ended.
pub(crate) struct Stranger {
    strangers: Arc<Strangers>,
    number: u64,
    /// What it may make the server hold.
    pub(crate) budget: Arc<Budget>,
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
        Arc::new(Strangers { limit, budget: Arc::clone(budget), inside: Mutex::default() })
    }

    /// Takes a new connection. Where there are too many, the oldest of its network or of all is told to end; `None` where none can
    /// make room.
    pub(crate) fn enter(self: &Arc<Self>, from: AddressPrefix, mailbox: &Arc<Mailbox>, room: Room) -> Option<Stranger> {
        let mut inside = self.inside.lock();
        let of_network = inside.networks.get(&from).and_then(|network| {
            let is_full = network.strangers.len() >= self.limit.div_ceil(NETWORK_SHARE as usize);
            network.strangers.first().copied().filter(|_| is_full)
        });
        let is_full = room == Room::None || inside.by_age.len() >= self.limit;
        let oldest = inside.by_age.keys().next().copied().filter(|_| is_full);
        match of_network.or(oldest) {
            Some(_) if inside.ending >= ENDING_MAX => return None,
            Some(number) => inside.end(number),
            None if room == Room::None => return None,
            None => {}
        }
        let number = inside.next;
        inside.next += 1;
        inside.by_age.insert(number, (from, Arc::downgrade(mailbox)));
        let network = inside.networks.entry(from).or_insert_with(|| {
            let bytes = self.budget.limit() / NETWORK_SHARE;
            Network { strangers: BTreeSet::new(), budget: self.budget.below(bytes) }
        });
        network.strangers.insert(number);
        Some(Stranger { strangers: Arc::clone(self), number, budget: Arc::clone(&network.budget) })
    }

    /// Tells the oldest to end: there are no descriptors left.
    pub(crate) fn end_oldest(&self) {
        let mut inside = self.inside.lock();
        if let Some(number) = inside.by_age.keys().next().copied() {
            inside.end(number);
        }
    }
}

impl Inside {
    fn end(&mut self, number: u64) {
        let Some((from, mailbox)) = self.by_age.remove(&number) else { return };
        self.leave_network(from, number);
        self.ending += 1;
        if let Some(mailbox) = mailbox.upgrade() {
            mailbox.end_stranger();
        }
    }

    fn leave_network(&mut self, from: AddressPrefix, number: u64) {
        if let Some(network) = self.networks.get_mut(&from) {
            network.strangers.remove(&number);
            if network.strangers.is_empty() {
                self.networks.remove(&from);
            }
        }
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let mut inside = self.strangers.inside.lock();
        match inside.by_age.remove(&self.number) {
            Some((from, _)) => inside.leave_network(from, self.number),
            None => inside.ending -= 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Door {
        strangers: Arc<Strangers>,
        inside: Vec<(Stranger, Arc<Mailbox>)>,
    }

    impl Door {
        fn new(connections: u64) -> Self {
            Door { strangers: Strangers::new(connections, &Budget::new(4_000)), inside: Vec::new() }
        }

        fn enter(&mut self, host: usize, room: Room) -> bool {
            let mailbox = Arc::<Mailbox>::default();
            let from = AddressPrefix::of(&format!("10.0.{}.{}:1", host / 256, host % 256));
            let entered = self.strangers.enter(from, &mailbox, room);
            let is_in = entered.is_some();
            self.inside.extend(entered.map(|stranger| (stranger, mailbox)));
            is_in
        }

        /// Which were told to end, by when they came.
        fn told(&self) -> Vec<usize> {
            let told = |(at, (_, mailbox)): (usize, &(Stranger, Arc<Mailbox>))| mailbox.take().ends.then_some(at);
            self.inside.iter().enumerate().filter_map(told).collect()
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
    fn when_all_are_there_the_oldest_goes_whoever_comes() {
        let mut door = Door::new(20);
        assert!((0..12).all(|host| door.enter(host, Room::Left)));
        assert_eq!(door.told(), [0, 1]);
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
        door.inside.clear();
        assert!(door.strangers.inside.lock().networks.is_empty() && door.strangers.inside.lock().ending == 0);
        assert!(door.enter(1, Room::Left));
    }

    #[test]
    fn a_network_has_a_share_of_the_bytes() {
        let mut door = Door::new(20);
        assert!(door.enter(1, Room::Left) && door.enter(1, Room::Left) && door.enter(2, Room::Left));
        let budget = |at: usize| Arc::clone(&door.inside[at].0.budget);
        let _held = budget(0).charge(1_000).unwrap();
        assert!(budget(1).charge(1).is_none());
        assert!(budget(2).charge(1_000).is_some());
    }
}
