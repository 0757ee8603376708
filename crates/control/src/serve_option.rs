//! The options of `serve` as people look at them: what each is, and who says so.

use serde::{Deserialize, Serialize};

use crate::StoredSettings;

/// What says so where a setting is kept in the catalog.
const BY_COMMAND: &str = "server set";
/// What says so where nobody has.
const BY_DEFAULT: &str = "default";
/// The option that another command changes while the server runs.
const LOG: &str = "log";

/// An option of `serve`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeOption {
    /// Its name, without the dashes.
    pub name: String,
    /// Its value as text, if it has one.
    pub value: Option<String>,
    /// Who has named it: the command line, a variable of the environment, a line of a file. `None` for nobody.
    pub from: Option<String>,
}

/// An option of `serve` and what it is now, as it crosses the admin socket and `--json` prints it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingView {
    /// Its name: `--NAME` on the command line, NAME in the file, and for some `server set NAME`.
    pub name: String,
    /// What it is, as text; `None` where it is nothing.
    pub value: Option<String>,
    /// Who says so, such as `command line`, `MULTILANE_SEALING`, `/etc/multilane/multilane.toml line 3`, `server set` or `default`.
    pub from: String,
    /// True for what `server set` changes in the running server; the others need a restart.
    pub live: bool,
}

impl ServeOption {
    /// What counts, where `kept` are the catalog's settings.
    pub fn view(&self, kept: Option<&StoredSettings>) -> SettingView {
        let kept = kept.and_then(|kept| kept.views().into_iter().find(|view| view.name == self.name));
        let live = self.name == LOG || kept.as_ref().is_some_and(|view| view.live);
        let name = self.name.clone();
        match (&self.from, kept) {
            (Some(from), _) => SettingView { name, value: self.value.clone(), from: from.clone(), live },
            (None, Some(kept)) => kept,
            (None, None) => SettingView { name, value: self.value.clone(), from: BY_DEFAULT.to_owned(), live },
        }
    }
}

/// What options of `serve` are, and behind them the settings that are kept and are no options.
pub fn views_of(options: &[ServeOption], kept: Option<&StoredSettings>) -> Vec<SettingView> {
    let of_options: Vec<SettingView> = options.iter().map(|option| option.view(kept)).collect();
    let is_other = |view: &SettingView| !options.iter().any(|option| option.name == view.name);
    let others = kept.map(StoredSettings::views).unwrap_or_default().into_iter().filter(is_other);
    of_options.into_iter().chain(others).collect()
}

impl StoredSettings {
    /// Those that somebody may set, as a server has them of which `serve` says nothing.
    pub fn views(&self) -> Vec<SettingView> {
        let view = |setting: crate::Setting| SettingView {
            name: setting.name().to_owned(),
            value: Some(setting.text()).filter(|text| !text.is_empty()),
            from: if self.kept.contains(&setting.name()) { BY_COMMAND } else { BY_DEFAULT }.to_owned(),
            live: setting.is_live(),
        };
        self.each().into_iter().map(view).collect()
    }
}

impl SettingView {
    /// Has the option of the log say what is logged `now`, which `multilane log level` changes.
    pub(crate) fn follow_log(&mut self, now: &str) {
        if self.name == LOG && self.value.as_deref() != Some(now) {
            self.value = Some(now.to_owned());
            self.from = "log level".to_owned();
        }
    }
}
