//! What other programs change in a watched directory, as the share's store tells it. What was done through the server is told by
//! the server itself, and passed over here.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use store::{Foreign, Kind, Listener, What};
use wire::command::change_notify::CompletionFilter;
use wire::fscc::notify::Action;

use super::directory::{Asking, Directory};
use super::gone::Gone;
use super::log::Where;
use super::name::SharedName;
use super::own::{Deed, Own};
use super::{Change, Watches, name_filter};
use crate::resource::budget::Charge;

/// What may have changed of a file that another program wrote, or whose attributes it set.
const CHANGED_FILE: CompletionFilter =
    CompletionFilter(CompletionFilter::SIZE.0 | CompletionFilter::LAST_WRITE.0 | CompletionFilter::ATTRIBUTES.0);

/// What hears of them for all who watch a directory. There are two: one in it, and where somebody watches the tree one that hears of
/// what is below it, and passes over the rest.
struct Listening {
    directory: Weak<Directory>,
    place: Where,
    own: Arc<Own>,
    gone: Arc<Gone>,
    /// What is kept for it, which the user pays for whose request had the store asked.
    kept: Mutex<Charge>,
}

impl Watches {
    /// What hears for who asks the store of other programs' changes. What it keeps is charged to `kept`.
    pub(crate) fn listener(&self, asking: &Asking, kept: Charge) -> Arc<dyn Listener> {
        let (own, gone) = (Arc::clone(&self.own), Arc::clone(&self.gone));
        own.begin();
        let directory = Arc::downgrade(&asking.directory);
        Arc::new(Listening { directory, place: asking.place, own, gone, kept: Mutex::new(kept) })
    }
}

impl Listener for Listening {
    fn hear(&self, change: Foreign<'_>) {
        let place = if change.inside.is_empty() { Where::Here } else { Where::Below };
        let Some(directory) = self.directory.upgrade().filter(|_| place == self.place) else { return };
        let own = |name: &str, deeds: &[Deed]| self.own.has_done(change.directory, name, deeds);
        let filter = match change.what {
            What::Changed { .. } => changed_filter(change.kind),
            What::Came | What::Went | What::Renamed { .. } => name_filter(change.kind),
        };
        if !directory.is_wanted(filter, place) {
            return;
        }
        let gone = self.gone.count();
        let told = |action, name| Change { action, filter, name, stream: None, gone };
        let name = change.name;
        let told = match change.what {
            What::Came if own(name, &[Deed::Made]) => return,
            What::Came => vec![told(Action::ADDED, name)],
            What::Went if own(name, &[Deed::Removed]) => return,
            What::Went => {
                self.goes(&change);
                vec![told(Action::REMOVED, name)]
            }
            What::Renamed { to } if own(name, &[Deed::Removed]) && own(to, &[Deed::Made]) => return,
            What::Renamed { to } => {
                self.goes(&change);
                vec![told(Action::RENAMED_OLD_NAME, name), told(Action::RENAMED_NEW_NAME, to)]
            }
            What::Changed { file } if own(name, &[Deed::Made, Deed::Changed]) || self.own.has_touched(file) => return,
            What::Changed { .. } => vec![told(Action::MODIFIED, name)],
        };
        directory.add(place, &told, |index| match (change.inside, told[index].name) {
            ("", name) => SharedName::new(name),
            (inside, name) => SharedName::new(&[inside, "\\", name].concat()),
        });
    }

    fn lose(&self) {
        if let Some(directory) = self.directory.upgrade() {
            directory.miss(self.place);
        }
    }

    fn hold(&self, bytes: u64) -> bool {
        self.kept.lock().grow(bytes)
    }

    fn let_go(&self, bytes: u64) {
        let mut kept = self.kept.lock();
        let left = kept.units().saturating_sub(bytes);
        kept.shrink_to(left);
    }
}

fn changed_filter(kind: Kind) -> CompletionFilter {
    match kind {
        Kind::Directory => CompletionFilter::ATTRIBUTES,
        Kind::File | Kind::Stream => CHANGED_FILE,
    }
}

impl Listening {
    /// A directory has another name, or none.
    fn goes(&self, change: &Foreign<'_>) {
        if change.kind == Kind::Directory {
            self.gone.goes(change.directory, change.name, None);
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.own.end();
    }
}
