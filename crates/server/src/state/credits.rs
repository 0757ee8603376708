//! Which message ids a client may use, and how many more it gets (MS-SMB2 3.3.1.1, 3.3.1.2, 3.3.5.2.3, 3.3.5.2.5).

use wire::ids::MessageId;

/// The most credits a client holds at a time: Windows Server's Smb2CreditsMax.
pub(crate) const CREDITS_MAX: u32 = 8192;
/// The widest stretch of ids between the oldest unused one and the newest granted one.
const WINDOW: u64 = 2 * CREDITS_MAX as u64;
/// Bytes of payload one credit pays for (3.3.5.2.5).
const BYTES_PER_CREDIT: u64 = 65_536;

/// The client used an id it was not given: the connection ends (3.3.5.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfWindow;

/// One connection's command sequence window.
pub(crate) struct CreditWindow {
    /// The smallest id that was not used yet.
    low: u64,
    /// The first id that is not granted.
    end: u64,
    /// Ids within `low..end` that were not used yet.
    unused: u32,
    /// One bit an id, set when used; the ring's slot is the id modulo [`WINDOW`].
    used: Box<[u64]>,
}

impl CreditWindow {
    /// A new connection may use message id 0 and nothing else.
    pub(crate) fn new() -> Self {
        CreditWindow { low: 0, end: 1, unused: 1, used: vec![0; (WINDOW / 64) as usize].into_boxed_slice() }
    }

    /// True where `charge` ids (0 counts as 1) from `id` on may be used.
    pub(crate) fn allows(&self, id: MessageId, charge: u16) -> bool {
        let first = id.0;
        let last = first.saturating_add(u64::from(charge.max(1)));
        first >= self.low && last <= self.end && !(first..last).any(|id| self.is_used(id))
    }

    /// Uses `charge` ids (0 counts as 1) from `id` on.
    pub(crate) fn take(&mut self, id: MessageId, charge: u16) -> Result<(), OutOfWindow> {
        if !self.allows(id, charge) {
            return Err(OutOfWindow);
        }
        for id in id.0..id.0 + u64::from(charge.max(1)) {
            self.used[slot(id)] |= bit(id);
            self.unused -= 1;
        }
        while self.low < self.end && self.is_used(self.low) {
            self.used[slot(self.low)] &= !bit(self.low);
            self.low += 1;
        }
        Ok(())
    }

    /// Grants up to `wanted` more; at least one where the client would be left with none (MS-SMB2 3.3.4.1.2).
    pub(crate) fn grant(&mut self, wanted: u16) -> u16 {
        let least = u32::from(self.unused == 0);
        let room = (WINDOW - (self.end - self.low)) as u32;
        let more = u32::from(wanted).min(CREDITS_MAX - self.unused).max(least).min(room);
        self.unused += more;
        self.end += u64::from(more);
        more as u16
    }

    /// The smallest id that may still come: all before it were used.
    pub(crate) fn first_unused(&self) -> MessageId {
        MessageId(self.low)
    }

    /// Ids the client may still use.
    #[cfg(test)]
    pub(crate) fn unused(&self) -> u32 {
        self.unused
    }

    fn is_used(&self, id: u64) -> bool {
        self.used[slot(id)] & bit(id) != 0
    }
}

fn slot(id: u64) -> usize {
    (id % WINDOW / 64) as usize
}

fn bit(id: u64) -> u64 {
    1 << (id % 64)
}

/// True where `charge` pays for the larger of what is sent and what is asked for (3.3.5.2.5).
pub(crate) fn covers(charge: u16, payload_bytes: u64) -> bool {
    payload_bytes <= u64::from(charge.max(1)) * BYTES_PER_CREDIT
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_id_is_good_once() {
        let mut window = CreditWindow::new();
        assert_eq!(window.take(MessageId(0), 0), Ok(()));
        assert_eq!(window.take(MessageId(0), 1), Err(OutOfWindow));
        assert_eq!(window.take(MessageId(1), 1), Err(OutOfWindow));
        assert_eq!(window.grant(3), 3);
        assert_eq!(window.take(MessageId(2), 2), Ok(()));
        assert_eq!(window.first_unused(), MessageId(1));
        assert_eq!(window.take(MessageId(1), 2), Err(OutOfWindow));
        assert_eq!(window.take(MessageId(1), 1), Ok(()));
        assert_eq!(window.first_unused(), MessageId(4));
        assert_eq!(window.unused(), 0);
    }

    #[test]
    fn a_client_without_credits_gets_one() {
        let mut window = CreditWindow::new();
        window.take(MessageId(0), 1).unwrap();
        assert_eq!(window.grant(0), 1);
        assert_eq!(window.grant(0), 0);
    }

    #[test]
    fn the_window_is_bounded_while_an_old_id_stays_unused() {
        let mut window = CreditWindow::new();
        window.take(MessageId(0), 1).unwrap();
        window.grant(u16::MAX);
        let mut next = 2;
        while window.take(MessageId(next), 1).is_ok() {
            window.grant(1);
            next += 1;
        }
        assert_eq!(next, 1 + WINDOW);
        assert_eq!(window.take(MessageId(1), 1), Ok(()));
    }

    #[test]
    fn ids_near_the_end_of_all_ids_do_not_overflow() {
        assert_eq!(CreditWindow::new().take(MessageId(u64::MAX), 5), Err(OutOfWindow));
    }

    proptest! {
        #[test]
        fn credits_are_conserved(steps in proptest::collection::vec((0u16..200, 0u16..9), 1..300)) {
            let mut window = CreditWindow::new();
            let (mut next, mut held) = (0u64, 1u32);
            for (wanted, charge) in steps {
                let cost = u32::from(charge.max(1));
                let taken = window.take(MessageId(next), charge);
                prop_assert_eq!(taken.is_ok(), cost <= held);
                if taken.is_ok() {
                    next += u64::from(cost);
                    held -= cost;
                }
                held += u32::from(window.grant(wanted));
                prop_assert_eq!(held, window.unused());
                prop_assert!(held <= CREDITS_MAX && held > 0);
            }
        }
    }
}
