//! What a CREATE asks for, checked as far as it can be without looking at the store (MS-SMB2 3.3.5.9, MS-FSA 2.1.5.1, first
//! checks).

use std::sync::Arc;

use store::{ExtendedAttribute, SharePath, Time, Use};
use wire::command::create::{CreateDisposition, CreateOptions, CreateRequest, OplockLevel};
use wire::context::create::{AppleRequest, CreateContexts, DurableRequestV2, name};
use wire::context::lease::{Lease, LeaseFlags};
use wire::fscc::FileAttributes;
use wire::ids::{Dialect, Guid};
use wire::security::SecurityDescriptor;
use wire::security::access::{self, GenericMapping, MAXIMUM_ALLOWED};
use wire::status::Status;

use crate::command::connection::Connection;
use crate::resource::slice::Slice;
use crate::state::access::usage;
use crate::state::attributes;
use crate::state::audit::Speaker;
use crate::state::authorization::check_share;
use crate::state::caching::{Actor, LeaseId, Wanted};
use crate::state::descriptors::{self, Reading};
use crate::state::extended;
use crate::state::files::Empties;
use crate::state::open_id::OpenId;
use crate::state::refusal::Refusal;
use crate::state::tree::Tree;
use crate::state::user::{User, UserId};

use super::durable::Former;

/// Bits of DesiredAccess that mean something (MS-SMB2 2.2.13.1).
const ACCESS_KNOWN: u32 = access::FILE_ALL
    | access::ACCESS_SYSTEM_SECURITY
    | access::MAXIMUM_ALLOWED
    | access::GENERIC_ALL
    | access::GENERIC_EXECUTE
    | access::GENERIC_WRITE
    | access::GENERIC_READ;
/// Options that no server does over the network.
const OPTIONS_UNSUPPORTED: u32 =
    CreateOptions::CREATE_TREE_CONNECTION.0 | CreateOptions::OPEN_BY_FILE_ID.0 | CreateOptions::RESERVE_OPFILTER.0;
/// Options above these do not exist.
const OPTIONS_KNOWN: u32 = 0x00FF_FFFF;
/// Attributes a CREATE may name at all: those of volumes and devices not. Those that are not kept are passed over (MS-FSCC 2.6):
/// integrity streams and what there is for files that lie elsewhere.
const ATTRIBUTES_KNOWN: u32 = 0x0000_7FB7
    | FileAttributes::INTEGRITY_STREAM.0
    | FileAttributes::NO_SCRUB_DATA.0
    | FileAttributes::RECALL_ON_OPEN.0
    | FileAttributes::PINNED.0
    | FileAttributes::UNPINNED.0
    | FileAttributes::RECALL_ON_DATA_ACCESS.0;
/// Bytes of SMB2_CREATE_DURABLE_HANDLE_REQUEST (MS-SMB2 2.2.13.2.3).
const DURABLE_REQUEST_BYTES: usize = 16;
/// The shortest name of a create context.
const CONTEXT_NAME_BYTES_MIN: usize = 4;
/// ImpersonationLevel's last value.
const IMPERSONATION_MAX: u32 = 3;

/// Who asks, as far as caching goes.
pub(super) struct Client {
    dialect: Dialect,
    guid: Guid,
    user: UserId,
    speaker: Option<Arc<Speaker>>,
}

impl Client {
    pub(super) fn of(connection: &Connection, user: &User, contexts: &CreateContexts<'_>) -> Self {
        let negotiation = connection.negotiation.borrow();
        let dialect = negotiation.dialect().unwrap_or_default();
        let speaker = connection.server.origins.of(contexts);
        Client { dialect, guid: negotiation.client_guid, user: user.id, speaker }
    }

    /// What a CREATE asks to cache, and its directory's lease (MS-SMB2 3.3.5.9, Oplock Acquisition).
    fn wanted(&self, request: &CreateRequest<'_>) -> Result<(Wanted, Option<LeaseId>), Refusal> {
        let lease = request.contexts.find(name::LEASE).map(Lease::decode).transpose()?;
        let level = request.oplock_level;
        if level != OplockLevel::LEASE {
            return Ok((if level == OplockLevel::NONE { Wanted::Nothing } else { Wanted::Oplock(level) }, None));
        }
        let Some(lease) = lease.filter(|lease| self.knows(lease)) else { return Ok((Wanted::Nothing, None)) };
        let of = |key| LeaseId { client: self.guid, user: self.user, key };
        let parent = lease.v2.filter(|_| lease.flags.contains(LeaseFlags::PARENT_LEASE_KEY_SET));
        Ok((Wanted::Lease(of(lease.lease_key), lease), parent.map(|v2| of(v2.parent_lease_key))))
    }

