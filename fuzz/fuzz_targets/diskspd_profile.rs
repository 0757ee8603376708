//! Any bytes as a profile in XML: reading never panics, and what is understood survives being written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use load::diskspd::{profile_xml, report_text};

fuzz_target!(|input: &[u8]| {
    let Ok(profile) = profile_xml::read(input) else { return };
    let _ = report_text::profile_text("", &profile);
    let written = profile_xml::write(&profile);
    let again = profile_xml::read(written.as_bytes()).expect("what we write can be read");
    assert_eq!(profile_xml::write(&again), written);
});
