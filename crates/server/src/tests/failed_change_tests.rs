//! A change of data that fails half way has changed data: who caches what was there hears of it, as after one that was made.

use store::{Error, RamStore, Waits};
use tokio::task::LocalSet;
use wire::command::change_notify::{ChangeNotifyFlags, ChangeNotifyRequest, CompletionFilter};
use wire::command::create::{CreateDisposition, CreateOptions, CreateResponse, OplockLevel};
use wire::command::ioctl::{CtlCode, IoctlFlags, IoctlRequest};
use wire::command::write::{WriteFlags, WriteRequest};
use wire::fscc::FileClass;
use wire::fscc::file::EndOfFile;
use wire::fscc::ioctl::ZeroData;
use wire::header::Header;
use wire::ids::{Command, FileId};
use wire::status::Status;

use crate::state::configuration::Signing;
use crate::tests::interrupted::{Call, Interrupted, Meanwhile};
use crate::tests::testing::{Answer, Peer, server_with};

/// A change that a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Write,
    WriteThrough,
    Append,
    Zero,
    Length,
    Overwrite,
}

const ALL: [Change; 6] =
    [Change::Write, Change::WriteThrough, Change::Append, Change::Zero, Change::Length, Change::Overwrite];

struct Scene {
    meanwhile: Meanwhile,
    reader: Peer,
    root: FileId,
    writer: Peer,
    file: FileId,
}

fn opened(answer: &Answer) -> FileId {
    answer.file_id()
}

impl Scene {
    async fn new(waits: Waits) -> Self {
        let (store, meanwhile) = Interrupted::around(RamStore::that_waits(64 << 20, waits));
        let server = server_with(Signing::Enabled, store);
        let mut writer = Peer::sign_in(&server).await;
        let file = writer.open("file").await;
        assert_eq!(writer.write(file, 0, b"before").await, Status::SUCCESS);
        let mut reader = Peer::sign_in(&server).await;
        let root = reader
            .create("", |request| {
                request.desired_access = wire::security::access::READ_DATA.into();
                request.options = CreateOptions::DIRECTORY_FILE;
            })
            .await;
        Scene { meanwhile, reader, root: opened(&root), writer, file }
    }

    /// The reader caches what it reads, and watches the directory.
    async fn cache_and_watch(&mut self) -> FileId {
        let cached = self.reader.create("file", |request| request.oplock_level = OplockLevel::II).await;
        assert_eq!(CreateResponse::decode(&cached.message).unwrap().oplock_level, OplockLevel::II);
        let request = ChangeNotifyRequest {
            flags: ChangeNotifyFlags::NONE,
            output_buffer_length: 4096,
            file_id: self.root,
            completion_filter: CompletionFilter::SIZE,
        };
        let mut watch = self.reader.message(Command::CHANGE_NOTIFY, |body| request.encode(body));
        self.reader.process(&mut watch).unwrap();
        assert_eq!(self.reader.receive().await.status(), Status::PENDING);
        opened(&cached)
    }

    /// Half of what changes data is done, and then there is no more room. What is synced is lost.
    fn fail(&self) {
        self.meanwhile.set(|call, node| match call {
            Call::Write => {
                node.write_at(b"ab", 0)?;
                Err(Error::Full)
            }
            Call::Change => Err(Error::Full),
            // What could be undone was not.
            Call::Renew => {
                node.set_length(0)?;
                Err(Error::Full)
            }
            Call::Sync => Err(Error::Io(5)),
            Call::Look | Call::TryToLook | Call::LookAtExtended | Call::LookAtSecurity | Call::Hold => Ok(()),
            Call::ChangeSecurity | Call::Made => Ok(()),
            Call::Facts | Call::Resolve | Call::FindDirectory | Call::LookForStream => Ok(()),
            Call::RenameStream | Call::RemoveStream => Ok(()),
            Call::SetExtended | Call::ChangeExtended | Call::Reserve => Ok(()),
        });
    }

    async fn ask(&mut self, change: Change) -> Status {
        let file_id = self.file;
        let write = |offset, flags| WriteRequest { file_id, offset, data: b"after", flags, ..WriteRequest::default() };
        let request = match change {
            Change::Write => write(0, WriteFlags::NONE),
            Change::WriteThrough => write(0, WriteFlags::WRITE_THROUGH),
            Change::Append => write(u64::MAX, WriteFlags::NONE),
            Change::Zero => {
                let mut input = Vec::new();
                ZeroData { offset: 0, beyond_final_zero: 6 }.encode(&mut input);
                let request = IoctlRequest {
                    ctl_code: CtlCode::SET_ZERO_DATA,
                    file_id,
                    flags: IoctlFlags::IS_FSCTL,
                    input: &input,
                    ..IoctlRequest::default()
                };
                return self.writer.ask(Command::IOCTL, |body| request.encode(body)).await.status();
            }
            Change::Length => {
                let mut buffer = Vec::new();
                EndOfFile { end_of_file: 3 }.encode(&mut buffer);
                return self.writer.set(self.file, FileClass::END_OF_FILE, &buffer).await;
            }
            Change::Overwrite => {
                let overwrite = |request: &mut wire::command::create::CreateRequest<'_>| {
                    request.disposition = CreateDisposition::OVERWRITE;
                };
                return self.writer.create("file", overwrite).await.status();
            }
        };
        self.writer.ask(Command::WRITE, |body| request.encode(body)).await.status()
    }
}

async fn who_caches_is_told(waits: Waits) {
    for change in ALL {
        let mut scene = Scene::new(waits).await;
        scene.cache_and_watch().await;
        scene.fail();
        let status = scene.ask(change).await;
        scene.meanwhile.clear();
        assert!(matches!(status, Status::DISK_FULL | Status::IO_DEVICE_ERROR), "{change:?}: {status}");
        // What is told is told before the answer to the change.
        scene.reader.connection.flush_notifications();
        let mut told = Vec::new();
        while let Some(frame) = scene.reader.take_frame() {
            told.push(Header::decode(&frame).unwrap().command);
        }
        if told.len() == 1 {
            // On a device the watcher is told by the pool.
            told.push(scene.reader.receive().await.header.command);
        }
        told.sort();
        assert_eq!(told, [Command::CHANGE_NOTIFY, Command::OPLOCK_BREAK], "{change:?}, {waits:?}");
    }
}

#[tokio::test]
async fn who_caches_is_told_of_a_change_in_memory_that_failed_half_way() {
    LocalSet::new().run_until(who_caches_is_told(Waits::Never)).await;
}

#[tokio::test]
async fn who_caches_is_told_of_a_change_on_a_device_that_failed_half_way() {
    LocalSet::new().run_until(who_caches_is_told(Waits::ForData)).await;
}

/// Nothing is told of what was refused before anything was changed.
#[tokio::test]
async fn nobody_is_told_of_a_write_that_was_refused() {
    let test = async {
        let mut scene = Scene::new(Waits::Never).await;
        let _cached = scene.cache_and_watch().await;
        let file_id = scene.file;
        let request = WriteRequest { file_id, offset: i64::MAX as u64, data: b"after", ..WriteRequest::default() };
        let status = scene.writer.ask(Command::WRITE, |body| request.encode(body)).await.status();
        assert_eq!(status, Status::INVALID_PARAMETER);
        scene.reader.connection.flush_notifications();
        assert!(scene.reader.take_frame().is_none());
    };
    LocalSet::new().run_until(test).await;
}
