//! For tests whose clock goes on by itself where nothing is left to do: it stands still while threads work, as it would on a machine that is
//! fast enough.

use std::cell::RefCell;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;

use crate::pool::Job;

/// What takes longer hangs: the clock does not wait for it.
const AT_MOST: Duration = Duration::from_millis(500);

thread_local! {
    /// What ends the standstill when the last job that has it is done.
    static STANDSTILL: RefCell<Weak<Sender<()>>> = RefCell::default();
}

/// The job, during which the clock of the runtime that hands it over stands still.
pub(crate) fn stands_still_for(job: Job) -> Job {
    let Ok(runtime) = Handle::try_current() else { return job };
    let standstill = STANDSTILL.with_borrow_mut(|current| {
        current.upgrade().unwrap_or_else(|| {
            let (ends, ended) = channel();
            // A runtime's clock does not go on by itself while one of these works.
            runtime.spawn_blocking(move || wait(&ended));
            let begun = Arc::new(ends);
            *current = Arc::downgrade(&begun);
            begun
        })
    });
    Box::new(move || {
        job();
        drop(standstill);
    })
}

fn wait(ended: &Receiver<()>) {
    let _ = ended.recv_timeout(AT_MOST);
}
