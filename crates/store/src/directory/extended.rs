//! Extended attributes as SMB knows them (MS-FSCC 2.4.15): `user.NAME` of the file system.
//!
//! Names compare without case and keep theirs. Attributes of other programs show too; ours do not, and their
//! names cannot be used.

use crate::directory::file::OpenFile;
use crate::directory::keep::{KEY_BYTES_MAX, OWN, USER};
use crate::{Error, fold};

/// All of them, by name.
pub(super) fn all(file: &OpenFile) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let subject = file.subject();
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
    let key = format!("{USER}{name}");
    if name.is_empty() || name.contains(['\0', '/']) || key.len() > KEY_BYTES_MAX {
        return Err(Error::NameInvalid);
    }
    if is_own(&key) {
        return Err(Error::Denied);
    }
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

/// True for keys that are ours, in any case.
fn is_own(key: &str) -> bool {
    let (key, own) = (fold(key), fold(OWN));
    key.strip_prefix(own.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
