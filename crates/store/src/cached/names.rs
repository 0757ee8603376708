//! The names in a directory, as far as they are known.

use std::sync::Arc;

use super::changing::Part;
use super::is_dotted;
use super::node::{CachedNode, own_destination, replaced};
use super::walk::Child;
use crate::{
    Cursor, Destination, Error, Identity, Metadata, Name, NamedNode, Names, NewNode, Node, Replace, Replacement, Take,
    Use,
};

impl CachedNode {
    fn own_names(&self) -> Result<&dyn Names, Error> {
        self.own().names()
    }

    /// What a name leads to, as far as that is known.
    fn known_child(&self, name: &Name, usage: Use) -> Child {
        match self.believed() {
            Some(entry) => self.shared.child(entry, name.as_str(), usage),
            None => Child::Unknown,
        }
    }

    fn child_by(
        &self,
        name: &Name,
        usage: Use,
        ask: impl FnOnce(&dyn Names) -> Result<Option<NamedNode>, Error>,
    ) -> Result<Option<NamedNode>, Error> {
        match self.known_child(name, usage) {
            Child::Found { stored, node } => return Ok(Some((stored.stored.to_string(), node))),
            Child::Missing => return Ok(None),
            Child::Unknown => {}
        }
        let found = ask(self.own_names()?)?;
        Ok(found.map(|(stored, node)| {
            let node = CachedNode::found(&self.shared, node, is_dotted(Some(&stored)));
            (stored, node)
        }))
    }

    fn create_by(
        &self,
        name: &Name,
        create: impl FnOnce(&dyn Names) -> Result<Arc<dyn Node>, Error>,
    ) -> Result<Arc<dyn Node>, Error> {
        let changing = self.shared.known.changing(self.shared.home).name(self.identity(), name.as_str());
        let made = create(self.own_names()?)?;
        changing.made(made.identity());
        drop(changing);
        Ok(CachedNode::found(&self.shared, made, is_dotted(Some(name.as_str()))))
    }
}

impl Names for CachedNode {
    fn list(&self, cursor: &mut Cursor, take: Take<'_>) -> Result<bool, Error> {
        self.list_piece(cursor, take)
    }

    fn list_all(&self, pieces_max: usize, take: Take<'_>) -> Result<bool, Error> {
        self.list_whole(pieces_max, take)
    }

    fn is_empty(&self) -> Result<bool, Error> {
        self.own_names()?.is_empty()
    }

    fn entry_metadata(&self, name: &Name) -> Result<Metadata, Error> {
        self.listed(name)
    }

    fn child(&self, name: &Name, usage: Use) -> Result<Option<NamedNode>, Error> {
        self.child_by(name, usage, |names| names.child(name, usage))
    }

    fn has(&self, name: &Name, file: Identity) -> Result<bool, Error> {
        match self.known_child(name, Use::Metadata) {
            Child::Found { node, .. } => Ok(node.identity() == file),
            Child::Missing => Ok(false),
            Child::Unknown => self.own_names()?.has(name, file),
        }
    }

    fn try_child(&self, name: &Name, usage: Use) -> Result<Option<NamedNode>, Error> {
        self.child_by(name, usage, |names| names.try_child(name, usage))
    }

    fn try_create(&self, name: &Name, new: NewNode<'_>) -> Result<Arc<dyn Node>, Error> {
        self.create_by(name, |names| names.try_create(name, new))
    }

    fn create(&self, name: &Name, new: NewNode<'_>) -> Result<Arc<dyn Node>, Error> {
        self.create_by(name, |names| names.create(name, new))
    }

    fn replace_with(&self, name: &Name, expected: Identity, new: Replacement<'_>) -> Result<Arc<dyn Node>, Error> {
        let changing = self.shared.known.changing(self.shared.home).name(self.identity(), name.as_str());
        let changing = changing.gone(Some(expected));
        let made = self.own_names()?.replace_with(name, expected, new)?;
        changing.made(made.identity());
        drop(changing);
        Ok(CachedNode::found(&self.shared, made, is_dotted(Some(name.as_str()))))
    }

    fn rename(&self, name: &Name, expected: Identity, to: Destination<'_>, replace: Replace) -> Result<(), Error> {
        let changing = self.shared.known.changing(self.shared.home).name(self.identity(), name.as_str());
        let changing = changing.name(to.directory.identity(), to.name.as_str()).file(expected, Part::Everything);
        let _changing = changing.gone(replaced(to, replace));
        self.own_names()?.rename(name, expected, own_destination(to), replace)
    }

    fn remove(&self, name: &Name, expected: Identity) -> Result<(), Error> {
        let changing = self.shared.known.changing(self.shared.home).name(self.identity(), name.as_str());
        let _changing = changing.gone(Some(expected));
        self.own_names()?.remove(name, expected)
    }
}
