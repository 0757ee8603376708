//! Where a QUERY_DIRECTORY stands on one open (MS-FSA 2.1.5.6.3).
//!
//! A directory of up to [`SORTED_NAMES_MAX`] names is read when its listing begins, and told in the order of NTFS: by name, in upper
//! case. A larger one is told in the order of its file system, piece by piece, and nothing of it is kept between two requests but
//! the place. So is a small one whose names the user's budget has no room for.

use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use store::{Cursor, Error, Metadata, Name, Node, Resolved, SharePath, Store, Use, fold};
use tokio::sync::{Mutex, OwnedMutexGuard, TryLockError};
use wire::fscc::pattern::{Pattern, has_wildcards};
use wire::status::Status;

use crate::resource::budget::Charge;
use crate::resource::budgets::UserBudgets;
use crate::state::open_path::OpenPath;
use crate::state::refusal::Refusal;

/// The most names of a directory that is told in order.
const SORTED_NAMES_MAX: usize = 4_096;
/// The most looks at its directory that such a one takes: there may be many names in it that are not shown.
const SORTED_PIECES_MAX: usize = 64;
/// What a listing costs besides its pattern and names.
const LISTING_BYTES: u64 = 384;
/// What a name that is held costs besides its letters.
const NAME_BYTES: u64 = 48;
/// What a look at a directory costs that shows nothing, in names.
const PIECE_COST: usize = 256;

/// The listing of one open. Requests on it are answered one after the other, in the order of their coming.
#[derive(Default)]
pub(crate) struct Listing(OnceLock<Arc<Mutex<Option<Enumeration>>>>);

/// An open directory that is listed.
#[derive(Clone, Copy)]
pub(crate) struct Directory<'a> {
    pub(crate) node: &'a dyn Node,
    /// Where it stands.
    pub(crate) path: &'a OpenPath,
}

/// The turn of one request.
pub(crate) type Turn = OwnedMutexGuard<Option<Enumeration>>;

impl Listing {
    /// Waits for those who came before.
    pub(crate) async fn turn(&self) -> Turn {
        Arc::clone(self.0.get_or_init(Arc::default)).lock_owned().await
    }

    /// The same where nobody came before.
    pub(crate) fn try_turn(&self) -> Result<Turn, TryLockError> {
        Arc::clone(self.0.get_or_init(Arc::default)).try_lock_owned()
    }
}

/// A scan of one directory. What is known of the names is looked up when they are told.
pub(crate) struct Enumeration {
    text: String,
    pattern: Pattern,
    /// `.` and `..`, where they match and have not been told, the next one last.
    special: Vec<Listed>,
    source: Source,
    _charge: Charge,
}

/// Where the names come from.
enum Source {
    /// Nothing has been read.
    Unread,
    /// Names in order, the next one last.
    Held { left: Vec<Listed>, charge: Charge },
    /// The directory itself.
    Streamed(Cursor),
    /// There are no more.
    Ended,
}

/// How far a request may go on without a pause.
pub(crate) struct Slice {
    /// Names that are looked at.
    pub(crate) names: usize,
    /// Names of which more than that is looked up.
    pub(crate) lookups: usize,
}

/// Why no more names were told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The last one was not taken.
    NotTaken,
    /// The slice is used up.
    Paused,
    /// There are no more.
    Ended,
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

/// Takes a name, or leaves it to be the next one.
type Take<'a> = &'a mut dyn FnMut(&Listed, &mut Slice) -> ControlFlow<()>;

impl Enumeration {
    /// Begins to list what `text` means, everything where it is empty.
    pub(crate) fn new(text: &str, budgets: &UserBudgets) -> Result<Self, Refusal> {
        let text = if text.is_empty() { "*" } else { text };
        let pattern = pattern(text)?;
        // Stars in a row mean no more than one, and there may be any number of them.
        let mut kept = text.to_owned();
        while kept.contains("**") {
            kept = kept.replace("**", "*");
        }
        let bytes = LISTING_BYTES + 5 * kept.len() as u64;
        let charge = budgets.lasting.charge(bytes).ok_or(Status::INSUFFICIENT_RESOURCES)?;
        let mut special = vec![Listed::Above, Listed::Itself];
        special.retain(|listed| pattern.matches(listed.name(), upper));
        Ok(Enumeration { text: kept, pattern, special, source: Source::Unread, _charge: charge })
    }

    /// The pattern it was started with.
    pub(crate) fn pattern(&self) -> &str {
        &self.text
    }

    /// True where a directory has been read, or need not be.
    pub(crate) fn is_under_way(&self) -> bool {
        !matches!(self.source, Source::Unread)
    }

    /// True where the directory is a large one, of which some was told.
    pub(crate) fn is_streamed(&self) -> bool {
        matches!(self.source, Source::Streamed(_))
    }

