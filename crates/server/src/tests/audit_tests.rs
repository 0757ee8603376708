//! What is told of shares that are audited, and that nothing is told of others.

mod deletions;
mod ends;
mod granted;
mod origins;
mod sign_in;
mod writes;

use std::sync::Arc;

use parking_lot::Mutex;
use store::{RamStore, Store};
use tokio::task::LocalSet;
use wire::codec::utf16_bytes;
use wire::command::create::{AccessMask, CreateDisposition, CreateOptions, CreateRequest, ShareAccess};
use wire::command::ioctl::CtlCode;
use wire::command::query_info::InfoType;
use wire::command::set_info::SetInfoRequest;
use wire::fscc::FileClass;
use wire::fscc::file::EndOfFile;
use wire::fscc::ioctl::encode_symlink;
use wire::ids::{Command, FileId};
use wire::security::access::{DELETE, FILE_GENERIC_READ, READ_DATA, WRITE_DAC, WRITE_DATA};
use wire::security::{Acl, SecurityDescriptor, SecurityInformation};
use wire::status::Status;

use crate::admin::{
    Admin, AuditClass, AuditClasses, AuditCounts, AuditEvent, AuditMoved, AuditProof, AuditSink, Configuration, Signing,
};
use crate::state::audit::Audit;
use crate::state::auditing::of_share::SET_AUDIT;
use crate::state::shared::Shared;
use crate::tests::testing::{OTHER_USER, Peer, Terms, USER, server_with};

/// Keeps what is told.
#[derive(Debug, Default)]
pub(super) struct Kept {
    events: Mutex<Vec<AuditEvent>>,
    /// What was told of changes of what is audited.
    changes: Mutex<Vec<AuditEvent>>,
}

impl AuditSink for Kept {
    fn record(&self, event: AuditEvent) {
        let kept = if event.operation == SET_AUDIT { &self.changes } else { &self.events };
        kept.lock().push(event);
    }

    fn counts(&self) -> AuditCounts {
        AuditCounts { written: self.events.lock().len() as u64, ..AuditCounts::default() }
    }
}

impl Kept {
    /// What was told since this was asked last.
    pub(super) fn events(&self) -> Vec<AuditEvent> {
        std::mem::take(&mut *self.events.lock())
    }

    /// The same in short: the class, the command, what of it, the path and what came of it.
    pub(super) fn told(&self) -> Vec<String> {
        self.events().iter().map(short).collect()
    }
}

pub(super) fn short(event: &AuditEvent) -> String {
    let path = event.place.path.as_deref().unwrap_or("-");
    let to = event.place.new_path.as_ref().map(|to| format!(" to {to}")).unwrap_or_default();
    let status = event.status_name.trim_start_matches("STATUS_");
    format!("{} {} {} {path}{to} {status}", event.class.name(), event.operation, event.minor)
}

pub(super) fn classes(text: &str) -> AuditClasses {
    text.parse().unwrap()
}

/// A server whose share is audited so.
pub(super) fn audited(text: &str) -> (Arc<Shared>, Arc<Kept>) {
    audited_with(text, Signing::Enabled)
}

fn audited_with(text: &str, signing: Signing) -> (Arc<Shared>, Arc<Kept>) {
    audited_on(Arc::new(RamStore::new(64 << 20)), text, signing)
}

pub(super) fn audited_on(store: Arc<dyn Store>, text: &str, signing: Signing) -> (Arc<Shared>, Arc<Kept>) {
    let mut server = server_with(signing, store);
    let kept = Arc::<Kept>::default();
    Arc::get_mut(&mut server).unwrap().audit = Audit::to(Arc::<Kept>::clone(&kept));
    audit(&server, text);
    (server, kept)
}

/// Has the share audited so from now on.
pub(super) fn audit(server: &Arc<Shared>, text: &str) {
    let mut configuration = Configuration::clone(&server.configuration.load());
    configuration.shares[0].audit = classes(text);
    server.replace(configuration);
}

