//! What goes in and comes out of file system controls (MS-FSCC 2.3, MS-SMB2 2.2.31 and 2.2.32).

mod copychunk;
mod extents;
mod fixed;
mod interface;
mod negotiate;
mod pipe;
mod reparse;

pub use copychunk::{Chunk, CopyChunks, CopyChunksResult, RESUME_KEY_BYTES, ResumeKey};
pub use extents::{
    DuplicateExtents, DuplicateExtentsEx, LevelTrim, LevelTrimResult, Range, Region, RegionQuery, ZeroData,
    encode_ranges, encode_regions, ranges, regions,
};
pub use fixed::{Compression, Integrity, IntegrityState, ObjectId, Resiliency, decode_set_sparse, encode_set_sparse};
pub use interface::{Interface, InterfaceCapability, InterfaceWriter, interfaces};
pub use negotiate::{ValidateNegotiate, ValidateNegotiateResult};
pub use pipe::{PipePeek, PipeWait};
pub use reparse::{Reparse, ReparseTag, SYMLINK_FLAG_RELATIVE, Symlink, encode_symlink};
