//! List Directories and Files.

use std::sync::Arc;
use std::time::Duration;

use client::{Access, Entry, FileAttributes, OpenOptions, Security, Tree};
use futures_util::StreamExt;
use futures_util::stream;
use serde::Serialize;

use super::opening::{Place, closing, of_directory, open};
use super::permission::TOLD;
use super::{Ask, Files, Making, Service, running};
use crate::answer::{Answer, attributes, etag, http_date, precise, timestamp, xml};
use crate::failure::{Code, Failure};

/// Entries of one answer, at most.
const ENTRIES_MAX: usize = 5000;
/// Listings that are made at a time, and how long others wait for their turn.
pub(super) const AT_ONCE: usize = 16;
const TURN_WITHIN: Duration = Duration::from_secs(20);
/// How many times the entries that are wanted are held at most, beside what the file server has just told.
const HELD_FACTOR: usize = 2;
/// Files whose permissions are asked for at a time.
const LOOKS_MAX: usize = 16;

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Listing<'a> {
    #[serde(rename = "@ServiceEndpoint")]
    endpoint: String,
    #[serde(rename = "@ShareName")]
    share: &'a str,
    #[serde(rename = "@ShareSnapshot", skip_serializing_if = "Option::is_none")]
    snapshot: Option<String>,
    #[serde(rename = "@DirectoryPath")]
    path: String,
    #[serde(rename = "@Encoded", skip_serializing_if = "Option::is_none")]
    is_path_encoded: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    marker: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<Text>,
    max_results: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    directory_id: Option<u64>,
    entries: Entries,
    next_marker: String,
}

#[derive(Serialize)]
struct Entries {
    #[serde(rename = "$value")]
    each: Vec<Listed>,
}

#[derive(Serialize)]
enum Listed {
    File(Item),
    Directory(Item),
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Item {
    #[serde(skip_serializing_if = "Option::is_none")]
    file_id: Option<u64>,
    name: Text,
    properties: Properties,
    #[serde(skip_serializing_if = "Option::is_none")]
    attributes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    permission_key: Option<String>,
}

/// A text that XML may be unable to have: then it is encoded as in a URL.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Text {
    #[serde(rename = "@Encoded", skip_serializing_if = "Option::is_none")]
    is_encoded: Option<bool>,
    #[serde(rename = "$text")]
    text: String,
}

impl Text {
    pub(super) fn new(text: &str) -> Self {
        if text.chars().all(is_xml) {
            return Text { is_encoded: None, text: text.to_owned() };
        }
        let set = percent_encoding::NON_ALPHANUMERIC;
        Text { is_encoded: Some(true), text: percent_encoding::utf8_percent_encode(text, set).to_string() }
    }
}

/// The characters that XML 1.0 can have (2.2), and that come out of it as they went in.
fn is_xml(character: char) -> bool {
    !character.is_control() && !matches!(character, '\u{FFFE}' | '\u{FFFF}')
}

#[derive(Serialize)]
struct Properties {
    #[serde(rename = "Content-Length", skip_serializing_if = "Option::is_none")]
    length: Option<u64>,
    #[serde(rename = "CreationTime", skip_serializing_if = "Option::is_none")]
    created: Option<String>,
    #[serde(rename = "LastAccessTime", skip_serializing_if = "Option::is_none")]
    accessed: Option<String>,
    #[serde(rename = "LastWriteTime", skip_serializing_if = "Option::is_none")]
    written: Option<String>,
    #[serde(rename = "ChangeTime", skip_serializing_if = "Option::is_none")]
    changed: Option<String>,
    #[serde(rename = "Last-Modified", skip_serializing_if = "Option::is_none")]
    modified: Option<String>,
    #[serde(rename = "Etag", skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
}

/// What is told of each entry besides its name, id and length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Included {
    times: bool,
    etag: bool,
    attributes: bool,
    permission_key: bool,
}

impl Included {
    /// What `include` asks for.
    fn of(ask: &Ask) -> Result<Self, Failure> {
        let mut included = Included::default();
        for name in ask.query.get("include").unwrap_or_default().split(',').filter(|name| !name.is_empty()) {
            match name.to_ascii_lowercase().as_str() {
                "timestamps" => included.times = true,
                "etag" => included.etag = true,
                "attributes" => included.attributes = true,
                "permissionkey" => included.permission_key = true,
                _ => {
                    let message =
                        format!("include has {name:?}; allowed: Timestamps, Etag, Attributes, PermissionKey.");
                    return Err(Failure::new(Code::InvalidQueryParameterValue, message));
                }
            }
        }
        Ok(included)
    }
}

/// List Directories and Files. A marker is the name to go on with, so that what comes and goes meanwhile moves nothing else.
pub(super) async fn list(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let most = ask.results_max(ENTRIES_MAX)?;
    let included = Included::of(ask)?;
    let (prefix, marker) = (ask.query.get("prefix"), ask.query.get("marker").filter(|marker| !marker.is_empty()));
    let from = marker.map(name_of_marker).transpose()?;
    let turn = service.files.turn_to_list().await?;
    let place = service.place(ask).await?;
    let wanted = |entry: &Entry| {
        prefix.is_none_or(|prefix| starts_with(&entry.name, prefix))
            && from.as_ref().is_none_or(|from| entry.name >= *from)
    };
    let mut entries = service.files.first_entries(&place, most + 1, wanted).await?;
    let next_marker = entries.get(most).map(|entry| marker_of_name(&entry.name)).unwrap_or_default();
    entries.truncate(most);
    let directory_id = place.tree.facts_and_id(&place.path).await?.1.map(|id| id.disk_file_id);
    let each = stream::iter(entries)
        .map(|entry| listed(service, &place, entry, included))
        .buffered(if included.permission_key { LOOKS_MAX } else { 1 })
        .collect()
        .await;
    let path = Text::new(&ask.target.names.join("/"));
    let mut answer = xml(
        "EnumerationResults",
        &Listing {
            endpoint: format!("{}/", ask.endpoint),
            share: &place.share_name,
            snapshot: ask.snapshot.map(|at| at.to_string()),
            path: path.text,
            is_path_encoded: path.is_encoded,
            marker: from.as_deref().map(marker_of_name),
            prefix: prefix.filter(|prefix| !prefix.is_empty()).map(Text::new),
            max_results: most,
            directory_id,
            entries: Entries { each },
            next_marker,
        },
    )?;
    answer.extensions_mut().insert(turn);
    Ok(answer)
}

