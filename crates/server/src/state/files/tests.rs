use store::SharePath;
use wire::command::create::OplockLevel;
use wire::context::lease::{Lease, LeaseState};
use wire::ids::Guid;

use super::*;
use crate::tests::entries::entry;

const READ: u32 = 1;
const WRITE: u32 = 2;
const ALL: u32 = 7;
const FILE: Identity = Identity { volume: 1, file: 2 };

fn enter(table: &FileTable, open: u64, stream: &str, access: u32, share: u32) -> Result<Arc<FileEntry>, Status> {
    enter_wanting(table, open, stream, (access, share), &Wanted::Nothing)
}

fn enter_wanting(
    table: &FileTable,
    open: u64,
    stream: &str,
    modes: (u32, u32),
    wanted: &Wanted,
) -> Result<Arc<FileEntry>, Status> {
    let store: Arc<dyn Store> = Arc::new(store::RamStore::new(0));
    enter_through(table, &store, open, stream, modes, wanted)
}

fn enter_through(
    table: &FileTable,
    store: &Arc<dyn Store>,
    open: u64,
    stream: &str,
    (access, share): (u32, u32),
    wanted: &Wanted,
) -> Result<Arc<FileEntry>, Status> {
    let names = OpenPath::new(SharePath::parse("a").unwrap());
    let line = SessionLink::down();
    let entry = Entry { open: OpenId(open), stream, access, share, wanted, ..entry(&names, store, &line) };
    match table.enter(FILE, &entry) {
        (file, Entering::Entered(_), _) => Ok(file),
        (_, Entering::Refused(status), _) => Err(status),
        (_, Entering::Waits(_) | Entering::Unnamed, _) => Err(Status::PENDING),
    }
}

#[test]
fn share_modes_hold_both_ways_and_per_stream() {
    let table = FileTable::new();
    enter(&table, 1, "", READ, READ).ok().unwrap();
    assert_eq!(enter(&table, 2, "", WRITE, ALL).err(), Some(Status::SHARING_VIOLATION));
    assert_eq!(enter(&table, 2, "", READ, WRITE).err(), Some(Status::SHARING_VIOLATION));
    assert!(enter(&table, 2, "", READ, READ).is_ok());
    assert!(enter(&table, 3, "stream", WRITE, 0).is_ok());
    assert!(enter(&table, 4, "", 0x80, 0).is_ok(), "attributes alone conflict with nothing");
}

#[test]
fn who_deletes_a_file_deletes_its_streams() {
    const DELETE: u32 = 0x1_0000;
    let table = FileTable::new();
    enter(&table, 1, "stream", READ, READ | WRITE).ok().unwrap();
    assert_eq!(enter(&table, 2, "", DELETE, ALL).err(), Some(Status::SHARING_VIOLATION));
    assert!(enter(&table, 3, "other", DELETE, ALL).is_ok());
    let table = FileTable::new();
    enter(&table, 1, "", DELETE, ALL).ok().unwrap();
    assert_eq!(enter(&table, 2, "stream", READ, READ | WRITE).err(), Some(Status::SHARING_VIOLATION));
    assert!(enter(&table, 3, "stream", READ, ALL).is_ok());
    assert!(enter(&table, 4, "stream", 0x80, 0).is_ok(), "attributes alone conflict with nothing");
}

#[test]
fn the_last_open_removes_what_is_pending() {
    let table = FileTable::new();
    let file = enter(&table, 1, "", READ, ALL).ok().unwrap();
    enter(&table, 2, "", READ, ALL).ok().unwrap();
    file.set_delete_pending(OpenId(1), "", true);
    assert_eq!(enter(&table, 3, "", READ, ALL).err(), Some(Status::DELETE_PENDING));
    assert_eq!(table.leave(&file, OpenId(1), false), Removal::Nothing);
    let removal = table.leave(&file, OpenId(2), false);
    assert!(matches!(removal, Removal::File(_)));
    assert_eq!(enter(&table, 3, "", READ, ALL).err(), Some(Status::PENDING), "its name goes just now");
    table.removed(&file, &removal);
    assert!(enter(&table, 3, "", READ, ALL).is_ok());
}

#[test]
fn a_name_can_go_before_the_last_open() {
    let table = FileTable::new();
    let file = enter(&table, 1, "", READ, ALL).ok().unwrap();
    enter(&table, 2, "", READ, ALL).ok().unwrap();
    file.unlink_with(OpenId(1));
    assert!(file.is_delete_pending(OpenId(2), ""));
    let removal = table.leave(&file, OpenId(1), false);
    assert!(matches!(removal, Removal::File(_)));
    table.removed(&file, &removal);
    assert!(!file.is_delete_pending(OpenId(2), ""));
    assert_eq!(table.leave(&file, OpenId(2), false), Removal::Nothing);
    assert!(table.parts.iter().all(|part| part.lock().is_empty()));
}

#[test]
fn a_stream_goes_alone() {
    let table = FileTable::new();
    let file = enter(&table, 1, "", READ, ALL).ok().unwrap();
    enter(&table, 2, "Extra", READ, ALL).ok().unwrap();
    assert_eq!(table.leave(&file, OpenId(2), true), Removal::Stream("EXTRA".into()));
    assert_eq!(table.removed(&file, &Removal::Stream("EXTRA".into())), Removal::Nothing);
    assert_eq!(table.leave(&file, OpenId(1), false), Removal::Nothing);
    assert!(table.parts.iter().all(|part| part.lock().is_empty()));
}

