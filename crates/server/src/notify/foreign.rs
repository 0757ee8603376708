//! What other programs change in a watched directory, as the share's store tells it. What was done through the server is told by
//! the server itself, and passed over here.

use std::sync::{Arc, Weak};

use store::{Foreign, Kind, Listener, What};
use wire::command::change_notify::CompletionFilter;
use wire::fscc::notify::Action;

use super::own::{Deed, Own};
use super::{Watch, name_filter};
use crate::context::Context;
use crate::open::FileOpen;
use crate::refusal::Refusal;

/// What may have changed of a file that another program wrote, or whose attributes it set.
const CHANGED_FILE: CompletionFilter =
    CompletionFilter(CompletionFilter::SIZE.0 | CompletionFilter::LAST_WRITE.0 | CompletionFilter::ATTRIBUTES.0);

/// A watch's ear.
struct Ear {
    watch: Weak<Watch>,
    own: Arc<Own>,
}

/// Has the store tell a watch of what other programs do, from its first request on.
pub(crate) async fn listen(context: &Context, watch: &Arc<Watch>, file: &FileOpen) -> Result<(), Refusal> {
    if !watch.asks_first() {
        return Ok(());
    }
    let own = Arc::clone(&context.server().files.watches.own);
    own.begin();
    let ear: Arc<dyn Listener> = Arc::new(Ear { watch: Arc::downgrade(watch), own });
    let (store, path, reach) = (Arc::clone(context.store()?), file.path.lock().clone(), watch.wish.reach);
    let of = file.node.identity();
    let guard = context.work_by_name(move || store.watch(&path, of, reach, ear)).await?;
    match guard {
        Ok(Some(guard)) => watch.listen(guard),
        Ok(None) => {}
        // The server's own changes are told all the same.
        Err(error) => tracing::warn!(%error, "what other programs change in a watched directory is not told"),
    }
    Ok(())
}

impl Listener for Ear {
    fn hear(&self, change: Foreign<'_>) {
        let Some(watch) = self.watch.upgrade() else { return };
        let named = |name: &str| match change.inside {
            "" => name.to_owned(),
            inside => format!("{inside}\\{name}"),
        };
        let own = |name: &str, deeds: &[Deed]| self.own.has_done(change.directory, name, deeds);
        let (filter, name) = (name_filter(change.kind), change.name);
        let (filter, told) = match change.what {
            What::Came if own(name, &[Deed::Made]) => return,
            What::Came => (filter, vec![(Action::ADDED, named(name))]),
            What::Went if own(name, &[Deed::Removed]) => return,
            What::Went => (filter, vec![(Action::REMOVED, named(name))]),
            What::Renamed { to } if own(name, &[Deed::Removed]) && own(to, &[Deed::Made]) => return,
            What::Renamed { to } => {
                (filter, vec![(Action::RENAMED_OLD_NAME, named(name)), (Action::RENAMED_NEW_NAME, named(to))])
            }
            What::Changed { file } if own(name, &[Deed::Made, Deed::Changed]) || self.own.has_touched(file) => return,
            What::Changed { .. } => (changed_filter(change.kind), vec![(Action::MODIFIED, named(name))]),
        };
        if watch.wish.filter.intersects(filter) {
            watch.add(told.into_iter());
        }
    }

    fn lose(&self) {
        if let Some(watch) = self.watch.upgrade() {
            watch.lose();
        }
    }
}

fn changed_filter(kind: Kind) -> CompletionFilter {
    match kind {
        Kind::Directory => CompletionFilter::ATTRIBUTES,
        Kind::File | Kind::Stream => CHANGED_FILE,
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.own.end();
    }
}
