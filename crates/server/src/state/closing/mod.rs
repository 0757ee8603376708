//! Closing opens, step by step. What is done in the server's own folder waits there, and what is done to a file waits in the turn of its share's device:
//! where one of the two hangs, nobody waits who needs the other alone.

mod on_pool;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use store::{Error, Waits};

use crate::resource::pool::{Device, Job, QueueKey};
use crate::state::auditing::of_open;
use crate::state::breaks;
use crate::state::files::{Change, Removal};
use crate::state::open::{FileOpen, Open, Target};
use crate::state::removal::LastOpen;
use crate::state::shared::Shared;

/// Told what came of it: fails where something is still there that was to go with the open, which is then in the log.
pub(crate) type Closed = Box<dyn FnOnce(Result<(), Error>) + Send>;

/// An open on its way out.
pub(crate) struct Closing {
    open: Arc<Open>,
    next: Step,
    outcome: Result<(), Error>,
    /// The file is left in the turn of its device, though that may not wait.
    in_turn: bool,
    /// Done just before the file is left.
    before: Option<Job>,
    closed: Closed,
    /// What it deletes goes before others open it to change it, however long its turn takes to come.
    _deletes: Option<Change>,
}

/// What is to be done next. A kill between two of them leaves what docs/SEMANTICS.md says.
enum Step {
    /// Nothing that is under way remembers the open or changes its record from then on.
    Begin,
    /// The disk forgets it before others get at its file.
    Forget {
        file_goes: bool,
    },
    /// It leaves the file's table entry. Its record may be there until what it removes is gone.
    Leave {
        is_recorded: bool,
    },
    /// The other records of its file say that this goes.
    RecordDeletion {
        removal: Removal,
        is_recorded: bool,
    },
    /// Removes a name or stream.
    Remove {
        removal: Removal,
        is_recorded: bool,
    },
    /// The disk forgets it before anybody can have the name of what it has removed.
    ForgetLast {
        removal: Removal,
    },
    /// That is free, and maybe something else is due.
    Removed {
        removal: Removal,
    },
    Done,
}

/// What a step waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WaitsFor {
    /// Nothing.
    Anywhere,
    /// The server's own folder.
    Own,
    /// The device of the open's share.
    Share,
}

impl WaitsFor {
    /// The queue for it of somebody whose queue at the share's device this is.
    fn queue_key(self, of_share: QueueKey) -> QueueKey {
        match self {
            WaitsFor::Own => QueueKey { device: Device::Own, ..of_share },
            WaitsFor::Anywhere | WaitsFor::Share => of_share,
        }
    }
}

impl Closing {
    pub(crate) fn new(open: Arc<Open>) -> Self {
        let deletes = match &open.target {
            Target::File(file) if open.deletes_on_close(file) => Some(file.file.begin_deleting()),
            Target::File(_) | Target::Pipe(_) => None,
        };
        let closed = Box::new(|_| ());
        Closing { open, next: Step::Begin, outcome: Ok(()), in_turn: false, before: None, closed, _deletes: deletes }
    }

    /// The same, and `closed` is told of it.
    pub(crate) fn telling(self, closed: Closed) -> Self {
        Closing { closed, ..self }
    }

    /// The file is left in the turn of its device, whether that may wait or not.
    pub(crate) fn in_turn(self) -> Self {
        Closing { in_turn: true, ..self }
    }

    /// The same behind something else that may wait for the device.
    pub(crate) fn behind(self, before: Job) -> Self {
        Closing { before: Some(before), in_turn: true, ..self }
    }

    /// Goes as far as nothing has to be waited for: gives what came of it, or what is left to do in turns.
    pub(crate) fn at_once(mut self, server: &Arc<Shared>) -> Result<Result<(), Error>, Self> {
        match self.go_on(server, WaitsFor::Anywhere) {
            None => Ok(self.outcome),
            Some(_) => Err(self),
        }
    }