    fn knows(&self, lease: &Lease) -> bool {
        self.dialect >= if lease.v2.is_some() { Dialect::SMB_3_0 } else { Dialect::SMB_2_1 }
    }
}

/// A CREATE that makes sense.
pub(super) struct Plan {
    pub(super) path: SharePath,
    /// The named stream, where one is meant.
    pub(super) stream: Option<String>,
    /// The unnamed data was meant by its name, `::$DATA`: no directory has it.
    pub(super) names_data: bool,
    /// A separator stood behind the name: a directory is meant.
    pub(super) ends_in_separator: bool,
    /// The whole name as it came.
    pub(super) name: Slice,
    pub(super) disposition: CreateDisposition,
    pub(super) options: CreateOptions,
    /// DesiredAccess, generic bits mapped.
    pub(super) desired: u32,
    pub(super) share_access: u32,
    /// Attributes for what is made or overwritten.
    pub(super) attributes: u32,
    pub(super) usage: Use,
    /// The descriptor for what is made, as it came.
    security: Option<Slice>,
    /// The extended attributes of what is made or overwritten, as they came, and how many.
    extended: Option<(Slice, usize)>,
    pub(super) allocation: Option<u64>,
    /// MxAc: what was asked for, with the change time of the file that the client knows.
    pub(super) maximal: Option<Option<Time>>,
    pub(super) wants_disk_id: bool,
    /// Where the file of a stream is missing it is not made.
    needs_file: bool,
    /// What macOS asks of the server.
    pub(super) apple: Option<AppleRequest>,
    pub(super) wanted: Wanted,
    /// The lease of the directory, where the client named one.
    pub(super) parent_lease: Option<LeaseId>,
    /// Who asks by another protocol.
    pub(super) speaker: Option<Arc<Speaker>>,
    /// What it takes the place of.
    pub(super) former: Option<Former>,
}

/// What one attribute of a new file counts as, in bytes of data: as many as SET_INFO leaves to the pool are too many for a shard here, too.
const ATTRIBUTE_BYTES: u64 = 8 << 10;
/// It takes long to follow what is longer than any path of Linux: it may have sixteen thousand names.
const PATH_BYTES_MAX: usize = 4 << 10;
/// More than so many take long.
const ATTRIBUTES_AT_ONCE_MAX: usize = 64;

impl Plan {
    /// How much it is to give a file its space and its extended attributes, as if it were so many bytes of data.
    pub(super) fn decoration_bytes(&self) -> u64 {
        self.allocation.unwrap_or(0).saturating_add(ATTRIBUTE_BYTES * self.extended_count() as u64)
    }

    /// The descriptor for what is made, where one was asked for. RETRY where that takes longer than `reading` allows.
    pub(super) fn security(&self, reading: Reading) -> Result<Option<SecurityDescriptor>, Refusal> {
        match self.security.as_deref() {
            None => Ok(None),
            Some(asked) if reading.takes(asked) => Ok(Some(descriptors::decode(asked)?)),
            Some(_) => Err(Status::RETRY.into()),
        }
    }

    /// How many extended attributes were asked for.
    pub(super) fn extended_count(&self) -> usize {
        self.extended.as_ref().map_or(0, |(_, count)| *count)
    }

    /// The extended attributes that were asked for.
    pub(super) fn extended(&self) -> Vec<ExtendedAttribute> {
        self.extended.as_ref().map(|(list, _)| extended::read(list).into_values().collect()).unwrap_or_default()
    }

    /// True where it takes long to make something, in memory too: few do so at once.
    pub(super) fn is_long_work(&self) -> bool {
        let is_long = |asked: &Slice| !Reading::Quick.takes(asked);
        self.security.as_ref().is_some_and(is_long) || self.extended_count() > ATTRIBUTES_AT_ONCE_MAX
    }

    /// True where it takes long to follow the path.
    pub(super) fn is_deep(&self) -> bool {
        self.path.as_str().len() > PATH_BYTES_MAX
    }

