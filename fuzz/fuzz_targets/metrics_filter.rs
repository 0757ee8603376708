//! Any text is a filter of metrics or is refused with a sentence.
#![no_main]

use insight::monitor::Filter;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match Filter::parse(text) {
        Ok(filter) => assert!(filter.dimensions().count() > 0),
        Err(refused) => assert!(!refused.to_string().is_empty()),
    }
});