    fn place(&self, server: &Shared) -> WaitsFor {
        let for_share = |waits: bool| if waits { WaitsFor::Share } else { WaitsFor::Anywhere };
        match &self.next {
            Step::Begin => for_share(self.in_turn && !self.open.is_persistent()),
            Step::Forget { .. } | Step::RecordDeletion { .. } | Step::ForgetLast { .. } => WaitsFor::Own,
            Step::Leave { .. } => for_share(self.in_turn || self.open.leaving_may_wait(server)),
            Step::Remove { .. } => for_share(self.open.removal_may_wait()),
            Step::Removed { .. } | Step::Done => WaitsFor::Anywhere,
        }
    }

    /// Does what waits for nothing or for `here`, and gives where the rest is done; `None` where it is closed.
    fn go_on(&mut self, server: &Arc<Shared>, here: WaitsFor) -> Option<WaitsFor> {
        loop {
            if matches!(self.next, Step::Done) {
                return None;
            }
            let place = self.place(server);
            if place != WaitsFor::Anywhere && place != here {
                return Some(place);
            }
            self.step(server);
        }
    }

    fn step(&mut self, server: &Arc<Shared>) {
        let open = Arc::clone(&self.open);
        let step = std::mem::replace(&mut self.next, Step::Done);
        self.next = match (&open.target, step) {
            (Target::Pipe(pipe), _) => {
                if open.begin_closing() {
                    pipe.close();
                }
                Step::Done
            }
            (Target::File(file), Step::Begin) => begin(&open, file),
            (Target::File(file), Step::Forget { file_goes }) => {
                file.durability.forget_record(open.id, file_goes);
                Step::Leave { is_recorded: false }
            }
            (Target::File(file), Step::Leave { is_recorded }) => {
                if let Some(before) = self.before.take() {
                    before();
                }
                leave(server, &open, file, is_recorded)
            }
            (Target::File(file), Step::RecordDeletion { removal, is_recorded }) => {
                let recorded = server.durables.record_deletion(&file.file).map_err(|halfway| halfway.error);
                if removal == Removal::Nothing {
                    // What goes need not be recorded as going.
                    self.outcome = recorded;
                }
                left(removal, is_recorded)
            }
            (Target::File(file), Step::Remove { removal, is_recorded }) => {
                let removed = last(&open, file).remove(server, &file.file, &removal);
                self.outcome = std::mem::replace(&mut self.outcome, Ok(())).and(removed);
                if is_recorded { Step::ForgetLast { removal } } else { Step::Removed { removal } }
            }
            (Target::File(file), Step::ForgetLast { removal }) => {
                file.durability.forget_record(open.id, true);
                if removal == Removal::Nothing { Step::Done } else { Step::Removed { removal } }
            }
            (Target::File(file), Step::Removed { removal }) => left(server.files.removed(&file.file, &removal), false),
            (Target::File(_), Step::Done) => Step::Done,
        };
    }
}

/// Only the first who closes an open does anything.
fn begin(open: &Open, file: &FileOpen) -> Step {
    if !open.begin_closing() {
        return Step::Done;
    }
    let deletes = open.deletes_on_close(file);
    let file_goes = deletes || file.file.is_delete_pending(open.id, &file.stream_name());
    file.durability.closed(open.id);
    // What was to go goes though the server is killed meanwhile, so its record is there until then. Where files have no births one that is left
    // behind could mean another file.
    let is_recorded_to_the_end = file_goes && file.base().birth().is_some();
    match open.is_persistent() {
        true if !is_recorded_to_the_end => Step::Forget { file_goes },
        is_persistent => Step::Leave { is_recorded: is_persistent },
    }
}

fn leave(server: &Arc<Shared>, open: &Open, file: &FileOpen, is_recorded: bool) -> Step {
    let deletes = open.deletes_on_close(file);
    if file.has_written.load(Ordering::Relaxed) {
        breaks::looks_different(server, open);
    }
    server.watches.closed(open, file);
    of_open::closed(server, open, file);
    if deletes {
        file.learn_links();
        of_open::armed(open, file, open.caller.as_ref());
    }
    let removal = server.files.leave(&file.file, open.id, deletes);
    // What is not recorded as going stays where the server is killed before the last one closes.
    if deletes && file.file.is_recorded() {
        Step::RecordDeletion { removal, is_recorded }
    } else {
        left(removal, is_recorded)
    }
}

