//! QUERY_INFO as clients see it.

use tokio::task::LocalSet;
use wire::command::create::{CreateDisposition, CreateRequest};
use wire::command::error::ErrorResponse;
use wire::command::query_info::{InfoClass, InfoType, QueryInfoFlags, QueryInfoRequest, QueryInfoResponse};
use wire::fscc::FileClass;
use wire::fscc::FileSystemClass;
use wire::fscc::ea::{FullEa, FullEaWriter, full_eas};
use wire::fscc::file::{All, AllFixed, Name, Standard};
use wire::fscc::filesystem::{Attribute, FileSystemAttributes, FullSize, Volume};
use wire::fscc::stream::streams;
use wire::ids::{Command, FileId};
use wire::security::access::{FILE_ALL, READ_DATA};
use wire::security::{SecurityDescriptor, SecurityInformation};
use wire::status::Status;

use super::*;
use crate::state::configuration::Signing;
use crate::tests::testing::{Answer, Peer, server};

const ROOM: u32 = 4096;

async fn peer() -> Peer {
    Peer::sign_in(&server(Signing::Enabled)).await
}

fn output(answer: &Answer) -> &[u8] {
    QueryInfoResponse::decode(&answer.message).unwrap().output
}

async fn ask(peer: &mut Peer, info_type: InfoType, class: u8, additional: u32, file_id: FileId, room: u32) -> Answer {
    let request = QueryInfoRequest {
        info_type,
        class: InfoClass(class),
        output_buffer_length: room,
        additional_information: additional,
        file_id,
        ..QueryInfoRequest::default()
    };
    peer.ask(Command::QUERY_INFO, |body| request.encode(body)).await
}

#[test]
fn what_does_not_fit_is_cut_and_said_so() {
    let whole = Room(4).reply(|out| out.extend_from_slice(b"1234"));
    assert_eq!((whole.status, whole.body.len()), (Status::SUCCESS, 12));
    let cut = Room(3).reply(|out| out.extend_from_slice(b"1234"));
    assert_eq!((cut.status, &cut.body[4..]), (Status::BUFFER_OVERFLOW, &[3, 0, 0, 0, b'1', b'2', b'3'][..]));
    assert_eq!(Room(3).require(4), Err(Status::INFO_LENGTH_MISMATCH));
    assert_eq!(Room(4).require(4), Ok(()));
}

#[tokio::test]
async fn everything_about_a_file_is_told_in_one() {
    let mut peer = peer().await;
    let file = peer.open("file").await;
    assert_eq!(peer.set(file, FileClass::END_OF_FILE, &5_u64.to_le_bytes()).await, Status::SUCCESS);
    let answer = peer.query(file, FileClass::ALL, ROOM).await;
    let all = All::decode(output(&answer)).unwrap();
    assert_eq!(all.name.decode().as_deref(), Some("\\file"));
    assert_eq!((all.fixed.standard.end_of_file, all.fixed.standard.links), (5, 1));
    assert_eq!(all.fixed.access.access, FILE_ALL);
    let cut = peer.query(file, FileClass::ALL, 104).await;
    assert_eq!((cut.status(), output(&cut).len()), (Status::BUFFER_OVERFLOW, 104));
    assert_eq!(peer.query(file, FileClass::ALL, 103).await.status(), Status::INFO_LENGTH_MISMATCH);
    assert_eq!(AllFixed::decode(output(&cut)).unwrap(), all.fixed);
}

#[tokio::test]
async fn attributes_are_for_those_who_may_read_them() {
    let mut peer = peer().await;
    let made = peer.create("file", |request| request.desired_access = READ_DATA.into()).await;
    let file = made.file_id();
    assert_eq!(peer.query(file, FileClass::BASIC, ROOM).await.status(), Status::ACCESS_DENIED);
    assert_eq!(peer.query(file, FileClass::STANDARD, ROOM).await.status(), Status::SUCCESS);
    assert_eq!(peer.query(file, FileClass::FULL_EA, ROOM).await.status(), Status::ACCESS_DENIED);
    let which = SecurityInformation::DACL.0;
    let denied = ask(&mut peer, InfoType::SECURITY, 0, which, file, ROOM).await;
    assert_eq!(denied.status(), Status::ACCESS_DENIED);
}

