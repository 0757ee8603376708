//! Reading the settings file again, while the server runs.

use control::{Control, LogFilter, ServeOption};
use parking_lot::Mutex;
use tracing::{error, warn};

use super::{Told, read};
use crate::log::Log;
use crate::serve::overrides;

/// Has what the settings file says now count, as far as a running server can: the others wait for a restart, and the log says which. Where the
/// file makes no sense, what it said before stays in effect.
pub(crate) fn again(started_with: &Told, control: &Mutex<Control>, log: &Log) {
    let told = match read() {
        Ok(told) => told,
        Err(stopped) => {
            let cause = control::Error::from(stopped);
            error!(name: "settings_not_read", error = %cause, "the settings file was not read again: what it said before stays in effect");
            return;
        }
    };
    let Some(serve) = told.serve() else { return };
    let before = control.lock().settings();
    let live = |name: &str| before.iter().any(|setting| setting.name == name && setting.live);
    let waiting = differences(&started_with.options, &told.options).filter(|name| !live(name)).collect::<Vec<_>>();
    if !waiting.is_empty() {
        let what = waiting.join(", ");
        warn!(name: "settings_need_restart", what, "the settings file says something else than the server was started with: that counts when it starts again");
    }
    let mut overrides = overrides(serve, &told);
    // People see what counts.
    for option in overrides.options.iter_mut().filter(|option| waiting.contains(&option.name.as_str())) {
        if let Some(known) = started_with.options.iter().find(|known| known.name == option.name) {
            option.clone_from(known);
        }
    }
    let log_was = before.iter().find(|setting| setting.name == "log").and_then(|setting| setting.value.clone());
    let filter = serve.log.to_string();
    control.lock().override_with(overrides);
    if log_was.as_ref() != Some(&filter)
        && let Err(cause) = log.levels().set(&filter)
    {
        error!(name: "settings_not_read", error = %cause, "the log stays as it was");
    }
}

/// The names of options that are not the same.
fn differences<'a>(before: &'a [ServeOption], now: &'a [ServeOption]) -> impl Iterator<Item = &'a str> {
    let is_same = |one: &ServeOption| before.iter().any(|known| says_the_same(known, one));
    now.iter().filter(move |one| !is_same(one)).map(|one| one.name.as_str())
}

/// What nobody names is as the machine is, and that changes by itself.
fn says_the_same(one: &ServeOption, other: &ServeOption) -> bool {
    let is_nobodys = one.from.is_none() && other.from.is_none();
    one.name == other.name && (one.value == other.value || is_nobodys)
}
