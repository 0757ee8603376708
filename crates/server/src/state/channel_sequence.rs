//! Which changes may still be made through an open after its client lost a channel (MS-SMB2 3.3.5.2.10). The client raises the channel
//! sequence then, and sends again what was not answered: a change that was sent before must not overtake one that was sent after.

use std::sync::atomic::{AtomicU64, Ordering};

use wire::header::{Flags, Header};
use wire::ids::Command;
use wire::status::Status;

/// Open.ChannelSequence, Open.OutstandingRequestCount and Open.OutstandingPreRequestCount, packed so that they change as one.
#[derive(Default)]
pub(crate) struct ChannelSequence(AtomicU64);

/// The three, as they stand together. The counts are bounded by the requests that all channels of a session may have in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    sequence: u16,
    /// Requests of this sequence that are not answered.
    current: u32,
    /// Requests of earlier ones that are not answered.
    earlier: u32,
}

/// Where the counts stand in the packed number, and how wide they are.
const CURRENT_SHIFT: u32 = 16;
const EARLIER_SHIFT: u32 = 40;
const COUNT_MAX: u32 = (1 << 24) - 1;
/// A sequence that is ahead by more than this is behind.
const AHEAD_MAX: u16 = 0x7FFF;

/// What a request is to the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    sequence: u16,
    is_replay: bool,
    /// WRITE, SET_INFO and IOCTL are refused where they come too late or too early; the others go on uncounted.
    changes: bool,
}

/// A request that counts until it is answered.
pub(crate) struct Counted<'a> {
    of: &'a ChannelSequence,
    sequence: u16,
}

impl Step {
    /// That of a request.
    pub(crate) fn of(header: &Header) -> Self {
        #[cfg(feature = "in-memory")]
        if crate::in_memory::lapses(crate::in_memory::Lapse::ChangesOutOfTurn) {
            return Step { sequence: header.channel_sequence(), is_replay: false, changes: false };
        }
        Step {
            sequence: header.channel_sequence(),
            is_replay: header.flags.contains(Flags::REPLAY_OPERATION),
            changes: matches!(header.command, Command::WRITE | Command::SET_INFO | Command::IOCTL),
        }
    }
}

impl ChannelSequence {
    /// A CREATE gave its client the open, for the first time or again: what was in flight before is of the past.
    pub(crate) fn begin(&self, sequence: u16) {
        self.change(|state| match state.sequence == sequence {
            true => (state, ()),
            false => (State { sequence, current: 0, earlier: state.earlier + state.current }, ()),
        });
    }

    /// True for what [`enter`](Self::enter) would let through as one more of the current sequence.
    pub(crate) fn is_current(&self, header: &Header) -> bool {
        let state = State::unpack(self.0.load(Ordering::Relaxed));
        state.sequence == header.channel_sequence() && !header.flags.contains(Flags::REPLAY_OPERATION)
    }

    /// True for the sequence of what a client sent before it lost a channel.
    pub(crate) fn is_behind(&self, sequence: u16) -> bool {
        sequence.wrapping_sub(State::unpack(self.0.load(Ordering::Relaxed)).sequence) > AHEAD_MAX
    }

    /// Counts a request; `None` where it is not counted. FILE_NOT_AVAILABLE for a change that is out of turn.
    pub(crate) fn enter(&self, step: Step) -> Result<Option<Counted<'_>>, Status> {
        let is_counted = self.change(|state| state.enter(step));
        match (is_counted, step.changes) {
            (true, _) => Ok(Some(Counted { of: self, sequence: step.sequence })),
            (false, false) => Ok(None),
            (false, true) => Err(Status::FILE_NOT_AVAILABLE),
        }
    }

    /// A request that counted ([`Counted::keep`]) is answered.
    pub(crate) fn leave(&self, sequence: u16) {
        self.change(|state| (state.leave(sequence), ()));
    }

    fn change<T>(&self, mut change: impl FnMut(State) -> (State, T)) -> T {
        let mut packed = self.0.load(Ordering::Acquire);
        loop {
            let (next, answer) = change(State::unpack(packed));
            match self.0.compare_exchange_weak(packed, next.pack(), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return answer,
                Err(now) => packed = now,
            }
        }
    }
}

impl Counted<'_> {
    /// Goes on counting until [`ChannelSequence::leave`] is called with what this gives.
    pub(crate) fn keep(self) -> u16 {
        let sequence = self.sequence;
        std::mem::forget(self);
        sequence
    }
}

impl Drop for Counted<'_> {
    /// The answer goes out (3.3.4.1).
    fn drop(&mut self) {
        self.of.leave(self.sequence);
    }
}

