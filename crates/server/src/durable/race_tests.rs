//! What happens to opens that outlive their connection while something else happens to them.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use store::SharePath;

use super::persistent::record;
use super::tests::{GUID, Machine, create, file_id, persistent, persistent_peer, run};
use crate::Shared;
use crate::open::{Open, OpenId};
use crate::testing::Peer;

/// How often two threads try to meet.
const MEETINGS: usize = 50_000;
/// How long they may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A persistent open, in its session.
async fn persistent_open(server: &Arc<Shared>, name: &str) -> (Peer, Arc<Open>) {
    let mut peer = persistent_peer(server).await;
    let id = file_id(&create(&mut peer, name, &persistent(GUID)).await);
    let session = server.sessions.find(peer.session_id).unwrap();
    let open = session.open(OpenId(id.persistent)).unwrap();
    (peer, open)
}

/// Runs both on threads of their own; panics where they do not come to an end.
fn beside_each_other(one: impl FnOnce() + Send + 'static, other: impl FnOnce() + Send + 'static) {
    let (ended, ends) = mpsc::channel();
    let works: [Box<dyn FnOnce() + Send>; 2] = [Box::new(one), Box::new(other)];
    for work in works {
        let ended = ended.clone();
        thread::spawn(move || {
            work();
            ended.send(()).unwrap();
        });
    }
    for _ in 0..2 {
        ends.recv_timeout(PATIENCE).expect("both come to an end");
    }
}

#[test]
fn an_open_is_recorded_while_its_file_is_renamed() {
    run(async {
        let machine = Machine::new();
        let (_peer, open) = persistent_open(&machine.start(), "file").await;
        let (recorded, renamed) = (Arc::clone(&open), open);
        beside_each_other(
            move || (0..MEETINGS).for_each(|_| drop(record(&recorded, recorded.file().unwrap()))),
            move || {
                let name = SharePath::parse("file").unwrap();
                (0..MEETINGS).for_each(|_| renamed.file().unwrap().file.renamed(&name, &name));
            },
        );
    });
}
