//! Turns for what there is so much of, and room counted in bytes. Of what is free an account takes no more than half, and a part of it (one of its shares, or an
//! address that asks for it) no more than half of what its account may still take: who has much and gives nothing back keeps neither another account waiting nor
//! another part of its own.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot::{Receiver, Sender, channel};
use tokio::time::timeout;

/// The part of an address of version 6 that tells networks apart: who has one of them has all of its addresses.
const NETWORK_BITS: u128 = !0 << 64;

/// Who takes something.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Taker {
    account: Arc<str>,
    part: Part,
}

/// What of an account takes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Part {
    /// Who asks from there.
    Address(IpAddr),
    /// Who asks for what is in this share.
    Share(Arc<str>),
}

/// All turns, who has them, and who waits.
#[derive(Clone)]
pub(crate) struct Turns(Arc<Mutex<Line>>);

struct Line {
    free: usize,
    held: Held,
    /// In the order in which they came.
    waiting: Vec<Waiting>,
}

/// Somebody who waits for so many turns at once.
struct Waiting {
    taker: Taker,
    count: usize,
    tell: Sender<Turn>,
}

/// How many turns each account and part of it has; none that has none.
#[derive(Clone, Default)]
pub(crate) struct Held(HashMap<Arc<str>, HashMap<Part, usize>>);

/// A turn, or several of one taker, which others have once this is dropped.
pub(crate) struct Turn {
    turns: Turns,
    taker: Taker,
    count: usize,
}

impl Taker {
    /// Somebody who asks for this account's from this address.
    pub(crate) fn of(account: &str, address: IpAddr) -> Self {
        Taker { account: account.into(), part: Part::Address(network(address)) }
    }

    /// Somebody who asks for what is in this share of an account.
    pub(crate) fn of_share(account: &str, share: &str) -> Self {
        Taker { account: account.into(), part: Part::Share(share.into()) }
    }
}

fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK_BITS).into(),
        address @ IpAddr::V4(_) => address,
    }
}

impl Turns {
    pub(crate) fn new(count: usize) -> Self {
        Turns(Arc::new(Mutex::new(Line { free: count, held: Held::default(), waiting: Vec::new() })))
    }

    /// A turn, where there is one at once.
    pub(crate) fn now(&self, taker: &Taker) -> Option<Turn> {
        self.some_now(taker, 1)
    }

    /// A turn, as soon as there is one. Whoever drops this no longer waits.
    pub(crate) fn soon(&self, taker: &Taker) -> Receiver<Turn> {
        self.some_soon(taker, 1)
    }

    /// So many turns, where there are as many at once, and no other of this taker waits for more.
    pub(crate) fn some_now(&self, taker: &Taker, count: usize) -> Option<Turn> {
        let mut line = self.0.lock();
        let others_wait = || line.waiting.iter().any(|other| other.taker == *taker && !other.tell.is_closed());
        (line.has_some_for(taker, count) && !others_wait()).then(|| line.give(self, taker, count))
    }

    /// So many turns, as soon as there are as many. Whoever drops this no longer waits.
    pub(crate) fn some_soon(&self, taker: &Taker, count: usize) -> Receiver<Turn> {
        let (tell, told) = channel();
        self.0.lock().waiting.push(Waiting { taker: taker.clone(), count, tell });
        self.hand_out();
        told
    }

    /// So many turns. `None` where there are not as many within that time.
    pub(crate) async fn some_within(&self, taker: &Taker, count: usize, within: Duration) -> Option<Turn> {
        if let Some(turn) = self.some_now(taker, count) {
            return Some(turn);
        }
        timeout(within, self.some_soon(taker, count)).await.ok()?.ok()
    }

    /// Who has how many.
    pub(crate) fn held(&self) -> Held {
        self.0.lock().held.clone()
    }