/// What waits for the pool becomes a task.
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    LocalSet::new().block_on(&runtime, test);
}

async fn open_for(peer: &mut Peer, name: &str, access: u32) -> FileId {
    let opened = peer.create(name, |request| {
        request.desired_access = AccessMask(access);
        request.share_access = ShareAccess(7);
        request.options = CreateOptions::NON_DIRECTORY_FILE;
    });
    opened.await.file_id()
}

async fn set_security(peer: &mut Peer, file_id: FileId) -> Status {
    let descriptor = SecurityDescriptor { dacl: Some(Acl { aces: Vec::new() }), ..SecurityDescriptor::default() };
    let buffer = descriptor.encode().unwrap();
    let request = SetInfoRequest {
        info_type: InfoType::SECURITY,
        additional_information: SecurityInformation::DACL.0,
        file_id,
        buffer: &buffer,
        ..SetInfoRequest::default()
    };
    peer.ask(Command::SET_INFO, |body| request.encode(body)).await.status()
}

/// Does one thing of each class, and one that is refused.
async fn do_everything(peer: &mut Peer) {
    let file = peer.open("file").await;
    assert_eq!(peer.write(file, 0, b"some data").await, Status::SUCCESS);
    assert_eq!(peer.read(file, 0, 4).await.status(), Status::SUCCESS);
    assert_eq!(peer.read(file, 4, 4).await.status(), Status::SUCCESS);
    assert_eq!(peer.read(file, 100, 4).await.status(), Status::END_OF_FILE);
    assert_eq!(peer.rename(file, "renamed").await, Status::SUCCESS);
    assert_eq!(set_security(peer, file).await, Status::SUCCESS);
    assert_eq!(peer.set(file, FileClass::DISPOSITION, &[1]).await, Status::SUCCESS);
    peer.close(file).await;
    assert_eq!(peer.try_open("nowhere").await, Status::OBJECT_NAME_NOT_FOUND);
}

#[test]
fn each_class_tells_what_is_of_it() {
    run(async {
        let opened = "Create FileCreate file SUCCESS";
        for (text, expected) in [
            ("none", vec![]),
            (
                "read",
                vec![
                    format!("read {opened}"),
                    "read Close FileClose renamed SUCCESS".into(),
                    "read Create Open nowhere OBJECT_NAME_NOT_FOUND".into(),
                ],
            ),
            (
                "write",
                vec![
                    format!("write {opened}"),
                    "write SetInfo FileRenameInformation file to renamed SUCCESS".into(),
                    "write Close FileClose renamed SUCCESS".into(),
                    "write Create Open nowhere OBJECT_NAME_NOT_FOUND".into(),
                ],
            ),
            (
                "security",
                vec![
                    "security SetInfo SecurityInformation renamed SUCCESS".into(),
                    "security Create Open nowhere OBJECT_NAME_NOT_FOUND".into(),
                ],
            ),
            (
                "delete",
                vec![
                    "delete SetInfo FileDispositionInformation renamed SUCCESS".into(),
                    "delete Close FileCloseAndDelete renamed SUCCESS".into(),
                    "delete Create Open nowhere OBJECT_NAME_NOT_FOUND".into(),
                ],
            ),
        ] {
            let (server, kept) = audited(text);
            let mut peer = Peer::sign_in(&server).await;
            do_everything(&mut peer).await;
            assert_eq!(kept.told(), expected, "{text}");
        }
    });
}

