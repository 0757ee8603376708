//! Checks with the `smb` crate.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use smb::connection::{AuthMethodsConfig, EncryptionMode, MultiChannelConfig};
use smb::{
    Client, ClientConfig, ConnectionConfig, Dialect, DirAccessMask, Directory, File, FileAccessMask, FileAttributes,
    FileCreateArgs, FileDispositionInformation, FileFullDirectoryInformation, FileRenameInformation,
    FileStandardInformation, ReadAt, UncPath, WriteAt,
};

use crate::check::{Outcome, Target, bytes, check, expect};

const MIB: usize = 1 << 20;
/// What one READ or WRITE carries here, and the most it may in the oldest dialect.
const BLOCK_BYTES: usize = 256 << 10;
const BLOCK_BYTES_2_0_2: usize = 64 << 10;
/// Files in the folder that is listed.
const FILES: usize = 40;

pub async fn checks(target: &Target) {
    for (name, mode) in [("signed", EncryptionMode::Disabled), ("sealed", EncryptionMode::Required)] {
        let config = ConnectionConfig { encryption_mode: mode, ..base(target) };
        check(&format!("smb: 5 MiB both ways, {name}"), round_trip(target, config)).await;
    }
    for dialect in [Dialect::Smb0202, Dialect::Smb021, Dialect::Smb030, Dialect::Smb0302, Dialect::Smb0311] {
        let config = ConnectionConfig { min_dialect: Some(dialect), max_dialect: Some(dialect), ..base(target) };
        check(&format!("smb: 5 MiB both ways, dialect {dialect:?}"), round_trip(target, config)).await;
    }
    let config = ConnectionConfig { multichannel: MultiChannelConfig::Always, ..base(target) };
    check("smb: 5 MiB both ways, asking for multichannel", round_trip(target, config)).await;
    check("smb: a listing shows every file", listing(target)).await;
    check("smb: rename, information and delete", rename_and_delete(target)).await;
    check("smb: the shares are listed", shares(target)).await;
    check("smb: a wrong password is refused", wrong_password(target)).await;
}

fn base(target: &Target) -> ConnectionConfig {
    ConnectionConfig {
        port: Some(target.port),
        timeout: Some(Duration::from_secs(20)),
        auth_methods: AuthMethodsConfig { ntlm: true, kerberos: false },
        ..Default::default()
    }
}

async fn connected(target: &Target, connection: ConnectionConfig) -> smb::Result<(Client, UncPath)> {
    let client = Client::new(ClientConfig { connection, ..Default::default() });
    let share = UncPath::new(&target.host)?.with_share(&target.share)?;
    client.share_connect(&share, &target.user, target.password.clone()).await?;
    Ok((client, share))
}

async fn round_trip(target: &Target, config: ConnectionConfig) -> Outcome {
    let block_bytes = if config.max_dialect == Some(Dialect::Smb0202) { BLOCK_BYTES_2_0_2 } else { BLOCK_BYTES };
    let (client, share) = connected(target, config).await?;
    let data = bytes(5, 5 * MIB + 13);
    let path = share.with_path("smb-round-trip");
    let created = FileCreateArgs::make_overwrite(FileAttributes::default(), Default::default());
    let file = client.create_file(&path, &created).await?.unwrap_file();
    for (number, block) in data.chunks(block_bytes).enumerate() {
        write_all(&file, block, (number * block_bytes) as u64).await?;
    }
    file.flush().await?;
    file.close().await?;
    let file = client.create_file(&path, &for_reading()).await?.unwrap_file();
    let mut seen = vec![0; data.len()];
    for (number, block) in seen.chunks_mut(block_bytes).enumerate() {
        read_all(&file, block, (number * block_bytes) as u64).await?;
    }
    file.close().await?;
    expect(seen == data, || "what came back differs".into())?;
    delete(&client, &path).await?;
    client.close().await?;
    Ok(())
}

