//! QUERY_DIRECTORY (MS-SMB2 3.3.5.18, MS-FSA 2.1.5.6.3).

#[cfg(test)]
mod tests;

use std::sync::Arc;

use store::{Kind, Metadata, Resolved, Store, Use};
use wire::command::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest, QueryDirectoryResponse};
use wire::fscc::directory::{DirectoryWriter, Entry, fixed_length};
use wire::fscc::pattern::has_wildcards;
use wire::fscc::{FileAttributes, FileClass};
use wire::ids::FileTime;
use wire::security::access;
use wire::status::Status;

use crate::access::check_node;
use crate::attributes;
use crate::context::{Context, Outcome, Reply};
use crate::enumeration::{Enumeration, Listed};
use crate::open::{FileOpen, Open};
use crate::refusal::Refusal;

/// The most bytes of entries in one answer, whatever the client takes: a shard or a thread of the pool is held up no longer than these
/// take.
const LISTING_BYTES_MAX: usize = 256 << 10;
/// Bytes of a response's body before its entries.
const BODY_BYTES: usize = 8;

pub(crate) async fn handle(context: &Context, request: QueryDirectoryRequest<'_>) -> Outcome {
    let (open, file) = context.file()?;
    if file.kind != Kind::Directory {
        return Err(Status::INVALID_PARAMETER.into());
    }
    if request.output_buffer_length > context.connection.negotiation.borrow().payload_bytes_max() {
        return Err(Status::INVALID_PARAMETER.into());
    }
    open.require(access::READ_DATA)?;
    let least_bytes = fixed_length(request.class).ok_or(Status::INVALID_INFO_CLASS)?;
    let query = Query {
        open: Arc::clone(open),
        store: Arc::clone(context.store()?),
        class: request.class,
        flags: request.flags,
        pattern: request.pattern.decode().ok_or(Status::OBJECT_NAME_INVALID)?,
        room_bytes: (request.output_buffer_length as usize).min(LISTING_BYTES_MAX),
    };
    if query.room_bytes < least_bytes {
        return Err(Status::INFO_LENGTH_MISMATCH.into());
    }
    if query.is_short()
        && let Some(mut place) = file.enumeration.try_lock()
    {
        return query.answer(file, &mut place);
    }
    context
        .on_pool(move || {
            let file = query.open.file()?;
            // Requests on one open are answered one after the other.
            query.answer(file, &mut file.enumeration.lock())
        })
        .await?
}

/// One request, ready to be answered where the store may be waited for.
struct Query {
    open: Arc<Open>,
    store: Arc<dyn Store>,
    class: FileClass,
    flags: QueryDirectoryFlags,
    pattern: String,
    room_bytes: usize,
}

impl Query {
    /// True where the store never waits and no directory has to be read: the scan goes on, or looks for one name.
    fn is_short(&self) -> bool {
        let anew = self.flags.intersects(QueryDirectoryFlags::REOPEN | QueryDirectoryFlags::RESTART_SCANS);
        let goes_on = || {
            let file = self.open.file().ok();
            file.and_then(|file| file.enumeration.try_lock()).is_some_and(|place| place.is_some())
        };
        let one_name = !self.pattern.is_empty() && !has_wildcards(&self.pattern);
        self.store.facts().never_blocks && (one_name || (!anew && goes_on()))
    }

    fn answer(&self, file: &FileOpen, place: &mut Option<Enumeration>) -> Outcome {
        if self.flags.contains(QueryDirectoryFlags::REOPEN) {
            *place = None;
        }
        let first = place.is_none();
        let scan = match place.take() {
            Some(scan) if !self.flags.contains(QueryDirectoryFlags::RESTART_SCANS) => scan,
            Some(scan) if self.pattern.is_empty() => Enumeration::start(&*self.store, file, scan.pattern())?,
            Some(_) | None => Enumeration::start(&*self.store, file, &self.pattern)?,
        };
        let scan = place.insert(scan);
        match self.fill(file, scan)? {
            Some(reply) => Ok(reply),
            None if first => Err(Status::NO_SUCH_FILE.into()),
            None => Err(Status::NO_MORE_FILES.into()),
        }
    }

