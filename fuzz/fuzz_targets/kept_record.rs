//! Any bytes as what is kept with a file, its descriptor behind it: reading never panics, and what is written reads the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use store::rewritten_record;

fuzz_target!(|bytes: &[u8]| {
    if let Some(written) = rewritten_record(bytes) {
        assert_eq!(rewritten_record(&written), Some(written));
    }
});