impl State {
    /// The rules, with whether the request is counted.
    fn enter(self, step: Step) -> (State, bool) {
        let ahead = step.sequence.wrapping_sub(self.sequence);
        let earlier = self.earlier.saturating_add(self.current).min(COUNT_MAX);
        let moved = State { sequence: step.sequence, current: 0, earlier };
        let one_more = State { current: self.current.saturating_add(1).min(COUNT_MAX), ..self };
        match (ahead, step.is_replay) {
            (0, false) => (one_more, true),
            (0, true) if self.earlier == 0 => (one_more, true),
            (0, true) => (self, false),
            (1..=AHEAD_MAX, false) => (State { current: 1, ..moved }, true),
            (1..=AHEAD_MAX, true) if moved.earlier == 0 => (State { current: 1, ..moved }, true),
            (1..=AHEAD_MAX, true) => (moved, false),
            (_, _) => (self, false),
        }
    }

    fn leave(self, sequence: u16) -> State {
        if sequence == self.sequence {
            State { current: self.current.saturating_sub(1), ..self }
        } else {
            State { earlier: self.earlier.saturating_sub(1), ..self }
        }
    }

    fn pack(self) -> u64 {
        u64::from(self.sequence) | u64::from(self.current) << CURRENT_SHIFT | u64::from(self.earlier) << EARLIER_SHIFT
    }

    fn unpack(packed: u64) -> State {
        State {
            sequence: packed as u16,
            current: (packed >> CURRENT_SHIFT) as u32 & COUNT_MAX,
            earlier: (packed >> EARLIER_SHIFT) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn step(sequence: u16, is_replay: bool) -> Step {
        Step { sequence, is_replay, changes: true }
    }

    fn state(of: &ChannelSequence) -> (u16, u32, u32) {
        let state = State::unpack(of.0.load(Ordering::Relaxed));
        (state.sequence, state.current, state.earlier)
    }

    #[test]
    fn a_replay_waits_for_what_it_repeats() {
        let open = ChannelSequence::default();
        let lost = open.enter(step(0, false)).unwrap();
        assert_eq!(open.enter(step(1, true)).err(), Some(Status::FILE_NOT_AVAILABLE));
        assert_eq!(state(&open), (1, 0, 1));
        let new = open.enter(step(1, false)).unwrap();
        assert_eq!(open.enter(step(1, true)).err(), Some(Status::FILE_NOT_AVAILABLE));
        drop(lost);
        assert_eq!(state(&open), (1, 1, 0));
        let replay = open.enter(step(1, true)).unwrap();
        assert_eq!(state(&open), (1, 2, 0));
        drop((new, replay));
        assert_eq!(state(&open), (1, 0, 0));
    }

    #[test]
    fn what_comes_late_changes_nothing_and_may_still_read() {
        let open = ChannelSequence::default();
        drop(open.enter(step(0x7FFF, false)).unwrap());
        for stale in [0x7FFE, 0, 0xFFFF] {
            assert_eq!(open.enter(step(stale, false)).err(), Some(Status::FILE_NOT_AVAILABLE), "{stale:#x}");
            assert_eq!(open.enter(step(stale, true)).err(), Some(Status::FILE_NOT_AVAILABLE), "{stale:#x}");
            assert!(open.enter(Step { changes: false, ..step(stale, false) }).unwrap().is_none());
        }
        assert_eq!(state(&open), (0x7FFF, 0, 0));
        drop(open.enter(step(0xFFFE, false)).unwrap());
        assert_eq!(state(&open), (0xFFFE, 0, 0), "ahead by 0x7FFF");
        drop(open.enter(step(3, true)).unwrap());
        assert_eq!(state(&open), (3, 0, 0), "around the end");
    }

    #[test]
    fn an_open_that_is_had_again_begins_anew() {
        let open = ChannelSequence::default();
        open.begin(7);
        let lost = open.enter(step(7, false)).unwrap();
        open.begin(0);
        assert_eq!(open.enter(step(0, true)).err(), Some(Status::FILE_NOT_AVAILABLE));
        drop(lost);
        drop(open.enter(step(0, true)).unwrap());
        assert_eq!(state(&open), (0, 0, 0));
    }

    proptest! {
        #[test]
        fn counts_are_of_requests_in_flight(steps in proptest::collection::vec((0u16..5, any::<bool>(), 0usize..4), 0..60)) {
            let open = ChannelSequence::default();
            let mut in_flight = Vec::new();
            for (sequence, is_replay, leaves) in steps {
                in_flight.extend(open.enter(step(sequence, is_replay)).ok().flatten());
                for _ in 0..leaves.min(in_flight.len()) {
                    in_flight.swap_remove(0);
                }
                let now = state(&open);
                let current = in_flight.iter().filter(|counted| counted.sequence == now.0).count();
                prop_assert_eq!((now.1 as usize, now.2 as usize), (current, in_flight.len() - current));
            }
        }

        #[test]
        fn packing_loses_nothing(sequence: u16, current in 0..=COUNT_MAX, earlier in 0..=COUNT_MAX) {
            let state = State { sequence, current, earlier };
            prop_assert_eq!(State::unpack(state.pack()), state);
        }
    }
}
