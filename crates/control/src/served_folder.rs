//! A folder that a share is on, and its thread. Whatever touches the folder's device happens on that thread, since a device may
//! hang: nobody else waits for it longer than it wants to.

use std::fs;
use std::io;
use std::num::NonZeroU32;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::fs::{Access, AtFlags};
use rustix::io::Errno;
use store::{Belief, CachedStore, DirectoryOptions, DirectoryStore, Look, Space, Store};
use tracing::{info, warn};

use crate::DataFolder;
use crate::catalog::{Changes, Modes};
use crate::within::given_away;

/// How often it is looked whether a folder is there, and still the one that is served.
const LOOKED_EVERY: Duration = Duration::from_secs(2);
/// A folder that has not answered for so long hangs: nobody waits for it any more.
pub(crate) const HANGS_AFTER: Duration = Duration::from_secs(2);

/// For how long after somebody asked how full a folder is each look finds that out.
const SPACE_WANTED_FOR: Duration = Duration::from_secs(150);

/// Called before a folder is touched, with its path.
pub(crate) type BeforeTouch = Arc<dyn Fn(&Path) + Send + Sync>;

/// How a folder is served, but for its quota, which changes while it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) path: PathBuf,
    pub(crate) read_only: bool,
    pub(crate) modes: Modes,
}

/// What all folders of a server have in common.
#[derive(Clone)]
pub(crate) struct Surroundings {
    /// The folder that no share may hold.
    pub(crate) data: DataFolder,
    /// Told when a folder is served that was not.
    pub(crate) changed: SyncSender<()>,
    pub(crate) before_touch: BeforeTouch,
    /// The threads of folders, those that hang and are no longer wanted among them.
    pub(crate) threads: Arc<AtomicUsize>,
}

/// The folder. It is looked after until [`ServedFolder::end`].
pub(crate) struct ServedFolder {
    pub(crate) terms: Terms,
    surroundings: Surroundings,
    state: Mutex<State>,
    /// A look was wanted, or has ended.
    moved: Condvar,
}

#[derive(Default)]
struct State {
    /// It has the quota.
    store: Option<Arc<DirectoryStore>>,
    /// The same behind the cache of what is known of its files.
    cached: Option<Arc<CachedStore>>,
    /// What is known of its files is kept.
    caches: bool,
    /// How long it is believed where nobody tells of changes.
    belief: Belief,
    quota_gib: Option<NonZeroU32>,
    /// The folder that the store serves.
    place: Option<FolderKey>,
    /// How full it was at the last look that found that out.
    space: Option<Space>,
    /// When somebody asked for that last.
    space_asked: Option<Instant>,
    /// What the last look found wrong.
    problem: Option<String>,
    /// Looks that were wanted, that began and that ended, counted.
    wanted: u64,
    begun: u64,
    done: u64,
    /// When the look that is under way began.
    since: Option<Instant>,
    /// A look was waited for in vain as long as anybody waits.
    overdue: bool,
    ended: bool,
}

/// Device and inode of a folder: another folder may have its name by now.
type FolderKey = (u64, u64);

/// What is known of a folder without touching it.
pub(crate) struct Known {
    pub(crate) store: Option<Arc<dyn Store>>,
    /// Why it is not served, or what is wrong with it though it is.
    pub(crate) problem: Option<String>,
}

impl ServedFolder {
    /// Begins to look after a folder, on a thread of its own.
    pub(crate) fn start(
        terms: Terms,
        quota_gib: Option<NonZeroU32>,
        surroundings: Surroundings,
    ) -> io::Result<Arc<Self>> {
        let state = Mutex::new(State { wanted: 1, quota_gib, ..State::default() });
        let folder = Arc::new(ServedFolder { terms, surroundings, state, moved: Condvar::new() });
        let (kept, counted) = (Arc::clone(&folder), Counted::new(&folder.surroundings));
        let name = "multilane-folder".to_owned();
        thread::Builder::new().name(name).spawn(move || {
            kept.look_after();
            drop(kept);
            drop(counted);
        })?;
        Ok(folder)
    }

    /// Gives the folder another quota, or none, without opening it anew. False where its files would have to be counted first.
    pub(crate) fn set_quota(&self, quota_gib: Option<NonZeroU32>) -> bool {
        let mut state = self.state.lock();
        let is_set = state.store.as_ref().is_none_or(|store| store.set_quota(quota_gib.map(bytes)));
        if is_set {
            state.quota_gib = quota_gib;
        }
        is_set
    }

