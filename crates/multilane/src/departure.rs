//! Giving back what a server has in its data folder. The folder's disk may hang, so this is done on a thread of its own, for which nobody waits
//! long.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use control::{AdminSocket, Control, Lock};
use parking_lot::Mutex;
use tracing::warn;

use crate::recorder::Recorder;

/// How long the folder has to answer from the moment at which the server was told to end.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);
/// How long it has at least once the server has ended, whose own end takes 14 s at most.
const ANSWERS_AT_LEAST_WITHIN: Duration = Duration::from_millis(250);

/// What the data folder's disk may keep waiting: the socket that is removed there, the control with its catalog, and who keeps metrics.
type Belongings = (AdminSocket, Arc<Mutex<Control>>, Option<Recorder>);

/// The thread. It is there from the start: at the end there might be none to be had.
pub(crate) struct Departure {
    belongings: Sender<Belongings>,
    /// Dropped when the server has ended.
    ended: Sender<Infallible>,
    /// Nothing comes; its other end goes when everything was given back.
    given_back: Receiver<Infallible>,
}

/// One that has begun.
pub(crate) struct Departing {
    since: Instant,
    ended: Sender<Infallible>,
    given_back: Receiver<Infallible>,
}

impl Departure {
    /// Starts the thread. The folder's `lock` is given back last: until then no other server is there whose socket could be removed.
    pub(crate) fn of(lock: Lock) -> io::Result<Self> {
        let (belongings, begun) = channel::<Belongings>();
        let (ended, end) = channel::<Infallible>();
        let (giving_back, given_back) = channel();
        thread::Builder::new().name("multilane-leave".to_owned()).spawn(move || {
            if let Ok((socket, control, recorder)) = begun.recv() {
                lock.note_ending();
                drop(socket);
                drop(control);
                // An error: the server has ended.
                let _ = end.recv();
                // It keeps what the server did to its end.
                drop(recorder);
            }
            drop(lock);
            drop(giving_back);
        })?;
        Ok(Departure { belongings, ended, given_back })
    }

    /// Has the socket removed and the catalog closed, and waits for neither.
    pub(crate) fn begin(self, belongings: Belongings) -> Departing {
        let Departure { belongings: thread, ended, given_back } = self;
        // The thread waits for this and for nothing else.
        let _ = thread.send(belongings);
        Departing { since: Instant::now(), ended, given_back }
    }
}

impl Departing {
    /// Gives back the lock, too, where the folder answers. Where it hangs the kernel gives back the rest when that ends, and the process with it.
    pub(crate) fn end(self) {
        drop(self.ended);
        let patience = ANSWERS_WITHIN.saturating_sub(self.since.elapsed()).max(ANSWERS_AT_LEAST_WITHIN);
        if let Err(RecvTimeoutError::Timeout) = self.given_back.recv_timeout(patience) {
            warn!(
                name: "data_folder_hangs",
                "the data folder does not answer: it is free for the next server when it does, and the process is gone"
            );
        }
    }
}
