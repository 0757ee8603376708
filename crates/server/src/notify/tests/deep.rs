//! Changes far down, below directories that are watched.

use super::*;
use crate::turns::STEP_COST;

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
    let mut buffer = Vec::new();
    Rename::encode(&at("two"), false, &mut buffer);
    assert_eq!(actor.set(file, FileClass::RENAME, &buffer).await, Status::SUCCESS);
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
