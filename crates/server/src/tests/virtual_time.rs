//! For tests whose clock goes on by itself where nothing is left to do: it stands still while threads work, as it would on a machine that is
//! fast enough.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::{self, ThreadId};
use std::time::Duration;

use rustix::thread::{Pid, gettid};
use tokio::runtime::Handle;

use crate::resource::pool::Job;

/// Where no thread gets anything done for longer, and none wants a core, it hangs: the clock does not wait for that.
const AT_MOST: Duration = Duration::from_millis(500);

thread_local! {
    /// What tells the standstill of each job that is handed over, begins or is done, and ends it with the last that has it.
    static STANDSTILL: RefCell<Weak<Sender<News>>> = RefCell::default();
}

enum News {
    HandedOver,
    Begun(ThreadId, Pid),
    Done(ThreadId),
}

/// The job, during which the clock of the runtime that hands it over stands still.
pub(crate) fn stands_still_for(job: Job) -> Job {
    let Ok(runtime) = Handle::try_current() else { return job };
    let standstill = STANDSTILL.with_borrow_mut(|current| {
        let lasts = |standstill: &Arc<Sender<News>>| standstill.send(News::HandedOver).is_ok();
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
        let thread = thread::current().id();
        let _ = standstill.send(News::Begun(thread, gettid()));
        job();
        let _ = standstill.send(News::Done(thread));
    })
}

fn wait(news: &Receiver<News>) {
    let mut working = HashMap::new();
    loop {
        match news.recv_timeout(AT_MOST) {
            Ok(News::HandedOver) => {}
            Ok(News::Begun(thread, id)) => _ = working.insert(thread, id),
            Ok(News::Done(thread)) => _ = working.remove(&thread),
            Err(RecvTimeoutError::Timeout) if working.values().any(|id| wants_a_core(*id)) => {}
            Err(_) => return,
        }
    }
}

/// False where the thread waits for something, or is gone.
fn wants_a_core(thread: Pid) -> bool {
    // Its name stands in brackets before its state (proc_pid_stat(5)).
    let stat = fs::read_to_string(format!("/proc/self/task/{}/stat", thread.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R'))
}
