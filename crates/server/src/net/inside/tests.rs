//! The server over a connection inside the process.

use std::future::poll_fn;
use std::rc::Rc;
use std::time::Duration;

use futures_util::FutureExt;
use store::{Kind, NewNode, RamStore, SharePath, Store, Waits, waiting};
use tokio::io::AsyncWriteExt;
use tokio::runtime::Builder;
use tokio::task::{LocalSet, spawn_local};
use wire::ids::Command;
use wire::status::Status;

use super::pieces::WAITING_BYTES_MAX;
use super::*;
use crate::state::configuration::{Configuration, Signing};
use crate::state::open::Target;
use crate::tests::file_tests::{assert_is_file, folder_with_file, read};
use crate::tests::testing::{Peer, framed, server_with};
use crate::{Config, Server};

/// Both directions as one stream.
pub(crate) struct Both {
    incoming: Incoming,
    outgoing: Outgoing,
    rest: Bytes,
}

impl Both {
    pub(crate) fn of(end: ClientEnd) -> Self {
        let (incoming, outgoing) = end.into_split();
        Both { incoming, outgoing, rest: Bytes::new() }
    }
}

impl AsyncRead for Both {
    fn poll_read(mut self: Pin<&mut Self>, task: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.rest.is_empty() {
            match ready!(self.incoming.poll_piece(task))? {
                Some(Piece::Bytes(bytes)) => self.rest = bytes,
                Some(Piece::File(part)) => self.rest = part.read().now_or_never().expect("it is in memory")?,
                None => return Poll::Ready(Ok(())),
            }
        }
        let count = self.rest.len().min(into.remaining());
        into.put_slice(&self.rest.split_to(count));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Both {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.outgoing).poll_write(task, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.outgoing).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.outgoing).poll_shutdown(task)
    }
}

/// What has arrived by now.
fn arrived(incoming: &mut Incoming) -> Vec<Piece> {
    let mut task = Context::from_waker(std::task::Waker::noop());
    let mut pieces = Vec::new();
    while let Poll::Ready(Ok(Some(piece))) = incoming.poll_piece(&mut task) {
        pieces.push(piece);
    }
    pieces
}

/// The bytes of a piece.
async fn bytes_of(piece: Piece) -> Bytes {
    match piece {
        Piece::Bytes(bytes) => bytes,
        Piece::File(part) => part.read().await.unwrap(),
    }
}

#[tokio::test]
async fn the_data_of_a_large_read_is_a_part_of_its_file() {
    let body = async {
        let (_folder, mut peer, file) = folder_with_file().await;
        let (near, far) = connection(&Spare::default(), &peer.connection.server.pool);
        let serving = spawn_local(Rc::clone(&peer.connection).serve(far, Vec::new()));
        let (mut incoming, mut outgoing) = near.into_split();
        outgoing.write_all(&framed(&read(&mut peer, file, 4096, 1 << 20))).await.unwrap();
        let head = bytes_of(poll_fn(|task| incoming.poll_piece(task)).await.unwrap().unwrap()).await;
        let data = poll_fn(|task| incoming.poll_piece(task)).await.unwrap().unwrap();
        let Piece::File(part) = data else { panic!("it was read") };
        assert_eq!((head.len(), part.len(), part.is_in_memory()), (84, 1 << 20, true));
        assert_is_file(&[&head[4..], &part.read().await.unwrap()].concat(), 4096, 1 << 20);
        drop((incoming, outgoing));
        serving.await.unwrap();
    };
    LocalSet::new().run_until(body).await;
}

#[test]
fn who_takes_nothing_keeps_no_shard_waiting_and_has_no_more_held_for_it_than_there_is_room_for() {
    let body = async {
        let (_folder, mut peer, file) = folder_with_file().await;
        let server = Arc::clone(&peer.connection.server);
        let (near, far) = connection(&Spare::default(), &server.pool);
        let serving = spawn_local(Rc::clone(&peer.connection).serve(far, Vec::new()));
        let (mut incoming, mut outgoing) = near.into_split();
        let requests: Vec<u8> = (0..40).flat_map(|_| framed(&read(&mut peer, file, 0, 1 << 20))).collect();
        outgoing.write_all(&requests).await.unwrap();
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        // The shard does what others ask meanwhile.
        let mut other = Peer::sign_in(&server).await;
        assert_eq!(
            other.ask(Command::ECHO, |body| body.extend_from_slice(&[4, 0, 0, 0])).await.status(),
            Status::SUCCESS
        );
        let held: usize = arrived(&mut incoming).iter().map(Length::length).sum();
        assert!((WAITING_BYTES_MAX..=WAITING_BYTES_MAX + PIECE_BYTES_MAX).contains(&held), "{held} bytes");
        assert!(peer.connection.outbox.borrow().bytes() < 3 << 20);
        // It goes on as soon as something is taken, and ends where nothing is for long.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(!serving.is_finished());
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(arrived(&mut incoming).len() > 1 && !serving.is_finished());
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert!(serving.is_finished());
        let broken = poll_fn(|task| incoming.poll_piece(task)).await;
        assert_eq!(broken.err().unwrap().kind(), io::ErrorKind::ConnectionReset);
    };
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    LocalSet::new().block_on(&runtime, body);
}