    /// Has what is known of its files kept and believed so long, or asked for each time.
    pub(crate) fn remember(&self, caches: bool, belief: Belief) {
        let mut state = self.state.lock();
        (state.caches, state.belief) = (caches, belief);
        state.cached.iter().for_each(|cached| {
            cached.believe(belief);
            cached.switch(caches);
        });
    }

    /// How long what is known of its files is believed, once it is served.
    #[cfg(test)]
    pub(crate) fn belief(&self) -> Option<Belief> {
        self.state.lock().cached.as_ref().map(|cached| cached.belief())
    }

    /// Wants the folder looked at now.
    pub(crate) fn look(&self) {
        let mut state = self.state.lock();
        if state.wanted == state.begun {
            state.wanted += 1;
        }
        drop(state);
        self.moved.notify_all();
    }

    /// Waits until the look that was wanted last has ended, until `until` at most, and not for a folder that hangs. False where it has
    /// not.
    pub(crate) fn wait(&self, until: Instant) -> bool {
        let mut state = self.state.lock();
        loop {
            if state.done >= state.wanted || state.ended || state.hangs() {
                return true;
            }
            if self.moved.wait_until(&mut state, until).timed_out() {
                return state.done >= state.wanted;
            }
        }
    }

    /// The same; a folder that was not looked at by then hangs, even where its own thread has not come to it yet.
    pub(crate) fn wait_out(&self, until: Instant) {
        if !self.wait(until) {
            let mut state = self.state.lock();
            state.overdue = state.done < state.wanted;
        }
    }

    /// What the last look found.
    pub(crate) fn known(&self) -> Known {
        let state = self.state.lock();
        let store = state.cached.clone().map(|cached| cached as Arc<dyn Store>);
        let problem = if state.hangs() || (store.is_none() && state.problem.is_none()) {
            Some(silent(&self.terms.path))
        } else {
            state.problem.clone()
        };
        Known { store, problem }
    }

    /// What the last look found wrong.
    pub(crate) fn fault(&self) -> Option<String> {
        self.state.lock().problem.clone()
    }

    /// How full the folder was a look ago; `None` where it is not served, does not answer, or was not asked for lately.
    pub(crate) fn space(&self) -> Option<Space> {
        let mut state = self.state.lock();
        state.space_asked = Some(Instant::now());
        state.space.filter(|_| state.store.is_some() && !state.hangs())
    }

    /// Bytes that its files take, where they are counted for a quota. Asks the folder nothing.
    pub(crate) fn used_bytes(&self) -> Option<u64> {
        self.state.lock().store.as_ref()?.used_bytes()
    }

    /// Lets go of the folder. A thread that hangs ends when its folder answers.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        state.ended = true;
        (state.store, state.cached) = (None, None);
        drop(state);
        self.moved.notify_all();
    }

    fn look_after(&self) {
        loop {
            let Some(begun) = self.begin() else { return };
            let found = self.found(&begun);
            let space = begun.space();
            let is_new = {
                let mut state = self.state.lock();
                (state.since, state.overdue) = (None, false);
                state.done = state.begun;
                state.space = space;
                if state.ended { false } else { state.take(found, &self.terms.path) }
            };
            drop(begun);
            self.moved.notify_all();
            if is_new {
                // One that waits to be heard says as much as two.
                let _ = self.surroundings.changed.try_send(());
            }
            let mut state = self.state.lock();
            if !state.ended && state.wanted == state.begun {
                self.moved.wait_for(&mut state, LOOKED_EVERY);
            }
        }
    }

    fn begin(&self) -> Option<Begun> {
        let mut state = self.state.lock();
        if state.ended {
            return None;
        }
        state.begun = (state.begun + 1).max(state.wanted);
        state.wanted = state.begun;
        state.since = Some(Instant::now());
        let wants_space = state.space_asked.is_some_and(|asked| asked.elapsed() < SPACE_WANTED_FOR);
        Some(Begun { store: state.store.clone(), place: state.place, quota_gib: state.quota_gib, wants_space })
    }

    /// Looks at the folder, and opens it where it is not served, or not the one that is. May wait for ever; nothing is locked meanwhile.
    fn found(&self, begun: &Begun) -> Found {
        let path = &self.terms.path;
        (self.surroundings.before_touch)(path);
        if let Some(store) = &begun.store {
            // Whatever has its name now: what it lay in may be served, or be gone and have left its number to another.
            store.look_above();
        }
        let place = match place(path, &self.surroundings.data) {
            Ok(place) => place,
            Err(Unfit::Gone(problem)) => return Found::Wrong(problem),
            Err(Unfit::Forbidden(problem)) => return Found::Forbidden(problem),
        };
        match &begun.store {
            Some(store) if begun.place == Some(place) => look(store, path),
            Some(store) => match store.follow(path) {
                Ok(()) => Found::Followed(place),
                Err(store::Error::Nested) => Found::Wrong(nested(path)),
                Err(cause) => Found::Wrong(format!("the folder that took the place of {}: {cause}", path.display())),
            },
            None => match ungivable(&self.terms)
                .or_else(|| foreign(&self.terms))
                .map_or_else(|| open(&self.terms, begun.quota_gib), Err)
            {
                Ok(store) => Found::Opened(store, place),
                Err(problem) => Found::Wrong(problem),
            },
        }
    }
}

