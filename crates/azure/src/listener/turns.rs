//! Turns for what is sent piece by piece. Of those that are free an account takes no more than half, and an address of it no more than half of what its account
//! may still take: who takes nothing of what it is sent keeps neither another account waiting nor another address of its own.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot::{Receiver, Sender, channel};

/// The part of an address of version 6 that tells networks apart: who has one of them has all of its addresses.
const NETWORK_BITS: u128 = !0 << 64;

/// To whom something is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::listener) struct Taker {
    account: Arc<str>,
    address: IpAddr,
}

/// All turns, who has them, and who waits.
#[derive(Clone)]
pub(super) struct Turns(Arc<Mutex<Line>>);

struct Line {
    free: usize,
    held: Held,
    /// In the order in which they came.
    waiting: Vec<(Taker, Sender<Turn>)>,
}

/// How many turns each account and address has; none that has none.
#[derive(Clone, Default)]
pub(super) struct Held(HashMap<Arc<str>, HashMap<IpAddr, usize>>);

/// A turn, which others have once this is dropped.
pub(super) struct Turn {
    turns: Turns,
    taker: Taker,
}

impl Taker {
    /// Somebody who asks for this account's from this address.
    pub(in crate::listener) fn of(account: &str, address: IpAddr) -> Self {
        let address = match address.to_canonical() {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK_BITS).into(),
            address @ IpAddr::V4(_) => address,
        };
        Taker { account: account.into(), address }
    }
}

impl Turns {
    pub(super) fn new(count: usize) -> Self {
        Turns(Arc::new(Mutex::new(Line { free: count, held: Held::default(), waiting: Vec::new() })))
    }

    /// A turn, where there is one at once.
    pub(super) fn now(&self, taker: &Taker) -> Option<Turn> {
        let mut line = self.0.lock();
        line.has_one_for(taker).then(|| line.give(self, taker))
    }

    /// A turn, as soon as there is one. Whoever drops this no longer waits.
    pub(super) fn soon(&self, taker: &Taker) -> Receiver<Turn> {
        let (tell, told) = channel();
        self.0.lock().waiting.push((taker.clone(), tell));
        self.hand_out();
        told
    }

    /// Who has how many.
    pub(super) fn held(&self) -> Held {
        self.0.lock().held.clone()
    }

    /// True where nobody has one.
    #[cfg(test)]
    pub(super) fn is_free(&self) -> bool {
        self.held().0.is_empty()
    }

    /// Gives turns to who waits, as long as there is one for somebody.
    fn hand_out(&self) {
        loop {
            let (tell, turn) = {
                let mut line = self.0.lock();
                line.waiting.retain(|(_, tell)| !tell.is_closed());
                let Some(next) = line.next() else { return };
                let (taker, tell) = line.waiting.remove(next);
                (tell, line.give(self, &taker))
            };
            // Who has gone in this moment gives it back.
            drop(tell.send(turn));
        }
    }
}

impl Line {
    fn has_one_for(&self, taker: &Taker) -> bool {
        let (of_account, of_address) = (self.held.of_account(taker), self.held.of_address(taker));
        // What the account could take by and by, of what is free then.
        let left = self.free.saturating_sub(of_account).div_ceil(2);
        of_account < self.free && of_address < left
    }

    fn give(&mut self, turns: &Turns, taker: &Taker) -> Turn {
        self.free -= 1;
        *self.held.0.entry(Arc::clone(&taker.account)).or_default().entry(taker.address).or_default() += 1;
        Turn { turns: turns.clone(), taker: taker.clone() }
    }

    fn take_back(&mut self, taker: &Taker) {
        self.free += 1;
        let Some(of_account) = self.held.0.get_mut(&taker.account) else { return };
        if let Some(count) = of_account.get_mut(&taker.address) {
            *count -= 1;
        }
        of_account.retain(|_, count| *count > 0);
        if of_account.is_empty() {
            self.held.0.remove(&taker.account);
        }
    }

    /// Whose turn it is of those who wait: whose account has the fewest, then whose address, then who came first.
    fn next(&self) -> Option<usize> {
        let those = self.waiting.iter().enumerate().filter(|(_, (taker, _))| self.has_one_for(taker));
        let next = those.min_by_key(|(at, (taker, _))| (self.held.of_account(taker), self.held.of_address(taker), *at));
        next.map(|(at, _)| at)
    }
}

impl Held {
    fn of_account(&self, taker: &Taker) -> usize {
        self.0.get(&taker.account).map_or(0, |of_account| of_account.values().sum())
    }

    fn of_address(&self, taker: &Taker) -> usize {
        self.0.get(&taker.account).and_then(|of_account| of_account.get(&taker.address)).copied().unwrap_or_default()
    }

    /// Whether one who waits may have the turn of one who does not use his: who has more of them.
    pub(super) fn yields(&self, has: &Taker, waits: &Taker) -> bool {
        match has.account == waits.account {
            true => self.of_address(has) >= self.of_address(waits),
            false => self.of_account(has) > self.of_account(waits),
        }
    }
}

impl Turn {
    pub(super) fn taker(&self) -> &Taker {
        &self.taker
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.0.lock().take_back(&self.taker);
        self.turns.hand_out();
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
}
