//! Who waits for a limit, in an order that shares it evenly among those who want more than it allows: among users first, and what one user has among
//! that one's sessions.
//!
//! Each user and each session has a share time: what it has had of the limit. The user with the least goes next, by its session with the least, so that
//! who asks for one thing at a time has as much as who asks for a hundred, and who signs in a hundred times as much as who does once. Who has not asked
//! for a while begins little before those who wait: nothing is saved up.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tokio::sync::oneshot::Sender;

use super::rates::Price;

/// How far behind the others a user or session may begin, in nanoseconds of its share.
const BEHIND_MAX: u64 = 20_000_000;

/// Who asks: a session, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) user: u64,
    pub(crate) session: u64,
}

/// Where a request stands among those of its user: its session's share time, and a number that orders those with the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    user: u64,
    among_own: (u64, u64),
}

/// Those who wait.
#[derive(Default)]
pub(super) struct Line {
    /// The users who have waited since the line was empty.
    users: HashMap<u64, OfUser>,
    /// Those of them who wait, by their share times.
    order: BTreeSet<(u64, u64)>,
    /// The share time of the user who went last.
    reached: u64,
    number: u64,
    /// Somebody lets those go whose time has come.
    pub(super) is_led: bool,
}

/// What one user has had, and waits for.
#[derive(Default)]
struct OfUser {
    time: u64,
    waiting: BTreeMap<(u64, u64), Waiting>,
    /// The share times of its sessions.
    sessions: HashMap<u64, u64>,
    /// The share time of the session that went last.
    reached: u64,
}

/// One request that waits.
pub(super) struct Waiting {
    /// What it counts for its session.
    pub(super) weight: u64,
    pub(super) bytes: u64,
    /// Hears what it has paid once it may go.
    pub(super) go: Sender<Price>,
}

/// Who had so much begins there, or where the others are.
fn begins(had: u64, reached: u64) -> u64 {
    had.max(reached.saturating_sub(BEHIND_MAX))
}

impl Line {
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Where a request of `member` would stand.
    pub(super) fn place(&mut self, member: Member) -> Place {
        self.number += 1;
        let of_session =
            |of: &OfUser| begins(of.sessions.get(&member.session).copied().unwrap_or_default(), of.reached);
        let time = self.users.get(&member.user).map_or(0, of_session);
        Place { user: member.user, among_own: (time, self.number) }
    }

    /// True where nobody would go before it.
    pub(super) fn is_first(&self, place: Place) -> bool {
        let had = self.users.get(&place.user).map_or(0, |of| of.time);
        match self.first() {
            None => true,
            Some((first, _)) if first.user == place.user => place.among_own < first.among_own,
            Some(_) => self.order.first().is_none_or(|(time, _)| begins(had, self.reached) < *time),
        }
    }

    /// Counts a request of `member` that stands, or stood, at `place` for its session.
    pub(super) fn count(&mut self, member: Member, place: Place, price: &Price) {
        let of = self.users.entry(member.user).or_default();
        of.sessions.insert(member.session, place.among_own.0 + price.weight());
    }

    /// A request of `member` that has gone has counted so much too much.
    pub(super) fn lighten(&mut self, member: Member, weight: u64) {
        self.lighten_session(member, weight);
        if let Some(of) = self.users.get(&member.user) {
            self.set_time(member.user, of.time.saturating_sub(weight));
        }
    }

    /// The same of one that has left.
    pub(super) fn lighten_session(&mut self, member: Member, weight: u64) {
        if let Some(had) = self.users.get_mut(&member.user).and_then(|of| of.sessions.get_mut(&member.session)) {
            *had = had.saturating_sub(weight);
        }
    }

    pub(super) fn enter(&mut self, place: Place, waiting: Waiting) {
        let of = self.users.entry(place.user).or_default();
        if of.waiting.is_empty() {
            of.time = begins(of.time, self.reached);
            self.order.insert((of.time, place.user));
        }
        of.waiting.insert(place.among_own, waiting);
    }

    pub(super) fn first(&self) -> Option<(Place, &Waiting)> {
        let (_, user) = self.order.first()?;
        let (among_own, waiting) = self.users.get(user)?.waiting.first_key_value()?;
        Some((Place { user: *user, among_own: *among_own }, waiting))
    }

    /// Whoever stands at `place` leaves.
    pub(super) fn leave(&mut self, place: Place) -> Option<Waiting> {
        let of = self.users.get_mut(&place.user)?;
        let left = of.waiting.remove(&place.among_own)?;
        if of.waiting.is_empty() {
            self.order.remove(&(of.time, place.user));
        }
        if self.order.is_empty() {
            // Who asks next begins where all others do.
            self.users = HashMap::new();
        }
        Some(left)
    }

    /// Who stands, or would, at `place` goes: that counts so much for its user.
    pub(super) fn goes(&mut self, place: Place, weight: u64) {
        let of = self.users.entry(place.user).or_default();
        of.reached = of.reached.max(place.among_own.0);
        let time = begins(of.time, self.reached);
        self.reached = self.reached.max(time);
        self.set_time(place.user, time + weight);
    }

    /// Has a user have had so much.
    fn set_time(&mut self, user: u64, time: u64) {
        let Some(of) = self.users.get_mut(&user) else { return };
        let before = std::mem::replace(&mut of.time, time);
        if !of.waiting.is_empty() {
            self.order.remove(&(before, user));
            self.order.insert((time, user));
        }
    }
}