/// What follows where this is to be removed.
fn left(removal: Removal, is_recorded: bool) -> Step {
    match (removal, is_recorded) {
        (Removal::Nothing, false) => Step::Done,
        (Removal::Nothing, true) => Step::ForgetLast { removal: Removal::Nothing },
        (removal, is_recorded) => Step::Remove { removal, is_recorded },
    }
}

fn last(open: &Arc<Open>, file: &FileOpen) -> LastOpen {
    LastOpen {
        base: Arc::clone(file.base()),
        path: Arc::clone(&file.path),
        tree: Arc::clone(&open.tree),
        parent_lease: file.parent_lease,
        open: Some(Arc::clone(open)),
    }
}

impl Open {
    /// Ends the open where nobody is there to be told what became of it: the log is.
    pub(crate) fn close(self: &Arc<Self>, server: &Arc<Shared>) {
        let _ = self.close_for_client(server);
    }

    /// Ends the open: leaves the file's table entry and removes what was to go with its last open. Waits for whatever that needs. Only the first
    /// call does anything. Fails where that is still there, which is then in the log.
    pub(crate) fn close_for_client(self: &Arc<Self>, server: &Arc<Shared>) -> Result<(), Error> {
        let mut closing = Closing::new(Arc::clone(self));
        let mut place = WaitsFor::Anywhere;
        while let Some(next) = closing.go_on(server, place) {
            place = next;
        }
        closing.outcome
    }

    fn is_persistent(&self) -> bool {
        self.file().is_ok_and(|file| file.durability.keeping().is_persistent())
    }

    /// True where leaving the file may have to wait for its device.
    pub(crate) fn leaving_may_wait(&self, server: &Shared) -> bool {
        let Target::File(file) = &self.target else { return false };
        self.removal_may_wait()
            && ((file.has_written.load(Ordering::Relaxed) && server.files.has_directory_leases())
                || file.delete_on_close.load(Ordering::Relaxed)
                || file.file.is_delete_pending(self.id, &file.stream_name()))
    }

    /// True where removing what goes with the open may have to wait for a device.
    fn removal_may_wait(&self) -> bool {
        match &self.target {
            Target::File(file) => {
                // In a folder that is memory names are looked for among many, and may lead to a disk that is mounted there.
                let names_are_here = self.tree.store().is_some_and(|store| store.facts().never_blocks);
                !names_are_here || file.node.waits() != Waits::Never
            }
            Target::Pipe(_) => false,
        }
    }
}

impl Shared {
    /// Closes opens, each as far as nothing has to be waited for, and the rest on the pool: in the server's own folder's turn what is done there, and
    /// in this one what is done to files, which lie on its device.
    pub(crate) fn close_in_turns(self: &Arc<Self>, queue_key: QueueKey, closing: Vec<Closing>) {
        self.close_at(WaitsFor::Anywhere, queue_key, closing);
    }

    fn close_at(self: &Arc<Self>, here: WaitsFor, queue_key: QueueKey, closing: Vec<Closing>) {
        let (mut own, mut of_share) = (Vec::new(), Vec::new());
        for mut one in closing {
            match one.go_on(self, here) {
                None => (one.closed)(one.outcome),
                Some(WaitsFor::Own) => own.push(one),
                Some(WaitsFor::Anywhere | WaitsFor::Share) => of_share.push(one),
            }
        }
        for (place, rest) in [(WaitsFor::Own, own), (WaitsFor::Share, of_share)] {
            if !rest.is_empty() {
                let server = Arc::clone(self);
                self.pool.submit(place.queue_key(queue_key), Box::new(move || server.close_at(place, queue_key, rest)));
            }
        }
    }
}
