//! The admin socket: how an operator's command reaches the running server. One JSON request a line, one JSON reply a line.

mod client;
mod listener;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use client::ask;
pub use listener::{AdminSocket, Facts};

use crate::{Error, Fault};

/// Bytes in a request line: the longest has a command and a number.
const REQUEST_BYTES_MAX: u64 = 4096;
/// Bytes in a reply line: a hundred thousand opens with long paths.
const REPLY_BYTES_MAX: u64 = 64 << 20;

/// What an operator asks of the running server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Read the catalog again. Answered with the list of [`Problem`](crate::Problem)s.
    Reload,
    /// Answered with a [`Status`](crate::Status).
    Status,
    /// Answered with a list of [`Session`](crate::Session)s.
    Sessions,
    /// Answered with a list of [`OpenFile`](crate::OpenFile)s.
    OpenFiles,
    /// Answered with a list of [`Interface`](crate::Interface)s.
    Interfaces,
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

/// The answer's line: a result, or what went wrong.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
enum Reply {
    Done { result: Value },
    Refused { missing: bool, what: String, remedy: String },
}

impl From<Result<Value, Error>> for Reply {
    fn from(result: Result<Value, Error>) -> Self {
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
