//! URLs of the REST interface: whatever they say, no name leads out of the share or to a stream.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|parts: (&str, &str, &str)| {
    let (host, path, query) = parts;
    for name in azure::names(host, path, query).unwrap_or_default() {
        assert!(!name.is_empty() && name != "." && name != "..", "{name:?}");
        assert!(!name.contains(['/', '\\', ':', '\0']), "{name:?}");
    }
});
