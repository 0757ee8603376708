//! Files that have as many opens as a user may have: what others do with them takes no longer for that.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::Poll;

use proptest::prelude::*;
use store::{Identity, RamStore, SharePath, Store};
use wire::command::create::OplockLevel;
use wire::context::lease::{Lease, LeaseState};
use wire::ids::Guid;
use wire::status::Status;

use super::claims::{Claim, Claims, breaks_leases};
use super::links::may_be_one;
use super::waiters::LOOKING_MAX;
use super::{Entering, Entry, FileEntry, FileTable, Link, Removal};
use crate::resource::budget::Budget;
use crate::state::caching::{Actor, Granted, Held, LeaseId, Notices, Operation, Wanted};
use crate::state::files::BreakWait;
use crate::state::files::share_modes::Modes;
use crate::state::locks::{LockKind, RangeLock};
use crate::state::open_id::OpenId;
use crate::state::open_path::OpenPath;
use crate::state::session_link::SessionLink;
use crate::tests::entries::entry;

const FILE: Identity = Identity { volume: 1, file: 2 };
const ALL: u32 = 7;
const READ_DATA: u32 = 1;
const READ_ATTRIBUTES: u32 = 0x80;
const DELETE: u32 = 0x1_0000;
const CROWD: u64 = 20_000;
/// What nobody looks at more of: far less than the crowd.
const LOOKS_MAX: usize = 16;

struct Scene {
    table: FileTable,
    store: Arc<dyn Store>,
    names: Arc<OpenPath>,
    line: Arc<SessionLink>,
}

impl Scene {
    fn new() -> Self {
        Scene {
            table: FileTable::new(),
            store: Arc::new(RamStore::new(0)),
            names: OpenPath::new(SharePath::parse("a").unwrap()),
            line: SessionLink::down(),
        }
    }

    fn enter(
        &self,
        open: u64,
        stream: &str,
        modes: (u32, u32),
        wanted: &Wanted,
    ) -> (Arc<FileEntry>, Entering, Notices) {
        let entry = Entry {
            open: OpenId(open),
            stream,
            access: modes.0,
            share: modes.1,
            wanted,
            ..entry(&self.names, &self.store, &self.line)
        };
        self.table.enter(FILE, &entry)
    }

    /// Enters an open for each number below [`CROWD`]: none of them looks at many others.
    fn crowd(&self, modes: (u32, u32), wanted: impl Fn(u64) -> Wanted) -> Arc<FileEntry> {
        let mut entered = None;
        for open in 1..=CROWD {
            let stream = if open % 2 == 0 { "a" } else { "b" };
            let (file, entering, notices) = self.enter(open, stream, modes, &wanted(open));
            assert!(matches!(entering, Entering::Entered(_)));
            assert!(notices.looks <= LOOKS_MAX, "open {open} looked at {}", notices.looks);
            entered = Some(file);
        }
        entered.unwrap()
    }

    /// Has the crowd leave, each after it was said to go.
    fn disperse(&self, file: &Arc<FileEntry>) {
        (1..=CROWD).for_each(|open| file.goes(OpenId(open)));
        for open in 1..=CROWD {
            assert_eq!(self.table.leave(file, OpenId(open), false), Removal::Nothing);
        }
        assert_eq!(looks(file), 0, "who leaves looks at nobody");
        assert!(self.table.is_empty());
    }
}

fn looks(file: &FileEntry) -> usize {
    file.state.lock().take_looks()
}

fn level_two(_open: u64) -> Wanted {
    Wanted::Oplock(OplockLevel::II)
}

fn lease(key: u64, state: LeaseState) -> Wanted {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&key.to_le_bytes());
    let id = LeaseId { client: Guid([1; 16]), user: crate::state::user::UserId(1), key: Guid(bytes) };
    Wanted::Lease(id, Lease { lease_key: id.key, lease_state: state, ..Lease::default() })
}

fn actor(open: u64) -> Actor {
    Actor { open: OpenId(open), lease: None }
}

