//! Directories.

use client::{Access, Disposition, Entry, OpenOptions, Tree};
use hyper::StatusCode;
use serde::Serialize;

use super::{Ask, Service, accepted};
use crate::answer::{Answer, attributes, etag, http_date, of_facts, precise, timestamp, xml};
use crate::failure::{Code, Failure};

/// Entries of one answer, at most.
const ENTRIES_MAX: usize = 5000;

/// Create Directory.
pub(super) async fn create(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let tree = service.tree(ask).await?;
    let options = OpenOptions {
        access: Access::Attributes,
        disposition: Disposition::Create,
        directory: Some(true),
        ..OpenOptions::default()
    };
    let made = tree.open(&ask.target.path(), options).await?;
    let facts = made.facts();
    made.close().await?;
    Ok(of_facts(StatusCode::CREATED, &facts))
}

/// Get Directory Properties.
pub(super) async fn properties(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let tree = service.tree(ask).await?;
    let facts = tree.facts(&ask.target.path()).await?;
    if !facts.is_directory() {
        return Err(Failure::new(Code::ResourceTypeMismatch, "It is a file."));
    }
    Ok(of_facts(StatusCode::OK, &facts))
}

/// Delete Directory.
pub(super) async fn delete(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let tree = service.tree(ask).await?;
    remove(&tree, &ask.target.path(), true).await?;
    Ok(accepted())
}

/// Removes a directory, or a file, and nothing that is the other.
pub(super) async fn remove(tree: &Tree, path: &str, directory: bool) -> Result<(), Failure> {
    let options =
        OpenOptions { access: Access::Delete, directory: Some(directory), link_itself: true, ..OpenOptions::default() };
    let file = tree.open(path, options).await?;
    let removed = file.delete_on_close().await;
    let closed = file.close().await;
    Ok(removed.and(closed)?)
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Listing<'a> {
    #[serde(rename = "@ServiceEndpoint")]
    endpoint: String,
    #[serde(rename = "@ShareName")]
    share: &'a str,
    #[serde(rename = "@DirectoryPath")]
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    marker: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<&'a str>,
    max_results: usize,
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
    name: String,
    properties: Properties,
    attributes: String,
}

#[derive(Serialize)]
struct Properties {
    #[serde(rename = "Content-Length", skip_serializing_if = "Option::is_none")]
    length: Option<u64>,
    #[serde(rename = "CreationTime")]
    created: String,
    #[serde(rename = "LastAccessTime")]
    accessed: String,
    #[serde(rename = "LastWriteTime")]
    written: String,
    #[serde(rename = "ChangeTime")]
    changed: String,
    #[serde(rename = "Last-Modified")]
    modified: String,
    #[serde(rename = "Etag")]
    etag: String,
}

/// List Directories and Files.
pub(super) async fn list(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let most = ask.results_max(ENTRIES_MAX)?;
    let (prefix, marker) = (ask.query.get("prefix"), ask.query.get("marker").filter(|marker| !marker.is_empty()));
    let tree = service.tree(ask).await?;
    let mut entries = tree.entries(&ask.target.path()).await?;
    entries.retain(|entry| {
        prefix.is_none_or(|prefix| starts_with(&entry.name, prefix))
            && marker.is_none_or(|marker| entry.name.as_str() >= marker)
    });
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    let next_marker = if entries.len() > most { entries.swap_remove(most).name } else { String::new() };
    entries.truncate(most);
    xml(
        "EnumerationResults",
        &Listing {
            endpoint: format!("{}/", ask.endpoint),
            share: tree.share(),
            path: ask.target.names.join("/"),
            marker,
            prefix,
            max_results: most,
            entries: Entries { each: entries.into_iter().map(listed).collect() },
            next_marker,
        },
    )
}

/// Names of files are the same in any case.
fn starts_with(name: &str, prefix: &str) -> bool {
    let mut rest = name.chars().flat_map(char::to_lowercase);
    prefix.chars().flat_map(char::to_lowercase).all(|wanted| rest.next() == Some(wanted))
}

fn listed(entry: Entry) -> Listed {
    let Entry { name, facts, .. } = entry;
    let is_directory = facts.is_directory();
    let properties = Properties {
        length: (!is_directory).then_some(facts.end_of_file),
        created: precise(facts.created),
        accessed: precise(facts.accessed),
        written: precise(facts.written),
        changed: precise(facts.changed),
        modified: http_date(timestamp(facts.written)),
        etag: etag(&facts),
    };
    let item = Item { name, properties, attributes: attributes(facts.attributes) };
    if is_directory { Listed::Directory(item) } else { Listed::File(item) }
}
