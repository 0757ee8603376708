//! `multilane server`: what the whole server has one of.

use std::path::Path;

use control::{Error, Interface, Request, StoredSettings};
use serde::Serialize;
use server::admin::{Sealing, Signing};

use crate::arguments::{ServerCommand, SettingChange, When};
use crate::data;
use crate::live;
use crate::output::Output;
use crate::table::Table;

/// The settings as `--json` prints them.
#[derive(Serialize)]
struct Shown {
    signing: &'static str,
    sealing: &'static str,
    dialect_min: String,
    channels_max: usize,
    busy_poll: String,
}

pub(crate) fn run(path: &Path, command: &ServerCommand, output: Output) -> Result<(), Error> {
    match command {
        ServerCommand::Interfaces => {
            let interfaces: Vec<Interface> = live::answer(path, &Request::Interfaces)?;
            output.print(&interfaces, |interfaces| live::interface_table(interfaces))
        }
        ServerCommand::Settings => {
            let (_, mut catalog) = data::open(path)?;
            output.print(&shown(&catalog.settings()?), table)
        }
        ServerCommand::Set { setting } => {
            let (folder, mut catalog) = data::open(path)?;
            let settings = catalog.change_settings(|settings| change(settings, setting))?;
            let runs = data::reload(&folder)?.is_some();
            output.print(&shown(&settings), table)?;
            // A program that asks for JSON takes what is said beside it for a complaint.
            if runs && output == Output::Text {
                eprintln!(
                    "note: what the command line of the running `multilane serve` says of a setting counts before this"
                );
            }
            Ok(())
        }
    }
}

fn change(settings: &mut StoredSettings, setting: &SettingChange) {
    match setting {
        SettingChange::Signing { value } => settings.signing = signing(*value),
        SettingChange::Sealing { value } => settings.sealing = sealing(*value),
        SettingChange::DialectMin { value } => settings.dialect_min = *value,
        SettingChange::ChannelsMax { value } => settings.channels_max = usize::from(*value),
        SettingChange::BusyPoll { value } => settings.busy_poll = *value,
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

fn shown(settings: &StoredSettings) -> Shown {
    Shown {
        signing: if settings.signing == Signing::Required { "required" } else { "enabled" },
        sealing: if settings.sealing == Sealing::Required { "required" } else { "enabled" },
        dialect_min: settings.dialect_min.to_string(),
        channels_max: settings.channels_max,
        busy_poll: settings.busy_poll.to_string(),
    }
}

fn table(shown: &Shown) -> String {
    let mut table = Table::new(["SETTING", "VALUE"]);
    let rows = [
        ("signing", shown.signing.to_owned()),
        ("sealing", shown.sealing.to_owned()),
        ("dialect-min", shown.dialect_min.clone()),
        ("channels-max", shown.channels_max.to_string()),
        ("busy-poll", shown.busy_poll.clone()),
    ];
    for (name, value) in rows {
        table.row([name.to_owned(), value]);
    }
    table.text()
}
