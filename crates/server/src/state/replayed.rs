//! CREATEs that a session's client has replayed (MS-SMB2 3.2.4.1.7), by create guid. A client replays what a lost channel left unanswered, under a
//! higher channel sequence. What that channel still delivers afterwards comes late, and MS-SMB2 has no rule against it once the open was used or
//! closed: 3.3.5.9.10 then finds no open by that guid, and the CREATE would be done a second time.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use wire::ids::Guid;

use crate::resource::budget::Charge;
use crate::resource::budgets::UserBudgets;

/// How long a replay is remembered: longer than what a client has given up stays on its way. A connection without a sign of life
/// ends much sooner.
const REMEMBERED: Duration = Duration::from_secs(300);
/// The most replays that one session has remembered; the oldest are forgotten. A client has fewer CREATEs in flight when it loses a channel.
const REPLAYS_MAX: usize = 8192;
/// Bytes that one is taken to cost.
const REPLAY_BYTES: u64 = 128;
/// A sequence that is ahead by more than this is behind (3.3.5.2.10).
const AHEAD_MAX: u16 = 0x7FFF;

/// The CREATEs that one session's client has replayed of late.
#[derive(Default)]
pub(crate) struct Replayed(Mutex<Table>);

#[derive(Default)]
struct Table {
    /// The channel sequence of each guid's last replay, and when that came.
    latest: HashMap<Guid, (u16, Instant)>,
    /// The replays in the order in which they came. One that was replayed again stands here more than once.
    order: VecDeque<(Instant, Guid)>,
    held: Option<Charge>,
}

/// A CREATE with a create guid, as far as this is concerned.
#[derive(Clone, Copy)]
pub(crate) struct Attempt {
    pub(crate) create: Guid,
    /// ChannelSequence of its header.
    pub(crate) sequence: u16,
    pub(crate) is_replay: bool,
}

impl Replayed {
    /// True for a CREATE that its client has replayed since, and no longer waits for: it must do nothing. A replay that is not late is
    /// remembered.
    pub(crate) fn is_late(&self, attempt: Attempt, budgets: &UserBudgets) -> bool {
        #[cfg(feature = "in-memory")]
        if crate::in_memory::lapses(crate::in_memory::Lapse::CreatesOutOfTurn) {
            return false;
        }
        let mut table = self.0.lock();
        if table.latest.is_empty() && !attempt.is_replay {
            return false;
        }
        let now = Instant::now();
        table.forget_before(now.checked_sub(REMEMBERED));
        let is_behind = |(latest, _): &(u16, Instant)| attempt.sequence.wrapping_sub(*latest) > AHEAD_MAX;
        if table.latest.get(&attempt.create).is_some_and(is_behind) {
            return true;
        }
        if attempt.is_replay {
            table.note(attempt, now, budgets);
        }
        false
    }
}

impl Table {
    fn note(&mut self, attempt: Attempt, now: Instant, budgets: &UserBudgets) {
        if self.order.len() >= REPLAYS_MAX || !budgets.bytes.has_left(REPLAY_BYTES) {
            self.forget_first();
        }
        self.latest.insert(attempt.create, (attempt.sequence, now));
        self.order.push_back((now, attempt.create));
        let bytes = self.order.len() as u64 * REPLAY_BYTES;
        self.held.get_or_insert_with(|| budgets.bytes.overdraw(0)).set(bytes);
    }

    fn forget_before(&mut self, time: Option<Instant>) {
        while self.order.front().is_some_and(|(came, _)| time.is_some_and(|time| *came < time)) {
            self.forget_first();
        }
        if let Some(held) = &mut self.held {
            held.shrink_to(self.order.len() as u64 * REPLAY_BYTES);
        }
    }

    fn forget_first(&mut self) {
        if let Some((came, create)) = self.order.pop_front()
            && self.latest.get(&create).is_some_and(|(_, latest)| *latest == came)
        {
            self.latest.remove(&create);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;
    use wire::security::Sid;

    use super::*;
    use crate::resource::budgets::Budgets;
    use crate::resource::capacity::Capacity;

    fn guid(number: usize) -> Guid {
        Guid((number as u128).to_le_bytes())
    }

    fn anew(create: Guid, sequence: u16) -> Attempt {
        Attempt { create, sequence, is_replay: false }
    }

    fn replay(create: Guid, sequence: u16) -> Attempt {
        Attempt { is_replay: true, ..anew(create, sequence) }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_replayed_since_is_late_for_a_while() {
        let budgets = Budgets::new(Capacity::default()).of_user(&Sid::SYSTEM);
        let replayed = Replayed::default();
        let is_late = |attempt| replayed.is_late(attempt, &budgets);
        assert!(!is_late(anew(guid(1), 0)) && !is_late(replay(guid(1), 0xFFFF)), "the first of each");
        assert!(!is_late(replay(guid(1), 1)), "around the end");
        for sequence in [0xFFFE, 0xFFFF, 0] {
            assert!(is_late(anew(guid(1), sequence)) && is_late(replay(guid(1), sequence)), "{sequence:#x}");
        }
        assert!(!is_late(anew(guid(1), 1)) && !is_late(anew(guid(2), 0)));
        advance(REMEMBERED / 2).await;
        assert!(!is_late(replay(guid(1), 2)));
        advance(REMEMBERED / 2 + Duration::from_secs(1)).await;
        assert!(is_late(anew(guid(1), 1)), "its last replay counts");
        advance(REMEMBERED).await;
        assert!(!is_late(anew(guid(1), 1)));
        assert_eq!((replayed.0.lock().order.len(), budgets.bytes.used()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_are_forgotten_where_there_are_too_many() {
        let budgets = Budgets::new(Capacity::default()).of_user(&Sid::SYSTEM);
        let replayed = Replayed::default();
        for number in 0..=REPLAYS_MAX {
            assert!(!replayed.is_late(replay(guid(number), 1), &budgets));
        }
        assert_eq!(budgets.bytes.used(), REPLAYS_MAX as u64 * REPLAY_BYTES);
        assert!(!replayed.is_late(anew(guid(0), 0), &budgets));
        assert!(replayed.is_late(anew(guid(1), 0), &budgets) && replayed.is_late(anew(guid(REPLAYS_MAX), 0), &budgets));
        let all = budgets.bytes.charge(budgets.bytes.limit() - budgets.bytes.used()).unwrap();
        assert!(!replayed.is_late(replay(guid(REPLAYS_MAX + 1), 1), &budgets));
        assert!(!replayed.is_late(anew(guid(1), 0), &budgets), "its user has no more bytes");
        drop((all, replayed));
        assert_eq!(budgets.bytes.used(), 0);
    }
}
