//! CREATE: opens or makes a file, directory or pipe (MS-SMB2 2.2.13, 2.2.14).

use super::{body, length_u16, length_u32, part};
use crate::codec::{Malformed, Utf16, Writer};
use crate::context::create::CreateContexts;
use crate::header::HEADER_LENGTH;
use crate::ids::{FileId, FileTime};
pub use crate::security::access::AccessMask;

const REQUEST_SIZE: u16 = 57;
const RESPONSE_SIZE: u16 = 89;

numbers! {
    /// The oplock asked for, granted or broken to.
    OplockLevel(u8) {
        /// None.
        NONE = 0x00,
        /// Level II: shared read caching.
        II = 0x01,
        /// Exclusive.
        EXCLUSIVE = 0x08,
        /// Batch: exclusive, and closes may be delayed.
        BATCH = 0x09,
        /// A lease; its context has the details.
        LEASE = 0xFF,
    }
}

flags! {
    /// What other opens of the file may do while this one is there.
    ShareAccess(u32) {
        /// Read.
        READ = 0x0000_0001,
        /// Write.
        WRITE = 0x0000_0002,
        /// Delete or rename.
        DELETE = 0x0000_0004,
    }
}

numbers! {
    /// What to do whether or not the name exists. Values above OVERWRITE_IF are for the server to refuse.
    CreateDisposition(u32) {
        /// Replace or create.
        SUPERSEDE = 0x0000_0000,
        /// Open or fail.
        OPEN = 0x0000_0001,
        /// Create or fail.
        CREATE = 0x0000_0002,
        /// Open or create.
        OPEN_IF = 0x0000_0003,
        /// Overwrite or fail.
        OVERWRITE = 0x0000_0004,
        /// Overwrite or create.
        OVERWRITE_IF = 0x0000_0005,
    }
}

flags! {
    /// Options of an open.
    CreateOptions(u32) {
        /// It must be a directory.
        DIRECTORY_FILE = 0x0000_0001,
        /// Writes reach the storage before they are answered.
        WRITE_THROUGH = 0x0000_0002,
        /// Access will be sequential.
        SEQUENTIAL_ONLY = 0x0000_0004,
        /// No caching in the server.
        NO_INTERMEDIATE_BUFFERING = 0x0000_0008,
        /// Ignored.
        SYNCHRONOUS_IO_ALERT = 0x0000_0010,
        /// Ignored.
        SYNCHRONOUS_IO_NONALERT = 0x0000_0020,
        /// It must not be a directory.
        NON_DIRECTORY_FILE = 0x0000_0040,
        /// Ignored. MS-FSA 2.1.5.1.
        CREATE_TREE_CONNECTION = 0x0000_0080,
        /// Ignored.
        COMPLETE_IF_OPLOCKED = 0x0000_0100,
        /// The client does not understand extended attributes.
        NO_EA_KNOWLEDGE = 0x0000_0200,
        /// Ignored.
        OPEN_REMOTE_INSTANCE = 0x0000_0400,
        /// Access will be random.
        RANDOM_ACCESS = 0x0000_0800,
        /// Delete when the last open closes.
        DELETE_ON_CLOSE = 0x0000_1000,
        /// The name is a file id; refused with NOT_SUPPORTED.
        OPEN_BY_FILE_ID = 0x0000_2000,
        /// Opened for backup or restore.
        OPEN_FOR_BACKUP_INTENT = 0x0000_4000,
        /// Do not compress.
        NO_COMPRESSION = 0x0000_8000,
        /// Ignored.
        OPEN_REQUIRING_OPLOCK = 0x0001_0000,
        /// Ignored.
        DISALLOW_EXCLUSIVE = 0x0002_0000,
        /// Refused with NOT_SUPPORTED.
        RESERVE_OPFILTER = 0x0010_0000,
        /// Open the reparse point itself.
        OPEN_REPARSE_POINT = 0x0020_0000,
        /// Do not fetch the file from slow storage.
        OPEN_NO_RECALL = 0x0040_0000,
        /// Ignored.
        OPEN_FOR_FREE_SPACE_QUERY = 0x0080_0000,
    }
}

numbers! {
    /// What a CREATE did.
    CreateAction(u32) {
        /// Replaced a file.
        SUPERSEDED = 0x0000_0000,
        /// Opened a file that was there.
        OPENED = 0x0000_0001,
        /// Made a new file.
        CREATED = 0x0000_0002,
        /// Overwrote a file.
        OVERWRITTEN = 0x0000_0003,
    }
}

flags! {
    /// Flags of a response, dialects 3.x.
    CreateFlags(u8) {
        /// The last component of the path is a reparse point.
        REPARSEPOINT = 0x01,
    }
}

