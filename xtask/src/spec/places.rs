//! Where sources name sections of a specification.

use std::fmt;
use std::fs;
use std::path::Path;

use crate::run;

/// Folders whose sources are read.
const FOLDERS: [&str; 2] = ["crates", "conformance"];

/// A section of one document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    document: String,
    number: String,
}

/// What a place does with the section that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Enforced,
    Tested,
}

/// A line that names a section.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) section: Section,
    pub(super) kind: Kind,
    /// Below the repository's folder.
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) text: String,
}

impl Section {
    /// Of `MS-FSA 2.1.5.3`, or of a number alone, which is of MS-SMB2 or, where it begins with 2.1., of MS-FSA.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (document, number) = match text.trim().split_once(' ') {
            Some((document, number)) => (document, number),
            None => (document_of(text.trim()), text.trim()),
        };
        let is_number = number.contains('.') && number.split('.').all(|part| part.parse::<u16>().is_ok());
        (is_number && document.starts_with("MS-"))
            .then(|| Section { document: document.to_owned(), number: number.to_owned() })
    }

    /// Those between `first` and this one, of the same section above both.
    fn after(&self, first: &Section) -> Vec<Section> {
        let last_part = |of: &Section| {
            of.number.rsplit_once('.').and_then(|(above, last)| Some((above.to_owned(), last.parse::<u16>().ok()?)))
        };
        match (last_part(first), last_part(self)) {
            (Some((above, from)), Some((same, to))) if above == same && first.document == self.document => (from + 1
                ..to)
                .map(|part| Section { document: self.document.clone(), number: format!("{above}.{part}") })
                .collect(),
            _ => Vec::new(),
        }
    }

    /// True for the section itself and those below it.
    pub(super) fn is_within(&self, other: &Section) -> bool {
        let below = self.number.strip_prefix(&other.number);
        self.document == other.document && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.document, self.number)
    }
}

impl Place {
    /// Test files that belong to the file: `name/tests.rs`, `name_tests.rs`, `tests.rs` of its folder where it is a `mod.rs`, and itself where it has
    /// tests.
    pub(super) fn tests_beside(&self, root: &Path) -> Vec<String> {
        let stem = self.path.strip_suffix(".rs").unwrap_or(&self.path);
        let folder = stem.strip_suffix("/mod").unwrap_or(stem);
        let candidates = [format!("{folder}/tests.rs"), format!("{folder}_tests.rs"), format!("{folder}/tests/mod.rs")];
        let mut tests: Vec<String> = candidates.into_iter().filter(|path| root.join(path).exists()).collect();
        if fs::read_to_string(root.join(&self.path)).is_ok_and(|text| text.contains("#[test]")) {
            tests.push(self.path.clone());
        }
        tests
    }
}

/// The document that a number without one is of.
fn document_of(number: &str) -> &'static str {
    if number.starts_with("2.1.") { "MS-FSA" } else { "MS-SMB2" }
}

/// All places below the repository's folder, in the order of their paths.
pub(super) fn gather(root: &Path) -> Vec<Place> {
    let sources = FOLDERS.iter().flat_map(|folder| run::sources(&root.join(folder), &["rs", "py"]));
    let mut places: Vec<Place> = sources
        .flat_map(|(path, text)| in_source(&path.strip_prefix(root).unwrap_or(&path).to_string_lossy(), &text))
        .collect();
    places.sort_by(|one, other| (&one.path, one.line).cmp(&(&other.path, other.line)));
    places
}

/// The places in one source.
pub(super) fn in_source(path: &str, text: &str) -> Vec<Place> {
    let is_test_file = path.starts_with("conformance/") || path.contains("tests") || path.contains("/testing");
    let tests_begin = text.lines().position(|line| line.trim() == "mod tests {").unwrap_or(usize::MAX);
    let mut places = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let kind = if is_test_file || number > tests_begin { Kind::Tested } else { Kind::Enforced };
        for section in sections_of(line) {
            let text = line.trim().trim_start_matches(['/', '!', '#', ' ']).to_owned();
            places.push(Place { section, kind, path: path.to_owned(), line: number + 1, text });
        }
    }
    places
}

/// The sections that a comment names. A number belongs to the document named last before it in the line.
fn sections_of(line: &str) -> Vec<Section> {
    let comment = line.find("//").or_else(|| line.find('#')).or_else(|| line.find("\"\"\""));
    let text = comment.map_or("", |start| &line[start..]);
    let (mut document, mut sections, mut before) = (None, Vec::new(), "");
    for word in text.split(|letter: char| !letter.is_ascii_alphanumeric() && !matches!(letter, '.' | '-')) {
        let word = word.trim_matches(['.', '-']);
        if word.starts_with("MS-") {
            document = Some(word);
        } else if word.matches('.').count() >= 2
            && let Some(section) = Section::parse(&format!("{} {word}", document.unwrap_or(document_of(word))))
        {
            if before == "to" {
                sections.extend(sections.last().map(|first| section.after(first)).unwrap_or_default());
            }
            sections.push(section);
        }
        if !word.is_empty() {
            before = word;
        }
    }
    sections
}
