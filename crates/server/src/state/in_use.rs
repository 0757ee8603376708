//! What a storage account has in use: its sessions and what they have open, for who holds its key (MS-SMB2 3.3.4.18, 3.3.4.20).

use std::num::NonZeroUsize;
use std::sync::Arc;

use wire::ids::SessionId;
use wire::rpc::srvsvc::{OpenFile, Session as Told};
use wire::security::access;

use crate::state::open::{Open, Target};
use crate::state::pipe::{InUse, Looked};
use crate::state::session::Session;
use crate::state::shared::Shared;
use crate::state::walk::{At, Walk};

/// Opens that are taken out of a session's table at a time: its lock is not held for longer.
const OPENS_AT_A_TIME: usize = 64;
/// Bytes of work that looking at a session costs, passing over an open, telling a session or an open, and counting a lock.
const SESSION_COST: u64 = 64;
const PASSED_OPEN_COST: u64 = 16;
const TOLD_COST: u64 = 1024;
const LOCK_COST: u64 = 32;
/// Bytes of work after which others have their turn.
const WORK_AT_ONCE: u64 = 256 << 10;
/// The most locks that are counted of one open.
const LOCKS_TOLD_MAX: usize = 1_000;
/// PERM_FILE_READ, PERM_FILE_WRITE and PERM_FILE_CREATE (MS-SRVS 2.2.4.7).
const READ: u32 = 0x1;
const WRITE: u32 = 0x2;
const CREATE: u32 = 0x4;

impl Shared {
    /// A walk through all sessions of an account's principals.
    fn walk(&self, account: &str) -> (Walk, u64) {
        let mut sessions = self.sessions.all();
        let work = SESSION_COST * sessions.len() as u64;
        sessions.retain(|session| session.user.load().account == account);
        sessions.sort_unstable_by_key(|session| session.id);
        let opens = sessions.iter().map(|session| session.open_count()).sum();
        let sessions = sessions.iter().map(|session| session.id).collect();
        (Walk { sessions, opens, next: 0, at: At::default() }, work)
    }

    /// A walk that begins at the open with the number `from`.
    fn walk_from(&self, account: &str, from: usize) -> (Walk, u64) {
        let (mut walk, mut work) = self.walk(account);
        while walk.next < from
            && let Some(id) = walk.sessions.get(walk.at.session)
        {
            let session = self.sessions.find(*id);
            let opens = session.as_ref().map_or(0, |session| session.open_count());
            let Some(rest) = NonZeroUsize::new((from - walk.next).min(opens)) else {
                walk.at.session += 1;
                continue;
            };
            walk.next += rest.get();
            if rest.get() == opens {
                walk.at.session += 1;
            } else {
                work += PASSED_OPEN_COST * rest.get() as u64;
                walk.at.after = session.and_then(|session| session.place_behind(rest));
            }
        }
        (walk, work)
    }

    /// The session of an id, where it still is one of the account.
    fn session_of(&self, account: &str, id: SessionId) -> Option<Arc<Session>> {
        self.sessions.find(id).filter(|session| session.user.load().account == account)
    }
}

impl InUse for Shared {
    fn sessions(
        &self,
        account: &str,
        (walk, from): (&mut Option<Walk>, usize),
        take: &mut dyn FnMut(Told) -> bool,
    ) -> Looked {
        let (mut going, mut work) = walk.take().map_or_else(|| self.walk(account), |going| (going, 0));
        let mut next = from;
        while let Some(id) = going.sessions.get(next) {
            work += TOLD_COST;
            let Some(session) = self.session_of(account, *id) else {
                going.sessions.remove(next);
                continue;
            };
            next += 1;
            if !take(tell(&session)) {
                break;
            }
        }
        let count = going.sessions.len();
        *walk = Some(going);
        Looked { count, work }
    }

    fn files(
        &self,
        account: &str,
        (walk, from): (&mut Option<Walk>, usize),
        take: &mut dyn FnMut(OpenFile) -> bool,
    ) -> Looked {
        let going = walk.take().filter(|going| going.next == from);
        let (mut going, mut work) = going.map_or_else(|| self.walk_from(account, from), |going| (going, 0));
        let most = work + WORK_AT_ONCE;
        let mut wanted = true;
        while wanted
            && work < most
            && let Some(id) = going.sessions.get(going.at.session)
        {
            work += SESSION_COST;
            let session = self.session_of(account, *id);
            let some = session.map_or_else(Vec::new, |session| session.opens_after(going.at.after, OPENS_AT_A_TIME));
            if some.is_empty() {
                going.at = At { session: going.at.session + 1, after: None };
            }
            for open in some {
                let told = tell_open(&open);
                work += cost(&told);
                going.at.after = Some((open.tree.id, open.id));
                going.next += 1;
                wanted = take(told);
                if !wanted || work >= most {
                    break;
                }
            }
        }
        let is_done = going.at.session >= going.sessions.len();
        let count = if is_done { going.next } else { going.opens.max(going.next) };
        *walk = Some(going);
        Looked { count, work }
    }
}

/// Bytes of work that it takes to tell an open.
fn cost(told: &OpenFile) -> u64 {
    TOLD_COST + told.path.len() as u64 + LOCK_COST * u64::from(told.locks)
}

fn tell(session: &Session) -> Told {
    let channels = session.channels();
    let client = channels.first().map_or_else(String::new, |channel| address(&channel.peer));
    let idle = channels.iter().map(|channel| channel.idle_seconds()).min().unwrap_or(0);
    Told {
        client,
        user: session.user.load().name.clone(),
        opens: session.open_count() as u32,
        seconds: session.created.elapsed().as_secs() as u32,
        idle_seconds: idle as u32,
    }
}

/// An address without its port.
fn address(peer: &str) -> String {
    peer.parse::<std::net::SocketAddr>().map_or_else(|_| peer.to_owned(), |peer| peer.ip().to_canonical().to_string())
}

fn tell_open(open: &Open) -> OpenFile {
    let (path, locks) = match &open.target {
        Target::File(file) => {
            let locks = match file.file.has_locks() {
                true => file.file.locks_of(&file.stream_name(), open.id, LOCKS_TOLD_MAX).len(),
                false => 0,
            };
            (format!("{}\\{}", open.tree.place, file.name()), locks)
        }
        Target::Pipe(pipe) => (format!("\\PIPE\\{}", pipe.name), 0),
    };
    let granted = open.granted.bits();
    let permission = |rights: u32, permission| if granted & rights != 0 { permission } else { 0 };
    OpenFile {
        id: open.id.0 as u32,
        permissions: permission(access::READ_DATA | access::EXECUTE, READ)
            | permission(access::WRITE_DATA | access::APPEND_DATA, WRITE)
            | permission(access::WRITE_DATA, CREATE),
        locks: locks as u32,
        path,
        user: open.user.name.clone(),
    }
}
