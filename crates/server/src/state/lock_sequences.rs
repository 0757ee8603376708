//! Which LOCK requests of an open were done or are under way, so that one that is sent again is not done twice (MS-SMB2 3.3.5.14). The
//! specification knows only those that were done; one that is sent again before the first has ended comes behind that.

use parking_lot::Mutex;
use tokio::sync::oneshot;
use wire::status::Status;

/// Entries of Open.LockSequenceArray: LockSequenceIndex is 1 to 64, and 0 for none.
pub(crate) const ENTRIES: usize = 64;

/// Open.LockSequenceArray, made when it is first needed.
#[derive(Default)]
pub(crate) struct LockSequences(Mutex<Option<Box<[Option<Entry>; ENTRIES]>>>);

/// The request that came last of those with one LockSequenceIndex.
struct Entry {
    number: u8,
    /// It was done: Valid of the specification.
    is_done: bool,
    /// It has not ended: dropped, these tell the same request that was sent again.
    under_way: Option<Vec<oneshot::Sender<()>>>,
}

/// LockSequenceNumber has four bits. A client counts them up, one for each request that was answered (3.2.5.13).
const NUMBERS: u8 = 16;

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

    /// LockSequenceIndex and LockSequenceNumber for an open's record, where the index is one.
    pub(crate) fn entry(self) -> Option<(u8, u8)> {
        self.position()?;
        Some((u8::try_from(self.index).ok()?, self.number))
    }
}

/// What to do with a request.
#[derive(Debug)]
pub(crate) enum Beginning {
    /// It goes, and is under way until [`LockSequences::ended`].
    Goes,
    /// It was done before.
    WasDone,
    /// It is under way: to be asked again when this ends.
    IsUnderWay(oneshot::Receiver<()>),
}

impl LockSequences {
    /// A request comes. Another number in its place is forgotten.
    ///
    /// FILE_NOT_AVAILABLE for a request `from_before` its client lost a channel that has come behind a later one in its place: it was sent again
    /// and answered, and what was done since is not to be undone by it.
    pub(crate) fn begin(&self, sequence: LockSequence, from_before: bool) -> Result<Beginning, Status> {
        let Some(position) = sequence.position() else { return Ok(Beginning::Goes) };
        let mut entries = self.0.lock();
        let entry = &mut entries.get_or_insert_with(empty)[position];
        match entry {
            Some(last) if last.number == sequence.number => match &mut last.under_way {
                Some(waiting) => {
                    let (ends, end) = oneshot::channel();
                    // Whoever was cancelled is not kept, however often a client asks and cancels.
                    waiting.retain(|other| !other.is_closed());
                    waiting.push(ends);
                    return Ok(Beginning::IsUnderWay(end));
                }
                None if last.is_done => return Ok(Beginning::WasDone),
                None => last.under_way = Some(Vec::new()),
            },
            Some(last) if from_before && (last.number + 1) % NUMBERS != sequence.number => {
                return Err(Status::FILE_NOT_AVAILABLE);
            }
            Some(_) | None => {
                *entry = Some(Entry { number: sequence.number, is_done: false, under_way: Some(Vec::new()) });
            }
        }
        Ok(Beginning::Goes)
    }

    /// A request that went has ended, done or not.
    pub(super) fn ended(&self, sequence: LockSequence) {
        let mut entries = self.0.lock();
        let of_place = sequence.position().zip(entries.as_mut()).and_then(|(position, all)| all[position].as_mut());
        let waiting = of_place.filter(|last| last.number == sequence.number).and_then(|last| last.under_way.take());
        drop(entries);
        // They ask again, when they can.
        drop(waiting);
    }

    /// The request is done.
    pub(crate) fn done(&self, sequence: LockSequence) {
        let Some(position) = sequence.position() else { return };
        let mut entries = self.0.lock();
        let entry = &mut entries.get_or_insert_with(empty)[position];
        match entry {
            Some(last) if last.number == sequence.number => last.is_done = true,
            Some(_) | None => *entry = Some(Entry { number: sequence.number, is_done: true, under_way: None }),
        }
    }

    /// It is not done after all.
    pub(crate) fn undone(&self, sequence: LockSequence) {
        if let Some((position, entries)) = sequence.position().zip(self.0.lock().as_mut())
            && let Some(last) = entries[position].as_mut().filter(|last| last.number == sequence.number)
        {
            last.is_done = false;
        }
    }
}

fn empty() -> Box<[Option<Entry>; ENTRIES]> {
    Box::new([const { None }; ENTRIES])
}