    /// Gives turns to who waits, as long as there are enough for somebody.
    fn hand_out(&self) {
        loop {
            let (tell, turn) = {
                let mut line = self.0.lock();
                line.waiting.retain(|waiting| !waiting.tell.is_closed());
                let Some(next) = line.next() else { return };
                let Waiting { taker, count, tell } = line.waiting.remove(next);
                (tell, line.give(self, &taker, count))
            };
            // Who has gone in this moment gives it back.
            drop(tell.send(turn));
        }
    }
}

#[cfg(test)]
impl Turns {
    /// True where nobody has one.
    pub(crate) fn is_free(&self) -> bool {
        self.held().0.is_empty()
    }

    /// How many parts of an account have some.
    pub(crate) fn parts(&self, account: &str) -> usize {
        self.held().0.get(account).map_or(0, HashMap::len)
    }

    /// How many nobody has.
    pub(crate) fn free(&self) -> usize {
        self.0.lock().free
    }
}

impl Line {
    fn has_some_for(&self, taker: &Taker, count: usize) -> bool {
        let (of_account, of_part) = (self.held.of_account(taker), self.held.of_part(taker));
        // What the account could take by and by, of what is free then.
        let left = self.free.saturating_sub(of_account).div_ceil(2);
        of_account + count <= self.free && of_part + count <= left
    }

    fn give(&mut self, turns: &Turns, taker: &Taker, count: usize) -> Turn {
        self.free -= count;
        let of_account = self.held.0.entry(Arc::clone(&taker.account)).or_default();
        *of_account.entry(taker.part.clone()).or_default() += count;
        Turn { turns: turns.clone(), taker: taker.clone(), count }
    }

    fn take_back(&mut self, taker: &Taker, count: usize) {
        self.free += count;
        let Some(of_account) = self.held.0.get_mut(&taker.account) else { return };
        if let Some(held) = of_account.get_mut(&taker.part) {
            *held -= count;
        }
        of_account.retain(|_, held| *held > 0);
        if of_account.is_empty() {
            self.held.0.remove(&taker.account);
        }
    }

    /// Whose turn it is of those who wait: whose account has the fewest, then whose part, then who came first. Of one taker's none comes before another: who
    /// wants many would never have them.
    fn next(&self) -> Option<usize> {
        let mut takers = HashSet::new();
        let firsts = self.waiting.iter().enumerate().filter(|(_, waiting)| takers.insert(&waiting.taker));
        let those = firsts.filter(|(_, waiting)| self.has_some_for(&waiting.taker, waiting.count));
        let held = |taker: &Taker| (self.held.of_account(taker), self.held.of_part(taker));
        those.min_by_key(|(at, waiting)| (held(&waiting.taker), *at)).map(|(at, _)| at)
    }
}

impl Held {
    fn of_account(&self, taker: &Taker) -> usize {
        self.0.get(&taker.account).map_or(0, |of_account| of_account.values().sum())
    }

    fn of_part(&self, taker: &Taker) -> usize {
        self.0.get(&taker.account).and_then(|of_account| of_account.get(&taker.part)).copied().unwrap_or_default()
    }

    /// Whether one who waits may have the turn of one who does not use his: who has more of them.
    pub(crate) fn yields(&self, has: &Taker, waits: &Taker) -> bool {
        match has.account == waits.account {
            true => self.of_part(has) >= self.of_part(waits),
            false => self.of_account(has) > self.of_account(waits),
        }
    }
}

impl Turn {
    pub(crate) fn taker(&self) -> &Taker {
        &self.taker
    }

