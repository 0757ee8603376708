//! What Macs ask for: the AAPL context, flushes by F_FULLFSYNC, listings that tell what the Finder wants to know, and names.

use std::sync::Arc;

use store::RamStore;
use wire::Utf16;
use wire::codec::utf16_bytes;
use wire::command::create::{AccessMask, CreateOptions, CreateResponse};
use wire::command::flush::FlushRequest;
use wire::command::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest, QueryDirectoryResponse};
use wire::context::apple::{
    AppleCapabilities, AppleCommand, AppleQuery, AppleRequest, AppleServerResponse, AppleVolume,
};
use wire::context::create::{CreateContextsBuilder, MaximalAccessResponse, name};
use wire::fscc::FileClass;
use wire::fscc::afp::AppleEntry;
use wire::fscc::directory::{apple_entry, entries};
use wire::ids::Command;
use wire::security::access::{FILE_GENERIC_READ, READ_ATTRIBUTES, READ_DATA, WRITE_DATA};
use wire::status::Status;

use crate::admin::Admin;
use crate::state::configuration::Signing;
use crate::state::shared::Shared;
use crate::tests::afp_tests::{here, other_who_may, servers, typed};
use crate::tests::testing::{Answer, Peer, server};

const EVERYTHING: AppleQuery = AppleQuery(0x07);
const ALL_CAPABILITIES: AppleCapabilities = AppleCapabilities(0x3F);

fn contexts_with(name: &[u8], data: &[u8]) -> Vec<u8> {
    CreateContextsBuilder::new().add(name, data).contexts().as_bytes().to_vec()
}

/// Opens the share's root with an AAPL context.
async fn ask_apple(peer: &mut Peer, data: &[u8]) -> Answer {
    let contexts = contexts_with(name::APPLE, data);
    peer.create_edited("", &contexts, |request| request.options = CreateOptions::DIRECTORY_FILE).await
}

async fn ask_server(peer: &mut Peer, query: AppleQuery, client: AppleCapabilities) -> Answer {
    ask_apple(peer, &AppleRequest::ServerQuery { query, client }.to_bytes()).await
}

/// A Mac that has asked what it may ask for.
async fn mac(server: &Arc<Shared>) -> Peer {
    let mut peer = Peer::sign_in(server).await;
    asks(&mut peer).await;
    peer
}

/// Asks as a Mac does what it may ask for.
async fn asks(peer: &mut Peer) {
    let root = ask_server(peer, EVERYTHING, ALL_CAPABILITIES).await.file_id();
    peer.close(root).await;
}

/// Parts of an answer to an AAPL context: the two sets of capabilities, and the model.
fn told(answer: &Answer) -> Option<(Option<u64>, Option<u64>, Option<String>)> {
    assert_eq!(answer.status(), Status::SUCCESS);
    let response = CreateResponse::decode(&answer.message).unwrap();
    let apple = AppleServerResponse::decode(response.contexts.find(name::APPLE)?).unwrap();
    let model = apple.model.map(|model| model.decode().unwrap());
    Some((apple.server.map(|server| server.0), apple.volume.map(|volume| volume.0), model))
}

#[tokio::test]
async fn a_mac_is_told_what_the_server_does_of_what_it_can() {
    let server = server(Signing::Enabled);
    let mut peer = Peer::sign_in(&server).await;
    let reads = AppleCapabilities::READ_DIR_ATTR;
    let all = ask_server(&mut peer, EVERYTHING, ALL_CAPABILITIES).await;
    assert_eq!(told(&all), Some((Some(reads.0), Some(0), Some("PowerMac".to_owned()))));
    let some = ask_server(&mut peer, AppleQuery::SERVER_CAPS, AppleCapabilities::UNIX_BASED).await;
    assert_eq!(told(&some), Some((Some(0), None, None)));
    let session = server.sessions.find(peer.session_id).unwrap();
    assert!(session.apple.is_mac() && !session.apple.have(reads), "the last answer counts");
}

#[tokio::test]
async fn full_flushes_are_told_of_where_a_share_of_the_account_is_for_time_machine() {
    let server = server(Signing::Enabled);
    let mut configuration = (**server.configuration.load()).clone();
    let backups = configuration.shares[0].clone();
    configuration.shares.push(crate::state::configuration::Share {
        name: "backups".into(),
        store: Arc::new(RamStore::new(1 << 20)),
        time_machine: true,
        ..backups
    });
    server.replace(configuration);
    let mut peer = Peer::sign_in(&server).await;
    let answer = ask_server(&mut peer, AppleQuery::VOLUME_CAPS, ALL_CAPABILITIES).await;
    assert_eq!(told(&answer), Some((None, Some(AppleVolume::FULL_SYNC.0), None)), "a Mac asks once for all shares");
}

#[tokio::test]
async fn what_is_no_server_query_goes_unanswered_and_half_a_one_is_refused() {
    let mut peer = Peer::sign_in(&server(Signing::Enabled)).await;
    for other in [AppleRequest::ResolveId { file_id: 1 }, AppleRequest::Other(AppleCommand(9))] {
        let answer = ask_apple(&mut peer, &other.to_bytes()).await;
        assert_eq!(told(&answer), None, "{other:?}");
    }
    let whole = AppleRequest::ServerQuery { query: EVERYTHING, client: ALL_CAPABILITIES }.to_bytes();
    for length in [0, 4, 8, 23] {
        assert_eq!(ask_apple(&mut peer, &whole[..length]).await.status(), Status::INVALID_PARAMETER, "{length}");
    }
}

