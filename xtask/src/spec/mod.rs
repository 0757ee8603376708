//! Which section of MS-SMB2 3.3 and MS-FSA 2.1.5 is enforced where, tested where, or not served and why. The sections' names stand in
//! `sections.txt`, reasons in `not_served.txt`; everything else is read from the comments of the sources.

mod places;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::process::ExitCode;

use self::places::{Kind, Place, Section, gather};
use crate::run::{Tally, root};

/// Where the table is kept.
const DOCUMENT: &str = "docs/SPECIFICATION.md";
const SECTIONS: &str = include_str!("sections.txt");
const NOT_SERVED: &str = include_str!("not_served.txt");

/// One row of the table.
struct Row {
    section: Section,
    name: &'static str,
    enforced: Vec<String>,
    tested: Vec<String>,
    reason: Option<&'static str>,
}

/// Prints the places that enforce or test a section or one below it.
pub(crate) fn print_places(wanted: &str) -> ExitCode {
    let Some(wanted) = Section::parse(wanted) else {
        eprintln!("{wanted:?} is no section: give one such as 3.3.5.12 or \"MS-FSA 2.1.5.3\"");
        return ExitCode::from(2);
    };
    let places: Vec<Place> = gather(&root()).into_iter().filter(|place| place.section.is_within(&wanted)).collect();
    for Place { section, kind, path, line, text } in &places {
        let what = if *kind == Kind::Tested { "tests" } else { "enforces" };
        println!("{path}:{line}: {what} {section}: {text}");
    }
    if places.is_empty() {
        println!("nothing mentions {wanted}");
    }
    ExitCode::from(u8::from(places.is_empty()))
}

/// Prints the table, or writes it to where it is kept.
pub(crate) fn table(writes: bool) -> ExitCode {
    let rows = rows();
    let text = document(&rows);
    if !writes {
        print!("{text}");
    } else if let Err(error) = fs::write(root().join(DOCUMENT), text) {
        eprintln!("{DOCUMENT} could not be written: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::from(u8::from(!faults(&rows).is_empty()))
}

/// Fails where the kept table is another one, or a section is neither enforced nor said not to be served.
pub(crate) fn check() -> Tally {
    let rows = rows();
    let faults = faults(&rows);
    faults.iter().for_each(|fault| println!("{fault}"));
    let is_kept = fs::read_to_string(root().join(DOCUMENT)).is_ok_and(|kept| kept == document(&rows));
    if !is_kept {
        println!("{DOCUMENT} is not what the sources say: `cargo xtask spec --write` makes it");
    }
    Tally::of(is_kept) + Tally::of(faults.is_empty())
}

fn rows() -> Vec<Row> {
    let places = gather(&root());
    let reasons: Vec<(Section, &str)> = NOT_SERVED.lines().filter_map(reason).collect();
    SECTIONS.lines().filter_map(|line| row(line, &places, &reasons)).collect()
}

/// A line `MS-FSA 2.1.5.10.2: why`.
fn reason(line: &'static str) -> Option<(Section, &'static str)> {
    let (section, reason) = line.split_once(": ")?;
    Some((Section::parse(section)?, reason))
}

fn row(line: &'static str, places: &[Place], reasons: &[(Section, &'static str)]) -> Option<Row> {
    let mut words = line.splitn(3, ' ');
    let section = Section::parse(&format!("{} {}", words.next()?, words.next()?))?;
    let wanted = &section;
    let own = |kind| places.iter().filter(move |place| place.kind == kind && place.section == *wanted);
    let mut enforced = BTreeSet::new();
    let mut tested: BTreeSet<String> = own(Kind::Tested).map(|place| place.path.clone()).collect();
    for place in own(Kind::Enforced) {
        tested.extend(place.tests_beside(&root()));
        enforced.insert(place.path.clone());
    }
    let reason = reasons.iter().find(|(of, _)| *of == section).map(|(_, reason)| *reason);
    let name = words.next()?;
    Some(Row { section, name, enforced: enforced.into_iter().collect(), tested: tested.into_iter().collect(), reason })
}

/// What is wrong with the rows.
fn faults(rows: &[Row]) -> Vec<String> {
    let fault = |row: &Row| match (row.enforced.is_empty(), row.reason) {
        (true, None) => {
            Some(format!("{} {} is neither enforced anywhere nor in not_served.txt", row.section, row.name))
        }
        (false, Some(_)) => Some(format!("{} {} is enforced, and in not_served.txt", row.section, row.name)),
        (true, Some(_)) | (false, None) => None,
    };
    rows.iter().filter_map(fault).collect()
}

fn document(rows: &[Row]) -> String {
    let count = |is: fn(&Row) -> bool| rows.iter().filter(|row| is(row)).count();
    let (enforced, tested) = (count(|row| !row.enforced.is_empty()), count(|row| !row.tested.is_empty()));
    let mut text = format!(
        "# What of the specification is enforced where\n\nMade by `cargo xtask spec --write` from the sections that comments in the sources name; `cargo xtask spec 3.3.5.12` prints \
         the lines for one. Files are below\n`crates/server/src` unless they begin otherwise. Of {} sections {enforced} are enforced, {tested} of them with tests that name the section or stand beside \
         the file, and {} are not served.\n\n| section | | enforced in | tested in | not served, because |\n| --- | --- | --- | --- | --- |\n",
        rows.len(),
        count(|row| row.reason.is_some()),
    );
    for Row { section, name, enforced, tested, reason } in rows {
        let _ = writeln!(
            text,
            "| {section} | {name} | {} | {} | {} |",
            cell(enforced),
            cell(tested),
            reason.unwrap_or_default()
        );
    }
    text
}

fn cell(files: &[String]) -> String {
    let short = |file: &String| format!("`{}`", file.strip_prefix("crates/server/src/").unwrap_or(file));
    files.iter().map(short).collect::<Vec<_>>().join(", ")
}
