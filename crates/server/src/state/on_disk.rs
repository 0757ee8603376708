//! Has the disk keep names that came: on a continuously available share they are as they were answered after a power cut, too.

use store::{Error, Node};

/// Has the disk keep a new node and its name in `directory`.
pub(crate) fn keep_name(directory: &dyn Node, node: &dyn Node) -> Result<(), Error> {
    node.sync()?;
    directory.sync()
}
