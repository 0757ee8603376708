//! For tests whose clock goes on by itself where nothing is left to do: it stands still while threads work, as it would on a machine that is
//! fast enough.

use std::cell::RefCell;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;

use crate::resource::pool::Job;

/// Where no thread gets anything done for longer it hangs: the clock does not wait for that.
const AT_MOST: Duration = Duration::from_millis(500);

thread_local! {
    /// What tells the standstill of each job that begins or is done, and ends it with the last that has it.
    static STANDSTILL: RefCell<Weak<Sender<()>>> = RefCell::default();
}

/// The job, during which the clock of the runtime that hands it over stands still.
pub(crate) fn stands_still_for(job: Job) -> Job {
    let Ok(runtime) = Handle::try_current() else { return job };
    let standstill = STANDSTILL.with_borrow_mut(|current| {
        let lasts = |standstill: &Arc<Sender<()>>| standstill.send(()).is_ok();
        current.upgrade().filter(lasts).unwrap_or_else(|| {
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
        let _ = standstill.send(());
    })
}

fn wait(ended: &Receiver<()>) {
    while ended.recv_timeout(AT_MOST).is_ok() {}
}
