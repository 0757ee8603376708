//! The socket between a command and a server, with a server that only remembers.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::num::NonZeroU32;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use parking_lot::{Condvar, Mutex};
use serde_json::{Value, json};
use server::admin::{
    Admin, AuditCounts, AuditOrigins, AuditRefusal, Authentication, BreakView, ChannelView, Configuration, CountersRow,
    CountersView, Counts, Events, FileView, InterfaceView, LockedView, MemoryUse, Multichannel, OpenView, Protection,
    Scope, SessionView, ShareView, Views,
};
use tempfile::TempDir;

use super::*;
use crate::catalog::tests::ram;
use crate::small_disk::SmallDisk;
use crate::{
    AccountKind, Catalog, Control, DataFolder, Error, NewShare, OpenFile, Overrides, Problem, Reloader, Session,
    ShareChanges, Source, Status, ask_for_counters, first_start,
};

/// Longer than anything takes that a test waits for.
const AN_AGE: Duration = Duration::from_secs(120);

#[derive(Default)]
struct Remembering {
    configurations: Mutex<Vec<Configuration>>,
    given: Condvar,
    /// Opens that it has besides.
    more_opens: AtomicU64,
    /// Of those the views that were made and are not asked for any more.
    views: AtomicU64,
}

/// A path that takes three bytes for each character, and is as long as paths get.
fn long_path(id: u64) -> String {
    format!("{}\\{id}", "\u{5b57}".repeat(1_350))
}

/// A log whose filters have one letter.
#[derive(Default)]
struct OneFilter(Mutex<String>);

impl LogFilter for OneFilter {
    fn now(&self) -> String {
        self.0.lock().clone()
    }

    fn set(&self, filter: &str) -> Result<(), Error> {
        if filter.len() != 1 {
            return Err(Error::argument("it is no letter", "use a letter"));
        }
        filter.clone_into(&mut self.0.lock());
        Ok(())
    }
}

/// Knows why one share is slow.
struct KnowsFiles;

impl Explain for KnowsFiles {
    fn why(&self, about: Option<&str>) -> Result<Value, Error> {
        match about {
            None | Some("files") => Ok(json!({ "about": about })),
            Some(other) => Err(Error::missing(format!("there is no {other}"), "name files")),
        }
    }
}

impl Admin for Remembering {
    fn connections(&self) -> Vec<usize> {
        vec![3, 4]
    }

    fn counters(&self) -> CountersView {
        let counts = |number| Counts::from_parts(vec![(0, number), (300, 1)], vec![(0xC000_0034, 2)]).unwrap();
        let channel = Scope::Channel {
            session: u64::MAX,
            connection: 7,
            peer: "192.0.2.1:50000".to_owned(),
            local: "192.0.2.9:445".to_owned(),
        };
        let no_share = Scope::Share { name: None, authentication: Authentication::Anonymous };
        let scopes = [Scope::Server, no_share, Scope::Client("192.0.2.1".parse().ok()), channel];
        let row = |(number, scope)| CountersRow { scope, counts: counts(number) };
        let rows = (1..).zip(scopes).map(row).collect();
        CountersView {
            start: 9,
            at: Duration::from_nanos(1_234_567_890),
            events: Events { breaks: 3, ..Events::default() },
            rows,
        }
    }

    fn audit(&self) -> AuditCounts {
        AuditCounts { written: 7, lost: 2, lost_refused: 1 }
    }

    fn origins(&self) -> &Arc<AuditOrigins> {
        unreachable!("operators change no files")
    }

    fn audit_refusal(&self, _: AuditRefusal) {
        unreachable!("operators ask for no files")
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

    fn shares(&self) -> Vec<ShareView> {
        Vec::new()
    }

    fn busy_files(&self, _: Duration, _: usize) -> Vec<FileView> {
        Vec::new()
    }

    fn awaited_breaks(&self) -> Vec<BreakView> {
        Vec::new()
    }

    fn silent_shards(&self, _: Duration) -> Vec<usize> {
        vec![1]
    }

    fn locked_users(&self) -> Vec<LockedView> {
        vec![LockedView { relative_id: 1001, left: Duration::from_millis(90_500) }]
    }

    fn unlock_user(&self, relative_id: u32) -> bool {
        relative_id == 1001
    }

    fn replace(&self, configuration: Configuration) {
        self.configurations.lock().push(configuration);
        self.given.notify_all();
    }

    fn session_count(&self) -> usize {
        1
    }

    fn sessions(&self) -> Views<'_, SessionView> {
        let channel = ChannelView {
            peer: "192.0.2.1:50000".to_owned(),
            local: "192.0.2.9:445".to_owned(),
            shard: 1,
            bytes_received: 10,
            bytes_sent: 20,
            requests: 3,
            signing: "AES-GMAC".to_owned(),
            outstanding: 1,
            together_most: 1,
            connected_seconds: 4,
        };
        let session = SessionView {
            id: u64::MAX,
            user: "alice".to_owned(),
            account: "local".to_owned(),
            dialect: 0x0311,
            cipher: None,
            signing: "AES-GMAC".to_owned(),
            peer: channel.peer.clone(),
            connected_seconds: 5,
            idle_seconds: 1,
            opens: 2,
            shares: vec!["files".to_owned()],
            protection: Protection::Signed,
            multichannel: Multichannel::Off,
            channels: vec![channel],
        };
        Box::new(std::iter::once(session))
    }

    fn open_count(&self) -> usize {
        1 + self.more_opens.load(Ordering::Relaxed) as usize
    }

