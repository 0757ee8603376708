//! Share modes (MS-FSA 2.1.5.1.2.2): which opens of one file can be at the same time.

use wire::security::access::{APPEND_DATA, DELETE, EXECUTE, READ_DATA, WRITE_DATA};

/// Rights that take part in share modes.
const SHARED_READ: u32 = READ_DATA | EXECUTE;
const SHARED_WRITE: u32 = WRITE_DATA | APPEND_DATA;
/// ShareAccess bits.
const SHARE_READ: u32 = 1;
const SHARE_WRITE: u32 = 2;
const SHARE_DELETE: u32 = 4;

/// What of an open's access and share access others can be in conflict with: there are 64 of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Modes {
    /// What it does, in the bits that others share it by.
    does: u8,
    shares: u8,
}

impl Modes {
    /// Of an open's access and share access.
    pub(crate) fn of(access: u32, share: u32) -> Self {
        let kinds = [(SHARED_READ, SHARE_READ), (SHARED_WRITE, SHARE_WRITE), (DELETE, SHARE_DELETE)];
        let does = kinds.into_iter().filter(|(rights, _)| access & rights != 0).fold(0, |does, (_, bit)| does | bit);
        Modes { does: does as u8, shares: (share & (SHARE_READ | SHARE_WRITE | SHARE_DELETE)) as u8 }
    }

    /// True where two opens of one stream cannot be at the same time.
    pub(crate) fn conflict_with(self, other: Modes) -> bool {
        let unshared = |one: Modes, other: Modes| one.does & !other.shares != 0;
        self.takes_part() && other.takes_part() && (unshared(self, other) || unshared(other, self))
    }

    /// True where an open of a file's unnamed stream may delete it, with all its streams, while one of a named stream, `of_stream`,
    /// does not share that (MS-FSA 2.1.5.1.2.1).
    pub(crate) fn delete_under(self, of_stream: Modes) -> bool {
        self.deletes() && of_stream.keeps_from_deletion()
    }

    /// True where it may delete.
    pub(crate) fn deletes(self) -> bool {
        self.does & SHARE_DELETE as u8 != 0
    }

    /// True where others may not delete meanwhile.
    pub(crate) fn keeps_from_deletion(self) -> bool {
        self.takes_part() && self.shares & SHARE_DELETE as u8 == 0
    }

    /// An open that looks at attributes alone is in nobody's way.
    pub(crate) fn takes_part(self) -> bool {
        self.does != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_right_needs_its_share_bit_both_ways() {
        let all = SHARE_READ | SHARE_WRITE | SHARE_DELETE;
        for (access, bit) in
            [(READ_DATA, SHARE_READ), (EXECUTE, SHARE_READ), (APPEND_DATA, SHARE_WRITE), (DELETE, SHARE_DELETE)]
        {
            let conflict =
                |one: (u32, u32), other: (u32, u32)| Modes::of(one.0, one.1).conflict_with(Modes::of(other.0, other.1));
            assert!(conflict((access, all), (READ_DATA, all & !bit)));
            assert!(conflict((READ_DATA, all & !bit), (access, all)));
            assert!(!conflict((access, all), (READ_DATA, all)));
            assert!(!conflict((access, 0), (0x80, 0)));
        }
    }
}
