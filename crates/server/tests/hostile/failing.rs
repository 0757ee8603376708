//! A store with a bug, and one whose device hangs: each harms who asks for it, and nobody else.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::Duration;

use parking_lot::Mutex;
use server::Server;
use store::{Error, Facts, RamStore, Resolved, SharePath, Space, Store, Use};

use crate::kit::configuration::configuration;
use crate::peer::{End, Peer};
use crate::start;

/// A RAM disk that panics where `panic` is asked for, and hangs where `hang` is, until it is let go.
struct Failing {
    disk: RamStore,
    hanging: SyncSender<()>,
    let_go: Mutex<Receiver<()>>,
}

fn is(path: &SharePath, name: &str) -> bool {
    path.names().any(|part| part == name)
}

impl Store for Failing {
    fn facts(&self) -> Facts {
        Facts { never_blocks: false, ..self.disk.facts() }
    }

    fn space(&self) -> Result<Space, Error> {
        self.disk.space()
    }

    fn resolve(&self, path: &SharePath, usage: Use) -> Result<Resolved, Error> {
        if is(path, "hang") {
            let _ = self.hanging.send(());
            let _ = self.let_go.lock().recv();
        }
        self.disk.resolve(path, usage)
    }

    fn try_resolve(&self, path: &SharePath, usage: Use) -> Result<Resolved, Error> {
        assert!(!is(path, "panic"), "a bug that a test asked for");
        if is(path, "hang") { Err(Error::WouldBlock) } else { self.disk.try_resolve(path, usage) }
    }
}

/// A server on such a store; what is told when somebody hangs, and what lets go.
fn failing() -> (Server, Receiver<()>, SyncSender<()>) {
    let ((hanging, hangs), (lets_go, let_go)) = (mpsc::sync_channel(1), mpsc::sync_channel(1));
    let store = Failing { disk: RamStore::new(1 << 20), hanging, let_go: Mutex::new(let_go) };
    (start(1, configuration(Arc::new(store))), hangs, lets_go)
}

fn ask_for(peer: &mut Peer, name: &str) {
    let message = peer.create_message(name, &[], |_| ());
    peer.send(&message);
}

#[test]
fn a_panic_ends_its_connection_alone_and_gives_back_what_that_held() {
    let (server, _, _) = failing();
    let address = server.addresses()[0];
    let mut bystander = Peer::signed_in(address);
    bystander.write_and_read_back("bystander");
    for _ in 0..3 {
        let mut peer = Peer::signed_in(address);
        peer.open("file");
        ask_for(&mut peer, "panic");
        assert_eq!(peer.end(), End::Disconnected);
    }
    bystander.write_and_read_back("bystander");
    // The reset may overtake the end of what lived there.
    while server.admin().session_count() > 1 || server.admin().connections().iter().sum::<usize>() > 1 {
        std::thread::yield_now();
    }
    assert!(server.admin().opens().all(|open| open.path == "bystander"));
    drop(bystander);
    server.stop(Duration::ZERO);
}

#[test]
fn a_server_stops_though_a_device_hangs() {
    let (server, hangs, lets_go) = failing();
    let mut peer = Peer::signed_in(server.addresses()[0]);
    ask_for(&mut peer, "hang");
    hangs.recv().unwrap();
    server.stop(Duration::ZERO);
    assert_eq!(peer.end(), End::Disconnected);
    lets_go.send(()).unwrap();
}
