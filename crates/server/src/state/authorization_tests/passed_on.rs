//! What was never given a descriptor, as what programs on the machine make: it has what the directory passes on that it lies in.

use std::sync::atomic::{AtomicUsize, Ordering};

use store::{DirectoryOptions, DirectoryStore};
use tokio::task::LocalSet;
use wire::command::ioctl::CtlCode;
use wire::command::query_directory::QueryDirectoryRequest;
use wire::command::query_info::QueryInfoRequest;
use wire::fscc::ioctl::encode_symlink;
use wire::security::access::{FILE_GENERIC_EXECUTE, FILE_GENERIC_WRITE, GENERIC_ALL};

use super::*;

const OI: AceFlags = AceFlags::OBJECT_INHERIT;
const CI: AceFlags = AceFlags::CONTAINER_INHERIT;
const NP: AceFlags = AceFlags::NO_PROPAGATE_INHERIT;
const IO: AceFlags = AceFlags::INHERIT_ONLY;

/// Does the same on a RAM disk and in a folder.
async fn on_each(does: impl AsyncFn(Arc<Shared>, Arc<dyn Store>)) {
    let folder = tempfile::tempdir().unwrap();
    let in_folder = DirectoryStore::open(folder.path(), DirectoryOptions::default()).unwrap();
    let stores: [Arc<dyn Store>; 2] = [Arc::new(RamStore::new(64 << 20)), Arc::new(in_folder)];
    for store in stores {
        LocalSet::new().run_until(does(realm_over(&store), store)).await;
    }
}

/// Makes a file or directory as another program does.
fn leave(store: &dyn Store, path: &str, kind: Kind) {
    let new = NewNode { kind, attributes: 0, security: None, owner: None };
    store.create(&SharePath::parse(path).unwrap(), new).unwrap();
}

/// Another program gives a file or directory another name.
fn moved(store: &dyn Store, from: &str, to: &str) {
    let path = |text: &str| SharePath::parse(text).unwrap();
    store.rename(&path(from), &path(to), node(store, from).identity(), Replace::No).unwrap();
}

/// A descriptor of a directory that lets `who` do `mask`, and passes that on.
fn passing(who: Sid, mask: u32, flags: AceFlags) -> Vec<u8> {
    let mut passing = descriptor(Sid::BUILTIN_ADMINISTRATORS, vec![Ace::allow(who, mask, flags)]);
    passing.control |= Control::DACL_PROTECTED;
    passing.encode().unwrap()
}

/// A folder that is closed to all but the other user, and so below it.
fn closed() -> Vec<u8> {
    passing(other(), FILE_ALL, OI | CI)
}

/// What an open with MAXIMUM_ALLOWED is granted: nothing where it is refused.
async fn most(peer: &mut Peer, path: &str) -> u32 {
    match open(peer, path, MAXIMUM_ALLOWED).await {
        Ok(file) => {
            let most = granted(peer, file).await;
            peer.close(file).await;
            most
        }
        Err(status) => {
            assert_eq!(status, Status::ACCESS_DENIED, "{path}");
            0
        }
    }
}

async fn rename(peer: &mut Peer, path: &str, to: &str) -> Status {
    let file = open(peer, path, DELETE | SYNCHRONIZE).await.unwrap();
    let status = peer.rename(file, to).await;
    peer.close(file).await;
    status
}

/// The owner and list that a client is told of.
async fn told(peer: &mut Peer, path: &str) -> SecurityDescriptor {
    let file = open(peer, path, READ_CONTROL).await.unwrap();
    let request = QueryInfoRequest {
        info_type: InfoType::SECURITY,
        additional_information: (SecurityInformation::OWNER | SecurityInformation::DACL).0,
        file_id: file,
        output_buffer_length: 4096,
        ..QueryInfoRequest::default()
    };
    let answer = peer.ask(Command::QUERY_INFO, |body| request.encode(body)).await;
    peer.close(file).await;
    SecurityDescriptor::decode(QueryInfoResponse::decode(&answer.message).unwrap().output).unwrap()
}

