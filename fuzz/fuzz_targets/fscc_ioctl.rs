//! Buffers of file system controls: the first byte chooses which.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::fscc::filesystem::{Attribute, Volume, decode_label};
use wire::fscc::ioctl::*;

fuzz_target!(|input: &[u8]| {
    let Some((which, bytes)) = input.split_first() else { return };
    match which {
        0 => {
            let Ok(copy) = CopyChunks::decode(bytes) else { return };
            let chunks: Vec<_> = copy.chunks().collect();
            assert_eq!(chunks.len(), copy.count());
            let mut out = Vec::new();
            CopyChunks::encode(&copy.source, &chunks, &mut out);
            assert_eq!(CopyChunks::decode(&out).map(|again| again.chunks().collect()), Ok(chunks));
        }
        1 => {
            let Ok(validation) = ValidateNegotiate::decode(bytes) else { return };
            validation.dialects().for_each(drop);
        }
        2 => interfaces(bytes).for_each(drop),
        3 => drop(ZeroData::decode(bytes)),
        4 => drop(Range::decode(bytes)),
        5 => drop(ranges(bytes).map(|ranges| ranges.for_each(drop))),
        6 => drop(DuplicateExtents::decode(bytes)),
        7 => drop(DuplicateExtentsEx::decode(bytes)),
        8 => drop(LevelTrim::decode(bytes).map(|trim| trim.ranges().for_each(drop))),
        9 => drop(PipeWait::decode(bytes)),
        10 => drop(regions(bytes).map(|regions| regions.for_each(drop))),
        11 => drop(Reparse::decode(bytes).map(|reparse| (reparse.symlink(), reparse.nfs_link(), reparse.lx_link()))),
        12 => drop(decode_set_sparse(bytes)),
        13 => drop(ResumeKey::decode(bytes)),
        14 => drop(Volume::decode(bytes)),
        15 => drop(Attribute::decode(bytes)),
        16 => drop(decode_label(bytes)),
        _ => drop(Resiliency::decode(bytes)),
    }
});
