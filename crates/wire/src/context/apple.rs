//! AAPL: what macOS asks of a server and is told, in the first CREATE of a tree connect. Not in MS-SMB2; the form is
//! that of Apple's published SMB client source (`smb_2.h`).

use crate::codec::{Malformed, Reader, Utf16, Writer};

numbers! {
    /// What an AAPL context asks.
    AppleCommand(u32) {
        /// What can the server and its volume do, and what is it?
        SERVER_QUERY = 1,
        /// The path of a file id.
        RESOLVE_ID = 2,
    }
}

flags! {
    /// The parts of a server query's answer.
    AppleQuery(u64) {
        /// What the server can do.
        SERVER_CAPS = 0x01,
        /// What the volume can do.
        VOLUME_CAPS = 0x02,
        /// The model of the server.
        MODEL_INFO = 0x04,
    }
}

flags! {
    /// What a client or server can do.
    AppleCapabilities(u64) {
        /// Directory entries with Finder information and maximal access.
        READ_DIR_ATTR = 0x01,
        /// Server-side copies with metadata.
        OSX_COPYFILE = 0x02,
        /// UNIX modes.
        UNIX_BASED = 0x04,
        /// UNIX modes in special access control entries.
        NFS_ACE = 0x08,
    }
}

flags! {
    /// What a volume can do.
    AppleVolume(u64) {
        /// Paths of file ids.
        RESOLVE_ID = 0x01,
        /// Names differ by case.
        CASE_SENSITIVE = 0x02,
        /// Flushes down to the medium.
        FULL_SYNC = 0x04,
    }
}

/// A request's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppleRequest {
    /// kAAPL_SERVER_QUERY.
    ServerQuery {
        /// The parts asked for.
        query: AppleQuery,
        /// What the client can do.
        client: AppleCapabilities,
    },
    /// kAAPL_RESOLVE_ID.
    ResolveId {
        /// The file's id.
        file_id: u64,
    },
    /// Another command, to be ignored.
    Other(AppleCommand),
}

impl AppleRequest {
    /// Decodes a context's data.
    pub fn decode(data: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(data);
        let command = AppleCommand(reader.u32()?);
        reader.skip(4)?;
        match command {
            AppleCommand::SERVER_QUERY => Ok(AppleRequest::ServerQuery {
                query: AppleQuery(reader.u64()?),
                client: AppleCapabilities(reader.u64()?),
            }),
            AppleCommand::RESOLVE_ID => Ok(AppleRequest::ResolveId { file_id: reader.u64()? }),
            other => Ok(AppleRequest::Other(other)),
        }
    }

    /// The context's data.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut data = Vec::with_capacity(24);
        let mut writer = Writer::new(&mut data);
        let command = match self {
            AppleRequest::ServerQuery { .. } => AppleCommand::SERVER_QUERY,
            AppleRequest::ResolveId { .. } => AppleCommand::RESOLVE_ID,
            AppleRequest::Other(command) => *command,
        };
        writer.u32(command.0);
        writer.u32(0);
        match self {
            AppleRequest::ServerQuery { query, client } => {
                writer.u64(query.0);
                writer.u64(client.0);
            }
            AppleRequest::ResolveId { file_id } => writer.u64(*file_id),
            AppleRequest::Other(_) => {}
        }
        data
    }
}

/// The answer to a server query: the parts that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AppleServerResponse<'a> {
    /// What the server can do.
    pub server: Option<AppleCapabilities>,
    /// What the volume can do.
    pub volume: Option<AppleVolume>,
    /// The model, such as `MacSamba`; decides the icon.
    pub model: Option<Utf16<'a>>,
}

impl<'a> AppleServerResponse<'a> {
    /// Decodes a context's data.
    pub fn decode(data: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(data);
        if AppleCommand(reader.u32()?) != AppleCommand::SERVER_QUERY {
            return Err(Malformed("command of an AAPL response"));
        }
        reader.skip(4)?;
        let parts = AppleQuery(reader.u64()?);
        let mut response = AppleServerResponse::default();
        if parts.contains(AppleQuery::SERVER_CAPS) {
            response.server = Some(AppleCapabilities(reader.u64()?));
        }
        if parts.contains(AppleQuery::VOLUME_CAPS) {
            response.volume = Some(AppleVolume(reader.u64()?));
        }
        if parts.contains(AppleQuery::MODEL_INFO) {
            reader.skip(4)?;
            let length = reader.u32()? as usize;
            response.model = Some(Utf16::new(reader.bytes(length)?)?);
        }
        Ok(response)
    }

    /// The context's data.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut data = Vec::new();
        let mut writer = Writer::new(&mut data);
        writer.u32(AppleCommand::SERVER_QUERY.0);
        writer.u32(0);
        writer.u64(self.parts().0);
        if let Some(server) = self.server {
            writer.u64(server.0);
        }
        if let Some(volume) = self.volume {
            writer.u64(volume.0);
        }
        if let Some(model) = self.model {
            writer.u32(0);
            writer.u32(model.as_bytes().len() as u32);
            writer.bytes(model.as_bytes());
        }
        data
    }

    fn parts(&self) -> AppleQuery {
        let mut parts = AppleQuery::NONE;
        if self.server.is_some() {
            parts |= AppleQuery::SERVER_CAPS;
        }
        if self.volume.is_some() {
            parts |= AppleQuery::VOLUME_CAPS;
        }
        if self.model.is_some() {
            parts |= AppleQuery::MODEL_INFO;
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::utf16_bytes;

    #[test]
    fn requests_round_trip() {
        let query = AppleQuery::SERVER_CAPS | AppleQuery::MODEL_INFO;
        let client = AppleCapabilities::UNIX_BASED;
        assert_eq!(check_structure!(AppleRequest, AppleRequest::ServerQuery { query, client }).len(), 24);
        check_structure!(AppleRequest, AppleRequest::ResolveId { file_id: 7 });
        check_structure!(AppleRequest, AppleRequest::Other(AppleCommand(9)));
    }

    #[test]
    fn responses_round_trip_with_every_choice_of_parts() {
        let model = utf16_bytes("Multilane");
        let model = Some(Utf16::new(&model).unwrap());
        for server in [None, Some(AppleCapabilities::OSX_COPYFILE)] {
            for volume in [None, Some(AppleVolume::FULL_SYNC)] {
                for model in [None, model] {
                    let response = AppleServerResponse { server, volume, model };
                    check_structure!(AppleServerResponse, response);
                }
            }
        }
    }
}
