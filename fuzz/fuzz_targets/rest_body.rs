//! Bodies of the REST and the management interface in JSON, those that ask for a key, and what is kept of a file, which SMB clients may write: all are read
//! or refused, and what is kept stays the same when it is written again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    assert!(azure::read_body(body));
});
