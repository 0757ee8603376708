//! A thread for what may take long: one after the other, and only so many wait.

use std::io;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;

use tokio::sync::oneshot;

use crate::flight::Unanswered;
use crate::http::NICENESS;

/// How many may wait.
const WAITING_MAX: usize = 16;

/// How much of the machine a thread gets where others want it, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    /// Less than those that serve clients.
    Low,
    /// As much: little is done there, and somebody waits for it.
    Normal,
}

/// The thread. It ends when this is dropped, after what it is at.
pub(crate) struct Worker(SyncSender<Box<dyn FnOnce() + Send>>);

impl Worker {
    pub(crate) fn start(name: &str, priority: Priority) -> io::Result<Self> {
        let (sender, receiver) = sync_channel::<Box<dyn FnOnce() + Send>>(WAITING_MAX);
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            if priority == Priority::Low {
                // Where that is not allowed it is a thread like others.
                let _ = rustix::process::nice(NICENESS);
            }
            receiver.into_iter().for_each(|work| work());
        })?;
        Ok(Worker(sender))
    }

    /// Does `work` there. It is not begun where nobody waits for it any more, and ended where it was begun.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unanswered> {
        let (tell, told) = oneshot::channel();
        // Who has gone was told that it failed, or nothing.
        let work = Box::new(move || {
            if !tell.is_closed() {
                let _ = tell.send(work());
            }
        });
        self.0.try_send(work).map_err(|cause| match cause {
            TrySendError::Full(_) => Unanswered::Busy,
            TrySendError::Disconnected(_) => Unanswered::Ended,
        })?;
        told.await.map_err(|_| Unanswered::Ended)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn work_is_done_in_turn_and_only_so_much_waits() {
        let worker = Worker::start("test", Priority::Low).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let ((begun, begins), (lets, let_go)) = (mpsc::channel(), mpsc::channel::<()>());
        runtime.block_on(async {
            let first = worker.run(move || {
                begun.send(()).unwrap();
                let _ = let_go.recv();
            });
            let mut first = Box::pin(first);
            assert!(poll(&mut first));
            begins.recv().unwrap();
            let mut waiting: Vec<_> = (0..WAITING_MAX).map(|number| Box::pin(worker.run(move || number))).collect();
            waiting.iter_mut().for_each(|one| assert!(poll(one)));
            assert_eq!(worker.run(|| ()).await, Err(Unanswered::Busy));
            drop(lets);
            first.await.unwrap();
            for (number, one) in waiting.into_iter().enumerate() {
                assert_eq!(one.await, Ok(number));
            }
        });
    }

    #[test]
    fn work_whose_asker_has_gone_is_not_done() {
        let worker = Worker::start("test", Priority::Low).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let ((begun, begins), (lets, let_go)) = (mpsc::channel(), mpsc::channel::<()>());
        let (done, does) = mpsc::channel();
        runtime.block_on(async {
            let mut first = Box::pin(worker.run(move || {
                begun.send(()).unwrap();
                let _ = let_go.recv();
            }));
            assert!(poll(&mut first));
            begins.recv().unwrap();
            let mut gone = Box::pin(worker.run(move || done.send(())));
            assert!(poll(&mut gone));
            drop(gone);
            drop(lets);
            worker.run(|| ()).await.unwrap();
        });
        assert!(does.recv().is_err(), "it was done all the same");
    }

    /// Whether it waits.
    fn poll<F: Future + Unpin>(future: &mut F) -> bool {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        std::pin::Pin::new(future).poll(&mut context).is_pending()
    }
}