/// True where a listing shows `name`.
async fn shows(peer: &mut Peer, path: &str, name: &str) -> bool {
    let file_id = open_as(peer, path, READ_DATA, CreateDisposition::OPEN, CreateOptions::DIRECTORY_FILE).await.unwrap();
    let pattern = utf16_bytes(name);
    let request = QueryDirectoryRequest {
        class: FileClass::NAMES,
        file_id,
        pattern: Utf16::new(&pattern).unwrap(),
        output_buffer_length: 1024,
        ..QueryDirectoryRequest::default()
    };
    let status = peer.ask(Command::QUERY_DIRECTORY, |body| request.encode(body)).await.status();
    assert!(matches!(status, Status::SUCCESS | Status::NO_SUCH_FILE), "{status:?}");
    peer.close(file_id).await;
    status == Status::SUCCESS
}

#[tokio::test]
async fn what_a_program_leaves_in_a_closed_folder_is_closed() {
    on_each(async |server, store| {
        make(&*store, "closed", Kind::Directory, &closed());
        let (mut peer, mut owner) = (sign_in(&server, USER).await, sign_in(&server, OTHER_USER).await);
        let mut keeper = sign_in(&server, KEEPER).await;
        leave(&*store, "closed\\secret", Kind::File);
        leave(&*store, "closed\\sub", Kind::Directory);
        leave(&*store, "closed\\sub\\secret", Kind::File);
        node(&*store, "closed\\secret").extras().create_stream("s").unwrap();
        for path in ["closed\\secret", "closed\\sub", "closed\\sub\\secret", "closed\\secret:s"] {
            assert_eq!(most(&mut peer, path).await, 0, "{path}");
            assert_eq!(open(&mut peer, path, READ_DATA).await, Err(Status::ACCESS_DENIED), "{path}");
            assert_eq!(most(&mut owner, path).await, FILE_ALL, "{path}");
            assert_eq!(most(&mut keeper, path).await, FILE_ALL, "{path}");
        }
        let (make, none) = (CreateDisposition::CREATE, CreateOptions::NONE);
        let made = open_as(&mut peer, "closed\\sub\\new", WRITE_DATA, make, none).await;
        assert_eq!(made, Err(Status::ACCESS_DENIED));
        let over = open_as(&mut peer, "closed\\secret", WRITE_DATA, CreateDisposition::OVERWRITE, none).await;
        assert_eq!(over, Err(Status::ACCESS_DENIED));
        // What the other user makes there is closed as well, and says so itself.
        let made = open_as(&mut owner, "closed\\sub\\new", WRITE_DATA, make, none).await.unwrap();
        owner.close(made).await;
        assert!(node(&*store, "closed\\sub\\new").extras().security().unwrap().is_some());
        assert_eq!(most(&mut peer, "closed\\sub\\new").await, 0);
        let made = open_as(&mut keeper, "closed\\sub\\kept", WRITE_DATA, make, none).await.unwrap();
        keeper.close(made).await;
        assert_eq!(most(&mut peer, "closed\\sub\\kept").await, 0);
        // Outside all is as ever.
        leave(&*store, "open", Kind::Directory);
        leave(&*store, "open\\file", Kind::File);
        assert_eq!(most(&mut peer, "open\\file").await, FILE_ALL);
        assert_eq!(most(&mut peer, "open").await, FILE_ALL);
    })
    .await;
}

