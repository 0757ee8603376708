//! The live view in a terminal.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use control::{BusyFile, DataFolder, Error, Request, ask};
use insight::Change;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use server::admin::CountersView;
use signal_hook::consts::{SIGHUP, SIGTERM};
use signal_hook::flag;

use crate::top::draw::draw;
use crate::top::lists::Lists;
use crate::top::view::{View, Wish};

/// How long a key waits at most for new numbers to be drawn first, and those for a key.
const TURN: Duration = Duration::from_millis(50);

/// What the thread that asks the server has got.
type Look = Result<(CountersView, Vec<BusyFile>), Error>;

/// Shows the view until a key ends it. New numbers come in so often.
pub(super) fn run(folder: DataFolder, every: Duration) -> Result<(), Error> {
    let (asked, looks) = channel();
    let (closing, to_close) = channel();
    let asking = thread::Builder::new().name("looks".to_owned());
    // It ends with the program: the server may take seconds to answer, or never answer.
    asking.spawn(move || ask_on(&folder, every, &asked, &to_close)).map_err(|cause| unable(&cause))?;
    let is_told_to_end = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP] {
        flag::register(signal, Arc::clone(&is_told_to_end)).map_err(|cause| unable(&cause))?;
    }
    let mut terminal = ratatui::try_init().map_err(|cause| unable(&cause))?;
    let ended = show(&mut terminal, &looks, &closing, &is_told_to_end);
    ratatui::try_restore().and(ended).map_err(|cause| unable(&cause))
}

fn unable(cause: &io::Error) -> Error {
    Error::machine(format!("the terminal cannot be used: {cause}"), "print one look with `multilane top --once`")
}

/// What was asked of the server.
enum Answer {
    Look(Look),
    Closed(u64, Result<(), Error>),
}

/// Looks again and again, and closes what is to be closed meanwhile.
fn ask_on(folder: &DataFolder, every: Duration, answers: &Sender<Answer>, to_close: &Receiver<u64>) {
    let look = || Ok((super::look(folder)?, super::busy_files(folder, every)?));
    while answers.send(Answer::Look(look())).is_ok() {
        match to_close.recv_timeout(every) {
            Ok(id) => {
                let closed = ask::<()>(folder, &Request::CloseSession { id }).map(drop);
                if answers.send(Answer::Closed(id, closed)).is_err() {
                    return;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Draws what comes in, and does what keys ask for.
fn show(
    terminal: &mut DefaultTerminal,
    answers: &Receiver<Answer>,
    closing: &Sender<u64>,
    is_told_to_end: &AtomicBool,
) -> io::Result<()> {
    let mut view = View::new();
    let mut earlier: Option<CountersView> = None;
    terminal.draw(|frame| draw(frame, &view))?;
    while !is_told_to_end.load(Ordering::Relaxed) {
        let mut is_new = false;
        while let Ok(answer) = answers.try_recv() {
            is_new = true;
            take(&mut view, &mut earlier, answer);
        }
        if event::poll(TURN)? {
            is_new = true;
            if let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
            {
                match view.key(key) {
                    Wish::Nothing => {}
                    Wish::Quit => return Ok(()),
                    // Where nobody asks any more the program is about to end.
                    Wish::Close(id) => _ = closing.send(id),
                }
            }
        }
        if is_new {
            terminal.draw(|frame| draw(frame, &view))?;
        }
    }
    Ok(())
}

/// Has the view show an answer; a look against the earlier one.
fn take(view: &mut View, earlier: &mut Option<CountersView>, answer: Answer) {
    match answer {
        Answer::Look(Ok((later, files))) => {
            view.failure = None;
            if let Some(earlier) = earlier {
                view.take(Lists::of(&Change::between(earlier, &later)).with_files(&files));
            }
            *earlier = Some(later);
        }
        Answer::Look(Err(error)) => view.failure = Some(error.to_string()),
        Answer::Closed(id, Ok(())) => view.message = Some(format!("Session {id} has ended.")),
        Answer::Closed(_, Err(error)) => view.message = Some(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use server::admin::Events;

    use super::*;
    use crate::top::draw::tests::screen;

    #[test]
    fn that_no_server_runs_is_told_until_one_does() {
        let (mut view, mut earlier) = (View::new(), None);
        let told = |view: &View| screen(view, (80, 12)).contains("no server runs");
        let look = || CountersView { start: 0, at: Duration::ZERO, events: Events::default(), rows: Vec::new() };
        take(&mut view, &mut earlier, Answer::Closed(7, Ok(())));
        take(&mut view, &mut earlier, Answer::Look(Err(Error::missing("no server runs", "start one"))));
        assert!(told(&view));
        take(&mut view, &mut earlier, Answer::Look(Ok((look(), Vec::new()))));
        assert!(!told(&view));
        // What was done is told until the next key.
        assert!(screen(&view, (80, 12)).contains("Session 7 has ended."));
    }
}
