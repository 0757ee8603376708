//! Which files are used most is known about, from samples.

use std::time::Duration;

use wire::status::Status;

use crate::admin::{Admin, Signing};
use crate::tests::testing::{Peer, server};

/// That anything is seen as long as the samples are, the tests take less.
const LONG: Duration = Duration::from_secs(3_600);

#[tokio::test]
async fn files_are_told_by_how_much_they_are_used() {
    let server = server(Signing::Enabled);
    let mut peer = Peer::sign_in(&server).await;
    let (busy, quiet, idle) = (peer.open("busy").await, peer.open("quiet").await, peer.open("idle").await);
    for file in [busy, quiet, idle] {
        assert_eq!(peer.write(file, 0, &[7; 1000]).await, Status::SUCCESS);
    }
    // In turn, as samples at equal distances would see one of them alone.
    for _ in 0..2_000 {
        for _ in 0..3 {
            assert_eq!(peer.read(busy, 0, 1000).await.status(), Status::SUCCESS);
        }
        assert_eq!(peer.write(quiet, 0, &[8; 500]).await, Status::SUCCESS);
    }
    let files = server.busy_files(LONG, 2);
    assert_eq!(files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["busy", "quiet"]);
    let (seconds, first, second) = (LONG.as_secs_f64(), &files[0], &files[1]);
    let about = |found: f64, of: f64| assert!((0.7..1.3).contains(&(found * seconds / of)), "{found} of {of}");
    about(first.iops, 6_000.0);
    about(first.read_bytes, 6e6);
    about(second.iops, 2_000.0);
    about(second.written_bytes, 1e6);
    assert_eq!((first.share.as_str(), first.written_bytes, second.read_bytes), ("ram", 0.0, 0.0));
    assert!(server.busy_files(Duration::ZERO, 9).is_empty());
    peer.close(busy).await;
    assert!(server.busy_files(LONG, 9).iter().all(|file| file.path != "busy"), "a file is known while it is open");
}
