//! The thread that writes the audit log.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use server::admin::AuditEvent;

use super::line;
use super::lost::Lost;
use super::queue::{Batch, Queue, Tally};

/// The pause after a write that failed. A disk that is full stays so for a while.
const PAUSE: Duration = Duration::from_millis(500);

/// A line, and what a journal shows of it beside.
pub(super) struct Line {
    /// JSON, with a newline at its end.
    pub(super) text: Vec<u8>,
    /// What is told; `None` for what says that lines were lost.
    pub(super) event: Option<AuditEvent>,
}

/// Why a line is not written.
pub(super) enum Failure {
    /// It may be later.
    ForNow(io::Error),
    /// It never is.
    ForEver,
}

/// What lines are written to.
pub(super) trait Out {
    /// Writes lines; gives how many of the first are written whole, and no other in part.
    fn write(&mut self, lines: &[Line]) -> (usize, Result<(), Failure>);

    /// Opens what it writes to anew.
    fn reopen(&mut self);

    /// Where they go, for the server's log.
    fn place(&self) -> String;
}

pub(super) struct Writer<O> {
    queue: Arc<Queue>,
    out: O,
    /// It could not write the last time.
    fails: bool,
}

impl<O: Out> Writer<O> {
    pub(super) fn new(queue: Arc<Queue>, out: O) -> Self {
        Writer { queue, out, fails: false }
    }

    /// Writes what comes, until it is to finish.
    pub(super) fn run(mut self) {
        loop {
            let Batch { events, lost, reopen, is_last } = self.queue.next();
            if reopen {
                self.out.reopen();
            }
            lost.iter().for_each(tell_lost);
            let lines: Vec<Line> = events.into_iter().map(Line::of).chain(lost.as_ref().map(Line::of_lost)).collect();
            if !self.write_all(&lines) || is_last {
                return self.queue.end();
            }
        }
    }

    /// Writes lines, however long that takes; `false` where that cannot be done, and no more time is left.
    fn write_all(&mut self, mut lines: &[Line]) -> bool {
        while !lines.is_empty() {
            let (count, outcome) = self.out.write(lines);
            let (written, rest) = lines.split_at(count.min(lines.len()));
            self.queue.done(tally_of(written), Tally::default());
            lines = rest;
            match outcome {
                Ok(()) => self.tell_recovery(),
                Err(Failure::ForEver) => {
                    let (first, others) = lines.split_at(lines.len().min(1));
                    self.queue.done(Tally::default(), tally_of(first));
                    lines = others;
                }
                Err(Failure::ForNow(error)) => {
                    self.tell_failure(&error);
                    if !self.queue.pause(PAUSE) {
                        return false;
                    }
                    if self.queue.takes_reopen() {
                        self.out.reopen();
                    }
                }
            }
        }
        true
    }

    fn tell_failure(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.fails, true) {
            let place = self.out.place();
            tracing::error!(name: "audit_not_written", %error, place, "the audit log cannot be written: lines wait, and are lost when too many do");
        }
    }

    fn tell_recovery(&mut self) {
        if std::mem::take(&mut self.fails) {
            let place = self.out.place();
            tracing::info!(name: "audit_written_again", place, "the audit log is written again");
        }
    }
}

fn tell_lost(lost: &Lost) {
    let Lost { lines, refused, of_strangers, .. } = *lost;
    tracing::warn!(name: "audit_lines_lost", lines, refused, of_strangers, users = lost.users(), "lines of the audit log were lost; a line there says when");
}

impl Line {
    fn of(event: AuditEvent) -> Self {
        Line { text: line::of_event(&event), event: Some(event) }
    }

    fn of_lost(lost: &Lost) -> Self {
        Line { text: line::of_lost(lost), event: None }
    }
}

fn tally_of(lines: &[Line]) -> Tally {
    Tally::of(lines.iter().filter_map(|line| line.event.as_ref()))
}