#[test]
fn who_may_not_open_a_crowded_file_learns_it_without_a_look_at_all_who_have_it() {
    let scene = Scene::new();
    let file = scene.crowd((READ_DATA, ALL), level_two);
    for (stream, modes) in [("a", (READ_DATA, 0)), ("b", (READ_DATA, 0)), ("a", (READ_DATA, ALL & !READ_DATA))] {
        let (_, entering, notices) = scene.enter(CROWD + 1, stream, modes, &Wanted::Nothing);
        assert!(matches!(entering, Entering::Refused(Status::SHARING_VIOLATION)));
        assert!(notices.looks <= LOOKS_MAX, "looked at {}", notices.looks);
    }
    assert!(scene.table.are_many(), "though they are of one file");
    scene.disperse(&file);
    assert!(!scene.table.are_many());
}

#[test]
fn a_lease_of_many_opens_is_left_without_a_look_at_the_others() {
    let scene = Scene::new();
    // One of each stream.
    let of = |open| lease(open % 2, LeaseState::READ_CACHING);
    let file = scene.crowd((READ_DATA, ALL), of);
    for first in [1, 2] {
        let Wanted::Lease(id, _) = of(first) else { panic!("it is one") };
        let holders: Vec<_> = file.holders_of(id).map(|holder| holder.open.0).collect();
        assert_eq!(holders, (first..=CROWD).step_by(2).collect::<Vec<_>>(), "all of them, once each");
    }
    scene.disperse(&file);
}

#[test]
fn what_has_nothing_to_lose_is_not_looked_at() {
    let scene = Scene::new();
    let file = scene.crowd((READ_DATA, ALL), |open| lease(open, LeaseState::READ_CACHING));
    let change = || file.contend("a", actor(CROWD + 1), Operation::Change).1;
    let first = change();
    assert_eq!((first.told.len(), first.looks), (CROWD as usize / 2, CROWD as usize / 2), "they lose what they read");
    let again = change();
    assert_eq!((again.told.len(), again.looks), (0, 0));
    assert!(first.cost() > CROWD * 64, "what is told counts");
    scene.disperse(&file);
}

#[test]
fn what_breaks_already_is_looked_at_by_those_alone_who_wait_for_it() {
    let scene = Scene::new();
    let read_handle = LeaseState::READ_CACHING | LeaseState::HANDLE_CACHING;
    let file = scene.crowd((READ_DATA, ALL), |open| lease(open, read_handle));
    let contend = |operation| file.contend("a", actor(CROWD + 1), operation);
    assert_eq!(contend(Operation::Change).1.told.len(), CROWD as usize / 2);
    assert_eq!(contend(Operation::Change).1.looks, 0);
    assert_eq!(contend(Operation::Open).1.looks, 0);
    let (wait, notices) = contend(Operation::ChangeOfName);
    assert!(wait.is_some() && notices.told.is_empty());
    assert_eq!(notices.looks, CROWD as usize / 2);
    drop(wait);
    scene.disperse(&file);
}

#[test]
fn who_wants_to_cache_beside_a_crowd_does_not_look_at_it() {
    let scene = Scene::new();
    let file = scene.crowd((READ_ATTRIBUTES, ALL), |open| lease(open, LeaseState::READ_CACHING));
    let everything = LeaseState::READ_CACHING | LeaseState::HANDLE_CACHING | LeaseState::WRITE_CACHING;
    for wanted in [lease(0, everything), Wanted::Oplock(OplockLevel::BATCH)] {
        let (_, entering, notices) = scene.enter(CROWD + 1, "a", (READ_DATA, ALL), &wanted);
        assert!(matches!(entering, Entering::Entered(Granted::Lease(_) | Granted::Oplock(_))));
        assert!(notices.looks <= LOOKS_MAX, "looked at {}", notices.looks);
        let _ = scene.table.leave(&file, OpenId(CROWD + 1), false);
    }
    scene.disperse(&file);
}

