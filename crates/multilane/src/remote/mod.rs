//! The commands that are a client: they sign in to a server, this machine's or another.

mod advise;
pub(crate) mod arguments;
mod client;
mod copy;
pub(crate) mod diskspd;
pub(crate) mod doctor;
mod files;
mod part;
pub(crate) mod place;
mod progress;
mod shares;
mod tree;
mod verify;

use std::io::IsTerminal;
use std::sync::Arc;

use ::client::{Channels, Session, Settings, Signing, Status, Target, Tcp};
use control::Error;
use tokio::runtime::Runtime;

use crate::output::Output;
use crate::password;
use crate::remote::arguments::{Login, RemoteCommand, Setting, Who};
use crate::remote::place::Place;

/// Does what is asked.
pub(crate) fn run(command: &RemoteCommand, output: Output) -> Result<(), Error> {
    match command {
        RemoteCommand::Ls(list) => files::list(list, output),
        RemoteCommand::Stat(stat) => files::stat(stat, output),
        RemoteCommand::Mkdir(make) => files::make(make, output),
        RemoteCommand::Rm(remove) => files::remove(remove, output),
        RemoteCommand::Get(get) => copy::get(get, output),
        RemoteCommand::Put(put) => copy::put(put, output),
        RemoteCommand::Cp(copy) => copy::copy(copy, output),
        RemoteCommand::Client(command) => client::run(command, output),
        RemoteCommand::Advise(advise) => advise::run(advise, output),
    }
}

/// A runtime for one command.
fn runtime() -> Result<Runtime, Error> {
    let built = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    built.map_err(|cause| Error::machine(format!("cannot start threads: {cause}"), "see what this machine lacks"))
}

/// Signs in to the server of a place.
async fn sign_in(place: &Place, login: &Login) -> Result<Session, Error> {
    sign_in_to(place.user.as_deref(), (&place.host, place.port), login).await
}

/// Signs in to a server, as the user that the command line names or else as this one.
async fn sign_in_to(user: Option<&str>, server: (&str, u16), login: &Login) -> Result<Session, Error> {
    let target = target(user, server, &login.who, password(&login.who)?)?;
    Session::connect(&target, settings(login)?, Arc::new(Tcp)).await.map_err(failed)
}

/// A server, and who signs in there: who the command line says, or else who is named with the place.
pub(crate) fn target(
    user: Option<&str>,
    (host, port): (&str, u16),
    who: &Who,
    password: String,
) -> Result<Target, Error> {
    let user = who.user.as_deref().or(user);
    let user =
        user.ok_or_else(|| Error::argument("nobody is named to sign in as", "use --user NAME, or smb://NAME@HOST"))?;
    Ok(Target { host: host.to_owned(), port, user: user.to_owned(), password })
}

/// What the settings of a command line come to.
fn settings(login: &Login) -> Result<Settings, Error> {
    let mut settings = Settings { seal: login.seal, ..Settings::default() };
    for setting in &login.set {
        setting.apply(&mut settings)?;
    }
    match login.channels {
        0 => {}
        count => settings.channels = Channels::Exactly(usize::from(count)),
    }
    Ok(settings)
}

/// The password as the command line or the environment has it.
pub(crate) fn password(who: &Who) -> Result<String, Error> {
    if who.password_stdin {
        return password::first_line();
    }
    match std::env::var("MULTILANE_PASSWORD") {
        Ok(password) => Ok(password),
        Err(_) => Err(Error::argument(
            "there is no password",
            "set MULTILANE_PASSWORD, or use --password-stdin and give it on standard input",
        )),
    }
}

impl Setting {
    fn apply(&self, settings: &mut Settings) -> Result<(), Error> {
        let count = || match self.value.parse::<usize>() {
            Ok(count @ 1..=64) => Ok(count),
            Ok(_) | Err(_) => Err(Error::argument(format!("{} is no {}", self.value, self.name), "use 1 to 64")),
        };
        match self.name.to_ascii_lowercase().as_str() {
            "connectioncountpernetworkinterface" => settings.connection_count_per_network_interface = count()?,
            "connectioncountperrssnetworkinterface" => settings.connection_count_per_rss_network_interface = count()?,
            "maximumconnectioncountperserver" => settings.maximum_connection_count_per_server = count()?,
            "enablemultichannel" => {
                settings.channels = if self.is_true()? { Channels::Automatic } else { Channels::Exactly(1) };
            }
            "requiresecuritysignature" => {
                settings.signing = if self.is_true()? { Signing::Required } else { Signing::AsServerWants };
            }
            "sessiontimeout" => settings.session_timeout = std::time::Duration::from_secs(count()? as u64),
            _ => {
                let remedy = "`multilane client configuration` lists those that there are";
                return Err(Error::argument(format!("there is no setting {}", self.name), remedy));
            }
        }
        Ok(())
    }

    fn is_true(&self) -> Result<bool, Error> {
        match self.value.to_ascii_lowercase().as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(Error::argument(format!("{} is neither True nor False", self.value), "use one of them")),
        }
    }
}

/// A client's error as the program reports it.
fn failed(error: ::client::Error) -> Error {
    let (what, remedy) = (error.to_string(), error.remedy());
    match error.status() {
        Some(Status::OBJECT_NAME_NOT_FOUND | Status::OBJECT_PATH_NOT_FOUND | Status::BAD_NETWORK_NAME) => {
            Error::missing(what, remedy)
        }
        Some(Status::OBJECT_NAME_COLLISION) => Error::conflict(what, remedy),
        Some(_) | None => Error::machine(what, remedy),
    }
}

/// True where somebody watches.
fn is_watched(output: Output) -> bool {
    output == Output::Text && std::io::stderr().is_terminal()
}
