//! Whether the catalog's file is whole: looked at now and then while the server runs, on a thread that may wait. What SQLite has in memory says nothing of
//! what is on the disk, and the next start would be the first to find out.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tracing::{error, info, warn};

use crate::DataFolder;
use crate::catalog::damages;

/// How often it is looked where nobody asks.
const LOOKED_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// What the last look at the catalog's file found.
#[derive(Clone, Debug)]
pub(crate) struct CatalogHealth {
    damage: Arc<Mutex<Option<String>>>,
    wanted: SyncSender<()>,
}

impl CatalogHealth {
    /// Nothing is known to be wrong; whoever watches hears that a look is wanted.
    pub(crate) fn new() -> (Self, Receiver<()>) {
        let (wanted, looks) = sync_channel(1);
        (CatalogHealth { damage: Arc::default(), wanted }, looks)
    }

    /// What is wrong with the file.
    pub(crate) fn damage(&self) -> Option<String> {
        self.damage.lock().clone()
    }

    /// The same, for who looks often.
    pub(crate) fn shared(&self) -> Arc<Mutex<Option<String>>> {
        Arc::clone(&self.damage)
    }

    /// Wants it looked at, and waits for nothing.
    pub(crate) fn look(&self) {
        // One look that waits does for two.
        let _ = self.wanted.try_send(());
    }

    /// Looks at the catalog of `folder` at once, and whenever that is wanted, until nobody is left to want it.
    pub(crate) fn watch(&self, folder: &DataFolder, looks: Receiver<()>) -> io::Result<()> {
        let (damage, folder) = (Arc::clone(&self.damage), folder.clone());
        thread::Builder::new().name("multilane-catalog".to_owned()).spawn(move || {
            loop {
                look(&folder, &damage);
                if looks.recv_timeout(LOOKED_EVERY) == Err(RecvTimeoutError::Disconnected) {
                    return;
                }
            }
        })?;
        Ok(())
    }
}

fn look(folder: &DataFolder, damage: &Mutex<Option<String>>) {
    let found = match damages(folder) {
        Ok(found) => found.into_iter().next(),
        Err(error) => {
            warn!(name: "catalog_not_checked", %error, "it could not be looked whether the catalog is whole");
            return;
        }
    };
    let before = std::mem::replace(&mut *damage.lock(), found.clone());
    match found {
        Some(found) if before.as_ref() != Some(&found) => {
            error!(name: "catalog_damaged", error = found, "the catalog is damaged on its disk: restore a backup before the server is stopped, for it would not start again");
        }
        None if before.is_some() => info!(name: "catalog_whole", "the catalog is whole again"),
        Some(_) | None => {}
    }
}
