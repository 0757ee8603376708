//! What MS-DTYP 2.5.3.2 and MS-FSA 2.1.5.1 say of random descriptors, users, requests and ways in, written a second time in the plainest
//! form there is, and held against the server. It uses nothing of what it judges: it has its own entries, its own bytes, its own check.
//!
//! Where the documents leave room, the model says what the server does, and why, with the words "We:".

use tokio::task::LocalSet;
use wire::command::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest};
use wire::command::set_info::SetInfoRequest;
use wire::fscc::rename::Rename;

use super::*;

/// Cases of one run.
const CASES: u64 = 10_000;
/// Of these, the ones whose seed is another one every time. It is printed.
const FRESH: u64 = 2_000;

const WRITE: u32 = 0x2;
const APPEND: u32 = 0x4;
const DELETE_CHILD_RIGHT: u32 = 0x40;
const READ_ATTRIBUTES_RIGHT: u32 = 0x80;
const DELETE_RIGHT: u32 = 0x1_0000;
const WRITE_DAC_RIGHT: u32 = 0x4_0000;
const WRITE_OWNER_RIGHT: u32 = 0x8_0000;
const SYNCHRONIZE_RIGHT: u32 = 0x10_0000;
const SYSTEM_SECURITY: u32 = 0x100_0000;
const MAXIMUM: u32 = 0x200_0000;
const ALL: u32 = 0x1F_01FF;
/// What a share that may only be read allows: GENERIC_READ and GENERIC_EXECUTE.
const OF_READ_ONLY: u32 = 0x12_00A9;
/// WRITE_EA and WRITE_ATTRIBUTES.
const WRITE_OF_FILE: u32 = 0x110;

