//! Waiting for what ends a server or makes it read its catalog again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use load::engine::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;

/// The exit code of a server that is told to end a second time.
const IMPATIENT: i32 = 1;

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Read the catalog again (SIGHUP).
    Reload,
    /// End (SIGTERM, SIGINT).
    End,
}

/// From now on SIGTERM, SIGINT and SIGHUP end a run in order instead of the process.
pub(crate) fn end(run: &Stop) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let run = run.clone();
    std::thread::spawn(move || signals.forever().for_each(|_| run.now()));
    Ok(())
}

/// The signals, caught from now on.
pub(crate) struct Wishes {
    signals: Signals,
    ending: Arc<AtomicBool>,
}

impl Wishes {
    pub(crate) fn new() -> io::Result<Self> {
        let ending = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT] {
            flag::register_conditional_shutdown(signal, IMPATIENT, Arc::clone(&ending))?;
        }
        // A write beyond the limit of a file's size (RLIMIT_FSIZE) is to fail, and not to end the process.
        flag::register(SIGXFSZ, Arc::default())?;
        // SIGUSR1 and SIGUSR2 mean nothing here; left alone they would end the process.
        Ok(Wishes { signals: Signals::new([SIGHUP, SIGTERM, SIGINT, SIGUSR1, SIGUSR2])?, ending })
    }

    /// Waits for the next. Once the end was asked for, asking again ends the process at once.
    pub(crate) fn next(&mut self) -> Wish {
        for signal in self.signals.forever() {
            match signal {
                SIGHUP => return Wish::Reload,
                SIGUSR1 | SIGUSR2 => {
                    tracing::info!(name: "signal_ignored", signal, "a signal without a meaning was passed over")
                }
                _ => break,
            }
        }
        self.ending.store(true, Ordering::Release);
        Wish::End
    }
}
