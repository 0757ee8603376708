//! What a command prints: a text for people or JSON for programs.

use std::io::{self, BufWriter, ErrorKind, Write};

use control::Error;
use insight::shown::Escaped;
use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};

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
                let written = write_json(&mut out, value, PrettyFormatter::new());
                told(written.and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()))
            }
        }
    }
}

/// Prints `value` as JSON on one line.
pub(crate) fn line<T: Serialize>(value: &T) -> Result<(), Error> {
    write_all(&json(value, CompactFormatter)?)
}

/// `value` as JSON on several lines.
pub(crate) fn pretty<T: Serialize>(value: &T) -> Result<Vec<u8>, Error> {
    json(value, PrettyFormatter::new())
}

fn json<T: Serialize>(value: &T, formatter: impl Formatter) -> Result<Vec<u8>, Error> {
    let mut json = Vec::new();
    write_json(&mut json, value, formatter)
        .map_err(|cause| Error::machine(format!("cannot write JSON: {cause}"), "report this"))?;
    json.push(b'\n');
    Ok(json)
}

/// Writes `value` as JSON, with what terminals obey escaped: clients choose names of files and users.
fn write_json<T: Serialize>(out: impl Write, value: &T, formatter: impl Formatter) -> io::Result<()> {
    Ok(value.serialize(&mut Serializer::with_formatter(out, Escaped(formatter)))?)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_clients_are_escaped_in_json() {
        let mut json = Vec::new();
        write_json(&mut json, &["a\u{9b}2J\u{202e}\u{feff}é"], CompactFormatter).unwrap();
        assert_eq!(String::from_utf8(json).unwrap(), r#"["a\u009b2J\u202e\ufeffé"]"#);
    }
}