numbers! {
    /// How far the server may act as the client. Higher values are for the server to refuse.
    ImpersonationLevel(u32) {
        /// Anonymous.
        ANONYMOUS = 0x0000_0000,
        /// Identification.
        IDENTIFICATION = 0x0000_0001,
        /// Impersonation.
        IMPERSONATION = 0x0000_0002,
        /// Delegate.
        DELEGATE = 0x0000_0003,
    }
}

/// SMB2 CREATE Request (2.2.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CreateRequest<'a> {
    /// The oplock asked for.
    pub oplock_level: OplockLevel,
    /// How far the server may act as the client; see [`ImpersonationLevel`] for the names.
    pub impersonation_level: u32,
    /// The access asked for.
    pub desired_access: AccessMask,
    /// Attributes of a new file (MS-FSCC 2.6).
    pub file_attributes: u32,
    /// What other opens may do.
    pub share_access: ShareAccess,
    /// What to do whether or not the name exists.
    pub disposition: CreateDisposition,
    /// Options.
    pub options: CreateOptions,
    /// The name within the share, empty for its root. At most 65,534 bytes.
    pub name: Utf16<'a>,
    /// The create contexts.
    pub contexts: CreateContexts<'a>,
}

impl<'a> CreateRequest<'a> {
    /// Decodes the body of `message`.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = body(message, REQUEST_SIZE)?;
        reader.skip(1)?;
        let oplock_level = OplockLevel(reader.u8()?);
        let impersonation_level = reader.u32()?;
        reader.skip(16)?;
        let desired_access = AccessMask(reader.u32()?);
        let file_attributes = reader.u32()?;
        let share_access = ShareAccess(reader.u32()?);
        let disposition = CreateDisposition(reader.u32()?);
        let options = CreateOptions(reader.u32()?);
        let name_offset = usize::from(reader.u16()?);
        let name_length = usize::from(reader.u16()?);
        let contexts_offset = reader.u32()? as usize;
        let contexts_length = reader.u32()? as usize;
        let name = Utf16::new(part(message, name_offset, name_length, "Name of CREATE")?)?;
        let contexts = part(message, contexts_offset, contexts_length, "CreateContexts of CREATE")?;
        Ok(CreateRequest {
            oplock_level,
            impersonation_level,
            desired_access,
            file_attributes,
            share_access,
            disposition,
            options,
            name,
            contexts: CreateContexts::decode(contexts)?,
        })
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u16(REQUEST_SIZE);
        writer.u8(0);
        writer.u8(self.oplock_level.0);
        writer.u32(self.impersonation_level);
        writer.zeros(16);
        writer.u32(self.desired_access.0);
        writer.u32(self.file_attributes);
        writer.u32(self.share_access.0);
        writer.u32(self.disposition.0);
        writer.u32(self.options.0);
        writer.u16(HEADER_LENGTH as u16 + REQUEST_SIZE - 1);
        writer.u16(length_u16(self.name.as_bytes()));
        let contexts_field = writer.position();
        writer.u64(0);
        writer.bytes(self.name.as_bytes());
        if !self.contexts.is_empty() {
            writer.align(8);
            writer.patch_u32(contexts_field, (HEADER_LENGTH + writer.position()) as u32);
            writer.patch_u32(contexts_field + 4, length_u32(self.contexts.as_bytes()));
            writer.bytes(self.contexts.as_bytes());
        } else if self.name.is_empty() {
            // "In the request, the Buffer field MUST be at least one byte in length."
            writer.u8(0);
        }
    }
}

/// SMB2 CREATE Response (2.2.14).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CreateResponse<'a> {
    /// The oplock granted.
    pub oplock_level: OplockLevel,
    /// Flags, dialects 3.x.
    pub flags: CreateFlags,
    /// What was done.
    pub create_action: CreateAction,
    /// When the file was created.
    pub creation_time: FileTime,
    /// When it was last accessed.
    pub last_access_time: FileTime,
    /// When its data was last written.
    pub last_write_time: FileTime,
    /// When it was last changed in any way.
    pub change_time: FileTime,
    /// Space allocated to it in bytes.
    pub allocation_size: u64,
    /// Its length in bytes.
    pub end_of_file: u64,
    /// Its attributes (MS-FSCC 2.6).
    pub file_attributes: u32,
    /// The open.
    pub file_id: FileId,
    /// The create contexts.
    pub contexts: CreateContexts<'a>,
}

