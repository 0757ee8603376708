//! What Macs keep in AFP_AfpInfo: as a stream holds it, as a client overwrites it, and as an entry of a directory tells of it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::fscc::afp::{AfpInfo, AppleFinder};
use wire::fscc::directory::apple_entry;

fuzz_target!(|input: &[u8]| {
    if let Ok(info) = AfpInfo::decode(input) {
        assert_eq!(AfpInfo::decode(&info.to_bytes()), Ok(info));
        assert_eq!(info.overwritten(&info.to_bytes()), Ok(info));
        let told = AppleFinder::of(Some(&info), false, 0);
        assert!(!info.is_blank() || told == AppleFinder::default());
    }
    if let Ok(info) = AfpInfo::blank().overwritten(input) {
        let taken = input.len().min(AfpInfo::LENGTH);
        assert_eq!(info.to_bytes()[..taken], input[..taken]);
    }
    let _ = apple_entry(input);
});