/// Chance from a seed (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// A principal, by the numbers of its SID.
type Who = (u8, &'static [u32]);

const TESTER: Who = (5, &[21, 1, 2, 3, 1001]);
const OTHER: Who = (5, &[21, 1, 2, 3, 1002]);
const DOMAIN_USERS: Who = (5, &[21, 1, 2, 3, 513]);
const ANYBODY: Who = (1, &[0]);
const SIGNED_IN: Who = (5, &[11]);
const OVER_NETWORK: Who = (5, &[2]);
const USERS: Who = (5, &[32, 545]);
const ADMINISTRATORS: Who = (5, &[32, 544]);
const LOCAL_SYSTEM: Who = (5, &[18]);
const OWNER_CREATOR: Who = (3, &[0]);
const RIGHTS_OF_OWNER: Who = (3, &[4]);
const SELF: Who = (5, &[10]);
const EVERY: [Who; 12] = [
    TESTER,
    OTHER,
    DOMAIN_USERS,
    ANYBODY,
    SIGNED_IN,
    OVER_NETWORK,
    USERS,
    ADMINISTRATORS,
    LOCAL_SYSTEM,
    OWNER_CREATOR,
    RIGHTS_OF_OWNER,
    SELF,
];

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Asks {
    Tester,
    Other,
    Keeper,
}

impl Asks {
    fn is(self, who: Who) -> bool {
        let groups = [DOMAIN_USERS, ANYBODY, SIGNED_IN, OVER_NETWORK, USERS];
        groups.contains(&who)
            || match self {
                Asks::Tester => who == TESTER,
                Asks::Other => who == OTHER,
                Asks::Keeper => who == ADMINISTRATORS,
            }
    }
}

/// ACE types (MS-DTYP 2.4.4.1) that may stand in a list, the last one of none that there is.
const ALLOW: u8 = 0;
const DENY: u8 = 1;
const ALLOW_IF: u8 = 9;
const DENY_IF: u8 = 10;
const ALLOW_OBJECT: u8 = 5;
const DENY_OBJECT: u8 = 6;
const AUDIT: u8 = 2;
const LABEL: u8 = 0x11;
const UNKNOWN: u8 = 0x40;

#[derive(Clone, Debug)]
struct Entry {
    kind: u8,
    /// 8 is INHERIT_ONLY_ACE.
    flags: u8,
    mask: u32,
    who: Who,
}

#[derive(Clone, Debug)]
struct Descriptor {
    owner: Option<Who>,
    /// `None`: there is no list, or it is null.
    list: Option<Vec<Entry>>,
    says_there_is_a_list: bool,
}

/// What is stored with a file.
#[derive(Clone, Debug)]
enum Stored {
    Nothing,
    Damaged(Vec<u8>),
    Whole(Descriptor),
}

fn sid_bytes((authority, numbers): Who) -> Vec<u8> {
    let mut bytes = vec![1, numbers.len() as u8, 0, 0, 0, 0, 0, authority];
    numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
    bytes
}

fn bytes_of(descriptor: &Descriptor) -> Vec<u8> {
    let mut list = Vec::new();
    for entry in descriptor.list.iter().flatten() {
        let mut body = entry.mask.to_le_bytes().to_vec();
        if matches!(entry.kind, ALLOW_OBJECT | DENY_OBJECT) {
            body.extend([0; 4]); // Neither object type is there.
        }
        body.extend(sid_bytes(entry.who));
        if matches!(entry.kind, ALLOW_IF | DENY_IF) {
            body.extend(*b"artx"); // A condition, not whole.
        }
        list.extend([entry.kind, entry.flags]);
        list.extend((body.len() as u16 + 4).to_le_bytes());
        list.extend(body);
    }
    let mut control = 0x8000_u16;
    let (mut owner_at, mut list_at, mut rest) = (0_u32, 0_u32, Vec::new());
    if descriptor.list.is_some() || descriptor.says_there_is_a_list {
        control |= 4;
    }
    if let Some(entries) = &descriptor.list {
        list_at = 20;
        rest.extend([4, 0]);
        rest.extend((list.len() as u16 + 8).to_le_bytes());
        rest.extend((entries.len() as u16).to_le_bytes());
        rest.extend([0; 2]);
        rest.extend(list);
    }
    if let Some(owner) = descriptor.owner {
        owner_at = 20 + rest.len() as u32;
        rest.extend(sid_bytes(owner));
    }
    let mut bytes = vec![1, 0];
    bytes.extend(control.to_le_bytes());
    [owner_at, 0, 0, list_at].iter().for_each(|offset| bytes.extend(offset.to_le_bytes()));
    bytes.extend(rest);
    bytes
}

/// The generic bits as files have them (MS-SMB2 2.2.13.1.1).
fn mapped(mask: u32) -> u32 {
    let meanings = [(1 << 31, 0x12_0089), (1 << 30, 0x12_0116), (1 << 29, 0x12_00A0), (1 << 28, ALL)];
    let plain = mask & 0x0FFF_FFFF;
    meanings.iter().filter(|(bit, _)| mask & bit != 0).fold(plain, |all, (_, meaning)| all | meaning)
}

/// EvaluateTokenAgainstDescriptor for one right (MS-DTYP 2.5.3.2): MS-FSA 2.1.5.1.2.1 asks for each right by itself.
fn check_one(asks: Asks, descriptor: &Descriptor, right: u32) -> bool {
    let Some(list) = &descriptor.list else { return true };
    let is_owner = descriptor.owner.is_some_and(|owner| asks.is(owner));
    // "IF DACL does not contain ACEs from object owner": those for OWNER RIGHTS (MS-DTYP 2.4.2.4).
    let says_of_owner = list.iter().any(|entry| {
        entry.flags & 8 == 0 && entry.who == RIGHTS_OF_OWNER && matches!(entry.kind, ALLOW | DENY | ALLOW_IF | DENY_IF)
    });
    if is_owner && !says_of_owner && matches!(right, 0x2_0000 | WRITE_DAC_RIGHT) {
        return true;
    }
    for entry in list.iter().filter(|entry| entry.flags & 8 == 0) {
        let meant = asks.is(entry.who) || entry.who == RIGHTS_OF_OWNER && is_owner;
        // We: generic bits that somebody left in an entry mean what they mean for files.
        if !meant || mapped(entry.mask) & right == 0 {
            continue;
        }
        match entry.kind {
            ALLOW => return true,
            // We evaluate no condition: the result is UNKNOWN, which grants nothing and denies.
            DENY | DENY_IF => return false,
            // Object entries are for object types, which are not asked for; the others say nothing of access.
            _ => {}
        }
    }
    false
}

/// Those of `rights` that a file grants.
fn grants(asks: Asks, stored: &Stored, rights: u32) -> u32 {
    let one = |right: u32| match stored {
        _ if asks == Asks::Keeper => true,
        Stored::Damaged(_) => false,
        // The default lets everybody who signed in do everything.
        Stored::Nothing => right & ALL != 0,
        Stored::Whole(descriptor) => right & ALL != 0 && check_one(asks, descriptor, right),
    };
    (0..32).map(|bit| 1 << bit).filter(|right| rights & right != 0 && one(*right)).sum()
}

/// An open of what exists (MS-SMB2 3.3.5.9, MS-FSA 2.1.5.1.2.1): what it is granted.
fn opened(case: &Case, implied: u32, deletes: bool) -> Result<u32, Status> {
    let desired = mapped(case.desired);
    let share = if case.read_only { OF_READ_ONLY } else { ALL };
    if desired & !(share | MAXIMUM | SYSTEM_SECURITY) != 0 {
        return Err(Status::ACCESS_DENIED);
    }
    if deletes && (share & DELETE_RIGHT == 0 || desired & (DELETE_RIGHT | MAXIMUM) == 0) {
        return Err(Status::ACCESS_DENIED);
    }
    if case.read_only && matches!(case.way, Way::Overwrite | Way::Supersede) {
        return Err(Status::MEDIA_WRITE_PROTECTED);
    }
    if desired & SYSTEM_SECURITY != 0 && case.asks != Asks::Keeper {
        // We say what Windows says; the documents have ACCESS_DENIED.
        return Err(Status::PRIVILEGE_NOT_HELD);
    }
    let needed = desired & !MAXIMUM | implied;
    let searched = needed | if desired & MAXIMUM != 0 { ALL } else { 0 };
    let mut granted = grants(case.asks, &case.own, searched);
    // We: nobody can wait for a file through the protocol, so that everybody may.
    granted |= needed & SYNCHRONIZE_RIGHT;
    let lends = |by| grants(case.asks, &case.folder, by) == by;
    if searched & DELETE_RIGHT != 0 && lends(DELETE_CHILD_RIGHT) {
        granted |= DELETE_RIGHT;
    }
    if searched & READ_ATTRIBUTES_RIGHT != 0 && lends(1) {
        granted |= READ_ATTRIBUTES_RIGHT;
    }
    if needed & !granted != 0 {
        return Err(Status::ACCESS_DENIED);
    }
    let given = if desired & MAXIMUM != 0 { granted } else { desired } & (share | SYSTEM_SECURITY);
    if given == 0 || deletes && given & DELETE_RIGHT == 0 { Err(Status::ACCESS_DENIED) } else { Ok(given) }
}

/// A new file or directory (MS-FSA 2.1.5.1.1).
fn made(case: &Case) -> Result<u32, Status> {
    let desired = mapped(case.desired);
    if desired & !(ALL | MAXIMUM | SYSTEM_SECURITY) != 0 {
        return Err(Status::ACCESS_DENIED);
    }
    if desired & SYSTEM_SECURITY != 0 && case.asks != Asks::Keeper {
        return Err(Status::PRIVILEGE_NOT_HELD);
    }
    let adds = if case.is_directory { APPEND } else { WRITE };
    if grants(case.asks, &case.folder, adds) == 0 {
        return Err(Status::ACCESS_DENIED);
    }
    if case.way == Way::MakeOwned && case.asks != Asks::Keeper && !case.asks.is(case.new_owner) {
        return Err(Status::INVALID_OWNER);
    }
    Ok(desired & !MAXIMUM | if desired & MAXIMUM != 0 { ALL } else { 0 })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Way {
    Open,
    OpenStream,
    MakeStream,
    Make,
    MakeOwned,
    Overwrite,
    Supersede,
    DeleteOnClose,
    Disposition,
    Rename,
    Link,
    SetList,
    SetOwner,
    SetAudit,
    List,
}

const WAYS: [Way; 15] = [
    Way::Open,
    Way::OpenStream,
    Way::MakeStream,
    Way::Make,
    Way::MakeOwned,
    Way::Overwrite,
    Way::Supersede,
    Way::DeleteOnClose,
    Way::Disposition,
    Way::Rename,
    Way::Link,
    Way::SetList,
    Way::SetOwner,
    Way::SetAudit,
    Way::List,
];

/// One case: a folder, a file or directory in it, another folder, perhaps with a file of the new name.
#[derive(Clone, Debug)]
struct Case {
    asks: Asks,
    way: Way,
    desired: u32,
    is_directory: bool,
    read_only: bool,
    folder: Stored,
    own: Stored,
    target: Stored,
    taken: Option<Stored>,
    new_owner: Who,
}

/// What comes of a case: the first status that is no success, what the open was granted, and whether anything changed.
type Outcome = (Status, Option<u32>, bool);

impl Case {
    fn from(seed: u64) -> Case {
        let random = &mut Random(seed.wrapping_mul(0x2545_F491_4F6C_DD1D));
        let way = random.of(&WAYS);
        let may_be_read_only = matches!(
            way,
            Way::Open | Way::OpenStream | Way::MakeStream | Way::Overwrite | Way::Supersede | Way::DeleteOnClose
        );
        let only_files = matches!(way, Way::OpenStream | Way::Overwrite | Way::Supersede | Way::Link);
        Case {
            asks: random.of(&[Asks::Tester, Asks::Tester, Asks::Tester, Asks::Other, Asks::Keeper]),
            way,
            desired: desired(random, way),
            is_directory: !only_files && random.percent(25),
            read_only: may_be_read_only && random.percent(15),
            folder: stored(random),
            own: stored(random),
            target: stored(random),
            taken: random.percent(40).then(|| stored(random)),
            new_owner: random.of(&EVERY),
        }
    }

    /// What the documents say.
    fn expected(&self) -> Outcome {
        match self.expected_in_full() {
            Ok((granted, changed)) => (Status::SUCCESS, granted, changed),
            Err((status, granted)) => (status, granted, false),
        }
    }

    fn expected_in_full(&self) -> Result<(Option<u32>, bool), (Status, Option<u32>)> {
        let plain = |implied, deletes| opened(self, implied, deletes).map_err(|status| (status, None));
        match self.way {
            Way::Open | Way::OpenStream => Ok((Some(plain(0, false)?), false)),
            Way::MakeStream => {
                let granted = plain(WRITE, false)?;
                if self.read_only { Err((Status::MEDIA_WRITE_PROTECTED, None)) } else { Ok((Some(granted), true)) }
            }
            Way::Make | Way::MakeOwned => Ok((Some(made(self).map_err(|status| (status, None))?), true)),
            Way::Overwrite => Ok((Some(plain(WRITE | WRITE_OF_FILE, false)?), true)),
            // We empty the file for all its names, which takes WRITE_DATA besides.
            Way::Supersede => Ok((Some(plain(DELETE_RIGHT | WRITE | WRITE_OF_FILE, false)?), true)),
            Way::DeleteOnClose => Ok((Some(plain(0, true)?), true)),
            Way::Disposition => self.then(plain(0, false)?, DELETE_RIGHT, Ok(())),
            Way::Rename => self.then(plain(0, false)?, DELETE_RIGHT, self.new_name()),
            Way::Link => self.then(plain(0, false)?, 0, self.new_name()),
            // "If Open.File.SecurityDescriptor.Owner is NULL" (MS-FSA 2.1.5.17).
            Way::SetList => {
                let ownerless = matches!(&self.own, Stored::Whole(descriptor) if descriptor.owner.is_none());
                self.then(
                    plain(0, false)?,
                    WRITE_DAC_RIGHT,
                    if ownerless { Err(Status::INVALID_OWNER) } else { Ok(()) },
                )
            }
            Way::SetOwner => {
                let stays = self.old_owner() == Some(self.new_owner);
                let may = self.asks == Asks::Keeper || self.asks.is(self.new_owner) || stays;
                self.then(plain(0, false)?, WRITE_OWNER_RIGHT, if may { Ok(()) } else { Err(Status::INVALID_OWNER) })
            }
            Way::SetAudit => {
                let ownerless = matches!(&self.own, Stored::Whole(descriptor) if descriptor.owner.is_none());
                self.then(
                    plain(0, false)?,
                    SYSTEM_SECURITY,
                    if ownerless { Err(Status::INVALID_OWNER) } else { Ok(()) },
                )
            }
            // GENERIC_READ, by the file's own descriptor (MS-SMB2 3.3.5.18 with TreeConnect's access-based enumeration).
            Way::List => Ok((None, grants(self.asks, &self.own, 0x12_0089) == 0x12_0089)),
        }
    }

    fn old_owner(&self) -> Option<Who> {
        match &self.own {
            Stored::Whole(descriptor) => descriptor.owner,
            Stored::Nothing | Stored::Damaged(_) => Some(ADMINISTRATORS),
        }
    }

    /// Something is done through an open that was granted `granted`.
    fn then(
        &self,
        granted: u32,
        needed: u32,
        does: Result<(), Status>,
    ) -> Result<(Option<u32>, bool), (Status, Option<u32>)> {
        let done = if granted & needed == needed { does } else { Err(Status::ACCESS_DENIED) };
        done.map(|()| (Some(granted), true)).map_err(|status| (status, Some(granted)))
    }

    /// A name in the other folder (MS-FSA 2.1.5.15.12): the folder lets one be added; what has it may be deleted, or lies in a folder
    /// that lets it be.
    fn new_name(&self) -> Result<(), Status> {
        let adds = if self.is_directory { APPEND } else { WRITE };
        if grants(self.asks, &self.target, adds) == 0 {
            return Err(Status::ACCESS_DENIED);
        }
        let may_go = |taken| {
            grants(self.asks, taken, DELETE_RIGHT) != 0 || grants(self.asks, &self.target, DELETE_CHILD_RIGHT) != 0
        };
        if self.taken.as_ref().is_none_or(may_go) { Ok(()) } else { Err(Status::ACCESS_DENIED) }
    }
}

fn desired(random: &mut Random, way: Way) -> u32 {
    let needed = match way {
        Way::Disposition | Way::DeleteOnClose | Way::Rename => DELETE_RIGHT,
        Way::SetList => WRITE_DAC_RIGHT,
        Way::SetOwner => WRITE_OWNER_RIGHT,
        Way::SetAudit => SYSTEM_SECURITY,
        _ => 0x80,
    };
    let mut desired = match random.below(10) {
        0..=2 => MAXIMUM,
        3 => random.of(&[1 << 31, 1 << 30, 1 << 29, 1 << 28]),
        _ => mask(random),
    };
    if random.percent(60) {
        desired |= needed;
    }
    if random.percent(10) {
        desired |= MAXIMUM;
    }
    if random.percent(4) {
        desired |= SYSTEM_SECURITY;
    }
    if desired == 0 { 0x80 } else { desired }
}

/// A few rights.
fn mask(random: &mut Random) -> u32 {
    let bits: Vec<u32> = (0..21).map(|bit| 1 << bit).filter(|bit| ALL & bit != 0).collect();
    (0..=random.below(4)).fold(0, |all, _| all | random.of(&bits))
}

fn stored(random: &mut Random) -> Stored {
    let chance = random.below(100);
    if chance < 8 {
        return Stored::Nothing;
    }
    let owners = [Some(TESTER), Some(OTHER), Some(ADMINISTRATORS), Some(LOCAL_SYSTEM), Some(DOMAIN_USERS), None];
    let list = match random.below(20) {
        0 => None,
        1 => Some(Vec::new()),
        _ => Some((0..=random.below(6)).map(|_| entry(random)).collect()),
    };
    let descriptor = Descriptor { owner: random.of(&owners), list, says_there_is_a_list: random.percent(50) };
    if chance < 92 {
        return Stored::Whole(descriptor);
    }
    let mut bytes = bytes_of(&descriptor);
    match random.below(5) {
        0 => bytes.truncate(bytes.len() - 1 - random.below(bytes.len() as u64 - 1) as usize),
        1 => bytes.fill(0),
        2 => bytes.clear(),
        3 => bytes[0] = 2 + random.below(250) as u8,
        _ => bytes[3] &= 0x7F, // Not self-relative.
    }
    Stored::Damaged(bytes)
}

fn entry(random: &mut Random) -> Entry {
    let kind = match random.below(100) {
        0..60 => ALLOW,
        60..80 => DENY,
        80..84 => ALLOW_IF,
        84..88 => DENY_IF,
        _ => random.of(&[ALLOW_OBJECT, DENY_OBJECT, AUDIT, LABEL, UNKNOWN]),
    };
    let mask = match random.below(10) {
        0..=3 if kind == ALLOW => ALL,
        0 => ALL,
        1 => random.of(&[1 << 31, 1 << 30, 1 << 29, 1 << 28]),
        _ => mask(random) | mask(random),
    };
    let flags = random.of(&[0, 0, 0, 0, 3, 8, 11, 0x13]);
    Entry { kind, flags, mask, who: random.of(&EVERY) }
}

/// The server with the users' connections, and its files from behind.
struct Bench {
    store: Arc<dyn Store>,
    peers: Vec<(Peer, [TreeId; 3])>,
}

impl Bench {
    async fn new() -> Bench {
        let (server, store) = realm();
        let mut peers = Vec::new();
        for user in [USER, crate::testing::OTHER_USER, KEEPER] {
            let mut peer = sign_in(&server, user).await;
            let usual = peer.tree_id;
            let trees = [usual, connect(&mut peer, READ_ONLY).await, connect(&mut peer, BY_ACCESS).await];
            peers.push((peer, trees));
        }
        Bench { store, peers }
    }

    fn make(&self, path: &str, kind: Kind, stored: &Stored) {
        let bytes = match stored {
            Stored::Nothing => None,
            Stored::Damaged(bytes) => Some(bytes.clone()),
            Stored::Whole(descriptor) => Some(bytes_of(descriptor)),
        };
        let new = NewNode { kind, attributes: 0, security: bytes.as_deref() };
        self.store.create(&SharePath::parse(path).unwrap(), new).unwrap();
    }

    /// Everything that may change, told as one text.
    fn look(&self) -> String {
        let mut seen = String::new();
        for path in ["d\\f", "d\\new", "t\\n"] {
            if exists(&*self.store, path) {
                let node = node(&*self.store, path);
                let streams: Vec<String> = node.streams().unwrap().into_iter().map(|stream| stream.name).collect();
                let known = node.metadata().unwrap();
                let (file, length, security) = (known.identity.file, known.length, node.security().unwrap());
                seen += &format!("{path} {file} {length} {security:?} {streams:?}\n");
            }
        }
        seen
    }

    fn clear(&self) {
        for path in ["d\\f", "d\\new", "t\\n", "d", "t"] {
            if exists(&*self.store, path) {
                let identity = node(&*self.store, path).identity();
                self.store.remove(&SharePath::parse(path).unwrap(), identity).unwrap();
            }
        }
    }

    async fn outcome(&mut self, case: &Case) -> Outcome {
        let kind = if case.is_directory { Kind::Directory } else { Kind::File };
        self.make("d", Kind::Directory, &case.folder);
        self.make("t", Kind::Directory, if case.way == Way::List { &Stored::Nothing } else { &case.target });
        if case.way == Way::List {
            self.make("t\\n", kind, &case.own);
        } else {
            self.make("d\\f", kind, &case.own);
        }
        if matches!(case.way, Way::Rename | Way::Link)
            && let Some(taken) = &case.taken
        {
            self.make("t\\n", Kind::File, taken);
        }
        if kind == Kind::File && case.way != Way::List {
            let file = node(&*self.store, "d\\f");
            file.write_at(b"data", 0).unwrap();
            if case.way == Way::OpenStream {
                file.create_stream("s").unwrap();
            }
        }
        let before = self.look();
        let (peer, trees) = &mut self.peers[case.asks as usize];
        peer.tree_id = match case.way {
            Way::List => trees[2],
            _ => trees[usize::from(case.read_only)],
        };
        let (status, granted) = if case.way == Way::List { list(peer).await } else { go(peer, case).await };
        let changed = match case.way {
            Way::List => status == Status::SUCCESS,
            // Who is made the owner again leaves everything as it is.
            Way::SetOwner if case.old_owner() == Some(case.new_owner) => status == Status::SUCCESS,
            _ => self.look() != before,
        };
        self.clear();
        let status = if case.way == Way::List { Status::SUCCESS } else { status };
        (status, granted, changed)
    }
}

/// Makes the requests of a case.
async fn go(peer: &mut Peer, case: &Case) -> (Status, Option<u32>) {
    let (open, none) = (CreateDisposition::OPEN, CreateOptions::NONE);
    let directory = if case.is_directory { CreateOptions::DIRECTORY_FILE } else { none };
    let (path, disposition, options) = match case.way {
        Way::OpenStream => ("d\\f:s", open, none),
        Way::MakeStream => ("d\\f:s", CreateDisposition::OPEN_IF, none),
        Way::Make | Way::MakeOwned => ("d\\new", CreateDisposition::CREATE, directory),
        Way::Overwrite => ("d\\f", CreateDisposition::OVERWRITE, none),
        Way::Supersede => ("d\\f", CreateDisposition::SUPERSEDE, none),
        Way::DeleteOnClose => ("d\\f", open, CreateOptions::DELETE_ON_CLOSE),
        _ => ("d\\f", open, none),
    };
    let mut contexts = CreateContextsBuilder::new();
    if case.way == Way::MakeOwned {
        let owned = Descriptor { owner: Some(case.new_owner), list: None, says_there_is_a_list: false };
        contexts.add(name::SD_BUFFER, &bytes_of(&owned));
    }
    let edit = |request: &mut CreateRequest<'_>| {
        request.desired_access = case.desired.into();
        request.disposition = disposition;
        request.options = options;
    };
    let file = match file_id(&peer.create_edited(path, contexts.contexts().as_bytes(), edit).await) {
        Ok(file) => file,
        Err(status) => return (status, None),
    };
    let granted = granted(peer, file).await;
    let mut name = Vec::new();
    Rename::encode("t\\n", true, &mut name);
    let status = match case.way {
        Way::Disposition => peer.set(file, FileClass::DISPOSITION, &[1]).await,
        Way::Rename => peer.set(file, FileClass::RENAME, &name).await,
        Way::Link => peer.set(file, FileClass::LINK, &name).await,
        Way::SetList => set_bytes(peer, file, 4, &changed_list()).await,
        Way::SetOwner => {
            let owned = Descriptor { owner: Some(case.new_owner), list: None, says_there_is_a_list: false };
            set_bytes(peer, file, 1, &bytes_of(&owned)).await
        }
        Way::SetAudit => set_bytes(peer, file, 8, &audited()).await,
        _ => Status::SUCCESS,
    };
    peer.close(file).await;
    (status, Some(granted))
}

/// A list that no case has by chance.
fn changed_list() -> Vec<u8> {
    let entry = Entry { kind: ALLOW, flags: 0, mask: 0x1_2345, who: (5, &[21, 9, 9, 9, 9]) };
    bytes_of(&Descriptor { owner: None, list: Some(vec![entry]), says_there_is_a_list: true })
}

/// A descriptor with a SACL of one entry, which stands where a DACL does.
fn audited() -> Vec<u8> {
    let entry = Entry { kind: AUDIT, flags: 0x40, mask: ALL, who: ANYBODY };
    let mut bytes = bytes_of(&Descriptor { owner: None, list: Some(vec![entry]), says_there_is_a_list: true });
    bytes[2] = 0x10;
    bytes.copy_within(16..20, 12);
    bytes[16..20].fill(0);
    bytes
}

async fn set_bytes(peer: &mut Peer, file_id: FileId, which: u32, buffer: &[u8]) -> Status {
    let info_type = InfoType::SECURITY;
    let request =
        SetInfoRequest { info_type, additional_information: which, file_id, buffer, ..SetInfoRequest::default() };
    peer.ask(Command::SET_INFO, |body| request.encode(body)).await.status()
}

/// Looks for the file in a listing by access.
async fn list(peer: &mut Peer) -> (Status, Option<u32>) {
    let folder = open(peer, "t", READ_DATA).await.unwrap();
    let pattern = utf16_bytes("n");
    let request = QueryDirectoryRequest {
        class: FileClass::NAMES,
        flags: QueryDirectoryFlags::NONE,
        file_id: folder,
        pattern: Utf16::new(&pattern).unwrap(),
        output_buffer_length: 1024,
        ..QueryDirectoryRequest::default()
    };
    let answer = peer.ask(Command::QUERY_DIRECTORY, |body| request.encode(body)).await;
    assert!(matches!(answer.status(), Status::SUCCESS | Status::NO_SUCH_FILE), "{:?}", answer.status());
    peer.close(folder).await;
    (answer.status(), None)
}

/// `MULTILANE_RIGHTS_SEED=17` runs that case alone.
fn seeds() -> Vec<u64> {
    if let Some(seed) = std::env::var("MULTILANE_RIGHTS_SEED").ok().and_then(|text| text.parse().ok()) {
        return vec![seed];
    }
    let mut fresh = [0; 8];
    secure::random(&mut fresh).unwrap();
    let fresh = u64::from_le_bytes(fresh) >> 20;
    println!("seeds 0..{} and {fresh}..{}", CASES - FRESH, fresh + FRESH);
    (0..CASES - FRESH).chain(fresh..fresh + FRESH).collect()
}

#[tokio::test]
async fn ten_thousand_random_cases_end_as_the_documents_say() {
    let seeds = seeds();
    let judge = async {
        let mut bench = Bench::new().await;
        let (mut wrong, mut granted, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        for seed in &seeds {
            let case = Case::from(*seed);
            let (expected, outcome) = (case.expected(), bench.outcome(&case).await);
            let by_way = if expected.0 == Status::SUCCESS { &mut granted } else { &mut refused };
            by_way.push(case.way);
            if expected != outcome {
                wrong.push(format!("seed {seed}: expected {expected:x?}, was {outcome:x?}\n{case:x?}"));
            }
        }
        assert!(
            wrong.is_empty(),
            "{} of {} differ\n{}",
            wrong.len(),
            seeds.len(),
            wrong[..wrong.len().min(8)].join("\n")
        );
        (granted, refused)
    };
    let (granted, refused) = LocalSet::new().run_until(judge).await;
    if seeds.len() as u64 == CASES {
        for way in WAYS {
            let count = |ways: &[Way]| ways.iter().filter(|other| **other == way).count();
            assert!(count(&granted) >= 50 && (count(&refused) >= 50 || way == Way::List), "{way:?} is hardly judged");
        }
    }
}
