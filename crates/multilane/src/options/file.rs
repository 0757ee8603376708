//! The settings file of `serve` (TOML): an option a line, by its name on the command line.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, Command};
use control::Error;
use rustix::fs::OFlags;
use toml::{Spanned, Value};

const NAME: &str = "multilane.toml";
/// The settings of the service that a package installs, and the data folder that it serves.
const OF_SERVICE: (&str, &str) = ("/etc/multilane/multilane.toml", "/var/lib/multilane");
/// Many times what all options take.
const BYTES_MAX: u64 = 256 << 10;
/// Whoever may write to it decides who must sign and encrypt.
const WRITABLE_BY_ALL: u32 = 0o002;

/// A settings file that makes sense.
pub(super) struct SettingsFile {
    pub(super) path: PathBuf,
    pub(super) entries: Vec<Entry>,
}

/// An option in it.
pub(super) struct Entry {
    /// What the command line's parser calls it.
    pub(super) id: String,
    /// Its values, as the command line would have them.
    pub(super) values: Vec<String>,
    /// The line it stands in, from 1.
    pub(super) line: usize,
}

/// Where the settings of a data folder are, if there are any.
/// What is there and cannot be looked at is read all the same, which says why that cannot be.
pub(super) fn default_place(data: &Path) -> Option<PathBuf> {
    let of_service = (data == Path::new(OF_SERVICE.1)).then(|| PathBuf::from(OF_SERVICE.0));
    let is_absent =
        |place: &PathBuf| fs::symlink_metadata(place).is_err_and(|cause| cause.kind() == ErrorKind::NotFound);
    of_service.into_iter().chain([data.join(NAME)]).find(|place| !is_absent(place))
}

impl SettingsFile {
    /// Reads the file at `place`, in which `options` may stand. `None` where there is no place.
    pub(super) fn read(place: Option<PathBuf>, options: &[Arg]) -> Result<Option<Self>, Error> {
        let Some(path) = place else { return Ok(None) };
        let text = text(&path)?;
        SettingsFile::parse(path, &text, options).map(Some)
    }

    pub(super) fn parse(path: PathBuf, text: &str, options: &[Arg]) -> Result<Self, Error> {
        let wrong = |span: Range<usize>, what: &str, remedy: &str| {
            let line = line_of(text, span.start);
            Error::argument(format!("{} line {line}: {what}", path.display()), remedy)
        };
        let lines: BTreeMap<Spanned<String>, Spanned<Value>> = toml::from_str(text).map_err(|cause| {
            let remedy = "write `option = value` a line, with texts in quotation marks, such as sealing = \"required\"";
            wrong(cause.span().unwrap_or_default(), &format!("this is no TOML: {}", cause.message()), remedy)
        })?;
        let mut entries = Vec::new();
        for (key, value) in &lines {
            let name = key.get_ref();
            let Some(option) = options.iter().find(|option| option.get_long() == Some(name)) else {
                let (what, remedy) = unknown(name, options);
                return Err(wrong(key.span(), &what, &remedy));
            };
            let values = values(option, value.get_ref())
                .and_then(|values| judge(option, &values).map(|()| values))
                .map_err(|(what, remedy)| wrong(value.span(), &format!("{name}: {what}"), &remedy))?;
            entries.push(Entry { id: option.get_id().to_string(), values, line: line_of(text, key.span().start) });
        }
        entries.sort_by_key(|entry| entry.line);
        Ok(SettingsFile { path, entries })
    }
}

