//! Persistent opens of the server before this one, from the start until they wait for their clients again (MS-SMB2 3.3.5.9.12).
//!
//! A share whose folder is not there yet comes later, or hangs while its files are looked for. So the opens of each share are made
//! anew on a thread of their own, and clients find the share when that is done: nobody gets at a file before the open that may be in
//! the way is there. Until then the records stay on the disk.

mod open;

use std::cmp::Reverse;
use std::io;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use store::threads;

use self::open::{Unrestored, restore_one};
use crate::resource::pool::QueueKey;
use crate::state::auditing::of_share;
use crate::state::configuration::Configuration;
use crate::state::durable::{Record, ToRestore};
use crate::state::open_id::OpenId;
use crate::state::shared::Shared;

/// How long the start waits for opens, so that shares that are well are served from the first moment on.
const FIRST_WAIT: Duration = Duration::from_secs(2);
/// How often a file that was not there is looked for again. What a share's folder is mounted on may come after the share.
const LOOKED_EVERY: Duration = Duration::from_secs(2);

/// Makes the opens anew that a server before this one had when it ended, as far as that takes no longer than a moment. An error where the
/// disk does not say which these are: nobody may be served then, for files would be given to others than those that have them open.
pub(crate) fn restore(server: &Arc<Shared>) -> io::Result<()> {
    let Some(read) = server.durables.read_records()? else { return Ok(()) };
    let restoring = &server.durables.restoring;
    let mut state = restoring.state.lock();
    for record in read {
        // Whatever is opened before it comes back has another number.
        server.number_opens_after(record.open);
        server.durables.expect(&record);
        state.records.entry(record.share.clone()).or_default().push(record);
    }
    state.given = Some(server.configuration.load_full());
    server.serve(&mut state);
    let until = Instant::now() + FIRST_WAIT;
    while !state.under_way.is_empty() && !restoring.moved.wait_until(&mut state, until).timed_out() {}
    Ok(())
}

impl Shared {
    /// Serves `configuration` from now on, but for shares whose persistent opens are not back yet: these come then.
    pub(crate) fn give(self: &Arc<Self>, configuration: Configuration) {
        let mut state = self.durables.restoring.state.lock();
        if !state.ended {
            let before = state.given.replace(Arc::new(configuration)).unwrap_or_else(|| self.configuration.load_full());
            self.serve(&mut state);
            if let Some(now) = &state.given {
                of_share::changed(self, &before, now);
            }
        }
    }

    /// Nothing is made anew from now on, and no share is served.
    pub(crate) fn give_nothing(self: &Arc<Self>) {
        let mut state = self.durables.restoring.state.lock();
        state.ended = true;
        state.given = None;
        let configuration = self.configuration.load_full();
        self.configuration
            .store(Arc::new(Configuration { shares: Vec::new(), ..Configuration::clone(&configuration) }));
    }

    /// Serves what is to be served and may be. Of two configurations the later stays, as the state is locked.
    fn serve(self: &Arc<Self>, state: &mut ToRestore) {
        let Some(given) = state.given.clone() else { return };
        let names: Vec<String> = state.records.keys().cloned().collect();
        for name in names {
            if given.shares.iter().any(|share| share.name == name) {
                self.begin_restoring(state, name);
            } else if !given.awaited.contains(&name) {
                let records = state.records.remove(&name).unwrap_or_default();
                records.iter().for_each(|record| self.lose(record, "its share is gone"));
            }
        }
        let is_back = |name: &str| !state.records.contains_key(name) && !state.under_way.contains(name);
        if given.shares.iter().all(|share| is_back(&share.name)) {
            self.configuration.store(given);
        } else {
            let mut configuration = Configuration::clone(&given);
            configuration.shares.retain(|share| is_back(&share.name));
            self.configuration.store(Arc::new(configuration));
        }
        self.follow_estate();
    }

