//! Giving the running server what the catalog says now.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use server::admin::Admin;
use tracing::{error, info};

use crate::catalog_health::CatalogHealth;
use crate::gone;
use crate::served_folder::HANGS_AFTER;
use crate::{Control, Error, Problem};

/// How long a change waits for folders before it takes effect without them: what is well answers within milliseconds, and is
/// served with the change.
const AT_ONCE: Duration = Duration::from_millis(100);
/// How often it is looked whether the catalog has changed and nobody could say so: a command that could not reach the server, for it had no thread
/// left, or another program.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// The pause after a catalog that could not be read.
const PAUSE: Duration = Duration::from_secs(2);

/// Reads the catalog again, whichever file that is by now, and gives the server the new configuration, whatever folders do; gives the shares left
/// out, as far as their folders say why within two seconds. Where the catalog cannot be read the server keeps the configuration that it has.
pub fn reload(control: &Mutex<Control>, admin: &dyn Admin) -> Result<Vec<Problem>, Error> {
    let began = Instant::now();
    let looks = control.lock().look()?;
    if !looks.wait(began + AT_ONCE) {
        give(control, admin)?;
        looks.wait_out(began + HANGS_AFTER);
    }
    let mut problems = give(control, admin)?;
    // What was deleted just now, and is not kept, is served no more.
    if control.lock().sweep_deleted() {
        problems = give(control, admin)?;
    }
    info!(name: "catalog_read", shares_left_out = problems.iter().filter(|one| !one.served).count(), "catalog read again");
    // A command may have set something aside.
    let data = control.lock().data();
    gone::take_away_if_any(data.path());
    Ok(problems)
}

/// Gives the server what changed about folders, of what the catalog said last.
fn give_folders(control: &Mutex<Control>, admin: &dyn Admin) {
    let mut control = control.lock();
    if (control.is_behind() || control.is_overtaken())
        && let Some(configuration) = control.known_estate()
    {
        admin.replace(configuration);
    }
}

fn give(control: &Mutex<Control>, admin: &dyn Admin) -> Result<Vec<Problem>, Error> {
    // Held until the server has it, so that of two configurations the later one stays. Nothing in between waits for a folder.
    let mut control = control.lock();
    admin.replace(control.configuration()?);
    Ok(control.problems().to_vec())
}

/// Who hears that a reload is over, and why the catalog could not be read, where it could not.
pub type Told = Box<dyn Fn(Option<&Error>) + Send>;

/// A thread that reloads when it is told to, and has folders served that were not there before. It ends with the control.
#[derive(Debug)]
pub struct Reloader {
    wanted: Arc<AtomicBool>,
    wake: SyncSender<()>,
    health: CatalogHealth,
}

impl Reloader {
    /// Starts it; `told` hears what came of each reload. There is one for a control.
    pub fn start(control: &Arc<Mutex<Control>>, admin: Arc<dyn Admin>, told: Told) -> io::Result<Self> {
        let (changes, wake) = control.lock().changes().ok_or(io::ErrorKind::AlreadyExists)?;
        let health = control.lock().watch_catalog()?;
        let wanted = Arc::new(AtomicBool::new(false));
        let work = Work { control: Arc::downgrade(control), admin, told, wanted: Arc::clone(&wanted) };
        thread::Builder::new().name("multilane-reload".to_owned()).spawn(move || work.run(&changes))?;
        Ok(Reloader { wanted, wake, health })
    }

    /// Has the catalog read again, and its file looked at, and waits for nothing.
    pub fn reload(&self) {
        self.health.look();
        self.wanted.store(true, Ordering::Release);
        // One call that waits to be heard does for two.
        let _ = self.wake.try_send(());
    }
}

struct Work {
    control: Weak<Mutex<Control>>,
    admin: Arc<dyn Admin>,
    told: Told,
    wanted: Arc<AtomicBool>,
}

impl Work {
    fn run(&self, changes: &Receiver<()>) {
        // What the log was told last of a catalog that cannot be read.
        let mut told = None;
        // What a server before has left.
        self.take_away();
        loop {
            match changes.recv_timeout(LOOK_EVERY) {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout) => match self.control.upgrade() {
                    // Shares that this process took away are none of what others have changed.
                    Some(control) if self.wanted.load(Ordering::Acquire) || control.lock().is_out_of_date() => {
                        self.wanted.store(true, Ordering::Release);
                    }
                    Some(control) => {
                        control.lock().forget_rest();
                        self.sweep();
                        continue;
                    }
                    None => return,
                },
                Err(RecvTimeoutError::Disconnected) => return,
            }
            while let Some(Err(cause)) = self.once() {
                if told.as_ref() != Some(&cause) {
                    error!(name: "catalog_not_read", error = %cause, "the catalog was not read again: what it said before stays in effect");
                    told = Some(cause);
                }
                thread::sleep(PAUSE);
                self.wanted.store(true, Ordering::Release);
            }
            told = None;
            self.sweep();
        }
    }

    /// Has deleted shares be gone whose time is over.
    fn sweep(&self) {
        let Some(control) = self.control.upgrade() else { return };
        if control.lock().sweep_deleted() {
            self.wanted.store(true, Ordering::Release);
            self.take_away();
        }
    }

    /// Takes away the folders of shares that are gone.
    fn take_away(&self) {
        let Some(control) = self.control.upgrade() else { return };
        let data = control.lock().data();
        gone::take_away_soon(data.path().to_owned());
    }

    /// `None` where the control is gone.
    fn once(&self) -> Option<Result<(), Error>> {
        let control = self.control.upgrade()?;
        let is_wanted = self.wanted.swap(false, Ordering::Acquire);
        let reloaded = if is_wanted { reload(&control, &*self.admin).map(drop) } else { Ok(()) };
        if is_wanted {
            (self.told)(reloaded.as_ref().err());
        }
        give_folders(&control, &*self.admin);
        Some(reloaded)
    }
}
