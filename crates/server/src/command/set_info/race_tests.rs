//! What somebody else changes in the middle of a SET_INFO stays changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use store::{AttributeChange, Changes, Node, RamStore, SharePath, Store, Use};
use tokio::task::LocalSet;
use wire::command::ioctl::{CtlCode, IoctlFlags, IoctlRequest};
use wire::command::set_info::{InfoType, SetInfoRequest};
use wire::fscc::file::Basic;
use wire::fscc::rename::Rename;
use wire::fscc::{FileAttributes, FileClass};
use wire::ids::{Command, FileId, FileTime};
use wire::security::access::FILE_ALL;
use wire::security::{Ace, AceFlags, Acl, Control, SecurityDescriptor, SecurityInformation, Sid};
use wire::status::Status;

use crate::state::configuration::Signing;
use crate::state::open_id::OpenId;
use crate::state::shared::Shared;
use crate::tests::interrupted::{Call, Interrupted, Meanwhile};
use crate::tests::testing::{Peer, server_with};

/// A thread that would wait for somebody else's call has by then.
const PATIENCE: Duration = Duration::from_secs(30);

struct Scene {
    server: Arc<Shared>,
    store: Arc<dyn Store>,
    meanwhile: Meanwhile,
    peer: Peer,
    file: FileId,
}

impl Scene {
    async fn new() -> Self {
        let (store, meanwhile) = Interrupted::around(RamStore::new(64 << 20));
        let server = server_with(Signing::Enabled, Arc::clone(&store));
        let mut peer = Peer::sign_in(&server).await;
        let file = peer.open("file").await;
        Scene { server, store, meanwhile, peer, file }
    }

    fn node(&self, name: &str) -> Arc<dyn Node> {
        match self.store.resolve(&SharePath::parse(name).unwrap(), Use::ReadWrite).unwrap() {
            store::Resolved::Found { node, .. } => node,
            store::Resolved::Missing { path, .. } => panic!("{path} is missing"),
        }
    }

