//! Names that an operator gives: checked once, then always valid.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// The most characters in a share's name (MS-SRVS 2.2.4.23, share names of 80 characters).
const SHARE_NAME_MAX: usize = 80;
/// The most characters in a user's name: more than any directory gives, few enough for a table's column.
const USER_NAME_MAX: usize = 64;
/// Share names that mean something else to clients.
const SHARE_NAMES_RESERVED: [&str; 6] = ["IPC$", "ADMIN$", "PIPE", "MAILSLOT", ".", ".."];
/// What stands where shares' names stand, and is none: of `multilane top` and metrics.
const SHARE_NAMES_OURS: [&str; 2] = ["(none)", "(others)"];

/// A storage account's name: 3 to 24 lower-case letters and digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountName(String);

/// A user's name: at most 64 characters, none of `" / \ [ ] : ; | = , + * ? < > @ %`, no control characters, no space or
/// dot at either end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserName(String);

/// A share's name: at most 80 characters, none of `\ / [ ] : | < > + = ; , * ? "`, no control characters, no space at
/// either end, none of the reserved names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShareName(String);

impl FromStr for AccountName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let fits = (3..=24).contains(&text.len());
        if fits && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()) {
            return Ok(AccountName(text.to_owned()));
        }
        Err(Error::argument(
            format!("{text:?} cannot be the name of an account"),
            "use 3 to 24 lower-case letters and digits",
        ))
    }
}

impl FromStr for UserName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let at_end = |c| c == ' ' || c == '.';
        let fits = (1..=USER_NAME_MAX).contains(&text.chars().count());
        let forbidden = |c: char| c.is_control() || "\"/\\[]:;|=,+*?<>@%".contains(c);
        if fits && !text.contains(forbidden) && !text.starts_with(at_end) && !text.ends_with(at_end) {
            return Ok(UserName(text.to_owned()));
        }
        Err(Error::argument(
            format!("{text:?} cannot be the name of a user or group"),
            "use 1 to 64 characters, none of \" / \\ [ ] : ; | = , + * ? < > @ %, and no space or dot at either end",
        ))
    }
}

impl FromStr for ShareName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let fits = (1..=SHARE_NAME_MAX).contains(&text.chars().count());
        let forbidden = |c: char| c.is_control() || "\\/[]:|<>+=;,*?\"".contains(c);
        let spaced = text.starts_with(' ') || text.ends_with(' ');
        let reserved = SHARE_NAMES_RESERVED.iter().any(|name| text.eq_ignore_ascii_case(name));
        if fits && !spaced && !reserved && !text.contains(forbidden) {
            return Ok(ShareName(text.to_owned()));
        }
        let remedy = if reserved {
            "choose another: this one means something to clients"
        } else {
            "use 1 to 80 characters, none of \\ / [ ] : | < > + = ; , * ? \", and no space at either end"
        };
        Err(Error::argument(format!("{text:?} cannot be the name of a share"), remedy))
    }
}

impl ShareName {
    /// A name for a share that is to be made. There may be shares from before that have one of those it refuses: they can be shown, changed and deleted.
    pub fn for_new(text: &str) -> Result<Self, Error> {
        if SHARE_NAMES_OURS.iter().any(|name| text.eq_ignore_ascii_case(name)) {
            let remedy = "choose another: `multilane top` and metrics have this one for something else";
            return Err(Error::argument(format!("{text:?} cannot be the name of a share"), remedy));
        }
        text.parse()
    }
}

macro_rules! shown_as_text {
    ($($name:ident),*) => {$(
        impl $name {
            /// The name's text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    )*};
}

shown_as_text!(AccountName, UserName, ShareName);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fault;

    #[test]
    fn account_names_are_those_of_a_storage_account() {
        for good in ["abc", "local", "a1b2c3", "x".repeat(24).as_str(), "000"] {
            assert_eq!(good.parse::<AccountName>().unwrap().as_str(), good);
        }
        for bad in ["", "ab", "x".repeat(25).as_str(), "Abc", "a-b-c", "a b c", "äöü", "abc\n"] {
            assert_eq!(bad.parse::<AccountName>().unwrap_err().fault(), Fault::Argument, "{bad:?}");
        }
    }

    #[test]
    fn user_names_are_what_clients_can_send() {
        for good in ["a", "Alice", "jörg müller", "a.b", "o'neil", "x".repeat(64).as_str()] {
            assert!(good.parse::<UserName>().is_ok(), "{good:?}");
        }
        for bad in ["", " a", "a ", "a.", ".a", "a\\b", "a@b", "a\0", "a/b", "a%b", "x".repeat(65).as_str()] {
            assert!(bad.parse::<UserName>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn share_names_are_what_a_unc_can_say() {
        for good in ["a", "share", "Team Files", "data$", "ü", "a.b", "x".repeat(80).as_str()] {
            assert!(good.parse::<ShareName>().is_ok(), "{good:?}");
        }
        for bad in ["", " a", "a\\b", "a/b", "a:b", "ipc$", "IPC$", "pipe", "..", "a\tb", "x".repeat(81).as_str()] {
            assert!(bad.parse::<ShareName>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn new_shares_have_no_name_that_stands_for_something_else() {
        for ours in ["(none)", "(others)", "(Others)"] {
            let error = ShareName::for_new(ours).unwrap_err();
            assert!(error.what().contains("cannot be the name of a share"), "{error}");
            assert!(ours.parse::<ShareName>().is_ok(), "{ours:?}");
        }
        assert!(ShareName::for_new("IPC$").is_err());
        assert!(ShareName::for_new("(other)").is_ok());
    }
}