    /// As many entries as there is room for; `None` where none is left.
    fn fill(&self, file: &FileOpen, scan: &mut Enumeration) -> Result<Option<Reply>, Refusal> {
        let single = self.flags.contains(QueryDirectoryFlags::RETURN_SINGLE_ENTRY);
        let mut body = vec![0; BODY_BYTES];
        let mut writer = self.writer(&mut body, self.room_bytes)?;
        while let Some(listed) = scan.next(&*self.store, file)? {
            let known = self.metadata(file, listed).filter(|_| self.may_be_seen(file, listed));
            let Some(known) = known else {
                scan.advance();
                continue;
            };
            let entry = entry(listed.name(), known.as_ref());
            if !writer.push(&entry) {
                if writer.is_empty() {
                    return self.cut(&entry).map(Some);
                }
                break;
            }
            scan.advance();
            if single {
                break;
            }
        }
        let empty = writer.is_empty();
        Ok((!empty).then(|| reply(Status::SUCCESS, body)))
    }

    /// The one entry for which there is no room: all but the end of its name. It is still the next one.
    fn cut(&self, entry: &Entry<&str>) -> Outcome {
        let mut body = vec![0; BODY_BYTES];
        self.writer(&mut body, usize::MAX)?.push(entry);
        body.truncate(BODY_BYTES + self.room_bytes);
        Ok(reply(Status::BUFFER_OVERFLOW, body))
    }

    fn writer<'a>(&self, body: &'a mut Vec<u8>, room_bytes: usize) -> Result<DirectoryWriter<'a>, Status> {
        DirectoryWriter::new(self.class, body, room_bytes).ok_or(Status::INVALID_INFO_CLASS)
    }

    /// False for what access-based enumeration leaves out: what the reader was not granted GENERIC_READ to.
    fn may_be_seen(&self, file: &FileOpen, listed: &Listed) -> bool {
        let Listed::Name(name) = listed else { return true };
        if !self.open.tree.lists_by_access() || self.open.user.has_full_control() {
            return true;
        }
        let path = file.path.lock().join(name);
        match self.store.resolve(&path, Use::Metadata) {
            Ok(Resolved::Found { node, .. }) => check_node(&self.open.user, &*node, access::FILE_GENERIC_READ).is_ok(),
            Ok(Resolved::Missing { .. }) | Err(_) => false,
        }
    }

    /// What the class needs to know of a name: for names alone nothing. `None`: it has gone.
    fn metadata(&self, file: &FileOpen, listed: &Listed) -> Option<Option<Metadata>> {
        if self.class == FileClass::NAMES {
            return Some(None);
        }
        listed.metadata(&*self.store, file).map(Some)
    }
}

fn entry<'a>(name: &'a str, known: Option<&Metadata>) -> Entry<&'a str> {
    let Some(known) = known else { return Entry { name, ..Entry::default() } };
    Entry {
        name,
        file_index: 0,
        creation: FileTime(known.creation.0),
        access: FileTime(known.access.0),
        write: FileTime(known.write.0),
        change: FileTime(known.change.0),
        end_of_file: known.length,
        allocation: known.allocated,
        attributes: FileAttributes(attributes::on_the_wire(known)),
        ea_size: 0,
        reparse_tag: 0,
        file_id: known.identity.file,
        short_name: "",
    }
}

fn reply(status: Status, mut body: Vec<u8>) -> Reply {
    let output_bytes = (body.len() - BODY_BYTES) as u32;
    body[..BODY_BYTES].copy_from_slice(&QueryDirectoryResponse::to_bytes(output_bytes));
    Reply::with_status(status, body)
}
