//! The server's log, on standard error or in the journal. It loses lines rather than to hold anybody up: threads that serve clients leave them in a queue, and
//! so many of one kind are written in a time that nobody fills a disk by asking for them. What was lost is counted, and told.

mod filter;
mod journal;
mod limit;
mod queue;
mod recent;
mod record;

use std::io::{self, IsTerminal, Write};
use std::panic;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use control::{Error, LogFilter};
use insight::exposition::LogLoss;
use parking_lot::Mutex;
use tracing::{Event, Level, Subscriber, error, info, warn};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, reload};

pub(crate) use self::filter::Filter;
use self::journal::Journal;
use self::limit::Limit;
use self::queue::Queue;
pub(crate) use self::recent::RecentEvents;
use self::record::Record;

/// How often it is looked what was left out.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// How long the last lines may take to be written when the server ends.
const LAST_LINES: Duration = Duration::from_millis(500);

/// What an event becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A line for people, on standard error
    Text,
    /// A line of JSON, on standard error
    Json,
    /// An entry of systemd's journal, with fields
    Journald,
}

/// Whether the last events are kept, beside being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    Recent,
    Nothing,
}

/// The log, until it is dropped: then the last lines are written, where they are taken.
pub(crate) struct Log {
    queue: Arc<Queue>,
    limit: Limit,
    levels: Arc<Levels>,
    recent: RecentEvents,
}

/// What the log has not, since it began.
pub(crate) struct Loss {
    queue: Arc<Queue>,
    limit: Limit,
}

impl Loss {
    pub(crate) fn so_far(&self) -> LogLoss {
        LogLoss { left_out: self.limit.left_out(), lost: self.queue.lost() }
    }
}

/// What is logged, which an operator may change.
pub(crate) struct Levels {
    handle: reload::Handle<Targets, Registry>,
    now: Mutex<Filter>,
}

impl Log {
    /// Begins to log what `filter` lets pass. Where nothing is said of the format, it is text, and the journal's where standard error goes there.
    pub(crate) fn begin(filter: Filter, format: Option<Format>, keep: Keep) -> Result<Self, Error> {
        let (format, out) = destination(format)?;
        let (filtering, handle) = reload::Layer::new(filter.targets());
        let levels = Arc::new(Levels { handle, now: Mutex::new(filter) });
        let log =
            Log { queue: Arc::default(), limit: Limit::new(Instant::now()), levels, recent: RecentEvents::default() };
        let queue = Arc::clone(&log.queue);
        let limited = tracing_subscriber::registry().with(filtering).with(log.limit.clone());
        let limited = limited.with((keep == Keep::Recent).then(|| log.recent.clone()));
        match format {
            Format::Text if io::stderr().is_terminal() => {
                limited.with(Records { queue, render: Record::coloured_text }).init();
            }
            Format::Text => limited.with(Records { queue, render: Record::text }).init(),
            Format::Json => limited.with(Records { queue, render: Record::json }).init(),
            Format::Journald => limited.with(Records { queue, render: Record::journal }).init(),
        }

        let no_thread = |cause| Error::machine(format!("no thread for the log: {cause}"), "try again");
        let queue = Arc::clone(&log.queue);
        let writer = thread::Builder::new().name("log".to_owned());
        writer.spawn(move || queue.write_to(out)).map_err(no_thread)?;
        let (queue, limit) = (Arc::clone(&log.queue), log.limit.clone());
        let teller = thread::Builder::new().name("log-lost".to_owned());
        teller.spawn(move || tell(&queue, &limit)).map_err(no_thread)?;
        // What the standard library does writes to standard error itself, and waits there.
        panic::set_hook(Box::new(|panic| error!(name: "panic", %panic, "a bug; please report it")));
        Ok(log)
    }

    /// What the log has not.
    pub(crate) fn loss(&self) -> Loss {
        Loss { queue: Arc::clone(&self.queue), limit: self.limit.clone() }
    }

    /// The last events, where they are kept.
    pub(crate) fn recent(&self) -> RecentEvents {
        self.recent.clone()
    }

