//! The dialects of SMB.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// An SMB2 dialect (MS-SMB2 2.2.3 Dialects).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dialect {
    /// SMB 2.0.2.
    Smb202,
    /// SMB 2.1.
    Smb210,
    /// SMB 3.0.
    Smb300,
    /// SMB 3.0.2.
    Smb302,
    /// SMB 3.1.1.
    Smb311,
}

impl Dialect {
    const ALL: [Dialect; 5] = [Dialect::Smb202, Dialect::Smb210, Dialect::Smb300, Dialect::Smb302, Dialect::Smb311];

    /// The revision number on the wire.
    pub fn revision(self) -> u16 {
        match self {
            Dialect::Smb202 => 0x0202,
            Dialect::Smb210 => 0x0210,
            Dialect::Smb300 => 0x0300,
            Dialect::Smb302 => 0x0302,
            Dialect::Smb311 => 0x0311,
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Dialect::Smb202 => "2.0.2",
            Dialect::Smb210 => "2.1",
            Dialect::Smb300 => "3.0",
            Dialect::Smb302 => "3.0.2",
            Dialect::Smb311 => "3.1.1",
        })
    }
}

impl FromStr for Dialect {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Dialect::ALL.into_iter().find(|dialect| dialect.to_string() == text).ok_or_else(|| {
            Error::argument(format!("{text:?} is no SMB dialect"), "use 2.0.2, 2.1, 3.0, 3.0.2 or 3.1.1")
        })
    }
}
