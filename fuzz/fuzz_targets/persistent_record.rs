//! Any bytes as the record of a persistent open, with a checksum that fits: reading never panics, and what is written reads the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use server::in_memory::rewritten_record;

fuzz_target!(|bytes: &[u8]| {
    if let Some(written) = rewritten_record(bytes) {
        assert_eq!(rewritten_record(&written), Some(written));
    }
});
