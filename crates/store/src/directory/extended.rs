//! Extended attributes as SMB knows them (MS-FSCC 2.4.15): `user.NAME` of the file system.
//!
//! Names compare without case and keep theirs. Attributes of other programs show too; ours do not, and their
//! names cannot be used.

use std::collections::BTreeMap;

use crate::directory::file::OpenFile;
use crate::directory::keys::{KEY_BYTES_MAX, OWN, USER};
use crate::directory::subject::Subject;
use crate::directory::undo::Undo;
use crate::{ChangeExtended, Error, ExtendedAttribute, Failed, Left, fold};

/// All of them, by name.
pub(super) fn all(file: &OpenFile) -> Result<Vec<ExtendedAttribute>, Error> {
    all_of(&file.subject())
}

fn all_of(subject: &Subject<'_>) -> Result<Vec<ExtendedAttribute>, Error> {
    let mut found = Vec::new();
    for key in subject.keys()? {
        let Some(name) = key.strip_prefix(USER).filter(|_| !is_own(&key)) else { continue };
        if let Some(value) = subject.load_all(&key)? {
            found.push((name.to_owned(), value));
        }
    }
    found.sort();
    Ok(found)
}

/// Sets one, or removes it where `value` is empty.
pub(super) fn set(file: &OpenFile, name: &str, value: &[u8]) -> Result<(), Error> {
    file.volume.check_writable()?;
    let key = key(name)?;
    let _held = file.volume.lock_file(file.identity);
    let subject = file.subject();
    let folded = fold(&key);
    let stored = subject.keys()?.into_iter().find(|stored| fold(stored) == folded);
    match (value, stored) {
        ([], None) => Ok(()),
        ([], Some(stored)) => subject.erase(&stored).map(|_| ()),
        (_, stored) => subject.save(stored.as_ref().unwrap_or(&key), value),
    }
}

/// Sets all that `change` asks for, or none of it.
pub(super) fn change(file: &OpenFile, change: ChangeExtended<'_>) -> Result<(), Failed> {
    file.volume.check_writable().map_err(Failed::untouched)?;
    let _held = file.volume.lock_file(file.identity);
    let subject = file.subject();
    let before = all_of(&subject).map_err(Failed::untouched)?;
    let Some(asked) = change(&before) else { return Ok(()) };
    let sets = in_their_case(&before, asked).map_err(Failed::untouched)?;
    set_all(&subject, sets)
}

/// Begins to give a file these attributes and no others: sets those that take room. Gives what undoes that, and what is left to do. What is kept
/// with the file is locked, as for [`Rest::make`].
pub(super) fn begin_to_replace(subject: &Subject<'_>, asked: &[ExtendedAttribute]) -> Result<(Undo, Rest), Failed> {
    let before = all_of(subject).map_err(Failed::untouched)?;
    set_growing(subject, instead_of(before, asked).map_err(Failed::untouched)?)
}

/// What is left of several changes: what gives room.
#[derive(Default)]
pub(super) struct Rest(Vec<Set>);

impl Rest {
    pub(super) fn make(&self, subject: &Subject<'_>, undo: &mut Undo) -> Result<(), Error> {
        self.0.iter().try_for_each(|set| undo.change(subject, &set.key, set.value.as_deref()))
    }
}

/// Removes all of them, as far as the kernel tells of them.
pub(super) fn remove_all(subject: &Subject<'_>, undo: &mut Undo) -> Result<(), Error> {
    let all = match all_of(subject) {
        Err(Error::TooLarge) => return Ok(()),
        all => all?,
    };
    all.iter().try_for_each(|(name, _)| undo.change(subject, &key(name)?, None))
}

/// What an attribute becomes; `None` where it goes.
struct Set {
    key: String,
    value: Option<Vec<u8>>,
    grows: bool,
}

impl Set {
    fn new(key: String, value: Vec<u8>, before_bytes: Option<usize>) -> Self {
        let value = Some(value).filter(|value| !value.is_empty());
        let grows = value.as_ref().is_some_and(|value| before_bytes.is_none_or(|before| value.len() > before));
        Set { key, value, grows }
    }
}

/// What is asked for, under the names that there are.
fn in_their_case(before: &[ExtendedAttribute], asked: Vec<ExtendedAttribute>) -> Result<Vec<Set>, Error> {
    let there: BTreeMap<String, &ExtendedAttribute> = before.iter().map(|stored| (fold(&stored.0), stored)).collect();
    let set = |(name, value): ExtendedAttribute| {
        let stored = there.get(&fold(&name));
        let key = key(stored.map_or(&name, |stored| &stored.0))?;
        Ok(Set::new(key, value, stored.map(|stored| stored.1.len())))
    };
    asked.into_iter().map(set).collect()
}

/// What is asked for, under the names that it has there, and nothing else.
fn instead_of(before: Vec<ExtendedAttribute>, asked: &[ExtendedAttribute]) -> Result<Vec<Set>, Error> {
    let mut there: BTreeMap<String, usize> = BTreeMap::new();
    for (name, value) in before {
        there.insert(key(&name)?, value.len());
    }
    let last: BTreeMap<String, &ExtendedAttribute> = asked.iter().map(|asked| (fold(&asked.0), asked)).collect();
    let mut sets = Vec::new();
    for (name, value) in last.into_values() {
        let key = key(name)?;
        let before_bytes = there.remove(&key);
        sets.push(Set::new(key, value.clone(), before_bytes));
    }
    sets.extend(there.into_iter().map(|(key, bytes)| Set::new(key, Vec::new(), Some(bytes))));
    Ok(sets)
}

/// Makes all of these changes, or none.
fn set_all(subject: &Subject<'_>, sets: Vec<Set>) -> Result<(), Failed> {
    let (mut undo, rest) = set_growing(subject, sets)?;
    rest.make(subject, &mut undo).map_err(|error| Failed { error, left: undo.put_back(subject) })
}

/// Makes those of these changes that take room, or none. They come first: where the disk has none, nothing has to be put back that needs some. Where
/// the file takes no more, what gives room comes before them, and nothing is left.
fn set_growing(subject: &Subject<'_>, sets: Vec<Set>) -> Result<(Undo, Rest), Failed> {
    let (grow, rest): (Vec<Set>, Vec<Set>) = sets.into_iter().partition(|set| set.grows);
    match set_each(subject, grow.iter()) {
        Err(Failed { error: Error::TooLarge, left: Left::AsItWas }) if !rest.is_empty() => {
            set_each(subject, rest.iter().chain(&grow)).map(|undo| (undo, Rest::default()))
        }
        answer => answer.map(|undo| (undo, Rest(rest))),
    }
}

fn set_each<'s>(subject: &Subject<'_>, mut sets: impl Iterator<Item = &'s Set>) -> Result<Undo, Failed> {
    let mut undo = Undo::default();
    match sets.try_for_each(|set| undo.change(subject, &set.key, set.value.as_deref())) {
        Ok(()) => Ok(undo),
        Err(error) => Err(Failed { error, left: undo.put_back(subject) }),
    }
}

/// The key of an attribute.
fn key(name: &str) -> Result<String, Error> {
    let key = format!("{USER}{name}");
    if name.is_empty() || name.contains(['\0', '/']) || key.len() > KEY_BYTES_MAX {
        return Err(Error::NameInvalid);
    }
    if is_own(&key) { Err(Error::Denied) } else { Ok(key) }
}

/// True for keys that are ours, in any case.
fn is_own(key: &str) -> bool {
    let (key, own) = (fold(key), fold(OWN));
    key.strip_prefix(own.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
