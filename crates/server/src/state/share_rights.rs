//! Share rights: who may connect to a share, and what they may do in it at most, whatever the descriptors of its files grant
//! (MS-SMB2 3.3.1.6 Share.ConnectSecurity, Share.FileSecurity).

use std::fmt;
use std::str::FromStr;

use wire::security::access::{DELETE_CHILD, FILE_ALL, FILE_GENERIC_EXECUTE, FILE_GENERIC_READ, WRITE_DAC, WRITE_OWNER};

use crate::state::hosts::HostsAllowed;

/// What one of those who may connect may do at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShareRight {
    /// List and read.
    Read,
    /// Also make, write, rename and delete.
    Change,
    /// Also change descriptors and owners.
    Full,
}

impl ShareRight {
    /// Every right, the least first.
    pub const ALL: [ShareRight; 3] = [ShareRight::Read, ShareRight::Change, ShareRight::Full];

    /// Its word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            ShareRight::Read => "read",
            ShareRight::Change => "change",
            ShareRight::Full => "full",
        }
    }

    /// The most access that an open may have: the masks that Windows gives shares.
    pub(crate) fn access(self) -> u32 {
        match self {
            ShareRight::Read => FILE_GENERIC_READ | FILE_GENERIC_EXECUTE,
            ShareRight::Change => FILE_ALL & !(WRITE_DAC | WRITE_OWNER | DELETE_CHILD),
            ShareRight::Full => FILE_ALL,
        }
    }
}

impl fmt::Display for ShareRight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names no right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownRight(pub String);

impl FromStr for ShareRight {
    type Err = UnknownRight;

    fn from_str(word: &str) -> Result<Self, UnknownRight> {
        let found = ShareRight::ALL.into_iter().find(|right| right.name() == word);
        found.ok_or_else(|| UnknownRight(word.to_owned()))
    }
}

/// Who of a share's account may connect to it, and from where. The account's keys always may, with all rights, but from these hosts alone, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShareRights {
    /// What everybody of the account has; `None` for nothing.
    pub everyone: Option<ShareRight>,
    /// What users and groups have, in the order of the last numbers of their SIDs. One with several rights has the greatest.
    pub granted: Vec<(u32, ShareRight)>,
    /// From where anybody may.
    pub hosts: HostsAllowed,
}

impl ShareRights {
    /// Everybody of the account has all rights.
    pub fn open() -> Self {
        ShareRights { everyone: Some(ShareRight::Full), granted: Vec::new(), hosts: HostsAllowed::Any }
    }

    /// The greatest right of who has these relative ids; `None` for who may not connect.
    pub fn of(&self, relative_ids: impl Iterator<Item = u32>) -> Option<ShareRight> {
        let granted = relative_ids.filter_map(|id| {
            let place = self.granted.binary_search_by_key(&id, |(granted_to, _)| *granted_to).ok()?;
            self.granted.get(place).map(|(_, right)| *right)
        });
        granted.chain(self.everyone).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_masks_are_those_of_windows() {
        let masks = ShareRight::ALL.map(ShareRight::access);
        assert_eq!(masks, [0x0012_00A9, 0x0013_01BF, 0x001F_01FF]);
    }

    #[test]
    fn words_name_rights_and_other_words_none() {
        for right in ShareRight::ALL {
            assert_eq!(right.to_string().parse(), Ok(right));
        }
        assert!("write".parse::<ShareRight>().is_err());
    }

    #[test]
    fn the_greatest_of_all_rights_counts_and_nobody_has_one_by_default() {
        let of = |rights: &ShareRights, ids: &[u32]| rights.of(ids.iter().copied());
        assert_eq!(of(&ShareRights::default(), &[1001]), None);
        assert_eq!(of(&ShareRights::open(), &[]), Some(ShareRight::Full));
        let rights = ShareRights {
            everyone: None,
            granted: vec![(1001, ShareRight::Read), (1002, ShareRight::Change), (1003, ShareRight::Full)],
            hosts: HostsAllowed::Any,
        };
        assert_eq!(of(&rights, &[1002, 1001]), Some(ShareRight::Change));
        assert_eq!(of(&rights, &[1001]), Some(ShareRight::Read));
        assert_eq!(of(&rights, &[1004]), None);
        let rights = ShareRights { everyone: Some(ShareRight::Read), ..rights };
        assert_eq!(of(&rights, &[1004]), Some(ShareRight::Read));
    }
}
