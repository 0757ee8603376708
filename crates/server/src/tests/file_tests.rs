//! Large reads of a folder leave as parts of files between bytes (`outbox.rs`, `transport.rs`).

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use store::{DirectoryStore, Node, Store};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::task::LocalSet;
use wire::command::read::{ReadRequest, ReadResponse};
use wire::header::Header;
use wire::ids::{Command, FileId};
use wire::status::Status;

use crate::net::inside::tests::Both;
use crate::net::inside::{Spare, connection};
use crate::net::transport::Transport;
use crate::request::outbox::Next;
use crate::state::configuration::Signing;
use crate::tests::testing::{Peer, framed, next_message, server_with};

const FILE_BYTES: usize = 3 << 20;

/// A signed-in client that does not sign, and its file in a folder, open.
pub(crate) async fn folder_with_file() -> (TempDir, Peer, FileId) {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(DirectoryStore::open(folder.path(), Default::default()).unwrap());
    let mut peer = Peer::sign_in(&server_with(Signing::Enabled, store)).await;
    let file = peer.open("file").await;
    std::fs::write(folder.path().join("file"), (0..FILE_BYTES).map(byte_at).collect::<Vec<u8>>()).unwrap();
    peer.signing_key = None;
    (folder, peer, file)
}

fn byte_at(offset: usize) -> u8 {
    (offset / 7 + offset / 4096) as u8
}

pub(crate) fn read(peer: &mut Peer, file_id: FileId, offset: usize, length: usize) -> Vec<u8> {
    let request = ReadRequest { file_id, offset: offset as u64, length: length as u32, ..ReadRequest::default() };
    let header = peer.charged(Command::READ, length);
    peer.complete(header, |body| request.encode(body))
}

pub(crate) fn assert_is_file(message: &[u8], offset: usize, length: usize) {
    assert_eq!(Header::decode(message).unwrap().status, Status::SUCCESS);
    let data = ReadResponse::decode(message).unwrap().data;
    assert_eq!(data.len(), length);
    assert!(data.iter().zip(offset..).all(|(byte, at)| *byte == byte_at(at)), "{length} bytes at {offset}");
}

/// Reads large and small, all sent before the first answer is taken.
const READS: [(usize, usize); 8] = [
    (0, 1 << 20),
    (5, 4096),
    (1 << 20, 200_000),
    (17, 65_537),
    (40, 3),
    (FILE_BYTES - 100_000, 100_000),
    (FILE_BYTES - 70_000, 1 << 20),
    (2 << 20, 32_768),
];

async fn reads_arrive_whole_and_in_order(
    ours: impl Transport + 'static,
    mut theirs: impl AsyncRead + AsyncWrite + Unpin,
) {
    let (_folder, mut peer, file) = folder_with_file().await;
    let connection = Rc::clone(&peer.connection);
    let serving = tokio::task::spawn_local(connection.serve(ours, Vec::new()));
    let requests: Vec<u8> =
        READS.iter().flat_map(|(offset, length)| framed(&read(&mut peer, file, *offset, *length))).collect();
    theirs.write_all(&requests).await.unwrap();
    for (offset, length) in READS {
        assert_is_file(&next_message(&mut theirs).await, offset, length.min(FILE_BYTES - offset));
    }
    drop(theirs);
    serving.await.unwrap();
}

#[tokio::test]
async fn reads_of_files_and_bytes_leave_in_order_however_little_the_transport_takes() {
    for capacity in [1_000, 100_000] {
        let (ours, theirs) = tokio::io::duplex(capacity);
        LocalSet::new().run_until(reads_arrive_whole_and_in_order(ours, theirs)).await;
    }
}

#[tokio::test]
async fn reads_of_files_and_bytes_leave_in_order_through_a_socket() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let theirs = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let ours = listener.accept().await.unwrap().0;
    LocalSet::new().run_until(reads_arrive_whole_and_in_order(ours, theirs)).await;
}

#[tokio::test]
async fn reads_of_files_and_bytes_leave_in_order_inside_the_process() {
    let server = server_with(Signing::Enabled, Arc::new(store::RamStore::new(1 << 20)));
    let (near, far) = connection(&Spare::default(), &server.pool);
    LocalSet::new().run_until(reads_arrive_whole_and_in_order(far, Both::of(near))).await;
}

