//! What a command prints: a text for people or JSON for programs.

use std::io::{self, ErrorKind, Write};

use control::Error;
use serde::Serialize;

/// Who reads the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// People.
    Text,
    /// Programs.
    Json,
}

/// What is no longer there, as `--json` prints it.
#[derive(Serialize)]
pub(crate) struct Deleted<'a> {
    pub(crate) deleted: &'a str,
}

impl Output {
    /// Prints `value` as JSON, or what `text` makes of it.
    pub(crate) fn print<T: Serialize>(self, value: &T, text: impl FnOnce(&T) -> String) -> Result<(), Error> {
        let written = match self {
            Output::Text => text(value),
            Output::Json => match serde_json::to_string_pretty(value) {
                Ok(json) => json + "\n",
                Err(cause) => return Err(not_json(&cause)),
            },
        };
        write_all(written.as_bytes())
    }
}

/// Prints `value` as JSON on one line.
pub(crate) fn line<T: Serialize>(value: &T) -> Result<(), Error> {
    match serde_json::to_string(value) {
        Ok(json) => write_all((json + "\n").as_bytes()),
        Err(cause) => Err(not_json(&cause)),
    }
}

fn not_json(cause: &serde_json::Error) -> Error {
    Error::machine(format!("cannot write JSON: {cause}"), "report this")
}

/// Writes to standard output. A reader that has gone, as `head` does, is no error.
pub(crate) fn write_all(bytes: &[u8]) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(cause) if cause.kind() != ErrorKind::BrokenPipe => {
            Err(Error::machine(format!("cannot write to standard output: {cause}"), "check where it goes"))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