    /// What a `request` says, which `message` holds.
    pub(super) fn read(
        request: &CreateRequest<'_>,
        message: &Slice,
        (tree, client): (&Tree, &Client),
        former: Option<Former>,
    ) -> Result<Self, Refusal> {
        // A reconnect says nothing but which open it means: it comes before what else a request must say.
        check_contexts(&request.contexts)?;
        check_fields(request)?;
        let Named { path, stream, names_data, ends_in_separator } = Named::read(request)?;
        let desired = GenericMapping::FILE.map(request.desired_access.0);
        check_share(tree.access_max(), desired, request.options.contains(CreateOptions::DELETE_ON_CLOSE))?;
        let contexts = &request.contexts;
        let (wanted, parent_lease) = client.wanted(request)?;
        Ok(Plan {
            path,
            stream,
            names_data,
            ends_in_separator,
            name: message.holding(request.name.as_bytes()),
            disposition: request.disposition,
            options: request.options,
            desired,
            share_access: request.share_access.0,
            attributes: request.file_attributes & attributes::SETTABLE,
            usage: wanted_usage(request.disposition, desired),
            security: security(contexts, message)?,
            extended: extended_attributes(contexts, message)?,
            allocation: allocation(contexts)?,
            maximal: contexts.find(name::QUERY_MAXIMAL_ACCESS).map(timestamp),
            wants_disk_id: contexts.find(name::QUERY_ON_DISK_ID).is_some(),
            needs_file: contexts.find(name::STREAM_ALONE).is_some(),
            apple: contexts.find(name::APPLE).map(AppleRequest::decode).transpose()?,
            wanted,
            parent_lease,
            speaker: client.speaker.clone(),
            former,
        })
    }

    /// Whose caching the open leaves alone.
    pub(super) fn actor(&self, open: OpenId) -> Actor {
        Actor { open, lease: self.wanted.lease() }
    }

    /// True where a directory is to be made.
    pub(super) fn makes_directory(&self) -> bool {
        self.options.contains(CreateOptions::DIRECTORY_FILE) && self.stream.is_none()
    }

    /// Whether what exists is emptied, and how.
    pub(super) fn empties(&self) -> Empties {
        match self.disposition {
            CreateDisposition::SUPERSEDE => Empties::Supersedes,
            CreateDisposition::OVERWRITE | CreateDisposition::OVERWRITE_IF => Empties::Overwrites,
            _ => Empties::Nothing,
        }
    }

    /// False where a symbolic link that has the name is itself meant (MS-SMB2 2.2.13, FILE_OPEN_REPARSE_POINT).
    pub(super) fn follows_links(&self) -> bool {
        !self.options.contains(CreateOptions::OPEN_REPARSE_POINT)
    }

    /// True where what exists is emptied.
    pub(super) fn overwrites(&self) -> bool {
        self.empties() != Empties::Nothing
    }

    /// True where what does not exist is an error.
    pub(super) fn needs_existing(&self) -> bool {
        matches!(self.disposition, CreateDisposition::OPEN | CreateDisposition::OVERWRITE)
    }

    /// The same where a file does not exist.
    pub(super) fn needs_file(&self) -> bool {
        self.needs_existing() || self.needs_file && self.stream.is_some()
    }

    /// FileModeInformation of the open (MS-FSCC 2.4.31).
    pub(super) fn mode(&self) -> u32 {
        let kept = CreateOptions::WRITE_THROUGH
            | CreateOptions::SEQUENTIAL_ONLY
            | CreateOptions::NO_INTERMEDIATE_BUFFERING
            | CreateOptions::SYNCHRONOUS_IO_ALERT
            | CreateOptions::SYNCHRONOUS_IO_NONALERT
            | CreateOptions::DELETE_ON_CLOSE;
        self.options.0 & kept.0
    }
}

/// Contexts that ask for what is never granted must be whole all the same; those that name a snapshot name one that
/// is not there.
fn check_contexts(contexts: &CreateContexts<'_>) -> Result<(), Refusal> {
    if contexts.iter().any(|context| context.name.len() < CONTEXT_NAME_BYTES_MIN) {
        return Err(Status::INVALID_PARAMETER.into());
    }
    if let Some(data) = contexts.find(name::DURABLE_HANDLE_REQUEST_V2) {
        DurableRequestV2::decode(data)?;
    }
    if contexts.find(name::DURABLE_HANDLE_REQUEST).is_some_and(|data| data.len() < DURABLE_REQUEST_BYTES) {
        return Err(Status::INVALID_PARAMETER.into());
    }
    // MS-SMB2 3.3.5.9.4.
    if contexts.find(name::TIMEWARP_TOKEN).is_some() {
        return Err(Status::OBJECT_NAME_NOT_FOUND.into());
    }
    Ok(())
}

