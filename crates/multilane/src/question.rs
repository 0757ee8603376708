//! Questions at a terminal, before something that is not easily undone.

use std::io::{self, BufRead, IsTerminal, Write};

use control::Error;

/// Asks whether what is called so is to go. Where there is nobody to ask it stays.
pub(crate) fn agree(question: &str, name: &str) -> Result<(), Error> {
    agree_or(question, name, "--force")
}

/// The same where `option` is what asks nothing.
pub(crate) fn agree_or(question: &str, name: &str, option: &str) -> Result<(), Error> {
    match ask(question) {
        Answer::Yes => Ok(()),
        Answer::NobodyToAsk => Err(Error::conflict(
            format!("{name:?} stays as it is: this cannot be undone, and there is no terminal to ask at"),
            format!("say {option} where it is meant"),
        )),
        Answer::No => {
            Err(Error::conflict(format!("{name:?} stays as it is"), format!("say yes, or {option}, to have it go")))
        }
    }
}

/// What came of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Go on.
    Yes,
    /// Leave it.
    No,
    /// Nobody sits at a terminal.
    NobodyToAsk,
}

/// Asks who sits at the terminal. Whatever is not a yes is a no.
pub(crate) fn ask(question: &str) -> Answer {
    if !io::stdin().is_terminal() {
        return Answer::NobodyToAsk;
    }
    eprint!("{question} [y/N] ");
    let _ = io::stderr().flush();
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    let is_yes = read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes");
    if is_yes { Answer::Yes } else { Answer::No }
}
