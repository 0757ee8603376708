//! An SMB1 NEGOTIATE: what decodes survives a round trip.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::smb1::{SMB1_DIALECTS_MAX, Smb1Negotiate};

fuzz_target!(|message: &[u8]| {
    let Ok(negotiate) = Smb1Negotiate::decode(message) else { return };
    let dialects: Vec<&[u8]> = negotiate.dialects().collect();
    assert!(dialects.len() <= SMB1_DIALECTS_MAX);
    assert!(dialects.iter().all(|dialect| negotiate.offers(dialect)));
    let mut again = Vec::new();
    Smb1Negotiate::encode(&dialects, &mut again);
    assert_eq!(Smb1Negotiate::decode(&again), Ok(negotiate));
});
