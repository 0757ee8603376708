//! What is told of each operation (MS-FSA, "Send directory change notification"): one call where the change is made. All of them
//! cost one look at a counter while nobody watches anything; else they may wait for the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use store::{Identity, Kind, Node, Resolved, SharePath, Store, Use, Waits, fold};
use wire::command::change_notify::CompletionFilter;
use wire::fscc::notify::Action;
use wire::ids::SessionId;

use super::gone::Former;
use super::{Change, Watches, name_filter};
use crate::resource::pool::QueueKey;
use crate::state::files::Removal;
use crate::state::open::{FileOpen, Open};
use crate::state::removal::LastOpen;
use crate::state::shared::Shared;

/// Writes through one open are told of at most this often, and when it closes.
const WRITES_TOLD_EVERY: Duration = Duration::from_secs(1);
/// Where a file stands below more directories than these, others do not wait for the thread that made the change until all are told.
const LEVELS_AT_ONCE_MAX: usize = 16;
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

/// What was changed through an open and nobody was told of (MS-FSA File.PendingNotifications).
#[derive(Default)]
pub(crate) struct Untold {
    /// A [`CompletionFilter`].
    changed: AtomicU32,
    /// When writes were told of, in milliseconds since the watches began.
    writes_told_at: AtomicU64,
    /// The pool has been asked to tell of data, and has not begun.
    is_asked_for: AtomicBool,
}

/// Data was written through an open, by a session. Told of now and then only.
pub(crate) fn wrote(server: &Arc<Shared>, open: &Arc<Open>, writer: SessionId) {
    let watches = &server.files.watches;
    let (false, Ok(file)) = (watches.is_idle(), open.file()) else { return };
    if watches.own.is_listening() && (file.stream.is_some() || file.has_frozen_times()) {
        watches.own.touched(file.node.identity());
    }
    let now = watches.started.elapsed() + WRITES_TOLD_EVERY;
    let told_at = Duration::from_millis(file.untold.writes_told_at.load(Ordering::Relaxed));
    if now.saturating_sub(told_at) < WRITES_TOLD_EVERY {
        file.untold.add(DATA);
        return;
    }
    file.untold.writes_told_at.store(now.as_millis() as u64, Ordering::Relaxed);
    data_changed(server, open, writer);
}

/// What was written through an open is on the disk: who was not told of it is told now.
pub(crate) fn flushed(server: &Arc<Shared>, open: &Arc<Open>, writer: SessionId) {
    let untold = open.file().is_ok_and(|file| file.untold.has(DATA));
    if untold {
        data_changed(server, open, writer);
    }
}

/// Data, or the length, of an open file changed, by a session. Never waits: the pool is asked to tell of it in the session's turn. It is
/// asked once, however much changes until it begins; where the open closes first, its close tells.
pub(crate) fn data_changed(server: &Arc<Shared>, open: &Arc<Open>, writer: SessionId) {
    if server.files.watches.is_idle() {
        return;
    }
    let Ok(file) = open.file() else { return };
    if file.node.waits() == Waits::Never && file.path.now().names().nth(LEVELS_AT_ONCE_MAX).is_none() {
        return server.files.watches.data_changed(open);
    }
    file.untold.add(DATA);
    if file.untold.is_asked_for.swap(true, Ordering::SeqCst) {
        return;
    }
    let queue_key = QueueKey { session: writer.0, ..QueueKey::of_user(file.node.identity().volume, open.user.number) };
    let (server_of, open) = (Arc::clone(server), Arc::clone(open));
    server.pool.submit(queue_key, Box::new(move || server_of.files.watches.tell_of_data(&open)));
}

impl Untold {
    fn add(&self, changed: CompletionFilter) {
        self.changed.fetch_or(changed.0, Ordering::Relaxed);
    }

    fn has(&self, changed: CompletionFilter) -> bool {
        CompletionFilter(self.changed.load(Ordering::Relaxed)).intersects(changed)
    }

    fn take(&self, changed: CompletionFilter) -> CompletionFilter {
        CompletionFilter(self.changed.fetch_and(!changed.0, Ordering::Relaxed) & changed.0)
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
    pub(crate) fn removed(&self, store: &dyn Store, path: &SharePath, last: &LastOpen, removal: &Removal) {
        match removal {
            Removal::Nothing => {}
            Removal::File(_) => {
                self.own.forget(last.base.identity());
                let gone = self.goes(store, path, &*last.base, last.tree.lists_by_access());
                self.tell_since(gone, store, path, (Action::REMOVED, name_filter(last.base.kind()), None));
            }
            Removal::Stream(folded) => {
                let own = last.path.stream();
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
    fn tell_of_data(&self, open: &Open) {
        let Ok(file) = open.file() else { return };
        // Before the changes are taken: one that comes after them asks anew.
        file.untold.is_asked_for.store(false, Ordering::SeqCst);
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
