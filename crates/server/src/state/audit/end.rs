//! What ended an open or a session.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

/// What ended an open or a session. One that nobody says was the server's own doing, as where a CREATE is undone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditEnd {
    /// The server, for itself.
    #[default]
    Server,
    /// CLOSE.
    Close,
    /// TREE_DISCONNECT.
    TreeDisconnect,
    /// LOGOFF.
    Logoff,
    /// The session's last connection was lost.
    ConnectionLost,
    /// An operator closed it.
    Operator,
    /// Its client has signed in anew, and named the session it had.
    NewSession,
    /// Its user, its key or its share is not served any more.
    Configuration,
    /// Whoever signs in again failed.
    SignInFailed,
    /// Its client did not come back in time.
    NotReclaimed,
    /// It waited for its client, and somebody else wanted the file.
    GaveWay,
    /// An application took over what another instance of it had open.
    AppInstance,
    /// The server was told to end.
    ServerStop,
}

impl AuditEnd {
    const ALL: [AuditEnd; 13] = [
        AuditEnd::Server,
        AuditEnd::Close,
        AuditEnd::TreeDisconnect,
        AuditEnd::Logoff,
        AuditEnd::ConnectionLost,
        AuditEnd::Operator,
        AuditEnd::NewSession,
        AuditEnd::Configuration,
        AuditEnd::SignInFailed,
        AuditEnd::NotReclaimed,
        AuditEnd::GaveWay,
        AuditEnd::AppInstance,
        AuditEnd::ServerStop,
    ];

    /// Its name in the log.
    pub fn name(self) -> &'static str {
        match self {
            AuditEnd::Server => "Server",
            AuditEnd::Close => "Close",
            AuditEnd::TreeDisconnect => "TreeDisconnect",
            AuditEnd::Logoff => "Logoff",
            AuditEnd::ConnectionLost => "ConnectionLost",
            AuditEnd::Operator => "Operator",
            AuditEnd::NewSession => "NewSession",
            AuditEnd::Configuration => "Configuration",
            AuditEnd::SignInFailed => "SignInFailed",
            AuditEnd::NotReclaimed => "NotReclaimed",
            AuditEnd::GaveWay => "GaveWay",
            AuditEnd::AppInstance => "AppInstance",
            AuditEnd::ServerStop => "ServerStop",
        }
    }
}

/// What ends an open, once somebody has said so.
#[derive(Default)]
pub(crate) struct EndCell {
    end: AtomicU8,
    /// Where the client that closed it did so from.
    caller: OnceLock<Arc<str>>,
}

impl EndCell {
    /// Says what ends it; the first who says so is right.
    pub(crate) fn say(&self, end: AuditEnd) {
        let _ = self.end.compare_exchange(0, end as u8, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// A client at this address closes it.
    pub(crate) fn closed_from(&self, caller: &Arc<str>) {
        let _ = self.caller.set(Arc::clone(caller));
        self.say(AuditEnd::Close);
    }

    /// The address of the client that closed it; `None` where none did.
    pub(crate) fn caller(&self) -> Option<&Arc<str>> {
        self.caller.get().filter(|_| self.get() == AuditEnd::Close)
    }

    pub(crate) fn get(&self) -> AuditEnd {
        AuditEnd::ALL.get(usize::from(self.end.load(Ordering::Relaxed))).copied().unwrap_or_default()
    }
}

/// What ends a session, and where its client is, where that is known.
pub(crate) struct SessionEnd {
    pub(crate) by: AuditEnd,
    pub(crate) caller: Option<Arc<str>>,
}

impl From<AuditEnd> for SessionEnd {
    fn from(by: AuditEnd) -> Self {
        SessionEnd { by, caller: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_who_says_what_ends_an_open_is_right() {
        for (number, end) in AuditEnd::ALL.into_iter().enumerate() {
            assert_eq!(end as usize, number);
            let cell = EndCell::default();
            cell.say(end);
            assert_eq!(cell.get(), end);
        }
        let cell = EndCell::default();
        cell.say(AuditEnd::Operator);
        cell.say(AuditEnd::Close);
        assert_eq!(cell.get(), AuditEnd::Operator);
    }
}
