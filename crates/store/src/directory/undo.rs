//! Several changes of what is kept with a file, made all or none: what each has found is noted, so that it can be undone where a later one fails.
//! What somebody else has changed since stays as it is.

use crate::directory::keys::RECORD;
use crate::directory::record::Record;
use crate::directory::subject::Subject;
use crate::{AttributeChange, Error, Left};

/// Values of more bytes are not kept. No file's attributes have so many; what is kept beside files has no bound.
const KEPT_BYTES_MAX: usize = 8 << 20;

/// Changes that were made, or may have been.
#[derive(Default)]
pub(super) struct Undo {
    made: Vec<Made>,
    /// Puts attribute bits back, where others have changed since.
    bits: AttributeChange,
    kept_bytes: usize,
    /// Not all values were kept.
    is_short: bool,
}

/// A change, and what there was before.
struct Made {
    key: String,
    before: Option<Vec<u8>>,
    after: Option<Vec<u8>>,
}

impl Undo {
    /// Sets a value, or removes it where there is to be none.
    pub(super) fn change(&mut self, subject: &Subject<'_>, key: &str, after: Option<&[u8]>) -> Result<(), Error> {
        let before = subject.load_all(key)?;
        if before.as_deref() == after {
            return Ok(());
        }
        // First: what says that it failed may have been done.
        self.note(key, before, after);
        match after {
            Some(value) => subject.save(key, value),
            None => subject.erase(key).map(drop),
        }
    }

    /// The same of the record, in which attribute bits change from `before` to `after`.
    pub(super) fn change_record(
        &mut self,
        subject: &Subject<'_>,
        record: &Record,
        (before, after): (u32, u32),
    ) -> Result<(), Error> {
        let changed = before ^ after;
        self.bits = AttributeChange { clear: changed & after, set: changed & before };
        self.change(subject, RECORD, Some(&record.encode()))
    }

    fn note(&mut self, key: &str, before: Option<Vec<u8>>, after: Option<&[u8]>) {
        let bytes = key.len() + before.as_ref().map_or(0, Vec::len) + after.map_or(0, <[u8]>::len);
        if self.kept_bytes + bytes > KEPT_BYTES_MAX {
            self.is_short = true;
            return;
        }
        self.kept_bytes += bytes;
        self.made.push(Made { key: key.to_owned(), before, after: after.map(<[u8]>::to_vec) });
    }

    /// Undoes the changes, the last one first: so each step leads to what there was before, and had room. What is kept with the file is locked.
    pub(super) fn put_back(self, subject: &Subject<'_>) -> Left {
        let mut left = if self.is_short { Left::Changed } else { Left::AsItWas };
        for made in self.made.iter().rev() {
            if let Err(error) = made.put_back(subject, self.bits) {
                tracing::warn!(name: "change_not_undone", %error, key = made.key, "what is kept with a file could not be put back after a change that failed");
                left = Left::Changed;
            }
        }
        left
    }
}

impl Made {
    fn put_back(&self, subject: &Subject<'_>, bits: AttributeChange) -> Result<(), Error> {
        let there = subject.load_all(&self.key)?;
        if there == self.before {
            return Ok(());
        }
        if there == self.after {
            return match self.before.as_deref() {
                Some(value) => subject.put_back(&self.key, value),
                None => subject.erase(&self.key).map(drop),
            };
        }
        let Some(there) = there.filter(|_| self.key == RECORD) else { return Ok(()) };
        let mut record = Record::decode(&there);
        record.attributes = record.attributes.map(|attributes| bits.apply(attributes));
        subject.save(RECORD, &record.encode())
    }
}
