//! Server-side copy: a key for the source, then ranges to copy (MS-SMB2 2.2.31.1, 2.2.32.1, 2.2.32.3).

use crate::codec::{Malformed, Reader, Writer};

/// Names a source file; opaque to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct ResumeKey(pub [u8; 24]);

impl ResumeKey {
    /// Decodes the output of SRV_REQUEST_RESUME_KEY (2.2.32.3).
    pub fn decode(output: &[u8]) -> Result<Self, Malformed> {
        Ok(ResumeKey(Reader::new(output).array()?))
    }

    /// The output of SRV_REQUEST_RESUME_KEY: the key, ContextLength 0 and the four bytes that Windows sends as Context.
    pub fn to_bytes(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..24].copy_from_slice(&self.0);
        bytes
    }
}

/// SRV_COPYCHUNK (2.2.31.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Chunk {
    /// Where to read.
    pub source_offset: u64,
    /// Where to write.
    pub target_offset: u64,
    /// How many bytes.
    pub length: u32,
}

impl Chunk {
    /// The length on the wire in bytes.
    pub const LENGTH: usize = 24;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let chunk = Chunk { source_offset: reader.u64()?, target_offset: reader.u64()?, length: reader.u32()? };
        reader.skip(4)?;
        Ok(chunk)
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u64(self.source_offset);
        writer.u64(self.target_offset);
        writer.u32(self.length);
        writer.u32(0);
    }
}

/// SRV_COPYCHUNK_COPY (2.2.31.1): the input of SRV_COPYCHUNK and SRV_COPYCHUNK_WRITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyChunkRequest<'a> {
    /// The source.
    pub source_key: ResumeKey,
    /// A multiple of [`Chunk::LENGTH`] bytes.
    chunks: &'a [u8],
}

impl<'a> CopyChunkRequest<'a> {
    /// Decodes the input. How many chunks are too many is for the server to judge.
    pub fn decode(input: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(input);
        let source_key = ResumeKey(reader.array()?);
        let count = reader.u32()? as usize;
        reader.skip(4)?;
        let length = count.checked_mul(Chunk::LENGTH).ok_or(Malformed("ChunkCount"))?;
        Ok(CopyChunkRequest { source_key, chunks: reader.bytes(length)? })
    }

    /// How many chunks there are.
    pub fn chunk_count(&self) -> usize {
        self.chunks.len() / Chunk::LENGTH
    }

    /// The chunks in order.
    pub fn chunks(&self) -> impl Iterator<Item = Chunk> + use<'a> {
        self.chunks.chunks_exact(Chunk::LENGTH).filter_map(|chunk| Chunk::decode(&mut Reader::new(chunk)).ok())
    }

    /// Appends the input that copies `chunks` from `source_key`.
    pub fn encode(source_key: ResumeKey, chunks: &[Chunk], out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.bytes(&source_key.0);
        writer.u32(chunks.len() as u32);
        writer.u32(0);
        for chunk in chunks {
            chunk.encode(&mut writer);
        }
    }
}

/// SRV_COPYCHUNK_RESPONSE (2.2.32.1): what was written, or, beside INVALID_PARAMETER, the server's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CopyChunkResponse {
    /// Chunks written, or the most in one request.
    pub chunks_written: u32,
    /// Bytes written of a chunk that failed midway, or the most in one chunk.
    pub chunk_bytes_written: u32,
    /// Bytes written in all, or the most in one request.
    pub total_bytes_written: u32,
}

impl CopyChunkResponse {
    /// Decodes the output.
    pub fn decode(output: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(output);
        Ok(CopyChunkResponse {
            chunks_written: reader.u32()?,
            chunk_bytes_written: reader.u32()?,
            total_bytes_written: reader.u32()?,
        })
    }

    /// The output.
    pub fn to_bytes(&self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&self.chunks_written.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.chunk_bytes_written.to_le_bytes());
        bytes[8..].copy_from_slice(&self.total_bytes_written.to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNKS: [Chunk; 2] = [
        Chunk { source_offset: 1, target_offset: 2, length: 3 },
        Chunk { source_offset: u64::MAX, target_offset: u64::MAX, length: u32::MAX },
    ];

    fn input() -> Vec<u8> {
        let mut input = Vec::new();
        CopyChunkRequest::encode(ResumeKey([7; 24]), &CHUNKS, &mut input);
        input
    }

    #[test]
    fn requests_round_trip() {
        let input = input();
        let request = CopyChunkRequest::decode(&input).unwrap();
        assert_eq!(request.source_key, ResumeKey([7; 24]));
        assert_eq!(request.chunk_count(), 2);
        assert!(request.chunks().eq(CHUNKS));
    }

    #[test]
    fn truncated_requests_are_malformed() {
        let input = input();
        for length in 0..input.len() {
            assert!(CopyChunkRequest::decode(&input[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn a_count_beyond_the_input_is_malformed() {
        let mut input = input();
        for count in [3, 0x0AAA_AAAB, u32::MAX] {
            input[24..28].copy_from_slice(&count.to_le_bytes());
            assert!(CopyChunkRequest::decode(&input).is_err());
        }
    }

    #[test]
    fn outputs_round_trip() {
        let response = CopyChunkResponse { chunks_written: 1, chunk_bytes_written: 2, total_bytes_written: 3 };
        assert_eq!(CopyChunkResponse::decode(&response.to_bytes()), Ok(response));
        assert!(CopyChunkResponse::decode(&response.to_bytes()[..11]).is_err());
        let key = ResumeKey([9; 24]);
        assert_eq!(ResumeKey::decode(&key.to_bytes()), Ok(key));
        assert!(ResumeKey::decode(&key.to_bytes()[..23]).is_err());
    }
}