    fn opens(&self) -> Views<'_, OpenView> {
        let open = |id, path| OpenView {
            id,
            session: u64::MAX,
            user: "alice".to_owned(),
            share: "share".to_owned(),
            path,
            access: 0x0012_0089,
            open_seconds: 4,
        };
        let more = (8..).take(self.more_opens.load(Ordering::Relaxed) as usize);
        let first = std::iter::once(open(7, "a\\\"b\n".to_owned()));
        Box::new(first.chain(more.map(move |id| {
            self.views.fetch_add(1, Ordering::Relaxed);
            open(id, long_path(id))
        })))
    }

    fn close_session(&self, id: u64) -> bool {
        id == u64::MAX
    }

    fn close_open(&self, id: u64) -> bool {
        id == 7
    }
}

/// The folders that hang: who touches one waits until it answers again.
#[derive(Default)]
struct Hanging {
    names: Mutex<Vec<&'static str>>,
    answers: Condvar,
}

impl Hanging {
    fn hang(&self, name: &'static str) {
        self.names.lock().push(name);
    }

    fn answer(&self) {
        self.names.lock().clear();
        self.answers.notify_all();
    }

    fn touch(&self, path: &Path) {
        let mut names = self.names.lock();
        self.answers.wait_while(&mut names, |names| names.iter().any(|name| path.ends_with(name)));
    }
}

struct Running {
    place: TempDir,
    folder: DataFolder,
    admin: Arc<Remembering>,
    hanging: Arc<Hanging>,
    control: Option<Arc<Mutex<Control>>>,
    reloader: Option<Reloader>,
    socket: Option<AdminSocket>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.hanging.answer();
        // Before the folder goes with the socket, whose thread would stay and keep all of this.
        drop((self.socket.take(), self.reloader.take(), self.control.take()));
        self.admin.configurations.lock().clear();
    }
}

fn running() -> Running {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    running_on(place, &data)
}

fn running_on(place: TempDir, data: &Path) -> Running {
    let folder = DataFolder::create(data).unwrap();
    let mut running = Running {
        place,
        folder,
        admin: Arc::default(),
        hanging: Arc::default(),
        control: None,
        reloader: None,
        socket: None,
    };
    running.start();
    running
}

/// The client of the one channel, which the kernel has given up.
const DEAD_PEER: &str = "192.0.2.1:50000";

impl Running {
    fn start(&mut self) {
        let mut catalog = Catalog::open(&self.folder).unwrap();
        first_start(&mut catalog, &self.folder).unwrap();
        let hanging = Arc::clone(&self.hanging);
        let touch = Arc::new(move |path: &Path| hanging.touch(path));
        let control = Control::touching(&self.folder, catalog, Overrides::default(), touch);
        let control = Arc::new(Mutex::new(control));
        let admin = Arc::clone(&self.admin);
        self.reloader =
            Some(Reloader::start(&control, Arc::clone(&admin) as Arc<dyn Admin>, Box::new(|_| {})).unwrap());
        self.control = Some(Arc::clone(&control));
        let facts = Facts {
            started: Instant::now(),
            since: Timestamp::UNIX_EPOCH,
            listen: vec!["192.0.2.9:445".parse().unwrap()],
            metrics: None,
            page: None,
            rest: None,
            version: "1.2.3",
            log_filter: Arc::new(OneFilter::default()),
            explain: Arc::new(KnowsFiles),
            is_dead: |_, peer| peer == DEAD_PEER,
        };
        self.socket = Some(AdminSocket::open(&self.folder, control, admin, facts).unwrap());
    }

    /// Makes a folder and a share on it, both named `files`; gives the folder.
    fn share_files(&self) -> (PathBuf, Catalog) {
        let files = self.place.path().join("files");
        fs::create_dir(&files).unwrap();
        let source = Source::Folder { path: files.clone(), quota_gib: None };
        let mut catalog = Catalog::open(&self.folder).unwrap();
        catalog.create_share(&NewShare { source, ..ram("files") }).unwrap();
        (files, catalog)
    }

    fn reload(&self) -> Vec<Problem> {
        ask(&self.folder, &Request::Reload).unwrap().unwrap()
    }

    /// Waits until the server was given a configuration that is `wanted`.
    fn wait_for(&self, wanted: impl Fn(&Configuration) -> bool) {
        let mut configurations = self.admin.configurations.lock();
        let waited = self.admin.given.wait_while_for(&mut configurations, |all| !all.iter().any(&wanted), AN_AGE);
        let served = |configuration: &Configuration| {
            configuration.shares.iter().map(|share| share.name.clone()).collect::<Vec<_>>()
        };
        let given: Vec<_> = configurations.iter().map(served).collect();
        drop(configurations);
        assert!(!waited.timed_out(), "{given:?} {:?}", self.reload());
    }

    /// The names of the shares that the server was last given.
    fn shares(&self) -> Vec<String> {
        self.admin.configurations.lock().last().unwrap().shares.iter().map(|share| share.name.clone()).collect()
    }
}

#[test]
fn views_come_through_whole() {
    let running = running();
    let sessions: Vec<Session> = ask_for_all(&running.folder, &Request::Sessions).unwrap().unwrap();
    let mut known = running.admin.sessions().map(Session::from).collect::<Vec<_>>();
    known[0].channels[0].dead = true;
    assert_eq!(sessions, known, "whether a client answers is asked when somebody looks");
    assert_eq!((sessions[0].id, sessions[0].dialect.as_str()), (u64::MAX, "3.1.1"));
    let plain: Value = ask(&running.folder, &Request::Sessions).unwrap().unwrap();
    assert_eq!(plain[0]["id"], u64::MAX.to_string(), "digits that no reader rounds");
    let opens: Vec<OpenFile> = ask_for_all(&running.folder, &Request::OpenFiles).unwrap().unwrap();
    assert_eq!(opens[0].path, "a\\\"b\n");
    let status: Status = ask(&running.folder, &Request::Status).unwrap().unwrap();
    assert_eq!((status.version.as_str(), status.sessions, status.opens), ("1.2.3", 1, 1));
    assert_eq!((status.listen, status.process), (vec!["192.0.2.9:445".to_owned()], std::process::id()));
}

