//! Which LOCK requests of an open were done, so that one that is sent again is not done twice (MS-SMB2 3.3.5.14).

use parking_lot::Mutex;

/// Entries of Open.LockSequenceArray: LockSequenceIndex is 1 to 64, and 0 for none.
pub(crate) const ENTRIES: usize = 64;

/// Open.LockSequenceArray, made when it is first needed.
#[derive(Default)]
pub(crate) struct LockSequences(Mutex<Option<Box<[Option<u8>; ENTRIES]>>>);

/// What a LOCK request says of itself.
#[derive(Clone, Copy)]
pub(crate) struct LockSequence {
    /// LockSequenceIndex.
    pub(crate) index: u32,
    /// LockSequenceNumber.
    pub(crate) number: u8,
}

impl LockSequence {
    fn position(self) -> Option<usize> {
        (self.index as usize).checked_sub(1).filter(|position| *position < ENTRIES)
    }
}

impl LockSequences {
    /// True where the request was done before. Another number in its place is forgotten.
    pub(crate) fn was_done(&self, sequence: LockSequence) -> bool {
        let mut entries = self.0.lock();
        let entry = sequence.position().zip(entries.as_mut()).map(|(position, entries)| &mut entries[position]);
        let Some(entry) = entry else { return false };
        let was_done = *entry == Some(sequence.number);
        if !was_done {
            *entry = None;
        }
        was_done
    }

    /// The request is done.
    pub(crate) fn done(&self, sequence: LockSequence) {
        if let Some(position) = sequence.position() {
            self.0.lock().get_or_insert_with(|| Box::new([None; ENTRIES]))[position] = Some(sequence.number);
        }
    }
}

impl LockSequences {
    /// Those that were done, by LockSequenceIndex and LockSequenceNumber, for an open's record.
    pub(crate) fn all(&self) -> Vec<(u8, u8)> {
        let entries = self.0.lock();
        let entries = entries.iter().flat_map(|entries| entries.iter()).zip(1..);
        entries.filter_map(|(number, index)| Some((index, (*number)?))).collect()
    }

    /// Those of an open that survived the server.
    pub(crate) fn recorded(done: &[(u8, u8)]) -> Self {
        let sequences = LockSequences::default();
        done.iter()
            .for_each(|(index, number)| sequences.done(LockSequence { index: (*index).into(), number: *number }));
        sequences
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_counts_until_another_takes_its_place() {
        let sequences = LockSequences::default();
        let at = |index, number| LockSequence { index, number };
        assert!(!sequences.was_done(at(1, 5)));
        sequences.done(at(1, 5));
        assert!(sequences.was_done(at(1, 5)));
        assert!(!sequences.was_done(at(2, 5)));
        assert!(!sequences.was_done(at(1, 6)));
        assert!(!sequences.was_done(at(1, 5)), "a new number takes the old one's place, done or not");
    }

    #[test]
    fn places_that_are_not_there_remember_nothing() {
        let sequences = LockSequences::default();
        for index in [0, 65, u32::MAX] {
            sequences.done(LockSequence { index, number: 1 });
            assert!(!sequences.was_done(LockSequence { index, number: 1 }));
        }
        sequences.done(LockSequence { index: 64, number: 1 });
        assert!(sequences.was_done(LockSequence { index: 64, number: 1 }));
    }
}
