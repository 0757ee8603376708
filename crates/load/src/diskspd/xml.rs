//! XML: documents as trees with the line that each element begins on, and text that is written element by element.

use std::fmt::Display;

use quick_xml::XmlVersion;
use quick_xml::escape::{escape, resolve_predefined_entity};
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::reader::Reader;

/// Bytes of a document: a profile takes a thousand for each target.
pub(super) const DOCUMENT_BYTES_MAX: usize = 16 << 20;
/// Elements within elements: twice as many as a profile has.
const DEPTH_MAX: usize = 16;
/// Elements of a document.
const ELEMENTS_MAX: usize = 500_000;
/// What XML has for blanks.
const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

/// An element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) name: String,
    /// Where it begins, from 1.
    pub(super) line: usize,
    pub(super) attributes: Vec<(String, String)>,
    pub(super) children: Vec<Element>,
    /// The text directly in it, without the blanks at its ends that are not written as references.
    pub(super) text: String,
    /// Bytes of the text up to the end of its last reference.
    referred: usize,
}

impl Element {
    fn literal(&mut self, text: &str) {
        self.text += if self.text.is_empty() { text.trim_start_matches(BLANKS) } else { text };
    }

    fn reference(&mut self, text: &str) {
        self.text += text;
        self.referred = self.text.len();
    }

    fn ended(mut self) -> Self {
        let bytes = self.text.trim_end_matches(BLANKS).len().max(self.referred);
        self.text.truncate(bytes);
        self
    }
}

/// What is wrong with a document, and on which line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) line: usize,
    pub(super) what: String,
}

/// Reads a document in UTF-8, or in UTF-16 with a byte order mark; gives its outermost element.
pub(super) fn read(document: &[u8]) -> Result<Element, Fault> {
    let fault = |line, what: &str| Fault { line, what: what.to_owned() };
    if document.len() > DOCUMENT_BYTES_MAX {
        return Err(fault(1, "the document is longer than 16 MiB"));
    }
    let text = decoded(document).ok_or_else(|| fault(1, "the document is neither UTF-8 nor UTF-16"))?;
    let mut reader = Reader::from_str(&text);
    let mut lines = Lines { text: &text, position: 0, line: 1 };
    // The first holds the outermost element, the others those that have begun and not ended.
    let mut open = vec![Element::default()];
    let mut elements = 0;
    loop {
        let event = reader.read_event();
        let line = lines.at(reader.buffer_position());
        let event = event.map_err(|cause| Fault { line, what: format!("this is no XML: {cause}") })?;
        if matches!(event, Event::Start(_) | Event::Empty(_)) {
            elements += 1;
            if open.len() > DEPTH_MAX || elements > ELEMENTS_MAX {
                return Err(fault(line, "there are more elements than a profile has"));
            }
        }
        let Some(here) = open.last_mut() else { break };
        match event {
            Event::Start(start) => open.push(element(&start, line)?),
            Event::Empty(start) => here.children.push(element(&start, line)?),
            Event::End(_) => {
                let ended = open.pop().unwrap_or_default();
                open.last_mut()
                    .ok_or_else(|| fault(line, "an element ends that has not begun"))?
                    .children
                    .push(ended.ended());
            }
            Event::Text(text) => here.literal(&text.xml10_content()),
            Event::CData(text) => here.literal(&text.xml10_content()),
            Event::GeneralRef(reference) => here.reference(&resolved(&reference, line)?),
            Event::DocType(_) => return Err(fault(line, "a document type declaration has no place in a profile")),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
            Event::Eof => break,
        }
    }
    match (<[Element; 1]>::try_from(open), lines.line) {
        (Ok([mut document]), line) => match (document.children.pop(), document.children.len()) {
            (Some(outermost), 0) => Ok(outermost),
            _ => Err(fault(line, "the document has not exactly one outermost element")),
        },
        (Err(_), line) => Err(fault(line, "the document ends before its elements do")),
    }
}