/// Looks after a folder that is served, and still in its place.
fn look(store: &DirectoryStore, path: &Path) -> Found {
    match store.look() {
        Ok(Look::Same) => Found::Same,
        Ok(Look::LockedAnew) => {
            warn!(
                name: "folder_lock_replaced",
                folder = %path.display(),
                "another program has removed or replaced .multilane of a served folder: its lock is taken anew, what was kept there may be lost"
            );
            Found::Same
        }
        Err(cause @ store::Error::Served(_)) => Found::Wrong(not_free(path, &cause)),
        Err(store::Error::Nested) => Found::Wrong(nested(path)),
        Err(cause) => Found::Wrong(format!("the lock of the folder {} is not where it was: {cause}", path.display())),
    }
}

/// What was served, and how, when a look began.
struct Begun {
    store: Option<Arc<DirectoryStore>>,
    place: Option<FolderKey>,
    quota_gib: Option<NonZeroU32>,
    wants_space: bool,
}

impl Begun {
    /// How full it is, where somebody wants to know. May wait for ever.
    fn space(&self) -> Option<Space> {
        self.store.as_ref().filter(|_| self.wants_space)?.space().ok()
    }
}

/// What a look has come to.
enum Found {
    /// The folder that is served.
    Same,
    /// Another folder had its name, and is served now.
    Followed(FolderKey),
    /// The folder, which was not served.
    Opened(Arc<DirectoryStore>, FolderKey),
    /// Nothing that could be served. What is served stays served.
    Wrong(String),
    /// What must not be served.
    Forbidden(String),
}

impl State {
    /// Takes what a look found. True where the folder is served that was not, or the other way round, or something else is wrong with it than before.
    fn take(&mut self, found: Found, path: &Path) -> bool {
        let was_served = self.store.is_some();
        let problem = match found {
            Found::Same => {
                if self.problem.is_some() {
                    info!(name: "folder_well", folder = %path.display(), "nothing is wrong with a served folder any more");
                }
                None
            }
            Found::Followed(place) => {
                info!(name: "folder_replaced", folder = %path.display(), "another folder has taken the place of a served one and is served now");
                self.cached.iter().for_each(|cached| cached.forget());
                self.place = Some(place);
                None
            }
            // The quota may have come meanwhile: with the next look, then.
            Found::Opened(store, _) if !store.set_quota(self.quota_gib.map(bytes)) => {
                Some(format!("the folder {} is being counted for its quota", path.display()))
            }
            Found::Opened(store, place) => {
                let known = store::Known::of_process();
                let cached = CachedStore::new(Arc::clone(&store) as Arc<dyn Store>, known, Belief::default());
                cached.believe(self.belief);
                cached.switch(self.caches);
                (self.store, self.cached, self.place) = (Some(store), Some(Arc::new(cached)), Some(place));
                None
            }
            Found::Wrong(problem) => Some(problem),
            Found::Forbidden(problem) => {
                (self.store, self.cached, self.place) = (None, None, None);
                Some(problem)
            }
        };
        if let Some(problem) = problem.as_ref().filter(|problem| was_served && self.problem.as_ref() != Some(*problem))
        {
            warn!(name: "folder_faulty", folder = %path.display(), reason = problem, "something is wrong with a folder that is served; what is open in it stays");
        }
        let is_news = self.problem != problem || self.store.is_some() != was_served;
        self.problem = problem;
        is_news
    }

    fn hangs(&self) -> bool {
        self.overdue || self.since.is_some_and(|since| since.elapsed() >= HANGS_AFTER)
    }
}

/// A thread that is counted until it ends.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(surroundings: &Surroundings) -> Self {
        surroundings.threads.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(&surroundings.threads))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why a folder is not served.
enum Unfit {
    /// It is not there, or cannot be used.
    Gone(String),
    /// It holds the data folder.
    Forbidden(String),
}

/// What is wrong with a folder that hangs.
pub(crate) fn silent(path: &Path) -> String {
    format!("the folder {} does not answer", path.display())
}

