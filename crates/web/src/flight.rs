//! One computation for all who wait for it: who asks gets what is found out after it asked, and however many ask there is one at work.

use std::collections::HashMap;
use std::hash::Hash;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

/// How many may wait at a time.
pub(crate) const WAITING_MAX: usize = 256;
/// The part of a core that computing takes at most where somebody asks all the time, and the longest pause for that.
const REST_TIMES: u32 = 9;
const REST_MAX: Duration = Duration::from_secs(1);

/// What is computed, on a thread of its own.
pub(crate) trait Work: Send + 'static {
    /// What is found out once for all who wait.
    type Reading;
    /// What each of them wants to know of it.
    type Question: Clone + Eq + Hash + Send + 'static;
    /// What it gets.
    type Answer: Clone + Send + 'static;

    /// Finds out.
    fn read(&mut self) -> Self::Reading;

    /// Says what was asked. It is called once for each question that somebody has.
    fn answer(&mut self, reading: &Self::Reading, question: Self::Question) -> Self::Answer;
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// Too many wait.
    Busy,
    /// Nobody computes any more.
    Ended,
}

/// Where is asked. The thread ends when this is dropped.
pub(crate) struct Flight<W: Work> {
    desk: Arc<Desk<W>>,
}

struct Desk<W: Work> {
    waiting: Mutex<Waiting<W>>,
    came: Condvar,
}

struct Waiting<W: Work> {
    askers: Vec<Asker<W>>,
    has_ended: bool,
}

/// Somebody who waits.
struct Asker<W: Work> {
    question: W::Question,
    tell: oneshot::Sender<W::Answer>,
}

impl<W: Work> Flight<W> {
    /// Starts the thread, which has this name.
    pub(crate) fn start(name: &str, work: W) -> io::Result<Self> {
        let waiting = Mutex::new(Waiting { askers: Vec::new(), has_ended: false });
        let desk = Arc::new(Desk { waiting, came: Condvar::new() });
        let ended = EndsWith(Arc::clone(&desk));
        thread::Builder::new().name(name.to_owned()).spawn(move || ended.0.serve(work))?;
        Ok(Flight { desk })
    }

    /// Waits for what is found out from now on.
    pub(crate) async fn ask(&self, question: W::Question) -> Result<W::Answer, Unanswered> {
        let (tell, told) = oneshot::channel();
        self.desk.enter(Asker { question, tell })?;
        told.await.map_err(|_| Unanswered::Ended)
    }
}

impl<W: Work> Drop for Flight<W> {
    fn drop(&mut self) {
        self.desk.end();
    }
}

/// What the thread has: when that ends, by a panic too, nobody waits for it.
struct EndsWith<W: Work>(Arc<Desk<W>>);

impl<W: Work> Drop for EndsWith<W> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl<W: Work> Desk<W> {
    fn enter(&self, asker: Asker<W>) -> Result<(), Unanswered> {
        let mut waiting = self.waiting.lock();
        if waiting.has_ended {
            return Err(Unanswered::Ended);
        }
        if waiting.askers.len() >= WAITING_MAX {
            waiting.askers.retain(|asker| !asker.tell.is_closed());
        }
        if waiting.askers.len() >= WAITING_MAX {
            return Err(Unanswered::Busy);
        }
        waiting.askers.push(asker);
        drop(waiting);
        self.came.notify_one();
        Ok(())
    }

    fn end(&self) {
        let mut waiting = self.waiting.lock();
        waiting.has_ended = true;
        waiting.askers.clear();
        drop(waiting);
        self.came.notify_all();
    }

    fn serve(&self, mut work: W) {
        while let Some(askers) = self.next() {
            let began = Instant::now();
            let reading = work.read();
            let mut answers = HashMap::new();
            for Asker { question, tell } in askers {
                let answer = answers.entry(question.clone()).or_insert_with(|| work.answer(&reading, question));
                // Who has gone meanwhile wants nothing.
                let _ = tell.send(answer.clone());
            }
            drop(answers);
            self.rest((began.elapsed() * REST_TIMES).min(REST_MAX));
        }
    }