    /// Tells names until one is not taken, the slice is used up, or there are no more. May wait for the store.
    pub(crate) fn advance(
        &mut self,
        (store, directory): (&dyn Store, Directory<'_>),
        budgets: &UserBudgets,
        slice: &mut Slice,
        take: Take<'_>,
    ) -> Result<Stop, Refusal> {
        while let Some(listed) = self.special.last() {
            if take(listed, slice).is_break() {
                return Ok(Stop::NotTaken);
            }
            self.special.pop();
        }
        if let Source::Unread = self.source {
            self.source = self.begin(store, directory, budgets, slice)?;
        }
        let stop = match &mut self.source {
            Source::Unread | Source::Ended => Stop::Ended,
            Source::Held { left, charge } => tell_held(left, charge, slice, take),
            Source::Streamed(cursor) => tell_streamed(directory, &self.pattern, cursor, slice, take)?,
        };
        if stop == Stop::Ended {
            self.source = Source::Ended;
        }
        Ok(stop)
    }

    /// Reads as many names as are told in order. One that is asked for by its whole name is looked up: clients do so for every file
    /// they open.
    fn begin(
        &self,
        store: &dyn Store,
        directory: Directory<'_>,
        budgets: &UserBudgets,
        slice: &mut Slice,
    ) -> Result<Source, Refusal> {
        let mut found = Vec::new();
        let known = if has_wildcards(&self.text) { None } else { one_name(store, directory, &self.text)? };
        match known {
            Some(name) => found.extend(name),
            None => {
                let mut count = 0;
                let matcher = self.pattern.matcher();
                let mut look = |entry: store::Entry| {
                    count += 1;
                    if matcher.matches(entry.name.as_str(), upper) {
                        found.push(entry.name);
                    }
                    if count <= SORTED_NAMES_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                };
                if !directory.node.names()?.list_all(SORTED_PIECES_MAX, &mut look)? {
                    return Ok(Source::Streamed(Cursor::default()));
                }
                slice.names = slice.names.saturating_sub(count);
            }
        }
        let bytes = found.iter().map(|name| NAME_BYTES + name.as_str().len() as u64).sum();
        let Some(charge) = budgets.listings.charge(bytes) else { return Ok(Source::Streamed(Cursor::default())) };
        found.sort_by_cached_key(|name| fold(name.as_str()));
        Ok(Source::Held { left: found.into_iter().rev().map(Listed::Name).collect(), charge })
    }
}

fn tell_held(left: &mut Vec<Listed>, charge: &mut Charge, slice: &mut Slice, take: Take<'_>) -> Stop {
    while let Some(listed) = left.last() {
        if take(listed, slice).is_break() {
            return Stop::NotTaken;
        }
        charge.shrink_to(charge.units().saturating_sub(NAME_BYTES + listed.name().len() as u64));
        left.pop();
    }
    Stop::Ended
}

fn tell_streamed(
    directory: Directory<'_>,
    pattern: &Pattern,
    cursor: &mut Cursor,
    slice: &mut Slice,
    take: Take<'_>,
) -> Result<Stop, Error> {
    let mut stop = Stop::Ended;
    let mut more = true;
    let matcher = pattern.matcher();
    while more && stop == Stop::Ended {
        let mut look = |entry: store::Entry| {
            if slice.names == 0 {
                stop = Stop::Paused;
                return ControlFlow::Break(());
            }
            slice.names = slice.names.saturating_sub(matcher.cost(entry.name.as_str().len()));
            if !matcher.matches(entry.name.as_str(), upper) {
                return ControlFlow::Continue(());
            }
            let taken = take(&Listed::Name(entry.name), slice);
            if taken.is_break() {
                stop = Stop::NotTaken;
            }
            taken
        };
        more = directory.node.names()?.list(cursor, &mut look)?;
        slice.names = slice.names.saturating_sub(PIECE_COST);
        if more && slice.names == 0 && stop == Stop::Ended {
            stop = Stop::Paused;
        }
    }
    Ok(stop)
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
    pub(crate) fn metadata(&self, store: &dyn Store, directory: Directory<'_>) -> Option<Metadata> {
        let known = match self {
            Listed::Itself => directory.node.metadata(),
            Listed::Above => above(store, directory).or_else(|_| directory.node.metadata()),
            Listed::Name(name) => directory.node.names().and_then(|names| names.entry_metadata(name)),
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

/// What has the name `text`; `Some(None)`: nothing has. `None` where the directory has to be asked, which is not where it was: another
/// program moved it.
fn one_name(store: &dyn Store, directory: Directory<'_>, text: &str) -> Result<Option<Option<Name>>, Error> {
    let Ok(name) = Name::new(text) else { return Ok(Some(None)) };
    let path = directory.path.now().join(&name);
    match store.resolve(&path, Use::Metadata) {
        Ok(Resolved::Found { path, .. }) => path.name().map(Name::new).transpose().map(Some),
        Ok(Resolved::Missing { .. }) => Ok(Some(None)),
        Err(_) => Ok(None),
    }
}

fn above(store: &dyn Store, directory: Directory<'_>) -> Result<Metadata, Error> {
    let path = directory.path.now().parent().unwrap_or_else(SharePath::root);
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
    fn a_pattern_of_many_stars_is_kept_short() {
        let budgets =
            crate::resource::budgets::Budgets::new(Default::default()).of_user(&wire::security::Sid::EVERYONE);
        let scan = Enumeration::new(&format!("a{}b", "*".repeat(60_000)), &budgets).unwrap();
        assert_eq!(scan.pattern(), "a*b");
        assert_eq!(budgets.bytes.used(), LISTING_BYTES + 15);
        drop(scan);
        assert_eq!(budgets.bytes.used(), 0);
    }

    #[test]
    fn characters_compare_as_names_do() {
        for c in ['a', 'ß', 'é', 'ǆ', 'ÿ', '\u{1f600}', 'Z'] {
            assert_eq!(upper(c).to_string(), fold(&c.to_string()));
        }
    }
}
