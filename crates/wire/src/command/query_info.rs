//! QUERY_INFO: asks about a file, its file system, its security or quotas (MS-SMB2 2.2.37, 2.2.38).

use super::{OutputBuffer, body, length_u32, part};
use crate::codec::{Malformed, Reader, Writer};
use crate::fscc::{FileClass, FileSystemClass};
use crate::header::HEADER_LENGTH;
use crate::ids::FileId;

const REQUEST_SIZE: u16 = 41;

numbers! {
    /// What is asked about, or set.
    InfoType(u8) {
        /// The file; the class is a [`FileClass`].
        FILE = 0x01,
        /// The file system; the class is a [`FileSystemClass`].
        FILESYSTEM = 0x02,
        /// The security descriptor; no class.
        SECURITY = 0x03,
        /// Quotas; no class.
        QUOTA = 0x04,
    }
}

/// FileInfoClass: a number whose meaning depends on the [`InfoType`] beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct InfoClass(pub u8);

impl InfoClass {
    /// The class where the type is FILE.
    pub fn file(self) -> FileClass {
        FileClass(self.0)
    }

    /// The class where the type is FILESYSTEM.
    pub fn file_system(self) -> FileSystemClass {
        FileSystemClass(self.0)
    }
}

impl From<FileClass> for InfoClass {
    fn from(class: FileClass) -> Self {
        InfoClass(class.0)
    }
}

impl From<FileSystemClass> for InfoClass {
    fn from(class: FileSystemClass) -> Self {
        InfoClass(class.0)
    }
}

flags! {
    /// AdditionalInformation where the type is SECURITY: the parts of the security descriptor.
    SecurityInformation(u32) {
        /// The owner.
        OWNER = 0x0000_0001,
        /// The group.
        GROUP = 0x0000_0002,
        /// The discretionary access control list.
        DACL = 0x0000_0004,
        /// The system access control list.
        SACL = 0x0000_0008,
        /// The integrity label.
        LABEL = 0x0000_0010,
        /// Resource attributes.
        ATTRIBUTE = 0x0000_0020,
        /// The central access policy.
        SCOPE = 0x0000_0040,
        /// What a backup needs.
        BACKUP = 0x0001_0000,
    }
}

flags! {
    /// Flags of a query of extended attributes.
    QueryInfoFlags(u32) {
        /// From the beginning.
        RESTART_SCAN = 0x0000_0001,
        /// One entry only.
        RETURN_SINGLE_ENTRY = 0x0000_0002,
        /// From the index in AdditionalInformation on.
        INDEX_SPECIFIED = 0x0000_0004,
    }
}

/// SMB2 QUERY_INFO Request (2.2.37).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct QueryInfoRequest<'a> {
    /// What is asked about.
    pub info_type: InfoType,
    /// What of it.
    pub class: InfoClass,
    /// The most bytes that the client takes.
    pub output_buffer_length: u32,
    /// [`SecurityInformation`] of a security query, an index of a query of extended attributes.
    pub additional_information: u32,
    /// Flags of a query of extended attributes.
    pub flags: QueryInfoFlags,
    /// The open.
    pub file_id: FileId,
    /// Of a query of extended attributes: their names. Of a quota query: a [`QueryQuota`]. In every other query the
    /// server ignores it, and it is empty here where it lies outside of the message.
    pub input: &'a [u8],
}

impl<'a> QueryInfoRequest<'a> {
    /// Decodes the body of `message`.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = body(message, REQUEST_SIZE)?;
        let info_type = InfoType(reader.u8()?);
        let class = InfoClass(reader.u8()?);
        let output_buffer_length = reader.u32()?;
        let offset = usize::from(reader.u16()?);
        reader.skip(2)?;
        let length = reader.u32()? as usize;
        let additional_information = reader.u32()?;
        let flags = QueryInfoFlags(reader.u32()?);
        let file_id = FileId::decode(&mut reader)?;
        let input = match part(message, offset, length, "InputBuffer of QUERY_INFO") {
            Ok(input) => input,
            Err(malformed) if takes_input(info_type, class) => return Err(malformed),
            Err(_) => &[],
        };
        Ok(QueryInfoRequest { info_type, class, output_buffer_length, additional_information, flags, file_id, input })
    }

    /// AdditionalInformation of a security query.
    pub fn security_information(&self) -> SecurityInformation {
        SecurityInformation(self.additional_information)
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u16(REQUEST_SIZE);
        writer.u8(self.info_type.0);
        writer.u8(self.class.0);
        writer.u32(self.output_buffer_length);
        writer.u16(if self.input.is_empty() { 0 } else { HEADER_LENGTH as u16 + REQUEST_SIZE - 1 });
        writer.u16(0);
        writer.u32(length_u32(self.input));
        writer.u32(self.additional_information);
        writer.u32(self.flags.0);
        self.file_id.encode(&mut writer);
        // StructureSize counts one byte of the buffer, and clients send it.
        writer.bytes(if self.input.is_empty() { &[0] } else { self.input });
    }
}

