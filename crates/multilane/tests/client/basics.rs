//! What the client library does while nothing goes wrong.

use crate::configuration::{configuration, making, server, session, simulate, target};
use crate::network::{Links, reach_all};
use client::{
    Access, Basic, Channels, Cipher, Disposition, Error, FileAttributes, FileTime, OpenOptions, Security,
    SecurityInformation, Session, Settings, SigningAlgorithm, Status, Tree,
};
use server::admin::{Account, Multichannel, Sealing};
use server::in_memory::InMemory;
use std::time::Duration;

async fn one_link(settings: Settings) -> (Session, Tree) {
    let links = Links::new(1, 1, server(1, Multichannel::On, Sealing::Enabled));
    let session = session(&links, settings).await;
    let tree = session.tree("ram").await.unwrap();
    (session, tree)
}

fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| (at / 977) as u8 ^ at as u8 ^ seed).collect()
}

async fn write_all(tree: &Tree, path: &str, data: &[u8]) {
    let file = tree.open(path, making(Disposition::Overwrite)).await.unwrap();
    let give = |at: u64, buffer: &mut [u8]| {
        let rest = &data[at as usize..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok::<_, Error>(count)
    };
    assert_eq!(file.write_range(0, give).await.unwrap(), data.len() as u64);
    file.close().await.unwrap();
}

async fn read_all(tree: &Tree, path: &str) -> Vec<u8> {
    let file = tree.open(path, OpenOptions::default()).await.unwrap();
    let length = file.facts().end_of_file;
    let mut all = vec![0; length as usize];
    let take = |at: u64, data: &client::Data| {
        all[at as usize..][..data.len()].copy_from_slice(data);
        Ok::<_, Error>(())
    };
    assert_eq!(file.read_range(0, length, take).await.unwrap(), length);
    file.close().await.unwrap();
    all
}

#[test]
fn what_is_written_is_read_again() {
    simulate(async {
        let (session, tree) = one_link(Settings::default()).await;
        for (length, name) in [(0, "empty"), (1, "one"), (4096, "page"), (9_000_001, "large")] {
            let data = pattern(length, 3);
            write_all(&tree, name, &data).await;
            assert!(read_all(&tree, name).await == data, "{name}");
        }
        session.close().await.unwrap();
    });
}

#[test]
fn sealed_sessions_do_the_same() {
    simulate(async {
        let (session, tree) = one_link(Settings { seal: true, ..Settings::default() }).await;
        assert!(session.connected().is_sealed);
        let data = pattern(3_000_000, 5);
        write_all(&tree, "sealed", &data).await;
        assert!(read_all(&tree, "sealed").await == data);
    });
}

#[test]
fn a_server_that_wants_encryption_gets_it() {
    simulate(async {
        let links = Links::new(1, 1, server(1, Multichannel::On, Sealing::Required));
        let session = session(&links, Settings::default()).await;
        assert!(session.connected().is_sealed);
        let tree = session.tree("ram").await.unwrap();
        write_all(&tree, "x", b"abc").await;
        assert_eq!(read_all(&tree, "x").await, b"abc");
    });
}

#[test]
fn a_session_tells_what_was_agreed_on_without_a_share() {
    simulate(async {
        let links = Links::new(3, 1, server(3, Multichannel::On, Sealing::Enabled));
        let session = session(&links, Settings::default()).await;
        let agreed = session.agreed().unwrap();
        assert_eq!((agreed.signing, agreed.cipher), (SigningAlgorithm::AesCmac, Some(Cipher::Aes128Gcm)));
        assert!(agreed.has_multichannel && agreed.read_bytes_max >= 1 << 20);
        session.echo().await.unwrap();
        assert_eq!(session.interfaces().await.unwrap().len(), 3);
        session.widen().await.unwrap();
        assert_eq!(session.connected().channels.len(), 3);
        assert!(session.tree("IPC$").await.is_err(), "pipes are no files");
    });
}

#[test]
fn directories_are_made_listed_renamed_and_removed() {
    simulate(async {
        let (_session, tree) = one_link(Settings::default()).await;
        tree.make_directory("a").await.unwrap();
        tree.make_directory("a/b").await.unwrap();
        write_all(&tree, r"a\b\file", b"12345").await;
        let entries = tree.entries("a/b").await.unwrap();
        assert_eq!(entries.len(), 1);
        assert_eq!((entries[0].name.as_str(), entries[0].facts.end_of_file), ("file", 5));
        tree.rename("a/b/file", "a/moved", false).await.unwrap();
        assert!(tree.facts("a/moved").await.unwrap().end_of_file == 5);
        assert_eq!(tree.facts("a/b/file").await.unwrap_err().status(), Some(Status::OBJECT_NAME_NOT_FOUND));
        assert_eq!(tree.remove("a").await.unwrap_err().status(), Some(Status::DIRECTORY_NOT_EMPTY));
        for path in ["a/moved", "a/b", "a"] {
            tree.remove(path).await.unwrap();
        }
        assert!(tree.entries("").await.unwrap().is_empty());
    });
}

#[test]
fn times_attributes_and_descriptors_are_set_and_told() {
    simulate(async {
        let (_session, tree) = one_link(Settings::default()).await;
        write_all(&tree, "file", b"abc").await;
        let options = OpenOptions {
            access: Access::ChangeAttributes,
            security: Security::Change,
            wants_id: true,
            ..OpenOptions::default()
        };
        let file = tree.open("file", options).await.unwrap();
        let time = FileTime::from_unix(1_700_000_000, 0);
        let basic = Basic { creation: time, write: time, attributes: FileAttributes::HIDDEN, ..Basic::default() };
        file.set_basic(basic).await.unwrap();
        let which = SecurityInformation::OWNER | SecurityInformation::DACL;
        let mut descriptor = file.descriptor(which).await.unwrap();
        descriptor.dacl.as_mut().unwrap().aces.truncate(1);
        file.set_descriptor(&descriptor, which).await.unwrap();
        assert_eq!(file.descriptor(which).await.unwrap().dacl, descriptor.dacl);
        let facts = file.facts_now().await.unwrap();
        assert_eq!((facts.created, facts.written), (time, time));
        assert!(facts.attributes.contains(FileAttributes::HIDDEN));
        let (looked, id) = tree.facts_and_id("file").await.unwrap();
        assert_eq!((looked.created, id), (time, file.id()));
        assert_eq!(tree.entries("").await.unwrap()[0].id, id.unwrap().disk_file_id);
        assert_eq!(tree.session_id(), tree.clone().session_id());
        assert!(file.is_open());
        file.close().await.unwrap();
    });
}

#[test]
fn sparse_files_tell_what_has_storage_and_are_copied_by_the_server() {
    simulate(async {
        let (_session, tree) = one_link(Settings::default()).await;
        let file = tree.open("sparse", making(Disposition::Create)).await.unwrap();
        file.make_sparse().await.unwrap();
        file.set_length(40 << 20).await.unwrap();
        assert_eq!(file.allocated(0..40 << 20, 9).await.unwrap(), []);
        let data = pattern(1 << 20, 9);
        file.write(20 << 20, data.clone()).await.unwrap();
        let found = file.allocated(0..40 << 20, 9).await.unwrap();
        assert_eq!(found, std::slice::from_ref(&(20 << 20..21 << 20)));
        let copy = tree.open("copy", making(Disposition::Create)).await.unwrap();
        copy.copy_from(&file.copy_key().await.unwrap(), 0..40 << 20).await.unwrap();
        assert_eq!(copy.facts_now().await.unwrap().end_of_file, 40 << 20);
        assert!(copy.read(20 << 20, 1 << 20).await.unwrap()[..] == data[..]);
        file.zero(20 << 20..21 << 20).await.unwrap();
        assert_eq!(file.allocated(0..40 << 20, 9).await.unwrap(), []);
        file.close().await.unwrap();
        copy.close().await.unwrap();
    });
}

#[test]
fn a_stream_goes_with_its_file() {
    simulate(async {
        let (_session, tree) = one_link(Settings::default()).await;
        tree.make_directory("dir").await.unwrap();
        write_all(&tree, "dir/file", b"data").await;
        for base in ["dir", "dir/file"] {
            write_all(&tree, &format!("{base}:notes:$DATA"), b"kept").await;
        }
        tree.rename("dir/file", "dir/moved", false).await.unwrap();
        assert_eq!(read_all(&tree, "dir/moved:notes:$DATA").await, b"kept");
        assert_eq!(read_all(&tree, "dir:notes").await, b"kept");
        assert_eq!(read_all(&tree, "dir/moved").await, b"data");
    });
}

#[test]
fn many_entries_come_in_several_answers() {
    simulate(async {
        let (_session, tree) = one_link(Settings::default()).await;
        for number in 0..700 {
            let name = format!("{number}-{}", "x".repeat(200));
            tree.open(&name, making(Disposition::Overwrite)).await.unwrap().close().await.unwrap();
        }
        assert_eq!(tree.entries("").await.unwrap().len(), 700);
    });
}

#[test]
fn length_time_and_flush_are_set() {
    simulate(async {
        let (_session, tree) = one_link(Settings::default()).await;
        let file = tree.open("f", making(Disposition::Overwrite)).await.unwrap();
        file.set_length(77).await.unwrap();
        let time = client::FileTime::from_unix(1_000_000_000, 0);
        file.set_written(time).await.unwrap();
        file.flush().await.unwrap();
        let facts = file.facts_now().await.unwrap();
        assert_eq!((facts.end_of_file, facts.written), (77, time));
        file.close().await.unwrap();
    });
}

#[test]
fn reads_behind_the_end_give_nothing() {
    simulate(async {
        let (_session, tree) = one_link(Settings::default()).await;
        write_all(&tree, "f", b"abc").await;
        let file = tree.open("f", OpenOptions::default()).await.unwrap();
        assert_eq!(&*file.read(1, 10).await.unwrap(), b"bc");
        assert!(file.read(3, 10).await.unwrap().is_empty());
        file.close().await.unwrap();
    });
}

#[test]
fn wrong_passwords_and_shares_are_refused_with_a_remedy() {
    simulate(async {
        let links = Links::new(1, 1, server(1, Multichannel::On, Sealing::Enabled));
        let network = reach_all(&links);
        let refused = Session::connect(&target("wrong"), Settings::default(), network).await.err().unwrap();
        assert_eq!(refused.status(), Some(Status::LOGON_FAILURE));
        assert!(refused.remedy().contains("password"));
        let session = session(&links, Settings::default()).await;
        assert_eq!(session.tree("none").await.err().unwrap().status(), Some(Status::BAD_NETWORK_NAME));
    });
}

#[test]
fn large_transfers_open_a_channel_on_each_link() {
    simulate(async {
        let links = Links::new(4, 1, server(4, Multichannel::On, Sealing::Enabled));
        let session = session(&links, Settings::default()).await;
        let tree = session.tree("ram").await.unwrap();
        tree.open("small", making(Disposition::Overwrite)).await.unwrap().close().await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(session.connected().channels.len(), 1, "little in flight stays on one channel");
        let data = pattern(64 << 20, 1);
        write_all(&tree, "large", &data).await;
        assert!(read_all(&tree, "large").await == data);
        let connected = session.connected();
        assert_eq!(connected.channels.len(), 4);
        assert!(connected.channels.iter().all(|channel| channel.received_bytes > 1 << 20), "{connected:?}");
        tokio::time::sleep(Duration::from_secs(11)).await;
        assert_eq!(session.connected().channels.len(), 1, "what idles is closed");
    });
}

#[test]
fn multichannel_off_is_one_channel() {
    simulate(async {
        for (multichannel, channels) in
            [(Multichannel::Off, Channels::Automatic), (Multichannel::On, Channels::Exactly(1))]
        {
            let links = Links::new(4, 1, server(4, multichannel, Sealing::Enabled));
            let session = session(&links, Settings { channels, ..Settings::default() }).await;
            let tree = session.tree("ram").await.unwrap();
            write_all(&tree, "large", &pattern(16 << 20, 1)).await;
            assert_eq!(links.connections(), 1);
        }
    });
}

#[test]
fn multichannel_that_is_off_on_the_server_is_an_error_only_where_channels_were_asked_for() {
    simulate(async {
        for (channels, is_error) in [(Channels::Automatic, false), (Channels::Exactly(4), true)] {
            // Another account's multichannel is on, so that the server offers it before it knows who signs in.
            let mut configuration = configuration(4, Multichannel::Off, Sealing::Enabled);
            configuration.accounts.push(Account { name: "other".into(), multichannel: Multichannel::On });
            let links = Links::new(4, 1, InMemory::new(configuration));
            let session = session(&links, Settings { channels, ..Settings::default() }).await;
            let _tree = session.tree("ram").await.unwrap();
            assert_eq!(session.widen().await.is_err(), is_error, "{channels:?}");
            assert_eq!(session.connected().channels.len(), 1);
        }
    });
}
