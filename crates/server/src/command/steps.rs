//! Work on a file that takes as long as what is asked for is large. A shard does little of it itself. On the pool it goes step by step:
//! between two steps it stands at the end of its session's queue, so that others have their turn.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use store::{Node, Waits};
use wire::status::Status;

use crate::command::context::Context;
use crate::resource::pool::{INLINE_BYTES_MAX, QueueKey};
use crate::state::refusal::Refusal;

/// A step of work that copies data.
pub(crate) const COPY_STEP_BYTES: u64 = 4 << 20;
/// A step of work that zeroes a range or frees its space.
pub(crate) const ZERO_STEP_BYTES: u64 = 64 << 20;

/// Work of more calls of the store than so many is long from its start on: a thread computes for milliseconds with it.
const CALLS_MAX: usize = 16;

/// Nobody waits for the answer any more, once this is dropped: the work is not begun, or not gone on with.
#[derive(Default)]
pub(crate) struct GivenUp(Arc<AtomicBool>);

impl GivenUp {
    /// What tells the work.
    pub(crate) fn told(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    fn tell(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_told(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.tell();
    }
}

impl Context {
    /// How much work the data of the open can be at most: what it has now, where it is memory. Elsewhere that is not asked.
    pub(crate) fn held_bytes(&self) -> Result<u64, Refusal> {
        let (_, file) = self.file()?;
        if file.node.waits() != Waits::Never {
            return Ok(u64::MAX);
        }
        let known = file.node.metadata()?;
        Ok(known.length.max(known.allocated))
    }

    /// Runs `work`, which takes as long as `bytes` are many: here where they are few and the open file is memory, else on the pool.
    pub(crate) async fn work_on<T: Send + 'static>(
        &self,
        bytes: u64,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        if bytes > INLINE_BYTES_MAX {
            return self.on_pool(work).await;
        }
        self.in_flight.note_done_here(bytes);
        self.work(work).await
    }

    /// The same for work that can be cut: calls `step` until it gives an answer. It ends between two steps where its
    /// client has cancelled it or is gone, so a step leaves nothing undone that others rely on.
    pub(crate) async fn work_in_steps<T: Send + 'static>(
        &self,
        bytes: u64,
        step: impl FnMut() -> ControlFlow<T> + Send + 'static,
    ) -> Result<T, Refusal> {
        self.work_in_steps_of(self.queue_key(), (bytes, 1), step).await
    }

    /// The same for work that is so many calls of the store.
    pub(crate) async fn work_in_calls<T: Send + 'static>(
        &self,
        bytes: u64,
        calls: usize,
        step: impl FnMut() -> ControlFlow<T> + Send + 'static,
    ) -> Result<T, Refusal> {
        self.work_in_steps_of(self.queue_key(), (bytes, calls), step).await
    }

    /// The same for work that needs `other` besides the open file: on the pool, unless neither is waited for.
    pub(crate) async fn work_in_calls_with<T: Send + 'static>(
        &self,
        other: &dyn Node,
        bytes: u64,
        calls: usize,
        step: impl FnMut() -> ControlFlow<T> + Send + 'static,
    ) -> Result<T, Refusal> {
        let bytes = if other.waits() == Waits::Never { bytes } else { u64::MAX };
        self.work_in_steps_of(self.queue_key_with(other), (bytes, calls), step).await
    }

    async fn work_in_steps_of<T: Send + 'static>(
        &self,
        queue_key: QueueKey,
        (bytes, calls): (u64, usize),
        mut step: impl FnMut() -> ControlFlow<T> + Send + 'static,
    ) -> Result<T, Refusal> {
        if bytes <= INLINE_BYTES_MAX {
            let all = move || {
                loop {
                    if let ControlFlow::Break(answer) = step() {
                        return answer;
                    }
                }
            };
            self.in_flight.note_done_here(bytes);
            return self.work(all).await;
        }
        let given_up = GivenUp::default();
        let mut is_long = calls > CALLS_MAX;
        loop {
            let told = given_up.told();
            let next = move || (!told.load(Ordering::Relaxed)).then(|| (step(), step));
            // What is half done is gone on with however much the session has waiting.
            let mut done =
                if is_long { self.on_long_work_in(queue_key, next) } else { self.on_pool_in(queue_key, next) };
            let done = tokio::select! {
                biased;
                done = &mut done => done,
                () = self.in_flight.cancelled() => {
                    given_up.tell();
                    // The step may be under way: the request is not answered before it has ended.
                    done.await
                }
            };
            match done?.ok_or(Status::CANCELLED)? {
                (ControlFlow::Break(answer), _) => return Ok(answer),
                (ControlFlow::Continue(()), rest) => (step, is_long) = (rest, true),
            }
            if given_up.is_told() {
                return Err(Status::CANCELLED.into());
            }
        }
    }
}
