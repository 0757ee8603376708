//! A panic ends what it happened in, and nothing else.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// Runs `future` to its end, or to a panic in it: then `None`. Whoever asks gives back what the future held.
///
/// Nothing of what is borrowed across the panic is looked at again but cells, whose guards are dropped, and locks that do not poison.
pub(crate) async fn contained<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|task| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(task))) {
        Ok(polled) => polled.map(Some),
        Err(_) => Poll::Ready(None),
    })
    .await
}
