//! What a session has open.

use std::collections::BTreeSet;
use std::sync::Arc;

use wire::ids::TreeId;

use crate::resource::by_id::ById;
use crate::state::open::Open;
use crate::state::open_id::OpenId;

/// Session.OpenTable.
#[derive(Default)]
pub(super) struct Opens {
    pub(super) by_id: ById<OpenId, Arc<Open>>,
    /// Found by their tree, so that who disconnects one does not go through those of the others.
    pub(super) by_tree: BTreeSet<(TreeId, OpenId)>,
}

impl Opens {
    pub(super) fn insert(&mut self, open: Arc<Open>) {
        self.by_tree.insert((open.tree.id, open.id));
        self.by_id.insert(open.id, open);
    }

    pub(super) fn remove(&mut self, id: OpenId) -> Option<Arc<Open>> {
        let open = self.by_id.remove(&id)?;
        self.by_tree.remove(&(open.tree.id, id));
        Some(open)
    }

    /// Those of a tree, in the order in which they were made.
    pub(super) fn take_of(&mut self, tree: TreeId) -> Vec<Arc<Open>> {
        let of_tree = (tree, OpenId(0))..=(tree, OpenId(u64::MAX));
        let ids: Vec<OpenId> = self.by_tree.range(of_tree).map(|(_, id)| *id).collect();
        ids.into_iter().filter_map(|id| self.remove(id)).collect()
    }
}
