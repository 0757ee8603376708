//! The server's log, on standard error. It loses lines rather than to hold anybody up: threads that serve clients leave them in a queue, and
//! so many of one kind are written in a time that nobody fills a disk by asking for them. What was lost is counted, and told.

mod filter;
mod limit;
mod queue;

use std::env;
use std::io::{self, IsTerminal};
use std::panic;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use control::Error;
use tracing::{error, warn};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use self::filter::Filter;
use self::limit::Limit;
use self::queue::{Lines, Queue};

/// How often it is looked what was left out.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// How long the last lines may take to be written when the server ends.
const LAST_LINES: Duration = Duration::from_millis(500);

/// The log, until it is dropped: then the last lines are written, where they are taken.
pub(crate) struct Log {
    queue: Arc<Queue>,
    limit: Limit,
}

/// Begins to log, as `MULTILANE_LOG` has it.
pub(crate) fn to_standard_error() -> Result<Log, Error> {
    let filter = wanted()?;
    let log = Log { queue: Arc::default(), limit: Limit::new(Instant::now()) };
    let ansi = io::stderr().is_terminal();
    let lines = fmt::layer().with_writer(Lines(Arc::clone(&log.queue))).with_ansi(ansi).log_internal_errors(false);
    tracing_subscriber::registry().with(filter.targets()).with(log.limit.clone()).with(lines).init();

    let no_thread = |cause| Error::machine(format!("no thread for the log: {cause}"), "try again");
    let queue = Arc::clone(&log.queue);
    let writer = thread::Builder::new().name("log".to_owned());
    writer.spawn(move || queue.write_to(io::stderr())).map_err(no_thread)?;
    let (queue, limit) = (Arc::clone(&log.queue), log.limit.clone());
    let teller = thread::Builder::new().name("log-lost".to_owned());
    teller.spawn(move || tell(&queue, &limit)).map_err(no_thread)?;
    // What the standard library does writes to standard error itself, and waits there.
    panic::set_hook(Box::new(|panic| error!(name: "panic", %panic, "a bug; please report it")));
    Ok(log)
}

/// The filter that `MULTILANE_LOG` has; `info` where it has none.
fn wanted() -> Result<Filter, Error> {
    match env::var_os("MULTILANE_LOG").filter(|text| !text.is_empty()) {
        Some(text) => text
            .to_string_lossy()
            .parse()
            .map_err(|error: Error| Error::argument(format!("MULTILANE_LOG: {}", error.what()), error.remedy())),
        None => Ok(Filter::default()),
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
