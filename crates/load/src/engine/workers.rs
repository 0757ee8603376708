//! The operating system's threads that a run's requests are worked on by.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use busy_poll::BusyPoll;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::profile::{Profile, TimeSpan};

/// How long what is still going on may take to end.
const SHUTDOWN_MAX: Duration = Duration::from_secs(1);

/// Up to here a request costs what is done for it rather than what is copied, and the fewer threads there are the less that is: a larger
/// part of what arrives together is answered together. One thread takes 600,000 of 4 KiB a second.
const SMALL_BLOCK_BYTES: u32 = 16 << 10;

/// Threads with a runtime. Those of a profile are far more than the machine's, and are spread over these.
pub(super) enum Workers {
    /// One, which hands nothing over to others and stays awake between batches: a request costs it least.
    One { handle: Handle, busy_poll: Arc<BusyPoll>, thread: thread::JoinHandle<()>, end: oneshot::Sender<()> },
    /// Several, which share the work.
    Several(Runtime),
}

impl Workers {
    /// Starts as many as a profile is to have.
    pub(super) fn start(profile: &Profile) -> io::Result<Self> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        match count(profile, cores) {
            0 | 1 => Workers::one(),
            count => Builder::new_multi_thread().worker_threads(count).enable_all().build().map(Workers::Several),
        }
    }

    fn one() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let busy_poll = Arc::new(BusyPoll::eager());
        let polling = Arc::clone(&busy_poll);
        handle.spawn(async move { polling.run().await });
        let (end, ended) = oneshot::channel();
        let work = move || {
            // Nobody says anything: the other end only goes.
            let _ = runtime.block_on(ended);
            runtime.shutdown_timeout(SHUTDOWN_MAX);
        };
        let thread = thread::Builder::new().name("load".to_owned()).spawn(work)?;
        Ok(Workers::One { handle, busy_poll, thread, end })
    }

    fn handle(&self) -> &Handle {
        match self {
            Workers::One { handle, .. } => handle,
            Workers::Several(runtime) => runtime.handle(),
        }
    }

    /// Has them work on something while the caller goes on.
    pub(super) fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        match self {
            Workers::One { handle, busy_poll, .. } => {
                let busy_poll = Arc::clone(busy_poll);
                handle.spawn(async move { busy_poll.attend(work).await })
            }
            Workers::Several(runtime) => runtime.spawn(work),
        }
    }

    /// Waits for something, on the caller's thread.
    pub(super) fn wait_for<T>(&self, work: impl Future<Output = T>) -> T {
        self.handle().block_on(work)
    }

    /// Ends them and what they still work on.
    pub(super) fn end(self) {
        match self {
            Workers::One { thread, end, .. } => {
                drop(end);
                // It has nothing to say but that a task of it panicked, which its handle has said.
                let _ = thread.join();
            }
            Workers::Several(runtime) => runtime.shutdown_timeout(SHUTDOWN_MAX),
        }
    }
}

/// As many as the profile has threads at once, but no more than there are cores, or half of them where all requests are small.
fn count(profile: &Profile, cores: usize) -> usize {
    let threads = profile.time_spans.iter().map(threads).max().unwrap_or(1);
    threads.min(if is_small(profile) { cores / 2 } else { cores })
}

/// True where every request is a small one.
fn is_small(profile: &Profile) -> bool {
    profile.time_spans.iter().flat_map(|span| &span.targets).all(|target| target.block_bytes <= SMALL_BLOCK_BYTES)
}

/// Threads of a time span.
fn threads(span: &TimeSpan) -> usize {
    let of_targets = || span.targets.iter().map(|target| target.threads_per_file as usize).sum();
    span.thread_count.map_or_else(of_targets, |count| count as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Target;

    fn profile(blocks: &[u32]) -> Profile {
        let target = |block| Target { block_bytes: block, threads_per_file: 8, ..Target::new("z:\\file") };
        let targets = blocks.iter().map(|block| target(*block)).collect();
        Profile { time_spans: vec![TimeSpan { targets, ..TimeSpan::default() }], ..Profile::default() }
    }

    #[test]
    fn small_requests_have_half_of_the_cores_and_others_all() {
        let counts = |blocks: &[u32]| [2, 6, 64].map(|cores| count(&profile(blocks), cores));
        assert_eq!(counts(&[4 << 10]), [1, 3, 8]);
        assert_eq!(counts(&[64 << 10]), [2, 6, 8]);
        assert_eq!(counts(&[4 << 10, 16 << 10]), [1, 3, 16]);
        assert_eq!(counts(&[4 << 10, 1 << 20]), [2, 6, 16]);
    }
}