#[test]
fn of_thousands_of_streams_each_goes_with_its_last_open() {
    let scene = Scene::new();
    let name = |open: u64| format!("S{open}");
    let budget = Budget::new(u64::MAX);
    let mut entered = None;
    for open in 1..=CROWD {
        let (file, entering, _) = scene.enter(open, &name(open), (READ_DATA, ALL), &Wanted::Nothing);
        assert!(matches!(entering, Entering::Entered(_)));
        let lock = RangeLock { open: OpenId(open), offset: 0, length: 1, kind: LockKind::Exclusive };
        file.lock(&name(open), lock, &budget).unwrap();
        file.set_delete_pending(OpenId(open), &name(open), true);
        entered = Some(file);
    }
    let file = entered.unwrap();
    file.set_delete_pending(OpenId(CROWD), &name(CROWD), false);
    for open in 1..CROWD {
        let removal = scene.table.leave(&file, OpenId(open), false);
        assert_eq!(removal, Removal::Stream(name(open)));
        scene.table.removed(&file, &removal);
    }
    assert!(file.has_locks());
    assert_eq!(scene.table.leave(&file, OpenId(CROWD), false), Removal::Nothing, "it was to stay after all");
    assert!(scene.table.is_empty());
}

#[test]
fn of_thousands_of_names_each_goes_with_the_open_that_took_it_away() {
    let scene = Scene::new();
    let mut entered = None;
    for open in 1..=CROWD {
        entered = Some(scene.enter(open, "", (READ_DATA, ALL), &Wanted::Nothing).0);
    }
    let file = entered.unwrap();
    for open in 1..=CROWD {
        file.state.lock().claims.change(OpenId(open), |claim| claim.link = Some(Link::new(FILE, &format!("n{open}"))));
    }
    (1..=CROWD).for_each(|open| file.unlink_with(OpenId(open)));
    assert!((1..=CROWD).all(|open| file.is_delete_pending(OpenId(open), "")));
    for open in 1..=CROWD {
        let removal = scene.table.leave(&file, OpenId(open), false);
        assert!(matches!(removal, Removal::File(_)));
        scene.table.removed(&file, &removal);
    }
    assert!(scene.table.is_empty());
}

#[test]
fn who_waits_by_the_thousand_is_kept_once_each() {
    let scene = Scene::new();
    let (file, entering, _) = scene.enter(1, "", (READ_DATA, ALL), &lease(1, LeaseState::READ_CACHING));
    assert!(matches!(entering, Entering::Entered(_)));
    file.goes(OpenId(1));
    let wait = |open| match scene.enter(open, "", (READ_DATA, ALL), &lease(1, LeaseState::READ_CACHING)).1 {
        Entering::Waits(wait) => wait,
        Entering::Entered(_) | Entering::Refused(_) | Entering::Unnamed => panic!("its lease goes just now"),
    };
    for open in 2..CROWD {
        drop(wait(open));
    }
    assert!(file.state.lock().waiting.len() <= LOOKS_MAX, "who waits no longer is forgotten");
    let waiting: Vec<_> = (0..1_000).map(|open| wait(CROWD + open)).collect();
    assert!(file.state.lock().waiting.len() >= waiting.len());
    drop(waiting);
    assert_eq!(scene.table.leave(&file, OpenId(1), false), Removal::Nothing);
    assert!(file.state.lock().waiting.len() == 0 && scene.table.is_empty());
}

/// So many wait for a batch oplock to break.
fn waiting(scene: &Scene, count: u64) -> (Arc<FileEntry>, Vec<BreakWait>) {
    let (file, entering, _) = scene.enter(1, "", (READ_DATA, ALL), &Wanted::Oplock(OplockLevel::BATCH));
    assert!(matches!(entering, Entering::Entered(_)));
    let wait = |open| match scene.enter(open, "", (READ_DATA, ALL), &Wanted::Nothing).1 {
        Entering::Waits(wait) => wait,
        Entering::Entered(_) | Entering::Refused(_) | Entering::Unnamed => panic!("it is in the way"),
    };
    (file, (2..2 + count).map(wait).collect())
}

