//! `multilane compare`.

pub(crate) mod arguments;
mod command;
mod metadata_text;
mod outputs;
mod progress;
mod text;

use std::env;
use std::io::IsTerminal;
use std::process::ExitCode;

use control::Error;
use load::compare::metadata;
use load::compare::servers::Choice as Server;
use load::compare::{Choice, Plan};
use load::engine::{Failure, Stop};
use load::network::{Network, Sides};

use self::arguments::{Compare, Other};
use self::outputs::Shown;
use self::progress::Bar;
use crate::arguments::Switch;
use crate::remote::place::Place;
use crate::remote::{password, target};
use crate::signals;

/// Measures, writes the files that were asked for, and prints a table. Over a network that is simulated this program does so once more,
/// on that network's client.
pub(crate) fn run(arguments: &Compare) -> Result<ExitCode, Error> {
    let plan = plan(arguments).map_err(|failure| Error::argument(failure.what, failure.remedy))?;
    let servers = servers(arguments)?;
    outputs::check(arguments)?;
    let stop = Stop::default();
    signals::end(&stop).map_err(|cause| Error::machine(format!("cannot catch signals: {cause}"), "try again"))?;
    let sides = match (arguments.network, arguments.inside) {
        (Network::Plain, _) => Sides::plain(),
        (_, Some(sides)) => sides,
        (network, None) => return inside(network, &stop),
    };
    match plan {
        Planned::Channels(plan) => measure(arguments, |bar| {
            let report = load::compare::run(&plan, &servers, sides, bar, &stop)?;
            Ok(Measured { is_complete: report.occasion.is_complete, report })
        }),
        Planned::Metadata(plan) => measure(arguments, |bar| {
            let report = metadata::run(&plan, &servers, sides, bar, &stop)?;
            Ok(Measured { is_complete: report.occasion.is_complete, report })
        }),
    }
}

/// A report, and whether all rounds were done for it.
struct Measured<T> {
    report: T,
    is_complete: bool,
}

/// What is measured.
enum Planned {
    /// One channel against several.
    Channels(Plan),
    /// Metadata, with caching off and on.
    Metadata(metadata::Plan),
}

fn plan(arguments: &Compare) -> Result<Planned, Failure> {
    match arguments.metadata {
        false => Plan::of(&choice(arguments)).map(Planned::Channels),
        true => metadata::Plan::of(&metadata_choice(arguments)).map(Planned::Metadata),
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

/// Measures while a bar is shown, and writes what came of it.
fn measure<T: Shown>(
    arguments: &Compare,
    run: impl FnOnce(&Bar) -> Result<Measured<T>, Failure>,
) -> Result<ExitCode, Error> {
    let bar = Bar::new(std::io::stderr().is_terminal());
    let measured = run(&bar);
    bar.end();
    let Measured { report, is_complete } = measured.map_err(failed)?;
    outputs::write(arguments, &report)?;
    match is_complete {
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

fn metadata_choice(arguments: &Compare) -> metadata::Choice {
    metadata::Choice {
        is_quick: arguments.quick,
        clients: arguments.clients.clone(),
        rounds: arguments.rounds,
        duration: arguments.seconds,
        depth: arguments.depth,
        files: arguments.files,
        store_latency: arguments.store_latency,
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

fn failed(failure: Failure) -> Error {
    Error::machine(failure.what, failure.remedy)
}
