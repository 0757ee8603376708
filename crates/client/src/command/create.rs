//! CREATE (MS-SMB2 3.2.4.3), its replay, and the taking up of an open that was kept (3.2.4.4).

use wire::Utf16;
use wire::codec::utf16_bytes;
use wire::command::close::CloseRequest;
use wire::command::create::{CreateOptions, CreateRequest, CreateResponse, ImpersonationLevel, OplockLevel};
use wire::context::create::{
    CreateContextsBuilder, DurableReconnectV2, DurableRequestV2, Lease, LeaseState, LeaseV2, OnDiskId, name,
};
use wire::fscc::FileAttributes;
use wire::ids::{Command, FileId, Guid};
use wire::status::Status;

use super::query_info::Facts;
use crate::error::Error;
use crate::handshake::random_bytes;
use crate::mark::Mark;
use crate::message::{Answer, Related};
use crate::open_state::OpenState;
use crate::options::{Access, Disposition, OpenOptions};
use crate::perform::{Again, Ask, Failed};
use crate::tree_state::TreeState;
use crate::ways::Way;

/// How many sessions one after the other may be lost with the answer to one CREATE.
const SESSIONS_MAX: usize = 8;

/// What a CREATE gave.
pub(crate) struct Created {
    pub(crate) id: FileId,
    pub(crate) is_durable: bool,
    pub(crate) facts: Facts,
    /// The server's number for the file, where it was asked for and the server has one.
    pub(crate) disk_id: Option<OnDiskId>,
}

/// Opens what `open` says.
pub(crate) async fn create(open: &mut OpenState) -> Result<Created, Error> {
    let mut answer = ask(open).await?;
    for _ in 0..SESSIONS_MAX {
        if answer.status() != Status::DUPLICATE_OBJECTID {
            break;
        }
        // The one before it was done in a session that is gone, and its answer with it. It is no longer ours to take up. But the name
        // that it was to make is ours.
        open.create_guid = Guid(random_bytes()?);
        open.lease_key = Guid(random_bytes()?);
        if open.options.disposition == Disposition::Create {
            open.options.disposition = Disposition::OpenOrCreate;
        }
        answer = ask(open).await?;
    }
    let answer = answer.expect(&[Status::SUCCESS], || doing(open))?;
    created(&CreateResponse::decode(answer.message())?)
}

async fn ask(open: &OpenState) -> Result<Answer, Error> {
    let contexts = contexts(open, |contexts| {
        if is_told_apart(&open.options) {
            let request = DurableRequestV2 { create_guid: open.create_guid, ..DurableRequestV2::default() };
            contexts.add(name::DURABLE_HANDLE_REQUEST_V2, &request.to_bytes());
        }
    });
    let path = utf16_bytes(&open.path);
    let body = |out: &mut Vec<u8>, _: FileId| request(open, &path, &contexts).encode(out);
    let again = if is_told_apart(&open.options) { Again::Replayed } else { Again::Anew };
    let ask = Ask { command: Command::CREATE, tree: Some(&open.tree), again, ..Ask::of_session(&body) };
    open.tree.shared.perform(&ask).await
}