/// Why a folder cannot be served from `data`, as far as can be seen without opening it. May wait for its device.
pub(crate) fn problem(path: &Path, changes: Changes, data: &DataFolder) -> Option<String> {
    match place(path, data) {
        Ok(_) => unusable(path, changes),
        Err(Unfit::Gone(problem) | Unfit::Forbidden(problem)) => Some(problem),
    }
}

/// Why a server of this program's user could not do in a folder what its clients may. May wait for its device.
pub(crate) fn unusable(path: &Path, changes: Changes) -> Option<String> {
    let (wanted, what) = match changes {
        Changes::Allowed => (Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK, "write to"),
        Changes::Refused => (Access::READ_OK | Access::EXEC_OK, "read"),
    };
    let cause = rustix::fs::accessat(rustix::fs::CWD, path, wanted, AtFlags::EACCESS).err()?;
    let user = rustix::process::geteuid().as_raw();
    let path = path.display();
    Some(match cause {
        Errno::ROFS => format!("the service may not {what} the folder {path}: its file system is mounted read-only"),
        Errno::ACCESS => format!("the service, which is user {user}, may not {what} the folder {path}"),
        _ => format!("the service cannot {what} the folder {path}: {cause}"),
    })
}

/// Which folder it is now. The data folder may have moved into it since the share was made.
fn place(path: &Path, data: &DataFolder) -> Result<FolderKey, Unfit> {
    let whole = fs::canonicalize(path).and_then(|whole| Ok((fs::metadata(&whole)?, whole)));
    match whole {
        Ok((found, _)) if !found.is_dir() => Err(Unfit::Gone(format!("{} is no longer a folder", path.display()))),
        Ok((found, whole)) => match given_away(&whole, data.path()) {
            Some(given_away) => Err(Unfit::Forbidden(format!("the folder {given_away}"))),
            None => Ok((found.dev(), found.ino())),
        },
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            Err(Unfit::Gone(format!("the folder {} is gone", path.display())))
        }
        Err(e) => Err(Unfit::Gone(format!("the folder {} cannot be used: {e}", path.display()))),
    }
}

fn bytes(gib: NonZeroU32) -> u64 {
    u64::from(gib.get()) << 30
}

/// Why a folder may not be one in which all is given away: whoever has it could put something else in the place of what the server keeps in it.
fn foreign(terms: &Terms) -> Option<String> {
    terms.modes.owner.filter(|_| !terms.read_only)?;
    let found = fs::metadata(&terms.path).ok()?;
    let is_own = found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o022 == 0;
    (!is_own).then(|| {
        format!(
            "with --unix-owner the folder {} itself must belong to the server's own user, and nobody else may write to it: chown and chmod it",
            terms.path.display()
        )
    })
}

/// Why what is made in a folder could not be its owner's. What is made as somebody else's would be closed to whom it is meant for, and open to others.
fn ungivable(terms: &Terms) -> Option<String> {
    let owner = terms.modes.owner.filter(|owner| !terms.read_only && !owner.can_be_given_files())?;
    Some(format!(
        "this server may not give files to the user {} and the group {} of this machine, as --unix-owner says: run it as root or as that user",
        owner.uid, owner.gid
    ))
}

fn open(terms: &Terms, quota_gib: Option<NonZeroU32>) -> Result<Arc<DirectoryStore>, String> {
    let options = DirectoryOptions {
        read_only: terms.read_only,
        quota_bytes: quota_gib.map(bytes),
        file_mode: terms.modes.file,
        directory_mode: terms.modes.directory,
        owner: terms.modes.owner,
        ..DirectoryOptions::default()
    };
    DirectoryStore::open(&terms.path, options).map(Arc::new).map_err(|cause| unopened(&terms.path, &cause))
}

/// Why the folder at `path` could not be opened.
fn unopened(path: &Path, cause: &store::Error) -> String {
    match cause {
        store::Error::Unsupported => "this kernel has no openat2; Linux 5.6 or later is needed".to_owned(),
        store::Error::Served(_) => not_free(path, cause),
        store::Error::Nested => nested(path),
        _ => format!("the folder {} cannot be opened: {cause}", path.display()),
    }
}

fn not_free(path: &Path, cause: &store::Error) -> String {
    format!("the folder {} is not free: {cause}; share it from one server only, or read-only", path.display())
}

/// Why a folder is not served that lies in one that is, or the other way round.
fn nested(path: &Path) -> String {
    let other = DirectoryStore::nested_with(path)
        .map_or_else(|| "another folder".to_owned(), |other| other.display().to_string());
    format!(
        "the folder {} and {other}, which is served, lie one in the other, and not both have extended attributes: \
         descriptors that are set through one would not hold through the other; serve only one of them",
        path.display()
    )
}
