//! DiskSpd's language from outside: whole reports of results made by hand, and profiles there and back.

mod profiles;
mod reports;

use load::diskspd::command_line::{self, Asked, Surroundings};
use load::engine::Failure;
use load::profile::Profile;

/// What a line asks for, where `-X` finds this document.
fn asked(line: &str, document: &str) -> Result<Asked, Vec<Failure>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let file = |_: &str| Ok(document.as_bytes().to_vec());
    command_line::read(&words, &Surroundings { file: &file, clock_seed: 1 })
}

/// The profile of a line that is right.
fn profile(line: &str, document: &str) -> Profile {
    match asked(line, document) {
        Ok(Asked::Run { profile, .. }) => *profile,
        other => panic!("{line}: {other:?}"),
    }
}
