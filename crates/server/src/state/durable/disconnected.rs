//! Opens whose client is lost, until it returns or their time is over (MS-SMB2 3.3.7.1, 3.3.6.2, 3.3.6.4).

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use store::{Identity, Node, SharePath, fold};
use tokio::sync::watch;
use tokio::time::Instant;
use wire::ids::Guid;
use wire::security::Sid;
use wire::status::Status;

use super::expected::Expected;
use super::record::Record;
use super::{Durables, Keeping};
use crate::state::open::{FileOpen, OPENS_MAX, Open};
use crate::state::open_id::OpenId;
use crate::state::session_link::SessionState;

/// Opens that wait for their clients at a time; past it a lost open closes. As many as one client may have.
const WAITING_MAX: usize = OPENS_MAX;
/// Those of one user among them: one who loses many leaves room for others.
const WAITING_OF_USER_MAX: usize = WAITING_MAX / 2;

/// Why a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parting {
    /// Its last connection is lost, its client signed in anew in its place or signed off: what is durable is kept (3.3.7.1, 3.3.5.6).
    Lost,
    /// The operator ends it: everything closes.
    Expelled,
}

/// What became of a disconnected open that stood in somebody's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Farewell {
    /// It closes.
    Closing,
    /// It does not wait here: its client has it again, or it is closing already. Look at its line again.
    NotHere,
    /// It is persistent, and stays as it is until its time is over.
    Stays,
    /// It is resilient: it stays until its time is over, but cannot go on caching.
    CachesNothing,
}

/// The table.
#[derive(Default)]
pub(super) struct DisconnectedOpens {
    opens: HashMap<OpenId, Disconnected>,
    /// When each is over.
    deadlines: BTreeSet<(Instant, OpenId)>,
    /// How many each user has.
    by_user: HashMap<Sid, usize>,
    /// Of the persistent ones: by the guid of their CREATE, and how many there are of a name and of a file that others may not open.
    by_create: HashMap<Guid, OpenId>,
    names: HashMap<NameKey, usize>,
    files: HashMap<StreamKey, usize>,
    /// Makes the digests, under a key that nobody knows.
    digests: RandomState,
}

/// A share, and a name in it, folded: the digest of it, which takes no more room for a longer name.
type NameKey = (Arc<str>, u64);
/// A file, and the digest of a stream's name, folded; empty for the file itself.
type StreamKey = (Identity, u64);

struct Disconnected {
    open: Arc<Open>,
    until: Instant,
    is_persistent: bool,
    /// Closed when what the lost session had begun through the open is made: for all whom its client sends for it.
    settled: Option<watch::Receiver<()>>,
    /// Where a persistent one that keeps others out was when it was lost, and what it is of.
    place: Option<(NameKey, StreamKey)>,
}

impl DisconnectedOpens {
    fn insert(&mut self, open: &Arc<Open>, keeping: Keeping, until: Instant) -> bool {
        let of_user = self.by_user.get(open.user.sid()).map_or(0, |count| *count);
        if self.opens.len() >= WAITING_MAX || of_user >= WAITING_OF_USER_MAX {
            return false;
        }
        self.by_user.insert(*open.user.sid(), of_user + 1);
        let persistent = open.file().ok().filter(|_| keeping.is_persistent());
        let place = persistent.filter(|_| open.granted.keeps_others_out()).map(|file| {
            let stream = self.stream(file.node.identity(), &file.stream_name());
            (self.place(&open.tree.share, &file.name()), stream)
        });
        if let Some((place, stream)) = &place {
            *self.names.entry(place.clone()).or_default() += 1;
            *self.files.entry(*stream).or_default() += 1;
        }
        if let Some(create) = persistent.and_then(|file| file.durability.making().create) {
            self.by_create.insert(create, open.id);
        }
        self.deadlines.insert((until, open.id));
        let is_persistent = persistent.is_some();
        let waiting = Disconnected { open: Arc::clone(open), until, is_persistent, settled: None, place };
        self.opens.insert(open.id, waiting);
        true
    }

