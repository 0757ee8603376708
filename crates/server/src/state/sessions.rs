//! All sessions of the server, and the ids that they have.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use wire::ids::SessionId;
use wire::status::Status;

use crate::state::session::Session;
use crate::state::session_link::SessionLink;

/// The table is split so that shards seldom meet.
const PARTS: usize = 16;
/// The most sessions on one server.
const SESSIONS_MAX_PER_PART: usize = 4_096;

/// All sessions of the server, by id (GlobalSessionTable, MS-SMB2 3.3.1.1).
pub(crate) struct Sessions {
    parts: Vec<Mutex<HashMap<SessionId, Arc<Session>>>>,
    /// Ids of sessions that are being set up for the first time (Session.State is InProgress).
    beginning: Arc<Mutex<HashSet<SessionId>>>,
    next: AtomicU32,
    scatter: Scatter,
}

/// An id for a session that is being set up, until that is dropped.
pub(crate) struct Beginning {
    all: Arc<Mutex<HashSet<SessionId>>>,
    id: SessionId,
}

impl Beginning {
    /// Takes an id that no session has.
    pub(crate) fn of(sessions: &Sessions) -> Self {
        let id = sessions.new_id();
        sessions.beginning.lock().insert(id);
        Beginning { all: Arc::clone(&sessions.beginning), id }
    }

    /// The id.
    pub(crate) fn id(&self) -> SessionId {
        self.id
    }
}

impl Drop for Beginning {
    fn drop(&mut self) {
        self.all.lock().remove(&self.id);
    }
}

/// Spreads a counter over all numbers of 32 bits, each of which comes once.
struct Scatter {
    factor: u32,
    offset: u32,
}

impl Scatter {
    fn by_chance() -> Self {
        let mut chance = [0; 8];
        // Without chance the ids are still unique.
        let _ = secure::random(&mut chance);
        let [a, b, c, d, e, f, g, h] = chance;
        // An odd factor loses no number.
        Scatter { factor: u32::from_le_bytes([a, b, c, d]) | 1, offset: u32::from_le_bytes([e, f, g, h]) }
    }

    fn spread(&self, number: u32) -> u32 {
        number.wrapping_mul(self.factor).wrapping_add(self.offset)
    }
}

impl Sessions {
    pub(crate) fn new() -> Self {
        let parts = (0..PARTS).map(|_| Mutex::default()).collect();
        Sessions { parts, beginning: Arc::default(), next: AtomicU32::new(1), scatter: Scatter::by_chance() }
    }

    /// An id that no session has. It has 32 bits, like Samba's: Samba's own test suite keeps no more of it. Sessions are protected by their
    /// keys, not by their ids.
    fn new_id(&self) -> SessionId {
        loop {
            let id = self.scatter.spread(self.next.fetch_add(1, Ordering::Relaxed));
            let id = SessionId(u64::from(id));
            if id != SessionId(0) && self.find(id).is_none() && !self.is_beginning(id) {
                return id;
            }
        }
    }

    /// Keeps a session.
    pub(crate) fn add(&self, session: &Arc<Session>) -> Result<(), Status> {
        let mut part = self.part(session.id).lock();
        if part.len() >= SESSIONS_MAX_PER_PART {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        part.insert(session.id, Arc::clone(session));
        Ok(())
    }

    /// The session of an id.
    pub(crate) fn find(&self, id: SessionId) -> Option<Arc<Session>> {
        self.part(id).lock().get(&id).cloned()
    }

    /// The session that a link leads to.
    pub(crate) fn of(&self, link: &SessionLink) -> Option<Arc<Session>> {
        self.find(link.session()?)
    }

    /// True for the id of a session that is being set up for the first time.
    pub(crate) fn is_beginning(&self, id: SessionId) -> bool {
        self.beginning.lock().contains(&id)
    }

    /// Forgets a session.
    pub(crate) fn remove(&self, id: SessionId) -> Option<Arc<Session>> {
        self.part(id).lock().remove(&id)
    }

    /// All sessions.
    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        self.parts.iter().flat_map(|part| part.lock().values().cloned().collect::<Vec<_>>()).collect()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.parts.iter().map(|part| part.lock().len()).sum()
    }

    fn part(&self, id: SessionId) -> &Mutex<HashMap<SessionId, Arc<Session>>> {
        &self.parts[id.0 as usize % PARTS]
    }
}
