//! Copies that the server makes (MS-SMB2 2.2.31.1, 2.2.32.1, 2.2.32.3).

use crate::codec::{Malformed, Reader, Writer, range};
use crate::fscc::layout::Field;

/// Bytes in a resume key.
pub const RESUME_KEY_BYTES: usize = 24;

layout! {
    /// SRV_COPYCHUNK (MS-SMB2 2.2.31.1.1).
    pub struct Chunk {
        /// First byte in the source.
        pub source_offset: u64;
        /// First byte in the target.
        pub target_offset: u64;
        /// Bytes.
        pub length: u32, reserved 4;
    }

    /// SRV_COPYCHUNK_RESPONSE (MS-SMB2 2.2.32.1). With STATUS_INVALID_PARAMETER it tells the server's limits instead:
    /// chunks in a request, bytes in a chunk, bytes in all.
    pub struct CopyChunksResult {
        /// Chunks written.
        pub chunks: u32;
        /// Bytes of the last chunk, where it was written in part.
        pub chunk_bytes: u32;
        /// Bytes in all.
        pub total_bytes: u32;
    }

    /// SRV_REQUEST_RESUME_KEY's answer (MS-SMB2 2.2.32.3).
    pub struct ResumeKey {
        /// Names the open, opaque to clients.
        pub key: [u8; RESUME_KEY_BYTES];
        /// Zero: ContextLength. Windows sends four bytes of Context after it, and clients count on 32 bytes.
        pub context_length: u32, reserved 4;
    }
}

/// SRV_COPYCHUNK_COPY (MS-SMB2 2.2.31.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyChunks<'a> {
    /// The resume key of the source.
    pub source: [u8; RESUME_KEY_BYTES],
    chunks: &'a [u8],
}

impl<'a> CopyChunks<'a> {
    /// Reads a request; every announced chunk must be there.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let source = reader.array()?;
        let count = reader.u32()? as usize;
        reader.skip(4)?;
        let length = count.checked_mul(Chunk::LENGTH).ok_or(Malformed("ChunkCount"))?;
        Ok(CopyChunks { source, chunks: range(bytes, reader.position(), length, "ChunkCount")? })
    }

    /// How many chunks there are.
    pub fn count(&self) -> usize {
        self.chunks.len() / Chunk::LENGTH
    }

    /// The chunks.
    pub fn chunks(&self) -> impl Iterator<Item = Chunk> + 'a {
        self.chunks.chunks_exact(Chunk::LENGTH).filter_map(|bytes| Chunk::read(&mut Reader::new(bytes)).ok())
    }

    /// Appends a request to `out`.
    pub fn encode(source: &[u8; RESUME_KEY_BYTES], chunks: &[Chunk], out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.bytes(source);
        writer.u32(chunks.len() as u32);
        writer.u32(0);
        chunks.iter().for_each(|chunk| chunk.encode(out));
    }
}
