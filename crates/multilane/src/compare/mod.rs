//! `multilane compare`.

pub(crate) mod arguments;
mod command;
mod progress;
mod text;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

use control::Error;
use load::compare::servers::Choice as Server;
use load::compare::{Choice, Plan, Report};
use load::engine::{Failure, Stop};
use load::network::{Network, Sides};

use self::arguments::{Compare, Other};
use self::progress::Bar;
use crate::arguments::Switch;
use crate::output;
use crate::remote::place::Place;
use crate::remote::{password, target};
use crate::signals;

/// Measures, writes the files that were asked for, and prints a table. Over a network that is simulated this program does so once more,
/// on that network's client.
pub(crate) fn run(arguments: &Compare) -> Result<ExitCode, Error> {
    let plan = Plan::of(&choice(arguments)).map_err(|failure| Error::argument(failure.what, failure.remedy))?;
    let servers = servers(arguments)?;
    check_files(arguments)?;
    let stop = Stop::default();
    signals::end(&stop).map_err(|cause| Error::machine(format!("cannot catch signals: {cause}"), "try again"))?;
    match (arguments.network, arguments.inside) {
        (Network::Plain, _) => measure(arguments, &plan, &servers, Sides::plain(), &stop),
        (_, Some(sides)) => measure(arguments, &plan, &servers, sides, &stop),
        (network, None) => inside(network, &stop),
    }
}

/// Builds a network, and does the same on its client.
fn inside(network: Network, stop: &Stop) -> Result<ExitCode, Error> {
    let built = load::network::build(network).map_err(failed)?;
    let mut command = built.sides().on_client(own_program()?);
    command.args(env::args_os().skip(1)).arg(format!("--inside={}", built.sides()));
    let status = built.run(command, stop).map_err(failed)?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

fn measure(arguments: &Compare, plan: &Plan, servers: &[Server], sides: Sides, stop: &Stop) -> Result<ExitCode, Error> {
    let bar = Bar::new(std::io::stderr().is_terminal());
    let report = load::compare::run(plan, servers, sides, &bar, stop);
    bar.end();
    let report = report.map_err(failed)?;
    write(arguments, &report)?;
    match report.is_complete {
        true => Ok(ExitCode::SUCCESS),
        false => Err(Error::machine(
            "the comparison was ended before all rounds were done",
            "let it go on; --quick takes three minutes",
        )),
    }
}

fn choice(arguments: &Compare) -> Choice {
    Choice {
        is_quick: arguments.quick,
        workloads: arguments.workload.clone(),
        ops: arguments.op.clone(),
        blocks: arguments.block.clone(),
        protections: arguments.protection.clone(),
        channels: arguments.channels.clone(),
        rounds: arguments.rounds,
        duration: arguments.seconds,
        threads: arguments.threads,
        depth: arguments.depth,
        file_bytes: arguments.file_size,
        curves: arguments.curves.map(|switch| matches!(switch, Switch::On)),
    }
}

/// The servers, the one that the others are compared with first.
fn servers(arguments: &Compare) -> Result<Vec<Server>, Error> {
    let places = arguments.against.iter().filter_map(|other| match other {
        Other::Running(place) => Some(place),
        Other::Samba => None,
    });
    // Asked for once, and only where somebody signs in to a server that we did not start.
    let password = match arguments.server.iter().chain(places).next() {
        Some(_) => password(&arguments.who)?,
        None => String::new(),
    };
    let running = |place: &Place| {
        if arguments.network != Network::Plain {
            return Err(Error::argument(
                "a network that is simulated leads to no server that runs",
                "compare with --against samba, or leave out --network",
            ));
        }
        Ok(Server::Running {
            name: format!("{}:{}", place.host, place.port),
            target: target(place.user.as_deref(), (&place.host, place.port), &arguments.who, password.clone())?,
            share: place.share.clone(),
            folder: place.path.replace('/', r"\"),
        })
    };
    let first = match &arguments.server {
        Some(place) => running(place)?,
        None => Server::Own { program: own_program()? },
    };
    let others = arguments.against.iter().map(|other| match other {
        Other::Samba => Ok(Server::Samba),
        Other::Running(place) => running(place),
    });
    std::iter::once(Ok(first)).chain(others).collect()
}

fn own_program() -> Result<std::path::PathBuf, Error> {
    env::current_exe().map_err(|cause| {
        Error::machine(format!("cannot find this program: {cause}"), "measure a server that runs, with --server")
    })
}

/// Nobody should learn after an hour that the result cannot be written.
fn check_files(arguments: &Compare) -> Result<(), Error> {
    let mut files = outputs(arguments);
    while let Some(path) = files.next() {
        if files.clone().any(|other| other == path) {
            return Err(Error::argument("--json, --html and --markdown name the same file", "name several"));
        }
    }
    for path in outputs(arguments).filter(|path| !is_standard_output(path)) {
        let opened = fs::OpenOptions::new().create(true).append(true).open(path);
        opened.map_err(|cause| not_written(path, &cause))?;
    }
    Ok(())
}

/// The files that are asked for.
fn outputs(arguments: &Compare) -> impl Iterator<Item = &Path> + Clone {
    [&arguments.json, &arguments.html, &arguments.markdown].into_iter().filter_map(|path| path.as_deref())
}

fn is_standard_output(path: &Path) -> bool {
    path == Path::new("-")
}

fn not_written(path: &Path, cause: &io::Error) -> Error {
    Error::machine(format!("cannot write {}: {cause}", path.display()), "check the path and the disk under it")
}

fn write(arguments: &Compare, report: &Report) -> Result<(), Error> {
    if let Some(path) = &arguments.html {
        to(path, load::compare::page(report))?;
    }
    if let Some(path) = &arguments.markdown {
        to(path, load::compare::markdown(report, &command::line(env::args_os().skip(1))))?;
    }
    if let Some(path) = &arguments.json {
        let json = serde_json::to_string_pretty(report)
            .map_err(|cause| Error::machine(format!("cannot write JSON: {cause}"), "report this"))?;
        to(path, json + "\n")?;
    }
    if outputs(arguments).any(is_standard_output) { Ok(()) } else { output::write_all(text::of(report).as_bytes()) }
}

fn to(path: &Path, text: String) -> Result<(), Error> {
    if is_standard_output(path) {
        return output::write_all(text.as_bytes());
    }
    fs::write(path, text).map_err(|cause| not_written(path, &cause))
}

fn failed(failure: Failure) -> Error {
    Error::machine(failure.what, failure.remedy)
}