impl<'a> CreateResponse<'a> {
    /// Decodes the body of `message`.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = body(message, RESPONSE_SIZE)?;
        let oplock_level = OplockLevel(reader.u8()?);
        let flags = CreateFlags(reader.u8()?);
        let create_action = CreateAction(reader.u32()?);
        let creation_time = FileTime(reader.u64()?);
        let last_access_time = FileTime(reader.u64()?);
        let last_write_time = FileTime(reader.u64()?);
        let change_time = FileTime(reader.u64()?);
        let allocation_size = reader.u64()?;
        let end_of_file = reader.u64()?;
        let file_attributes = reader.u32()?;
        reader.skip(4)?;
        let file_id = FileId::decode(&mut reader)?;
        let contexts_offset = reader.u32()? as usize;
        let contexts_length = reader.u32()? as usize;
        let contexts = part(message, contexts_offset, contexts_length, "CreateContexts of CREATE")?;
        Ok(CreateResponse {
            oplock_level,
            flags,
            create_action,
            creation_time,
            last_access_time,
            last_write_time,
            change_time,
            allocation_size,
            end_of_file,
            file_attributes,
            file_id,
            contexts: CreateContexts::decode(contexts)?,
        })
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u16(RESPONSE_SIZE);
        writer.u8(self.oplock_level.0);
        writer.u8(self.flags.0);
        writer.u32(self.create_action.0);
        writer.u64(self.creation_time.0);
        writer.u64(self.last_access_time.0);
        writer.u64(self.last_write_time.0);
        writer.u64(self.change_time.0);
        writer.u64(self.allocation_size);
        writer.u64(self.end_of_file);
        writer.u32(self.file_attributes);
        writer.u32(0);
        self.file_id.encode(&mut writer);
        if self.contexts.is_empty() {
            writer.u64(0);
        } else {
            writer.u32((HEADER_LENGTH + writer.position() + 8) as u32);
            writer.u32(length_u32(self.contexts.as_bytes()));
            writer.bytes(self.contexts.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::utf16_bytes;
    use crate::context::create::{CreateContextsBuilder, name};
    use crate::security::access;

    fn contexts() -> CreateContextsBuilder {
        let mut builder = CreateContextsBuilder::new();
        builder.add(name::QUERY_MAXIMAL_ACCESS, &[]).add(name::ALLOCATION_SIZE, &[1, 2, 3, 4, 5, 6, 7, 8]);
        builder
    }

    fn request<'a>(name: &'a [u8], contexts: CreateContexts<'a>) -> CreateRequest<'a> {
        CreateRequest {
            oplock_level: OplockLevel::LEASE,
            impersonation_level: ImpersonationLevel::IMPERSONATION.0,
            desired_access: AccessMask(access::GENERIC_READ | access::SYNCHRONIZE),
            file_attributes: 0x80,
            share_access: ShareAccess::READ | ShareAccess::DELETE,
            disposition: CreateDisposition::OPEN_IF,
            options: CreateOptions::NON_DIRECTORY_FILE,
            name: Utf16::new(name).unwrap(),
            contexts,
        }
    }

    #[test]
    fn requests_round_trip() {
        let (name, builder) = (utf16_bytes("a\\b"), contexts());
        let message = check_message!(CreateRequest, request(&name, builder.contexts()));
        assert_eq!(message[108..112], [120, 0, 6, 0]);
        assert_eq!(message[112..116], 128_u32.to_le_bytes(), "contexts begin at a multiple of 8");
        check_message!(CreateRequest, request(&name, CreateContexts::default()));
        let message = check_message!(CreateRequest, request(&[], CreateContexts::default()), spare 1);
        assert_eq!(message.len(), 121, "the buffer has at least one byte");
    }

    #[test]
    fn responses_round_trip() {
        let builder = contexts();
        let response = CreateResponse {
            oplock_level: OplockLevel::BATCH,
            flags: CreateFlags::REPARSEPOINT,
            create_action: CreateAction::CREATED,
            creation_time: FileTime(1),
            last_access_time: FileTime(2),
            last_write_time: FileTime(3),
            change_time: FileTime(4),
            allocation_size: 4096,
            end_of_file: 5,
            file_attributes: 0x20,
            file_id: FileId { persistent: 6, volatile: 7 },
            contexts: builder.contexts(),
        };
        let message = check_message!(CreateResponse, response);
        assert_eq!(message[144..148], 152_u32.to_le_bytes());
        check_message!(CreateResponse, CreateResponse { contexts: CreateContexts::default(), ..response });
    }

    #[test]
    fn values_the_specification_does_not_name_decode() {
        let mut message = crate::testing::message(|out| request(&[], CreateContexts::default()).encode(out));
        message[100..104].fill(0xFF);
        let request = CreateRequest::decode(&message).unwrap();
        assert_eq!(request.disposition, CreateDisposition(u32::MAX));
        assert_eq!(request.disposition.name(), None);
    }

    #[test]
    fn names_beyond_the_message_or_of_odd_length_are_malformed() {
        let name = utf16_bytes("name");
        let message = crate::testing::message(|out| request(&name, CreateContexts::default()).encode(out));
        for (position, value) in [(108, 122), (108, 63), (110, 10), (110, 7), (109, 0xFF), (111, 0xFF)] {
            let mut message = message.clone();
            message[position] = value;
            assert!(CreateRequest::decode(&message).is_err(), "{position} {value}");
        }
    }
}
