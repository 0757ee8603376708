//! One time span from its preparation to its results. The thread that calls keeps the time; the requests are the workers'.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant, SystemTime};

use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::task::JoinHandle;

use crate::engine::files::Cut;
use crate::engine::meter::Reading;
use crate::engine::mounts::{Lost, Mounts};
use crate::engine::plan::{ThreadPlan, threads};
use crate::engine::prepare::prepare;
use crate::engine::thread::Thread;
use crate::engine::window::{Moment, Window};
use crate::engine::workers::Workers;
use crate::engine::{Failure, Phase, Run, Stop};
use crate::profile::TimeSpan;
use crate::results::{ThreadResults, TimeSpanResults};

/// Threads that open their files at the same time.
const OPENING_AT_ONCE: usize = 64;
/// How often somebody may ask for the end, at most.
const LISTEN_EVERY: Duration = Duration::from_millis(20);
/// How long requests may stay without an answer when nothing more is asked.
const ANSWERS_MAX: Duration = Duration::from_secs(10);

/// Runs a time span, where the end is not asked for before anything is under way.
pub(super) fn run(
    run: &mut Run<'_>,
    workers: &Workers,
    number: usize,
    span: &TimeSpan,
) -> Result<TimeSpanResults, Cut> {
    let (watch, stop) = (run.watch, run.stop);
    watch.phase(number, Phase::Preparing);
    let ready = workers.wait_for(run.mounts.lost().or(prepare(run, span)))?;
    let opened = workers.wait_for(run.mounts.lost().or(open(threads(span, &ready)?, span)))?;
    if stop.is_asked() {
        return Err(Cut::Stopped);
    }
    let crew = Crew::set_to_work(workers, opened, span);
    let work = crew.oversee(&run.mounts, span, |phase| watch.phase(number, phase), stop);
    match work {
        Ok(results) => Ok(TimeSpanResults { threads: crew.finish(workers)?, ..results }),
        Err(failure) => {
            crew.abandon();
            Err(failure.into())
        }
    }
}

/// Opens the files of all threads.
async fn open(plans: Vec<ThreadPlan>, span: &TimeSpan) -> Result<Vec<Thread>, Failure> {
    stream::iter(plans).map(|plan| Thread::open(plan, span)).buffered(OPENING_AT_ONCE).try_collect().await
}

/// The threads at work.
struct Crew {
    window: Arc<Window>,
    threads: Vec<JoinHandle<ThreadResults>>,
    /// The first that fails says so, and all hang up when they have nothing more to ask.
    failures: Receiver<Failure>,
    started: SystemTime,
}

impl Crew {
    fn set_to_work(workers: &Workers, threads: Vec<Thread>, span: &TimeSpan) -> Self {
        let (failed, failures) = channel();
        let (window, started) = (Arc::new(Window::begin(span)), SystemTime::now());
        let threads =
            threads.into_iter().map(|thread| workers.spawn(work(thread, Arc::clone(&window), failed.clone())));
        Crew { threads: threads.collect(), window, failures, started }
    }

    /// Tells the phases and reads the counters where they begin and end.
    fn oversee(
        &self,
        mounts: &Mounts,
        span: &TimeSpan,
        phase: impl Fn(Phase),
        stop: &Stop,
    ) -> Result<TimeSpanResults, Failure> {
        let (window, lost) = (&self.window, mounts.lost());
        if !span.warmup.is_zero() {
            phase(Phase::WarmingUp);
        }
        self.wait(|| window.from, &lost, stop)?;
        phase(Phase::Measuring);
        let before = Reading::take(mounts.sessions());
        self.wait(|| window.to(), &lost, stop)?;
        let after = Reading::take(mounts.sessions());
        if window.end() > window.now() {
            phase(Phase::CoolingDown);
        }
        self.wait(|| window.end(), &lost, stop)?;
        Ok(TimeSpanResults {
            started: self.started,
            test_time: window.measured(),
            cpus: after.cpus_since(&before),
            own_cpu: after.own_cpu_since(&before),
            threads: Vec::new(),
            channels: after.channels_since(&before),
            protected: mounts.protected(),
        })
    }

    /// Waits until a moment, or until the end is asked for.
    fn wait(&self, until: impl Fn() -> Moment, lost: &Lost, stop: &Stop) -> Result<(), Failure> {
        loop {
            if let Some(failure) = lost.now() {
                return Err(failure);
            }
            if stop.is_asked() {
                self.window.cut_short();
            }
            let rest = Duration::from_nanos(until().saturating_sub(self.window.now()));
            if rest.is_zero() || stop.is_asked() {
                return Ok(());
            }
            match self.failures.recv_timeout(rest.min(LISTEN_EVERY)) {
                Ok(failure) => return Err(failure),
                Err(RecvTimeoutError::Timeout) => {}
                // They have come to the window's end.
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(rest.min(LISTEN_EVERY)),
            }
        }
    }

    /// Ends all of them at once, whatever they wait for.
    fn abandon(self) {
        self.threads.iter().for_each(JoinHandle::abort);
    }

    /// Waits for the last answers.
    fn finish(self, workers: &Workers) -> Result<Vec<ThreadResults>, Failure> {
        let until = Instant::now() + ANSWERS_MAX;
        let unanswered = || Failure {
            what: format!("the server left requests without an answer for {} s", ANSWERS_MAX.as_secs()),
            remedy: "check that the server runs and can be reached, and run again".to_owned(),
        };
        let mut results = Vec::with_capacity(self.threads.len());
        for mut thread in self.threads {
            let ended = workers.wait_for(async { tokio::time::timeout_at(until.into(), &mut thread).await });
            match ended {
                Ok(Ok(thread)) => results.push(thread),
                Ok(Err(panic)) => std::panic::resume_unwind(panic.into_panic()),
                Err(_) => {
                    thread.abort();
                    return Err(unanswered());
                }
            }
        }
        // One that failed after the end has lost an answer all the same.
        self.failures.try_recv().map_or(Ok(results), Err)
    }
}

/// One thread's work, from its first request to its results.
async fn work(thread: Thread, window: Arc<Window>, failed: Sender<Failure>) -> ThreadResults {
    if let Err(failure) = thread.run(&window).await {
        // Nobody listens any more where another one has failed before.
        let _ = failed.send(failure);
    }
    drop(failed);
    thread.finish(&window).await
}