/// Counts lines up to positions that only grow.
struct Lines<'a> {
    text: &'a str,
    position: usize,
    line: usize,
}

impl Lines<'_> {
    fn at(&mut self, position: u64) -> usize {
        let position = usize::try_from(position).unwrap_or(usize::MAX).min(self.text.len());
        let passed = self.text.as_bytes().get(self.position..position).unwrap_or_default();
        self.line += passed.iter().filter(|byte| **byte == b'\n').count();
        self.position = position.max(self.position);
        self.line
    }
}

fn decoded(document: &[u8]) -> Option<String> {
    let wide = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let (pairs, rest) = bytes.as_chunks::<2>();
        let units: Vec<u16> = pairs.iter().map(|pair| unit(*pair)).collect();
        rest.is_empty().then(|| String::from_utf16(&units).ok()).flatten()
    };
    match document {
        [0xFF, 0xFE, rest @ ..] => wide(rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => wide(rest, u16::from_be_bytes),
        [0xEF, 0xBB, 0xBF, rest @ ..] | rest => String::from_utf8(rest.to_vec()).ok(),
    }
}

fn element(start: &BytesStart<'_>, line: usize) -> Result<Element, Fault> {
    let wrong = |cause: &dyn Display| Fault { line, what: format!("an attribute is no XML: {cause}") };
    let mut attributes = Vec::new();
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|cause| wrong(&cause))?;
        let value = attribute.normalized_value(XmlVersion::Implicit1_0).map_err(|cause| wrong(&cause))?;
        attributes.push((attribute.key.0.to_owned(), value.into_owned()));
    }
    Ok(Element { name: start.name().0.to_owned(), line, attributes, ..Element::default() })
}

fn resolved(reference: &BytesRef<'_>, line: usize) -> Result<String, Fault> {
    let name = reference.xml10_content();
    let character = reference.resolve_char_ref().ok().flatten().map(String::from);
    let known = character.or_else(|| resolve_predefined_entity(&name).map(str::to_owned));
    known.ok_or_else(|| Fault { line, what: format!("nothing is known of &{name};") })
}

/// Text that grows by elements, each on a line of its own.
#[derive(Debug, Default)]
pub(super) struct Writer {
    text: String,
    depth: usize,
}

impl Writer {
    /// Begins an element that holds others.
    pub(super) fn open(&mut self, name: &str) {
        self.open_with(name, &[]);
    }

    /// The same, with attributes.
    pub(super) fn open_with(&mut self, name: &str, attributes: &[(&str, String)]) {
        self.line(&format!("<{name}{}>", attributes_text(attributes)));
        self.depth += 1;
    }

    /// Ends the element that was begun last.
    pub(super) fn close(&mut self, name: &str) {
        self.depth = self.depth.saturating_sub(1);
        self.line(&format!("</{name}>"));
    }

    /// An element with a value.
    pub(super) fn value(&mut self, name: &str, value: impl Display) {
        self.value_with(name, &[], value);
    }

    /// The same, with attributes.
    pub(super) fn value_with(&mut self, name: &str, attributes: &[(&str, String)], value: impl Display) {
        self.line(&format!("<{name}{}>{}</{name}>", attributes_text(attributes), with_its_ends(&value.to_string())));
    }

    /// An element with attributes and nothing in it.
    pub(super) fn empty(&mut self, name: &str, attributes: &[(&str, String)]) {
        self.line(&format!("<{name}{}/>", attributes_text(attributes)));
    }

    /// All that was written.
    pub(super) fn text(self) -> String {
        self.text
    }

    fn line(&mut self, line: &str) {
        self.text.extend(std::iter::repeat_n("  ", self.depth));
        self.text += line;
        self.text.push('\n');
    }
}

fn attributes_text(attributes: &[(&str, String)]) -> String {
    attributes.iter().map(|(name, value)| format!(" {name}=\"{}\"", safe(value))).collect()
}

