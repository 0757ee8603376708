//! Names and paths inside a share.

use std::fmt;

use crate::{Error, effort};

/// One name in a directory, as clients see it: not empty, at most 255 UTF-16 units, none of `" * / : < > ? \ |` and
/// no control characters, not `.` or `..`.
///
/// A file that another program made with a name that clients cannot say is shown with the forbidden characters
/// moved to U+F000 + code (as Linux and macOS clients map them), and is found again by that name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

/// The most UTF-16 units in one name (MS-FSCC 2.1.5.2).
const NAME_UNITS_MAX: usize = 255;
/// The most UTF-16 units in a whole path: what fits a 16-bit length on the wire.
const PATH_UNITS_MAX: usize = 32_760;
/// So many names are checked while one of a path is followed.
const CHECKED_IN_STEP: usize = 8;

impl Name {
    /// Checks `text`.
    pub fn new(text: &str) -> Result<Self, Error> {
        Name::check(text)?;
        Ok(Name(text.to_owned()))
    }

    fn check(text: &str) -> Result<(), Error> {
        let is_forbidden =
            |byte: u8| byte < b' ' || matches!(byte, b'"' | b'*' | b'/' | b':' | b'<' | b'>' | b'?' | b'\\' | b'|');
        let is_bad = text.is_empty() || text == "." || text == ".." || is_longer(text, NAME_UNITS_MAX);
        if is_bad || text.bytes().any(is_forbidden) { Err(Error::NameInvalid) } else { Ok(()) }
    }

    /// The name's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A path from a share's root: names separated by `\`, empty for the root itself. Never absolute, never `..`.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct SharePath(String);

impl SharePath {
    /// The root.
    pub fn root() -> Self {
        SharePath::default()
    }

    /// The root, with room for so many bytes of names below it.
    pub(crate) fn with_room(bytes: usize) -> Self {
        SharePath(String::with_capacity(bytes))
    }

    /// Checks every name of `text`, which separates with `\`. A leading separator is [`Error::NameInvalid`]; doubled and
    /// trailing ones are passed over (MS-FSA 2.1.5.1 phase 3).
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.starts_with('\\') || is_longer(text, PATH_UNITS_MAX) {
            return Err(Error::NameInvalid);
        }
        let mut path = SharePath::with_room(text.len());
        let mut names = 0;
        for name in text.split('\\').filter(|name| !name.is_empty()) {
            Name::check(name)?;
            path.push(name);
            names += 1;
        }
        effort::note(names / CHECKED_IN_STEP);
        Ok(path)
    }

    /// The text, separated with `\`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True for the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The names in order, none for the root.
    pub fn names(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('\\').filter(|name| !name.is_empty())
    }

    /// The last name; `None` for the root.
    pub fn name(&self) -> Option<&str> {
        match self.0.rsplit_once('\\') {
            Some((_, name)) => Some(name),
            None => Some(self.0.as_str()).filter(|name| !name.is_empty()),
        }
    }

    /// The directory that holds the last name; `None` for the root.
    pub fn parent(&self) -> Option<SharePath> {
        if self.is_root() {
            return None;
        }
        Some(SharePath(self.0.rsplit_once('\\').map_or(String::new(), |(parent, _)| parent.to_owned())))
    }

    /// This path with one more name.
    pub fn join(&self, name: &Name) -> SharePath {
        if self.is_root() { SharePath(name.0.clone()) } else { SharePath(format!("{}\\{}", self.0, name.0)) }
    }

    /// Adds a name that is known to be good.
    pub(crate) fn push(&mut self, name: &str) {
        if !self.0.is_empty() {
            self.0.push('\\');
        }
        self.0.push_str(name);
    }

    /// True where `self` is `other` or lies below it, whatever the case.
    pub fn is_within(&self, other: &SharePath) -> bool {
        if self.0 == other.0 {
            return true;
        }
        let mut mine = self.names();
        other.names().all(|name| mine.next().is_some_and(|own| fold(own) == fold(name)))
    }
}

/// True where `text` has more UTF-16 units than that. It never has more of these than bytes.
fn is_longer(text: &str, units_max: usize) -> bool {
    text.len() > units_max && text.encode_utf16().count() > units_max
}

/// The form in which names compare: upper case by simple mapping, as Windows compares them.
pub fn fold(name: &str) -> String {
    if name.is_ascii() {
        return name.to_ascii_uppercase();
    }
    let upper = |c: char| {
        let mut mapped = c.to_uppercase();
        match (mapped.next(), mapped.next()) {
            (Some(one), None) => one,
            _ => c,
        }
    };
    name.chars().map(upper).collect()
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SharePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl fmt::Display for SharePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\\{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_names_are_refused() {
        for bad in ["", ".", "..", "a:b", "a/b", "a*", "a\u{1}", "\u{0}", "a\\b", "a?", "a|", "a\""] {
            assert_eq!(Name::new(bad).err(), Some(Error::NameInvalid), "{bad:?}");
        }
        assert!(Name::new(&"x".repeat(255)).is_ok());
        assert!(Name::new(&"x".repeat(256)).is_err());
    }

    #[test]
    fn a_path_of_many_names_costs_who_asks_for_it_more() {
        let steps = |names: usize| effort::of(|| SharePath::parse(&vec!["a"; names].join("\\")).unwrap()).1;
        assert_eq!((steps(3), steps(16_000)), (0, 2_000));
    }

    #[test]
    fn paths_split_and_join() {
        let path = SharePath::parse("a\\B\\c").unwrap();
        assert_eq!(path.name(), Some("c"));
        assert_eq!(path.parent().unwrap().as_str(), "a\\B");
        assert_eq!(SharePath::parse("a").unwrap().parent(), Some(SharePath::root()));
        assert_eq!(SharePath::root().join(&Name::new("x").unwrap()).as_str(), "x");
        assert!(path.is_within(&SharePath::parse("A\\b").unwrap()));
        assert!(!path.is_within(&SharePath::parse("A\\bb").unwrap()));
        assert_eq!(SharePath::parse("a\\\\b\\\\\\c\\\\").unwrap().as_str(), "a\\b\\c");
        for bad in ["\\a", "\\\\a", "a\\..\\b", ".."] {
            assert!(SharePath::parse(bad).is_err(), "{bad:?}");
        }
    }
}
