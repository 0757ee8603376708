//! What is told of each operation (MS-FSA, "Send directory change notification"): one call where the change is made. All of them
//! cost one look at a counter while nobody watches anything; else they may wait for the store.

use std::sync::atomic::Ordering;

use store::{Identity, Kind, Node, Resolved, SharePath, Store, Use, fold};
use wire::command::change_notify::CompletionFilter;
use wire::fscc::notify::Action;

use super::gone::Former;
use super::{Change, Watches, name_filter};
use crate::state::files::Removal;
use crate::state::open::{FileOpen, Open};
use crate::state::open_path::OpenPath;
use crate::state::tree::Tree;

/// What a replaced file may have changed of a name (MS-FSA 2.1.5.15.7 and 2.1.5.15.12).
const ANOTHER_FILE: CompletionFilter = CompletionFilter(
    CompletionFilter::ATTRIBUTES.0
        | CompletionFilter::SIZE.0
        | CompletionFilter::LAST_WRITE.0
        | CompletionFilter::LAST_ACCESS.0
        | CompletionFilter::CREATION.0
        | CompletionFilter::SECURITY.0
        | CompletionFilter::EA.0,
);
/// What Windows says to have changed of a file besides its name when the open that renamed it closes: it is to be archived, and may
/// have got back the time of creation that went with its new name (tunnelling, MS-FSA 2.1.5.15.12).
const RENAMED_FILE: CompletionFilter = CompletionFilter(CompletionFilter::ATTRIBUTES.0 | CompletionFilter::CREATION.0);
const DATA: CompletionFilter = CompletionFilter(CompletionFilter::SIZE.0 | CompletionFilter::LAST_WRITE.0);
const STREAM_DATA: CompletionFilter =
    CompletionFilter(CompletionFilter::STREAM_SIZE.0 | CompletionFilter::STREAM_WRITE.0);

impl Watches {
    /// Notes that data was written through an open file. True where it is to be told of now, and not with what is written later.
    pub(crate) fn note_write(&self, file: &FileOpen) -> bool {
        if self.own.is_listening() && (file.stream.is_some() || file.has_frozen_times()) {
            self.own.touched(file.node.identity());
        }
        let is_due = file.untold.is_due(self.started.elapsed());
        if !is_due {
            file.untold.add(DATA);
        }
        is_due
    }

    /// True where data was written through an open that nobody was told of.
    pub(crate) fn has_untold_data(&self, open: &Open) -> bool {
        open.file().is_ok_and(|file| file.untold.has(DATA))
    }

    /// Notes that data of an open file changed. True where the pool is to be asked to tell of it, and has not been.
    pub(crate) fn asks_to_tell_of_data(&self, file: &FileOpen) -> bool {
        file.untold.add(DATA);
        file.untold.ask()
    }
}

impl Watches {
    /// A file or directory was made.
    pub(crate) fn made(&self, store: &dyn Store, path: &SharePath, kind: Kind) {
        self.tell(store, path, Action::ADDED, name_filter(kind), None);
    }

    /// What was made was removed again before anybody had it open.
    pub(crate) fn unmade(&self, store: &dyn Store, path: &SharePath, made: &dyn Node) {
        self.own.forget(made.identity());
        let gone = self.goes(store, path, made, false);
        self.tell_since(gone, store, path, (Action::REMOVED, name_filter(made.kind()), None));
    }

    /// A named stream was made.
    pub(crate) fn stream_made(&self, store: &dyn Store, path: &SharePath, stream: &str) {
        self.tell(store, path, Action::ADDED_STREAM, CompletionFilter::STREAM_NAME, Some(stream));
    }

    /// What an open's end was to remove was removed.
    /// `base` is the file, `own` what the open stood by, in `tree`.
    pub(crate) fn removed(
        &self,
        store: &dyn Store,
        path: &SharePath,
        (base, own, tree): (&dyn Node, &OpenPath, &Tree),
        removal: &Removal,
    ) {
        match removal {
            Removal::Nothing => {}
            Removal::File(_) => {
                self.own.forget(base.identity());
                let gone = self.goes(store, path, base, tree.lists_by_access());
                self.tell_since(gone, store, path, (Action::REMOVED, name_filter(base.kind()), None));
            }
            Removal::Stream(folded) => {
                let own = own.stream();
                self.stream_removed(store, path, if fold(&own) == *folded { &own } else { folded });
            }
        }
    }