fn text(path: &Path) -> Result<String, Error> {
    let unreadable = |cause: std::io::Error| {
        let what = format!("the settings file {} cannot be read: {cause}", path.display());
        Error::machine(what, "name a file that is there and may be read, or leave out --config")
    };
    // Not a pipe that nobody writes to.
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(unreadable)?;
    // Of what is open: its name may lead elsewhere by now.
    let found = file.metadata().map_err(unreadable)?;
    if found.mode() & WRITABLE_BY_ALL != 0 {
        let what = format!("everybody on this machine may write to the settings file {}", path.display());
        return Err(Error::machine(what, format!("take that away: chmod o-w {}", path.display())));
    }
    let own = rustix::process::geteuid().as_raw();
    if ![0, own].contains(&found.uid()) {
        let what = format!("the settings file {} belongs to user {}", path.display(), found.uid());
        return Err(Error::machine(
            what,
            format!("have it be root's, or the server's: chown {own} {}", path.display()),
        ));
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    let text = String::from_utf8(bytes).ok().filter(|text| text.len() as u64 <= BYTES_MAX);
    text.ok_or_else(|| {
        let what = format!("{} is no settings file: it is no text, or longer than 256 KiB", path.display());
        Error::argument(what, "name a file with a line for each option, such as sealing = \"required\"")
    })
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

/// What is wrong, and what to do.
type Wrong = (String, String);

fn unknown(name: &str, options: &[Arg]) -> Wrong {
    let names: Vec<&str> =
        options.iter().filter(|option| !option.is_hide_set()).filter_map(|option| option.get_long()).collect();
    let meant = name.to_ascii_lowercase().replace('_', "-");
    let remedy = match names.iter().find(|known| **known == meant) {
        Some(meant) => format!("it is spelled {meant}"),
        None => format!("use {}", names.join(", ")),
    };
    (format!("there is no option {name}"), remedy)
}

/// The values of an option as the command line would have them.
fn values(option: &Arg, value: &Value) -> Result<Vec<String>, Wrong> {
    match (option.get_action(), value) {
        (ArgAction::SetTrue, Value::Boolean(is_set)) => Ok(vec![is_set.to_string()]),
        (ArgAction::SetTrue, _) => Err((format!("{value} is neither true nor false"), "use true or false".to_owned())),
        (ArgAction::Append, Value::Array(items)) if !items.is_empty() => items.iter().map(one).collect(),
        (_, value) => Ok(vec![one(value)?]),
    }
}

fn one(value: &Value) -> Result<String, Wrong> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Table(_) => Err((
            "options stand in no section".to_owned(),
            "take the line in brackets out, and write the options by themselves".to_owned(),
        )),
        Value::Boolean(_) | Value::Float(_) | Value::Datetime(_) | Value::Array(_) => Err((
            format!("{value} is no value of this option"),
            "use a text in quotation marks, or a number".to_owned(),
        )),
    }
}

/// Has the command line's parser of the option read its values.
pub(super) fn judge(option: &Arg, values: &[String]) -> Result<(), Wrong> {
    let Some(long) = option.get_long() else { return Ok(()) };
    if matches!(option.get_action(), ArgAction::SetTrue) {
        return match values.iter().find(|value| !["true", "false"].contains(&value.as_str())) {
            Some(value) => Err((format!("{value:?} is neither true nor false"), "use true or false".to_owned())),
            None => Ok(()),
        };
    }
    let words = values.iter().map(|value| format!("--{long}={value}"));
    let parser = Command::new("serve").no_binary_name(true).arg(option.clone());
    parser.try_get_matches_from(words).map(drop).map_err(|error| what_is_wrong(&error))
}

fn what_is_wrong(error: &clap::Error) -> Wrong {
    if let Some(ours) = error.source().and_then(|source| source.downcast_ref::<Error>()) {
        return (ours.what().to_owned(), ours.remedy().to_owned());
    }
    let given = match error.get(ContextKind::InvalidValue) {
        Some(ContextValue::String(given)) => format!("{given:?} is not allowed"),
        Some(_) | None => "that is not allowed".to_owned(),
    };
    let allowed = match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(allowed)) => format!("use {}", allowed.join(" or ")),
        Some(_) | None => "`multilane serve --help` says what is".to_owned(),
    };
    match error.source() {
        Some(source) => (source.to_string(), allowed),
        None => (given, allowed),
    }
}