#[tokio::test]
async fn a_mac_flushes_fully_by_an_open_that_only_reads() {
    here(async {
        let server = server(Signing::Enabled);
        let flush = async |peer: &mut Peer, reserved1| {
            let desired = AccessMask(READ_DATA | READ_ATTRIBUTES);
            let file_id = peer.create("file", |request| request.desired_access = desired).await.file_id();
            let request = FlushRequest { reserved1, file_id };
            peer.ask(Command::FLUSH, |body| request.encode(body)).await.status()
        };
        let (mut mac, mut other) = (mac(&server).await, Peer::sign_in(&server).await);
        assert_eq!(flush(&mut mac, 0xFFFF).await, Status::SUCCESS);
        assert_eq!(flush(&mut mac, 0).await, Status::ACCESS_DENIED);
        assert_eq!(flush(&mut other, 0xFFFF).await, Status::ACCESS_DENIED, "MS-SMB2 3.3.5.11");
    })
    .await;
}

/// What a listing of the root tells of `wanted`, and the length of its short name.
async fn listed(peer: &mut Peer, wanted: &str) -> (AppleEntry, u8) {
    let root = peer.open_directory("").await;
    let pattern = utf16_bytes(wanted);
    let request = QueryDirectoryRequest {
        class: FileClass::ID_BOTH_DIRECTORY,
        flags: QueryDirectoryFlags::NONE,
        file_id: root,
        pattern: Utf16::new(&pattern).unwrap(),
        output_buffer_length: 65_536,
        ..QueryDirectoryRequest::default()
    };
    let answer = peer.ask(Command::QUERY_DIRECTORY, |body| request.encode(body)).await;
    assert_eq!(answer.status(), Status::SUCCESS);
    peer.close(root).await;
    let output = QueryDirectoryResponse::decode(&answer.message).unwrap().output;
    let entry = entries(FileClass::ID_BOTH_DIRECTORY, output).next().unwrap().unwrap();
    assert_eq!(entry.name.decode().as_deref(), Some(wanted));
    (apple_entry(output).unwrap(), output[68])
}

/// What a CREATE tells of what its user could be granted.
async fn maximal(peer: &mut Peer, name: &str) -> u32 {
    let contexts = contexts_with(name::QUERY_MAXIMAL_ACCESS, &[]);
    let answer =
        peer.create_edited(name, &contexts, |request| request.desired_access = AccessMask(READ_ATTRIBUTES)).await;
    let response = CreateResponse::decode(&answer.message).unwrap();
    let told = MaximalAccessResponse::decode(response.contexts.find(name::QUERY_MAXIMAL_ACCESS).unwrap()).unwrap();
    peer.close(answer.file_id()).await;
    told.maximal_access.0
}

#[tokio::test]
async fn a_listing_tells_a_mac_what_it_would_ask_of_each_name() {
    here(async {
        let (_folder, servers) = servers();
        for server in servers {
            let mut owner = mac(&server).await;
            let (info, fork) = (owner.open("file:AFP_AfpInfo").await, owner.open("file:AFP_Resource").await);
            assert_eq!(owner.write(info, 0, &typed()).await, Status::SUCCESS);
            assert_eq!(owner.write(fork, 0, b"12345").await, Status::SUCCESS);
            let (entry, short_name_length) = listed(&mut owner, "file").await;
            assert_eq!((entry.resource_bytes, short_name_length), (5, 24));
            assert_eq!(entry.finder.to_bytes()[..8], *b"TEXTttxt");
            assert_eq!(entry.access_max, maximal(&mut owner, "file").await);
            let mut reader = other_who_may(&server, &mut owner, "file", FILE_GENERIC_READ).await;
            asks(&mut reader).await;
            let (entry, _) = listed(&mut reader, "file").await;
            assert_eq!(entry.access_max, maximal(&mut reader, "file").await);
            assert_eq!(entry.access_max & (READ_DATA | WRITE_DATA), READ_DATA);
            let directory = owner.open_directory("folder").await;
            owner.close(directory).await;
            let (entry, _) = listed(&mut owner, "folder").await;
            assert_eq!((entry.resource_bytes, &entry.finder.to_bytes()[..12]), (0, &[0; 12][..]));
        }
    })
    .await;
}

#[tokio::test]
async fn a_listing_tells_others_nothing_of_that() {
    here(async {
        let mut peer = Peer::sign_in(&server(Signing::Enabled)).await;
        let fork = peer.open("file:AFP_Resource").await;
        assert_eq!(peer.write(fork, 0, b"12345").await, Status::SUCCESS);
        assert_eq!(listed(&mut peer, "file").await, (AppleEntry::default(), 0));
    })
    .await;
}

#[tokio::test]
async fn names_with_a_macs_stand_ins_for_what_windows_forbids_are_kept() {
    here(async {
        let (folder, [server, _]) = servers();
        let mut peer = mac(&server).await;
        // Of a question mark, a trailing space, a trailing dot and a colon, which is Linux's stand-in for a quotation mark.
        let names = ["why\u{F025}", "end\u{F028}", "end\u{F029}", "a\u{F022}b"];
        for (name, on_disk) in names.into_iter().zip([names[0], names[1], names[2], "a\"b"]) {
            let file = peer.open(name).await;
            peer.close(file).await;
            listed(&mut peer, name).await;
            assert!(folder.path().join(on_disk).is_file(), "{name:?}");
        }
    })
    .await;
}
