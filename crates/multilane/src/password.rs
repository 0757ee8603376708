//! Passwords that commands are given: on standard input, or by who sits at the terminal.

use std::io::{self, BufRead, IsTerminal, Read, Write};

use control::Error;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

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
    // Whoever interrupts has typed a control character then, and leaves the terminal as it was.
    silent.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG);
    tcsetattr(io::stdin(), OptionalActions::Flush, &silent).map_err(|cause| unable(cause.into()))?;
    let _shown_again = ShownAgain(before);
    eprint!("{prompt}");
    let _ = io::stderr().flush();
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(unable)?;
    eprintln!();
    let line = line.trim_end_matches(['\r', '\n']);
    if line.contains(char::is_control) {
        return Err(Error::argument("that is no password", "try again, with letters, digits and signs"));
    }
    Ok(line.to_owned())
}

/// The terminal as it was before.
struct ShownAgain(Termios);

impl Drop for ShownAgain {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.0);
    }
}
