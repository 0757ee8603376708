//! `multilane operator`: who may sign in to the page.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;

use clap::Subcommand;
use control::{Error, UserName};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use serde::Serialize;

use crate::data;
use crate::output::{Deleted, Output};
use crate::table::Table;
use crate::user;

const CREATE_EXAMPLE: &str = "Example:\n  multilane operator create ann\n  printf '%s\\n' \"$PASSWORD\" | multilane operator create ann --password-stdin";

#[derive(Debug, Subcommand)]
pub(crate) enum OperatorCommand {
    /// Make an operator, who may sign in to the page of `serve --page`; the password has 12 characters or more
    #[command(after_help = CREATE_EXAMPLE)]
    Create {
        /// The name to sign in with
        name: UserName,
        /// Read the password from the first line of standard input, and ask nobody
        #[arg(long)]
        password_stdin: bool,
    },
    /// Change an operator's password; who has signed in with the old one is signed out
    Passwd {
        /// The operator
        name: UserName,
        /// Read the password from the first line of standard input, and ask nobody
        #[arg(long)]
        password_stdin: bool,
    },
    /// Delete an operator, who is signed out
    Delete {
        /// The operator
        name: UserName,
    },
    /// List the operators
    List,
}

/// An operator as `--json` prints it.
#[derive(Serialize)]
struct Shown {
    name: String,
}

pub(crate) fn run(path: &Path, command: &OperatorCommand, output: Output) -> Result<(), Error> {
    match command {
        OperatorCommand::Create { name, password_stdin } => {
            let (folder, mut catalog) = data::open(path)?;
            let operator = Shown { name: catalog.create_operator(name, &password(*password_stdin)?)?.name };
            output.print(&operator, |operator| format!("made operator {}\n", operator.name))?;
            data::reload(&folder).map(drop)
        }
        OperatorCommand::Passwd { name, password_stdin } => {
            let (folder, mut catalog) = data::open(path)?;
            let operator = Shown { name: catalog.set_operator_password(name, &password(*password_stdin)?)?.name };
            data::forget(&folder, &catalog)?;
            output.print(&operator, |operator| format!("changed the password of operator {}\n", operator.name))
        }
        OperatorCommand::Delete { name } => {
            let (folder, mut catalog) = data::open(path)?;
            let operator = catalog.delete_operator(name)?;
            output.print(&Deleted { deleted: &operator.name }, |deleted| {
                format!("deleted operator {}\n", deleted.deleted)
            })?;
            data::forget(&folder, &catalog)
        }
        OperatorCommand::List => {
            let (_, catalog) = data::open(path)?;
            let operators: Vec<Shown> = catalog.operators()?.into_iter().map(|one| Shown { name: one.name }).collect();
            output.print(&operators, |operators| {
                let mut table = Table::new(["NAME"]);
                operators.iter().for_each(|operator| table.row([operator.name.clone()]));
                table.text()
            })
        }
    }
}

/// From standard input, or from who sits at the terminal.
fn password(is_on_standard_input: bool) -> Result<String, Error> {
    if is_on_standard_input {
        return user::password();
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