#[test]
fn what_is_told_has_who_did_what_from_where_and_how_much() {
    run(async {
        let (server, kept) = audited("read,write");
        let mut peer = Peer::sign_in_as(&server, Terms { peer: "192.0.2.7:51000", ..Terms::default() }).await;
        do_everything(&mut peer).await;
        let events = kept.events();
        for event in &events {
            let actor = &event.actor;
            assert_eq!((actor.user.as_deref(), actor.account.as_deref()), (Some(USER), Some("local")));
            assert_eq!((actor.caller.as_deref(), actor.proof), (Some("192.0.2.7:51000"), AuditProof::Ntlm));
            assert!(actor.sid.as_ref().unwrap().starts_with("S-1-5-21-1-2-3-1001"));
            assert_eq!((&*event.place.server, event.place.share.as_deref()), ("test", Some("ram")));
            assert_eq!(event.ids.session, Some(peer.session_id.0));
            assert_eq!(event.ids.tree, Some(peer.tree_id.0));
        }
        let close = events.iter().find(|event| event.operation == "Close").unwrap();
        let moved = AuditMoved { reads: 2, read_bytes: 8, writes: 1, written_bytes: 9 };
        assert_eq!(close.moved, Some(moved));
        assert_eq!(close.end.unwrap().name(), "Close");
        let create = &events[0];
        assert_eq!((create.command, create.ids.open), (Some(5), close.ids.open));
        assert!(create.duration.is_some() && create.ids.message.is_some() && create.ids.file == close.ids.file);
        assert!(create.detail.contains("granted access 0x1f01ff"), "{}", create.detail);
    });
}

#[test]
fn refusals_are_told_in_the_class_of_what_was_asked() {
    run(async {
        let (server, kept) = audited("read,write,delete,security");
        let mut owner = Peer::sign_in(&server).await;
        let file = owner.open("file").await;
        assert_eq!(set_security(&mut owner, file).await, Status::SUCCESS);
        kept.events();
        let mut other = Peer::sign_in_as(&server, Terms { user: OTHER_USER, ..Terms::default() }).await;
        // Who may change its directory may delete the file.
        for (access, class) in [(READ_DATA, "read"), (WRITE_DATA, "write"), (WRITE_DAC, "security")] {
            let refused = other.create("file", |request| {
                request.desired_access = AccessMask(access);
                request.disposition = CreateDisposition::OPEN;
            });
            assert_eq!(refused.await.status(), Status::ACCESS_DENIED);
            assert_eq!(kept.told(), [format!("{class} Create Open file ACCESS_DENIED")]);
        }
        // What an open was not granted.
        let reading = open_for(&mut owner, "mine", FILE_GENERIC_READ).await;
        kept.events();
        assert_eq!(owner.write(reading, 16, b"data").await, Status::ACCESS_DENIED);
        let told = kept.events();
        assert_eq!(short(&told[0]), "write Write  mine ACCESS_DENIED");
        assert_eq!(told[0].detail, "0x4 bytes at offset 0x10");
        assert_eq!(owner.rename(reading, "yours").await, Status::ACCESS_DENIED);
        assert_eq!(owner.set(reading, FileClass::DISPOSITION, &[1]).await, Status::ACCESS_DENIED);
        let mut length = Vec::new();
        EndOfFile { end_of_file: 5 }.encode(&mut length);
        assert_eq!(owner.set(reading, FileClass::END_OF_FILE, &length).await, Status::ACCESS_DENIED);
        assert_eq!(
            kept.told(),
            [
                "write SetInfo FileRenameInformation mine to yours ACCESS_DENIED",
                "delete SetInfo FileDispositionInformation mine ACCESS_DENIED",
                "write SetInfo FileEndOfFileInformation mine ACCESS_DENIED",
            ]
        );
    });
}

#[tokio::test]
async fn a_rename_that_replaces_and_a_link_have_both_names() {
    let (server, kept) = audited("write,delete");
    let mut peer = Peer::sign_in(&server).await;
    let target = peer.open("target").await;
    peer.close(target).await;
    let file = peer.open("file").await;
    let told = kept.events();
    let number = |path: &str| told.iter().find(|told| told.place.path.as_deref() == Some(path)).unwrap().ids.file;
    let (target, own) = (number("target"), number("file"));
    assert_eq!(peer.set_name(file, FileClass::LINK, "second", false).await, Status::SUCCESS);
    assert_eq!(peer.set_name(file, FileClass::RENAME, "target", true).await, Status::SUCCESS);
    let told = kept.events();
    assert_eq!(short(&told[0]), "write SetInfo FileLinkInformation file to second SUCCESS");
    assert_eq!(short(&told[1]), "delete SetInfo FileRenameInformation file to target SUCCESS");
    assert_eq!(told[1].detail, "replaced what had the name");
    assert_eq!((told[1].ids.file, told[1].ids.replaced), (own, target));
    assert!(target.is_some() && told[0].ids.replaced.is_none());
}