#[tokio::test]
async fn what_a_file_has_lost_since_its_length_was_promised_is_sent_as_zeros() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut theirs = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let ours = listener.accept().await.unwrap().0;
    let body = async {
        let (folder, mut peer, file) = folder_with_file().await;
        for offset in [0, 1000] {
            let mut request = read(&mut peer, file, offset, 1 << 20);
            peer.process(&mut request).unwrap();
        }
        std::fs::File::options().write(true).open(folder.path().join("file")).unwrap().set_len(300_000).unwrap();
        let serving = tokio::task::spawn_local(Rc::clone(&peer.connection).serve(ours, Vec::new()));
        for offset in [0, 1000] {
            let message = next_message(&mut theirs).await;
            let data = ReadResponse::decode(&message).unwrap().data;
            assert_eq!(data.len(), 1 << 20);
            let (kept, lost) = data.split_at(300_000 - offset);
            assert!(kept.iter().zip(offset..).all(|(byte, at)| *byte == byte_at(at)));
            assert!(lost.iter().all(|byte| *byte == 0));
        }
        drop(theirs);
        serving.await.unwrap();
    };
    LocalSet::new().run_until(body).await;
}

#[tokio::test]
async fn a_client_that_takes_nothing_holds_no_more_than_a_batch() {
    let body = async {
        let (_folder, mut peer, file) = folder_with_file().await;
        let (ours, mut theirs) = tokio::io::duplex(16 << 10);
        let serving = tokio::task::spawn_local(Rc::clone(&peer.connection).serve(ours, Vec::new()));
        for _ in 0..40 {
            theirs.write_all(&framed(&read(&mut peer, file, 0, 1 << 20))).await.unwrap();
            tokio::task::yield_now().await;
        }
        let queued = peer.connection.outbox.borrow().bytes();
        assert!((1 << 19..2 << 20).contains(&queued), "{queued} bytes are queued");
        for _ in 0..40 {
            assert_is_file(&next_message(&mut theirs).await, 0, 1 << 20);
        }
        drop(theirs);
        serving.await.unwrap();
    };
    LocalSet::new().run_until(body).await;
}

#[tokio::test]
async fn only_large_reads_that_nobody_signs_leave_as_files() {
    let body = async {
        let (_folder, mut peer, file) = folder_with_file().await;
        for (length, as_file) in [(4096, false), (32_767, false), (32_768, true), (1 << 20, true)] {
            let mut request = read(&mut peer, file, 0, length);
            peer.process(&mut request).unwrap();
            assert_eq!(holds_file(&peer), as_file, "{length} bytes");
            assert_is_file(&peer.take_frame().unwrap(), 0, length);
        }
    };
    LocalSet::new().run_until(body).await;
}

/// A stream whose files lie on a disk that gives nothing.
struct BadDisk(tokio::io::DuplexStream);

impl AsyncRead for BadDisk {
    fn poll_read(mut self: Pin<&mut Self>, task: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(task, into)
    }
}

impl Transport for BadDisk {
    fn poll_send(&mut self, task: &mut Context<'_>, bytes: &[IoSlice<'_>], more: bool) -> Poll<io::Result<usize>> {
        self.0.poll_send(task, bytes, more)
    }

    fn poll_send_file(
        &mut self,
        _task: &mut Context<'_>,
        _node: &Arc<dyn Node>,
        _offset: u64,
        _length: usize,
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(rustix::io::Errno::IO.into()))
    }
}

#[tokio::test]
async fn a_file_that_the_disk_does_not_give_ends_one_connection_and_is_read_before_it_is_promised_from_then_on() {
    let body = async {
        let (_folder, mut peer, file) = folder_with_file().await;
        let server = Arc::clone(&peer.connection.server);
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        let serving = tokio::task::spawn_local(Rc::clone(&peer.connection).serve(BadDisk(ours), Vec::new()));
        theirs.write_all(&framed(&read(&mut peer, file, 0, 1 << 20))).await.unwrap();
        let mut sent = Vec::new();
        theirs.read_to_end(&mut sent).await.unwrap();
        assert!(sent.len() < 100, "no byte stands for what the disk did not give");
        serving.await.unwrap();
        let mut again = Peer::sign_in(&server).await;
        again.signing_key = None;
        let file = again.open("file").await;
        let mut request = read(&mut again, file, 0, 1 << 20);
        again.process(&mut request).unwrap();
        assert!(!holds_file(&again));
        let answer = again.receive().await;
        assert_is_file(&answer.message, 0, 1 << 20);
    };
    LocalSet::new().run_until(body).await;
}

fn holds_file(peer: &Peer) -> bool {
    let outbox = peer.connection.outbox.borrow();
    match outbox.next() {
        Next::Bytes { more, .. } => more,
        Next::Nothing | Next::File { .. } => false,
    }
}
