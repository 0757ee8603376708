//! For tests: a server that was started as its users start one, and has said that it serves.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::place::Place;

/// A server on a free port of this machine, started with these words, too, and what it has said.
pub(crate) fn started(place: &Place, words: &[&str]) -> (Child, Value) {
    started_logging(place, words, Stdio::null())
}

/// The same, with its log.
#[allow(dead_code)]
pub(crate) fn started_logging(place: &Place, words: &[&str], log: Stdio) -> (Child, Value) {
    started_at(place, "127.0.0.1:0", words, log)
}

/// The same at an address.
pub(crate) fn started_at(place: &Place, address: &str, words: &[&str], log: Stdio) -> (Child, Value) {
    let mut command = place.command(&[&["serve", "--json", "--listen", address], words].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    (child, serde_json::from_str(&ready).unwrap())
}
