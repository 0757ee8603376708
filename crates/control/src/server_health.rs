//! What may be wrong with a running server, for who looks often: problems of shares, the catalog's file, the room for the data folder. Nobody waits for a
//! disk that hangs.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use server::admin::Admin;

use crate::look::Look;
use crate::{KnownCatalog, Problem};

/// How long the disk of the data folder may take to say how much room it has. What it says later is told the next time.
const ROOM_WITHIN: Duration = Duration::from_millis(100);

/// How a server is. A copy sees the same.
#[derive(Clone, Default)]
pub struct ServerHealth {
    known: KnownCatalog,
    damage: Arc<Mutex<Option<String>>>,
    data: Arc<Room>,
}

impl ServerHealth {
    pub(crate) fn new(known: KnownCatalog, damage: Arc<Mutex<Option<String>>>, data: PathBuf) -> Self {
        ServerHealth { known, damage, data: Arc::new(Room { folder: Some(data), ..Room::default() }) }
    }

    /// Problems of shares, with those that the running server alone sees.
    pub fn problems(&self, server: &dyn Admin) -> Vec<Problem> {
        self.known.problems_of(server)
    }

    /// True where the last look at the catalog's file found something wrong.
    pub fn catalog_is_damaged(&self) -> bool {
        self.damage.lock().is_some()
    }

    /// Bytes that may still be written to the file system of the data folder; `None` where that is not known, or the disk does not answer.
    pub fn data_available_bytes(&self) -> Option<u64> {
        self.data.read()
    }
}

/// How much room a folder's file system has.
#[derive(Debug, Default)]
struct Room {
    folder: Option<PathBuf>,
    free: Mutex<Option<u64>>,
    is_asked: AtomicBool,
}

impl Room {
    fn read(self: &Arc<Self>) -> Option<u64> {
        let folder = self.folder.clone()?;
        if !self.is_asked.swap(true, Ordering::AcqRel) {
            let room = Arc::clone(self);
            let ask = move || {
                *room.free.lock() = rustix::fs::statvfs(&folder).ok().map(|found| found.f_bavail * found.f_frsize);
                room.is_asked.store(false, Ordering::Release);
            };
            match Look::begin(ask) {
                Ok(look) => _ = look.wait(Instant::now() + ROOM_WITHIN),
                Err(_) => self.is_asked.store(false, Ordering::Release),
            }
        }
        // One that is still asked hangs.
        if self.is_asked.load(Ordering::Acquire) { None } else { *self.free.lock() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_of_a_folder_is_known_unless_its_disk_hangs() {
        let room = Arc::new(Room { folder: Some("/".into()), ..Room::default() });
        assert!(room.read().is_some_and(|bytes| bytes > 0));
        room.is_asked.store(true, Ordering::Release);
        assert_eq!(room.read(), None, "an earlier question was not answered yet");
        assert_eq!(Arc::new(Room { folder: Some("/nowhere".into()), ..Room::default() }).read(), None);
        assert_eq!(ServerHealth::default().data_available_bytes(), None);
    }
}