fn queued(file: &FileEntry) -> usize {
    file.state.lock().waiting.len()
}

#[test]
fn those_who_wait_are_told_of_nothing_that_lets_none_of_them_in() {
    let scene = Scene::new();
    let (file, waits) = waiting(&scene, 1_000);
    for open in 2_000..2_010 {
        let (_, entering, _) = scene.enter(open, "", (READ_ATTRIBUTES, 0), &lease(open, LeaseState::READ_CACHING));
        assert!(matches!(entering, Entering::Entered(_)));
        assert_eq!(scene.table.leave(&file, OpenId(open), false), Removal::Nothing);
    }
    assert_eq!(queued(&file), waits.len());
    assert_eq!(scene.table.leave(&file, OpenId(1), false), Removal::Nothing);
    assert_eq!(queued(&file), waits.len() - LOOKING_MAX);
}

#[test]
fn those_who_wait_look_again_a_few_at_a_time() {
    let scene = Scene::new();
    let (file, mut waits) = waiting(&scene, 1_000);
    file.acknowledge_oplock(OpenId(1), OplockLevel::NONE).unwrap();
    // Somebody among them waits no longer, before it is told or after that.
    drop(waits.remove(500));
    drop(waits.remove(1));
    let all = waits.len();
    for (position, wait) in waits.iter_mut().enumerate() {
        assert!(queued(&file) <= (all + 1).saturating_sub(position), "no more are told before somebody looks");
        assert!(queued(&file) + LOOKING_MAX >= all.saturating_sub(position));
        assert!(wait.has_ended(), "the one who waited for longest is next");
    }
    assert_eq!(queued(&file), 0);
    drop(waits);
    assert_eq!(scene.table.leave(&file, OpenId(1), false), Removal::Nothing);
    assert!(scene.table.is_empty());
}

#[tokio::test(start_paused = true)]
async fn whose_time_is_over_at_the_same_moment_all_look_again() {
    let scene = Scene::new();
    let (file, mut waits) = waiting(&scene, 100);
    end_all(waits.iter_mut().map(|wait| Box::pin(wait.end()))).await;
    assert_eq!(queued(&file), 0);
    assert_eq!(file.caching_of(OpenId(1)), Held::default(), "it was not given up in time");
}

