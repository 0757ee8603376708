//! What other programs change in a watched directory, as the share's store tells it. What was done through the server is told by
//! the server itself, and passed over here.

use std::ops::ControlFlow;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use store::{Foreign, Guard, Kind, Listener, Reach, What};
use wire::command::change_notify::CompletionFilter;
use wire::fscc::notify::Action;
use wire::status::Status;

use super::directory::{Asking, Directory, Ear, Listen};
use super::gone::Gone;
use super::log::Where;
use super::name::SharedName;
use super::own::{Deed, Own};
use super::{Change, Watch, name_filter};
use crate::budget::Charge;
use crate::context::Context;
use crate::open::FileOpen;
use crate::refusal::Refusal;

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

/// Has the store tell of what other programs do, from the first request of a watch on.
pub(crate) async fn listen(context: &Context, watch: &Watch, file: &FileOpen) -> Result<(), Refusal> {
    let is_first = watch.directory.asks_first(watch.open);
    for place in [Where::Here, Where::Below].into_iter().filter(|place| place.is_reached(watch.reach)) {
        loop {
            match watch.directory.ask_store(watch.open, place, is_first) {
                Listen::Nothing => break,
                Listen::Ask(asking) => break ask(context, asking, file).await?,
                // It ends with an error when what sends is gone. Then it is looked at anew: who asked may have been refused.
                Listen::Wait(mut done) => drop(done.changed().await),
            }
        }
    }
    Ok(())
}

async fn ask(context: &Context, asking: Asking, file: &FileOpen) -> Result<(), Refusal> {
    let watches = &context.server().files.watches;
    let (own, gone) = (Arc::clone(&watches.own), Arc::clone(&watches.gone));
    let kept = context.session()?.budgets.lasting.charge(0).ok_or(Status::INSUFFICIENT_RESOURCES)?;
    own.begin();
    let (directory, kept) = (Arc::downgrade(&asking.directory), Mutex::new(kept));
    let listener: Arc<dyn Listener> = Arc::new(Listening { directory, place: asking.place, own, gone, kept });
    let reach = match asking.place {
        Where::Here => Reach::Directory,
        Where::Below => Reach::Tree,
    };
    let (store, path) = (Arc::clone(context.store()?), file.path.now());
    let of = file.node.identity();
    let begin = move || {
        let mut guard = store.watch(&path, of, reach, listener)?;
        let has_more = guard.as_mut().is_some_and(Guard::go_on);
        Ok::<_, store::Error>((guard, has_more))
    };
    match context.work_by_name(begin).await? {
        Ok((guard, true)) => go_through(context, asking, guard).await?,
        Ok((guard, false)) => asking.answer(Ear::Listens(guard)),
        Err(error) => {
            // The server's own changes are told all the same. The next watch asks again.
            tracing::warn!(%error, "what other programs change in a watched directory is not told");
            asking.answer(Ear::Deaf);
        }
    }
    Ok(())
}

/// Has the store listen to all of a tree, a slice at a time. Where nobody waits for that any more, whoever watches next has it begun anew.
async fn go_through(context: &Context, asking: Asking, mut guard: Option<Guard>) -> Result<(), Refusal> {
    let watched = Arc::clone(&asking.directory);
    let step = move || {
        if !watched.is_watched() {
            return ControlFlow::Break(None);
        }
        let has_more = guard.as_mut().is_some_and(Guard::go_on);
        if has_more { ControlFlow::Continue(()) } else { ControlFlow::Break(guard.take()) }
    };
    if let Some(all) = context.work_in_steps(u64::MAX, step).await? {
        asking.answer(Ear::Listens(Some(all)));
    }
    Ok(())
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