#[test]
fn the_filter_of_the_log_is_changed_or_stays() {
    let running = running();
    let ask_for = |request| ask::<String>(&running.folder, &request);
    let set = |filter: &str| ask_for(Request::SetLogFilter { filter: filter.to_owned() });
    assert_eq!(set("x").unwrap().unwrap(), "x");
    let refused = set("xy").unwrap_err();
    assert_eq!((refused.what(), refused.remedy()), ("it is no letter", "use a letter"));
    assert_eq!(ask_for(Request::LogFilter).unwrap().unwrap(), "x");
}

#[test]
fn what_is_seen_of_a_server_waits_for_nobody() {
    let mut running = running();
    let seen = || see(&running.folder).unwrap();
    let Seen::Answers(status) = seen() else { panic!("{:?}", seen()) };
    assert_eq!((status.since.as_str(), status.silent_shards), ("1970-01-01T00:00:00Z", vec![1]));

    drop(running.socket.take());
    let seen = || see(&running.folder).unwrap();
    assert_eq!(seen(), Seen::Nowhere);
    let lock = running.folder.lock().unwrap();
    let own = Some(std::process::id());
    assert_eq!(seen(), Seen::Begins(own));
    let silent = UnixListener::bind(running.folder.socket()).unwrap();
    let visitor = std::thread::spawn(move || drop(silent.accept()));
    assert_eq!(seen(), Seen::Silent(own));
    visitor.join().unwrap();
    lock.note_ending();
    assert_eq!(seen(), Seen::Ends(own));
}

