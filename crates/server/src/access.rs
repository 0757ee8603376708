//! Share modes (MS-FSA 2.1.5.1.2.2): which opens of one file can be at the same time.

use wire::security::access::{APPEND_DATA, DELETE, EXECUTE, READ_DATA, WRITE_DATA};

/// Rights that take part in share modes.
const SHARED_READ: u32 = READ_DATA | EXECUTE;
const SHARED_WRITE: u32 = WRITE_DATA | APPEND_DATA;
/// ShareAccess bits.
const SHARE_READ: u32 = 1;
const SHARE_WRITE: u32 = 2;
const SHARE_DELETE: u32 = 4;

/// True where two opens of one stream, each (access, share access), cannot be at the same time.
pub(crate) fn shares_conflict(one: (u32, u32), other: (u32, u32)) -> bool {
    takes_part(one.0) && takes_part(other.0) && (unshared(one.0, other.1) || unshared(other.0, one.1))
}

/// True where an open of a file's unnamed stream with `access` may delete it, with all its streams, while an open of a named
/// stream, (access, share access), does not share that (MS-FSA 2.1.5.1.2.1).
pub(crate) fn deletion_conflicts(access: u32, stream: (u32, u32)) -> bool {
    access & DELETE != 0 && takes_part(stream.0) && stream.1 & SHARE_DELETE == 0
}

/// An open that looks at attributes alone is in nobody's way.
pub(crate) fn takes_part(access: u32) -> bool {
    access & (SHARED_READ | SHARED_WRITE | DELETE) != 0
}

fn unshared(access: u32, share: u32) -> bool {
    let needs = [(SHARED_READ, SHARE_READ), (SHARED_WRITE, SHARE_WRITE), (DELETE, SHARE_DELETE)];
    needs.into_iter().any(|(rights, bit)| access & rights != 0 && share & bit == 0)
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
            assert!(shares_conflict((access, all), (READ_DATA, all & !bit)));
            assert!(shares_conflict((READ_DATA, all & !bit), (access, all)));
            assert!(!shares_conflict((access, all), (READ_DATA, all)));
            assert!(!shares_conflict((access, 0), (0x80, 0)));
        }
    }
}
