//! Changes far down, below directories that are watched.

use store::{Error, Facts, RamStore, Space};
use wire::security::Sid;

use super::many::{answers, user, wish};
use super::*;
use crate::resource::pool::{Device, QueueKey};
use crate::resource::turns::STEP_COST;
use crate::state::open::Open;

const LEVELS: usize = 300;
const TREE: Asked = Asked { reach: Reach::Tree, ..NAMES };

fn path(levels: usize) -> String {
    ["a"; LEVELS][..levels].join("\\")
}

/// A server with a file `levels` directories down, who watches all of these, and who changes things.
async fn chain(levels: usize, watched: bool) -> (Arc<Shared>, (Peer, Vec<FileId>), Peer) {
    let server = server(Signing::Enabled);
    let (mut watcher, mut actor) = (Peer::sign_in(&server).await, Peer::sign_in(&server).await);
    for level in 1..=levels {
        make_directory(&mut actor, &path(level)).await;
    }
    let mut opens = Vec::new();
    for level in (1..=levels).filter(|_| watched) {
        let open = to_watch(&mut watcher, &path(level)).await;
        wait(&mut watcher, open, TREE).await;
        opens.push(open);
    }
    (server, (watcher, opens), actor)
}

/// What creating a file and renaming it costs the turn of who does it, in steps.
async fn steps(levels: usize, watched: bool) -> (usize, usize) {
    let (_server, _watcher, mut actor) = chain(levels, watched).await;
    let at = |name: &str| format!("{}\\{name}", path(levels));
    let left = |actor: &Peer| actor.connection.turn.left();
    let before = left(&actor);
    let file = actor.open(&at("one")).await;
    let made = left(&actor);
    assert_eq!(actor.rename(file, &at("two")).await, Status::SUCCESS);
    ((before - made) as usize / STEP_COST, (made - left(&actor)) as usize / STEP_COST)
}

#[tokio::test]
async fn a_path_counts_for_the_turn_by_its_levels() {
    here(async {
        let ((made, renamed), (deep_made, deep_renamed)) = (steps(2, false).await, steps(LEVELS, false).await);
        assert!(deep_made - made >= LEVELS - 2, "{made} {deep_made}");
        assert!(deep_renamed - renamed >= LEVELS - 2, "{renamed} {deep_renamed}");
    })
    .await;
}

#[tokio::test]
async fn a_change_below_watched_directories_counts_for_the_turn_by_their_number() {
    here(async {
        let ((made, renamed), (told_made, told_renamed)) = (steps(LEVELS, false).await, steps(LEVELS, true).await);
        let walked = LEVELS;
        assert_eq!(told_made - made, walked + STEPS_OF_A_TELLING * LEVELS);
        assert_eq!(told_renamed - renamed, walked + 2 * STEPS_OF_A_TELLING * LEVELS);
    })
    .await;
}

#[tokio::test]
async fn a_change_far_down_is_told_at_each_level_by_the_rest_of_its_path() {
    here(async {
        let (_server, (watcher, opens), mut actor) = chain(LEVELS, true).await;
        make(&mut actor, &format!("{}\\file", path(LEVELS))).await;
        let mut names: Vec<_> = Vec::new();
        for _ in &opens {
            names.extend(told(&watcher.receive().await));
        }
        names.sort_by_key(|(_, name)| name.len());
        let expected = (0..LEVELS).map(|below| {
            let way = if below == 0 { String::new() } else { path(below) + "\\" };
            (Action::ADDED, way + "file")
        });
        assert_eq!(names, expected.collect::<Vec<_>>());
    })
    .await;
}

/// A RAM disk that counts who asks which directories lie on a way, and may say that its root is another volume's.
struct Counting {
    disk: RamStore,
    root_volume: Option<u64>,
    lineages: AtomicUsize,
}

impl Store for Counting {
    fn facts(&self) -> Facts {
        let facts = self.disk.facts();
        Facts { volume: self.root_volume.unwrap_or(facts.volume), ..facts }
    }

    fn space(&self) -> Result<Space, Error> {
        self.disk.space()
    }

    fn resolve(&self, path: &SharePath, usage: Use) -> Result<Resolved, Error> {
        self.disk.resolve(path, usage)
    }

    fn try_resolve(&self, path: &SharePath, usage: Use) -> Result<Resolved, Error> {
        self.disk.try_resolve(path, usage)
    }

    fn lineage(&self, path: &SharePath) -> Vec<Identity> {
        self.lineages.fetch_add(1, Ordering::Relaxed);
        self.disk.lineage(path)
    }
}

#[test]
fn a_tree_that_is_watched_on_another_volume_costs_a_change_nothing() {
    let lineages = |watched: &[u64], root_volume| {
        let (watches, user) = (Watches::new(Pool::by_hand(), Arc::default()), user(&Sid::SYSTEM));
        let store = Counting { disk: RamStore::new(1 << 20), root_volume, lineages: AtomicUsize::new(0) };
        let volume = store.disk.facts().volume;
        for (open, above) in (0..).zip(watched) {
            let directory = Identity { volume: volume + above, file: 7 };
            watches.watch(Wish { directory, reach: Reach::Tree, ..wish(open, ALL) }, &user).unwrap();
        }
        let made = || watches.made(&store, &SharePath::parse("file").unwrap(), Kind::File);
        made();
        let watched_on_it = store.lineages.load(Ordering::Relaxed);
        watches.close(OpenId(1));
        made();
        (watched_on_it, store.lineages.load(Ordering::Relaxed) - watched_on_it)
    };
    assert_eq!(lineages(&[], None), (0, 0));
    assert_eq!(lineages(&[1, 2], None), (0, 0));
    assert_eq!(lineages(&[1, 0], None), (1, 0), "until the watch on it ends");
    assert_eq!(lineages(&[1, 0, 0], None), (1, 1));
    assert_eq!(lineages(&[1], Some(1)), (1, 1), "what is mounted on the way is not known");
}