    /// A named stream has another name.
    pub(crate) fn stream_renamed(&self, store: &dyn Store, path: &SharePath, from: &str, to: &str) {
        self.stream_removed(store, path, from);
        self.stream_made(store, path, to);
    }

    fn stream_removed(&self, store: &dyn Store, path: &SharePath, stream: &str) {
        self.tell(store, path, Action::REMOVED_STREAM, CompletionFilter::STREAM_NAME, Some(stream));
    }

    /// A file was emptied, and its attributes replaced; or a stream of it was.
    pub(crate) fn overwritten(&self, store: &dyn Store, path: &SharePath, stream: Option<&str>) {
        match stream {
            None => self.tell(store, path, Action::MODIFIED, DATA | CompletionFilter::ATTRIBUTES, None),
            Some(_) => self.tell(store, path, Action::MODIFIED_STREAM, STREAM_DATA, stream),
        }
    }

    /// An open gave its file another name, where a file was `replaced` or not.
    pub(crate) fn renamed(
        &self,
        store: &dyn Store,
        (from, to): (&SharePath, &SharePath),
        open: &Open,
        replaced: Option<Identity>,
    ) {
        let (false, Ok(file)) = (self.is_idle(), open.file()) else { return };
        let gone = self.goes(store, from, file.base().as_ref(), open.tree.lists_by_access());
        let filter = name_filter(file.kind);
        if file.kind == Kind::File {
            file.untold.add(RENAMED_FILE);
        }
        if let Some(replaced) = replaced {
            // The old name goes, and the new one means another file (MS-FSA 2.1.5.15.12).
            self.tell_since(gone, store, from, (Action::REMOVED, filter, None));
            return self.replaced(store, to, replaced);
        }
        let (Some(old), Some(new), Some(parent)) = (from.name(), to.name(), from.parent()) else { return };
        if to.parent().is_some_and(|other| other.is_within(&parent) && parent.is_within(&other)) {
            let change = |action, name| Change { action, filter, name, stream: None, gone };
            let pair = [change(Action::RENAMED_OLD_NAME, old), change(Action::RENAMED_NEW_NAME, new)];
            self.report(store, &parent, &pair);
        } else {
            self.tell_since(gone, store, from, (Action::REMOVED, filter, None));
            self.tell(store, to, Action::ADDED, filter, None);
        }
    }

    /// A file has one more name, which a `replaced` one had or not.
    pub(crate) fn linked(&self, store: &dyn Store, path: &SharePath, replaced: Option<Identity>) {
        match replaced {
            Some(replaced) => self.replaced(store, path, replaced),
            None => self.made(store, path, Kind::File),
        }
    }

    /// A name means another file.
    fn replaced(&self, store: &dyn Store, path: &SharePath, replaced: Identity) {
        self.own.forget(replaced);
        if let (true, Some(parent), Some(name)) = (self.own.is_listening(), path.parent(), path.name())
            && let Some(parent) = super::identity(store, &parent)
        {
            self.own.did(parent, name, Action::REMOVED);
            self.own.did(parent, name, Action::ADDED);
        }
        self.tell(store, path, Action::MODIFIED, ANOTHER_FILE, None);
    }

    /// What is kept beside the data of an open file changed; for a stream, of the file it belongs to.
    pub(crate) fn changed(&self, open: &Open, filter: CompletionFilter) {
        self.of_open(open, |store, path, file| {
            self.own.touched(file.node.identity());
            self.tell(store, path, Action::MODIFIED, filter, None);
        });
    }

