use wire::context::lease::{Lease, LeaseState};
use wire::ids::Guid;

use super::*;

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
    (access, share): (u32, u32),
    wanted: &Wanted,
) -> Result<Arc<FileEntry>, Status> {
    let names = Arc::new(Mutex::new(SharePath::parse("a").unwrap()));
    let share_name = "s".into();
    let entry = Entry {
        open: OpenId(open),
        stream,
        access,
        share,
        names: &names,
        share_name: &share_name,
        line: &Line::down(),
        is_directory: false,
        overwrites: false,
        deletes: false,
        wanted,
    };
    match table.enter(FILE, &entry) {
        (file, Entering::Entered(_), _) => Ok(file),
        (_, Entering::Refused(status), _) => Err(status),
        (_, Entering::Waits(_), _) => Err(Status::PENDING),
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
    file.set_delete_pending("", true);
    assert_eq!(enter(&table, 3, "", READ, ALL).err(), Some(Status::DELETE_PENDING));
    assert_eq!(table.leave(&file, OpenId(1), false), Removal::Nothing);
    let removal = table.leave(&file, OpenId(2), false);
    assert_eq!(removal, Removal::File);
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
    assert!(file.is_delete_pending(""));
    let removal = table.leave(&file, OpenId(1), false);
    assert_eq!(removal, Removal::File);
    table.removed(&file, &removal);
    assert!(!file.is_delete_pending(""));
    assert_eq!(table.leave(&file, OpenId(2), false), Removal::Nothing);
    assert!(table.parts.iter().all(|part| part.lock().is_empty()));
}

#[test]
fn a_stream_goes_alone() {
    let table = FileTable::new();
    let file = enter(&table, 1, "", READ, ALL).ok().unwrap();
    enter(&table, 2, "Extra", READ, ALL).ok().unwrap();
    assert_eq!(table.leave(&file, OpenId(2), true), Removal::Stream("EXTRA".into()));
    table.removed(&file, &Removal::Stream("EXTRA".into()));
    assert_eq!(table.leave(&file, OpenId(1), false), Removal::Nothing);
    assert!(table.parts.iter().all(|part| part.lock().is_empty()));
}

#[test]
fn a_file_that_went_leaves_nothing_to_the_next_of_its_number() {
    let table = FileTable::new();
    let file = enter(&table, 1, "", READ, ALL).ok().unwrap();
    enter(&table, 2, "extra", READ, ALL).ok().unwrap();
    file.set_delete_pending("extra", true);
    file.set_delete_pending("", true);
    assert_eq!(table.leave(&file, OpenId(2), false), Removal::Nothing);
    let removal = table.leave(&file, OpenId(1), false);
    assert_eq!(removal, Removal::File);
    table.removed(&file, &removal);
    assert!(enter(&table, 3, "extra", READ, ALL).is_ok());
}

#[test]
fn opens_below_a_directory_are_seen() {
    let table = FileTable::new();
    enter(&table, 1, "", READ, ALL).ok().unwrap();
    assert!(table.has_opens_below("s", &SharePath::root()));
    assert!(!table.has_opens_below("s", &SharePath::parse("a").unwrap()));
    assert!(!table.has_opens_below("t", &SharePath::root()));
}

#[test]
fn many_opens_of_a_file_are_in_nobodys_way_for_long() {
    const EACH: u64 = 3_000;
    const ATTRIBUTES: u32 = 0x80;
    let table = FileTable::new();
    let lease = Lease { lease_state: LeaseState::READ_CACHING, ..Lease::default() };
    let leased = Wanted::Lease(LeaseId { client: Guid([1; 16]), key: Guid([2; 16]) }, lease);
    let began = Instant::now();
    for open in 0..EACH {
        assert!(enter(&table, 2 * open, "", ATTRIBUTES, ALL).is_ok());
        assert!(enter_wanting(&table, 2 * open + 1, "", (ATTRIBUTES, ALL), &leased).is_ok());
    }
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
}
