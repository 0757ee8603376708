//! Who has something done with a running server.

use std::fmt;
use std::net::SocketAddr;

/// Who wants something done.
#[derive(Clone, Copy, Debug)]
pub enum By<'a> {
    /// A command, which reaches the server through its admin socket.
    Command,
    /// An operator who has signed in to the page.
    Operator(&'a str),
    /// Somebody who has proved to be allowed, by the REST interface or the management interface.
    Requester(&'a Requester),
}

/// Who has proved by a request to be allowed, and where the request came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requester {
    /// Who that is.
    pub who: Who,
    /// The other end of the connection.
    pub from: SocketAddr,
}

/// What was proved. As text it is a name that no operator has: `account:NAME`, or `principal:NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// To have a key of this account, or what was signed with one.
    Account(String),
    /// To be this service principal, or what it signed.
    Principal(String),
}

impl fmt::Display for Who {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Who::Account(name) => write!(to, "account:{name}"),
            Who::Principal(name) => write!(to, "principal:{name}"),
        }
    }
}

impl By<'_> {
    /// The name, for the log; a command has none.
    pub(crate) fn name(&self) -> String {
        match self {
            By::Command => String::new(),
            By::Operator(name) => (*name).to_owned(),
            By::Requester(requester) => requester.who.to_string(),
        }
    }

    /// The address, for the log, where it was asked for over a network.
    pub(crate) fn from(&self) -> String {
        match self {
            By::Command | By::Operator(_) => String::new(),
            By::Requester(requester) => requester.from.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_tells_who_it_was_and_from_where() {
        let from: SocketAddr = "192.0.2.7:50001".parse().unwrap();
        let told = |by: By<'_>| (by.name(), by.from());
        let both = |name: &str, from: &str| (name.to_owned(), from.to_owned());
        assert_eq!(told(By::Command), both("", ""));
        assert_eq!(told(By::Operator("ann")), both("ann", ""));
        let account = Requester { who: Who::Account("media".into()), from };
        assert_eq!(told(By::Requester(&account)), both("account:media", "192.0.2.7:50001"));
        let principal = Requester { who: Who::Principal("deploys".into()), from };
        assert_eq!(told(By::Requester(&principal)), both("principal:deploys", "192.0.2.7:50001"));
    }
}