impl Files {
    /// Waits for a turn: no more listings are made at a time than there are turns for, and no more of a share than leave some to others.
    async fn turn_to_list(&self) -> Result<Making, Failure> {
        let turn = self.listings.some_within(&running::share(), 1, TURN_WITHIN).await;
        let busy = "The server lists as many directories of the share as it may; try again.";
        let turn = turn.ok_or_else(|| Failure::new(Code::ServerBusy, busy))?;
        Ok(Making { _turn: Arc::new(turn) })
    }

    /// The first `most` entries of a directory that are wanted, by name. No more than some times as many are held.
    async fn first_entries(
        &self,
        place: &Place,
        most: usize,
        wanted: impl Fn(&Entry) -> bool,
    ) -> Result<Vec<Entry>, Failure> {
        let trim = |entries: &mut Vec<Entry>| {
            running::gets_on();
            entries.retain(|entry| wanted(entry));
            if entries.len() > HELD_FACTOR * most {
                first(entries, most);
            }
        };
        let directory = place.open(of_directory(Access::Read)).await?;
        let entries = directory.entries_among("*", trim).await;
        directory.close().await?;
        let mut entries = entries?;
        first(&mut entries, most);
        Ok(entries)
    }
}

/// Leaves the first ones by name.
fn first(entries: &mut Vec<Entry>, most: usize) {
    entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    entries.truncate(most);
}

/// A marker is the name in a form that XML and URLs have, whatever the name is.
fn marker_of_name(name: &str) -> String {
    percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC).to_string()
}

pub(super) fn name_of_marker(marker: &str) -> Result<String, Failure> {
    let wrong = |_| Failure::new(Code::InvalidContinuationToken, "The marker is none that this service has told.");
    percent_encoding::percent_decode_str(marker).decode_utf8().map(Into::into).map_err(wrong)
}

/// Names of files are the same in any case.
fn starts_with(name: &str, prefix: &str) -> bool {
    let mut rest = name.chars().flat_map(char::to_lowercase);
    prefix.chars().flat_map(char::to_lowercase).all(|wanted| rest.next() == Some(wanted))
}

async fn listed(service: &Service, place: &super::opening::Place, entry: Entry, included: Included) -> Listed {
    let Entry { name, facts, id } = entry;
    let is_directory = facts.is_directory();
    let permission_key = match included.permission_key {
        true => permission_key(service, &place.tree, place.share, &join(&place.path, &name)).await,
        false => None,
    };
    let time = |time| included.times.then(|| precise(time));
    let properties = Properties {
        length: (!is_directory).then_some(facts.end_of_file),
        created: time(facts.created),
        accessed: time(facts.accessed),
        written: time(facts.written),
        changed: time(facts.changed),
        modified: included.times.then(|| http_date(timestamp(facts.changed))),
        etag: included.etag.then(|| etag(&facts)),
    };
    let item = Item {
        file_id: Some(id).filter(|id| *id != 0),
        name: Text::new(&name),
        properties,
        attributes: included.attributes.then(|| attributes(facts.attributes)),
        permission_key,
    };
    if is_directory { Listed::Directory(item) } else { Listed::File(item) }
}

/// One that is gone meanwhile, or cannot be looked at, has none.
async fn permission_key(service: &Service, tree: &Tree, share: i64, path: &str) -> Option<String> {
    let options = OpenOptions {
        access: Access::Attributes,
        security: Security::Read,
        link_itself: true,
        attributes: FileAttributes::NONE,
        ..OpenOptions::default()
    };
    let file = open(tree, path, options).await.ok()?;
    let (descriptor, _) = closing(file, async |file| Ok(file.descriptor(TOLD).await?)).await.ok()?;
    service.files.permissions.remember(share, &descriptor)
}

fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}\\{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_xml_cannot_have_is_encoded() {
        assert_eq!(Text::new("a <b> & ü"), Text { is_encoded: None, text: "a <b> & ü".into() });
        assert_eq!(Text::new("a\u{1}b").text, "a%01b");
        assert_eq!(Text::new("\u{FFFF}").is_encoded, Some(true));
        #[derive(Serialize)]
        struct Holder {
            #[serde(rename = "Name")]
            name: Text,
        }
        let written = quick_xml::se::to_string_with_root("E", &Holder { name: Text::new("a\n") }).unwrap();
        assert_eq!(written, "<E><Name Encoded=\"true\">a%0A</Name></E>");
    }

    #[test]
    fn markers_are_names_in_a_form_that_any_text_can_have() {
        for name in ["plain", "ü %\u{1}&", " a"] {
            let marker = marker_of_name(name);
            assert!(marker.is_ascii() && !marker.contains(['&', ' ']));
            assert_eq!(name_of_marker(&marker), Ok(name.to_owned()));
        }
        assert!(name_of_marker("%ff").is_err());
    }
}
