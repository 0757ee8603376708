//! Where a comparison's result goes: the terminal, and files.

use std::path::Path;
use std::{env, fs, io};

use control::Error;
use load::compare::metadata;
use serde::Serialize;

use super::arguments::Compare;
use super::{command, metadata_text, text};
use crate::output;

/// A result in the forms that users ask for; its JSON is what it serializes to.
pub(super) trait Shown: Serialize {
    /// For a terminal.
    fn text(&self) -> String;
    /// One HTML page with charts.
    fn page(&self) -> String;
    /// A section of a document; `command` repeats the comparison.
    fn markdown(&self, command: &str) -> String;
}

impl Shown for load::compare::Report {
    fn text(&self) -> String {
        text::of(self)
    }

    fn page(&self) -> String {
        load::compare::page(self)
    }

    fn markdown(&self, command: &str) -> String {
        load::compare::markdown(self, command)
    }
}

impl Shown for metadata::Report {
    fn text(&self) -> String {
        metadata_text::of(self)
    }

    fn page(&self) -> String {
        metadata::page(self)
    }

    fn markdown(&self, command: &str) -> String {
        metadata::markdown(self, command)
    }
}

/// Nobody should learn after an hour that the result cannot be written.
pub(super) fn check(arguments: &Compare) -> Result<(), Error> {
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

/// Writes all that was asked for, and prints the text unless standard output has something else.
pub(super) fn write(arguments: &Compare, report: &impl Shown) -> Result<(), Error> {
    if let Some(path) = &arguments.html {
        to(path, report.page().as_bytes())?;
    }
    if let Some(path) = &arguments.markdown {
        to(path, report.markdown(&command::line(env::args_os().skip(1))).as_bytes())?;
    }
    if let Some(path) = &arguments.json {
        to(path, &output::pretty(report)?)?;
    }
    if outputs(arguments).any(is_standard_output) { Ok(()) } else { output::write_all(report.text().as_bytes()) }
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

fn to(path: &Path, text: &[u8]) -> Result<(), Error> {
    if is_standard_output(path) {
        return output::write_all(text);
    }
    fs::write(path, text).map_err(|cause| not_written(path, &cause))
}
