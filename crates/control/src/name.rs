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

impl UserName {
    /// Refuses a name for somebody new, or for who is renamed, that clients or people take for somebody else: one that Windows or the server
    /// `server_name` has for itself, or one with characters that nobody sees. There may be users and groups from before that are called so.
    pub(crate) fn check_new(&self, server_name: &str) -> Result<(), Error> {
        let name = &self.0;
        let misleads = if name.contains(is_invisible) {
            "it has characters that nobody sees, or that turn the direction of those that follow"
        } else if server::admin::is_reserved_name(name) {
            "clients take it for somebody that every Windows machine or domain has"
        } else if store::fold(name) == store::fold(server_name) {
            "the server itself is called so"
        } else {
            return Ok(());
        };
        let what = format!("{name:?} cannot be the name of a user or group: {misleads}");
        Err(Error::argument(what, "choose another name"))
    }
}

/// The host name's first label, as clients see it.
pub(crate) fn host_label() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    match name.split('.').next() {
        Some(label) if !label.is_empty() => label.to_owned(),
        Some(_) | None => "multilane".to_owned(),
    }
}

/// True for a character that is not shown, or turns the direction of text (Unicode 5.2, 23.2).
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
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
    fn nobody_new_has_a_name_that_means_somebody_else() {
        for bad in
            ["Domain Users", "SYSTEM", "guest", "Everyone", "administrators", "Files", "al\u{202e}ice", "bob\u{200b}"]
        {
            let error = bad.parse::<UserName>().unwrap().check_new("FILES").unwrap_err();
            assert!(error.what().contains("cannot be the name of a user or group: "), "{error}");
        }
        for good in ["alice", "Domain User", "jörg müller", "\u{645}\u{631}\u{64a}\u{645}"] {
            assert!(good.parse::<UserName>().unwrap().check_new("FILES").is_ok(), "{good:?}");
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
