//! The one binary: reads the command line and wires the rooms together.

mod account;
mod activation;
mod announcement;
mod arguments;
mod audit;
mod backup;
mod catalog;
mod compare;
mod data;
mod departure;
mod exposition;
mod features;
#[cfg(test)]
mod grammar;
mod group;
mod hints;
mod listening;
mod live;
mod log;
mod metrics;
mod operator;
mod options;
mod output;
mod page;
mod password;
mod principal;
mod question;
mod raw_end;
mod recorder;
mod remote;
mod rest;
mod serve;
mod settings;
mod share;
mod signals;
mod status;
mod supervisor;
mod table;
mod top;
mod unix_owner;
mod user;
mod why;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::CommandFactory;
use control::{Error, Fault};

use crate::arguments::{Arguments, Command};
use crate::options::{Stopped, Told};
use crate::output::Output;
use crate::table::printable_lines;

/// glibc's gives little back of what thousands of small things took together, and takes longer. docs/PITFALLS.md has what was measured.
#[global_allocator]
static HEAP: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let done = options::read().and_then(|told| run(told).map_err(Stopped::Error));
    done.unwrap_or_else(|stopped| match stopped {
        Stopped::CommandLine(error) => error.exit(),
        Stopped::Error(error) => complain(&error),
    })
}

fn complain(error: &Error) -> ExitCode {
    // Nobody may be there to read it.
    let told = format!("error: {}\nhelp: {}", error.what(), error.remedy());
    let _ = writeln!(io::stderr(), "{}", printable_lines(&told));
    match error.fault() {
        _ if options::are_checked() => ExitCode::from(2),
        Fault::Argument => ExitCode::from(2),
        Fault::Missing | Fault::Conflict | Fault::Machine => ExitCode::from(1),
    }
}

fn run(told: Told) -> Result<ExitCode, Error> {
    let arguments = &told.arguments;
    let output = if arguments.json.is_some() { Output::Json } else { Output::Text };
    let named = arguments.data.as_deref();
    let data = || {
        let path = data::path(named)?;
        data::act_as_owner(&path).map(|()| path)
    };
    match &arguments.command {
        Command::Serve(serve) if serve.check_config => settings::check(&data()?, serve, &told, output),
        Command::Serve(serve) => serve::run(&data::path_to_serve(named, serve.dev)?, serve, &told, output),
        Command::Account(command) => account::run(&data()?, command, output),
        Command::User(command) => user::run(&data()?, command, output),
        Command::Group(command) => group::run(&data()?, command, output),
        Command::Operator(command) => operator::run(&data()?, command, output),
        Command::Principal(command) => principal::run(&data()?, command, output),
        Command::Share(command) => share::run(&data()?, command, output),
        Command::Rest(command) => rest::run(&data()?, command, output),
        Command::Features(command) => features::run(&data()?, command, output),
        Command::Backup(arguments) => backup::back_up(&data()?, arguments, output),
        Command::Restore(arguments) => backup::restore(&data()?, arguments, output),
        Command::Sessions => live::sessions(&data()?, output),
        Command::OpenFiles { place } => live::open_files(&data()?, place.as_deref(), output),
        Command::Top(top) => top::run(&data()?, top, output),
        Command::Metrics(command) => metrics::run(&data()?, command, output),
        Command::Why(why) => why::run(&data()?, why, output),
        Command::Server(command) => settings::run(&data()?, command, output),
        Command::Close(command) => live::close(&data()?, command, output),
        Command::Log(command) => live::log(&data()?, command, output),
        Command::RawEnd { listen } => raw_end::run(*listen),
        Command::Remote(command) => remote::run(command, output),
        // These have exit codes of their own.
        Command::Catalog(command) => return catalog::run(&data()?, command, output),
        Command::Status => return status::run(&data()?, output),
        Command::Doctor(doctor) => return Ok(remote::doctor::run(doctor, output)),
        Command::Diskspd { words } => return Ok(remote::diskspd::run(words, output)),
        Command::Compare(compare) => return compare::run(compare),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Arguments::command(), "multilane", &mut script);
            output::write_all(&script)
        }
        Command::Manual { folder } => clap_mangen::generate_to(Arguments::command(), folder).map_err(|cause| {
            let what = format!("the manual cannot be written into {}: {cause}", folder.display());
            Error::machine(what, "name a folder that is there and may be written to")
        }),
    }?;
    Ok(ExitCode::SUCCESS)
}