    /// Data, or the length, of an open file or stream changed.
    pub(crate) fn data_changed(&self, open: &Open) {
        self.of_open(open, |store, path, file| {
            file.untold.take(DATA);
            self.own.touched(file.node.identity());
            match &file.stream {
                None => self.tell(store, path, Action::MODIFIED, DATA, None),
                Some(_) => self.tell(store, path, Action::MODIFIED_STREAM, STREAM_DATA, Some(&file.stream_name())),
            }
        });
    }

    /// The same where nobody else has told of it meanwhile.
    pub(crate) fn tell_of_data(&self, open: &Open) {
        let Ok(file) = open.file() else { return };
        file.untold.begin();
        if !file.untold.take(DATA).is_empty() {
            self.data_changed(open);
        }
    }

    /// True where closing the open may have to wait: changes made through it must be told of, or the store be told that nobody listens.
    pub(crate) fn closing_tells(&self, open: &Open) -> bool {
        let listens = || self.table.lock().by_open.get(&open.id).is_some_and(|watch| watch.directory.is_listened_to());
        let untold = |file: &FileOpen| file.untold.has(CompletionFilter(u32::MAX));
        !self.is_idle() && open.file().is_ok_and(|file| untold(file) || (file.kind == Kind::Directory && listens()))
    }

    /// An open closes: what was not told of its changes is told now (MS-FSA 2.1.5.5).
    pub(crate) fn closed(&self, open: &Open, file: &FileOpen) {
        self.close(open.id);
        if self.own.is_listening() {
            self.own.touched(file.node.identity());
        }
        if !self.is_idle() {
            self.tell_untold(open, file);
        }
        let deletes = file.delete_on_close.load(Ordering::Relaxed);
        if deletes && file.kind == Kind::Directory {
            self.directory_goes(file.node.identity());
        }
    }

    fn tell_untold(&self, open: &Open, file: &FileOpen) {
        if file.stream.is_some() && !file.untold.take(DATA).is_empty() {
            self.data_changed(open);
        }
        let changed = file.untold.take(CompletionFilter(u32::MAX));
        if !changed.is_empty() {
            self.changed(open, changed);
        }
    }

    fn of_open(&self, open: &Open, tell: impl FnOnce(&dyn Store, &SharePath, &FileOpen)) {
        if self.is_idle() {
            return;
        }
        if let (Some(store), Ok(file)) = (open.tree.store(), open.file()) {
            let path = file.path.now();
            tell(&**store, &path, file);
        }
    }

    fn tell(
        &self,
        store: &dyn Store,
        path: &SharePath,
        action: Action,
        filter: CompletionFilter,
        stream: Option<&str>,
    ) {
        self.tell_since(self.gone.count(), store, path, (action, filter, stream));
    }

    /// The same of a change that was made when so many names had `gone`.
    fn tell_since(
        &self,
        gone: u64,
        store: &dyn Store,
        path: &SharePath,
        (action, filter, stream): (Action, CompletionFilter, Option<&str>),
    ) {
        if self.is_idle() {
            return;
        }
        // Of the root's own changes nobody is told: no directory of the share holds it.
        if let (Some(parent), Some(name)) = (path.parent(), path.name()) {
            self.report(store, &parent, &[Change { action, filter, name, stream, gone }]);
        }
    }

    /// What stood at `path` has gone from there: remembers it where somebody may have to be judged by it. Gives how many had gone before.
    fn goes(&self, store: &dyn Store, path: &SharePath, file: &dyn Node, by_access: bool) -> u64 {
        let before = self.gone.count();
        let is_way = file.kind() == Kind::Directory && self.has_trees(None);
        if self.is_idle() || !is_way && !by_access {
            return before;
        }
        let (Some(above), Some(name)) = (path.parent(), path.name()) else { return before };
        if let Ok(Resolved::Found { node: directory, .. }) = store.resolve(&above, Use::Metadata) {
            let identity = directory.identity();
            let counts = self.descriptors.counted((store, file), (directory, &above));
            let former = counts.ok().map(|counts| Former {
                identity: file.identity(),
                kind: file.kind(),
                descriptor: counts.map(Into::into),
            });
            self.gone.goes(identity, name, former);
        }
        before
    }
}