async fn listing(target: &Target) -> Outcome {
    let (client, share) = connected(target, base(target)).await?;
    let folder = share.clone().with_path("smb-folder");
    let options = smb::CreateOptions::new().with_directory_file(true);
    let made = FileCreateArgs::make_create_new(FileAttributes::new().with_directory(true), options);
    client.create_file(&folder, &made).await?.unwrap_dir().close().await?;
    let mut expected: Vec<String> = (0..FILES).map(|number| format!("datei-ß-{number:03}")).collect();
    for name in &expected {
        let path = share.clone().with_path(&format!("smb-folder\\{name}"));
        let created = FileCreateArgs::make_create_new(FileAttributes::default(), Default::default());
        client.create_file(&path, &created).await?.unwrap_file().close().await?;
    }
    let access = DirAccessMask::new().with_list_directory(true).with_synchronize(true);
    let opened = FileCreateArgs::make_open_existing(access.into());
    let directory = Arc::new(client.create_file(&folder, &opened).await?.unwrap_dir());
    let mut seen = Vec::new();
    let mut entries = Directory::query::<FileFullDirectoryInformation>(&directory, "*").await?;
    while let Some(entry) = entries.next().await {
        seen.push(entry?.file_name.to_string());
    }
    drop(entries);
    directory.close().await?;
    seen.retain(|name| name != "." && name != "..");
    seen.sort();
    expected.sort();
    expect(seen == expected, || format!("{} names of {}", seen.len(), expected.len()))?;
    for name in &expected {
        delete(&client, &share.clone().with_path(&format!("smb-folder\\{name}"))).await?;
    }
    delete(&client, &folder).await?;
    client.close().await?;
    Ok(())
}

async fn rename_and_delete(target: &Target) -> Outcome {
    let (client, share) = connected(target, base(target)).await?;
    let created = FileCreateArgs::make_overwrite(FileAttributes::default(), Default::default());
    let file = client.create_file(&share.clone().with_path("smb-before"), &created).await?.unwrap_file();
    write_all(&file, b"content", 0).await?;
    let facts: FileStandardInformation = file.query_info().await?;
    expect(facts.end_of_file == 7, || format!("{facts:?}"))?;
    let renamed =
        FileRenameInformation { replace_if_exists: false.into(), root_directory: 0, file_name: "smb-after".into() };
    file.set_info(renamed).await?;
    file.close().await?;
    let before = client.create_file(&share.clone().with_path("smb-before"), &for_reading()).await;
    expect(before.is_err(), || "the old name still opens".into())?;
    delete(&client, &share.clone().with_path("smb-after")).await?;
    let after = client.create_file(&share.with_path("smb-after"), &for_reading()).await;
    expect(after.is_err(), || "the deleted file still opens".into())?;
    client.close().await?;
    Ok(())
}

async fn shares(target: &Target) -> Outcome {
    let client = Client::new(ClientConfig { connection: base(target), ..Default::default() });
    client.ipc_connect(&target.host, &target.user, target.password.clone()).await?;
    let listed = format!("{:?}", client.list_shares(&target.host).await?);
    // The crate shows names as their UTF-16 numbers.
    let name: Vec<u16> = target.share.encode_utf16().chain([0]).collect();
    expect(listed.contains(&format!("{name:?}")), || listed.clone())?;
    client.close().await?;
    Ok(())
}

async fn wrong_password(target: &Target) -> Outcome {
    let client = Client::new(ClientConfig { connection: base(target), ..Default::default() });
    let share = UncPath::new(&target.host)?.with_share(&target.share)?;
    let refused = client.share_connect(&share, &target.user, "wrong".into()).await;
    expect(
        matches!(refused, Err(smb::Error::UnexpectedMessageStatus(status)) if status == smb::Status::LogonFailure as u32),
        || format!("expected LOGON_FAILURE, got {refused:?}"),
    )
}

async fn delete(client: &Client, path: &UncPath) -> smb::Result<()> {
    let access = FileAccessMask::new().with_delete(true).with_generic_read(true);
    let resource = client.create_file(path, &FileCreateArgs::make_open_existing(access)).await?;
    let doomed = FileDispositionInformation { delete_pending: true.into() };
    if resource.is_file() {
        let file = resource.unwrap_file();
        file.set_info(doomed).await?;
        file.close().await
    } else {
        let directory = resource.unwrap_dir();
        directory.set_info(doomed).await?;
        directory.close().await
    }
}

fn for_reading() -> FileCreateArgs {
    FileCreateArgs::make_open_existing(FileAccessMask::new().with_generic_read(true))
}

async fn write_all(file: &File, mut data: &[u8], mut offset: u64) -> smb::Result<()> {
    while !data.is_empty() {
        let written = file.write_at(data, offset).await?;
        data = &data[written..];
        offset += written as u64;
    }
    Ok(())
}

async fn read_all(file: &File, buffer: &mut [u8], offset: u64) -> smb::Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64).await? {
            0 => return Ok(()),
            read => filled += read,
        }
    }
    Ok(())
}
