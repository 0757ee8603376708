//! The options of `serve`: of the command line, the environment and the settings file, in that order. All three have the same names, and what
//! they say is read by the same parsers: those of the command line.

mod defaults;
mod file;
mod reloaded;

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory, FromArgMatches};
use control::{Error, ServeOption};

use self::file::{Entry, SettingsFile};
pub(crate) use self::reloaded::again;
use crate::arguments::{self, Arguments, Serve};
use crate::data;
use crate::rest;

const SERVE: &str = "serve";
/// What stands between the values of one variable.
const BETWEEN: char = ' ';
/// Options that say what a single start does, and stand in no file.
const OF_ONE_START: [&str; 2] = ["config", "check_config"];

/// What a start of the program was told.
pub(crate) struct Told {
    /// The whole command line.
    pub(crate) arguments: Arguments,
    /// The options of `serve` and where each comes from; none where another command is meant.
    pub(crate) options: Vec<ServeOption>,
    /// The settings file that was read.
    pub(crate) file: Option<PathBuf>,
}

/// Why there is nothing to do.
pub(crate) enum Stopped {
    /// The command line is wrong, or asks for help.
    CommandLine(clap::Error),
    /// Something else is wrong.
    Error(Error),
}

/// Reads what the program was started with.
pub(crate) fn read() -> Result<Told, Stopped> {
    read_from(env::args_os().collect())
}

/// True where the program was asked whether its options make sense: what is wrong then has one exit code, whatever it is.
pub(crate) fn are_checked() -> bool {
    env::args_os().skip(1).any(|word| word == "--check-config")
}

/// The options that a server would have which is started here, on the data folder `data`, without a word more.
pub(crate) fn of_next_start(data: &Path) -> Result<Vec<ServeOption>, Error> {
    let words = ["multilane".into(), SERVE.into(), "--data".into(), data.into()];
    read_from(words.to_vec()).map(|told| told.options).map_err(Error::from)
}

impl From<Stopped> for Error {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Error(error) => error,
            Stopped::CommandLine(error) => Error::argument(
                error.render().to_string().trim().to_owned(),
                "`multilane serve --help` has the options",
            ),
        }
    }
}

fn read_from(words: Vec<OsString>) -> Result<Told, Stopped> {
    let matches = Arguments::command().try_get_matches_from(words.clone()).map_err(Stopped::CommandLine)?;
    let Some((SERVE, of_serve)) = matches.subcommand() else {
        let arguments = Arguments::from_arg_matches(&matches).map_err(Stopped::CommandLine)?;
        return Ok(Told { arguments, options: Vec::new(), file: None });
    };
    let options = options_of(&Arguments::command());
    judge_environment(&options, of_serve).map_err(Stopped::Error)?;
    let file = settings_file(of_serve).and_then(|place| SettingsFile::read(place, &options)).map_err(Stopped::Error)?;
    let entries = file.as_ref().map_or(&[][..], |file| &file.entries);
    // What a default says counts less than the environment and the command line.
    let matches = with_defaults(command(), entries).try_get_matches_from(words).map_err(Stopped::CommandLine)?;
    let arguments = Arguments::from_arg_matches(&matches).map_err(Stopped::CommandLine)?;
    let Some((_, of_serve)) = matches.subcommand() else {
        return Err(Stopped::Error(Error::machine("`serve` is no command any more", "report this")));
    };
    // What is hidden is for tests: it is told where somebody has said something of it.
    let is_shown = |(option, told): &(&Arg, ServeOption)| !option.is_hide_set() || told.from.is_some();
    let told = options.iter().map(|option| (option, origin(option, of_serve, file.as_ref()))).filter(is_shown);
    let mut options: Vec<ServeOption> = told.map(|(_, told)| told).collect();
    check(&options).map_err(Stopped::Error)?;
    let data = data::path(arguments.data.as_deref()).map_err(Stopped::Error)?;
    options.iter_mut().for_each(|option| defaults::tell(option, &data));
    Ok(Told { arguments, options, file: file.map(|file| file.path) })
}

impl Told {
    /// True where somebody has named the option.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        is_named(&self.options, name)
    }

    /// The options of `serve`, where that is meant.
    pub(crate) fn serve(&self) -> Option<&Serve> {
        match &self.arguments.command {
            arguments::Command::Serve(serve) => Some(serve.as_ref()),
            _ => None,
        }
    }
}

fn is_named(options: &[ServeOption], name: &str) -> bool {
    options.iter().any(|option| option.name == name && option.from.is_some())
}