#[tokio::test]
async fn each_level_without_a_descriptor_has_what_the_one_above_passes_on() {
    on_each(async |server, store| {
        let aces = [
            Ace::allow(user(), READ_DATA, OI | CI | NP),
            Ace::allow(user(), EXECUTE, OI | CI | IO),
            Ace::allow(user(), READ_ATTRIBUTES, CI),
            Ace::allow(user(), READ_CONTROL, OI),
            Ace::allow(Sid::CREATOR_OWNER, GENERIC_ALL, OI | CI | IO),
        ];
        let top = descriptor(Sid::SYSTEM, aces.to_vec()).encode().unwrap();
        make(&*store, "a", Kind::Directory, &top);
        for path in ["a\\b", "a\\b\\c", "a\\b\\c\\d", "a\\b\\c\\d\\e"] {
            leave(&*store, path, Kind::Directory);
            leave(&*store, &format!("{path}\\f"), Kind::File);
        }
        leave(&*store, "a\\f", Kind::File);
        let mut peer = sign_in(&server, USER).await;
        // Who may list a directory may see the attributes of what is in it.
        assert_eq!(most(&mut peer, "a\\f").await, READ_DATA | EXECUTE | READ_CONTROL | READ_ATTRIBUTES);
        assert_eq!(most(&mut peer, "a\\b").await, READ_DATA | EXECUTE | READ_ATTRIBUTES);
        assert_eq!(most(&mut peer, "a\\b\\f").await, EXECUTE | READ_CONTROL | READ_ATTRIBUTES);
        for path in ["a\\b\\c\\d\\e", "a\\b\\c\\d", "a\\b\\c"] {
            assert_eq!(most(&mut peer, &format!("{path}\\f")).await, EXECUTE | READ_CONTROL, "{path}");
            assert_eq!(most(&mut peer, path).await, EXECUTE | READ_ATTRIBUTES, "{path}");
        }
        let told = told(&mut peer, "a\\b\\c\\f").await;
        let list = [
            Ace::allow(user(), EXECUTE, AceFlags::NONE),
            Ace::allow(user(), READ_CONTROL, AceFlags::NONE),
            Ace::allow(Sid::BUILTIN_ADMINISTRATORS, FILE_ALL, AceFlags::NONE),
        ];
        assert_eq!((told.owner, told.dacl.unwrap().aces), (Some(Sid::BUILTIN_ADMINISTRATORS), list.to_vec()));
    })
    .await;
}

#[tokio::test]
async fn where_nothing_is_passed_on_it_is_for_administrators_alone() {
    on_each(async |server, store| {
        make(&*store, "plain", Kind::Directory, &passing(user(), FILE_ALL, AceFlags::NONE));
        make(&*store, "damaged", Kind::Directory, b"no descriptor");
        for path in ["plain\\sub", "damaged\\sub"] {
            leave(&*store, path, Kind::Directory);
        }
        let files = ["plain\\file", "plain\\sub\\file", "damaged\\file", "damaged\\sub\\file"];
        let (mut peer, mut keeper) = (sign_in(&server, USER).await, sign_in(&server, KEEPER).await);
        for path in files {
            leave(&*store, path, Kind::File);
            assert_eq!(open(&mut peer, path, READ_DATA).await, Err(Status::ACCESS_DENIED), "{path}");
            assert_eq!(most(&mut keeper, path).await, FILE_ALL, "{path}");
        }
        let told = told(&mut keeper, "plain\\sub\\file").await;
        let who: Vec<_> = told.dacl.unwrap().aces.iter().filter_map(Ace::mask_and_sid).collect();
        assert_eq!(who, [(FILE_ALL, Sid::BUILTIN_ADMINISTRATORS), (FILE_ALL, Sid::SYSTEM)]);
    })
    .await;
}

#[tokio::test]
async fn what_a_program_moves_has_what_its_new_directory_passes_on() {
    on_each(async |server, store| {
        make(&*store, "closed", Kind::Directory, &closed());
        leave(&*store, "open", Kind::Directory);
        leave(&*store, "open\\file", Kind::File);
        leave(&*store, "open\\folder", Kind::Directory);
        leave(&*store, "open\\folder\\file", Kind::File);
        leave(&*store, "closed\\there", Kind::File);
        let mut peer = sign_in(&server, USER).await;
        for path in ["open\\file", "open\\folder\\file"] {
            assert_eq!(most(&mut peer, path).await, FILE_ALL);
        }
        assert_eq!(most(&mut peer, "closed\\there").await, 0);
        moved(&*store, "open\\file", "closed\\file");
        moved(&*store, "open\\folder", "closed\\folder");
        for path in ["closed\\file", "closed\\folder", "closed\\folder\\file"] {
            assert_eq!(most(&mut peer, path).await, 0, "{path}");
        }
    })
    .await;
}

