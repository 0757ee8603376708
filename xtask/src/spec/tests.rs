use super::places::in_source;
use super::*;

#[test]
fn a_section_is_of_the_document_that_stands_before_it() {
    let source = "//! A READ (MS-SMB2 3.3.5.12, MS-FSA 2.1.5.3).\nfn f() {} // 3.3.5.9.7\nlet version = 1.2.3;\nmod tests {\n// 3.3.5.12\n";
    let found: Vec<_> = in_source("crates/server/src/read.rs", source)
        .iter()
        .map(|place| (place.section.to_string(), place.line, place.kind))
        .collect();
    assert_eq!(
        found,
        [
            ("MS-SMB2 3.3.5.12".to_owned(), 1, Kind::Enforced),
            ("MS-FSA 2.1.5.3".to_owned(), 1, Kind::Enforced),
            ("MS-SMB2 3.3.5.9.7".to_owned(), 2, Kind::Enforced),
            ("MS-SMB2 3.3.5.12".to_owned(), 5, Kind::Tested),
        ]
    );
    let range = in_source("crates/server/src/list.rs", "// 2.1.5.6.3.9 to 2.1.5.6.3.11, a class each");
    let range: Vec<_> = range.iter().map(|place| place.section.to_string()).collect();
    assert_eq!(range, ["MS-FSA 2.1.5.6.3.9", "MS-FSA 2.1.5.6.3.10", "MS-FSA 2.1.5.6.3.11"]);
    assert!(in_source("conformance/read.py", "# 3.3.5.12").iter().all(|place| place.kind == Kind::Tested));
}

#[test]
fn a_section_that_is_nowhere_needs_a_reason_and_one_that_is_enforced_has_none() {
    let places = in_source("crates/server/src/read.rs", "// 3.3.5.12");
    let rows = |reasons: &[(Section, &'static str)]| {
        ["MS-SMB2 3.3.5.12 READ", "MS-SMB2 3.3.5.13 WRITE"].map(|line| row(line, &places, reasons).unwrap())
    };
    assert_eq!(faults(&rows(&[])), ["MS-SMB2 3.3.5.13 WRITE is neither enforced anywhere nor in not_served.txt"]);
    assert!(faults(&rows(&[reason("MS-SMB2 3.3.5.13: why").unwrap()])).is_empty());
    let of_both = ["MS-SMB2 3.3.5.12: why", "MS-SMB2 3.3.5.13: why"].map(|line| reason(line).unwrap());
    assert_eq!(faults(&rows(&of_both)), ["MS-SMB2 3.3.5.12 READ is enforced, and in not_served.txt"]);
}

#[test]
fn a_section_has_those_below_it_and_no_other_that_begins_alike() {
    let of = |text| Section::parse(text).unwrap();
    assert!(of("3.3.5.9.7").is_within(&of("3.3.5.9")) && of("3.3.5.9").is_within(&of("3.3.5.9")));
    assert!(!of("3.3.5.10").is_within(&of("3.3.5.1")) && !of("MS-FSA 3.3.5.9").is_within(&of("3.3.5.9")));
    assert_eq!(Section::parse("READ").map(|section| section.to_string()), None);
}
