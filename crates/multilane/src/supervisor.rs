//! Telling who runs the service (systemd: sd_notify(3)) when the server is ready, reads its catalog again and ends; and as long as every shard
//! answers, that it is alive. A shard that does not is in the log, whoever runs the service.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use control::Error;
use parking_lot::Mutex;
use sd_notify::NotifyState;
use server::admin::Admin;
use tracing::{error, info, warn};

use crate::table::printable;
use crate::why;

/// How often shards are asked where nobody has a watchdog, and where it waits for next to nothing.
const ASKED_EVERY: Duration = Duration::from_secs(10);
const ASKED_EVERY_MIN: Duration = Duration::from_millis(250);
/// How long it is seen whether a silent shard has a core.
const LOOKED_AT_FOR: Duration = Duration::from_millis(200);
/// How often in the time that a watchdog waits.
const ASKED_TIMES: u32 = 4;
/// Who takes no message for so long is not told.
const TELL_MAX: Duration = Duration::from_millis(250);

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

    /// Asks the shards from now on, and tells a watchdog that the server is alive while all of them answer.
    pub(crate) fn watch(&self, admin: Arc<dyn Admin>) -> io::Result<Watch> {
        let watchdog = sd_notify::watchdog_enabled();
        let every = watchdog.map_or(ASKED_EVERY, |watchdog| (watchdog / ASKED_TIMES).max(ASKED_EVERY_MIN));
        let (goes_on, end) = channel();
        let supervisor = self.clone();
        let silent = move |patience| {
            let shards = admin.silent_shards(patience);
            // Looked at for those alone that are silent: it takes some files of each thread.
            let lacks_core = !shards.is_empty() && {
                let before = why::shards_now();
                thread::sleep(LOOKED_AT_FOR);
                before.had_no_core(&shards)
            };
            Silent { lacks_core, shards }
        };
        let alive = move |states: &[NotifyState<'_>]| {
            if watchdog.is_some() || !matches!(states, [NotifyState::Watchdog]) {
                supervisor.say(states);
            }
        };
        thread::Builder::new().name("multilane-watch".to_owned()).spawn(move || ask(every, &end, silent, alive))?;
        Ok(Watch { _goes_on: goes_on })
    }

    fn enter(&self, stage: Stage, states: &[NotifyState<'_>]) {
        let before = {
            let mut last = self.0.lock();
            let before = *last;
            *last = if before == Stage::Ending { before } else { stage };
            before
        };
        // Whoever takes no messages keeps nobody from the next stage.
        if before != Stage::Ending {
            tell(states);
        }
    }

    fn say(&self, states: &[NotifyState<'_>]) {
        let is_ending = *self.0.lock() == Stage::Ending;
        if !is_ending {
            tell(states);
        }
    }
}

/// The shards that did not answer.
struct Silent {
    shards: Vec<usize>,
    /// They had work, and no core to do it on: that is nobody's fault here.
    lacks_core: bool,
}

/// Asks the shards `every` so often until `end`, and calls `alive` where all have answered within that time.
fn ask(every: Duration, end: &Receiver<()>, silent: impl Fn(Duration) -> Silent, alive: impl Fn(&[NotifyState<'_>])) {
    let mut hanging = Vec::new();
    loop {
        let began = Instant::now();
        let silent = silent(every);
        if silent.shards.is_empty() {
            if !hanging.is_empty() {
                info!(name: "shards_answer", "all shards answer again");
                alive(&[NotifyState::Status("All shards answer again.")]);
            }
            alive(&[NotifyState::Watchdog]);
        } else if end.try_recv() == Err(TryRecvError::Disconnected) {
            // They end with the server.
            return;
        } else if silent.shards != hanging {
            let shards = silent.shards.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
            match silent.lacks_core {
                true => {
                    error!(name: "shards_hang", shards, reason = "no core", "shards do not answer, for the machine has no time for them: their clients wait")
                }
                false => {
                    error!(name: "shards_hang", shards, reason = "unknown", "shards do not answer: their clients wait; please report it")
                }
            }
            alive(&[NotifyState::Status(&format!("Shards do not answer: {shards}."))]);
        }
        hanging = silent.shards;
        if end.recv_timeout(every.saturating_sub(began.elapsed())) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

/// Where nobody wants to be told, nobody is.
fn tell(states: &[NotifyState<'_>]) {
    if let Some(address) = env::var_os("NOTIFY_SOCKET")
        && let Err(error) = send(&address, states)
    {
        not_told(&error);
    }
}

/// Sends one message, and waits no longer than [`TELL_MAX`] for who receives it.
fn send(address: &OsStr, states: &[NotifyState<'_>]) -> io::Result<()> {
    let to = match address.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(address)?,
    };
    // A line break would begin another state.
    let message: String = states.iter().map(|state| printable(&state.to_string()) + "\n").collect();
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(TELL_MAX))?;
    socket.send_to_addr(message.as_bytes(), &to).map(drop)
}

/// Says so once.
fn not_told(error: &io::Error) {
    static IS_KNOWN: AtomicBool = AtomicBool::new(false);
    if !IS_KNOWN.swap(true, Ordering::Relaxed) {
        warn!(name: "service_manager_not_told", %error, "the service manager could not be told how the server is");
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    #[test]
    fn who_takes_no_messages_is_waited_for_a_moment() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("notify");
        let receiver = UnixDatagram::bind(&path).unwrap();
        let status = [NotifyState::Status("one\nREADY=1")];
        let sent = (0..100_000).take_while(|_| send(path.as_os_str(), &status).is_ok()).count();
        assert!(sent > 0 && sent < 100_000, "{sent}");
        let mut buffer = [0; 64];
        let length = receiver.recv(&mut buffer).unwrap();
        assert_eq!(std::str::from_utf8(&buffer[..length]), Ok("STATUS=one\\u{a}READY=1\n"));
        assert!(send(path.as_os_str(), &status).is_ok());
    }

    #[test]
    fn a_shard_that_hangs_ends_the_signs_of_life_until_it_answers() {
        let rounds = [vec![], vec![1, 3], vec![1, 3], vec![1], vec![]];
        let (round, said) = (Cell::new(0), RefCell::new(Vec::new()));
        let (goes_on, end) = channel();
        let goes_on = Cell::new(Some(goes_on));
        let silent = |_| {
            let silent = Silent { shards: rounds[round.get()].clone(), lacks_core: false };
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
