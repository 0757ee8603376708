//! Has the disk keep names that came and went: on a continuously available share they are as they were answered after a power cut, too.

use store::{Error, Node, SharePath, Store};

/// Has the disk keep a new node and its name in `directory`.
pub(crate) fn keep_name(directory: &dyn Node, node: &dyn Node) -> Result<(), Error> {
    node.sync()?;
    directory.sync()
}

/// Has the disk keep that a name has gone.
pub(crate) fn keep_removal(store: &dyn Store, path: &SharePath) -> Result<(), Error> {
    match store.directory_of(path) {
        Ok((directory, _)) => directory.sync(),
        // Its directory has gone, too.
        Err(Error::NotFound | Error::PathNotFound | Error::NotDirectory | Error::Gone) => Ok(()),
        Err(error) => Err(error),
    }
}