    fn place(&self, share: &Arc<str>, name: &str) -> NameKey {
        (Arc::clone(share), self.digests.hash_one(fold(name)))
    }

    fn stream(&self, file: Identity, stream: &str) -> StreamKey {
        (file, self.digests.hash_one(fold(stream)))
    }

    fn remove(&mut self, id: OpenId) -> Option<Disconnected> {
        let disconnected = self.opens.remove(&id)?;
        self.deadlines.remove(&(disconnected.until, id));
        one_less(self.by_user.entry(*disconnected.open.user.sid()));
        if let Some((place, stream)) = &disconnected.place {
            one_less(self.names.entry(place.clone()));
            one_less(self.files.entry(*stream));
        }
        let create = disconnected.open.file().ok().and_then(|file| file.durability.making().create);
        if let Some(create) = create
            && self.by_create.get(&create) == Some(&id)
        {
            self.by_create.remove(&create);
        }
        Some(disconnected)
    }
}

fn one_less<K>(entry: Entry<'_, K, usize>) {
    if let Entry::Occupied(mut count) = entry {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

impl Durables {
    /// Keeps what of a session's opens outlives it, and gives the rest, for closing. An open that is kept has a line that leads
    /// nowhere.
    #[must_use]
    pub(crate) fn keep(&self, opens: Vec<Arc<Open>>) -> Vec<Arc<Open>> {
        let now = Instant::now();
        let mut rest = Vec::new();
        for open in opens {
            // Its session has ended, and begins nothing more through it.
            open.ends();
            let kept = open.file().is_ok_and(|file| {
                file.file.lost(open.id, open.user.sid());
                self.keep_one(&open, file, now)
            });
            if !kept {
                rest.push(open);
            }
        }
        self.changed.notify_one();
        rest
    }

    /// The open waits before what it holds is looked at: a break that comes between finds it here.
    fn keep_one(&self, open: &Arc<Open>, file: &FileOpen, now: Instant) -> bool {
        let keeping = file.durability.keeping();
        if keeping == Keeping::Not || !self.insert(open, keeping, now + keeping.timeout()) {
            return false;
        }
        match keeping {
            Keeping::Durable(_) if !file.file.caching_of(open.id).keeps() => self.take(open.id).is_none(),
            Keeping::Not | Keeping::Durable(_) | Keeping::Resilient(_) | Keeping::Persistent(_) => true,
        }
    }

    pub(crate) fn insert(&self, open: &Arc<Open>, keeping: Keeping, until: Instant) -> bool {
        let mut waiting = self.waiting.lock();
        open.line.cut();
        let inserted = waiting.insert(open, keeping, until);
        if inserted && keeping.is_persistent() {
            self.waiting_persistent.fetch_add(1, Ordering::Relaxed);
        }
        inserted
    }

    fn removed(&self, disconnected: &Disconnected) {
        if disconnected.is_persistent {
            self.waiting_persistent.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The open of an id, where it waits for its client.
    pub(crate) fn find(&self, id: OpenId) -> Option<Arc<Open>> {
        self.waiting.lock().opens.get(&id).map(|disconnected| Arc::clone(&disconnected.open))
    }

    /// The persistent open that a CREATE with this guid made on a share, where it waits.
    pub(crate) fn find_persistent(&self, share: &str, create: Guid) -> Option<Arc<Open>> {
        let waiting = self.waiting.lock();
        let found = waiting.by_create.get(&create).and_then(|id| waiting.opens.get(id))?;
        (*found.open.tree.share == *share).then(|| Arc::clone(&found.open))
    }

    /// True where no persistent open waits, made anew or not.
    pub(crate) fn are_persistent_ones_back(&self) -> bool {
        self.waiting_persistent.load(Ordering::Relaxed) == 0
    }

    /// True where a persistent open waits on the file or stream of this name, as clients write it, and keeps others out.
    pub(crate) fn waits_on(&self, share: &Arc<str>, name: &str) -> bool {
        let waiting = self.waiting.lock();
        waiting.names.contains_key(&waiting.place(share, name))
    }

    /// True where a persistent open waits on this stream of a file and keeps others out, whatever name and share it was opened by (MS-SMB2
    /// 3.3.5.9): an open that a server before this one had does so from the start. `path` is the name that led to the file.
    pub(crate) fn waits_on_stream(&self, file: &dyn Node, path: &SharePath, stream: &str) -> bool {
        if self.are_persistent_ones_back() {
            return false;
        }
        // An open that is made anew waits before it is awaited no longer.
        let is_expected = self.expected.lock().has(file, path.name().unwrap_or_default(), Some(stream));
        is_expected || {
            let waiting = self.waiting.lock();
            waiting.files.contains_key(&waiting.stream(file.identity(), stream))
        }
    }

    /// True where a persistent open of a file, or of a stream of it, is still to be made anew.
    pub(crate) fn expects(&self, file: &dyn Node, path: &SharePath) -> bool {
        !self.are_persistent_ones_back() && self.expected.lock().has(file, path.name().unwrap_or_default(), None)
    }

    /// The open of a record is still to be made anew.
    pub(crate) fn expect(&self, record: &Record) {
        self.change_expected(|expected| expected.insert(record));
    }

    /// It has been made anew, or is lost.
    pub(crate) fn expect_no_longer(&self, record: &Record) {
        self.change_expected(|expected| expected.remove(record));
    }

    /// A file was made: no open of another file of its number is in the way of it.
    pub(crate) fn made_file(&self, file: Identity) {
        if !self.are_persistent_ones_back() {
            self.change_expected(|expected| expected.made(file));
        }
    }

    fn change_expected(&self, change: impl FnOnce(&mut Expected)) {
        let mut expected = self.expected.lock();
        let before = expected.count();
        change(&mut expected);
        match expected.count().checked_sub(before) {
            Some(more) => self.waiting_persistent.fetch_add(more, Ordering::Relaxed),
            None => self.waiting_persistent.fetch_sub(before - expected.count(), Ordering::Relaxed),
        };
    }

    /// How many wait.
    pub(crate) fn count(&self) -> usize {
        self.waiting.lock().opens.len()
    }

    /// All that wait.
    pub(crate) fn all(&self) -> Vec<Arc<Open>> {
        self.waiting.lock().opens.values().map(|disconnected| Arc::clone(&disconnected.open)).collect()
    }

    /// What closes when all is made that the lost session had begun through an open that waits: nothing more begins. An older change must not come
    /// behind what its client does once it is back. `None` where the open does not wait.
    pub(crate) fn settled(&self, open: &Arc<Open>) -> Option<watch::Receiver<()>> {
        let (made, is_made) = watch::channel(());
        {
            let mut waiting = self.waiting.lock();
            let disconnected = waiting.opens.get_mut(&open.id)?;
            match &disconnected.settled {
                Some(known) if known.has_changed().is_ok() => return Some(known.clone()),
                Some(_) | None => disconnected.settled = Some(is_made.clone()),
            }
        }
        open.end_with(Box::new(move || drop(made)));
        Some(is_made)
    }

    /// Keeps an open whose client is back, and waits for what it had begun, for so long from now at least.
    pub(crate) fn wait_longer(&self, id: OpenId, patience: Duration) -> Result<(), Status> {
        let mut waiting = self.waiting.lock();
        let DisconnectedOpens { opens, deadlines, .. } = &mut *waiting;
        let disconnected = opens.get_mut(&id).ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
        let until = disconnected.until.max(Instant::now() + patience);
        deadlines.remove(&(disconnected.until, id));
        deadlines.insert((until, id));
        disconnected.until = until;
        Ok(())
    }

    /// Gives an open that waits to a session, with a line that leads there: from one moment to the next it is no longer here and
    /// its client is reached. `OBJECT_NAME_NOT_FOUND` where something else was faster.
    pub(crate) fn reclaim(&self, open: &Arc<Open>, session: &Arc<SessionState>) -> Result<(), Status> {
        let mut waiting = self.waiting.lock();
        let disconnected = waiting.remove(open.id).ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
        self.removed(&disconnected);
        open.line.connect(session);
        Ok(())
    }

    /// Takes an open away for closing.
    pub(crate) fn take(&self, id: OpenId) -> Option<Arc<Open>> {
        let disconnected = self.waiting.lock().remove(id)?;
        self.removed(&disconnected);
        Some(disconnected.open)
    }

    /// Takes all that `is_meant` away for closing.
    pub(super) fn take_where(&self, is_meant: impl Fn(&Open) -> bool) -> Vec<Arc<Open>> {
        let meant: Vec<_> = self.all().into_iter().filter(|open| is_meant(open)).collect();
        meant.into_iter().filter_map(|open| self.take(open.id)).collect()
    }

    /// Takes away what dies with the server: all but what is persistent.
    pub(crate) fn take_mortal(&self) -> Vec<Arc<Open>> {
        self.take_where(|open| open.file().is_ok_and(|file| !file.durability.keeping().is_persistent()))
    }

    /// Takes away all, as the server ends: nothing of what is persistent is closed.
    pub(crate) fn take_all(&self) -> Vec<Arc<Open>> {
        self.take_where(|_| true)
    }

    /// Takes away those whose time is over.
    pub(crate) fn take_expired(&self, now: Instant) -> Vec<Arc<Open>> {
        let expired: Vec<_> = {
            let waiting = self.waiting.lock();
            waiting.deadlines.iter().take_while(|(until, _)| *until <= now).map(|(_, id)| *id).collect()
        };
        expired.into_iter().filter_map(|id| self.take(id)).collect()
    }

    /// When the next one's time is over.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.waiting.lock().deadlines.first().map(|(until, _)| *until)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use wire::ids::TreeId;

    use super::*;
    use crate::state::configuration::Signing;
    use crate::state::open::Target;
    use crate::state::pipe::Pipe;
    use crate::state::session_link::SessionLink;
    use crate::state::tree::Tree;
    use crate::state::user::User;
    use crate::tests::testing::server;

    #[test]
    fn one_users_opens_leave_room_for_those_of_others() {
        let server = server(Signing::Enabled);
        let configuration = server.configuration.load();
        let users: Vec<_> =
            configuration.principals.iter().map(|principal| Arc::new(User::new(principal, [1; 3]))).collect();
        let tree = Arc::new(Tree::on_pipes(TreeId(1)));
        let keeping = Keeping::Durable(Duration::from_secs(60));
        let until = Instant::now() + keeping.timeout();
        let keep = |user: usize| {
            let target =
                Target::Pipe(Box::new(Pipe::open("srvsvc", &crate::resource::budget::Budget::new(0)).unwrap()));
            let (user, tree) = (Arc::clone(&users[user]), Arc::clone(&tree));
            let open = Arc::new(Open::new(
                server.new_open_id(),
                SessionLink::down(),
                user,
                tree,
                target,
                crate::state::authorization::GrantedAccess::recorded(0),
            ));
            server.durables.insert(&open, keeping, until).then_some(open.id)
        };
        let kept: Vec<_> = (0..WAITING_OF_USER_MAX).map(|_| keep(0).unwrap()).collect();
        assert_eq!(keep(0), None);
        assert!(keep(1).is_some());
        assert!(server.durables.take(kept[0]).is_some());
        assert!(keep(0).is_some());
        assert_eq!(keep(0), None);
    }
}