/// "For other information queries … the server MUST ignore it on receipt."
fn takes_input(info_type: InfoType, class: InfoClass) -> bool {
    info_type == InfoType::QUOTA || (info_type == InfoType::FILE && class.file() == FileClass::FULL_EA)
}

/// SMB2 QUERY_INFO Response (2.2.38): what was asked for, in the form of its class.
pub type QueryInfoResponse<'a> = OutputBuffer<'a>;

/// SMB2_QUERY_QUOTA_INFO (2.2.37.1): the input of a quota query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct QueryQuota<'a> {
    /// Not 0: one entry only.
    pub return_single: u8,
    /// Not 0: from the beginning.
    pub restart_scan: u8,
    /// A list of FILE_GET_QUOTA_INFORMATION (MS-FSCC 2.4.41.1), perhaps empty.
    pub sid_list: &'a [u8],
    /// A SID to start from (MS-DTYP 2.4.2.2), perhaps empty.
    pub start_sid: &'a [u8],
}

impl<'a> QueryQuota<'a> {
    /// The length of the fixed part in bytes.
    const FIXED_LENGTH: usize = 16;

    /// Decodes the input of a quota query.
    pub fn decode(input: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(input);
        let return_single = reader.u8()?;
        let restart_scan = reader.u8()?;
        reader.skip(2)?;
        let list_length = reader.u32()? as usize;
        let start_length = reader.u32()? as usize;
        let start_offset = reader.u32()? as usize;
        let sid_list = reader.bytes(list_length)?;
        let start_sid = match start_length {
            0 => &[],
            _ => {
                let mut reader = Reader::at(input, QueryQuota::FIXED_LENGTH);
                reader.skip(start_offset)?;
                reader.bytes(start_length)?
            }
        };
        Ok(QueryQuota { return_single, restart_scan, sid_list, start_sid })
    }

    /// Appends the input of a quota query.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u8(self.return_single);
        writer.u8(self.restart_scan);
        writer.u16(0);
        writer.u32(length_u32(self.sid_list));
        writer.u32(length_u32(self.start_sid));
        writer.u32(if self.start_sid.is_empty() { 0 } else { length_u32(self.sid_list) });
        writer.bytes(self.sid_list);
        writer.bytes(self.start_sid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> QueryInfoRequest<'static> {
        QueryInfoRequest {
            info_type: InfoType::FILE,
            class: FileClass::FULL_EA.into(),
            output_buffer_length: 1024,
            additional_information: 3,
            flags: QueryInfoFlags::RESTART_SCAN,
            file_id: FileId { persistent: 1, volatile: 2 },
            input: b"names",
        }
    }

    #[test]
    fn both_directions_round_trip() {
        check_message!(QueryInfoRequest, request());
        let class = FileSystemClass::SIZE.into();
        let plain = QueryInfoRequest { info_type: InfoType::FILESYSTEM, class, input: &[], ..request() };
        check_message!(QueryInfoRequest, plain, spare 1);
        assert_eq!(request().class.file(), FileClass::FULL_EA);
        assert_eq!(plain.class.file_system(), FileSystemClass::SIZE);
        check_message!(QueryInfoResponse, QueryInfoResponse { output: b"output" });
    }

    #[test]
    fn input_beyond_the_message_matters_only_where_input_is_taken() {
        let message = crate::testing::message(|out| request().encode(out));
        for (info_type, class, malformed) in [
            (InfoType::FILE, FileClass::FULL_EA.0, true),
            (InfoType::QUOTA, 0, true),
            (InfoType::FILE, FileClass::BASIC.0, false),
            (InfoType::SECURITY, 0, false),
        ] {
            let mut message = message.clone();
            message[66..68].copy_from_slice(&[info_type.0, class]);
            message[76] = 6;
            assert_eq!(QueryInfoRequest::decode(&message).is_err(), malformed);
        }
    }

    #[test]
    fn quota_queries_round_trip() {
        let query = QueryQuota { return_single: 1, restart_scan: 0, sid_list: b"list", start_sid: b"sid" };
        let mut input = Vec::new();
        query.encode(&mut input);
        assert_eq!(QueryQuota::decode(&input), Ok(query));
        for length in 0..input.len() {
            assert!(QueryQuota::decode(&input[..length]).is_err());
        }
        crate::testing::hostile(&input, |hostile| {
            let _ = QueryQuota::decode(hostile);
        });
    }
}