#[test]
fn where_there_is_no_room_for_the_socket_it_comes_when_there_is() {
    let Some(disk) = SmallDisk::new(4096, 100) else { return };
    let mut running = running_on(tempfile::tempdir().unwrap(), disk.path());
    drop((running.socket.take(), running.reloader.take(), running.control.take()));
    disk.fill_with_files();
    running.start();
    let status = || ask::<Status>(&running.folder, &Request::Status).unwrap();
    assert_eq!(status(), None);
    disk.give_room();
    let until = Instant::now() + AN_AGE;
    while status().is_none() {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(fs::metadata(running.folder.socket()).unwrap().permissions().mode() & 0o7777, 0o600);
}

#[test]
fn the_end_does_not_wait_for_room_for_the_socket() {
    let Some(disk) = SmallDisk::new(4096, 100) else { return };
    let mut running = running_on(tempfile::tempdir().unwrap(), disk.path());
    drop((running.socket.take(), running.reloader.take(), running.control.take()));
    disk.fill_with_files();
    running.start();
    drop(running.socket.take());
    disk.give_room();
    assert!(!running.folder.socket().exists());
}

#[test]
fn many_opens_with_long_names_come_through_whole_and_a_few_at_a_time() {
    let running = running();
    let count = 20_000;
    running.admin.more_opens.store(count, Ordering::Relaxed);
    let opens: Vec<OpenFile> = ask_for_all(&running.folder, &Request::OpenFiles).unwrap().unwrap();
    assert_eq!(opens.len() as u64, count + 1);
    assert!(opens.iter().skip(1).zip(8..).all(|(open, id)| open.id == id && open.path == long_path(id)));
    let status: Status = ask(&running.folder, &Request::Status).unwrap().unwrap();
    assert_eq!(status.opens as u64, count + 1);

    // Who does not read has no more made than fits into the socket and one part.
    running.admin.views.store(0, Ordering::Relaxed);
    let mut stream = UnixStream::connect(running.folder.socket()).unwrap();
    writeln!(stream, "{{\"command\":\"open_files\"}}").unwrap();
    let mut lines = BufReader::new(stream).split(b'\n');
    let first = lines.next().unwrap().unwrap();
    assert!(first.starts_with(b"{\"status\":\"more\"") && first.len() < 500_000, "{}", first.len());
    assert!(running.admin.views.load(Ordering::Relaxed) < count / 2);
}

#[test]
fn an_answer_that_is_cut_is_an_error() {
    let place = tempfile::tempdir().unwrap();
    let folder = DataFolder::create(&place.path().join("data")).unwrap();
    let listener = UnixListener::bind(folder.socket()).unwrap();
    let server = std::thread::spawn(move || {
        for answer in ["{\"status\":\"more\",\"result\":[]}\n{\"status\":\"do", ""] {
            let (mut stream, _) = listener.accept().unwrap();
            BufReader::new(&stream).read_line(&mut String::new()).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    for _ in 0..2 {
        let answer = ask_for_all::<OpenFile>(&folder, &Request::OpenFiles);
        assert!(answer.unwrap_err().to_string().contains("does not answer"));
    }
    server.join().unwrap();
}

#[test]
fn counters_arrive_as_they_were_read() {
    let running = running();
    let counters = ask_for_counters(&running.folder).unwrap();
    assert_eq!(counters, Some(Remembering::default().counters()));
}

#[test]
fn why_something_is_slow_is_told_as_it_was_found() {
    let running = running();
    let why = |about: Option<&str>| ask::<Value>(&running.folder, &Request::Why { about: about.map(str::to_owned) });
    assert_eq!(why(Some("files")).unwrap(), Some(json!({ "about": "files" })));
    assert_eq!(why(None).unwrap(), Some(json!({ "about": null })));
    let missing = why(Some("nothing")).unwrap_err();
    assert_eq!((missing.fault(), missing.remedy()), (Fault::Missing, "name files"));
}

#[test]
fn closing_says_whether_there_was_one() {
    let running = running();
    for (request, missing) in [
        (Request::CloseSession { id: u64::MAX }, false),
        (Request::CloseSession { id: 1 }, true),
        (Request::CloseOpen { id: 7 }, false),
        (Request::CloseOpen { id: 8 }, true),
    ] {
        match ask::<()>(&running.folder, &request) {
            Ok(closed) => assert!(closed.is_some() && !missing, "{request:?}"),
            Err(error) => assert!(missing && error.fault() == Fault::Missing, "{request:?} {error}"),
        }
    }
}

#[test]
fn reload_gives_the_server_what_changed() {
    let running = running();
    assert!(running.reload().is_empty());
    assert_eq!(running.shares(), ["share"]);
    let mut catalog = Catalog::open(&running.folder).unwrap();
    catalog.create_share(&ram("fast")).unwrap();
    catalog.create_account(&"other".parse().unwrap(), AccountKind::FileStorage).unwrap();
    catalog.add_user(&"alice".parse().unwrap(), "secret", None).unwrap();
    running.reload();
    assert_eq!(running.shares(), ["fast", "share"]);
    let configurations = running.admin.configurations.lock();
    let (before, after) = (
        configurations.iter().find(|configuration| configuration.shares.len() == 1).unwrap(),
        configurations.last().unwrap(),
    );
    assert!(Arc::ptr_eq(&before.shares[0].store, &after.shares[1].store), "an unchanged share keeps its store");
    let names: Vec<_> = after.principals.iter().map(|one| (one.name.as_str(), one.secrets.len())).collect();
    assert_eq!(names, [("local", 2), ("other", 2), ("alice", 1)]);
    assert_eq!(before.settings, after.settings);
}

#[test]
fn a_change_that_nobody_could_tell_of_takes_effect_all_the_same() {
    let running = running();
    let mut catalog = Catalog::open(&running.folder).unwrap();
    catalog.add_user(&"alice".parse().unwrap(), "secret", None).unwrap();
    running.reload();
    catalog.remove_user(&"alice".parse().unwrap()).unwrap();
    let has_alice = |all: &mut Vec<Configuration>| all.last().unwrap().principals.iter().any(|one| one.name == "alice");
    let mut configurations = running.admin.configurations.lock();
    let waited = running.admin.given.wait_while_for(&mut configurations, has_alice, AN_AGE);
    assert!(!waited.timed_out());
}

/// Puts a copy of the catalog, changed by `change`, in its place, as a restore from a backup does.
fn replace_catalog(folder: &DataFolder, change: impl FnOnce(&mut Catalog)) {
    let place = tempfile::tempdir_in(folder.path()).unwrap();
    let elsewhere = DataFolder::create(&place.path().join("data")).unwrap();
    rusqlite::Connection::open(folder.catalog())
        .unwrap()
        .execute("VACUUM INTO ?1", [elsewhere.catalog().to_str().unwrap()])
        .unwrap();
    change(&mut Catalog::open(&elsewhere).unwrap());
    put_catalog(folder, &elsewhere.catalog());
}

/// Puts `file` in the catalog's place.
fn put_catalog(folder: &DataFolder, file: &Path) {
    for log in ["db-wal", "db-shm"] {
        let _ = fs::remove_file(folder.catalog().with_extension(log));
    }
    fs::rename(file, folder.catalog()).unwrap();
}

fn add_alice(catalog: &mut Catalog) {
    catalog.add_user(&"alice".parse().unwrap(), "secret", None).unwrap();
}

fn has_alice(configuration: &Configuration) -> bool {
    configuration.principals.iter().any(|one| one.name == "alice")
}

#[test]
fn a_catalog_that_another_replaces_is_read_and_so_are_its_changes() {
    let running = running();
    running.reload();
    replace_catalog(&running.folder, add_alice);
    running.reload();
    assert!(has_alice(running.admin.configurations.lock().last().unwrap()));
    Catalog::open(&running.folder).unwrap().remove_user(&"alice".parse().unwrap()).unwrap();
    running.reload();
    assert!(!has_alice(running.admin.configurations.lock().last().unwrap()));
    assert_eq!(running.shares(), ["share"]);
    // Nobody has to say so.
    replace_catalog(&running.folder, add_alice);
    running.admin.configurations.lock().clear();
    running.wait_for(has_alice);
}

#[test]
fn the_log_of_a_catalog_that_is_taken_away_beside_a_server_costs_no_change() {
    let running = running();
    running.reload();
    for end in ["db-wal", "db-shm"] {
        fs::remove_file(running.folder.catalog().with_extension(end)).unwrap();
    }
    add_alice(&mut Catalog::open(&running.folder).unwrap());
    running.wait_for(has_alice);
    Catalog::open(&running.folder).unwrap().remove_user(&"alice".parse().unwrap()).unwrap();
    running.wait_for(|configuration| !has_alice(configuration));
}

#[test]
fn a_ram_disk_goes_to_no_other_share_of_the_number_that_it_has_in_a_backup() {
    let running = running();
    let mut catalog = Catalog::open(&running.folder).unwrap();
    catalog.create_share(&ram("fast")).unwrap();
    let file = running.place.path().join("backup.db");
    catalog.back_up(&file, crate::Existing::IsKept).unwrap();
    running.reload();
    let store =
        |running: &Running| Arc::downgrade(&running.admin.configurations.lock().last().unwrap().shares[0].store);
    let before = store(&running);
    // The backup is of another server, which has another share of this number.
    let other = rusqlite::Connection::open(&file).unwrap();
    other
        .execute_batch(
            "PRAGMA user_version = 0; UPDATE share SET name = 'else', folded_name = 'ELSE' WHERE name = 'fast'",
        )
        .unwrap();
    drop(other);
    crate::restore_catalog(running.folder.path(), &file, &mut |_| true).unwrap();
    running.reload();
    assert_eq!(running.shares(), ["else", "share"]);
    assert!(!before.ptr_eq(&store(&running)));
    drop(catalog);
}

#[test]
fn rows_that_make_no_sense_are_nobody_and_no_share() {
    let running = running();
    let mut catalog = Catalog::open(&running.folder).unwrap();
    add_alice(&mut catalog);
    catalog.create_share(&ram("fast")).unwrap();
    catalog.create_group(&"staff".parse().unwrap(), None).unwrap();
    catalog.add_members(&"staff".parse().unwrap(), &["alice".parse().unwrap()]).unwrap();
    running.reload();
    let last = || running.admin.configurations.lock().last().unwrap().clone();
    assert!(has_alice(&last()) && last().principals.iter().any(|one| !one.groups.is_empty()));
    let change = |change: &str| {
        let connection = rusqlite::Connection::open(running.folder.catalog()).unwrap();
        connection.execute_batch(&format!("PRAGMA foreign_keys = off; {change}")).unwrap();
        running.reload();
    };
    change(
        "UPDATE principal SET relative_id = 512 WHERE folded_name = 'STAFF'; UPDATE user_group SET relative_id = 512;
         UPDATE membership SET user_group = 512",
    );
    assert!(
        has_alice(&last()) && last().groups.is_empty() && last().principals.iter().all(|one| one.groups.is_empty())
    );
    change("UPDATE account SET key1 = ''");
    assert!(last().principals.iter().all(|one| one.secrets.len() == 1), "the other key is one");
    change("UPDATE principal SET relative_id = 513 WHERE folded_name = 'ALICE'; UPDATE user SET relative_id = 513");
    assert!(!has_alice(&last()));
    for name in ["IPC$", "a\\b", "a/b"] {
        change(&format!("UPDATE share SET name = '{name}' WHERE ram_bytes > 0"));
        assert_eq!(running.shares(), ["share"], "{name}");
    }
    let problems = running.control.as_ref().unwrap().lock().problems().to_vec();
    assert!(problems.iter().any(|one| one.share == "a/b" && one.problem.contains("name of no share")), "{problems:?}");
}

#[test]
fn a_ram_disk_goes_to_no_other_share_of_the_number_that_it_has_in_another_catalog() {
    let running = running();
    let mut catalog = Catalog::open(&running.folder).unwrap();
    catalog.create_share(&ram("fast")).unwrap();
    replace_catalog(&running.folder, |_| {});
    running.reload();
    let store =
        |running: &Running| Arc::downgrade(&running.admin.configurations.lock().last().unwrap().shares[0].store);
    let before = store(&running);
    replace_catalog(&running.folder, |_| {});
    running.reload();
    assert!(before.ptr_eq(&store(&running)), "the same share keeps its files");
    let path = running.place.path().join("other.db");
    let other = rusqlite::Connection::open(running.folder.catalog()).unwrap();
    other.execute("VACUUM INTO ?1", [path.to_str().unwrap()]).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    assert_eq!(
        other.execute("UPDATE share SET name = 'else', folded_name = 'ELSE' WHERE name = 'fast'", []).unwrap(),
        1
    );
    drop(other);
    put_catalog(&running.folder, &path);
    running.reload();
    assert_eq!(running.shares(), ["else", "share"]);
    assert!(!before.ptr_eq(&store(&running)));
}

#[test]
fn where_a_catalog_is_replaced_by_none_that_can_be_read_what_was_read_stays() {
    let running = running();
    add_alice(&mut Catalog::open(&running.folder).unwrap());
    running.reload();
    let kept = running.place.path().join("kept.db");
    let path = kept.to_str().unwrap();
    rusqlite::Connection::open(running.folder.catalog()).unwrap().execute("VACUUM INTO ?1", [path]).unwrap();
    let (damaged, foreign) = (running.place.path().join("damaged.db"), running.place.path().join("foreign.db"));
    let mut bytes = fs::read(&kept).unwrap();
    bytes[200..].fill(0xA5);
    rusqlite::Connection::open(&foreign).unwrap().execute("CREATE TABLE other (x)", []).unwrap();
    let foreign_bytes = fs::read(&foreign).unwrap();
    let given = running.admin.configurations.lock().len();
    for (name, bytes) in [("damaged", &bytes[..]), ("empty", b""), ("none", b"no catalog"), ("foreign", &foreign_bytes)]
    {
        fs::write(&damaged, bytes).unwrap();
        put_catalog(&running.folder, &damaged);
        let refused = ask::<Vec<Problem>>(&running.folder, &Request::Reload).unwrap_err();
        assert!(refused.remedy().contains("restore"), "{name}: {refused}");
    }
    fs::remove_file(running.folder.catalog()).unwrap();
    let refused = ask::<Vec<Problem>>(&running.folder, &Request::Reload).unwrap_err();
    assert!(refused.what().contains("gone") && refused.remedy().contains("restore"), "{refused}");
    assert!(!running.folder.catalog().exists(), "none is made");
    assert_eq!(running.admin.configurations.lock().len(), given, "the server keeps what it has");
    assert!(has_alice(&running.control.as_ref().unwrap().lock().known_estate().unwrap()));

    put_catalog(&running.folder, &kept);
    running.reload();
    assert!(has_alice(running.admin.configurations.lock().last().unwrap()));
}

#[test]
fn a_folder_that_comes_back_is_served_while_the_catalog_is_gone() {
    let running = running();
    let (files, catalog) = running.share_files();
    drop(catalog);
    fs::remove_dir_all(&files).unwrap();
    running.reload();
    assert_eq!(running.shares(), ["share"]);
    fs::remove_file(running.folder.catalog()).unwrap();
    ask::<Vec<Problem>>(&running.folder, &Request::Reload).unwrap_err();
    fs::create_dir(&files).unwrap();
    running.wait_for(|configuration| configuration.shares.iter().any(|share| share.name == "files"));
}

#[test]
fn ram_disk_lives_until_its_share_is_deleted() {
    let running = running();
    let mut catalog = Catalog::open(&running.folder).unwrap();
    let mut stores = Vec::new();
    for make in [true, false, true] {
        if make {
            let _ = catalog.delete_share(&"fast".parse().unwrap());
            catalog.create_share(&ram("fast")).unwrap();
        }
        running.reload();
        stores.push(Arc::downgrade(&running.admin.configurations.lock().last().unwrap().shares[0].store));
    }
    assert!(stores[0].ptr_eq(&stores[1]), "kept over a reload");
    assert!(!stores[1].ptr_eq(&stores[2]), "made anew with its share");
    {
        let mut configurations = running.admin.configurations.lock();
        let last = configurations.len() - 1;
        configurations.drain(..last);
    }
    assert!(stores[0].upgrade().is_none(), "nothing else holds the old one");
}

#[test]
fn ram_disk_keeps_its_files_when_its_share_changes() {
    let running = running();
    let mut catalog = Catalog::open(&running.folder).unwrap();
    catalog.create_share(&ram("fast")).unwrap();
    running.reload();
    let changes = ShareChanges { read_only: Some(true), ..ShareChanges::default() };
    catalog.update_share(&"fast".parse().unwrap(), &changes).unwrap();
    running.reload();
    let configurations = running.admin.configurations.lock();
    let before = configurations
        .iter()
        .find(|configuration| configuration.shares.len() == 2 && !configuration.shares[0].read_only)
        .unwrap();
    let after = configurations.last().unwrap();
    assert!(!before.shares[0].read_only && after.shares[0].read_only);
    assert!(Arc::ptr_eq(&before.shares[0].store, &after.shares[0].store));
}

#[test]
fn folder_is_opened_anew_where_its_quota_changes() {
    let running = running();
    running.reload();
    let changes = ShareChanges { quota_gib: Some(NonZeroU32::new(1)), ..ShareChanges::default() };
    let mut catalog = Catalog::open(&running.folder).unwrap();
    catalog.update_share(&"share".parse().unwrap(), &changes).unwrap();
    running.reload();
    let configurations = running.admin.configurations.lock();
    assert_eq!(configurations.last().unwrap().shares[0].store.space().unwrap().total_bytes, 1 << 30);
}

#[test]
fn share_whose_folder_goes_away_stays_with_what_is_open_and_says_so() {
    let running = running();
    let (files, mut catalog) = running.share_files();
    assert!(running.reload().is_empty());
    let before = Arc::clone(&running.admin.configurations.lock().last().unwrap().shares[0].store);

    fs::rename(&files, running.place.path().join("elsewhere")).unwrap();
    let problems = running.reload();
    assert_eq!((problems.len(), problems[0].share.as_str(), problems[0].served), (1, "files", true));
    assert!(problems[0].problem.contains("gone"), "{problems:?}");
    let status: Status = ask(&running.folder, &Request::Status).unwrap().unwrap();
    assert_eq!(status.problems, problems);

    fs::create_dir(&files).unwrap();
    assert!(running.reload().is_empty());
    let after = Arc::clone(&running.admin.configurations.lock().last().unwrap().shares[0].store);
    assert!(Arc::ptr_eq(&before, &after), "the store has followed its folder");
    catalog.delete_share(&"files".parse().unwrap()).unwrap();
    running.reload();
    assert_eq!(running.shares(), ["share"]);
}

#[test]
fn a_folder_made_anew_is_served_again_without_being_asked() {
    let running = running();
    let (files, _) = running.share_files();
    running.reload();
    let store = Arc::clone(&running.admin.configurations.lock().last().unwrap().shares[0].store);
    let finds = || {
        let resolved = store.resolve(&store::SharePath::parse("new").unwrap(), store::Use::Metadata);
        matches!(resolved, Ok(store::Resolved::Found { .. }))
    };
    fs::rename(&files, running.place.path().join("elsewhere")).unwrap();
    fs::create_dir(&files).unwrap();
    fs::write(files.join("new"), "").unwrap();
    let until = Instant::now() + AN_AGE;
    while !finds() {
        assert!(Instant::now() < until, "the new folder is not served");
        std::thread::yield_now();
    }
}

#[test]
fn a_share_whose_folder_comes_late_is_served_without_being_asked() {
    let running = running();
    let (files, _) = running.share_files();
    let away = running.place.path().join("away");
    fs::rename(&files, &away).unwrap();
    let problems = running.reload();
    assert_eq!((problems[0].share.as_str(), problems[0].served), ("files", false));
    assert_eq!(running.shares(), ["share"]);
    assert_eq!(running.admin.configurations.lock().last().unwrap().awaited, ["files"]);
    fs::rename(&away, &files).unwrap();
    running.wait_for(|configuration| configuration.shares.len() == 2 && configuration.awaited.is_empty());
}

#[test]
fn a_folder_that_hangs_keeps_no_change_from_taking_effect() {
    let running = running();
    let (files, mut catalog) = running.share_files();
    catalog.add_user(&"alice".parse().unwrap(), "secret", None).unwrap();
    running.hanging.hang("files");
    let problems = running.reload();
    assert_eq!((problems[0].share.as_str(), problems[0].served), ("files", false));
    assert_eq!(problems[0].problem, format!("the folder {} does not answer", files.display()));
    assert_eq!(running.shares(), ["share"]);

    // Whoever hangs is known now, and nobody waits for it: neither a command nor what it changes.
    catalog.remove_user(&"alice".parse().unwrap()).unwrap();
    catalog.create_share(&ram("fast")).unwrap();
    running.reload();
    assert_eq!(running.shares(), ["fast", "share"]);
    let configuration = running.admin.configurations.lock().last().unwrap().clone();
    assert!(configuration.principals.iter().all(|principal| principal.name != "alice"));
    assert_eq!(configuration.awaited, ["files"]);
    let status: Status = ask(&running.folder, &Request::Status).unwrap().unwrap();
    assert_eq!(status.problems, problems);

    running.hanging.answer();
    running.wait_for(|configuration| configuration.shares.len() == 3 && configuration.awaited.is_empty());
}

#[test]
fn a_share_whose_folder_hangs_can_be_deleted_and_made_anew() {
    let running = running();
    let (files, mut catalog) = running.share_files();
    running.reload();
    assert_eq!(running.shares(), ["files", "share"]);
    running.hanging.hang("files");
    // It is served as before: what is in memory of it is as good as it was.
    let problems = running.reload();
    assert_eq!((problems[0].share.as_str(), problems[0].served), ("files", true));
    assert_eq!(running.shares(), ["files", "share"]);
    catalog.delete_share(&"files".parse().unwrap()).unwrap();
    running.reload();
    assert_eq!(running.shares(), ["share"]);
    let source = Source::Folder { path: files, quota_gib: None };
    catalog.create_share(&NewShare { source, ..ram("again") }).unwrap();
    running.reload();
    assert_eq!(running.shares(), ["share"]);
    running.hanging.answer();
    running.wait_for(|configuration| configuration.shares.iter().any(|share| share.name == "again"));
}

#[test]
fn one_folder_that_hangs_keeps_no_other_from_being_followed() {
    let running = running();
    let (files, mut catalog) = running.share_files();
    let hung = running.place.path().join("hung");
    fs::create_dir(&hung).unwrap();
    let source = Source::Folder { path: hung, quota_gib: None };
    catalog.create_share(&NewShare { source, ..ram("a-hung-one") }).unwrap();
    running.hanging.hang("hung");
    fs::rename(&files, running.place.path().join("away")).unwrap();
    running.reload();
    assert_eq!(running.shares(), ["share"]);
    fs::create_dir(&files).unwrap();
    running.wait_for(|configuration| configuration.shares.iter().any(|share| share.name == "files"));
}

#[test]
fn the_first_estate_has_what_is_well_and_waits_for_nothing_else() {
    let running = running();
    let (_, catalog) = running.share_files();
    let hanging = Arc::clone(&running.hanging);
    let touch = Arc::new(move |path: &Path| hanging.touch(path));
    running.hanging.hang("files");
    let mut control = Control::touching(&running.folder, catalog, Overrides::default(), touch);
    let configuration = control.first_estate().unwrap();
    let names: Vec<_> = configuration.shares.iter().map(|share| share.name.as_str()).collect();
    assert_eq!((names, configuration.awaited), (vec!["share"], vec!["files".to_owned()]));
}

#[test]
fn a_folder_that_another_server_has_is_not_served_and_says_whose_it_is() {
    let running = running();
    let files = running.place.path().join("files");
    fs::create_dir_all(files.join(".multilane")).unwrap();
    fs::write(files.join(".multilane/lock"), "4242\n").unwrap();
    let lock = fs::File::open(files.join(".multilane/lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    let source = Source::Folder { path: files.clone(), quota_gib: None };
    let mut catalog = Catalog::open(&running.folder).unwrap();
    catalog.create_share(&NewShare { source, ..ram("files") }).unwrap();
    let problems = running.reload();
    assert!(problems[0].problem.contains("4242") && problems[0].problem.contains("files"), "{problems:?}");
    drop(lock);
    running.wait_for(|configuration| configuration.shares.iter().any(|share| share.name == "files"));
    assert!(running.reload().is_empty());
}

#[test]
fn a_folder_that_another_server_has_taken_over_says_so_until_it_is_free_again() {
    let running = running();
    let (files, _catalog) = running.share_files();
    assert_eq!(running.reload(), []);
    fs::remove_dir_all(files.join(".multilane")).unwrap();
    fs::create_dir(files.join(".multilane")).unwrap();
    fs::write(files.join(".multilane/lock"), "4242\n").unwrap();
    let lock = fs::File::open(files.join(".multilane/lock")).unwrap();
    lock.try_lock().unwrap();
    let [problem] = &running.reload()[..] else { panic!() };
    assert!(problem.served && problem.problem.contains("process 4242"), "{problem:?}");
    drop(lock);
    assert_eq!(running.reload(), []);
    let lock = fs::File::open(files.join(".multilane/lock")).unwrap();
    assert!(lock.try_lock().is_err());
}

#[test]
fn folders_are_let_go_of_whatever_the_control_waits_for() {
    let mut running = running();
    let (files, _catalog) = running.share_files();
    assert_eq!(running.reload(), []);
    let control = running.control.take().unwrap();
    let folders = control.lock().folders();
    let waiting = control.lock();
    // The server lets go of what it was given.
    running.admin.configurations.lock().clear();
    folders.let_go();
    let began = Instant::now();
    while fs::File::open(files.join(".multilane/lock")).unwrap().try_lock().is_err() {
        assert!(began.elapsed() < AN_AGE, "the folder stays locked");
    }
    drop(waiting);
    let served = control.lock().configuration().unwrap().shares;
    assert!(served.is_empty(), "a folder is served again");
}

/// A file system without extended attributes, mounted somewhere.
struct Mounted(PathBuf);

impl Mounted {
    /// `None` where we may not mount.
    fn new(place: &Path) -> Option<Self> {
        fs::create_dir(place).unwrap();
        let mut mount = std::process::Command::new("mount");
        let status = mount.args(["-t", "ramfs", "ramfs"]).arg(place).status();
        status.is_ok_and(|status| status.success()).then(|| Mounted(place.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_folder_without_attributes_in_another_that_is_served_says_which_that_is_until_it_is_no_more() {
    let running = running();
    let (files, mut catalog) = running.share_files();
    assert_eq!(running.reload(), [], "it is served first");
    let inner = files.join("inner");
    let Some(_mounted) = Mounted::new(&inner) else { return };
    let source = Source::Folder { path: inner.clone(), quota_gib: None };
    catalog.create_share(&NewShare { source, ..ram("inner") }).unwrap();
    let [problem] = &running.reload()[..] else { panic!() };
    let names_both = [&files, &inner].iter().all(|folder| problem.problem.contains(&folder.display().to_string()));
    assert!(!problem.served && names_both && problem.problem.contains("attributes"), "{problem:?}");
    catalog.delete_share(&"files".parse().unwrap()).unwrap();
    running.reload();
    // Who has it open has it served.
    running.admin.configurations.lock().clear();
    running.wait_for(|configuration| configuration.shares.iter().any(|share| share.name == "inner"));
    assert_eq!(running.reload(), []);
}

#[test]
fn a_folder_without_attributes_that_is_mounted_nowhere_any_more_lies_in_no_other() {
    let running = running();
    let files = running.place.path().join("files");
    let inner = files.join("inner");
    fs::create_dir(&files).unwrap();
    let Some(mounted) = Mounted::new(&inner) else { return };
    let mut catalog = Catalog::open(&running.folder).unwrap();
    let mut share = |name: &str, path: &Path| {
        let source = Source::Folder { path: path.to_owned(), quota_gib: None };
        catalog.create_share(&NewShare { source, ..ram(name) }).unwrap();
    };
    share("inner", &inner);
    assert_eq!(running.reload(), []);
    drop(mounted);
    fs::remove_dir(&inner).unwrap();
    share("files", &files);
    running.reload();
    running.wait_for(|configuration| configuration.shares.iter().any(|share| share.name == "files"));
}

#[test]
fn share_into_which_the_data_folder_has_moved_is_left_out() {
    let place = tempfile::tempdir().unwrap();
    let (before, files) = (place.path().join("data"), place.path().join("files"));
    fs::create_dir(&files).unwrap();
    let folder = DataFolder::create(&before).unwrap();
    let mut catalog = Catalog::open(&folder).unwrap();
    catalog.create_account(&"abc".parse().unwrap(), AccountKind::FileStorage).unwrap();
    let source = Source::Folder { path: files.clone(), quota_gib: None };
    catalog.create_share(&NewShare { source, ..ram("files") }).unwrap();
    drop(catalog);

    fs::rename(&before, files.join("data")).unwrap();
    let folder = DataFolder::open(&files.join("data")).unwrap();
    let mut control = Control::new(&folder, Catalog::open(&folder).unwrap(), Overrides::default());
    assert!(control.first_estate().unwrap().shares.is_empty());
    assert!(control.problems()[0].problem.contains("keys"));
}

#[test]
fn no_server_is_no_error_even_where_a_dead_one_left_its_socket() {
    let mut running = running();
    let path = running.folder.socket();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    running.socket = None;
    assert!(!path.exists());
    assert_eq!(ask::<Status>(&running.folder, &Request::Status).unwrap(), None);

    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    assert_eq!(ask::<Status>(&running.folder, &Request::Status).unwrap(), None);
    running.start();
    assert!(ask::<Status>(&running.folder, &Request::Status).unwrap().is_some());
}

#[test]
fn nonsense_is_answered_or_cut_off_and_the_next_command_works() {
    let running = running();
    let mut stream = UnixStream::connect(running.folder.socket()).unwrap();
    let mut replies = BufReader::new(stream.try_clone().unwrap());
    for bad in ["{}", "null", "", "{\"command\":\"shutdown\"}", "{\"command\":\"close_session\",\"id\":-1}", "\u{0}"] {
        writeln!(stream, "{bad}").unwrap();
        let mut line = String::new();
        replies.read_line(&mut line).unwrap();
        assert!(line.contains("not understood"), "{bad:?} {line:?}");
    }
    writeln!(stream, "{{\"command\":\"reload\"}}").unwrap();
    let mut line = String::new();
    replies.read_line(&mut line).unwrap();
    assert_eq!(line.trim(), "{\"status\":\"done\",\"result\":[]}");

    // The server may close before everything is written: an error here is as good as an empty answer.
    let _ = stream.write_all(&[b'x'; 10_000]);
    let mut line = String::new();
    assert!(!matches!(replies.read_line(&mut line), Ok(1..)));
    assert!(ask::<Status>(&running.folder, &Request::Status).unwrap().is_some());
}

#[test]
fn silent_clients_keep_no_command_waiting() {
    let running = running();
    let silent: Vec<_> = (0..300).map(|_| UnixStream::connect(running.folder.socket()).unwrap()).collect();
    // Each of them may take two seconds to say something, and a command does not wait for ten minutes.
    assert!(ask::<Status>(&running.folder, &Request::Status).unwrap().is_some());
    drop(silent);
}

#[test]
fn a_server_that_cannot_be_told_is_not_taken_for_none() {
    let place = tempfile::tempdir().unwrap();
    let folder = DataFolder::create(&place.path().join("data")).unwrap();
    let ask = || ask::<Status>(&folder, &Request::Status);
    assert!(ask().unwrap().is_none(), "nobody has the folder");
    drop(folder.lock().unwrap());
    assert!(ask().unwrap().is_none(), "nobody has it any more");
    let lock = folder.path().join("lock");
    let mut holder =
        std::process::Command::new("flock").arg("--no-fork").arg(lock).args(["sleep", "60"]).spawn().unwrap();
    let until = Instant::now() + AN_AGE;
    while folder.server().is_none() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    let error = ask().unwrap_err();
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert!(error.what().contains("cannot be told"), "{error}");
}