/// What no option can see by itself.
fn check(options: &[ServeOption]) -> Result<(), Error> {
    let value = |name| options.iter().find(|option| option.name == name).and_then(|option| option.value.as_deref());
    let wants = |name: &str, other: &str| {
        let of = options.iter().find(|option| option.name == name).and_then(|option| option.from.as_deref());
        let (what, remedy) = match of.unwrap_or_default() {
            "command line" => (
                format!("--{name} means nothing without --{other}"),
                format!("say --{other}, too, or leave --{name} out"),
            ),
            from => (
                format!("{name} ({from}) means nothing without {other}"),
                format!("say {other}, too, or leave {name} out"),
            ),
        };
        Err(Error::argument(what, remedy))
    };
    if value("advertise-only") == Some("true") && !is_named(options, "advertise") {
        return wants("advertise-only", "advertise");
    }
    for (one, other) in [("rest-certificate", "rest-key"), ("rest-key", "rest-certificate")] {
        if is_named(options, one) && !is_named(options, other) {
            return wants(one, other);
        }
    }
    let has_rest = is_named(options, "rest") || value("dev") == Some("true");
    if !has_rest && value("rest-tls") == Some("true") {
        return wants("rest-tls", "rest");
    }
    if !has_rest && is_named(options, "rest-certificate") {
        return wants("rest-certificate", "rest");
    }
    if !has_rest && is_named(options, "rest-group") {
        return wants("rest-group", "rest");
    }
    let encrypts = value("rest-tls") == Some("true") || is_named(options, "rest-certificate");
    if let Some(address) = value("rest").and_then(|place| rest::place(place).ok()) {
        rest::check_place(address, encrypts)?;
    }
    if is_named(options, "otlp-every") && !is_named(options, "otlp") {
        return wants("otlp-every", "otlp");
    }
    Ok(())
}

/// The command line, with what the environment says of options of `serve`.
pub(crate) fn command() -> Command {
    Arguments::command().mut_subcommand(SERVE, |serve| serve.mut_args(from_environment))
}

/// Takes an option from the environment where a variable for it has a value.
fn from_environment(option: Arg) -> Arg {
    let name = variable(option.get_id().as_str());
    if option.get_id() == "check_config" || in_environment(&name).is_none() {
        return option;
    }
    let takes_several = matches!(option.get_action(), ArgAction::Append);
    let option = option.env(name).hide_env(true);
    if takes_several { option.value_delimiter(BETWEEN) } else { option }
}

/// What a variable says, if anything.
fn in_environment(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// Refuses a variable whose value its option cannot have, by the variable's name. What the command line says counts first.
fn judge_environment(options: &[Arg], of_serve: &ArgMatches) -> Result<(), Error> {
    for option in options {
        let id = option.get_id().as_str();
        let name = variable(id);
        let Some(value) = in_environment(&name) else { continue };
        if of_serve.value_source(id) == Some(ValueSource::CommandLine) {
            continue;
        }
        let value = value.to_string_lossy();
        let values: Vec<String> = match option.get_action() {
            ArgAction::Append => value.split(BETWEEN).map(str::to_owned).collect(),
            _ => vec![value.into_owned()],
        };
        file::judge(option, &values).map_err(|(what, remedy)| Error::argument(format!("{name}: {what}"), remedy))?;
    }
    Ok(())
}

/// The variable of the environment that has an option, such as `MULTILANE_DIALECT_MIN`.
fn variable(id: &str) -> String {
    format!("MULTILANE_{}", id.to_ascii_uppercase())
}

/// The options that stand in a file.
pub(crate) fn options_of(command: &Command) -> Vec<Arg> {
    let serve = command.find_subcommand(SERVE);
    let options = serve.into_iter().flat_map(Command::get_arguments);
    options.filter(|option| !OF_ONE_START.contains(&option.get_id().as_str())).cloned().collect()
}

/// The file that the command line names, or the one that lies where it is looked for. A name counts whether there is a file or not.
fn settings_file(of_serve: &ArgMatches) -> Result<Option<PathBuf>, Error> {
    if let Some(named) = of_serve.get_one::<PathBuf>("config") {
        return Ok(Some(named.clone()));
    }
    if let Some(named) = in_environment(&variable("config")) {
        return Ok(Some(named.into()));
    }
    let named: Option<&PathBuf> = of_serve.get_one("data");
    Ok(file::default_place(&data::path(named.map(PathBuf::as_path))?))
}

fn with_defaults(command: Command, entries: &[Entry]) -> Command {
    command.mut_subcommand(SERVE, |serve| {
        entries.iter().fold(serve, |serve, entry| {
            serve.mut_arg(entry.id.clone(), |option| option.default_values(entry.values.iter().cloned()))
        })
    })
}

/// What an option is, and where that comes from.
fn origin(option: &Arg, of_serve: &ArgMatches, file: Option<&SettingsFile>) -> ServeOption {
    let id = option.get_id().as_str();
    let raw = of_serve.get_raw(id).map(|values| values.map(|value| value.to_string_lossy()).collect::<Vec<_>>());
    let in_file = file.and_then(|file| file.entries.iter().find(|entry| entry.id == id).map(|entry| (file, entry)));
    let from = match (of_serve.value_source(id), in_file) {
        (Some(ValueSource::CommandLine), _) => Some("command line".to_owned()),
        (Some(ValueSource::EnvVariable), _) => Some(variable(id)),
        (Some(_), Some((file, entry))) => Some(format!("{} line {}", file.path.display(), entry.line)),
        (Some(_), None) | (None, _) => None,
    };
    let name = option.get_long().unwrap_or(id).to_owned();
    ServeOption { name, value: raw.map(|values| values.join(" ")), from }
}

#[cfg(test)]
mod tests;
