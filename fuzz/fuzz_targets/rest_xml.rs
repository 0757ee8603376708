//! Bodies that set up the file service or a share's policies: whatever they say, there are never more than five of either.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    let (rules, policies) = azure::counts(body);
    assert!(rules.is_none_or(|rules| rules <= 5) && policies.is_none_or(|policies| policies <= 5));
});
