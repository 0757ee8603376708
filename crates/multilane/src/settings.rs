//! `multilane server`: what the whole server has one of.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use control::{
    DataFolder, Error, Fault, Interface, Request, Setting, SettingView, StoredSettings, ask, kept_settings, views_of,
};
use serde::Serialize;
use server::admin::{Anonymous, OwnAddresses, Sealing, Signing};

use crate::arguments::{Serve, ServerCommand, SettingChange, When, WhereAnonymous};
use crate::audit;
use crate::data;
use crate::live;
use crate::options::{self, Told};
use crate::output::Output;
use crate::table::Table;

/// What a start would be made with, as `serve --check-config --json` prints it.
#[derive(Serialize)]
struct Checked {
    /// The settings file that was read.
    file: Option<PathBuf>,
    options: Vec<SettingView>,
}

pub(crate) fn run(path: &Path, command: &ServerCommand, output: Output) -> Result<(), Error> {
    match command {
        ServerCommand::Interfaces => {
            let interfaces: Vec<Interface> = live::answer(path, &Request::Interfaces)?;
            output.print(&interfaces, |interfaces| live::interface_table(interfaces))
        }
        ServerCommand::Settings => {
            let (folder, mut catalog) = data::open(path)?;
            let settings = match ask::<Vec<SettingView>>(&folder, &Request::Settings)? {
                Some(settings) => settings,
                None => {
                    // A program that asks for JSON takes what is said beside it for a complaint.
                    if output == Output::Text {
                        eprintln!("note: no server runs; a `multilane serve` that is started here would have these");
                    }
                    let kept = catalog.settings()?;
                    views_of(&options::of_next_start(path)?, Some(&kept))
                }
            };
            output.print(&settings, |settings| table(settings))
        }
        ServerCommand::Set { setting } => {
            let setting = kept(setting)?;
            let (folder, mut catalog) = data::open(path)?;
            catalog.set(&setting)?;
            let runs = data::reload(&folder)?.is_some();
            let now = Changed { setting: setting.name(), value: Some(setting.text()) };
            output.print(&now, |now| format!("{} is {}\n", now.setting, setting.text()))?;
            if runs && !setting.is_live() && output == Output::Text {
                eprintln!("note: {} counts when the server starts again", setting.name());
            }
            warn_of_other(path, setting.name(), "server set")
        }
        ServerCommand::Unset { name } => {
            let (folder, mut catalog) = data::open(path)?;
            catalog.unset(name)?;
            data::reload(&folder)?;
            output
                .print(&Changed { setting: name, value: None }, |now| format!("{} has its default\n", now.setting))?;
            warn_of_other(path, name, "default")
        }
    }
}

/// A setting that is kept from now on, as `--json` prints it; null where its default counts again.
#[derive(Serialize)]
struct Changed<'a> {
    setting: &'a str,
    value: Option<String>,
}

/// Says so where something else than what was changed counts in the running server.
fn warn_of_other(path: &Path, name: &str, expected: &str) -> Result<(), Error> {
    let (folder, _) = data::open(path)?;
    let settings = ask::<Vec<SettingView>>(&folder, &Request::Settings)?.unwrap_or_default();
    if let Some(other) = settings.iter().find(|setting| setting.name == name && setting.from != expected) {
        let value = other.value.as_deref().unwrap_or_default();
        eprintln!("warning: {name} stays {value} in the running server: {} says so, which counts first", other.from);
    }
    Ok(())
}

/// Reads what a start on the data folder `data` would read, and prints what would count. Nothing is made or changed.
pub(crate) fn check(data: &Path, serve: &Serve, told: &Told, output: Output) -> Result<(), Error> {
    let kept = match DataFolder::open(data) {
        Ok(folder) => kept_settings(&folder)?,
        // It is made by a first start.
        Err(error) if error.fault() == Fault::Missing => StoredSettings::of_new_catalog()?,
        Err(error) => return Err(error),
    };
    audit::look_at_place(serve)?;
    let options = views_of(&told.options, Some(&kept));
    output.print(&Checked { file: told.file.clone(), options }, |checked| {
        let file = checked.file.as_ref().map(|file| format!("settings file: {}\n", file.display()));
        file.unwrap_or_default() + &table(&checked.options)
    })
}

fn kept(change: &SettingChange) -> Result<Setting, Error> {
    Ok(match change {
        SettingChange::Signing { value } => Setting::Signing(signing(*value)),
        SettingChange::Sealing { value } => Setting::Sealing(sealing(*value)),
        SettingChange::DialectMin { value } => Setting::DialectMin(*value),
        SettingChange::ChannelsMax { value } => Setting::ChannelsMax(usize::from(*value)),
        SettingChange::BusyPoll { value } => Setting::BusyPoll(*value),
        SettingChange::Advertise { value } => Setting::Advertise(value.clone()),
        SettingChange::AdvertiseOnly { value } => Setting::OwnAddresses(own_addresses(value.is_on())),
        SettingChange::Anonymous { value } => Setting::Anonymous(anonymous(*value)),
        SettingChange::Listen { value } => Setting::Listen(value.clone()),
        SettingChange::LockAfter { value } => Setting::LockAfter(*value),
        SettingChange::LockFor { value } => Setting::LockFor(*value),
        SettingChange::PasswordLengthMin { value } => Setting::PasswordLengthMin(*value),
        SettingChange::Other(words) => return Err(not_kept(words)),
    })
}

/// Why an option cannot be set in a running server.
fn not_kept(words: &[OsString]) -> Error {
    let name = words.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let is_option = options::options_of(&options::command()).iter().any(|option| option.get_long() == Some(&name));
    match name.as_str() {
        "log" => Error::argument("log is not kept", "`multilane log level FILTER` changes it until the server ends"),
        _ if is_option => Error::argument(
            format!("{name} needs a restart"),
            format!("write `{name} = ...` into the settings file, and start the server again"),
        ),
        _ => Error::argument(format!("there is no setting {name}"), "`multilane server set --help` lists them"),
    }
}

pub(crate) fn own_addresses(only: bool) -> OwnAddresses {
    if only { OwnAddresses::LeftOut } else { OwnAddresses::Told }
}

pub(crate) fn anonymous(place: WhereAnonymous) -> Anonymous {
    match place {
        WhereAnonymous::Refused => Anonymous::Refused,
        WhereAnonymous::Reauthentication => Anonymous::Reauthentication,
    }
}

pub(crate) fn signing(when: When) -> Signing {
    match when {
        When::Required => Signing::Required,
        When::Enabled => Signing::Enabled,
    }
}

pub(crate) fn sealing(when: When) -> Sealing {
    match when {
        When::Required => Sealing::Required,
        When::Enabled => Sealing::Enabled,
    }
}

fn table(settings: &[SettingView]) -> String {
    let mut table = Table::new(["SETTING", "VALUE", "FROM", "CHANGED BY"]);
    for one in settings {
        let by = match (one.live, one.name.as_str()) {
            (true, "log") => "log level",
            (true, _) => "server set",
            (false, _) => "a restart",
        };
        let value = one.value.clone().unwrap_or_else(|| nothing(&one.name).to_owned());
        table.row([one.name.clone(), value, one.from.clone(), by.to_owned()]);
    }
    table.text()
}

/// What an option is called that has no value.
fn nothing(name: &str) -> &'static str {
    match name {
        "listen" if rustix::process::geteuid().is_root() => "port 445, or 4450 where that is taken",
        "listen" => "port 4450",
        "metrics" | "otlp" | "page" | "rest" => "nowhere",
        _ => "none",
    }
}
