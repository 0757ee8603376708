//! Security descriptors as text: what is read can be written, and is then the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::security::SecurityDescriptor;

fuzz_target!(|text: &str| {
    let Ok(descriptor) = SecurityDescriptor::from_sddl(text) else { return };
    let written = descriptor.to_sddl().expect("what was read can be written");
    let again = SecurityDescriptor::from_sddl(&written).expect("what was written can be read");
    assert_eq!(again, descriptor);
    if let Some(bytes) = descriptor.encode() {
        let decoded = SecurityDescriptor::decode(&bytes).expect("what was encoded can be decoded");
        assert_eq!(decoded.to_sddl(), Some(written));
    }
});