/// What a name stands for, a symbolic link for itself, with the server's number for it where `wants_id`: CREATE and CLOSE in one frame, so that nothing
/// stays open whatever happens to the answer.
pub(crate) async fn look(
    (tree, mark): (&TreeState, Option<Mark>),
    path: &str,
    wants_id: bool,
) -> Result<(Facts, Option<OnDiskId>), Error> {
    let path_bytes = utf16_bytes(path);
    let mut contexts = CreateContextsBuilder::new();
    mark.iter().for_each(|mark| mark.add_to(&mut contexts));
    if wants_id {
        contexts.add(name::QUERY_ON_DISK_ID, &[]);
    }
    let options = OpenOptions { access: Access::Attributes, ..OpenOptions::default() };
    let body = |out: &mut Vec<u8>, _: FileId| {
        let request = CreateRequest {
            impersonation_level: ImpersonationLevel::IMPERSONATION.0,
            desired_access: options.access_mask().into(),
            share_access: options.share_access(),
            disposition: options.create_disposition(),
            options: CreateOptions::OPEN_REPARSE_POINT,
            name: Utf16::new(&path_bytes).unwrap_or_default(),
            contexts: contexts.contexts(),
            ..CreateRequest::default()
        };
        request.encode(out);
    };
    let close = Related {
        command: Command::CLOSE,
        body: |out| CloseRequest { file_id: FileId::ANY, ..CloseRequest::default() }.encode(out),
    };
    let related = Some(close);
    let ask = Ask { command: Command::CREATE, tree: Some(tree), related, ..Ask::of_session(&body) };
    let answer = tree.shared.perform(&ask).await?;
    let answer = answer.expect(&[Status::SUCCESS], || format!("open {}", if path.is_empty() { r"\" } else { path }))?;
    let created = created(&CreateResponse::decode(answer.message())?)?;
    Ok((created.facts, created.disk_id))
}

/// Takes up an open in a new session; `None` where the server has not kept it.
pub(crate) async fn take_up(open: &OpenState, way: &Way, seal: bool, file_id: FileId) -> Result<Option<FileId>, Error> {
    let contexts = contexts(open, |contexts| {
        let request = DurableReconnectV2 { file_id, create_guid: open.create_guid, ..DurableReconnectV2::default() };
        contexts.add(name::DURABLE_HANDLE_RECONNECT_V2, &request.to_bytes());
    });
    let path = utf16_bytes(&open.name());
    let body = |out: &mut Vec<u8>, _: FileId| request(open, &path, &contexts).encode(out);
    let ask = Ask { command: Command::CREATE, tree: Some(&open.tree), ..Ask::of_session(&body) };
    let answer = way.ask(&ask, seal, false).await.map_err(Failed::into_error)?;
    match answer.status() {
        Status::SUCCESS => Ok(Some(CreateResponse::decode(answer.message())?.file_id)),
        _ => Ok(None),
    }
}

/// True where doing it twice is not the same as doing it once: an open whose answer was lost would stay and be in the way. Who only looks
/// closes at once, see [`look`].
fn is_told_apart(options: &OpenOptions) -> bool {
    options.durable || options.disposition != Disposition::Open || options.access != Access::Attributes
}

fn contexts(open: &OpenState, add: impl FnOnce(&mut CreateContextsBuilder)) -> CreateContextsBuilder {
    let mut contexts = CreateContextsBuilder::new();
    add(&mut contexts);
    open.mark.iter().for_each(|mark| mark.add_to(&mut contexts));
    if open.options.wants_id {
        contexts.add(name::QUERY_ON_DISK_ID, &[]);
    }
    if open.options.stream_alone {
        contexts.add(name::STREAM_ALONE, &[]);
    }
    if open.options.durable {
        let lease = Lease {
            lease_key: open.lease_key,
            lease_state: LeaseState::READ_CACHING | LeaseState::HANDLE_CACHING,
            v2: Some(LeaseV2::default()),
            ..Lease::default()
        };
        contexts.add(name::LEASE, &lease.to_bytes());
    }
    contexts
}

fn request<'a>(open: &OpenState, path: &'a [u8], contexts: &'a CreateContextsBuilder) -> CreateRequest<'a> {
    CreateRequest {
        oplock_level: if open.options.durable { OplockLevel::LEASE } else { OplockLevel::NONE },
        impersonation_level: ImpersonationLevel::IMPERSONATION.0,
        desired_access: open.options.access_mask().into(),
        file_attributes: open.options.attributes.0,
        share_access: open.options.share_access(),
        disposition: open.options.create_disposition(),
        options: open.options.create_options(),
        name: Utf16::new(path).unwrap_or_default(),
        contexts: contexts.contexts(),
    }
}

fn created(response: &CreateResponse<'_>) -> Result<Created, Error> {
    let facts = Facts {
        created: response.creation_time,
        accessed: response.last_access_time,
        written: response.last_write_time,
        changed: response.change_time,
        end_of_file: response.end_of_file,
        allocation: response.allocation_size,
        attributes: FileAttributes(response.file_attributes),
    };
    let is_durable = response.contexts.find(name::DURABLE_HANDLE_REQUEST_V2).is_some();
    let disk_id = response.contexts.find(name::QUERY_ON_DISK_ID).map(OnDiskId::decode).transpose()?;
    Ok(Created { id: response.file_id, is_durable, facts, disk_id })
}

fn doing(open: &OpenState) -> String {
    let path = if open.path.is_empty() { r"\" } else { &open.path };
    match (open.options.disposition, open.options.directory) {
        (Disposition::Create, Some(true)) => format!("make the directory {path}"),
        (Disposition::Create, Some(false) | None) => format!("make {path}"),
        (Disposition::Open | Disposition::OpenOrCreate | Disposition::Overwrite, _) => format!("open {path}"),
    }
}
