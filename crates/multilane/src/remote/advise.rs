//! `advise`: whether multichannel should be on for a workload, and what else would make it faster.

use std::fmt::Write;
use std::sync::Arc;

use ::client::{Channels, Session, Tcp};
use control::Error;
use load::advise::measure::measure;
use load::advise::{Advice, Subject, Surroundings, Verdict, Workload, advise};
use load::engine::{Failure, Mount, Stop};
use serde::Serialize;

use super::arguments::{self, Login};
use super::diskspd::heed_signals;
use super::place::Server;
use super::{failed, password, runtime, settings, target};
use crate::output::Output;
use crate::table::printable;

/// What is printed.
#[derive(Serialize)]
struct Shown {
    workload: Workload,
    surroundings: Surroundings,
    multichannel: Verdict,
    advice: Vec<Advice>,
}

pub(super) fn run(command: &arguments::Advise, output: Output) -> Result<(), Error> {
    let workload = Workload {
        threads: command.threads,
        files: command.files,
        block_bytes: command.block,
        write_percent: command.write,
        outstanding: command.outstanding,
    };
    let mut surroundings = match &command.server {
        Some(server) => of_server(server, &workload, command)?,
        None => Surroundings::assumed(),
    };
    surroundings.is_azure |= command.provisioned_gib.is_some();
    surroundings.provisioned_gib = command.provisioned_gib;
    let advice = advise(&workload, &surroundings);
    let multichannel = verdict(&advice);
    output.print(&Shown { workload, surroundings, multichannel, advice }, text)
}

fn verdict(advice: &[Advice]) -> Verdict {
    let found = advice.iter().find_map(|advice| match advice.subject {
        Subject::Multichannel(verdict) => Some(verdict),
        Subject::Files
        | Subject::InFlight
        | Subject::BlockSize
        | Subject::Clients
        | Subject::ShareSize
        | Subject::Distance => None,
    });
    found.unwrap_or(Verdict::Either)
}

/// Looks at the server, and tries the workload there where that was asked for.
fn of_server(server: &Server, workload: &Workload, command: &arguments::Advise) -> Result<Surroundings, Error> {
    let mut mount = mount(server, &command.login)?;
    // What several channels would give is the question, whatever is said of them.
    if matches!(mount.settings.channels, Channels::Exactly(0..=1)) {
        mount.settings.channels = Channels::Automatic;
    }
    let share = server.share.as_deref();
    if command.measure && share.is_none() {
        return Err(Error::argument("--measure needs a share for its test files", "use smb://HOST/SHARE"));
    }
    let mut surroundings = runtime()?.block_on(async {
        let session = Session::connect(&mount.server, mount.settings, Arc::new(Tcp)).await.map_err(failed)?;
        // A share that is not there is told before anything else.
        let tree = match share {
            Some(share) => Some(session.tree(share).await.map_err(failed)?),
            None => None,
        };
        let surroundings = Surroundings::of(&session).await.map_err(failed);
        drop(tree);
        let _ = session.close().await;
        surroundings
    })?;
    if command.measure {
        let stop = Stop::default();
        heed_signals(&stop)?;
        let measured = measure(workload, &mount, &server.path, &stop);
        surroundings.measured = Some(measured.map_err(|Failure { what, remedy }| Error::machine(what, remedy))?);
    }
    Ok(surroundings)
}

fn mount(server: &Server, login: &Login) -> Result<Mount, Error> {
    Ok(Mount {
        server: target(server.user.as_deref(), (&server.host, server.port), &login.who, password(&login.who)?)?,
        settings: settings(login)?,
        share: server.share.clone().unwrap_or_default(),
    })
}

fn text(shown: &Shown) -> String {
    let mut text = String::from(match shown.multichannel {
        Verdict::On => "Multichannel: on\n",
        Verdict::Off => "Multichannel: off\n",
        Verdict::Either => "Multichannel: on or off, it makes no difference here\n",
    });
    for (number, advice) in shown.advice.iter().enumerate() {
        let Advice { action, gain, reason, evidence, source, .. } = advice;
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}. {action}", number + 1);
        let _ = writeln!(text, "   gain: {}", gain.text());
        let _ = writeln!(text, "   why:  {reason}");
        for line in evidence {
            let _ = writeln!(text, "   seen: {}", printable(line));
        }
        let _ = writeln!(text, "   from: {source}");
    }
    text
}
