//! Files of which the disk did not give what it was to send. A READ's header promises its data before `sendfile` asks for it, and what was
//! promised cannot be taken back: wrong bytes must not be sent, so the connection ends. That must not go on for as long as the client asks
//! again: such a file's data is read before it is promised from then on, and the client is told what is wrong with it.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::io::Errno;
use store::Identity;

/// How many are remembered; of more, the one that is known for longest is forgotten.
const FILES_MAX: usize = 64;

/// The files.
#[derive(Default)]
pub(crate) struct Unsendable {
    /// There are some: a healthy server looks at this alone.
    any: AtomicBool,
    files: Mutex<VecDeque<Identity>>,
}

impl Unsendable {
    /// True where the file is one of them.
    pub(crate) fn contains(&self, file: impl FnOnce() -> Identity) -> bool {
        self.any.load(Ordering::Relaxed) && self.files.lock().contains(&file())
    }

    /// Remembers a file.
    pub(crate) fn add(&self, file: Identity) {
        let mut files = self.files.lock();
        if !files.contains(&file) {
            files.truncate(FILES_MAX - 1);
            files.push_front(file);
        }
        self.any.store(true, Ordering::Relaxed);
    }
}

/// True where an error of `sendfile` is the file's and not the connection's.
pub(crate) fn is_of_file(error: &io::Error) -> bool {
    [Errno::IO, Errno::STALE, Errno::NXIO, Errno::INVAL, Errno::OPNOTSUPP]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_are_remembered() {
        let unsendable = Unsendable::default();
        let file = |file| Identity { volume: 1, file };
        assert!(!unsendable.contains(|| file(0)));
        (0..100).for_each(|number| unsendable.add(file(number)));
        assert!(
            !unsendable.contains(|| file(0)) && unsendable.contains(|| file(99)) && unsendable.contains(|| file(50))
        );
    }

    #[test]
    fn a_client_that_is_gone_is_no_fault_of_the_file() {
        assert!(is_of_file(&io::Error::from(Errno::IO)));
        assert!(!is_of_file(&io::Error::from(Errno::PIPE)) && !is_of_file(&io::Error::from(Errno::CONNRESET)));
    }
}
