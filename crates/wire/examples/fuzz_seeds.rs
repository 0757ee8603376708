//! Writes the seeds of the fuzz targets `wire_*`, made by the encoders: `cargo run --example fuzz_seeds -- fuzz/corpus`.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use wire::codec::utf16_bytes;
use wire::command::*;
use wire::context::create::{self as contexts, CreateContextsBuilder, name};
use wire::context::negotiate::*;
use wire::header::{Flags, Header};
use wire::ids::{Command, Dialect, FileId, Guid, MessageId};
use wire::list::U16List;
use wire::smb1::{DIALECT_SMB_2_002, DIALECT_SMB_2_WILDCARD, Smb1Negotiate};
use wire::transform::TransformHeader;
use wire::{Utf16, fscc};

fn main() -> io::Result<()> {
    let corpus = PathBuf::from(env::args().nth(1).unwrap_or_else(|| "fuzz/corpus".into()));
    commands(&Folder::new(&corpus, "wire_command")?)?;
    create_contexts(&Folder::new(&corpus, "wire_create_contexts")?)?;
    negotiate_contexts(&Folder::new(&corpus, "wire_negotiate_contexts")?)?;
    let transform = Folder::new(&corpus, "wire_transform")?;
    transform.write("encrypted", &TransformHeader { original_message_size: 100, ..Default::default() }.to_bytes())?;
    transform.write("unchained", &[0xFC, b'S', b'M', b'B', 0, 16, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0])?;
    transform.write("chained", &[0xFC, b'S', b'M', b'B', 0, 16, 0, 0, 5, 0, 1, 0, 8, 0, 0, 0])?;
    let mut negotiate = Vec::new();
    Smb1Negotiate::encode(&[b"NT LM 0.12", DIALECT_SMB_2_002, DIALECT_SMB_2_WILDCARD], &mut negotiate);
    Folder::new(&corpus, "wire_smb1")?.write("negotiate", &negotiate)
}

struct Folder(PathBuf);

impl Folder {
    fn new(corpus: &Path, target: &str) -> io::Result<Self> {
        let folder = corpus.join(target);
        fs::create_dir_all(&folder)?;
        Ok(Folder(folder))
    }

    fn write(&self, seed: &str, bytes: &[u8]) -> io::Result<()> {
        fs::write(self.0.join(seed), bytes)
    }

    fn request(&self, command: Command, seed: &str, encode: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        self.message(Header { command, ..Header::default() }, &format!("{seed}_request"), encode)
    }

    fn response(&self, command: Command, seed: &str, encode: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let header = Header { command, flags: Flags::SERVER_TO_REDIR, ..Header::default() };
        self.message(header, &format!("{seed}_response"), encode)
    }

    fn message(&self, header: Header, seed: &str, encode: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let mut message = header.to_bytes().to_vec();
        encode(&mut message);
        self.write(seed, &message)
    }
}

fn commands(folder: &Folder) -> io::Result<()> {
    connecting(folder)?;
    files(folder)?;
    listing(folder)?;
    let error = |out: &mut Vec<u8>| error::ErrorResponse { context_count: 0, data: &[1, 0, 0, 0] }.encode(out);
    folder.response(Command::CREATE, "error", error)?;
    folder.request(Command::CANCEL, "cancel", |out| cancel::CancelRequest.encode(out))?;
    folder.request(Command::ECHO, "echo", |out| echo::EchoRequest.encode(out))
}

fn connecting(folder: &Folder) -> io::Result<()> {
    let list = negotiate_list();
    let dialects = [Dialect::SMB_3_0_2, Dialect::SMB_3_1_1];
    let (dialects, contexts) = (U16List::new(&dialects), list.contexts());
    folder.request(Command::NEGOTIATE, "negotiate", |out| {
        negotiate::NegotiateRequest { dialects, contexts, ..Default::default() }.encode(out);
    })?;
    folder.response(Command::NEGOTIATE, "negotiate", |out| {
        let (dialect, security_buffer) = (Dialect::SMB_3_1_1, &b"token"[..]);
        negotiate::NegotiateResponse { dialect, contexts, security_buffer, ..Default::default() }.encode(out);
    })?;
    folder.request(Command::SESSION_SETUP, "session_setup", |out| {
        session_setup::SessionSetupRequest { security_buffer: b"token", ..Default::default() }.encode(out);
    })?;
    folder.response(Command::SESSION_SETUP, "session_setup", |out| {
        session_setup::SessionSetupResponse { security_buffer: b"token", ..Default::default() }.encode(out);
    })?;
    let path = utf16_bytes(r"\\server\share");
    let path = Utf16::new(&path).unwrap_or_default();
    folder.request(Command::TREE_CONNECT, "tree_connect", |out| {
        tree_connect::TreeConnectRequest { path, ..Default::default() }.encode(out);
    })?;
    let response = tree_connect::TreeConnectResponse::default();
    folder.response(Command::TREE_CONNECT, "tree_connect", |out| response.encode(out))
}

