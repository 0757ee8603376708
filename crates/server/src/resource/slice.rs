//! A part of bytes that several hold, for work on another thread: nothing is copied.

use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::resource::buffers::Buffer;

/// Some bytes of a whole.
#[derive(Clone, Debug)]
pub(crate) struct Slice {
    whole: Arc<Buffer>,
    range: Range<usize>,
}

impl Slice {
    /// Those of `whole` in `range`; none where they are not there.
    pub(crate) fn new(whole: &Arc<Buffer>, range: Range<usize>) -> Self {
        let range = if whole.get(range.clone()).is_some() { range } else { 0..0 };
        Slice { whole: Arc::clone(whole), range }
    }

    /// Bytes of the whole, which these keep.
    pub(crate) fn held_bytes(&self) -> usize {
        self.whole.len()
    }

    /// The whole, where nobody else holds a part of it.
    pub(crate) fn into_whole(self) -> Option<Buffer> {
        Arc::into_inner(self.whole)
    }

    /// The same bytes as `part`, which lies in these; none where it does not.
    pub(crate) fn holding(&self, part: &[u8]) -> Self {
        let start = (part.as_ptr() as usize).wrapping_sub(self.as_ptr() as usize);
        self.part(start..start.saturating_add(part.len()))
    }

    /// A part of these; none where they are not there.
    pub(crate) fn part(&self, range: Range<usize>) -> Self {
        let there = self.get(range.clone()).is_some();
        let range = if there { self.range.start + range.start..self.range.start + range.end } else { 0..0 };
        Slice { whole: Arc::clone(&self.whole), range }
    }
}

impl Deref for Slice {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.whole[self.range.clone()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_part_lies_within_it() {
        let whole = Arc::new(Buffer::from(b"0123456789".to_vec()));
        let middle = Slice::new(&whole, 2..8);
        assert_eq!(&*middle, b"234567");
        assert_eq!(&*middle.part(1..3), b"34");
        assert_eq!(&*middle.part(6..6), b"");
        assert_eq!(&*middle.part(5..7), b"");
        assert_eq!(&*Slice::new(&whole, 9..11), b"");
        assert_eq!(&*middle.holding(&middle[2..4]), b"45");
        assert_eq!(&*middle.holding(&whole[7..9]), b"", "which is not all in it");
        drop(whole);
        assert!(middle.clone().into_whole().is_none());
        assert_eq!(&*middle.into_whole().unwrap(), b"0123456789");
    }
}
