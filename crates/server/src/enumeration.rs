//! Where a QUERY_DIRECTORY stands on one open: the names that matched when the scan began, and which of them are left
//! (MS-FSA 2.1.5.6.3).

use store::{Error, Metadata, Name, Resolved, SharePath, Store, Use, fold};
use wire::fscc::pattern::{Pattern, has_wildcards};
use wire::status::Status;

use crate::open::FileOpen;
use crate::refusal::Refusal;

/// Names that a scan holds at a time; those of a larger directory are read again when these have been told.
const HELD_NAMES_MAX: usize = 65_536;

/// A scan of one directory. Its names are a snapshot, so that what is made and removed meanwhile moves nothing; what is known of them
/// is looked up when they are told.
pub(crate) struct Enumeration {
    text: String,
    pattern: Pattern,
    /// What has not been told, the next one last.
    left: Vec<Listed>,
    /// The last name that was told or is held, folded, where more follow it.
    more_after: Option<String>,
}

/// One line of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Listed {
    /// `.`: the directory itself.
    Itself,
    /// `..`: the directory above, and of the root the root itself.
    Above,
    /// What is in it.
    Name(Name),
}

impl Enumeration {
    /// Lists what `text` means in the directory of `file`, all of it where `text` is empty. May wait for the store.
    pub(crate) fn start(store: &dyn Store, file: &FileOpen, text: &str) -> Result<Self, Refusal> {
        let text = if text.is_empty() { "*" } else { text };
        let pattern = pattern(text)?;
        let mut scan = Enumeration { text: text.to_owned(), pattern, left: Vec::new(), more_after: None };
        let found = names(store, file, &scan.pattern, text)?;
        scan.hold(found, HELD_NAMES_MAX);
        for special in [Listed::Above, Listed::Itself] {
            if scan.pattern.matches(special.name(), upper) {
                scan.left.push(special);
            }
        }
        Ok(scan)
    }

    /// The pattern it was started with.
    pub(crate) fn pattern(&self) -> &str {
        &self.text
    }

    /// The next name. May wait for the store.
    pub(crate) fn next(&mut self, store: &dyn Store, file: &FileOpen) -> Result<Option<&Listed>, Refusal> {
        if self.left.is_empty()
            && let Some(after) = self.more_after.take()
        {
            let mut found = names(store, file, &self.pattern, &self.text)?;
            found.retain(|name| fold(name.as_str()) > after);
            self.hold(found, HELD_NAMES_MAX);
        }
        Ok(self.left.last())
    }

    /// Goes on behind the next name.
    pub(crate) fn advance(&mut self) {
        self.left.pop();
    }

    /// Takes the first `count_max` of what was found, in the order of NTFS: by name, in upper case.
    fn hold(&mut self, mut found: Vec<Name>, count_max: usize) {
        found.sort_by_cached_key(|name| fold(name.as_str()));
        if found.len() > count_max {
            found.truncate(count_max);
            self.more_after = found.last().map(|name| fold(name.as_str()));
        }
        self.left = found.into_iter().rev().map(Listed::Name).collect();
    }
}

impl Listed {
    /// How it is called in the listing.
    pub(crate) fn name(&self) -> &str {
        match self {
            Listed::Itself => ".",
            Listed::Above => "..",
            Listed::Name(name) => name.as_str(),
        }
    }

    /// What is known of it. May wait for the store. `None`: it has gone.
    pub(crate) fn metadata(&self, store: &dyn Store, file: &FileOpen) -> Option<Metadata> {
        let known = match self {
            Listed::Itself => file.node.metadata(),
            Listed::Above => above(store, file).or_else(|_| file.node.metadata()),
            Listed::Name(name) => file.node.entry_metadata(name),
        };
        match known {
            Ok(known) => Some(known),
            Err(Error::NotFound) => None,
            Err(error) => {
                tracing::debug!(%error, "a name is left out of a listing");
                None
            }
        }
    }
}

/// Checks a pattern: a name, wildcards allowed (MS-FSA 2.1.5.6.3).
fn pattern(text: &str) -> Result<Pattern, Status> {
    let forbidden = |c: char| c < ' ' || matches!(c, '/' | '\\' | ':' | '|');
    if text.contains(forbidden) {
        return Err(Status::OBJECT_NAME_INVALID);
    }
    Pattern::new(text, upper).ok_or(Status::OBJECT_NAME_INVALID)
}

/// The names that match, in no order. One that is asked for by its whole name is looked up: clients do so for every file they open.
fn names(store: &dyn Store, file: &FileOpen, pattern: &Pattern, text: &str) -> Result<Vec<Name>, Error> {
    if !has_wildcards(text) {
        let Ok(name) = Name::new(text) else { return Ok(Vec::new()) };
        let path = file.path.lock().join(&name);
        match store.resolve(&path, Use::Metadata) {
            Ok(Resolved::Found { path, .. }) => {
                return Ok(path.name().map(Name::new).transpose()?.into_iter().collect());
            }
            Ok(Resolved::Missing { .. }) => return Ok(Vec::new()),
            // The directory is not where it was: another program moved it.
            Err(_) => {}
        }
    }
    let entries = file.node.entries()?;
    let all = pattern.matches_everything();
    Ok(entries
        .into_iter()
        .map(|entry| entry.name)
        .filter(|name| all || pattern.matches(name.as_str(), upper))
        .collect())
}

fn above(store: &dyn Store, file: &FileOpen) -> Result<Metadata, Error> {
    let path = file.path.lock().parent().unwrap_or_else(SharePath::root);
    match store.resolve(&path, Use::Metadata)? {
        Resolved::Found { node, .. } => node.metadata(),
        Resolved::Missing { .. } => Err(Error::NotFound),
    }
}

/// The form in which characters compare, as in [`fold`].
fn upper(c: char) -> char {
    let mut mapped = c.to_uppercase();
    match (mapped.next(), mapped.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_may_hold_wildcards_but_no_separators() {
        for good in ["*", "*.txt", "a?c", "<.\"", ".", "..", "name"] {
            assert!(pattern(good).is_ok(), "{good}");
        }
        for bad in ["a\\b", "a/b", "a:b", "a|b", "a\u{1}b"] {
            assert_eq!(pattern(bad).err(), Some(Status::OBJECT_NAME_INVALID), "{bad}");
        }
        assert!(pattern(&"x".repeat(10_000)).is_err());
    }

    #[test]
    fn names_that_are_too_many_are_held_in_parts() {
        let pattern = pattern("*").unwrap();
        let mut scan = Enumeration { text: "*".into(), pattern, left: Vec::new(), more_after: None };
        let found = ["c", "B", "a"].map(|name| Name::new(name).unwrap());
        scan.hold(found.to_vec(), 2);
        assert_eq!(scan.left.iter().rev().map(Listed::name).collect::<Vec<_>>(), ["a", "B"]);
        assert_eq!(scan.more_after.as_deref(), Some("B"));
        scan.more_after = None;
        scan.hold(found.to_vec(), 3);
        assert_eq!((scan.left.len(), scan.more_after), (3, None));
    }

    #[test]
    fn characters_compare_as_names_do() {
        for c in ['a', 'ß', 'é', 'ǆ', 'ÿ', '\u{1f600}', 'Z'] {
            assert_eq!(upper(c).to_string(), fold(&c.to_string()));
        }
    }
}