    /// Waits until somebody asks, and takes all who do; `None` at the end.
    fn next(&self) -> Option<Vec<Asker<W>>> {
        let mut waiting = self.waiting.lock();
        while waiting.askers.is_empty() && !waiting.has_ended {
            self.came.wait(&mut waiting);
        }
        (!waiting.has_ended).then(|| std::mem::take(&mut waiting.askers))
    }

    /// Waits, whoever asks meanwhile.
    fn rest(&self, pause: Duration) {
        let until = Instant::now() + pause;
        let mut waiting = self.waiting.lock();
        while !waiting.has_ended && !self.came.wait_until(&mut waiting, until).timed_out() {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Counts how often it is asked, and begins when it is let.
    struct Counting {
        begun: Sender<()>,
        lets: Receiver<()>,
        count: u32,
    }

    impl Work for Counting {
        type Reading = u32;
        type Question = bool;
        type Answer = (bool, u32);

        fn read(&mut self) -> u32 {
            self.count += 1;
            self.begun.send(()).unwrap();
            self.lets.recv().unwrap();
            self.count
        }

        fn answer(&mut self, reading: &u32, question: bool) -> (bool, u32) {
            (question, *reading)
        }
    }

    fn counting() -> (Flight<Counting>, Receiver<()>, Sender<()>) {
        let ((begun, begins), (lets, let_go)) = (channel(), channel());
        (Flight::start("test", Counting { begun, lets: let_go, count: 0 }).unwrap(), begins, lets)
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().build().unwrap()
    }

    #[test]
    fn all_who_wait_get_what_is_found_out_after_they_asked() {
        let (flight, begins, lets) = counting();
        runtime().block_on(async {
            let mut first = Box::pin(flight.ask(true));
            assert!(poll(&mut first).is_none());
            begins.recv().unwrap();
            // The first one is at work: these came too late for it.
            let mut later: Vec<_> = (0..100).map(|number| Box::pin(flight.ask(number % 2 == 0))).collect();
            assert!(later.iter_mut().all(|one| poll(one).is_none()));
            lets.send(()).unwrap();
            assert_eq!(first.await, Ok((true, 1)));
            lets.send(()).unwrap();
            for (number, one) in later.into_iter().enumerate() {
                assert_eq!(one.await, Ok((number % 2 == 0, 2)));
            }
            assert_eq!(begins.try_iter().count(), 1);
        });
    }

    #[test]
    fn so_many_wait_and_who_has_gone_leaves_its_place() {
        let (flight, begins, lets) = counting();
        runtime().block_on(async {
            let mut first = Box::pin(flight.ask(true));
            assert!(poll(&mut first).is_none());
            begins.recv().unwrap();
            let mut waiting: Vec<_> = (0..WAITING_MAX).map(|_| Box::pin(flight.ask(true))).collect();
            assert!(waiting.iter_mut().all(|one| poll(one).is_none()));
            assert_eq!(flight.ask(true).await, Err(Unanswered::Busy));
            waiting.truncate(WAITING_MAX - 1);
            let mut comes = Box::pin(flight.ask(false));
            assert!(poll(&mut comes).is_none());
            lets.send(()).unwrap();
            lets.send(()).unwrap();
            assert_eq!((first.await, comes.await), (Ok((true, 1)), Ok((false, 2))));
        });
    }

    #[test]
    fn who_waits_for_work_that_fails_is_told() {
        let (flight, begins, lets) = counting();
        runtime().block_on(async {
            let mut first = Box::pin(flight.ask(true));
            assert!(poll(&mut first).is_none());
            begins.recv().unwrap();
            drop(lets);
            assert_eq!(first.await, Err(Unanswered::Ended));
            assert_eq!(flight.ask(true).await, Err(Unanswered::Ended));
        });
    }

    /// Looks once whether it is done.
    fn poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::Pin::new(future).poll(&mut context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        }
    }
}
