//! Heads of requests of the REST interface, line by line: whatever they say, nobody is taken for somebody of an account that is not there, no source leads out
//! of a share, ranges have an order, and metadata an end.
#![no_main]

use libfuzzer_sys::fuzz_target;

const METADATA_BYTES_MAX: usize = 8 << 10;

fuzz_target!(|text: &str| {
    let mut lines = text.lines();
    let Some((method, url)) = lines.next().and_then(|line| line.split_once(' ')) else { return };
    let headers: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(": ")).collect();
    let Some(head) = azure::read_head(method, url, &headers) else { return };
    assert!(!head.is_proven, "{text}");
    for name in head.source.unwrap_or_default() {
        assert!(!name.is_empty() && name != "." && name != "..", "{name:?}");
        assert!(!name.contains(['/', '\\', ':', '\0']), "{name:?}");
    }
    assert!(head.range.is_none_or(|(first, last)| last.is_none_or(|last| first <= last)), "{text}");
    assert!(head.metadata_bytes <= METADATA_BYTES_MAX);
});