fn files(folder: &Folder) -> io::Result<()> {
    let list = create_list();
    let name = utf16_bytes("name");
    let name = Utf16::new(&name).unwrap_or_default();
    folder.request(Command::CREATE, "create", |out| {
        create::CreateRequest { name, contexts: list.contexts(), ..Default::default() }.encode(out);
    })?;
    folder.response(Command::CREATE, "create", |out| {
        create::CreateResponse { contexts: list.contexts(), ..Default::default() }.encode(out);
    })?;
    folder.request(Command::CLOSE, "close", |out| close::CloseRequest::default().encode(out))?;
    folder.response(Command::CLOSE, "close", |out| close::CloseResponse::default().encode(out))?;
    folder.request(Command::FLUSH, "flush", |out| flush::FlushRequest::default().encode(out))?;
    folder.request(Command::READ, "read", |out| {
        let channel = read::Channel::RDMA_V1;
        read::ReadRequest { length: 4096, channel, channel_info: b"info", ..Default::default() }.encode(out);
    })?;
    folder.response(Command::READ, "read", |out| {
        read::ReadResponse { data: b"data", ..Default::default() }.encode(out);
    })?;
    folder.request(Command::WRITE, "write", |out| {
        write::WriteRequest { data: b"data", ..Default::default() }.encode(out);
    })?;
    folder.response(Command::WRITE, "write", |out| write::WriteResponse { count: 4 }.encode(out))?;
    let locks = [lock::LockElement::default(); 2];
    folder.request(Command::LOCK, "lock", |out| {
        lock::LockRequest { locks: lock::LockElements::new(&locks), ..Default::default() }.encode(out);
    })?;
    let oplock = oplock_break::OplockBreakRequest::Oplock(oplock_break::OplockBreak::default());
    folder.request(Command::OPLOCK_BREAK, "oplock_break", |out| oplock.encode(out))?;
    let lease = oplock_break::OplockBreakRequest::Lease(oplock_break::LeaseBreak::default());
    folder.request(Command::OPLOCK_BREAK, "lease_break", |out| lease.encode(out))?;
    let lease = oplock_break::OplockBreakNotification::Lease(oplock_break::LeaseBreakNotification::default());
    let (command, flags, message_id) = (Command::OPLOCK_BREAK, Flags::SERVER_TO_REDIR, MessageId::UNSOLICITED);
    let header = Header { command, flags, message_id, ..Header::default() };
    folder.message(header, "lease_break_notification", |out| lease.encode(out))
}

fn listing(folder: &Folder) -> io::Result<()> {
    let pattern = utf16_bytes("*");
    let pattern = Utf16::new(&pattern).unwrap_or_default();
    folder.request(Command::QUERY_DIRECTORY, "query_directory", |out| {
        query_directory::QueryDirectoryRequest { pattern, ..Default::default() }.encode(out);
    })?;
    folder
        .response(Command::QUERY_DIRECTORY, "query_directory", |out| OutputBuffer { output: b"entries" }.encode(out))?;
    let request = change_notify::ChangeNotifyRequest::default();
    folder.request(Command::CHANGE_NOTIFY, "change_notify", |out| request.encode(out))?;
    let class = fscc::FileClass::FULL_EA.into();
    let info_type = query_info::InfoType::FILE;
    folder.request(Command::QUERY_INFO, "query_info", |out| {
        query_info::QueryInfoRequest { info_type, class, input: b"names", ..Default::default() }.encode(out);
    })?;
    folder.request(Command::SET_INFO, "set_info", |out| {
        set_info::SetInfoRequest { info_type, class, buffer: b"value", ..Default::default() }.encode(out);
    })?;
    folder.response(Command::SET_INFO, "set_info", |out| set_info::SetInfoResponse.encode(out))?;
    folder.request(Command::IOCTL, "ioctl", |out| {
        let (ctl_code, file_id) = (ioctl::CtlCode::PIPE_TRANSCEIVE, FileId::ANY);
        ioctl::IoctlRequest { ctl_code, file_id, input: b"input", ..Default::default() }.encode(out);
    })?;
    folder.response(Command::IOCTL, "ioctl", |out| {
        ioctl::IoctlResponse { output: b"output", ..Default::default() }.encode(out);
    })
}