#[test]
fn what_is_removed_at_one_time_goes_each_for_itself() {
    let table = FileTable::new();
    let link = |name| Some(Link::new(FILE, name));
    let entered = [1, 2, 3, 4].map(|open| enter(&table, open, "", READ, ALL).ok().unwrap());
    let file = &entered[0];
    for (open, name) in [(1, "a"), (2, "b"), (3, "b"), (4, "c")] {
        file.state.lock().claims.change(OpenId(open), |claim| claim.link = link(name));
    }
    let [a, b] = [1, 2].map(|open| table.leave(file, OpenId(open), true));
    assert_eq!((&a, &b), (&Removal::File(link("a")), &Removal::Nothing));
    let c = table.leave(file, OpenId(4), true);
    assert_eq!(c, Removal::File(link("c")));
    table.removed(file, &a);
    let is_pending = |name| file.state.lock().is_delete_pending(link(name).as_ref(), "");
    assert_eq!(["a", "b", "c"].map(is_pending), [false, true, true], "the others are not gone yet");
    table.removed(file, &c);
    let b = table.leave(file, OpenId(3), false);
    assert_eq!(b, Removal::File(link("b")));
    assert_eq!(table.removed(file, &b), Removal::Nothing);
    assert!(table.is_empty());
}

#[test]
fn streams_that_are_closed_at_one_time_all_go() {
    let table = FileTable::new();
    let file = enter(&table, 1, "", READ, ALL).ok().unwrap();
    for (open, stream) in [(2, "a"), (3, "b"), (4, "c"), (5, "d")] {
        enter(&table, open, stream, READ, ALL).ok().unwrap();
    }
    let [a, b] = [2, 3].map(|open| table.leave(&file, OpenId(open), true));
    assert_eq!((&a, &b), (&Removal::Stream("A".into()), &Removal::Stream("B".into())));
    assert_eq!((table.removed(&file, &a), table.removed(&file, &b)), (Removal::Nothing, Removal::Nothing));
    // It goes with its own last open, whether the file's name is to go or not.
    file.set_delete_pending(OpenId(1), "", true);
    let c = table.leave(&file, OpenId(4), true);
    assert_eq!(c, Removal::Stream("C".into()));
    assert_eq!(table.removed(&file, &c), Removal::Nothing);
    file.state.lock().claims.change(OpenId(5), |claim| claim.link = Some(Link::new(FILE, "a")));
    file.state.lock().claims.change(OpenId(1), |claim| claim.link = Some(Link::new(FILE, "a")));
    file.set_delete_pending(OpenId(1), "", true);
    assert_eq!(table.leave(&file, OpenId(1), false), Removal::Nothing);
    let name = table.leave(&file, OpenId(5), true);
    assert!(matches!(name, Removal::File(_)));
    let d = table.removed(&file, &name);
    assert_eq!(d, Removal::Stream("D".into()), "the file may have another name");
    assert_eq!(table.removed(&file, &d), Removal::Nothing);
    assert!(table.is_empty());
}

#[test]
fn a_file_that_went_leaves_nothing_to_the_next_of_its_number() {
    let table = FileTable::new();
    let file = enter(&table, 1, "", READ, ALL).ok().unwrap();
    enter(&table, 2, "extra", READ, ALL).ok().unwrap();
    file.set_delete_pending(OpenId(2), "extra", true);
    file.set_delete_pending(OpenId(1), "", true);
    let stream = table.leave(&file, OpenId(2), false);
    assert_eq!(stream, Removal::Stream("EXTRA".into()));
    let removal = table.leave(&file, OpenId(1), false);
    assert!(matches!(removal, Removal::File(_)));
    table.removed(&file, &removal);
    table.removed(&file, &stream);
    assert!(enter(&table, 3, "extra", READ, ALL).is_ok());
}

#[test]
fn opens_below_a_directory_are_seen() {
    let table = FileTable::new();
    let stores: [Arc<dyn Store>; 2] = [0, 0].map(|bytes| Arc::new(store::RamStore::new(bytes)) as Arc<dyn Store>);
    enter_through(&table, &stores[0], 1, "", (READ, ALL), &Wanted::Nothing).ok().unwrap();
    let root = |store: &Arc<dyn Store>| store.lineage(&SharePath::root())[0];
    assert!(table.has_opens_below(&stores[0], &SharePath::root(), root(&stores[0])));
    assert!(!table.has_opens_below(&stores[0], &SharePath::parse("a").unwrap(), FILE));
    assert!(!table.has_opens_below(&stores[1], &SharePath::root(), root(&stores[1])));
}

#[test]
fn who_looks_at_attributes_is_in_the_way_of_caching_writes_where_it_caches_something_itself() {
    const ATTRIBUTES: u32 = 0x80;
    let leased = |key: u8| {
        let lease_state = LeaseState::READ_CACHING | LeaseState::WRITE_CACHING;
        let id = LeaseId { client: Guid([1; 16]), user: crate::state::user::UserId(1), key: Guid([key; 16]) };
        Wanted::Lease(id, Lease { lease_key: id.key, lease_state, ..Lease::default() })
    };
    let writes_beside = |first: &Wanted| {
        let table = FileTable::new();
        enter_wanting(&table, 1, "", (ATTRIBUTES, ALL), first).ok().unwrap();
        let file = enter_wanting(&table, 2, "", (ATTRIBUTES, ALL), &leased(1)).ok().unwrap();
        file.caching_of(OpenId(2)).state.contains(LeaseState::WRITE_CACHING)
    };
    assert!(writes_beside(&Wanted::Nothing));
    assert!(writes_beside(&leased(1)), "of its own lease");
    assert!(!writes_beside(&leased(2)));
    assert!(!writes_beside(&Wanted::Oplock(OplockLevel::II)));
}
