//! The audit log: what the server says was done to audited shares, as lines of JSON in a file, or as entries of a journal.
//!
//! Who records an event never waits: it goes into a bounded queue, in which refused requests take nothing from what was done, and a thread of the log's own
//! makes a line of it and writes that. What the queue cannot take is counted, and a line says so. Where nothing can be written, as on a full disk, the thread
//! keeps what it has and tries again.

mod cut;
mod file;
mod journal;
mod line;
mod lost;
mod queue;
mod writer;

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use server::admin::{AuditCounts, AuditEvent, AuditSink};

use self::file::LogFile;
pub use self::file::{FULL_FILES_KEPT, FileBounds, UnfitFile, check, safe_place};
use self::journal::JournalLog;
use self::lost::Lost;
use self::queue::Queue;
use self::writer::Writer;

/// How often it is looked whether the writer tells of losses, and how late that may be: it tells within a second where it can.
const LOOKED_EVERY: Duration = Duration::from_secs(60);
const LATE_AFTER: Duration = Duration::from_secs(5);

/// Where lines go.
pub enum Destination {
    /// To the end of a file, which is made where it is missing, and made again where it was moved away.
    File {
        /// Its path.
        path: PathBuf,
        /// How much it may take.
        bounds: FileBounds,
    },
    /// To a journal: what is written at once is one entry in its native protocol.
    Journal(Box<dyn Write + Send>),
}

/// The audit log. It is written to until the process ends, or [`AuditLog::finish`] was called.
#[derive(Debug)]
pub struct AuditLog {
    queue: Arc<Queue>,
}

impl AuditLog {
    /// Starts its threads. A file is opened when there is something to write.
    pub fn start(destination: Destination) -> io::Result<Arc<Self>> {
        let queue = Arc::new(Queue::default());
        let log = Arc::new(AuditLog { queue: Arc::clone(&queue) });
        let watched = Arc::clone(&queue);
        Builder::new().name("audit-watch".to_owned()).spawn(move || watch(&watched))?;
        let thread = Builder::new().name("audit".to_owned());
        match destination {
            Destination::File { path, bounds } => {
                let out = LogFile::at(path, bounds);
                thread.spawn(move || Writer::new(queue, out).run())
            }
            Destination::Journal(out) => {
                let out = JournalLog::to(out);
                thread.spawn(move || Writer::new(queue, out).run())
            }
        }?;
        Ok(log)
    }

    /// Has the file opened anew before the next line.
    pub fn reopen(&self) {
        self.queue.reopen();
    }

    /// Writes what waits, for so long at most. What is recorded from then on is lost, and so is what cannot be written; both are counted.
    pub fn finish(&self, patience: Duration) {
        self.queue.finish(patience);
        let AuditCounts { lost, .. } = self.queue.counts();
        if lost > 0 {
            tracing::warn!(name: "audit_lines_missing", lost, "the audit log of this run is not whole: so many lines were lost");
        }
    }
}

/// Tells of losses in the writer's stead where that hangs. It touches no disk.
fn watch(queue: &Queue) {
    while let Some(lost) = queue.untold(LOOKED_EVERY, LATE_AFTER) {
        let Lost { lines, refused, of_strangers, .. } = lost;
        tracing::warn!(name: "audit_hangs", lines, refused, of_strangers, users = lost.users(), "the audit log is not written, and loses lines: its disk hangs, is full, or is too slow");
    }
}

impl AuditSink for AuditLog {
    fn record(&self, event: AuditEvent) {
        self.queue.leave(event);
    }

    fn counts(&self) -> AuditCounts {
        self.queue.counts()
    }
}

#[cfg(test)]
mod tests;
