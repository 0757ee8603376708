//! List Handles and Force Close Handles: what SMB clients have open.

use std::collections::HashMap;

use client::{OnDiskId, access};
use control::By;
use hyper::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use server::admin::OpenView;

use super::listing::Text;
use super::opening::Place;
use super::{Ask, Service};
use crate::answer::{Answer, empty, http_date, set, xml};
use crate::failure::{Code, Failure};
use crate::head::RECURSIVE;

/// Handles of one answer, and those that one request closes, at most.
const HANDLES_MAX: usize = 1000;
/// The header that names one.
const ID: &str = "x-ms-handle-id";

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Listing {
    entries: Entries,
    next_marker: String,
}

#[derive(Serialize)]
struct Entries {
    #[serde(rename = "Handle")]
    each: Vec<Handle>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Handle {
    handle_id: u64,
    path: Text,
    file_id: u64,
    parent_id: u64,
    session_id: u64,
    client_ip: String,
    open_time: String,
    access_right_list: Rights,
}

#[derive(Serialize)]
struct Rights {
    #[serde(rename = "AccessRight")]
    each: Vec<&'static str>,
}

/// The handles of a file, or of a directory and perhaps all below it, from a marker on; and the marker of those that did not fit.
fn opens(service: &Service, ask: &Ask, place: &Place, most: usize) -> Result<(Vec<OpenView>, String), Failure> {
    let wrong = |_| Failure::new(Code::InvalidContinuationToken, "The marker is none that this service has told.");
    let marker = ask.query.get("marker").filter(|marker| !marker.is_empty());
    let from = marker.map(|text| text.parse::<u64>().map_err(wrong)).transpose()?.unwrap_or_default();
    let wanted = |open: &OpenView| {
        open.id >= from
            && ask.snapshot.is_none()
            && open.share == place.share_name
            && is_meant(&open.path, &place.path, ask.is_true(RECURSIVE))
    };
    // This interface's own opens are no client's.
    let own = place.tree.session_id();
    let mut found = service.operations.opens(|open| Some(open.session) != own && wanted(open));
    found.sort_unstable_by_key(|open| open.id);
    let next = found.get(most).map(|open| open.id.to_string()).unwrap_or_default();
    found.truncate(most);
    Ok((found, next))
}

/// Names of files are the same in any case.
fn is_meant(path: &str, place: &str, is_recursive: bool) -> bool {
    let lower = |text: &str| text.replace('/', "\\").to_lowercase();
    let (path, place) = (lower(path), lower(place));
    let path = path.split(':').next().unwrap_or_default();
    let is_below = || match place.is_empty() {
        true => true,
        false => path.strip_prefix(&*place).is_some_and(|rest| rest.starts_with('\\')),
    };
    path == place || is_recursive && is_below()
}

/// List Handles.
pub(super) async fn list(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let most = ask.results_max(HANDLES_MAX)?;
    let place = service.place(ask).await?;
    // What is not there has no handles, and is told so.
    place.tree.facts(&place.path).await?;
    let (found, next_marker) = opens(service, ask, &place, most)?;
    let peers = service.operations.peers();
    let mut ids = HashMap::new();
    let mut each = Vec::new();
    let now = Timestamp::now();
    for open in found {
        let path = open.path.replace('/', "\\");
        let above = path.rsplit_once('\\').map_or("", |(above, _)| above).to_owned();
        let file_id = number(&place, &mut ids, path.clone()).await;
        let parent_id = number(&place, &mut ids, above).await;
        let opened = now - SignedDuration::from_secs(i64::try_from(open.open_seconds).unwrap_or_default());
        each.push(Handle {
            handle_id: open.id,
            path: Text::new(&path.replace('\\', "/")),
            file_id,
            parent_id,
            session_id: open.session,
            client_ip: peers.get(&open.session).cloned().unwrap_or_default(),
            open_time: http_date(opened),
            access_right_list: Rights { each: rights(open.access) },
        });
    }
    xml("EnumerationResults", &Listing { entries: Entries { each }, next_marker })
}

/// The number of a file; zero where it is gone.
async fn number(place: &Place, known: &mut HashMap<String, u64>, path: String) -> u64 {
    if let Some(id) = known.get(&path) {
        return *id;
    }
    let looked = place.tree.facts_and_id(&path).await.ok();
    let id = looked.and_then(|(_, id)| id).map_or(0, |id: OnDiskId| id.disk_file_id);
    known.insert(path, id);
    id
}

fn rights(granted: u32) -> Vec<&'static str> {
    let rights = [
        (access::READ_DATA | access::EXECUTE, "Read"),
        (access::WRITE_DATA | access::APPEND_DATA, "Write"),
        (access::DELETE, "Delete"),
    ];
    rights.into_iter().filter(|(bits, _)| granted & bits != 0).map(|(_, name)| name).collect()
}

/// The handle that is meant, or none where all are (`*`).
pub(super) fn one_or_all(text: &str) -> Result<Option<u64>, Failure> {
    if text == "*" {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| Failure::header(ID, "the number of a handle, or *"))
}

/// Force Close Handles: one, or all.
pub(super) async fn close(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let id = ask.header(ID).ok_or_else(|| Failure::missing(ID))?;
    let wanted = one_or_all(id)?;
    let place = service.place(ask).await?;
    place.tree.facts(&place.path).await?;
    let most = if wanted.is_some() { usize::MAX } else { HANDLES_MAX };
    let (mut found, marker) = opens(service, ask, &place, most)?;
    found.retain(|open| wanted.is_none_or(|wanted| open.id == wanted));
    // One that its client has closed meanwhile is closed.
    let by = ask.requester(&service.catalog);
    found.iter().for_each(|open| drop(service.operations.close_open(By::Requester(&by), open.id)));
    let mut answer = empty(StatusCode::OK);
    if !marker.is_empty() {
        set(&mut answer, "x-ms-marker", &marker);
    }
    set(&mut answer, "x-ms-number-of-handles-closed", &found.len().to_string());
    set(&mut answer, "x-ms-number-of-handles-failed", "0");
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_of_a_name_or_of_all_below_it() {
        assert!(is_meant("a\\B", "A\\b", false));
        assert!(is_meant("a:stream", "a", false));
        assert!(!is_meant("a\\b", "a", false));
        assert!(is_meant("a\\b", "a", true));
        assert!(!is_meant("ab", "a", true));
        assert!(is_meant("a", "", true) && !is_meant("a", "", false));
    }

    #[test]
    fn rights_are_those_of_data_and_of_the_name() {
        assert_eq!(rights(access::FILE_ALL), ["Read", "Write", "Delete"]);
        assert_eq!(rights(access::FILE_GENERIC_READ), ["Read"]);
        assert!(rights(access::READ_ATTRIBUTES).is_empty());
    }
}