#[tokio::test]
async fn a_file_about_to_go_has_no_name_left() {
    let mut peer = peer().await;
    let file = peer.open("file").await;
    assert_eq!(peer.set(file, FileClass::DISPOSITION, &[1]).await, Status::SUCCESS);
    let answer = peer.query(file, FileClass::STANDARD, ROOM).await;
    let standard = Standard::decode(output(&answer)).unwrap();
    assert_eq!((standard.delete_pending, standard.links), (true, 0));
}

#[tokio::test]
async fn streams_are_listed_behind_the_data() {
    let mut peer = peer().await;
    let file = peer.open("file").await;
    peer.open("file:second").await;
    let answer = peer.query(file, FileClass::STREAM, ROOM).await;
    let told: Vec<_> = streams(output(&answer)).map(|stream| stream.unwrap().name.decode().unwrap()).collect();
    assert_eq!(told, ["::$DATA", ":second:$DATA"]);
    assert_eq!(peer.query(file, FileClass::STREAM, 40).await.status(), Status::BUFFER_OVERFLOW);
    let directory = peer.open_directory("dir").await;
    assert!(output(&peer.query(directory, FileClass::STREAM, ROOM).await).is_empty());
}

#[tokio::test]
async fn streams_that_are_too_many_for_a_shard_are_told_and_removed_all_the_same() {
    LocalSet::new()
        .run_until(async {
            let mut peer = peer().await;
            let file = peer.open("file").await;
            let mut names = vec!["::$DATA".to_owned()];
            for number in 100..200 {
                let stream = peer.open(&format!("file:{number}")).await;
                peer.close(stream).await;
                names.push(format!(":{number}:$DATA"));
            }
            let told = |answer: &Answer| -> Vec<String> {
                streams(output(answer)).map(|stream| stream.unwrap().name.decode().unwrap()).collect()
            };
            let answer = peer.query(file, FileClass::STREAM, 65_536).await;
            assert_eq!((answer.status(), told(&answer)), (Status::SUCCESS, names.clone()));
            let answer = peer.query(file, FileClass::STREAM, 4_000).await;
            assert_eq!(answer.status(), Status::BUFFER_OVERFLOW);
            let some = told(&answer);
            assert!(some.len() > 64 && names.starts_with(&some));
            let overwrite = |request: &mut CreateRequest<'_>| request.disposition = CreateDisposition::OVERWRITE;
            assert_eq!(peer.create("file", overwrite).await.status(), Status::SUCCESS);
            let answer = peer.query(file, FileClass::STREAM, 65_536).await;
            assert_eq!(told(&answer), ["::$DATA"]);
        })
        .await;
}

#[tokio::test]
async fn names_have_no_leading_separator_once_normalized() {
    let mut peer = peer().await;
    peer.open_directory("Dir").await;
    let file = peer.open("dir\\File").await;
    let answer = peer.query(file, FileClass::NORMALIZED_NAME, ROOM).await;
    assert_eq!(Name::decode(output(&answer)).unwrap().0.decode().as_deref(), Some("Dir\\File"));
}