/// Polls all of them, until all have ended.
async fn end_all<F: Future<Output = ()> + Unpin>(all: impl Iterator<Item = F>) {
    let mut left: Vec<_> = all.collect();
    poll_fn(|task| {
        left.retain_mut(|one| Pin::new(one).poll(task).is_pending());
        if left.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

#[derive(Clone, Debug)]
enum Step {
    Enter { open: u64, stream: usize, access: u32, share: u32, lease: usize, link: usize },
    Leave(u64),
    Go(u64),
    Learn(u64, usize),
    RenameLink(usize, usize),
    RenameStream(usize, usize),
}

const STREAMS: [&str; 4] = ["", "A", "B", "C"];

fn leases() -> [Option<LeaseId>; 3] {
    let id = |key| Some(LeaseId { client: Guid([1; 16]), user: crate::state::user::UserId(1), key: Guid([key; 16]) });
    [None, id(1), id(2)]
}

fn links() -> [Option<Link>; 3] {
    [None, Some(Link::new(FILE, "x")), Some(Link::new(FILE, "y"))]
}

fn step() -> impl Strategy<Value = Step> {
    let access = prop::sample::select(vec![READ_DATA, 2, READ_DATA | DELETE, READ_ATTRIBUTES, 0x2_0000]);
    let enter = (0u64..24, 0usize..4, access, 0u32..8, 0usize..3, 0usize..3).prop_map(
        |(open, stream, access, share, lease, link)| Step::Enter { open, stream, access, share, lease, link },
    );
    prop_oneof![
        10 => enter,
        4 => (0u64..24).prop_map(Step::Leave),
        2 => (0u64..24).prop_map(Step::Go),
        2 => (0u64..24, 1usize..3).prop_map(|(open, link)| Step::Learn(open, link)),
        1 => (1usize..3, 1usize..3).prop_map(|(from, to)| Step::RenameLink(from, to)),
        1 => (1usize..4, 1usize..4).prop_map(|(from, to)| Step::RenameStream(from, to)),
    ]
}

/// The same answers as of a list that is gone through.
fn assert_alike(claims: &Claims) {
    let list: Vec<_> = claims.iter().collect();
    assert_eq!(claims.len(), list.len());
    assert_eq!(claims.has_named_streams(), list.iter().any(|claim| !claim.stream.is_empty()));
    let keeps = |claim: &Claim| Modes::of(claim.access, claim.share).keeps_from_deletion();
    assert_eq!(claims.keep_streams(), list.iter().any(|claim| !claim.stream.is_empty() && keeps(claim)));
    for link in links() {
        let expected = list.iter().any(|claim| may_be_one(claim.link.as_ref(), link.as_ref()));
        assert_eq!(claims.is_open_by(link.as_ref()), expected);
    }
    for lease in leases() {
        if let Some(lease) = lease {
            let expected = list.iter().any(|claim| claim.is_going && claim.lease == Some(lease));
            assert_eq!(claims.is_lease_going(lease), expected);
        }
        for stream in STREAMS {
            let of_stream = list.iter().filter(|claim| claim.stream == stream);
            let mut others = of_stream.filter(|claim| lease.is_none() || claim.lease != lease);
            let expected = others.any(|claim| breaks_leases(claim.access) || claim.lease.is_some());
            assert_eq!(claims.has_loud_others(stream, lease), expected);
        }
    }
    for stream in STREAMS {
        assert_eq!(claims.has_stream(stream), list.iter().any(|claim| claim.stream == stream));
        for access in [0, READ_DATA, 2, DELETE, READ_DATA | DELETE] {
            for share in 0..=ALL {
                let (wanted, held) = (Modes::of(access, share), |claim: &Claim| Modes::of(claim.access, claim.share));
                let within = list.iter().any(|claim| claim.stream == stream && wanted.conflict_with(held(claim)));
                assert_eq!(claims.conflict_within(stream, wanted), within);
                let deletion = list.iter().filter(|claim| claim.stream != stream).any(|claim| match stream {
                    "" => wanted.delete_under(held(claim)),
                    _ => claim.stream.is_empty() && held(claim).delete_under(wanted),
                });
                assert_eq!(claims.conflict_with(stream, wanted), within || deletion);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn counted_opens_answer_as_a_list_does(steps in prop::collection::vec(step(), 1..120)) {
        let store: Arc<dyn Store> = Arc::new(RamStore::new(0));
        let names = OpenPath::new(SharePath::root());
        let mut claims = Claims::default();
        for step in steps {
            match step {
                Step::Enter { open, stream, access, share, lease, link } if claims.get(OpenId(open)).is_none() => {
                    claims.insert(Claim {
                        open: OpenId(open),
                        stream: STREAMS[stream].to_owned(),
                        access,
                        share,
                        names: Arc::clone(&names),
                        store: Arc::clone(&store),
                        lease: leases()[lease],
                        link: links()[link].clone(),
                        recorded: Weak::new(),
                        is_restored: false,
                        is_going: false,
                    });
                }
                Step::Enter { .. } => {}
                Step::Leave(open) => {
                    let is_there = claims.get(OpenId(open)).is_some();
                    prop_assert_eq!(claims.remove(OpenId(open)).is_some(), is_there);
                }
                Step::Go(open) => claims.change(OpenId(open), |claim| claim.is_going = true),
                Step::Learn(open, link) => claims.change(OpenId(open), |claim| claim.link = links()[link].clone()),
                Step::RenameLink(from, to) => {
                    if let (Some(from), Some(to)) = (&links()[from], &links()[to]) {
                        claims.link_renamed(from, to);
                    }
                }
                Step::RenameStream(from, to) => claims.stream_renamed(STREAMS[from], STREAMS[to]),
            }
            assert_alike(&claims);
        }
    }
}
