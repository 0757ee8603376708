//! The hot path allocates nothing (the third law of the hot path).

use std::sync::Arc;

use secure::sign::SigningAlgorithm;
use store::{DirectoryStore, Store};
use wire::command::read::ReadRequest;
use wire::command::write::WriteRequest;
use wire::header::Header;
use wire::ids::{Command, FileId};
use wire::status::Status;

use crate::request::outbox::Next;
use crate::state::configuration::Signing;
use crate::tests::testing::{Peer, Terms, server, server_with};

/// Requests of each kind in one measurement.
const REQUESTS: usize = 64;

async fn write_and_read(peer: &mut Peer, block: usize, count: impl Fn(&mut dyn FnMut()) -> u64) {
    let file = peer.open("file").await;
    let data = vec![0x5a; block];
    let mut writes = requests(peer, Command::WRITE, |body| {
        WriteRequest { file_id: file, data: &data, ..WriteRequest::default() }.encode(body);
    });
    measured(peer, "WRITE", block, &mut writes, &count);
    read(peer, file, block, count);
}

fn read(peer: &mut Peer, file: FileId, block: usize, count: impl Fn(&mut dyn FnMut()) -> u64) {
    let mut reads = requests(peer, Command::READ, |body| {
        ReadRequest { file_id: file, length: block as u32, ..ReadRequest::default() }.encode(body);
    });
    measured(peer, "READ", block, &mut reads, &count);
}

fn measured(peer: &Peer, name: &str, block: usize, requests: &mut [Vec<u8>], count: &impl Fn(&mut dyn FnMut()) -> u64) {
    // The first lends buffers and makes pages.
    run(peer, &mut requests[..1]);
    peer.discard();
    let allocations = count(&mut || run(peer, &mut requests[1..]));
    assert_eq!(allocations, 0, "{name} of {block} bytes allocates");
}

fn requests(peer: &mut Peer, command: Command, body: impl Fn(&mut Vec<u8>)) -> Vec<Vec<u8>> {
    (0..REQUESTS).map(|_| peer.message(command, &body)).collect()
}

fn run(peer: &Peer, requests: &mut [Vec<u8>]) {
    for request in requests {
        peer.process(request).unwrap();
        let outbox = peer.connection.outbox.borrow();
        let Next::Bytes { bytes, .. } = outbox.next() else { panic!("nothing is queued") };
        let header = Header::decode(&bytes[4..]).unwrap();
        assert_eq!(header.status, Status::SUCCESS);
        drop(outbox);
        peer.discard();
    }
}

fn allocations(work: &mut dyn FnMut()) -> u64 {
    allocation_counter::measure(work).count_total
}

#[tokio::test]
async fn plain_reads_and_writes_on_a_ram_disk_allocate_nothing() {
    let mut peer = Peer::sign_in(&server(Signing::Enabled)).await;
    peer.signing_key = None;
    write_and_read(&mut peer, 4096, allocations).await;
}

#[tokio::test]
async fn signed_reads_and_writes_on_a_ram_disk_allocate_nothing() {
    for signing in [SigningAlgorithm::AesCmac, SigningAlgorithm::AesGmac] {
        let terms = Terms { signing: Some(signing), ..Terms::default() };
        let mut peer = Peer::sign_in_as(&server(Signing::Required), terms).await;
        write_and_read(&mut peer, 65_536, allocations).await;
    }
}

#[tokio::test]
async fn plain_reads_in_a_folder_allocate_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(DirectoryStore::open(folder.path(), Default::default()).unwrap());
    // What waits for a folder is a task of the shard.
    let shard = tokio::task::LocalSet::new();
    shard
        .run_until(async {
            let mut peer = Peer::sign_in(&server_with(Signing::Enabled, store)).await;
            peer.signing_key = None;
            let file = peer.open("file").await;
            let data = vec![0x5a; 65_536];
            assert_eq!(peer.write(file, 0, &data).await, Status::SUCCESS);
            for block in [4096, 65_536] {
                read(&mut peer, file, block, allocations);
            }
        })
        .await;
}

#[tokio::test]
async fn the_measure_sees_an_allocation() {
    assert!(allocations(&mut || drop(std::hint::black_box(vec![1u8; 10]))) > 0);
}