    /// What is logged, for who may change it.
    pub(crate) fn levels(&self) -> Arc<Levels> {
        Arc::clone(&self.levels)
    }
}

impl LogFilter for Levels {
    fn now(&self) -> String {
        self.now.lock().to_string()
    }

    fn set(&self, filter: &str) -> Result<(), Error> {
        let filter: Filter = filter.parse()?;
        let mut now = self.now.lock();
        let gone =
            |cause| Error::machine(format!("the filter of the log cannot be changed: {cause}"), "restart the server");
        // Whichever of the two lets it through that it is changed.
        if [&*now, &filter].iter().any(|one| one.targets().would_enable(module_path!(), &Level::INFO)) {
            self.handle.reload(filter.targets().with_target(module_path!(), Level::INFO)).map_err(gone)?;
            info!(name: "log_filter_changed", from = %now, to = %filter, "the log has another filter from now on");
        }
        self.handle.reload(filter.targets()).map_err(gone)?;
        *now = filter;
        Ok(())
    }
}

impl Format {
    /// True where the log goes to the journal without a word.
    pub(crate) fn is_journal_by_default() -> bool {
        journal::is_standard_error() && journal("--log-format text").is_ok()
    }
}

/// The way to the journal, for the option `option`.
pub(crate) fn journal(option: &str) -> Result<Journal, Error> {
    Journal::at(Path::new(journal::SOCKET)).map_err(|cause| {
        Error::machine(
            format!("there is no journal at {}: {cause}", journal::SOCKET),
            format!("use {option} where systemd-journald does not run"),
        )
    })
}

/// Where the log goes, and in which format.
fn destination(format: Option<Format>) -> Result<(Format, Box<dyn Write + Send>), Error> {
    let journal = || journal("--log-format text or json");
    match format {
        Some(Format::Journald) => Ok((Format::Journald, Box::new(journal()?))),
        Some(format @ (Format::Text | Format::Json)) => Ok((format, Box::new(io::stderr()))),
        None => match journal::is_standard_error().then(journal) {
            Some(Ok(journal)) => Ok((Format::Journald, Box::new(journal))),
            Some(Err(_)) | None => Ok((Format::Text, Box::new(io::stderr()))),
        },
    }
}

/// Leaves events in the queue.
struct Records {
    queue: Arc<Queue>,
    render: fn(&Record) -> Vec<u8>,
}

impl<S: Subscriber> Layer<S> for Records {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.queue.leave(&(self.render)(&Record::of(event)));
    }
}

fn tell(queue: &Queue, limit: &Limit) {
    loop {
        thread::sleep(TELL_EVERY);
        tell_once(queue, limit);
    }
}

fn tell_once(queue: &Queue, limit: &Limit) {
    for (what, lines) in limit.take_left_out() {
        warn!(name: "log_lines_left_out", lines, what, "lines of the log were left out: there were too many of one kind");
    }
    let lines = queue.take_lost();
    if lines > 0 {
        warn!(name: "log_lines_lost", lines, "lines of the log were lost: whoever reads it does not keep up, or takes none");
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        tell_once(&self.queue, &self.limit);
        self.queue.wait_until_written(LAST_LINES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_the_filter_is_told_where_either_filter_lets_it_through() {
        let (layer, handle) = reload::Layer::new(Filter::default().targets());
        let recent = RecentEvents::default();
        let levels = Levels { handle, now: Mutex::default() };
        let told = |filter: &str| {
            let before = recent.newest_first().len();
            levels.set(filter).unwrap();
            assert_eq!(levels.now(), filter);
            recent.newest_first().len() - before
        };
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer).with(recent.clone()), || {
            for (filter, events) in
                [("warn", 1), ("server=debug,warn", 0), ("off", 0), ("info", 1), ("off", 1), ("multilane=info", 1)]
            {
                assert_eq!(told(filter), events, "{filter}");
            }
            levels.set("off").unwrap();
            info!(name: "log_reopened", "left out");
            assert_eq!(recent.newest_first()[0]["to"], "off");
        });
        // Nobody logs any more.
        assert!(levels.set("info").is_err());
        assert_eq!(levels.now(), "off");
    }
}
