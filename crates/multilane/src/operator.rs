//! `multilane operator`: who may sign in to the page.

use std::path::Path;

use clap::Subcommand;
use control::{Error, UserName};
use serde::Serialize;

use crate::data;
use crate::output::{Deleted, Output};
use crate::password;
use crate::table::Table;

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
            let operator = Shown { name: catalog.create_operator(name, &password::read(*password_stdin)?)?.name };
            output.print(&operator, |operator| format!("created operator {}\n", operator.name))?;
            data::reload(&folder).map(drop)
        }
        OperatorCommand::Passwd { name, password_stdin } => {
            let (folder, mut catalog) = data::open(path)?;
            let operator = Shown { name: catalog.set_operator_password(name, &password::read(*password_stdin)?)?.name };
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
