//! Lines that wait to be written. Who leaves one never waits and never fails.

use std::collections::VecDeque;
use std::io::Write;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Bytes of lines that may wait. More are lost.
const BYTES_MAX: usize = 1 << 20;
/// The longest line; the rest of it is cut off. What programs read is shorter ([`Record`](super::record::Record)): cut off it would mean nothing.
const LINE_BYTES_MAX: usize = 8 << 10;
/// The pause after a write that failed, so that a full disk costs nothing.
const PAUSE: Duration = Duration::from_millis(100);

/// The queue.
#[derive(Default)]
pub(super) struct Queue {
    inside: Mutex<Inside>,
    /// Something came, or was written.
    changed: Condvar,
}

#[derive(Default)]
struct Inside {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    lost: u64,
    /// Those of them that were taken account of.
    told: u64,
    /// A line is being written.
    writing: bool,
}

impl Queue {
    pub(super) fn leave(&self, line: &[u8]) {
        let line = line.get(..LINE_BYTES_MAX).map_or_else(|| line.to_vec(), |start| [start, b"...\n"].concat());
        let mut inside = self.inside.lock();
        if inside.bytes + line.len() > BYTES_MAX {
            inside.lost += 1;
            return;
        }
        inside.bytes += line.len();
        inside.lines.push_back(line);
        self.changed.notify_all();
    }

    /// Writes what comes to `out`, for ever. A line that it does not take is lost.
    pub(super) fn write_to(&self, mut out: impl Write) {
        loop {
            let line = self.next();
            let written = out.write_all(&line).and_then(|()| out.flush());
            let mut inside = self.inside.lock();
            inside.writing = false;
            inside.lost += u64::from(written.is_err());
            self.changed.notify_all();
            drop(inside);
            if written.is_err() {
                std::thread::sleep(PAUSE);
            }
        }
    }

    fn next(&self) -> Vec<u8> {
        let mut inside = self.inside.lock();
        loop {
            if let Some(line) = inside.lines.pop_front() {
                inside.bytes -= line.len();
                inside.writing = true;
                return line;
            }
            self.changed.wait(&mut inside);
        }
    }

    /// Lines that were lost since the last time.
    pub(super) fn take_lost(&self) -> u64 {
        let mut inside = self.inside.lock();
        let lost = inside.lost - inside.told;
        inside.told = inside.lost;
        lost
    }

    /// Lines that were lost since the log began.
    pub(super) fn lost(&self) -> u64 {
        self.inside.lock().lost
    }

    /// Waits until all is written, for so long at most.
    pub(super) fn wait_until_written(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let mut inside = self.inside.lock();
        while (inside.writing || !inside.lines.is_empty()) && Instant::now() < until {
            self.changed.wait_until(&mut inside, until);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_nobody_takes_are_lost_and_counted() {
        let queue = Queue::default();
        let line = [b'x'; 1000];
        (0..2_000).for_each(|_| queue.leave(&line));
        assert_eq!(queue.take_lost(), 2_000 - (BYTES_MAX / line.len()) as u64);
        assert_eq!(queue.take_lost(), 0);
        assert_eq!(queue.lost(), 2_000 - (BYTES_MAX / line.len()) as u64);
        assert_eq!(queue.next(), line);
        queue.leave(&line);
        assert_eq!(queue.take_lost(), 0, "there is room again");
    }

    #[test]
    fn a_long_line_is_cut() {
        let queue = Queue::default();
        queue.leave(&[b'x'; 100_000]);
        assert_eq!(queue.next().len(), LINE_BYTES_MAX + 4);
    }
}