#[test]
fn what_takes_the_place_of_a_file_is_told_to_delete_it_and_to_change_who_may_do_what() {
    for (audited_classes, class) in
        [("delete", "delete"), ("security", "security"), ("write", "write"), ("write,delete,security", "delete")]
    {
        run(async {
            let (server, kept) = audited(audited_classes);
            let mut peer = Peer::sign_in(&server).await;
            let file = open_for(&mut peer, "file", FILE_GENERIC_READ | WRITE_DATA | DELETE).await;
            kept.told();
            let mut point = Vec::new();
            assert!(encode_symlink("..\\a", "..\\a", 1, &mut point));
            let set = peer.ioctl(CtlCode::SET_REPARSE_POINT, file, &point, 0).await;
            assert_eq!(set.status(), Status::SUCCESS);
            let is_told = |event: &AuditEvent| event.minor.contains("REPARSE");
            let events: Vec<AuditEvent> = kept.events().into_iter().filter(is_told).collect();
            let [event] = &events[..] else { panic!("{events:?}") };
            assert_eq!(short(event), format!("{class} Ioctl FSCTL_SET_REPARSE_POINT file SUCCESS"));
            assert_eq!(event.detail, "to lead to ../a");
            let none = [&point[..4], &[0; 4]].concat();
            let delete = peer.ioctl(CtlCode::DELETE_REPARSE_POINT, file, &none, 0).await;
            assert_eq!(delete.status(), Status::SUCCESS);
            let told: Vec<String> = kept.events().iter().filter(|event| is_told(event)).map(short).collect();
            assert_eq!(told, [format!("{class} Ioctl FSCTL_DELETE_REPARSE_POINT file SUCCESS")]);
            // Refused, too.
            let refused = peer.ioctl(CtlCode::DELETE_REPARSE_POINT, file, &none, 0).await;
            assert_eq!(refused.status(), Status::NOT_A_REPARSE_POINT);
            let told: Vec<String> = kept.events().iter().filter(|event| is_told(event)).map(short).collect();
            assert_eq!(told, [format!("{class} Ioctl FSCTL_DELETE_REPARSE_POINT file NOT_A_REPARSE_POINT")]);
        });
    }
}

#[tokio::test]
async fn a_name_that_is_free_is_taken_without_deleting_anything() {
    let (server, kept) = audited("write,delete");
    let mut peer = Peer::sign_in(&server).await;
    let file = peer.open("file.part").await;
    kept.events();
    assert_eq!(peer.set_name(file, FileClass::RENAME, "file", true).await, Status::SUCCESS);
    assert_eq!(peer.set_name(file, FileClass::LINK, "second", true).await, Status::SUCCESS);
    let told = kept.events();
    assert_eq!(short(&told[0]), "write SetInfo FileRenameInformation file.part to file SUCCESS");
    assert_eq!(short(&told[1]), "write SetInfo FileLinkInformation file to second SUCCESS");
    assert!(told.iter().all(|told| told.detail.is_empty() && told.ids.replaced.is_none()));
    // Where deletions alone are audited there is nothing to tell.
    audit(&server, "delete");
    assert_eq!(peer.set_name(file, FileClass::RENAME, "third", true).await, Status::SUCCESS);
    assert_eq!(kept.told(), Vec::<String>::new());
}

