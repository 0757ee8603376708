use std::rc::Rc;

use tokio::io::AsyncWriteExt;
use tokio::task::LocalSet;
use wire::codec::utf16_bytes;
use wire::command::create::{CreateDisposition, CreateRequest, OplockLevel, ShareAccess};
use wire::command::echo::EchoRequest;
use wire::header::Header;
use wire::ids::Command;
use wire::security::access::FILE_ALL;
use wire::status::Status;

use crate::admin::Signing;
use crate::testing::{Peer, framed, next_message, server};

fn open(oplock_level: OplockLevel) -> impl FnOnce(&mut Vec<u8>) {
    move |body| {
        let name = utf16_bytes("file");
        let request = CreateRequest {
            oplock_level,
            desired_access: FILE_ALL.into(),
            share_access: ShareAccess(7),
            disposition: CreateDisposition::OPEN_IF,
            name: wire::Utf16::new(&name).unwrap(),
            ..CreateRequest::default()
        };
        request.encode(body);
    }
}

#[tokio::test]
async fn a_client_hears_of_a_break_before_the_answer_to_what_it_asked_after_the_cause() {
    let body = async {
        let mut peer = Peer::sign_in(&server(Signing::Enabled)).await;
        assert_eq!(peer.ask(Command::CREATE, open(OplockLevel::BATCH)).await.status(), Status::SUCCESS);
        let (ours, mut theirs) = tokio::io::duplex(1 << 16);
        let serving = tokio::task::spawn_local(Rc::clone(&peer.connection).serve(ours, Vec::new()));
        // Both arrive at once.
        let cause = framed(&peer.message(Command::CREATE, open(OplockLevel::NONE)));
        let after = framed(&peer.message(Command::ECHO, |body| EchoRequest.encode(body)));
        theirs.write_all(&[cause, after].concat()).await.unwrap();
        let mut heard = Vec::new();
        for _ in 0..3 {
            let header = Header::decode(&next_message(&mut theirs).await).unwrap();
            heard.push((header.command, header.status));
        }
        let expected = [
            (Command::CREATE, Status::PENDING),
            (Command::OPLOCK_BREAK, Status::SUCCESS),
            (Command::ECHO, Status::SUCCESS),
        ];
        assert_eq!(heard, expected);
        drop(theirs);
        serving.await.unwrap();
    };
    LocalSet::new().run_until(body).await;
}