fn create_list() -> CreateContextsBuilder {
    let mut list = CreateContextsBuilder::new();
    let lease = contexts::Lease { v2: Some(contexts::LeaseV2::default()), ..Default::default() };
    list.add(name::QUERY_MAXIMAL_ACCESS, &[]);
    list.add(name::LEASE, &lease.to_bytes());
    list.add(name::DURABLE_HANDLE_REQUEST_V2, &contexts::DurableRequestV2::default().to_bytes());
    list
}

fn create_contexts(folder: &Folder) -> io::Result<()> {
    folder.write("several", create_list().contexts().as_bytes())?;
    let apple_query = contexts::AppleRequest::ResolveId { file_id: 7 }.to_bytes();
    let model = utf16_bytes("Model");
    let apple = contexts::AppleServerResponse { model: Utf16::new(&model).ok(), ..Default::default() };
    let id = contexts::AppInstanceId { id: Guid([1; 16]) };
    let seeds: [(&str, &[u8], Vec<u8>); 11] = [
        ("apple_request", name::APPLE, apple_query),
        ("apple_response", name::APPLE, apple.to_bytes()),
        ("app_instance_id", name::APP_INSTANCE_ID, id.to_bytes()),
        ("app_instance_version", name::APP_INSTANCE_VERSION, contexts::AppInstanceVersion::default().to_bytes()),
        ("durable_reconnect", name::DURABLE_HANDLE_RECONNECT, contexts::DurableReconnect::default().to_bytes()),
        ("durable_reconnect_v2", name::DURABLE_HANDLE_RECONNECT_V2, contexts::DurableReconnectV2::default().to_bytes()),
        ("lease_v1", name::LEASE, contexts::Lease::default().to_bytes()),
        ("maximal_access", name::QUERY_MAXIMAL_ACCESS, contexts::MaximalAccessResponse::default().to_bytes().to_vec()),
        ("on_disk_id", name::QUERY_ON_DISK_ID, contexts::OnDiskId::default().to_bytes()),
        ("posix", name::POSIX, contexts::PosixResponse { sids: b"sids", ..Default::default() }.to_bytes()),
        ("timewarp", name::TIMEWARP_TOKEN, contexts::TimewarpToken::default().to_bytes().to_vec()),
    ];
    seeds.iter().try_for_each(|(seed, name, data)| {
        folder.write(seed, CreateContextsBuilder::new().add(name, data).contexts().as_bytes())
    })
}

fn negotiate_list() -> NegotiateContextsBuilder {
    let mut list = NegotiateContextsBuilder::new();
    let hash_algorithms = U16List::new(&[HashAlgorithm::SHA_512]);
    let preauth = PreauthIntegrityCapabilities { hash_algorithms, salt: &[1; 32] };
    list.add(ContextType::PREAUTH_INTEGRITY_CAPABILITIES, |writer| preauth.encode(writer));
    let encryption = EncryptionCapabilities { ciphers: U16List::new(&[Cipher::AES_128_GCM, Cipher::AES_128_CCM]) };
    list.add(ContextType::ENCRYPTION_CAPABILITIES, |writer| encryption.encode(writer));
    let algorithms = U16List::new(&[SigningAlgorithm::AES_GMAC, SigningAlgorithm::AES_CMAC]);
    list.add(ContextType::SIGNING_CAPABILITIES, |writer| SigningCapabilities { algorithms }.encode(writer));
    list
}

fn negotiate_contexts(folder: &Folder) -> io::Result<()> {
    let mut list = negotiate_list();
    let algorithms = U16List::new(&[CompressionAlgorithm::LZ4]);
    let compression = CompressionCapabilities { flags: CompressionCapabilities::FLAG_CHAINED, algorithms };
    list.add(ContextType::COMPRESSION_CAPABILITIES, |writer| compression.encode(writer));
    list.add(ContextType::NETNAME_NEGOTIATE_CONTEXT_ID, |writer| writer.utf16("server"));
    list.add(ContextType::TRANSPORT_CAPABILITIES, |writer| TransportCapabilities { flags: 1 }.encode(writer));
    let rdma = RdmaTransformCapabilities { transforms: U16List::new(&[RdmaTransform::ENCRYPTION]) };
    list.add(ContextType::RDMA_TRANSFORM_CAPABILITIES, |writer| rdma.encode(writer));
    list.add(ContextType::POSIX_EXTENSIONS_AVAILABLE, |writer| PosixExtensions::offer().encode(writer));
    let contexts = list.contexts();
    folder.write("every_known", &[&[contexts.count() as u8], contexts.as_bytes()].concat())
}
