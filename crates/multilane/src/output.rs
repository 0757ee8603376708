//! What a command prints: a text for people or JSON for programs.

use std::io::{self, BufWriter, ErrorKind, Write};

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
        match self {
            Output::Text => write_all(text(value).as_bytes()),
            Output::Json => {
                // As it is made: it may be as long as everything that is open.
                let mut out = BufWriter::new(io::stdout().lock());
                let written = serde_json::to_writer_pretty(&mut out, value).map_err(io::Error::from);
                told(written.and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()))
            }
        }
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
    told(out.write_all(bytes).and_then(|()| out.flush()))
}

fn told(written: io::Result<()>) -> Result<(), Error> {
    match written {
        Err(cause) if cause.kind() != ErrorKind::BrokenPipe => {
            Err(Error::machine(format!("cannot write to standard output: {cause}"), "check where it goes"))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
