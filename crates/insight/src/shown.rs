//! Texts that clients choose, so that terminals show them and do not obey them. The audit log, tables and `--json` have this one rule.

use std::io;

use serde_json::ser::Formatter;

/// True for characters that change what a terminal shows of others, or that it does not show at all.
pub fn is_obeyed(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// `text` for people, with such characters as `\u{202e}`.
pub fn printable(text: &str) -> String {
    let shown = |c: char| if is_obeyed(c) { c.escape_unicode().to_string() } else { c.to_string() };
    text.chars().map(shown).collect()
}

/// Bytes of a character in JSON that is [`Escaped`].
pub fn json_bytes(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        _ if is_obeyed(character) => 6 * character.len_utf16(),
        _ => character.len_utf8(),
    }
}

/// JSON as another formatter has it, in which such characters are escaped, too. JSON itself asks for that below U+0020 alone.
#[derive(Debug, Default)]
pub struct Escaped<F>(pub F);

impl<F: Formatter> Formatter for Escaped<F> {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, character)) = rest.char_indices().find(|(_, character)| is_obeyed(*character)) {
            self.0.write_string_fragment(out, &rest[..at])?;
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                write!(out, "\\u{unit:04x}")?;
            }
            rest = &rest[at + character.len_utf8()..];
        }
        self.0.write_string_fragment(out, rest)
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_array(out)
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array(out)
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, out: &mut W, is_first: bool) -> io::Result<()> {
        self.0.begin_array_value(out, is_first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array_value(out)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object(out)
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object(out)
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, out: &mut W, is_first: bool) -> io::Result<()> {
        self.0.begin_object_key(out, is_first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object_value(out)
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object_value(out)
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use serde_json::ser::{PrettyFormatter, Serializer};
    use serde_json::{Value, json};

    use super::*;

    /// What a terminal obeys or hides, each between letters.
    const ODD: &str =
        "a\u{7f}b\u{9b}c\u{61c}d\u{200b}e\u{200d}f\u{202e}g\u{2060}h\u{2069}i\u{206a}j\u{206f}k\u{feff}l\u{e0041}m";

    #[test]
    fn what_terminals_obey_is_shown() {
        let shown = printable(&format!("é写\u{1f600}{ODD}"));
        assert!(shown.starts_with("é写\u{1f600}a\\u{7f}b\\u{9b}c\\u{61c}d\\u{200b}") && !shown.contains(is_obeyed));
    }

    #[test]
    fn bytes_of_json_are_known_before_it_is_made() {
        for character in ('\0'..='\u{3000}').chain(ODD.chars()).chain(['\u{1f600}']) {
            let mut text = Vec::new();
            let mut serializer = Serializer::with_formatter(&mut text, Escaped(PrettyFormatter::new()));
            character.serialize(&mut serializer).unwrap();
            assert_eq!(json_bytes(character), text.len() - 2, "{character:?}");
        }
    }

    #[test]
    fn json_keeps_its_form_and_meaning() {
        let value = json!({ "list": [1, [], {}, ODD], ODD: { "a": null } });
        let mut text = Vec::new();
        value.serialize(&mut Serializer::with_formatter(&mut text, Escaped(PrettyFormatter::new()))).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(!text.contains(|character: char| character != '\n' && is_obeyed(character)), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert!(text.contains("\\u009b") && text.contains("\\udb40\\udc41"), "{text}");
        let plain = json!({ "list": [1, [], {}, "é"], "map": { "a": null } });
        let mut text = Vec::new();
        plain.serialize(&mut Serializer::with_formatter(&mut text, Escaped(PrettyFormatter::new()))).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), serde_json::to_string_pretty(&plain).unwrap());
    }
}
