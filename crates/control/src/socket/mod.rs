//! The admin socket: how an operator's command reaches the running server. One JSON request a line, one JSON reply a line; what grows with
//! its clients is told in parts, a line each, so that neither side holds a long line, whatever there is.

mod client;
mod listener;

use serde::{Deserialize, Serialize};

pub(crate) use client::not_understood;
pub use client::{Seen, ask, ask_for_all, see};
pub use listener::{AdminSocket, Explain, Facts, LogFilter};

use crate::{Error, Fault};

/// Bytes in a request line: the longest has a filter of the log.
const REQUEST_BYTES_MAX: u64 = 4096;
/// Bytes in a reply line: the problems of a hundred thousand shares.
const REPLY_BYTES_MAX: u64 = 64 << 20;
/// Sessions or opens in a reply line.
const PART_MAX: usize = 64;

/// What an operator asks of the running server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Read the catalog again. Answered with the list of [`Problem`](crate::Problem)s.
    Reload,
    /// Answered with a [`Status`](crate::Status).
    Status,
    /// Answered with all [`Session`](crate::Session)s, in parts.
    Sessions,
    /// Answered with all [`OpenFile`](crate::OpenFile)s, in parts.
    OpenFiles,
    /// Answered with a list of [`Interface`](crate::Interface)s.
    Interfaces,
    /// Answered with a list of [`SettingView`](crate::SettingView)s.
    Settings,
    /// Answered with the filter of the log, a text.
    LogFilter,
    /// Change what is logged until the server ends. Answered with the filter of the log from now on.
    SetLogFilter {
        /// The filter.
        filter: String,
    },
    /// Answered with what the server has done ([`ask_for_counters`](crate::ask_for_counters)), in parts.
    Counters,
    /// Answered with the [`BusyFile`](crate::BusyFile)s of the last so many milliseconds, as far as samples tell.
    BusyFiles {
        /// Milliseconds.
        within: u32,
    },
    /// Where the time of the last minute went. Answered with what [`Explain`] says.
    Why {
        /// A share's name or a session's number; `None` for the share that suffers most.
        about: Option<String>,
    },
    /// Answered with the [`LockedUser`](crate::LockedUser)s, in parts.
    LockedUsers,
    /// Unlock a user. Answered with true where it was locked.
    UnlockUser {
        /// The last number of its SID.
        relative_id: u32,
    },
    /// Make a snapshot of a share. Answered with its time.
    TakeSnapshot {
        /// The share.
        share: String,
    },
    /// Delete a snapshot of a share, whoever has a lease of it. Answered with nothing.
    DeleteSnapshot {
        /// The share.
        share: String,
        /// The snapshot's time.
        time: String,
    },
    /// End a session. Answered with nothing.
    CloseSession {
        /// Its number.
        id: u64,
    },
    /// Close an open. Answered with nothing.
    CloseOpen {
        /// Its number.
        id: u64,
    },
}

/// A line of the answer: a result, or what went wrong.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
enum Reply<T> {
    /// A part of it, and another line follows.
    More {
        result: T,
    },
    Done {
        result: T,
    },
    Refused {
        missing: bool,
        what: String,
        remedy: String,
    },
}

impl<T> From<Result<T, Error>> for Reply<T> {
    fn from(result: Result<T, Error>) -> Self {
        match result {
            Ok(result) => Reply::Done { result },
            Err(error) => Reply::Refused {
                missing: error.fault() == Fault::Missing,
                what: error.what().to_owned(),
                remedy: error.remedy().to_owned(),
            },
        }
    }
}

#[cfg(test)]
mod tests;
