//! Checks with the `smb2` crate, which keeps many requests in flight.

use std::time::Duration;

use smb2::{ClientConfig, Error, ErrorKind, SmbClient, Tree};

use crate::check::{Outcome, Target, bytes, check, expect};

const MIB: usize = 1 << 20;
/// What this crate reads with one request; larger files it wants to be read in a pipeline.
const SINGLE_READ_BYTES_MAX: usize = 8 * MIB;

pub async fn checks(target: &Target) {
    check("smb2: small and large files both ways", sizes(target)).await;
    check("smb2: random reads from several tasks", random_reads(target)).await;
    check("smb2: a listing of 500 files, stat and rename in batches", batches(target)).await;
    check("smb2: named streams", streams(target)).await;
    check("smb2: the server copies a file", server_side_copy(target)).await;
    check("smb2: a watched folder tells of a new file", watching(target)).await;
    check("smb2: errors have their kinds", kinds(target)).await;
    check("smb2: the shares are listed", shares(target)).await;
    check("smb2: a wrong password is refused", wrong_password(target)).await;
}

async fn connected(target: &Target, password: &str) -> Result<SmbClient, Error> {
    SmbClient::connect(ClientConfig {
        addr: format!("{}:{}", target.host, target.port),
        timeout: Duration::from_secs(10),
        username: target.user.clone(),
        password: password.to_owned(),
        ..Default::default()
    })
    .await
}

async fn mounted(target: &Target) -> Result<(SmbClient, Tree), Error> {
    let mut client = connected(target, &target.password).await?;
    let tree = client.connect_share(&target.share).await?;
    Ok((client, tree))
}

async fn sizes(target: &Target) -> Outcome {
    let (mut client, mut tree) = mounted(target).await?;
    for (seed, length) in [0, 1, 4096, 65_536, 65_537, MIB, 40 * MIB + 7].into_iter().enumerate() {
        let data = bytes(seed as u64, length);
        client.write_file(&tree, "smb2-sizes", &data).await?;
        let info = client.stat(&mut tree, "smb2-sizes").await?;
        expect(info.size == length as u64, || format!("{} bytes for {length}", info.size))?;
        let seen = if length <= SINGLE_READ_BYTES_MAX {
            client.read_file(&mut tree, "smb2-sizes").await?
        } else {
            client.read_file_pipelined(&mut tree, "smb2-sizes").await?
        };
        expect(seen == data, || format!("{length} bytes came back different"))?;
    }
    let data = bytes(99, 3 * MIB);
    client.write_file_pipelined(&tree, "smb2-sizes", &data).await?;
    let seen = client.read_file_pipelined(&mut tree, "smb2-sizes").await?;
    expect(seen == data, || "the pipelined transfer came back different".into())?;
    client.delete_file(&tree, "smb2-sizes").await?;
    Ok(client.disconnect_share(&tree).await?)
}

async fn random_reads(target: &Target) -> Outcome {
    let (mut client, tree) = mounted(target).await?;
    let data = std::sync::Arc::new(bytes(3, 16 * MIB));
    client.write_file(&tree, "smb2-random", &data).await?;
    let mut tasks = Vec::new();
    for task in 0..8_u64 {
        let reader = client.open_file_reader(&tree, "smb2-random").await?;
        let data = data.clone();
        tasks.push(tokio::spawn(async move {
            for number in 0..200_u64 {
                let offset = (number * 7_919 + task * 104_729) * 4_099 % (15 * MIB as u64);
                let length = 1 + (number * 3_571) % 100_000;
                let seen = reader.read_at(offset, length).await?;
                let expected = &data[offset as usize..(offset + length) as usize];
                if seen != expected {
                    return Ok::<_, Error>(Some((offset, length)));
                }
            }
            reader.close().await?;
            Ok(None)
        }));
    }
    for task in tasks {
        let wrong = task.await??;
        expect(wrong.is_none(), || format!("offset and length {wrong:?} differ"))?;
    }
    client.delete_file(&tree, "smb2-random").await?;
    Ok(client.disconnect_share(&tree).await?)
}

async fn batches(target: &Target) -> Outcome {
    let (mut client, mut tree) = mounted(target).await?;
    client.create_directory(&tree, "smb2-many").await?;
    let names: Vec<String> = (0..500).map(|number| format!("smb2-many/файл {number:03}")).collect();
    for name in &names {
        client.write_file(&tree, name, name.as_bytes()).await?;
    }
    let mut listed: Vec<String> =
        client.list_directory(&mut tree, "smb2-many").await?.into_iter().map(|entry| entry.name).collect();
    listed.retain(|name| name != "." && name != "..");
    listed.sort();
    let expected: Vec<&str> = names.iter().map(|name| &name["smb2-many/".len()..]).collect();
    expect(listed == expected, || format!("{} names of {}", listed.len(), expected.len()))?;
    let paths: Vec<&str> = names.iter().map(String::as_str).collect();
    for (info, name) in client.stat_files(&tree, &paths).await.into_iter().zip(&names) {
        let info = info?;
        expect(info.size == name.len() as u64, || format!("{name}: {info:?}"))?;
    }
    let moved: Vec<String> = names.iter().map(|name| format!("{name}.moved")).collect();
    let renames: Vec<(&str, &str)> = paths.iter().copied().zip(moved.iter().map(String::as_str)).collect();
    for result in client.rename_files(&tree, &renames).await {
        result?;
    }
    let moved: Vec<&str> = moved.iter().map(String::as_str).collect();
    for result in client.delete_files(&tree, &moved).await {
        result?;
    }
    client.delete_directory(&tree, "smb2-many").await?;
    Ok(client.disconnect_share(&tree).await?)
}