fn check_fields(request: &CreateRequest<'_>) -> Result<(), Status> {
    if request.impersonation_level > IMPERSONATION_MAX {
        return Err(Status::BAD_IMPERSONATION_LEVEL);
    }
    if request.desired_access.0 & !ACCESS_KNOWN != 0 || request.desired_access.0 == 0 {
        return Err(Status::ACCESS_DENIED);
    }
    let both = CreateOptions::DIRECTORY_FILE | CreateOptions::NON_DIRECTORY_FILE;
    if request.options.0 & !OPTIONS_KNOWN != 0 || request.options.contains(both) {
        return Err(Status::INVALID_PARAMETER);
    }
    if request.options.0 & OPTIONS_UNSUPPORTED != 0 {
        return Err(Status::NOT_SUPPORTED);
    }
    if request.disposition > CreateDisposition::OVERWRITE_IF || request.share_access.0 > 7 {
        return Err(Status::INVALID_PARAMETER);
    }
    if request.file_attributes & !ATTRIBUTES_KNOWN != 0 {
        return Err(Status::INVALID_PARAMETER);
    }
    let overwrites_directory = request.options.contains(CreateOptions::DIRECTORY_FILE)
        && !matches!(
            request.disposition,
            CreateDisposition::CREATE | CreateDisposition::OPEN | CreateDisposition::OPEN_IF
        );
    if overwrites_directory {
        return Err(Status::INVALID_PARAMETER);
    }
    Ok(())
}

/// The name of a CREATE, taken apart.
struct Named {
    path: SharePath,
    stream: Option<String>,
    names_data: bool,
    ends_in_separator: bool,
}

impl Named {
    fn read(request: &CreateRequest<'_>) -> Result<Named, Refusal> {
        let name = request.name.decode().ok_or(Status::OBJECT_NAME_INVALID)?;
        if name.starts_with('\\') {
            return Err(Status::INVALID_PARAMETER.into());
        }
        let ends_in_separator = name.ends_with('\\');
        if name == "." || ends_in_separator && request.options.contains(CreateOptions::NON_DIRECTORY_FILE) {
            return Err(Status::OBJECT_NAME_INVALID.into());
        }
        let name = without_dots(name)?;
        let (directory, last) = match name.rsplit_once('\\') {
            Some((directory, last)) => (Some(directory), last),
            None => (None, name.as_str()),
        };
        let Some((file, stream)) = last.split_once(':') else {
            return Ok(Named { path: SharePath::parse(&name)?, stream: None, names_data: false, ends_in_separator });
        };
        if file.is_empty() && directory.is_some() {
            return Err(Status::OBJECT_NAME_INVALID.into());
        }
        let path = directory.map_or_else(|| file.to_owned(), |directory| format!("{directory}\\{file}"));
        let path = SharePath::parse(&path)?;
        let (stream, names_data) = stream_name(stream, request)?;
        Ok(Named { path, stream, names_data, ends_in_separator })
    }
}

/// The name without `.` and `..`, as Windows takes them (MS-SMB2 note 303). What climbs out of the share is no path, and neither
/// is what begins by going down and up again.
fn without_dots(name: String) -> Result<String, Status> {
    if !name.split('\\').any(|part| matches!(part, "." | "..")) {
        return Ok(name);
    }
    let parts: Vec<&str> = name.split('\\').collect();
    if let [first, "..", _, ..] = parts.as_slice()
        && !matches!(*first, "." | "..")
    {
        return Err(Status::INVALID_PARAMETER);
    }
    let mut kept = Vec::new();
    for part in parts {
        match part {
            "." => {}
            ".." => drop(kept.pop().ok_or(Status::OBJECT_PATH_SYNTAX_BAD)?),
            part => kept.push(part),
        }
    }
    Ok(kept.join("\\"))
}