#[tokio::test]
async fn a_stream_that_replaces_another_is_told_to_delete() {
    let (server, kept) = audited("delete");
    let mut peer = Peer::sign_in(&server).await;
    let taken = peer.open("file:taken").await;
    peer.close(taken).await;
    let stream = peer.open("file:stream").await;
    kept.events();
    assert_eq!(peer.set_name(stream, FileClass::RENAME, ":taken", true).await, Status::SUCCESS);
    let told = kept.events();
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].class, told[0].ids.replaced), (AuditClass::Delete, told[0].ids.file));
}

#[tokio::test]
async fn who_has_less_audited_is_told_of() {
    let (server, kept) = audited("none");
    for classes in ["write,delete", "write,delete", "none"] {
        audit(&server, classes);
    }
    let changes = kept.changes.lock();
    let told: Vec<_> = changes.iter().map(|event| (event.detail.as_str(), event.class, event.actor.proof)).collect();
    let of = |detail| (detail, AuditClass::Security, AuditProof::Operator);
    assert_eq!(told, [of("from none to write,delete"), of("from write,delete to none")]);
    assert!(changes.iter().all(|event| event.place.share.is_some() && event.status == 0));
}

#[tokio::test]
async fn auditing_changes_at_once_for_who_is_there() {
    let (server, kept) = audited("none");
    let mut peer = Peer::sign_in(&server).await;
    let file = peer.open("file").await;
    assert_eq!(peer.write(file, 0, b"not told").await, Status::SUCCESS);
    audit(&server, "write");
    assert_eq!(peer.write(file, 0, b"told").await, Status::SUCCESS);
    audit(&server, "none");
    assert_eq!(peer.write(file, 0, b"not told").await, Status::SUCCESS);
    assert_eq!(kept.told(), Vec::<String>::new());
    peer.close(file).await;
    let told = kept.events();
    assert_eq!(told.len(), 1, "what was counted is told, though it is off by then");
    let moved = AuditMoved { writes: 1, written_bytes: 4, ..AuditMoved::default() };
    assert_eq!((told[0].class, told[0].moved), (AuditClass::Write, Some(moved)));
    let file = peer.open("file").await;
    peer.close(file).await;
    assert_eq!(kept.told(), Vec::<String>::new());
}

#[tokio::test]
async fn names_that_are_no_text_are_told_as_far_as_they_are() {
    let (server, kept) = audited("read");
    let mut peer = Peer::sign_in(&server).await;
    let mut name = utf16_bytes("a\n\"b");
    name.extend_from_slice(&[0x00, 0xd8]);
    let name = wire::Utf16::new(&name).unwrap();
    let request = CreateRequest {
        desired_access: AccessMask(READ_DATA),
        disposition: CreateDisposition::OPEN,
        name,
        ..CreateRequest::default()
    };
    let refused = peer.ask(Command::CREATE, |body| request.encode(body)).await;
    assert!(refused.status().is_error());
    let told = kept.events();
    assert_eq!(told[0].place.path.as_deref(), Some("a\n\"b\u{fffd}"));
    let long = "x".repeat(16_000);
    assert!(peer.try_open(&long).await.is_error());
    assert!(kept.events()[0].place.path.as_ref().unwrap().len() < 5000);
}

#[tokio::test]
async fn what_another_sends_in_a_session_is_not_told_of_it() {
    let (server, kept) = audited_with("read,write,delete,security", Signing::Required);
    let mut peer = Peer::sign_in(&server).await;
    let file = peer.open("file").await;
    kept.events();
    let key = peer.signing_key.take();
    for name in ["file", "other"] {
        let refused = peer.create(name, |request| request.options = CreateOptions::DELETE_ON_CLOSE).await;
        assert_eq!(refused.status(), Status::ACCESS_DENIED);
    }
    assert_eq!(peer.set(file, FileClass::DISPOSITION, &[1]).await, Status::ACCESS_DENIED);
    assert_eq!(kept.told(), Vec::<String>::new());
    peer.signing_key = key;
    assert_eq!(peer.set(file, FileClass::DISPOSITION, &[1]).await, Status::SUCCESS);
    assert_eq!(kept.told(), ["delete SetInfo FileDispositionInformation file SUCCESS"]);
}