async fn streams(target: &Target) -> Outcome {
    let (mut client, mut tree) = mounted(target).await?;
    client.write_file(&tree, "smb2-streams", b"main").await?;
    client.write_stream(&tree, "smb2-streams", "notes", b"in a stream").await?;
    let seen = client.read_stream(&mut tree, "smb2-streams", "notes").await?;
    expect(seen == b"in a stream", || format!("{seen:?}"))?;
    let listed = client.list_streams(&mut tree, "smb2-streams").await?;
    expect(listed.iter().map(|stream| stream.name.as_str()).eq(["notes"]), || format!("{listed:?}"))?;
    client.delete_stream(&tree, "smb2-streams", "notes").await?;
    let main = client.read_file(&mut tree, "smb2-streams").await?;
    expect(main == b"main", || format!("{main:?}"))?;
    client.delete_file(&tree, "smb2-streams").await?;
    Ok(client.disconnect_share(&tree).await?)
}

async fn server_side_copy(target: &Target) -> Outcome {
    let (mut client, mut tree) = mounted(target).await?;
    let data = bytes(11, 5 * MIB + 1);
    client.write_file(&tree, "smb2-from", &data).await?;
    client.server_side_copy_file(&tree, "smb2-from", "smb2-to").await?;
    let seen = client.read_file(&mut tree, "smb2-to").await?;
    expect(seen == data, || "the copy differs".into())?;
    client.delete_file(&tree, "smb2-from").await?;
    client.delete_file(&tree, "smb2-to").await?;
    Ok(client.disconnect_share(&tree).await?)
}

async fn watching(target: &Target) -> Outcome {
    let (mut client, tree) = mounted(target).await?;
    client.create_directory(&tree, "smb2-watched").await?;
    let mut watcher = client.watch(&tree, "smb2-watched", false).await?;
    let (mut other, other_tree) = mounted(target).await?;
    let mut made = 0;
    let events = {
        let told = tokio::time::timeout(Duration::from_secs(10), watcher.next_events());
        tokio::pin!(told);
        // The crate does not say when the server watches: what is made before that is not told.
        loop {
            tokio::select! {
                biased;
                events = &mut told => break events??,
                () = tokio::time::sleep(Duration::from_millis(200)) => {}
            }
            other.write_file(&other_tree, &format!("smb2-watched/new{made}"), b"news").await?;
            made += 1;
        }
    };
    expect(events.iter().any(|event| event.filename.starts_with("new")), || format!("{events:?}"))?;
    watcher.close().await?;
    for number in 0..made {
        client.delete_file(&tree, &format!("smb2-watched/new{number}")).await?;
    }
    client.delete_directory(&tree, "smb2-watched").await?;
    other.disconnect_share(&other_tree).await?;
    Ok(client.disconnect_share(&tree).await?)
}

async fn kinds(target: &Target) -> Outcome {
    let (mut client, mut tree) = mounted(target).await?;
    let absent = client.read_file(&mut tree, "smb2-absent").await.map_err(|error| error.kind());
    expect(absent == Err(ErrorKind::NotFound), || format!("an absent file: {absent:?}"))?;
    client.create_directory(&tree, "smb2-exists").await?;
    let twice = client.create_directory(&tree, "smb2-exists").await.map_err(|error| error.kind());
    expect(twice == Err(ErrorKind::AlreadyExists), || format!("a folder made twice: {twice:?}"))?;
    let folder = client.delete_file(&tree, "smb2-exists").await.map_err(|error| error.kind());
    expect(folder == Err(ErrorKind::IsADirectory), || format!("a folder deleted as a file: {folder:?}"))?;
    client.delete_directory(&tree, "smb2-exists").await?;
    Ok(client.disconnect_share(&tree).await?)
}

async fn shares(target: &Target) -> Outcome {
    let mut client = connected(target, &target.password).await?;
    let shares = client.list_shares().await?;
    expect(shares.iter().any(|share| share.name == target.share), || format!("{shares:?}"))
}

async fn wrong_password(target: &Target) -> Outcome {
    match connected(target, "wrong").await {
        Ok(_) => Err("a wrong password was let in".into()),
        Err(_) => Ok(()),
    }
}
