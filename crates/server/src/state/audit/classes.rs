//! The classes of what may be audited, and sets of them.

use std::fmt;
use std::str::FromStr;

use wire::security::access;

/// Rights to change a file, but not to delete it or to say who may use it.
const CHANGES: u32 =
    access::WRITE_DATA | access::APPEND_DATA | access::WRITE_EA | access::WRITE_ATTRIBUTES | access::DELETE_CHILD;
/// Rights to say who may use it.
const SECURES: u32 = access::WRITE_DAC | access::WRITE_OWNER | access::ACCESS_SYSTEM_SECURITY;

/// What an audit event is about. Of an event that is of several classes the last one here is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AuditClass {
    /// A file or directory is opened, read or listed.
    Read,
    /// It is made, changed or renamed.
    Write,
    /// Its security descriptor, its owner among that, is changed.
    Security,
    /// It is deleted, or said to go when it is closed.
    Delete,
    /// Somebody signs in, binds a channel, connects to a share, or leaves.
    SignIn,
}

impl AuditClass {
    /// All of them, in the order in which people are told.
    pub const ALL: [AuditClass; 5] =
        [AuditClass::Read, AuditClass::Write, AuditClass::Delete, AuditClass::Security, AuditClass::SignIn];

    /// Its name on the command line and in the log.
    pub fn name(self) -> &'static str {
        match self {
            AuditClass::Read => "read",
            AuditClass::Write => "write",
            AuditClass::Security => "security",
            AuditClass::Delete => "delete",
            AuditClass::SignIn => "sign-in",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of classes, empty by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditClasses(u8);

impl AuditClasses {
    /// No class.
    pub const NONE: AuditClasses = AuditClasses(0);
    /// Every class.
    pub const ALL: AuditClasses = AuditClasses(0x1F);

    /// The set of one class.
    pub const fn of(class: AuditClass) -> Self {
        AuditClasses(class.bit())
    }

    /// The set with one more.
    #[must_use]
    pub const fn with(self, class: AuditClass) -> Self {
        AuditClasses(self.0 | class.bit())
    }

    /// True where the class is in it.
    pub const fn contains(self, class: AuditClass) -> bool {
        self.0 & class.bit() != 0
    }

    /// True where there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// What both have.
    #[must_use]
    pub const fn and(self, other: AuditClasses) -> Self {
        AuditClasses(self.0 & other.0)
    }

    /// What either has.
    #[must_use]
    pub const fn or(self, other: AuditClasses) -> Self {
        AuditClasses(self.0 | other.0)
    }

    /// The class to be told of an event that is of all of these.
    pub(crate) fn strongest(self) -> Option<AuditClass> {
        AuditClass::ALL.into_iter().filter(|class| self.contains(*class)).max()
    }

    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u8) -> Self {
        AuditClasses(bits & AuditClasses::ALL.0)
    }

    /// What an open with these rights may do: it looks, it changes, or both.
    pub(crate) fn of_granted(access: u32) -> Self {
        let access = access::GenericMapping::FILE.map(access);
        let changes = if access & CHANGES != 0 { AuditClasses::of(AuditClass::Write) } else { AuditClasses::NONE };
        let looks = access & (access::READ_DATA | access::EXECUTE | access::READ_EA) != 0;
        if looks || changes.is_empty() { changes.with(AuditClass::Read) } else { changes }
    }

    /// What somebody who asks for these rights tries to do.
    pub(crate) fn of_desired(access: u32) -> Self {
        let mapped = access::GenericMapping::FILE.map(access);
        let mut classes = AuditClasses::of_granted(mapped);
        if mapped & access::DELETE != 0 {
            classes = classes.with(AuditClass::Delete);
        }
        if mapped & SECURES != 0 {
            classes = classes.with(AuditClass::Security);
        }
        classes
    }
}

impl fmt::Display for AuditClasses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        let classes = AuditClass::ALL.into_iter().filter(|class| self.contains(*class));
        f.write_str(&classes.map(AuditClass::name).collect::<Vec<_>>().join(","))
    }
}

/// A word that is no class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownClass(pub String);

impl FromStr for AuditClasses {
    type Err = UnknownClass;

    /// Names of classes with commas between them, or `none`.
    fn from_str(text: &str) -> Result<Self, UnknownClass> {
        if text == "none" {
            return Ok(AuditClasses::NONE);
        }
        text.split(',').try_fold(AuditClasses::NONE, |classes, word| {
            let class = AuditClass::ALL.into_iter().find(|class| class.name() == word.trim());
            class.map(|class| classes.with(class)).ok_or_else(|| UnknownClass(word.trim().to_owned()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_read_as_they_are_written() {
        for text in ["none", "read", "read,write,delete,security,sign-in", "write,sign-in"] {
            assert_eq!(text.parse::<AuditClasses>().unwrap().to_string(), text);
        }
        assert_eq!("delete, read".parse::<AuditClasses>().unwrap().to_string(), "read,delete");
        for (text, word) in [("", ""), ("all", "all"), ("read,", ""), ("read,none", "none"), ("Read", "Read")] {
            assert_eq!(text.parse::<AuditClasses>(), Err(UnknownClass(word.into())), "{text}");
        }
        let all = AuditClass::ALL.into_iter().fold(AuditClasses::NONE, AuditClasses::with);
        assert_eq!((all, AuditClasses::from_bits(u8::MAX)), (AuditClasses::ALL, AuditClasses::ALL));
    }

    #[test]
    fn rights_say_what_may_be_done() {
        let names = |classes: AuditClasses| classes.to_string();
        assert_eq!(names(AuditClasses::of_granted(access::READ_DATA)), "read");
        assert_eq!(names(AuditClasses::of_granted(access::READ_ATTRIBUTES | access::SYNCHRONIZE)), "read");
        assert_eq!(names(AuditClasses::of_granted(access::WRITE_DATA)), "write");
        assert_eq!(names(AuditClasses::of_granted(access::FILE_ALL)), "read,write");
        assert_eq!(names(AuditClasses::of_desired(access::DELETE)), "read,delete");
        assert_eq!(names(AuditClasses::of_desired(access::GENERIC_ALL)), "read,write,delete,security");
        assert_eq!(AuditClasses::of_desired(access::WRITE_DAC).strongest(), Some(AuditClass::Security));
        assert_eq!(AuditClasses::NONE.strongest(), None);
    }
}
