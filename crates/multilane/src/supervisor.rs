//! Telling who runs the service (systemd: sd_notify(3)) when the server is ready, reads its catalog again and ends; and as long as every shard
//! answers, that it is alive. A shard that does not is in the log, whoever runs the service.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use control::Error;
use parking_lot::Mutex;
use sd_notify::NotifyState;
use server::admin::Admin;
use tracing::{error, info, warn};

/// How often shards are asked where nobody has a watchdog.
const ASKED_EVERY: Duration = Duration::from_secs(10);

/// Who runs the service, as the server speaks to it.
#[derive(Clone)]
pub(crate) struct Supervisor(Arc<Mutex<Stage>>);

/// What was said last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Starting,
    Ready,
    Reloading,
    /// Nothing is said any more.
    Ending,
}

/// The thread that asks the shards, until this is dropped.
pub(crate) struct Watch {
    _goes_on: Sender<()>,
}

impl Supervisor {
    pub(crate) fn new() -> Self {
        Supervisor(Arc::new(Mutex::new(Stage::Starting)))
    }

    /// The server answers clients.
    pub(crate) fn ready(&self, sentence: &str) {
        self.enter(Stage::Ready, &[NotifyState::Ready, NotifyState::Status(sentence)]);
    }

    /// The catalog is read again.
    pub(crate) fn reloading(&self) {
        let now = match NotifyState::monotonic_usec_now() {
            Ok(now) => now,
            // Without the time systemd would wait for ever.
            Err(error) => return not_told(&error),
        };
        self.enter(Stage::Reloading, &[NotifyState::Reloading, now, NotifyState::Status("Reads the catalog again.")]);
    }

    /// The catalog was read, or could not be.
    pub(crate) fn reloaded(&self, failed: Option<&Error>) {
        let sentence = match failed {
            None => "Serves what the catalog says.".to_owned(),
            Some(error) => format!("Serves what the catalog said before: {}.", error.what()),
        };
        let is_awaited = *self.0.lock() == Stage::Reloading;
        if is_awaited {
            self.enter(Stage::Ready, &[NotifyState::Ready, NotifyState::Status(&sentence)]);
        }
    }

    /// The server was told to end.
    pub(crate) fn stopping(&self) {
        self.enter(
            Stage::Ending,
            &[NotifyState::Stopping, NotifyState::Status("Answers what is in flight, and ends.")],
        );
    }

    /// Asks the shards from now on, and says that the server is alive while all of them answer: twice in the time that a watchdog waits.
    pub(crate) fn watch(&self, admin: Arc<dyn Admin>) -> io::Result<Watch> {
        let every = sd_notify::watchdog_enabled().map_or(ASKED_EVERY, |watchdog| watchdog / 2);
        let (goes_on, end) = channel();
        let supervisor = self.clone();
        let silent = move |patience| admin.silent_shards(patience);
        let alive = move |states: &[NotifyState<'_>]| supervisor.say(states);
        thread::Builder::new().name("multilane-watch".to_owned()).spawn(move || ask(every, &end, silent, alive))?;
        Ok(Watch { _goes_on: goes_on })
    }

    fn enter(&self, stage: Stage, states: &[NotifyState<'_>]) {
        let mut last = self.0.lock();
        if *last != Stage::Ending {
            *last = stage;
            tell(states);
        }
    }

    fn say(&self, states: &[NotifyState<'_>]) {
        if *self.0.lock() != Stage::Ending {
            tell(states);
        }
    }
}

/// Asks the shards `every` so often until `end`, and calls `alive` where all have answered within that time.
fn ask(
    every: Duration,
    end: &Receiver<()>,
    silent: impl Fn(Duration) -> Vec<usize>,
    alive: impl Fn(&[NotifyState<'_>]),
) {
    let mut hanging = Vec::new();
    loop {
        let began = Instant::now();
        let silent = silent(every);
        if silent.is_empty() {
            if !hanging.is_empty() {
                info!(name: "shards_answer", "all shards answer again");
                alive(&[NotifyState::Status("All shards answer again.")]);
            }
            alive(&[NotifyState::Watchdog]);
        } else if end.try_recv() == Err(TryRecvError::Disconnected) {
            // They end with the server.
            return;
        } else if silent != hanging {
            let shards = silent.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
            error!(name: "shards_hang", shards, "shards do not answer: their clients wait; please report it");
            alive(&[NotifyState::Status(&format!("Shards do not answer: {shards}."))]);
        }
        hanging = silent;
        if end.recv_timeout(every.saturating_sub(began.elapsed())) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

/// Where nobody wants to be told, nobody is.
fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        not_told(&error);
    }
}

fn not_told(error: &io::Error) {
    warn!(name: "service_manager_not_told", %error, "the service manager could not be told how the server is");
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    #[test]
    fn a_shard_that_hangs_ends_the_signs_of_life_until_it_answers() {
        let rounds = [vec![], vec![1, 3], vec![1, 3], vec![1], vec![]];
        let (round, said) = (Cell::new(0), RefCell::new(Vec::new()));
        let (goes_on, end) = channel();
        let goes_on = Cell::new(Some(goes_on));
        let silent = |_| {
            let silent = rounds[round.get()].clone();
            round.set(round.get() + 1);
            if round.get() == rounds.len() {
                drop(goes_on.take());
            }
            silent
        };
        ask(Duration::from_millis(1), &end, silent, |states| {
            said.borrow_mut().extend(states.iter().map(ToString::to_string));
        });
        assert_eq!(
            said.into_inner(),
            [
                "WATCHDOG=1",
                "STATUS=Shards do not answer: 1, 3.",
                "STATUS=Shards do not answer: 1.",
                "STATUS=All shards answer again.",
                "WATCHDOG=1"
            ]
        );
    }
}
