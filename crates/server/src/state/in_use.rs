//! What a storage account has in use: its sessions and what they have open, for who holds its key (MS-SMB2 3.3.4.18, 3.3.4.20).

use std::sync::Arc;

use wire::rpc::srvsvc::{OpenFile, Session as Told};
use wire::security::access;

use crate::state::open::{Open, Target};
use crate::state::pipe::InUse;
use crate::state::session::Session;
use crate::state::shared::Shared;

/// Opens that are taken out of a session's table at a time: its lock is not held for longer.
const OPENS_AT_A_TIME: usize = 256;
/// The most locks that are counted of one open.
const LOCKS_TOLD_MAX: usize = 1_000;
/// PERM_FILE_READ, PERM_FILE_WRITE and PERM_FILE_CREATE (MS-SRVS 2.2.4.7).
const READ: u32 = 0x1;
const WRITE: u32 = 0x2;
const CREATE: u32 = 0x4;

impl InUse for Shared {
    fn sessions(&self, account: &str, from: usize, take: &mut dyn FnMut(Told) -> bool) -> (usize, usize) {
        let all = self.sessions.all();
        let looked_at = all.len();
        let sessions = of_account(all, account);
        let _ = sessions.iter().skip(from).map(|session| tell(session)).all(take);
        (sessions.len(), looked_at)
    }

    fn files(&self, account: &str, from: usize, take: &mut dyn FnMut(OpenFile) -> bool) -> (usize, usize) {
        let all = self.sessions.all();
        let looked_at = all.len();
        let (mut count, mut wanted) = (0, true);
        for session in of_account(all, account) {
            let opens = session.open_count();
            let mut at = from.saturating_sub(count).min(opens);
            while wanted && at < opens {
                let some = session.some_opens(at, OPENS_AT_A_TIME);
                if some.is_empty() {
                    break;
                }
                at += some.len();
                wanted = some.iter().map(|open| tell_open(open)).all(&mut *take);
            }
            count += opens;
        }
        (count, looked_at)
    }
}

/// The sessions of an account's principals, in an order that stays.
fn of_account(mut sessions: Vec<Arc<Session>>, account: &str) -> Vec<Arc<Session>> {
    sessions.retain(|session| session.user.load().account == account);
    sessions.sort_unstable_by_key(|session| session.id);
    sessions
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
            (format!("{}\\{}", open.tree.share, file.name()), locks)
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
