//! How much of its time a session's thread spends on sending: where one thread does all of the client's work and sending takes much of it,
//! more connections give it nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;

/// How far back it looks, about.
const LOOK_BACK: Duration = Duration::from_millis(5);
/// One part of the time in so many is much: the rest goes into waking, counting and taking answers.
const PARTS: u32 = 3;

/// So many cores are busy with one thread of the client and one of the server.
const CORES_FILLED: usize = 2;

/// What sending costs all connections of one session together.
#[derive(Default)]
pub(crate) struct SendLoad {
    /// There is only one thread, which does everything.
    is_alone: bool,
    /// That thread and one of a server beside it keep all cores of the machine busy.
    fills_machine: bool,
    is_much: AtomicBool,
    lately: Mutex<Option<Lately>>,
}

/// Time that was spent since a moment.
#[derive(Clone, Copy)]
struct Lately {
    since: Instant,
    spent: Duration,
}

impl SendLoad {
    /// Of a session whose tasks go on in the runtime that this is called in.
    pub(crate) fn here() -> Self {
        let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
        let is_alone = matches!(flavor, Ok(RuntimeFlavor::CurrentThread));
        let cores = thread::available_parallelism().map_or(1, usize::from);
        SendLoad { is_alone, fills_machine: is_alone && cores <= CORES_FILLED, ..SendLoad::default() }
    }

    /// Does some work that belongs to sending.
    pub(crate) fn spend<T>(&self, work: impl FnOnce() -> T) -> T {
        if !self.is_alone {
            return work();
        }
        let begun = Instant::now();
        let done = work();
        self.count(begun, Instant::now());
        done
    }

    /// True where more connections would give a request nothing: the thread that sends it is what limits, or the machine is, which has
    /// the server's threads, too.
    pub(crate) fn is_limit(&self, is_sending_data: bool, is_beside_server: bool) -> bool {
        (is_sending_data && self.is_much.load(Ordering::Relaxed)) || (is_beside_server && self.fills_machine)
    }

    fn count(&self, begun: Instant, ended: Instant) {
        let mut lately = self.lately.lock();
        let Lately { since, spent } = lately.get_or_insert(Lately { since: begun, spent: Duration::ZERO });
        *spent += ended - begun;
        let passed = ended - *since;
        if passed >= LOOK_BACK {
            self.is_much.store(*spent * PARTS >= passed, Ordering::Relaxed);
            // What is longer ago counts for less.
            *since = ended - LOOK_BACK / 2;
            *spent = spent.mul_f64(0.5 * LOOK_BACK.as_secs_f64() / passed.as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether `busy` of each millisecond, of so many, is much.
    fn judged(send_load: &SendLoad, milliseconds: u32, busy: Duration) -> bool {
        let start = Instant::now();
        for number in 0..milliseconds {
            let begun = start + Duration::from_millis(1) * number;
            send_load.count(begun, begun + busy);
        }
        send_load.is_limit(true, false)
    }

    #[test]
    fn a_thread_that_mostly_sends_is_what_limits_and_one_that_mostly_waits_is_not() {
        for (busy, is_much) in [(100, false), (250, false), (450, true), (900, true)] {
            assert_eq!(judged(&SendLoad::default(), 30, Duration::from_micros(busy)), is_much, "{busy} us of each ms");
        }
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
        let send_load = SendLoad::default();
        assert!(judged(&send_load, 30, Duration::from_micros(900)));
        assert!(!judged(&send_load, 60, Duration::from_micros(50)));
    }

    #[test]
    fn who_receives_is_limited_only_beside_the_server_on_a_machine_without_a_third_core() {
        let busy = SendLoad::default();
        assert!(judged(&busy, 30, Duration::from_micros(900)));
        assert!(!busy.is_limit(false, true));
        let crowded = SendLoad { fills_machine: true, ..SendLoad::default() };
        assert!(crowded.is_limit(false, true) && crowded.is_limit(true, true));
        assert!(!crowded.is_limit(false, false) && !crowded.is_limit(true, false));
    }

    #[test]
    fn only_a_thread_that_does_all_of_the_work_is_judged() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let alone = runtime.block_on(async { SendLoad::here() });
        let others = SendLoad::here();
        [&alone, &others].into_iter().for_each(|send_load| send_load.spend(|| ()));
        assert_eq!([alone, others].map(|send_load| send_load.lately.lock().is_some()), [true, false]);
    }
}