    /// Somebody else does this to the file whenever that can be.
    fn others(&self, calls: [Call; 2], change: impl Fn(&dyn Node) + Send + 'static) -> Arc<AtomicUsize> {
        let times = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&times);
        self.meanwhile.set(move |call, node| {
            if calls.contains(&call) {
                change(node);
                counted.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
        times
    }

    async fn set_security(&mut self, which: SecurityInformation, descriptor: &SecurityDescriptor) -> Status {
        let buffer = descriptor.encode().unwrap();
        let request = SetInfoRequest {
            info_type: InfoType::SECURITY,
            additional_information: which.0,
            file_id: self.file,
            buffer: &buffer,
            ..SetInfoRequest::default()
        };
        self.peer.ask(Command::SET_INFO, |body| request.encode(body)).await.status()
    }
}

fn granting(who: Sid) -> SecurityDescriptor {
    SecurityDescriptor {
        control: Control::DACL_PRESENT,
        owner: Some(Sid::BUILTIN_ADMINISTRATORS),
        group: Some(Sid::BUILTIN_USERS),
        sacl: None,
        dacl: Some(Acl { aces: vec![Ace::allow(who, FILE_ALL, AceFlags::NONE)] }),
    }
}

#[tokio::test]
async fn a_list_that_another_sets_is_not_undone_by_a_new_group() {
    let test = async {
        let mut scene = Scene::new().await;
        let node = scene.node("file");
        node.extras().set_security(&granting(Sid::EVERYONE).encode().unwrap()).unwrap();
        let shut = granting(Sid::SYSTEM);
        let stored = shut.encode().unwrap();
        let times = scene.others([Call::LookAtSecurity, Call::ChangeSecurity], move |node| {
            node.extras().set_security(&stored).unwrap()
        });
        let asked = SecurityDescriptor { group: Some(Sid::SYSTEM), ..SecurityDescriptor::default() };
        assert_eq!(scene.set_security(SecurityInformation::GROUP, &asked).await, Status::SUCCESS);
        scene.meanwhile.clear();
        assert!(times.load(Ordering::Relaxed) > 0);
        let now = SecurityDescriptor::decode(&node.extras().security().unwrap().unwrap()).unwrap();
        assert_eq!((now.dacl, now.group), (shut.dacl, Some(Sid::SYSTEM)));
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_file_that_another_makes_read_only_stays_so() {
    let test = async {
        let plain = Changes { attributes: AttributeChange::to(0), ..Changes::default() };
        let mut name = String::from("file");
        let mut scene = Scene::new().await;
        for asked in ["attribute", "link", "rename", "sparse"] {
            let node = scene.node(&name);
            node.change(&plain).unwrap();
            let times = scene.others([Call::Look, Call::Change], |node| {
                let attributes = AttributeChange::setting(FileAttributes::READONLY.0);
                node.change(&Changes { attributes, ..Changes::default() }).unwrap();
            });
            let mut buffer = Vec::new();
            let status = match asked {
                "attribute" => {
                    buffer.extend([0, 0, 0, 0, 0, 1, 1, 0]);
                    buffer.extend(b"a\0v");
                    scene.peer.set(scene.file, FileClass::FULL_EA, &buffer).await
                }
                "sparse" => {
                    let request = IoctlRequest {
                        ctl_code: CtlCode::SET_SPARSE,
                        file_id: scene.file,
                        flags: IoctlFlags::IS_FSCTL,
                        ..Default::default()
                    };
                    scene.peer.ask(Command::IOCTL, |body| request.encode(body)).await.status()
                }
                asked => {
                    name = format!("by {asked}");
                    Rename::encode(&name, false, &mut buffer);
                    let class = if asked == "link" { FileClass::LINK } else { FileClass::RENAME };
                    scene.peer.set(scene.file, class, &buffer).await
                }
            };
            scene.meanwhile.clear();
            assert_eq!(status, Status::SUCCESS, "{asked}");
            assert!(times.load(Ordering::Relaxed) > 0, "{asked}");
            let attributes = node.metadata().unwrap().attributes;
            assert_ne!(attributes & FileAttributes::READONLY.0, 0, "{asked}: {attributes:#x}");
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn what_others_append_while_space_is_set_stays() {
    let test = async {
        let mut scene = Scene::new().await;
        let node = scene.node("file");
        node.reserve(1 << 20).unwrap();
        let times = scene.others([Call::Look, Call::Write], |node| {
            node.append(&[7; 4096], &mut Ok).unwrap();
        });
        for bytes in [512_u64 << 10, 2 << 20] {
            let status = scene.peer.set(scene.file, FileClass::ALLOCATION, &bytes.to_le_bytes()).await;
            assert_eq!(status, Status::SUCCESS);
        }
        scene.meanwhile.clear();
        let appended = times.load(Ordering::Relaxed) as u64 * 4096;
        assert!(appended > 0);
        assert_eq!(node.metadata().unwrap().length, appended);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_file_that_another_makes_sparse_stays_so() {
    let test = async {
        let mut scene = Scene::new().await;
        let node = scene.node("file");
        scene.others([Call::Look, Call::Change], |node| {
            let attributes = AttributeChange::setting(FileAttributes::SPARSE_FILE.0);
            node.change(&Changes { attributes, ..Changes::default() }).unwrap();
        });
        let mut buffer = Vec::new();
        Basic { attributes: FileAttributes::HIDDEN, ..Basic::default() }.encode(&mut buffer);
        assert_eq!(scene.peer.set(scene.file, FileClass::BASIC, &buffer).await, Status::SUCCESS);
        scene.meanwhile.clear();
        let attributes = node.metadata().unwrap().attributes;
        assert_eq!(attributes, FileAttributes::SPARSE_FILE.0 | FileAttributes::HIDDEN.0);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn who_reads_and_writes_does_not_wait_for_times_that_are_being_set() {
    let body = async {
        let mut scene = Scene::new().await;
        let session = scene.server.sessions.find(scene.peer.session_id).unwrap();
        let open = session.open(OpenId(scene.file.persistent)).unwrap();
        let asked = Arc::clone(&open);
        let times = scene.others([Call::Change; 2], move |_| {
            let (asked, (tell, told)) = (Arc::clone(&asked), mpsc::channel());
            thread::spawn(move || tell.send(asked.file().unwrap().has_frozen_times()));
            assert!(told.recv_timeout(PATIENCE).is_ok(), "nobody is told before it is done");
        });
        let mut buffer = Vec::new();
        Basic { write: FileTime(u64::MAX), access: FileTime(7), ..Basic::default() }.encode(&mut buffer);
        assert_eq!(scene.peer.set(scene.file, FileClass::BASIC, &buffer).await, Status::SUCCESS);
        assert!(times.load(Ordering::Relaxed) > 0, "it came in the middle");
        assert!(open.file().unwrap().has_frozen_times());
    };
    LocalSet::new().run_until(body).await;
}
