//! A server that tells what a test wants.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use server::admin::{
    Admin, AuditCounts, AuditOrigins, AuditRefusal, Authentication, BreakView, Configuration, CountersRow,
    CountersView, Counts, Events, FileView, InterfaceView, LockedView, MemoryUse, Multichannel, OpenView, Protection,
    Rate, Scope, SessionView, ShareRates, ShareView, StoreWait, Views,
};

/// Its shares have been used for so many.
#[derive(Default)]
pub(crate) struct Fake {
    pub(crate) shares: usize,
    /// Sessions that can be looked at, from number 1 on, each with an open of that number.
    pub(crate) sessions: u64,
    /// Those that were closed.
    pub(crate) closed: Mutex<Vec<u64>>,
    /// How often its counters were read.
    pub(crate) reads: AtomicUsize,
    /// One of its shards does not answer.
    pub(crate) hangs: AtomicBool,
    /// How long requests have waited for the disk of `share`.
    pub(crate) waits: Option<Duration>,
}

impl Admin for Fake {
    fn replace(&self, _: Configuration) {}

    fn sessions(&self) -> Views<'_, SessionView> {
        Box::new((1..=self.sessions).rev().map(session))
    }

    fn session_count(&self) -> usize {
        3
    }

    fn counters(&self) -> CountersView {
        self.reads.fetch_add(1, Ordering::Relaxed);
        // Requests of all APIs with all responses.
        let counts = || Counts::from_parts((0..200).map(|slot| (slot, 1)).collect(), Vec::new()).unwrap();
        let share = |number| CountersRow {
            scope: Scope::Share { name: Some(format!("share-{number}")), authentication: Authentication::Ntlm },
            counts: counts(),
        };
        CountersView {
            at: Duration::from_secs(1),
            start: 1,
            events: Events::default(),
            rows: (0..self.shares).map(share).collect(),
        }
    }

    fn audit(&self) -> AuditCounts {
        AuditCounts::default()
    }

    fn origins(&self) -> &Arc<AuditOrigins> {
        unreachable!("a page changes no files")
    }

    fn audit_refusal(&self, _: AuditRefusal) {
        unreachable!("a page refuses nobody a file")
    }

    fn shares(&self) -> Vec<ShareView> {
        let waits = self.waits.map(|longest| StoreWait { count: 3, longest });
        let share = ShareView {
            name: "share".to_owned(),
            account: "local".to_owned(),
            seal_required: false,
            rates: ShareRates::default(),
            account_rate: Rate::default(),
            credits: 0,
            delayed: Vec::new(),
            waits,
        };
        waits.map(|_| share).into_iter().collect()
    }

    fn busy_files(&self, _: Duration, _: usize) -> Vec<FileView> {
        Vec::new()
    }

    fn awaited_breaks(&self) -> Vec<BreakView> {
        Vec::new()
    }

    fn memory(&self) -> MemoryUse {
        MemoryUse::default()
    }

    fn opens_of_user_max(&self) -> u64 {
        0
    }

    fn interfaces(&self) -> Vec<InterfaceView> {
        Vec::new()
    }

    fn connections(&self) -> Vec<usize> {
        vec![1, 2]
    }

    fn silent_shards(&self, _: Duration) -> Vec<usize> {
        if self.hangs.load(Ordering::Relaxed) { vec![1] } else { Vec::new() }
    }

    fn opens(&self) -> Views<'_, OpenView> {
        Box::new((1..=self.sessions).rev().map(open))
    }

    fn open_count(&self) -> usize {
        0
    }

    fn locked_users(&self) -> Vec<LockedView> {
        Vec::new()
    }

    fn unlock_user(&self, _: u32) -> bool {
        false
    }

    fn close_session(&self, id: u64) -> bool {
        self.closed.lock().push(id);
        id <= self.sessions
    }

    fn close_open(&self, _: u64) -> bool {
        false
    }
}

fn session(id: u64) -> SessionView {
    SessionView {
        id,
        user: format!("user-{id}"),
        account: "abc".to_owned(),
        dialect: 0x0311,
        cipher: None,
        signing: "AES-GMAC".to_owned(),
        peer: "192.0.2.1:50000".to_owned(),
        connected_seconds: 1,
        idle_seconds: 0,
        opens: 1,
        shares: vec!["files".to_owned()],
        protection: Protection::Signed,
        multichannel: Multichannel::On,
        channels: Vec::new(),
    }
}

fn open(id: u64) -> OpenView {
    OpenView {
        id,
        session: id,
        user: format!("user-{id}"),
        share: "files".to_owned(),
        path: "<b>a</b>".to_owned(),
        access: 1,
        open_seconds: 1,
    }
}