/// A server whose pool works by hand, who has files open so far down, and who watches their directory for what is written.
async fn writing(levels: usize, files: usize) -> (Arc<Shared>, (Peer, FileId), (Peer, Vec<FileId>)) {
    let server = by_hand(server(Signing::Enabled));
    let (mut watcher, mut writer) = (Peer::sign_in(&server).await, Peer::sign_in(&server).await);
    for level in 1..=levels {
        make_directory(&mut writer, &path(level)).await;
    }
    let mut opens = Vec::new();
    for file in 0..files {
        opens.push(writer.open(&format!("{}\\{file}", path(levels))).await);
    }
    let directory = to_watch(&mut watcher, &path(levels)).await;
    (server, (watcher, directory), (writer, opens))
}

const WRITES: Asked = Asked { filter: Filter::LAST_WRITE, ..TREE };

async fn write_and_flush(peer: &mut Peer, file: FileId) {
    write(peer, file, b"data").await;
    let flush = FlushRequest { file_id: file, ..FlushRequest::default() };
    assert_eq!(peer.ask(Command::FLUSH, |body| flush.encode(body)).await.status(), Status::SUCCESS);
}

fn waiting(server: &Shared, writer: &Peer) -> (usize, usize) {
    let device = Device::Volume(server.configuration.load().shares[0].store.facts().volume);
    let session = writer.connection.channel(writer.session_id).unwrap().session.clone();
    let own = QueueKey { device, user: 0, session: 0 };
    (server.pool.waiting(session.queue_key(device)), server.pool.waiting(own))
}

#[tokio::test]
async fn the_pool_is_asked_once_for_an_open_in_the_turn_of_who_wrote() {
    here(async {
        let (server, (mut watcher, directory), (mut writer, opens)) = writing(LEVELS, 3).await;
        wait(&mut watcher, directory, WRITES).await;
        for _ in 0..10 {
            for open in &opens {
                write_and_flush(&mut writer, *open).await;
            }
        }
        assert!(watcher.take_frame().is_none(), "it is not told where all are served");
        assert_eq!(waiting(&server, &writer), (opens.len(), 0));
        let mut names = Vec::new();
        for _ in &opens {
            assert!(server.pool.work_once());
            let answer = watcher.receive().await;
            names.extend(told(&answer));
            wait(&mut watcher, directory, WRITES).await;
        }
        let expected = (0..3).map(|file| (Action::MODIFIED, file.to_string()));
        assert_eq!(names, expected.collect::<Vec<_>>());
        assert!(!server.pool.work_once());
        write_and_flush(&mut writer, opens[0]).await;
        assert_eq!(waiting(&server, &writer), (1, 0), "what comes later is told anew");
    })
    .await;
}

#[tokio::test]
async fn what_was_written_is_told_once_where_its_open_closes_before_the_pool_tells() {
    here(async {
        let (server, (mut watcher, directory), (mut writer, opens)) = writing(LEVELS, 1).await;
        wait(&mut watcher, directory, WRITES).await;
        write_and_flush(&mut writer, opens[0]).await;
        let id = OpenId::from_file_id(opens[0]).unwrap();
        let open: Arc<Open> = writer.connection.channel(writer.session_id).unwrap().session.open(id).unwrap();
        open.close(&server);
        assert_eq!(told(&watcher.receive().await), one(Action::MODIFIED, "0"));
        wait(&mut watcher, directory, WRITES).await;
        assert!(server.pool.work_once());
        assert!(answers(&mut watcher).await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn what_a_client_leaves_open_is_closed_in_its_users_turn() {
    here(async {
        let (server, (mut watcher, directory), (mut writer, opens)) = writing(LEVELS, 1).await;
        wait(&mut watcher, directory, WRITES).await;
        write_and_flush(&mut writer, opens[0]).await;
        assert!(server.pool.work_once());
        let user = writer.connection.channel(writer.session_id).unwrap().session.user.load_full();
        writer.disconnect();
        let volume = server.configuration.load().shares[0].store.facts().volume;
        let waiting = [QueueKey::of_server(volume), QueueKey::of_user(volume, user.number)]
            .map(|queue_key| server.pool.waiting(queue_key));
        assert_eq!(waiting, [0, 1]);
    })
    .await;
}

#[tokio::test]
async fn what_is_written_close_to_the_root_of_a_ram_disk_is_told_at_once() {
    here(async {
        let (server, (mut watcher, directory), (mut writer, opens)) = writing(3, 1).await;
        wait(&mut watcher, directory, WRITES).await;
        write(&mut writer, opens[0], b"data").await;
        assert_eq!(told(&watcher.receive().await), one(Action::MODIFIED, "0"));
        assert_eq!(waiting(&server, &writer), (0, 0));
    })
    .await;
}