#[tokio::test]
async fn what_a_client_moves_keeps_what_counted_for_it() {
    on_each(async |server, store| {
        let may_take_away = passing(user(), FILE_GENERIC_READ | WRITE_ATTRIBUTES | DELETE, OI | CI);
        make(&*store, "from", Kind::Directory, &may_take_away);
        make(&*store, "mine", Kind::Directory, &passing(user(), FILE_ALL, OI | CI));
        for path in ["from\\file", "from\\linked", "from\\dir\\file"] {
            if path.contains("dir") {
                leave(&*store, "from\\dir", Kind::Directory);
            }
            leave(&*store, path, Kind::File);
        }
        let mut peer = sign_in(&server, USER).await;
        let read = FILE_GENERIC_READ | WRITE_ATTRIBUTES | DELETE;
        assert_eq!(most(&mut peer, "from\\dir\\file").await, read);
        assert_eq!(rename(&mut peer, "from\\file", "mine\\file").await, Status::SUCCESS);
        assert_eq!(rename(&mut peer, "from\\dir", "mine\\dir").await, Status::SUCCESS);
        let linked = open(&mut peer, "from\\linked", READ_DATA).await.unwrap();
        assert_eq!(peer.set_name(linked, FileClass::LINK, "mine\\linked", false).await, Status::SUCCESS);
        peer.close(linked).await;
        // Deleting it by DELETE_CHILD is what its directory lends.
        for path in ["mine\\file", "mine\\dir", "mine\\dir\\file", "mine\\linked"] {
            assert_eq!(most(&mut peer, path).await, read, "{path}");
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_known_of_directories_goes_when_the_server_changes_one() {
    on_each(async |server, store| {
        leave(&*store, "a", Kind::Directory);
        leave(&*store, "a\\b", Kind::Directory);
        leave(&*store, "a\\b\\file", Kind::File);
        make(&*store, "closed", Kind::Directory, &closed());
        let (mut peer, mut keeper) = (sign_in(&server, USER).await, sign_in(&server, KEEPER).await);
        assert_eq!(most(&mut peer, "a\\b\\file").await, FILE_ALL);
        let directory = open(&mut keeper, "a", FILE_ALL).await.unwrap();
        let closed = SecurityDescriptor::decode(&closed()).unwrap();
        assert_eq!(set_security(&mut keeper, directory, SecurityInformation::DACL, &closed).await, Status::SUCCESS);
        keeper.close(directory).await;
        assert_eq!(most(&mut peer, "a\\b\\file").await, 0, "the descriptor was set");

        leave(&*store, "free", Kind::Directory);
        leave(&*store, "free\\file", Kind::File);
        assert_eq!(most(&mut peer, "free\\file").await, FILE_ALL);
        // Another directory comes to stand at the same path.
        assert_eq!(rename(&mut keeper, "free", "was free").await, Status::SUCCESS);
        assert_eq!(rename(&mut keeper, "closed", "free").await, Status::SUCCESS);
        leave(&*store, "free\\file", Kind::File);
        assert_eq!(most(&mut peer, "free\\file").await, 0, "it was renamed");

        leave(&*store, "gone", Kind::Directory);
        leave(&*store, "gone\\file", Kind::File);
        assert_eq!(most(&mut peer, "gone\\file").await, FILE_ALL);
        let path = |text: &str| SharePath::parse(text).unwrap();
        store.remove(&path("gone\\file"), node(&*store, "gone\\file").identity()).unwrap();
        store.remove(&path("gone"), node(&*store, "gone").identity()).unwrap();
        let made = make_folder(&mut keeper, "gone", &closed).await;
        keeper.close(made).await;
        leave(&*store, "gone\\file", Kind::File);
        assert_eq!(most(&mut peer, "gone\\file").await, 0, "it was made");
    })
    .await;
}

async fn make_folder(peer: &mut Peer, path: &str, descriptor: &SecurityDescriptor) -> FileId {
    let mut contexts = CreateContextsBuilder::new();
    contexts.add(name::SD_BUFFER, &descriptor.encode().unwrap());
    let edit = |request: &mut CreateRequest<'_>| {
        request.desired_access = READ_DATA.into();
        request.disposition = CreateDisposition::CREATE;
        request.options = CreateOptions::DIRECTORY_FILE;
    };
    peer.create_edited(path, contexts.contexts().as_bytes(), edit).await.opened().unwrap()
}

#[tokio::test]
async fn a_listing_by_access_shows_what_its_directory_lets_be_read() {
    on_each(async |server, store| {
        let aces = [
            Ace::allow(user(), FILE_GENERIC_READ | FILE_GENERIC_EXECUTE, AceFlags::NONE),
            Ace::allow(other(), FILE_ALL, OI | CI),
        ];
        make(&*store, "seen", Kind::Directory, &descriptor(Sid::SYSTEM, aces.to_vec()).encode().unwrap());
        leave(&*store, "seen\\secret", Kind::File);
        leave(&*store, "free", Kind::Directory);
        leave(&*store, "free\\file", Kind::File);
        let (mut peer, mut owner) = (sign_in(&server, USER).await, sign_in(&server, OTHER_USER).await);
        connect(&mut peer, BY_ACCESS).await;
        connect(&mut owner, BY_ACCESS).await;
        assert!(!shows(&mut peer, "seen", "secret").await);
        assert!(shows(&mut owner, "seen", "secret").await);
        assert!(shows(&mut peer, "free", "file").await);
    })
    .await;
}

#[tokio::test]
async fn a_link_has_what_its_directory_passes_on_and_lends_nothing_to_what_it_leads_to() {
    let folder = tempfile::tempdir().unwrap();
    let store = DirectoryStore::open(folder.path(), DirectoryOptions::default()).unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    let test = async {
        let server = realm_over(&store);
        make(&*store, "closed", Kind::Directory, &closed());
        leave(&*store, "closed\\secret", Kind::File);
        for (to, link) in [("closed/secret", "open"), ("elsewhere", "closed/link")] {
            std::os::unix::fs::symlink(to, folder.path().join(link)).unwrap();
        }
        let (mut peer, mut owner) = (sign_in(&server, USER).await, sign_in(&server, OTHER_USER).await);
        // Where it leads is told to who may look at it.
        assert_eq!(open(&mut peer, "open", READ_DATA).await, Err(Status::STOPPED_ON_SYMLINK));
        assert_eq!(open(&mut peer, "open\\x", READ_DATA).await, Err(Status::STOPPED_ON_SYMLINK));
        for path in ["closed\\link", "closed\\link\\x"] {
            assert_eq!(open(&mut peer, path, READ_DATA).await, Err(Status::ACCESS_DENIED), "{path}");
            assert_eq!(open(&mut owner, path, READ_DATA).await, Err(Status::STOPPED_ON_SYMLINK), "{path}");
        }
        // Who follows it comes to the file by the file's own path.
        assert_eq!(open(&mut peer, "closed\\secret", READ_DATA).await, Err(Status::ACCESS_DENIED));
        let none = CreateOptions::OPEN_REPARSE_POINT;
        let itself = open_as(&mut peer, "closed\\link", READ_DATA, CreateDisposition::OPEN, none).await;
        assert_eq!(itself, Err(Status::ACCESS_DENIED));
        let itself = open_as(&mut owner, "closed\\link", READ_DATA, CreateDisposition::OPEN, none).await;
        assert!(itself.is_ok());
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_link_is_its_makers_and_so_is_the_file_that_is_made_of_it() {
    on_each(async |server, store| {
        let may = FILE_GENERIC_READ | FILE_GENERIC_EXECUTE | FILE_GENERIC_WRITE;
        let aces = vec![
            Ace::allow(Sid::EVERYONE, may, AceFlags::NONE),
            Ace::allow(Sid::CREATOR_OWNER, FILE_ALL, OI | CI | IO),
            Ace::allow(Sid::EVERYONE, FILE_GENERIC_READ, OI | CI | IO),
        ];
        let mut of_directory = descriptor(Sid::BUILTIN_ADMINISTRATORS, aces);
        of_directory.control |= Control::DACL_PROTECTED;
        make(&*store, "d", Kind::Directory, &of_directory.encode().unwrap());
        let (mut peer, mut other_peer) = (sign_in(&server, USER).await, sign_in(&server, OTHER_USER).await);
        let mut point = Vec::new();
        assert!(encode_symlink("x", "x", 1, &mut point));
        let none = [&point[..4], &[0; 4]].concat();
        let itself = CreateOptions::OPEN_REPARSE_POINT;
        let open_itself =
            async |peer: &mut Peer, disposition| open_as(peer, "d\\link", FILE_ALL, disposition, itself).await;
        let made = open_itself(&mut peer, CreateDisposition::CREATE).await.unwrap();
        let of_file = node(&*store, "d\\link").extras().security().unwrap();
        assert!(of_file.is_some());
        for (code, input) in [
            (CtlCode::SET_REPARSE_POINT, &point),
            (CtlCode::SET_REPARSE_POINT, &point),
            (CtlCode::DELETE_REPARSE_POINT, &none),
            (CtlCode::SET_REPARSE_POINT, &point),
        ] {
            assert_eq!(peer.ioctl(code, made, input, 0).await.status(), Status::SUCCESS);
            assert_eq!(node(&*store, "d\\link").extras().security().unwrap(), of_file);
        }
        peer.close(made).await;
        // Who made it may have it lead elsewhere, give it another name and remove it, and nobody else may.
        assert_eq!(open_itself(&mut other_peer, CreateDisposition::OPEN).await, Err(Status::ACCESS_DENIED));
        let again = open_itself(&mut peer, CreateDisposition::OPEN).await.unwrap();
        assert_eq!(peer.ioctl(CtlCode::SET_REPARSE_POINT, again, &point, 0).await.status(), Status::SUCCESS);
        assert_eq!(peer.rename(again, "d\\moved").await, Status::SUCCESS);
        assert_eq!(peer.set(again, FileClass::DISPOSITION, &[1]).await, Status::SUCCESS);
        peer.close(again).await;
        assert!(
            store
                .resolve(&SharePath::parse("d\\moved").unwrap(), Use::Metadata)
                .is_ok_and(|found| matches!(found, store::Resolved::Missing { .. }))
        );
    })
    .await;
}

#[tokio::test]
async fn what_a_program_closed_in_stays_closed_when_who_had_it_open_moves_it_and_is_not_linked() {
    for (class, expected) in [(FileClass::RENAME, Status::SUCCESS), (FileClass::LINK, Status::ACCESS_DENIED)] {
        let folder = tempfile::tempdir().unwrap();
        let store = DirectoryStore::open(folder.path(), DirectoryOptions::default()).unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let test = async {
            let server = realm_over(&store);
            make(&*store, "closed", Kind::Directory, &closed());
            leave(&*store, "file", Kind::File);
            let mut peer = sign_in(&server, USER).await;
            let file = open(&mut peer, "file", DELETE | SYNCHRONIZE).await.unwrap();
            std::fs::rename(folder.path().join("file"), folder.path().join("closed/file")).unwrap();
            assert_eq!(peer.set_name(file, class, "mine", false).await, expected);
            peer.close(file).await;
            let there = exists(&*store, "mine");
            assert_eq!(there, expected == Status::SUCCESS, "{class:?}");
            if there {
                assert_eq!(open(&mut peer, "mine", READ_DATA).await, Err(Status::ACCESS_DENIED), "{class:?}");
            }
        };
        LocalSet::new().run_until(test).await;
    }
}

#[tokio::test]
async fn what_gets_another_name_in_its_directory_goes_on_having_what_that_passes_on() {
    on_each(async |server, store| {
        make(&*store, "d", Kind::Directory, &passing(Sid::EVERYONE, FILE_ALL, OI | CI));
        leave(&*store, "d\\file", Kind::File);
        let mut peer = sign_in(&server, USER).await;
        assert_eq!(rename(&mut peer, "d\\file", "d\\other").await, Status::SUCCESS);
        assert_eq!(node(&*store, "d\\other").extras().security(), Ok(None));
        node(&*store, "d").extras().set_security(&closed()).unwrap();
        server.descriptors.inheritance.directory_changed();
        assert_eq!(open(&mut peer, "d\\other", READ_DATA).await, Err(Status::ACCESS_DENIED));
    })
    .await;
}

/// In the middle of an open of `path` another directory takes the place of one on the way to it.
async fn opened_while_directories_change_places(kind: Kind, path: &str) {
    let folder = tempfile::tempdir().unwrap();
    let in_folder: Arc<dyn Store> = Arc::new(DirectoryStore::open(folder.path(), DirectoryOptions::default()).unwrap());
    for store in [Arc::new(RamStore::new(64 << 20)) as Arc<dyn Store>, in_folder] {
        let (inner, (store, meanwhile)) = (Arc::clone(&store), Interrupted::around_any(store));
        let test = async {
            let server = realm_over(&store);
            for name in ["mine", "open"] {
                make(&*store, name, Kind::Directory, &passing(user(), FILE_ALL, OI | CI));
            }
            make(&*store, "mine\\d", Kind::Directory, &closed());
            make(&*store, "open\\d", Kind::Directory, &passing(user(), FILE_ALL, OI | CI));
            leave(&*store, &format!("mine\\{path}"), kind);
            let mut peer = sign_in(&server, USER).await;
            assert_eq!(open(&mut peer, &format!("mine\\{path}"), READ_DATA).await, Err(Status::ACCESS_DENIED));
            let swapped = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&swapped);
            meanwhile.set(move |call, _| {
                if call == Call::LookAtSecurity && count.fetch_add(1, Ordering::Relaxed) == 0 {
                    store::waiting::allow(|| {
                        moved(&*inner, "mine", "closed");
                        moved(&*inner, "open", "mine");
                    });
                }
                Ok(())
            });
            let status = open(&mut peer, &format!("mine\\{path}"), READ_DATA).await;
            assert!(swapped.load(Ordering::Relaxed) > 0);
            assert!(matches!(status, Err(Status::ACCESS_DENIED | Status::OBJECT_NAME_NOT_FOUND)), "{status:?}");
        };
        LocalSet::new().run_until(test).await;
    }
}

#[tokio::test]
async fn what_a_closed_directory_passes_on_counts_wherever_its_path_leads_meanwhile() {
    opened_while_directories_change_places(Kind::File, "d\\file").await;
    opened_while_directories_change_places(Kind::Directory, "d\\below").await;
}

#[tokio::test]
async fn an_open_asks_no_directory_of_which_it_is_known_what_it_passes_on() {
    let (store, meanwhile) = Interrupted::around(RamStore::new(64 << 20));
    let server = realm_over(&store);
    for path in ["a", "a\\b", "a\\b\\c"] {
        leave(&*store, path, Kind::Directory);
    }
    leave(&*store, "a\\b\\c\\file", Kind::File);
    let (mut peer, mut keeper) = (sign_in(&server, USER).await, sign_in(&server, KEEPER).await);
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    meanwhile.set(move |call, _| {
        count.fetch_add(usize::from(call == Call::LookAtSecurity), Ordering::Relaxed);
        Ok(())
    });
    let looks = async |peer: &mut Peer| {
        let before = asked.load(Ordering::Relaxed);
        let file = open(peer, "a\\b\\c\\file", READ_DATA | WRITE_DATA).await.unwrap();
        peer.close(file).await;
        asked.load(Ordering::Relaxed) - before
    };
    let of_keeper = looks(&mut keeper).await;
    let (first, second) = (looks(&mut peer).await, looks(&mut peer).await);
    // The file itself; first also the three directories and the root.
    assert_eq!((of_keeper, first, second), (0, second + 4, 1));
}