    /// More of the same taker's, which end with it.
    pub(crate) fn add(&mut self, mut more: Turn) {
        self.count += mem::take(&mut more.count);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.count > 0 {
            self.turns.0.lock().take_back(&self.taker, self.count);
            self.turns.hand_out();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taker(account: &str, last: u8) -> Taker {
        Taker::of(account, [192, 0, 2, last].into())
    }

    /// All that one can have.
    fn all(turns: &Turns, taker: &Taker) -> Vec<Turn> {
        std::iter::from_fn(|| turns.now(taker)).collect()
    }

    #[test]
    fn an_account_has_half_of_what_is_free_and_an_address_half_of_that() {
        let turns = Turns::new(64);
        let of_first: Vec<_> = (0..7).map(|last| all(&turns, &taker("first", last))).collect();
        assert_eq!(of_first.iter().map(Vec::len).collect::<Vec<_>>(), [16, 8, 4, 2, 1, 1, 0]);
        let of_second = all(&turns, &taker("second", 0));
        assert_eq!(of_second.len(), 8);
        drop(of_first);
        drop(of_second);
        let left = turns.0.lock().free;
        assert_eq!((left, turns.held().0.len()), (64, 0));
        assert_eq!(all(&Turns::new(2), &taker("first", 0)).len(), 1, "the fewest turns there are");
    }

    #[test]
    fn who_has_the_fewest_comes_first() {
        let turns = Turns::new(64);
        let mut held = all(&turns, &taker("first", 0));
        let (mut waits, mut others) = (turns.soon(&taker("first", 0)), turns.soon(&taker("first", 0)));
        assert!(waits.try_recv().is_err() && others.try_recv().is_err());
        let mut address = turns.soon(&taker("first", 1));
        let mut account = turns.soon(&taker("second", 0));
        assert!(address.try_recv().is_ok() && account.try_recv().is_ok(), "nobody waits for who has many");
        drop(waits);
        held.pop();
        assert!(others.try_recv().is_ok(), "who waits no longer is passed by");
    }

    #[test]
    fn a_turn_that_nobody_takes_is_anothers() {
        let turns = Turns::new(2);
        let held = turns.now(&taker("first", 0)).unwrap();
        let (waits, mut others) = (turns.soon(&taker("first", 0)), turns.soon(&taker("first", 0)));
        drop(held);
        assert!(others.try_recv().is_err());
        drop(waits);
        assert!(others.try_recv().is_ok());
    }

    #[test]
    fn who_has_more_gives_way() {
        let turns = Turns::new(64);
        let _held = (all(&turns, &taker("first", 0)), turns.now(&taker("first", 1)), turns.now(&taker("second", 0)));
        let yields = |has, waits| turns.held().yields(&has, &waits);
        assert!(yields(taker("first", 1), taker("second", 0)) && !yields(taker("second", 0), taker("first", 1)));
        assert!(yields(taker("first", 0), taker("first", 1)) && !yields(taker("first", 1), taker("first", 0)));
        assert!(yields(taker("first", 0), taker("first", 0)));
        assert!(yields(taker("second", 0), taker("third", 0)));
    }

    #[test]
    fn a_network_is_one_address() {
        let of = |address: &str| Taker::of("first", address.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }

    #[tokio::test]
    async fn who_wants_many_is_not_passed_by_others_of_the_same_taker() {
        let turns = Turns::new(64);
        let share = |account, share| Taker::of_share(account, share);
        let held = turns.some_now(&share("first", "slow"), 14).unwrap();
        let mut many = turns.some_soon(&share("first", "slow"), 8);
        assert!(many.try_recv().is_err() && turns.now(&share("first", "slow")).is_none());
        let mut few = turns.soon(&share("first", "slow"));
        assert!(few.try_recv().is_err() && turns.now(&share("first", "other")).is_some());
        assert_eq!(turns.some_now(&share("second", "slow"), 8).map(|turn| turn.count), Some(8));
        drop(held);
        assert_eq!(many.try_recv().map(|turn| turn.count), Ok(8));
        assert!(few.try_recv().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_does_so_for_a_time() {
        let turns = Turns::new(8);
        let mut held = turns.now(&taker("first", 0)).unwrap();
        assert!(turns.some_within(&taker("first", 0), 4, Duration::from_secs(5)).await.is_none());
        held.add(turns.some_within(&taker("first", 0), 1, Duration::ZERO).await.unwrap());
        assert_eq!(turns.free(), 6);
        drop(held);
        assert_eq!(turns.free(), 8);
    }
}