/// What XML has no place for becomes a replacement character; the rest is escaped where it must be, and where a reader would
/// take a carriage return for a line feed.
fn safe(value: &str) -> String {
    let has_place = |c: char| matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{FFFD}' | '\u{10000}'..);
    let value: String = value.chars().map(|c| if has_place(c) { c } else { char::REPLACEMENT_CHARACTER }).collect();
    escape(value).replace('\r', "&#13;")
}

/// The same, for a value that is trimmed when it is read: the blanks at its ends become references.
fn with_its_ends(value: &str) -> String {
    let rest = value.trim_start_matches(BLANKS);
    let inner = rest.trim_end_matches(BLANKS);
    let (before, after) = (&value[..value.len() - rest.len()], &rest[inner.len()..]);
    let references = |blanks: &str| blanks.chars().map(|blank| format!("&#{};", u32::from(blank))).collect::<String>();
    references(before) + &safe(inner) + &references(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_become_trees() {
        let text = "<?xml version=\"1.0\"?>\n<!-- x -->\n<A b=\"1 &amp; 2\">\n  <B>x &lt; &#x41;<![CDATA[<]]></B>\n  <C/>\n</A>\n";
        let wide: Vec<u8> = [0xFF, 0xFE].into_iter().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect();
        let big: Vec<u8> = [0xFE, 0xFF].into_iter().chain(text.encode_utf16().flat_map(u16::to_be_bytes)).collect();
        let marked = [b"\xEF\xBB\xBF", text.as_bytes()].concat();
        for document in [text.as_bytes(), &wide, &big, &marked] {
            let tree = read(document).unwrap();
            assert_eq!(
                (tree.name.as_str(), tree.line, &tree.attributes[..]),
                ("A", 3, &[("b".into(), "1 & 2".into())][..])
            );
            let names: Vec<(&str, usize, &str)> =
                tree.children.iter().map(|child| (child.name.as_str(), child.line, child.text.as_str())).collect();
            assert_eq!(names, [("B", 4, "x < A<"), ("C", 5, "")]);
        }
    }

    #[test]
    fn what_is_no_document_is_refused_with_its_line() {
        for (document, line) in [
            ("", 1),
            ("x", 1),
            ("<A>\n</B>", 2),
            ("<A>\n<B>\n</B>", 3),
            ("<A/>\n<B/>", 2),
            ("<A b=1/>", 1),
            ("<A>\n&x;</A>", 2),
            ("<!DOCTYPE a [\n<!ENTITY x \"y\">]><a>&x;</a>", 2),
            ("</A>", 1),
        ] {
            assert_eq!(read(document.as_bytes()).unwrap_err().line, line, "{document}");
        }
        assert!(read(b"<A>\xFF</A>").is_err() && read(b"\xFF\xFEx").is_err());
        assert!(read("<A>".repeat(DEPTH_MAX + 1).as_bytes()).unwrap_err().what.contains("more elements"));
        assert!(read(&vec![b' '; DOCUMENT_BYTES_MAX + 1]).is_err());
    }

    #[test]
    fn blanks_at_the_ends_of_a_value_survive() {
        for value in [" f", "f ", "\t a b \r", " ", "\u{A0}f\u{A0}", ""] {
            let mut writer = Writer::default();
            writer.value("A", value);
            assert_eq!(read(writer.text().as_bytes()).unwrap().text, value, "{value:?}");
        }
        assert_eq!(read(b"<A>\n  <B/> x &amp;\n</A>").unwrap().text, "x &");
    }

    #[test]
    fn values_are_escaped() {
        let mut writer = Writer::default();
        writer.open("A");
        writer.value("B", "<&\"\r\u{1}");
        writer.empty("C", &[("d", "<'>".into())]);
        writer.close("A");
        let text = writer.text();
        assert_eq!(text, "<A>\n  <B>&lt;&amp;&quot;&#13;\u{FFFD}</B>\n  <C d=\"&lt;&apos;&gt;\"/>\n</A>\n");
        assert_eq!(read(text.as_bytes()).unwrap().children[0].text, "<&\"\r\u{FFFD}");
    }
}
