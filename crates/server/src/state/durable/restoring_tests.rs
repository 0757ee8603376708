//! Persistent opens of a share whose folder comes late, or hangs while their files are looked for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use store::{Error, Facts, Replace, Resolved, SharePath, Space, Store, Use};
use wire::command::create::ShareAccess;
use wire::context::durable::DurableFlags;
use wire::ids::FileId;
use wire::status::Status;

use super::persistent_tests::{Machine, persistent, persistent_peer};
use super::tests::{GUID, back_v2, bytes, create, run};
use crate::admin::Admin;
use crate::state::configuration::{Configuration, Signing};
use crate::state::restore::restore;
use crate::state::shared::Shared;
use crate::tests::testing::{Peer, server_with};

/// Longer than anything takes that a test waits for.
const AN_AGE: Duration = Duration::from_secs(120);

/// A store that hangs when something is looked up, for as long as it is told to.
struct Hanging {
    disk: Arc<dyn Store>,
    hangs: Mutex<bool>,
    answers: Condvar,
}

impl Hanging {
    fn answer(&self) {
        *self.hangs.lock() = false;
        self.answers.notify_all();
    }
}

impl Store for Hanging {
    fn facts(&self) -> Facts {
        self.disk.facts()
    }

    fn space(&self) -> Result<Space, Error> {
        self.disk.space()
    }

    fn resolve(&self, path: &SharePath, usage: Use) -> Result<Resolved, Error> {
        self.answers.wait_while(&mut self.hangs.lock(), |hangs| *hangs);
        self.disk.resolve(path, usage)
    }

    fn try_resolve(&self, path: &SharePath, usage: Use) -> Result<Resolved, Error> {
        self.disk.try_resolve(path, usage)
    }
}

/// A client's persistent open, which shares nothing, on a server that is killed then.
async fn opened(machine: &Machine) -> FileId {
    let mut peer = persistent_peer(&machine.start()).await;
    let bytes = bytes(&persistent(GUID));
    peer.create_edited("file", &bytes, |request| request.share_access = ShareAccess::NONE).await.file_id()
}

/// The next server: `store` is its share's, and `change` says what is served of it at first.
fn start(
    machine: &Machine,
    store: Arc<dyn Store>,
    change: impl Fn(&mut Configuration),
) -> (Arc<Shared>, Configuration) {
    let server = server_with(Signing::Enabled, store);
    let whole = Configuration::clone(&server.configuration.load());
    let mut first = whole.clone();
    change(&mut first);
    server.configuration.store(Arc::new(first));
    server.durables.keep_records(machine.folder.path()).unwrap();
    restore(&server).unwrap();
    (server, whole)
}

fn awaited(configuration: &mut Configuration) {
    configuration.awaited = configuration.shares.drain(..).map(|share| share.name).collect();
}

pub(super) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + AN_AGE;
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::yield_now();
    }
}

fn is_served(server: &Shared) -> bool {
    !server.configuration.load().shares.is_empty()
}

async fn is_reclaimed(server: &Arc<Shared>, id: FileId) {
    let mut other = persistent_peer(server).await;
    assert_eq!(create(&mut other, "file", &vec![]).await.status(), Status::FILE_NOT_AVAILABLE);
    let mut peer = persistent_peer(server).await;
    assert_eq!(create(&mut peer, "file", &back_v2(id, GUID, DurableFlags::PERSISTENT)).await.file_id(), id);
    assert_eq!(create(&mut other, "file", &vec![]).await.status(), Status::SHARING_VIOLATION);
}

#[test]
fn persistent_opens_wait_for_a_share_that_comes_late() {
    run(async {
        let machine = Machine::new();
        let id = opened(&machine).await;
        let (server, whole) = start(&machine, Arc::clone(&machine.store), awaited);
        assert_eq!(machine.records().len(), 1);
        let mut early = Peer::connect_as(&server, crate::tests::testing::Terms::default());
        early.negotiate().await;
        early.set_up_session().await;
        assert_eq!(early.connect("ram").await, Status::BAD_NETWORK_NAME);
        assert!(server.new_open_id().0 > id.persistent, "what is opened meanwhile has another number");
        server.replace(whole);
        wait_until("the share is not served", || is_served(&server));
        is_reclaimed(&server, id).await;
    });
}

#[test]
fn persistent_opens_of_a_share_that_is_deleted_before_it_comes_are_forgotten() {
    run(async {
        let machine = Machine::new();
        opened(&machine).await;
        let (server, whole) = start(&machine, Arc::clone(&machine.store), awaited);
        server.replace(Configuration { shares: Vec::new(), ..whole });
        wait_until("it is still recorded", || machine.records().is_empty());
    });
}

#[test]
fn a_share_is_served_when_the_opens_that_may_be_in_the_way_are_back() {
    run(async {
        let machine = Machine::new();
        let id = opened(&machine).await;
        let disk = Arc::clone(&machine.store);
        let hanging = Arc::new(Hanging { disk, hangs: Mutex::new(true), answers: Condvar::new() });
        let (server, whole) = start(&machine, Arc::clone(&hanging) as Arc<dyn Store>, |configuration| {
            let other = crate::state::configuration::Share { name: "other".into(), ..configuration.shares[0].clone() };
            configuration.shares.push(other);
        });
        let names = || server.configuration.load().shares.iter().map(|share| share.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(), ["other"], "the start has waited for it in vain");
        // What changes meanwhile takes effect, and brings nothing back too early.
        server.replace(Configuration { principals: whole.principals[..1].to_vec(), ..whole.clone() });
        assert_eq!((names(), server.configuration.load().principals.len()), (vec![], 1));
        hanging.answer();
        wait_until("the share is not served", || is_served(&server));
        is_reclaimed(&server, id).await;
    });
}

#[test]
fn the_file_of_a_persistent_open_may_come_after_its_share() {
    run(async {
        let machine = Machine::new();
        let id = opened(&machine).await;
        let name = |from: &str, to: &str| {
            let (from, to) = (SharePath::parse(from).unwrap(), SharePath::parse(to).unwrap());
            let found = machine.store.resolve(&from, Use::Metadata).unwrap();
            let Resolved::Found { node, .. } = found else { panic!("{from:?}") };
            machine.store.rename(&from, &to, node.identity(), Replace::No).unwrap();
        };
        name("file", "elsewhere");
        let server = machine.start();
        assert!(is_served(&server));
        assert_eq!(machine.records().len(), 1);
        name("elsewhere", "file");
        wait_until("the open is not made anew", || server.durables.count() > 0);
        is_reclaimed(&server, id).await;
    });
}