    fn begin_restoring(self: &Arc<Self>, state: &mut ToRestore, name: String) {
        if state.under_way.contains(&name) {
            return;
        }
        let (server, share) = (Arc::downgrade(self), name.clone());
        let thread = thread::Builder::new().name("multilane-opens".to_owned());
        match threads::start(thread, move || run(&server, &share)) {
            Ok(()) => drop(state.under_way.insert(name)),
            Err(error) => {
                tracing::error!(name: "thread_not_started", %error, share = name, "no thread for its persistent opens: it is not served yet")
            }
        }
    }

    /// What keeps the disk from forgetting it keeps no share from being served.
    fn lose(&self, record: &Record, why: &str) {
        let Record { open, share, path, .. } = record;
        tracing::error!(name: "persistent_open_lost", open, share, path, reason = why, "a persistent open is lost");
        self.durables.expect_no_longer(record);
        let (durables, open) = (Arc::clone(&self.durables), OpenId(*open));
        self.pool.submit(QueueKey::OWN, Box::new(move || durables.remove_record(open, false)));
    }
}

impl Shared {
    /// Closes an open that was made anew for a user who may not sign in any more: whoever saw to that may not have seen it.
    fn close_of_nobody(self: &Arc<Self>, open: OpenId) {
        let given = self.durables.restoring.state.lock().given.clone();
        let taken = given.and_then(|given| self.durables.take_of_nobody(open, &given));
        self.close_unserved(taken.into_iter().collect());
    }
}

/// Makes the opens of a share anew, has it served, and goes on looking for files that were not there for as long as their opens may
/// wait.
fn run(server: &Weak<Shared>, share: &str) {
    let mut missing = match server.upgrade() {
        Some(server) => first(&server, share),
        None => return,
    };
    while !missing.is_empty() {
        thread::sleep(LOOKED_EVERY);
        let Some(server) = server.upgrade() else { return };
        let Some(given) = server.durables.restoring.state.lock().given.clone() else { return };
        missing.retain(|(record, until)| match try_one(&server, &given, record) {
            Some(why) if Instant::now() >= *until => {
                server.lose(record, &why);
                false
            }
            Some(_) => true,
            None => false,
        });
    }
}

/// The opens whose files are not there, and until when they are looked for.
fn first(server: &Arc<Shared>, share: &str) -> Vec<(Record, Instant)> {
    let restoring = &server.durables.restoring;
    let (mut records, given) = {
        let mut state = restoring.state.lock();
        (state.records.remove(share).unwrap_or_default(), state.given.clone())
    };
    // Where two contradict each other, what was written later is true: a range was locked by the one when the other had unlocked it.
    records.sort_by_key(|record| Reverse(record.written));
    let mut missing = Vec::new();
    if let Some(given) = given {
        for record in records {
            if let Some(why) = try_one(server, &given, &record) {
                let Record { open, share, path, .. } = &record;
                tracing::warn!(name: "persistent_open_sought", open, share, path, reason = why, "the file of a persistent open is looked for");
                let timeout = Duration::from_millis(record.timeout_milliseconds.into());
                missing.push((record, Instant::now() + timeout));
            }
        }
    }
    let mut state = restoring.state.lock();
    state.under_way.remove(share);
    server.serve(&mut state);
    drop(state);
    restoring.moved.notify_all();
    missing
}

/// Makes an open anew; says why where its file is not there. One that cannot be any more is lost.
fn try_one(server: &Arc<Shared>, given: &Configuration, record: &Record) -> Option<String> {
    match restore_one(server, given, record) {
        Ok(()) => {
            let Record { open, share, path, .. } = record;
            server.close_of_nobody(OpenId(*open));
            tracing::info!(name: "persistent_open_waits", open, share, path, "a persistent open waits for its client");
            server.durables.expect_no_longer(record);
            server.durables.has_changed();
            None
        }
        Err(Unrestored::Lost(why)) => {
            server.lose(record, &why);
            None
        }
        Err(Unrestored::Missing(why)) => Some(why),
    }
}