#[tokio::test]
async fn what_is_no_longer_in_memory_is_read_by_a_thread_that_may_wait() {
    let store = RamStore::that_waits(4 << 20, Waits::Always);
    let new = NewNode { kind: Kind::File, attributes: 0, security: None, owner: None };
    let node = store.create(&SharePath::parse("f").unwrap(), new).unwrap();
    node.write_at(&vec![7; (1 << 20) + 10], 0).unwrap();
    let server = server_with(Signing::Enabled, Arc::new(store));
    let (near, mut far) = connection(&Spare::default(), &server.pool);
    let mut incoming = near.into_split().0;
    waiting::forbid(waiting::Forbidden::Panics);
    poll_fn(|task| far.poll_send_file(task, &node, 5, (1 << 20) + 5)).await.unwrap();
    let Some(Piece::File(part)) = arrived(&mut incoming).pop() else { panic!("it was read") };
    assert!(!part.is_in_memory());
    let read = part.read().await.unwrap();
    assert!(read.len() == (1 << 20) + 5 && read.iter().all(|byte| *byte == 7));
    for (offset, length) in [(5, 2 << 20), (0, (1 << 20) + 11), (2 << 20, 1)] {
        poll_fn(|task| far.poll_send_file(task, &node, offset, length)).await.unwrap();
        let Some(Piece::File(part)) = arrived(&mut incoming).pop() else { panic!("it was read") };
        let cut = part.read().await.map(|read| read.len()).map_err(|error| error.kind());
        assert_eq!(
            cut,
            Err(io::ErrorKind::UnexpectedEof),
            "{length} bytes of what the file has no more, from {offset}"
        );
    }
    waiting::forbid(waiting::Forbidden::Not);
}

#[tokio::test]
async fn a_part_of_a_file_is_sent_from_the_page_cache() {
    let body = async {
        let (folder, peer, file) = folder_with_file().await;
        let node = match &peer.opened(&peer.connection.server, file).target {
            Target::File(file) => Arc::clone(&file.node),
            Target::Pipe(_) => panic!("no file"),
        };
        let (near, mut far) = connection(&Spare::default(), &peer.connection.server.pool);
        let mut incoming = near.into_split().0;
        poll_fn(|task| far.poll_send_file(task, &node, (3 << 20) - 100, 150)).await.unwrap();
        let Some(Piece::File(mut part)) = arrived(&mut incoming).pop() else { panic!("it was read") };
        let (socket, mut other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!((part.send(&socket, 60).unwrap(), part.len()), (60, 90));
        assert_eq!((part.send(&socket, 90).unwrap(), part.len()), (40, 50));
        assert_eq!(part.send(&socket, 50).unwrap(), 0, "the file has no more");
        drop(socket);
        let mut sent = Vec::new();
        std::io::Read::read_to_end(&mut other, &mut sent).unwrap();
        assert_eq!(sent, std::fs::read(folder.path().join("file")).unwrap()[(3 << 20) - 100..]);
    };
    LocalSet::new().run_until(body).await;
}

#[tokio::test]
async fn what_is_sent_arrives_and_what_the_other_end_left_is_known() {
    let server = server_with(Signing::Enabled, Arc::new(RamStore::new(1 << 20)));
    let (near, mut far) = connection(&Spare::default(), &server.pool);
    let long = vec![9; LENT_BYTES_MIN];
    let slices = [IoSlice::new(b"head"), IoSlice::new(&long), IoSlice::new(&long)];
    assert_eq!(poll_fn(|task| far.poll_send(task, &slices, true)).await.unwrap(), 4 + 2 * LENT_BYTES_MIN);
    assert_eq!(far.unacknowledged(), Some(4 + 2 * LENT_BYTES_MIN as u64));
    let (mut incoming, outgoing) = near.into_split();
    let Some(Piece::Bytes(piece)) = arrived(&mut incoming).pop() else { panic!("it is no file") };
    assert!(piece.starts_with(b"head\x09") && piece.len() == 4 + 2 * LENT_BYTES_MIN);
    assert_eq!((far.unacknowledged(), far.has_hung_up()), (Some(0), false));
    drop(outgoing);
    assert!(far.has_hung_up());
    drop(incoming);
    let refused = poll_fn(|task| far.poll_send(task, &[IoSlice::new(b"x")], false)).await;
    assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn the_process_connects_to_its_server_like_others_until_that_ends() {
    let known = server_with(Signing::Enabled, Arc::new(RamStore::new(1 << 20)));
    let configuration = Configuration::clone(&known.configuration.load_full());
    let config =
        Config { listen: vec!["127.0.0.1:0".parse().unwrap()], shards: 2, opens: None, metadata_cache_bytes: None };
    let server = Server::start(&config, configuration).unwrap();
    let (admin, connector) = (server.admin(), server.connector(server.addresses()[0]));
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    let ends: Vec<_> = (0..2).map(|_| runtime.block_on(connector.connect()).unwrap()).collect();
    assert_eq!(admin.connections(), [1, 1]);
    drop(ends);
    while admin.connections() != [0, 0] {
        std::thread::yield_now();
    }
    server.stop(Duration::ZERO);
    let refused = runtime.block_on(connector.connect()).err().unwrap();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
}
