//! `multilane top`: what the running server does just now, and for whom.

mod columns;
mod detail;
mod draw;
mod lists;
mod live;
mod once;
mod view;

use std::io::IsTerminal;
use std::path::Path;
use std::thread;
use std::time::Duration;

use control::{BusyFile, DataFolder, Error, Request, Session, ask, ask_for_all, ask_for_counters};
use insight::Change;
use server::admin::CountersView;

use crate::arguments::Top;
use crate::live::runs_nowhere;
use crate::output::Output;
use crate::top::columns::Column;
use crate::top::lists::Lists;

pub(crate) fn run(path: &Path, arguments: &Top, output: Output) -> Result<(), Error> {
    let folder = DataFolder::open(path)?;
    let every = Duration::from_secs(arguments.seconds.into());
    if arguments.total {
        let all = Change::until(look(&folder)?);
        let sessions: Vec<Session> = ask_for_all(&folder, &Request::Sessions)?.ok_or_else(|| runs_nowhere(&folder))?;
        return print(&Lists::of(&all).with_ages(&sessions), Column::TOTAL, output);
    }
    if !arguments.once {
        if output == Output::Json || !std::io::stdout().is_terminal() {
            return Err(Error::argument(
                "the live view needs a terminal",
                "print one look with `multilane top --once`",
            ));
        }
        return live::run(folder, every);
    }
    let earlier = look(&folder)?;
    thread::sleep(every);
    let change = Change::between(&earlier, &look(&folder)?);
    print(&Lists::of(&change).with_files(&busy_files(&folder, every)?), Column::ALL, output)
}

fn print<const COLUMNS: usize>(lists: &Lists, columns: [Column; COLUMNS], output: Output) -> Result<(), Error> {
    output.print(&once::Shown::of(lists), |_| once::text(lists, columns))
}

/// The files that were used in the last time `within`.
fn busy_files(folder: &DataFolder, within: Duration) -> Result<Vec<BusyFile>, Error> {
    let within = u32::try_from(within.as_millis()).unwrap_or(u32::MAX);
    ask(folder, &Request::BusyFiles { within })?.ok_or_else(|| runs_nowhere(folder))
}

fn look(folder: &DataFolder) -> Result<CountersView, Error> {
    ask_for_counters(folder)?.ok_or_else(|| runs_nowhere(folder))
}
