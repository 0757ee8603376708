//! Between the names on disk, which are bytes, and those that clients say.
//!
//! | on disk | clients see |
//! |---|---|
//! | one of `" * : < > ? \ \|`, a control character 0x01 to 0x1F | U+F000 + its code |
//! | a byte that is not UTF-8 | U+F000 + the byte (U+F080 to U+F0FF) |
//! | one of the characters above, as U+F0xx in UTF-8 | its three bytes as U+F000 + byte each |
//! | all else | itself |
//!
//! Both ways: what a client writes as U+F000 + code is stored as that code, so that Linux clients (`mapchars`) and
//! local programs see one name. U+F02F and U+F000 stand for nothing: `/` and NUL are in no name. The second mapping
//! that clients use for `:` and its like (U+F021 to U+F029 by position, `mapposix`) is stored as it is, but for
//! U+F022 and U+F02A, which stand for `"` and `*` here; either way a client reads back what it wrote.

use crate::fold;
use crate::path::{Name, SharePath};

/// The folder at a share's root that holds what does not fit beside a file. No client reaches a name like it, at any
/// depth.
pub(super) const RESERVED: &str = ".multilane";

/// The first character that stands for a byte.
const STAND_IN: u32 = 0xF000;

/// A name to be looked for.
pub(super) struct Wanted {
    /// As it would be stored.
    pub(super) disk: Vec<u8>,
    /// As it is shown once stored.
    pub(super) shown: String,
    /// As it compares.
    pub(super) folded: String,
}

impl Wanted {
    pub(super) fn new(name: &str) -> Self {
        let disk = to_disk(name);
        let shown = if has_stand_ins(name) { to_shown(&disk) } else { name.to_owned() };
        let folded = fold(&shown);
        Wanted { disk, shown, folded }
    }
}

/// What a name begins with that a file has for a moment, while it is put in the place of another. An id follows.
pub(super) const DRAFT: &str = ".multilane.";
/// The bytes of an id in such a name.
const DRAFT_ID_BYTES: usize = 32;

/// True for names that no client may use, as they would be stored: what stands for a byte counts as what it stands for.
pub(super) fn is_reserved(name: &str) -> bool {
    if has_stand_ins(name) { is_kept_back(&to_shown(&to_disk(name))) } else { is_kept_back(name) }
}

fn is_kept_back(name: &str) -> bool {
    name.starts_with('.') && (fold(name) == fold(RESERVED) || is_draft(name))
}

pub(super) fn is_draft(name: &str) -> bool {
    let id = name.get(..DRAFT.len()).filter(|start| fold(start) == fold(DRAFT)).and_then(|_| name.get(DRAFT.len()..));
    id.is_some_and(|id| id.len() == DRAFT_ID_BYTES && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// True where [`to_disk`] changes something.
pub(super) fn has_stand_ins(name: &str) -> bool {
    !name.is_ascii() && name.chars().any(|c| stands_for(c).is_some())
}

/// The bytes that a name is stored as, where clients say it so. A name that leads elsewhere, with `/` or NUL in it, stays one: who uses it as a path looks
/// for that first.
pub fn to_disk(name: &str) -> Vec<u8> {
    let mut disk = Vec::with_capacity(name.len());
    append_disk(&mut disk, name);
    disk
}

/// Appends the bytes that a name is stored as.
pub(super) fn append_disk(disk: &mut Vec<u8>, name: &str) {
    if !has_stand_ins(name) {
        disk.extend_from_slice(name.as_bytes());
        return;
    }
    for c in name.chars() {
        match stands_for(c) {
            Some(byte) => disk.push(byte),
            None => disk.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

/// The text that a stored name is shown as to clients: what Windows has not in names is said by private characters.
pub fn to_shown(disk: &[u8]) -> String {
    let mut shown = String::with_capacity(disk.len());
    for chunk in disk.utf8_chunks() {
        for c in chunk.valid().chars() {
            if is_forbidden(c) {
                shown.extend(char::from_u32(STAND_IN + u32::from(c)));
            } else if stands_for(c).is_some() {
                let mut bytes = [0; 4];
                shown.extend(c.encode_utf8(&mut bytes).bytes().filter_map(stand_in));
            } else {
                shown.push(c);
            }
        }
        shown.extend(chunk.invalid().iter().copied().filter_map(stand_in));
    }
    shown
}

/// The path that stored names, separated with `/`, are shown as.
pub(super) fn shown_path(disk: &[u8]) -> SharePath {
    let mut path = SharePath::root();
    disk.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).for_each(|name| path.push(&to_shown(name)));
    path
}

/// The name that a stored name is shown as; `None` for names that cannot be shown at all.
pub(super) fn to_name(disk: &[u8]) -> Option<Name> {
    Name::new(&to_shown(disk)).ok()
}

/// What clients cannot say, though a file may be called so.
fn is_forbidden(c: char) -> bool {
    matches!(c, '\u{1}'..='\u{1F}' | '"' | '*' | ':' | '<' | '>' | '?' | '\\' | '|')
}

fn stand_in(byte: u8) -> Option<char> {
    char::from_u32(STAND_IN + u32::from(byte))
}

/// The byte that a character stands for.
fn stands_for(c: char) -> Option<u8> {
    let code = u32::from(c).checked_sub(STAND_IN)?;
    let byte = u8::try_from(code).ok()?;
    (byte >= 0x80 || is_forbidden(char::from(byte))).then_some(byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn forbidden_characters_are_moved_and_found_again() {
        assert_eq!(to_shown(b"a:b"), "a\u{F03A}b");
        assert_eq!(to_disk("a\u{F03A}b"), b"a:b");
        assert_eq!(to_shown(b"\xFFx"), "\u{F0FF}x");
        assert_eq!(to_shown("\u{F03A}".as_bytes()), "\u{F0EF}\u{F080}\u{F0BA}");
        assert_eq!(to_shown("\u{F029}é ".as_bytes()), "\u{F029}é ");
    }

    #[test]
    fn no_character_stands_for_a_separator() {
        for name in ["\u{F02F}", "\u{F000}", "\u{F02E}\u{F02E}"] {
            assert_eq!(to_disk(name), name.as_bytes());
        }
    }

    #[test]
    fn the_reserved_name_is_reserved_in_any_case() {
        for name in [".multilane", ".MultiLane", ".MULTILANE"] {
            assert!(is_reserved(name));
        }
        assert!(!is_reserved("multilane") && !is_reserved(".multilane2"));
        // The bytes of a letter without a dot, whose upper case is I.
        assert!(is_reserved(".mult\u{F0C4}\u{F0B1}lane"));
        let draft = format!("{DRAFT}{:032x}", 7);
        assert!(is_reserved(&draft) && is_reserved(&draft.to_uppercase()));
        assert!(!is_reserved(&draft[1..]) && !is_reserved(&draft[..40]) && !is_reserved(".multilane.conf"));
    }

    proptest! {
        #[test]
        fn every_stored_name_comes_back(disk in proptest::collection::vec(1u8.., 1..80)) {
            let disk: Vec<u8> = disk.into_iter().filter(|byte| *byte != b'/').collect();
            prop_assume!(!disk.is_empty() && disk != b"." && disk != b"..");
            let name = to_name(&disk).unwrap();
            prop_assert_eq!(to_disk(name.as_str()), disk);
        }

        #[test]
        fn what_is_stored_is_never_a_path(name in "[^/\0]{1,20}") {
            let disk = to_disk(&name);
            prop_assert!(!disk.contains(&b'/') && !disk.contains(&0));
        }
    }
}
