//! QUERY_DIRECTORY (MS-SMB2 3.2.4.17).

use wire::Utf16;
use wire::codec::utf16_bytes;
use wire::command::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest, QueryDirectoryResponse};
use wire::fscc::FileClass;
use wire::fscc::directory;
use wire::ids::{Command, FileId};
use wire::status::Status;

use super::query_info::Facts;
use crate::error::Error;
use crate::open_state::OpenState;
use crate::perform::Ask;

/// What one request may bring.
const LISTING_BYTES: usize = 1 << 20;

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name.
    pub name: String,
    /// What has it.
    pub facts: Facts,
    /// The server's number for that; zero where it tells none.
    pub id: u64,
}

/// What fits the pattern, without `.` and `..`. A listing whose channel breaks begins anew: what the lost answer held would be missing.
pub(crate) async fn entries(open: &OpenState, pattern: &str) -> Result<Vec<Entry>, Error> {
    entries_among(open, pattern, |_| ()).await
}

/// The same, where `trim` takes out of what was told so far what nobody wants, each time that more was told.
pub(crate) async fn entries_among(
    open: &OpenState,
    pattern: &str,
    trim: impl Fn(&mut Vec<Entry>),
) -> Result<Vec<Entry>, Error> {
    let pattern = utf16_bytes(pattern);
    let losses = || open.tree.shared.state.lock().losses;
    loop {
        let before = losses();
        let mut entries = Vec::new();
        let mut flags = QueryDirectoryFlags::RESTART_SCANS;
        while page(open, &pattern, flags, &mut entries).await? {
            trim(&mut entries);
            flags = QueryDirectoryFlags::NONE;
        }
        if losses() == before {
            return Ok(entries);
        }
    }
}

/// Asks for the next entries; false where there are no more.
async fn page(
    open: &OpenState,
    pattern: &[u8],
    flags: QueryDirectoryFlags,
    entries: &mut Vec<Entry>,
) -> Result<bool, Error> {
    let bytes = {
        let state = open.tree.shared.state.lock();
        let transact = state.identity.as_ref().map_or(0, |identity| identity.terms.transact_bytes_max as usize);
        LISTING_BYTES.min(transact)
    };
    let body = |out: &mut Vec<u8>, file_id: FileId| {
        let request = QueryDirectoryRequest {
            class: FileClass::ID_FULL_DIRECTORY,
            flags,
            file_id,
            pattern: Utf16::new(pattern).unwrap_or_default(),
            output_buffer_length: bytes as u32,
            ..QueryDirectoryRequest::default()
        };
        request.encode(out);
    };
    let ask = Ask { bytes, ..Ask::of(open, Command::QUERY_DIRECTORY, &body) };
    let answer = open.tree.shared.perform(&ask).await?;
    if matches!(answer.status(), Status::NO_MORE_FILES | Status::NO_SUCH_FILE) {
        return Ok(false);
    }
    let answer = answer.expect(&[Status::SUCCESS], || format!("list {}", open.path))?;
    let listing = QueryDirectoryResponse::decode(answer.message())?;
    for entry in directory::entries(FileClass::ID_FULL_DIRECTORY, listing.output) {
        let entry = entry?;
        let name = entry.name.decode().ok_or(Error::Malformed("a name that is no text"))?;
        if is_sound(&name) {
            let facts = Facts {
                created: entry.creation,
                accessed: entry.access,
                written: entry.write,
                changed: entry.change,
                end_of_file: entry.end_of_file,
                allocation: entry.allocation,
                attributes: entry.attributes,
            };
            entries.push(Entry { name, facts, id: entry.file_id });
        }
    }
    Ok(true)
}

/// A name that leads nowhere else: a server must not choose where a copy of its tree goes.
fn is_sound(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\\', '\0'])
}
