//! SET_INFO: changes a file, its file system, its security or quotas (MS-SMB2 2.2.39, 2.2.40).

pub use super::query_info::{InfoClass, InfoType, SecurityInformation};
use super::{body, length_u32, part};
use crate::codec::{Malformed, Writer};
use crate::header::HEADER_LENGTH;
use crate::ids::FileId;

const REQUEST_SIZE: u16 = 33;
const RESPONSE_SIZE: u16 = 2;

/// SMB2 SET_INFO Request (2.2.39).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SetInfoRequest<'a> {
    /// What is changed.
    pub info_type: InfoType,
    /// What of it.
    pub class: InfoClass,
    /// [`SecurityInformation`] where the type is SECURITY.
    pub additional_information: u32,
    /// The open.
    pub file_id: FileId,
    /// The new value, in the form of its class.
    pub buffer: &'a [u8],
}

impl<'a> SetInfoRequest<'a> {
    /// Decodes the body of `message`.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = body(message, REQUEST_SIZE)?;
        let info_type = InfoType(reader.u8()?);
        let class = InfoClass(reader.u8()?);
        let length = reader.u32()? as usize;
        let offset = usize::from(reader.u16()?);
        reader.skip(2)?;
        let additional_information = reader.u32()?;
        let file_id = FileId::decode(&mut reader)?;
        let buffer = part(message, offset, length, "Buffer of SET_INFO")?;
        Ok(SetInfoRequest { info_type, class, additional_information, file_id, buffer })
    }

    /// AdditionalInformation where the type is SECURITY.
    pub fn security_information(&self) -> SecurityInformation {
        SecurityInformation(self.additional_information)
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u16(REQUEST_SIZE);
        writer.u8(self.info_type.0);
        writer.u8(self.class.0);
        writer.u32(length_u32(self.buffer));
        writer.u16(HEADER_LENGTH as u16 + REQUEST_SIZE - 1);
        writer.u16(0);
        writer.u32(self.additional_information);
        self.file_id.encode(&mut writer);
        writer.bytes(self.buffer);
    }
}

/// SMB2 SET_INFO Response (2.2.40).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SetInfoResponse;

impl SetInfoResponse {
    /// The body.
    pub fn to_bytes() -> [u8; 2] {
        RESPONSE_SIZE.to_le_bytes()
    }

    /// Decodes the body of `message`.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        body(message, RESPONSE_SIZE)?;
        Ok(SetInfoResponse)
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&SetInfoResponse::to_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fscc::FileClass;

    #[test]
    fn both_directions_round_trip() {
        let request = SetInfoRequest {
            info_type: InfoType::FILE,
            class: FileClass::BASIC.into(),
            additional_information: SecurityInformation::DACL.0,
            file_id: FileId { persistent: 1, volatile: 2 },
            buffer: b"times",
        };
        let message = check_message!(SetInfoRequest, request);
        assert_eq!(message[68..76], [5, 0, 0, 0, 96, 0, 0, 0]);
        assert_eq!(request.security_information(), SecurityInformation::DACL);
        check_message!(SetInfoResponse, SetInfoResponse);
    }
}
