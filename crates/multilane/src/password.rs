//! Passwords that commands are given: on standard input, or by who sits at the terminal.

use std::io::{self, BufRead, IsTerminal, Read, Write};

use control::Error;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

/// Bytes of the line with the password: more than the longest that is taken.
const LINE_BYTES_MAX: u64 = 8192;

/// From standard input, or from who sits at the terminal.
pub(crate) fn read(is_on_standard_input: bool) -> Result<String, Error> {
    if is_on_standard_input {
        return first_line();
    }
    if !io::stdin().is_terminal() {
        return Err(Error::argument(
            "there is no terminal to ask for the password at",
            "give it on the first line of standard input, with --password-stdin",
        ));
    }
    let first = typed("Password: ")?;
    if typed("The same again: ")? != first {
        return Err(Error::argument("these are two passwords", "try again"));
    }
    Ok(first)
}

/// The first line of standard input, without its end.
pub(crate) fn first_line() -> Result<String, Error> {
    let mut line = String::new();
    io::stdin().lock().take(LINE_BYTES_MAX).read_line(&mut line).map_err(|cause| {
        Error::argument(format!("cannot read the password: {cause}"), "give it as one line of UTF-8 on standard input")
    })?;
    let bare = line.strip_suffix('\n').map_or(line.as_str(), |line| line.strip_suffix('\r').unwrap_or(line));
    Ok(bare.to_owned())
}

/// A line that is typed and not shown.
fn typed(prompt: &str) -> Result<String, Error> {
    let unable = |cause: io::Error| {
        Error::machine(format!("the terminal cannot be used: {cause}"), "give the password with --password-stdin")
    };
    let before = tcgetattr(io::stdin()).map_err(|cause| unable(cause.into()))?;
    let mut silent = before.clone();
    // Byte by byte, and without signals: whoever interrupts is heard at once, and leaves the terminal as it was.
    silent.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG | LocalModes::ICANON);
    silent.special_codes[SpecialCodeIndex::VMIN] = 1;
    silent.special_codes[SpecialCodeIndex::VTIME] = 0;
    tcsetattr(io::stdin(), OptionalActions::Flush, &silent).map_err(|cause| unable(cause.into()))?;
    let _shown_again = ShownAgain(before);
    eprint!("{prompt}");
    let _ = io::stderr().flush();
    let line = line_of(io::stdin().lock().bytes());
    eprintln!();
    match line.map_err(unable)? {
        Some(line) => String::from_utf8(line)
            .ok()
            .filter(|line| !line.contains(char::is_control))
            .ok_or_else(|| Error::argument("that is no password", "try again, with letters, digits and signs")),
        None => Err(Error::argument("no password was given, and nothing is changed", "start again when you have one")),
    }
}

/// The line that keys make; `None` where it is given up.
fn line_of(keys: impl Iterator<Item = io::Result<u8>>) -> io::Result<Option<Vec<u8>>> {
    const INTERRUPT: u8 = 0x03;
    const END: u8 = 0x04;
    const BACKSPACE: u8 = 0x08;
    const WHOLE_LINE: u8 = 0x15;
    const QUIT: u8 = 0x1c;
    const DELETE: u8 = 0x7f;
    let mut line = Vec::new();
    for key in keys.take(usize::try_from(LINE_BYTES_MAX).unwrap_or(usize::MAX)) {
        match key? {
            b'\n' | b'\r' => return Ok(Some(line)),
            INTERRUPT | QUIT => return Ok(None),
            END if line.is_empty() => return Ok(None),
            BACKSPACE | DELETE => {
                // A character of UTF-8 is one byte that begins it and others behind.
                while line.pop().is_some_and(|byte: u8| byte & 0xc0 == 0x80) {}
            }
            WHOLE_LINE => line.clear(),
            byte => line.push(byte),
        }
    }
    Ok(None)
}

/// The terminal as it was before.
struct ShownAgain(Termios);

impl Drop for ShownAgain {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_make_a_line_and_whoever_interrupts_is_heard_at_once() {
        let line = |keys: &str| {
            let text = line_of(keys.bytes().map(Ok)).unwrap();
            text.map(|line| String::from_utf8(line).unwrap())
        };
        for (keys, typed) in [
            ("secret\n", Some("secret")),
            ("secret\rmore", Some("secret")),
            ("wrong\u{15}right\n", Some("right")),
            ("jörg\u{7f}\u{7f}\u{7f}ohn\n", Some("john")),
            ("\u{7f}\u{8}a\n", Some("a")),
            ("a\u{4}b\n", Some("a\u{4}b")),
            ("\n", Some("")),
            ("sec\u{3}", None),
            ("sec\u{1c}", None),
            ("\u{4}", None),
            ("no end", None),
        ] {
            assert_eq!(line(keys).as_deref(), typed, "{keys:?}");
        }
    }
}
