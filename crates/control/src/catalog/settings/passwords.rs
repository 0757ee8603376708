//! What is asked of passwords, and when wrong ones lock a user.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use crate::{Error, span};

/// After how many wrong passwords a user is locked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockAfter {
    /// Never.
    #[default]
    Off,
    /// So many, from [`LockAfter::MIN`] to [`LockAfter::MAX`].
    Failures(NonZeroU32),
}

impl LockAfter {
    /// Fewer would lock who mistypes once, or whose client tries a name with two domains.
    pub const MIN: u32 = 3;
    /// More would be none.
    pub const MAX: u32 = 1_000;
}

impl fmt::Display for LockAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockAfter::Off => f.write_str("off"),
            LockAfter::Failures(count) => count.fmt(f),
        }
    }
}

impl FromStr for LockAfter {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text == "off" {
            return Ok(LockAfter::Off);
        }
        let count: Option<NonZeroU32> = text.parse().ok();
        let count = count.filter(|count| (LockAfter::MIN..=LockAfter::MAX).contains(&count.get()));
        count.map(LockAfter::Failures).ok_or_else(|| {
            let remedy = format!("use off, or a number from {} to {}", LockAfter::MIN, LockAfter::MAX);
            Error::argument(format!("{text:?} is no number of wrong passwords"), remedy)
        })
    }
}

/// How long a user stays locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockFor(Duration);

impl LockFor {
    /// As long as wrong passwords are remembered.
    const DEFAULT: Duration = Duration::from_secs(15 * 60);
    const MIN: Duration = Duration::from_secs(60);
    const MAX: Duration = Duration::from_secs(24 * 60 * 60);

    /// The time.
    pub fn duration(self) -> Duration {
        self.0
    }
}

impl Default for LockFor {
    fn default() -> Self {
        LockFor(LockFor::DEFAULT)
    }
}

impl fmt::Display for LockFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&span::to_text(self.0))
    }
}

impl FromStr for LockFor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        span::parse(text).filter(|time| (LockFor::MIN..=LockFor::MAX).contains(time)).map(LockFor).ok_or_else(|| {
            Error::argument(
                format!("{text:?} is no time that a lock may last"),
                "use a time from 1m to 24h, such as 30m",
            )
        })
    }
}

/// How many characters a password of a user has at least. What is there already stays, and keys of accounts are no passwords.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PasswordLength(u8);

impl PasswordLength {
    /// As NIST SP 800-63B wants it, and one more than Windows' policy for a domain.
    const DEFAULT: u8 = 8;
    const MAX: u8 = 64;

    /// Refuses a password that is shorter.
    pub fn check(self, password: &str) -> Result<(), Error> {
        let length = password.chars().count();
        if length >= usize::from(self.0) {
            return Ok(());
        }
        Err(Error::argument(
            format!("the password has {length} characters, and passwords of users have {self} at least"),
            format!(
                "take a longer one; `multilane server set password-length-min N` says how long, 1 to {}",
                Self::MAX
            ),
        ))
    }
}

impl Default for PasswordLength {
    fn default() -> Self {
        PasswordLength(PasswordLength::DEFAULT)
    }
}

impl fmt::Display for PasswordLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for PasswordLength {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let length = text.parse().ok().filter(|length| (1..=PasswordLength::MAX).contains(length));
        length.map(PasswordLength).ok_or_else(|| {
            Error::argument(
                format!("{text:?} is no length of a password"),
                format!("use a number of characters from 1 to {}", PasswordLength::MAX),
            )
        })
    }
}
