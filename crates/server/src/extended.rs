//! Extended attributes of a file, changed all of them or none.

use std::collections::HashSet;

use store::{Error, Node, fold};

/// An attribute with its value. An empty value is one that is to go.
pub(crate) type Named = (String, Vec<u8>);

/// What a file is like where a change failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Left {
    /// As it was before.
    AsItWas,
    /// Something may have changed.
    Changed,
}

/// A change that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    pub(crate) error: Error,
    pub(crate) left: Left,
}

/// Where nothing says otherwise, something has changed.
impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Failed { error, left: Left::Changed }
    }
}

impl Failed {
    /// Before anything was done.
    pub(crate) fn untouched(error: Error) -> Self {
        Failed { error, left: Left::AsItWas }
    }
}

/// How to undo a change that was made.
pub(crate) struct Undo {
    names: Vec<String>,
    before: Vec<Named>,
}

/// Makes all of these changes, of attributes that were like this `before`, or none of them. What goes makes room for what comes.
pub(crate) fn set_all(node: &dyn Node, before: Vec<Named>, asked: &[Named]) -> Result<Undo, Failed> {
    let folded: HashSet<String> = asked.iter().map(|(name, _)| fold(name)).collect();
    let before = before.into_iter().filter(|(name, _)| folded.contains(&fold(name))).collect();
    let undo = Undo { names: asked.iter().map(|(name, _)| name.clone()).collect(), before };
    let set = set_each(node, asked).or_else(|error| match error {
        // A value that takes another's place may need both at once.
        Error::Full | Error::TooLarge => undo.remove(node).and_then(|()| set_each(node, asked)),
        error => Err(error),
    });
    match set {
        Ok(()) => Ok(undo),
        Err(error) => Err(Failed { error, left: undo.put_back(node) }),
    }
}

fn set_each(node: &dyn Node, asked: &[Named]) -> Result<(), Error> {
    let (go, come): (Vec<&Named>, Vec<&Named>) = asked.iter().partition(|(_, value)| value.is_empty());
    go.into_iter().chain(come).try_for_each(|(name, value)| node.set_extended(name, value))
}

impl Undo {
    /// Gives the attributes the values they had before, as far as that can be done.
    pub(crate) fn put_back(&self, node: &dyn Node) -> Left {
        let put_back = self.remove(node).and_then(|()| set_each(node, &self.before));
        match put_back {
            Ok(()) => Left::AsItWas,
            Err(error) => {
                tracing::warn!(%error, "extended attributes could not be given the values they had before a change that failed");
                Left::Changed
            }
        }
    }

    /// Removes all that the change is about.
    fn remove(&self, node: &dyn Node) -> Result<(), Error> {
        self.names.iter().try_for_each(|name| node.set_extended(name, &[]))
    }
}
