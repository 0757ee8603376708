//! Shared access signatures of the REST interface: whatever a URL says, reading it ends, and what has no end or has ended allows nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|parts: (&str, &str, i64)| {
    let (path, query, second) = parts;
    let allowed = azure::read_signature(path, query, second).is_some();
    assert!(
        !allowed || ["se=", "si="].iter().any(|name| query.to_lowercase().contains(name) || query.contains('%')),
        "{query}"
    );
    assert!(azure::read_signature(path, "sv=2026-10-06&sr=s&sp=r&se=1970-01-01", second.saturating_abs()).is_none());
});
