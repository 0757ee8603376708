//! A look at something that may hang, a folder of a FUSE program that is stopped for one. It happens on a thread of its own, which is left behind where
//! nothing comes of it.

use std::io;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

/// A look that is under way.
pub(crate) struct Look<T>(Receiver<T>);

impl<T: Send + 'static> Look<T> {
    /// Begins it. Fails where there is no thread.
    pub(crate) fn begin(look: impl FnOnce() -> T + Send + 'static) -> io::Result<Self> {
        let (send, seen) = channel();
        thread::Builder::new().name("look".to_owned()).spawn(move || {
            // Nobody may wait for it any more.
            let _ = send.send(look());
        })?;
        Ok(Look(seen))
    }

    /// What was seen; `None` where nothing was by `until`.
    pub(crate) fn wait(self, until: Instant) -> Option<T> {
        self.0.recv_timeout(until.saturating_duration_since(Instant::now())).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_hangs_is_left_behind_and_what_is_well_is_seen() {
        let (answer, hangs) = channel::<()>();
        let (hanging, well) = (Look::begin(move || hangs.recv()).unwrap(), Look::begin(|| 1).unwrap());
        assert!(hanging.wait(Instant::now() + Duration::from_millis(50)).is_none());
        assert_eq!(well.wait(Instant::now() + Duration::from_secs(60)), Some(1));
        drop(answer);
    }
}
