//! The model's cases, played against the server.

use tokio::task::LocalSet;
use wire::command::create::OplockLevel;
use wire::command::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest};
use wire::command::set_info::SetInfoRequest;
use wire::fscc::rename::Rename;

use super::model::{ALL, ALLOW, ANYBODY, AUDIT, Case, Descriptor, Entry, Outcome, Stored, WAYS, Way, bytes_of};
use super::*;

/// Cases of one run.
const CASES: u64 = 10_000;
/// Of these, the ones whose seed is another one every time. It is printed.
const FRESH: u64 = 2_000;

/// The server with the users' connections, and its files from behind.
struct Bench {
    server: Arc<Shared>,
    store: Arc<dyn Store>,
    peers: Vec<(Peer, [TreeId; 3])>,
}

impl Bench {
    async fn new() -> Bench {
        let (server, store) = realm();
        let mut peers = Vec::new();
        for user in [USER, crate::tests::testing::OTHER_USER, KEEPER] {
            let mut peer = sign_in(&server, user).await;
            let usual = peer.tree_id;
            let trees = [usual, connect(&mut peer, READ_ONLY).await, connect(&mut peer, BY_ACCESS).await];
            peers.push((peer, trees));
        }
        Bench { server, store, peers }
    }

    fn make(&self, path: &str, kind: Kind, stored: &Stored) {
        let bytes = match stored {
            Stored::Nothing => None,
            Stored::Damaged(bytes) => Some(bytes.clone()),
            Stored::Whole(descriptor) => Some(bytes_of(descriptor)),
        };
        let new = NewNode { kind, attributes: 0, security: bytes.as_deref(), owner: None };
        self.store.create(&SharePath::parse(path).unwrap(), new).unwrap();
    }

    /// Everything that may change, told as one text.
    fn look(&self) -> String {
        let mut seen = String::new();
        for path in ["d\\f", "d\\new", "t\\n"] {
            if exists(&*self.store, path) {
                let node = node(&*self.store, path);
                let streams: Vec<String> =
                    node.extras().streams().unwrap().into_iter().map(|stream| stream.name).collect();
                let known = node.metadata().unwrap();
                let (file, length, security) = (known.identity.file, known.length, node.extras().security().unwrap());
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
        // The directories are others than in the case before.
        self.server.descriptors.inheritance.directory_changed();
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
                file.extras().create_stream("s").unwrap();
            }
        }
        let before = self.look();
        let (peer, trees) = &mut self.peers[case.asks as usize];
        peer.tree_id = match case.way {
            Way::List => trees[2],
            _ => trees[usize::from(case.read_only)],
        };
        let (status, opened) = if case.way == Way::List { list(peer).await } else { go(peer, case).await };
        let changed = match case.way {
            Way::List => status == Status::SUCCESS,
            // Who is made the owner again leaves everything as it is.
            Way::SetOwner if case.old_owner() == Some(case.new_owner) => status == Status::SUCCESS,
            _ => self.look() != before,
        };
        self.clear();
        let status = if case.way == Way::List { Status::SUCCESS } else { status };
        let (granted, caches) = opened.map_or((None, false), |(granted, caches)| (Some(granted), caches));
        Outcome { status, granted, caches, changed }
    }
}

/// Makes the requests of a case. Gives the first status that is no success, what was granted, and whether the open may cache.
async fn go(peer: &mut Peer, case: &Case) -> (Status, Option<(u32, bool)>) {
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
        request.oplock_level = OplockLevel::BATCH;
    };
    let answer = peer.create_edited(path, contexts.contexts().as_bytes(), edit).await;
    let file = match answer.opened() {
        Ok(file) => file,
        Err(status) => return (status, None),
    };
    let caches = CreateResponse::decode(&answer.message).unwrap().oplock_level == OplockLevel::BATCH;
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
    (status, Some((granted, caches)))
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
async fn list(peer: &mut Peer) -> (Status, Option<(u32, bool)>) {
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
            let by_way = if expected.status == Status::SUCCESS { &mut granted } else { &mut refused };
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