impl LockSequences {
    /// Those that were done, by LockSequenceIndex and LockSequenceNumber, for an open's record.
    pub(crate) fn all(&self) -> Vec<(u8, u8)> {
        let entries = self.0.lock();
        let entries = entries.iter().flat_map(|entries| entries.iter()).zip(1..);
        entries
            .filter_map(|(entry, index)| {
                entry.as_ref().filter(|entry| entry.is_done).map(|entry| (index, entry.number))
            })
            .collect()
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

    fn at(index: u32, number: u8) -> LockSequence {
        LockSequence { index, number }
    }

    /// A request that fails at once, unless it was done before.
    fn was_done(sequences: &LockSequences, sequence: LockSequence, from_before: bool) -> Result<bool, Status> {
        let beginning = sequences.begin(sequence, from_before)?;
        sequences.ended(sequence);
        match beginning {
            Beginning::Goes => Ok(false),
            Beginning::WasDone => Ok(true),
            Beginning::IsUnderWay(_) => panic!("nothing is under way"),
        }
    }

    #[test]
    fn a_number_counts_until_another_takes_its_place() {
        let sequences = LockSequences::default();
        let was_done = |index, number| was_done(&sequences, at(index, number), false).unwrap();
        assert!(!was_done(1, 5));
        assert!(!was_done(1, 5), "it was not done");
        sequences.done(at(1, 5));
        assert!(was_done(1, 5));
        assert!(!was_done(2, 5));
        assert_eq!(sequences.all(), [(1, 5)]);
        assert!(!was_done(1, 6));
        assert!(!was_done(1, 5), "a new number takes the old one's place, done or not");
    }

    #[test]
    fn what_was_sent_again_does_not_count_when_it_comes_late() {
        let sequences = LockSequences::default();
        let begin = |number, from_before| was_done(&sequences, at(1, number), from_before);
        for number in [14, 15, 0] {
            assert_eq!(begin(number, true), Ok(false), "it is the next one");
            sequences.done(at(1, number));
        }
        assert_eq!(begin(0, true), Ok(true));
        assert_eq!(begin(15, true), Err(Status::FILE_NOT_AVAILABLE));
        assert_eq!(begin(14, true), Err(Status::FILE_NOT_AVAILABLE));
        assert_eq!(begin(0, true), Ok(true), "it has not changed what was done");
        assert_eq!(begin(1, false), Ok(false));
        assert_eq!(begin(0, true), Err(Status::FILE_NOT_AVAILABLE), "the next one is under way");
    }

    #[test]
    fn places_that_are_not_there_remember_nothing() {
        let sequences = LockSequences::default();
        for index in [0, 65, u32::MAX] {
            sequences.done(at(index, 1));
            assert_eq!(was_done(&sequences, at(index, 1), true), Ok(false));
            assert!(matches!(sequences.begin(at(index, 1), true), Ok(Beginning::Goes)), "nor what is under way");
        }
        sequences.done(at(64, 1));
        assert_eq!(was_done(&sequences, at(64, 1), true), Ok(true));
    }

    #[test]
    fn what_is_under_way_is_waited_for_and_then_looked_at_again() {
        let sequences = LockSequences::default();
        let begin = || sequences.begin(at(1, 5), false).unwrap();
        let wait = || match begin() {
            Beginning::IsUnderWay(end) => end,
            beginning => panic!("{beginning:?}"),
        };
        assert!(matches!(begin(), Beginning::Goes));
        let (mut one, mut other) = (wait(), wait());
        sequences.done(at(1, 5));
        assert!(one.try_recv() == Err(oneshot::error::TryRecvError::Empty), "it has not ended");
        let mut late = wait();
        sequences.undone(at(1, 5));
        sequences.ended(at(1, 5));
        for end in [&mut one, &mut other, &mut late] {
            assert!(end.try_recv() == Err(oneshot::error::TryRecvError::Closed));
        }
        assert!(matches!(begin(), Beginning::Goes), "it was not done");
        let mut end = wait();
        sequences.ended(at(1, 6));
        assert!(end.try_recv() == Err(oneshot::error::TryRecvError::Empty), "another one has ended");
        sequences.done(at(1, 5));
        sequences.ended(at(1, 5));
        assert!(matches!(begin(), Beginning::WasDone));
    }

    #[test]
    fn who_waits_no_longer_is_forgotten() {
        let sequences = LockSequences::default();
        for _ in 0..1_000 {
            drop(sequences.begin(at(1, 5), false));
        }
        let entries = sequences.0.lock();
        let waiting = entries.as_ref().unwrap()[0].as_ref().unwrap().under_way.as_ref().unwrap();
        assert!(waiting.len() <= 1, "{}", waiting.len());
    }
}