/// What stands behind the first colon: `NAME`, `NAME:$DATA`, `:$DATA`, or the index of a directory. Gives the stream's name, and
/// whether that is the unnamed data.
fn stream_name(text: &str, request: &CreateRequest<'_>) -> Result<(Option<String>, bool), Status> {
    let (name, kind) = text.split_once(':').unwrap_or((text, ""));
    if kind.eq_ignore_ascii_case("$INDEX_ALLOCATION") {
        let default = name.is_empty() || name.eq_ignore_ascii_case("$I30");
        return if default { Ok((None, false)) } else { Err(Status::OBJECT_NAME_INVALID) };
    }
    let explicit = text.contains(':');
    let unnamed = name.is_empty();
    if (explicit && !kind.eq_ignore_ascii_case("$DATA")) || (unnamed && !explicit) {
        return Err(Status::OBJECT_NAME_INVALID);
    }
    let forbidden = |c: char| c == '\0' || matches!(c, '/' | '\\' | ':');
    if name.contains(forbidden) || name.encode_utf16().count() > 255 {
        return Err(Status::OBJECT_NAME_INVALID);
    }
    if request.options.contains(CreateOptions::DIRECTORY_FILE) {
        return Err(Status::NOT_A_DIRECTORY);
    }
    Ok(((!unnamed).then(|| name.to_owned()), unnamed))
}

/// Overwriting needs to write, whatever access was asked for.
fn wanted_usage(disposition: CreateDisposition, desired: u32) -> Use {
    let overwrites = matches!(
        disposition,
        CreateDisposition::SUPERSEDE | CreateDisposition::OVERWRITE | CreateDisposition::OVERWRITE_IF
    );
    if overwrites || desired & MAXIMUM_ALLOWED != 0 { Use::ReadWrite } else { usage(desired) }
}

/// What it is made of takes many times as much as it does: it is decoded where something is made, and not kept while the request waits.
fn security(contexts: &CreateContexts<'_>, message: &Slice) -> Result<Option<Slice>, Refusal> {
    // MS-SMB2 3.3.5.9.2.
    let Some(data) = contexts.find(name::SD_BUFFER) else { return Ok(None) };
    if Reading::Quick.takes(data) {
        descriptors::decode(data)?;
    }
    Ok(Some(message.holding(data)))
}

/// As with [`security`] the list is kept as it came.
fn extended_attributes(contexts: &CreateContexts<'_>, message: &Slice) -> Result<Option<(Slice, usize)>, Refusal> {
    // MS-SMB2 3.3.5.9.1.
    let Some(data) = contexts.find(name::EA_BUFFER) else { return Ok(None) };
    if data.len() > extended::LIST_BYTES_MAX {
        return Err(Status::EA_TOO_LARGE.into());
    }
    let count = extended::count(data, Status::INVALID_PARAMETER)?;
    Ok(Some((message.holding(data), count)).filter(|_| count > 0))
}

/// The timestamp of an MxAc context, where it has one (MS-SMB2 2.2.13.2.5).
fn timestamp(data: &[u8]) -> Option<Time> {
    data.first_chunk().map(|bytes| Time(u64::from_le_bytes(*bytes)))
}

fn allocation(contexts: &CreateContexts<'_>) -> Result<Option<u64>, Refusal> {
    // MS-SMB2 3.3.5.9.3.
    let Some(data) = contexts.find(name::ALLOCATION_SIZE) else { return Ok(None) };
    Ok(Some(wire::codec::Reader::new(data).u64()?))
}

/// The attributes that stop an overwrite which does not name them (MS-FSA 2.1.5.1.2.1).
pub(super) const GUARDED: u32 = FileAttributes::HIDDEN.0 | FileAttributes::SYSTEM.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_are_followed_inside_the_share() {
        let named = |name: &str| without_dots(name.into());
        assert_eq!(named("a\\b\\..\\c"), Ok("a\\c".into()));
        assert_eq!(named("a\\b\\.."), Ok("a".into()));
        assert_eq!(named("a\\.."), Ok(String::new()));
        assert_eq!(named(".\\a\\."), Ok("a".into()));
        assert_eq!(named("a...\\..b"), Ok("a...\\..b".into()));
        assert_eq!(named("a\\..\\b"), Err(Status::INVALID_PARAMETER));
        for above in ["..", "..\\a", "a\\b\\..\\..\\..", ".\\.."] {
            assert_eq!(named(above), Err(Status::OBJECT_PATH_SYNTAX_BAD), "{above}");
        }
    }
}