#[tokio::test]
async fn extended_attributes_are_told_one_after_the_other() {
    let mut peer = peer().await;
    let file = peer.open("file").await;
    assert_eq!(peer.query(file, FileClass::FULL_EA, ROOM).await.status(), Status::NO_EAS_ON_FILE);
    let mut list = Vec::new();
    let mut writer = FullEaWriter::new(&mut list, 100);
    for name in [b"ONE", b"TWO"] {
        assert!(writer.push(&FullEa { flags: 0, name, value: b"value" }));
    }
    assert_eq!(peer.set(file, FileClass::FULL_EA, &list).await, Status::SUCCESS);
    let request = QueryInfoRequest {
        info_type: InfoType::FILE,
        class: FileClass::FULL_EA.into(),
        output_buffer_length: ROOM,
        flags: QueryInfoFlags::RETURN_SINGLE_ENTRY,
        file_id: file,
        ..QueryInfoRequest::default()
    };
    for name in [&b"ONE"[..], b"TWO"] {
        let answer = peer.ask(Command::QUERY_INFO, |body| request.encode(body)).await;
        let told: Vec<_> = full_eas(output(&answer)).map(|ea| ea.unwrap().name.to_vec()).collect();
        assert_eq!((answer.status(), told), (Status::SUCCESS, vec![name.to_vec()]));
    }
    let end = peer.ask(Command::QUERY_INFO, |body| request.encode(body)).await;
    assert_eq!(end.status(), Status::NO_MORE_EAS);
    let beyond = QueryInfoRequest { flags: QueryInfoFlags::INDEX_SPECIFIED, additional_information: 3, ..request };
    let beyond = peer.ask(Command::QUERY_INFO, |body| beyond.encode(body)).await;
    assert_eq!(beyond.status(), Status::NONEXISTENT_EA_ENTRY);
}

#[tokio::test]
async fn the_file_system_says_what_it_can() {
    let mut peer = peer().await;
    let root = peer.open_directory("").await;
    let kind = InfoType::FILESYSTEM;
    let answer = ask(&mut peer, kind, FileSystemClass::ATTRIBUTE.0, 0, root, ROOM).await;
    let attribute = Attribute::<wire::Utf16<'_>>::decode(output(&answer)).unwrap();
    assert_eq!(attribute.name.decode().as_deref(), Some("NTFS"));
    let wanted = FileSystemAttributes::NAMED_STREAMS | FileSystemAttributes::SUPPORTS_BLOCK_REFCOUNTING;
    assert!(attribute.attributes.contains(wanted));
    let answer = ask(&mut peer, kind, FileSystemClass::VOLUME.0, 0, root, ROOM).await;
    let volume = Volume::<wire::Utf16<'_>>::decode(output(&answer)).unwrap();
    assert_eq!(volume.label.decode().as_deref(), Some("ram"));
    let answer = ask(&mut peer, kind, FileSystemClass::FULL_SIZE.0, 0, root, ROOM).await;
    assert!(FullSize::decode(output(&answer)).unwrap().total_units > 0);
    let label = ask(&mut peer, kind, FileSystemClass::LABEL.0, 0, root, ROOM).await;
    assert_eq!(label.status(), Status::NOT_SUPPORTED);
}

#[tokio::test]
async fn a_descriptor_without_room_says_how_much_it_needs() {
    let mut peer = peer().await;
    let file = peer.open("file").await;
    let which = (SecurityInformation::OWNER | SecurityInformation::DACL).0;
    let small = ask(&mut peer, InfoType::SECURITY, 0, which, file, 1).await;
    assert_eq!(small.status(), Status::BUFFER_TOO_SMALL);
    let error = ErrorResponse::decode(&small.message).unwrap();
    let needed = error.contexts().next().unwrap().data.to_vec();
    let needed = u32::from_le_bytes(needed.try_into().unwrap());
    let whole = ask(&mut peer, InfoType::SECURITY, 0, which, file, needed).await;
    let descriptor = SecurityDescriptor::decode(output(&whole)).unwrap();
    assert!(descriptor.owner.is_some() && descriptor.group.is_none() && descriptor.dacl.is_some());
}

#[tokio::test]
async fn quotas_of_users_are_not_kept() {
    let mut peer = peer().await;
    let file = peer.open("file").await;
    assert_eq!(ask(&mut peer, InfoType::QUOTA, 0, 0, file, ROOM).await.status(), Status::NOT_SUPPORTED);
    assert_eq!(ask(&mut peer, InfoType(9), 0, 0, file, ROOM).await.status(), Status::INVALID_PARAMETER);
}
