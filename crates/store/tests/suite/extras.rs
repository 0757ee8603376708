//! What every store keeps with a file besides its data: streams, extended attributes, security descriptors.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::common::*;
use store::{AttributeChange, Changes, Error, Kind, NewNode, Replace};

behaviours! {
    streams_come_and_go
    a_listing_of_streams_looks_at_no_more_than_is_wanted
    a_large_stream_keeps_its_data
    an_open_stream_follows_its_new_name
    a_removed_stream_is_not_mistaken_for_a_new_one
    directories_have_streams
    stream_names_may_be_long_and_strange
    a_security_descriptor_comes_back
    extended_attributes_compare_without_case
}

fn streams_come_and_go(disk: &Disk) {
    let node = disk.file("file", b"main");
    assert!(node.extras().streams().unwrap().is_empty());
    let stream = node.extras().create_stream("Zone.Identifier").unwrap();
    stream.write_at(b"[ZoneTransfer]", 0).unwrap();
    assert_eq!(stream.kind(), Kind::Stream);
    assert_eq!(stream.identity(), node.identity());
    assert_eq!(node.extras().create_stream("zone.identifier").err(), Some(Error::Exists));
    let (name, found) = disk.node("file").extras().stream("ZONE.IDENTIFIER").unwrap().unwrap();
    assert_eq!(name, "Zone.Identifier");
    assert_eq!(read_all(&*found), b"[ZoneTransfer]");
    found.set_length(5).unwrap();
    found.write_at(b"!", 7).unwrap();
    assert_eq!(read_all(&*stream), b"[Zone\0\0!");
    let mut buffer = [0; 4];
    assert_eq!(read_at_once(&*stream, &mut buffer, 6).unwrap(), 2);
    let listed = node.extras().streams().unwrap();
    assert_eq!((listed.len(), listed[0].name.as_str(), listed[0].length), (1, "Zone.Identifier", 8));
    assert!(listed[0].allocated >= 8);
    assert_eq!(stream.metadata().unwrap().length, 8);
    assert_eq!(read_all(&*node), b"main");
    node.extras().rename_stream("zone.identifier", "other", Replace::No).unwrap();
    assert!(node.extras().stream("zone.identifier").unwrap().is_none());
    node.extras().create_stream("third").unwrap();
    assert_eq!(node.extras().rename_stream("third", "OTHER", Replace::No), Err(Error::Exists));
    node.extras().rename_stream("third", "OTHER", Replace::Yes).unwrap();
    assert_eq!(node.extras().streams().unwrap()[0].name, "OTHER");
    node.extras().remove_stream("other").unwrap();
    assert_eq!(node.extras().remove_stream("other"), Err(Error::NotFound));
    assert_eq!(node.extras().rename_stream("other", "x", Replace::No), Err(Error::NotFound));
    assert!(node.extras().streams().unwrap().is_empty());
    for bad in ["", "a:b", "a\\b", "a/b", "a\0b"] {
        assert_eq!(node.extras().create_stream(bad).err(), Some(Error::NameInvalid), "{bad:?}");
    }
}

fn a_listing_of_streams_looks_at_no_more_than_is_wanted(disk: &Disk) {
    let node = disk.file("file", b"main");
    (0..20).for_each(|number| drop(node.extras().create_stream(&format!("Stream {number}")).unwrap()));
    let mut taken = Vec::new();
    let listed = node.extras().list_streams(&mut |stream| {
        taken.push(stream.name);
        if taken.len() == 7 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!((listed, taken.len()), (Ok(()), 7));
    taken.sort();
    taken.dedup();
    assert_eq!(taken.len(), 7);
    assert!(
        node.extras().stream("STREAM 19").unwrap().is_some() && node.extras().stream("stream 20").unwrap().is_none()
    );
}

fn a_large_stream_keeps_its_data(disk: &Disk) {
    let node = disk.file("file", b"main");
    let stream = node.extras().create_stream("large").unwrap();
    stream.write_at(&[1; 1000], 0).unwrap();
    stream.write_at(&[2; 100_000], 500).unwrap();
    let again = disk.node("FILE").extras().stream("Large").unwrap().unwrap().1;
    let data = read_all(&*again);
    assert_eq!(data.len(), 100_500);
    assert!(data[..500].iter().all(|byte| *byte == 1) && data[500..].iter().all(|byte| *byte == 2));
    again.zero(0, 100, true).unwrap();
    again.reserve(200_000).unwrap();
    assert_eq!(again.extents(0, 10, 9).unwrap().ranges.len(), 1);
    stream.set_length(200).unwrap();
    assert_eq!(read_all(&*stream), [vec![0; 100], vec![1; 100]].concat());
    assert_eq!(node.extras().streams().unwrap()[0].length, 200);
    stream.sync().unwrap();
    disk.rename("file", "renamed", Replace::No).unwrap();
    assert_eq!(disk.node("renamed").extras().stream("large").unwrap().unwrap().1.metadata().unwrap().length, 200);
    disk.remove("renamed").unwrap();
}

fn an_open_stream_follows_its_new_name(disk: &Disk) {
    let node = disk.file("file", b"");
    let stream = node.extras().create_stream("old").unwrap();
    stream.write_at(b"one", 0).unwrap();
    node.extras().rename_stream("old", "new", Replace::No).unwrap();
    stream.write_at(b"two", 3).unwrap();
    assert_eq!(read_all(&*node.extras().stream("new").unwrap().unwrap().1), b"onetwo");
}

fn a_removed_stream_is_not_mistaken_for_a_new_one(disk: &Disk) {
    let node = disk.file("file", b"");
    let old = node.extras().create_stream("name").unwrap();
    old.write_at(b"old", 0).unwrap();
    node.extras().remove_stream("name").unwrap();
    let new = node.extras().create_stream("name").unwrap();
    match old.write_at(b"x", 0) {
        Ok(()) | Err(Error::Gone) => {}
        Err(other) => panic!("{other}"),
    }
    assert_eq!(read_all(&*new), b"");
}

fn directories_have_streams(disk: &Disk) {
    let folder = disk.directory("folder");
    let stream = folder.extras().create_stream("note").unwrap();
    stream.write_at(&[1; 3000], 0).unwrap();
    let found = disk.node("Folder").extras().stream("NOTE").unwrap().unwrap().1;
    assert_eq!(read_all(&*found), [1; 3000]);
    disk.remove("folder").unwrap();
}

fn stream_names_may_be_long_and_strange(disk: &Disk) {
    let node = disk.file("file", b"");
    let names = ["\u{5}Summary\n", "täst ü", "*?<>|\"", &"x".repeat(255), &"ж".repeat(255), ".", ".."];
    for name in names {
        node.extras().create_stream(name).unwrap().write_at(name.as_bytes(), 0).unwrap();
    }
    for name in names {
        let (stored, stream) = node.extras().stream(name).unwrap().unwrap();
        assert_eq!((stored.as_str(), read_all(&*stream)), (name, name.as_bytes().to_vec()));
        assert_eq!(node.extras().create_stream(name).err(), Some(Error::Exists));
    }
    assert_eq!(node.extras().streams().unwrap().len(), names.len());
    node.extras().rename_stream(&"ж".repeat(255), "short", Replace::No).unwrap();
    node.extras().rename_stream("short", &"щ".repeat(255), Replace::No).unwrap();
    node.extras().rename_stream(&"щ".repeat(255), &"Щ".repeat(255), Replace::No).unwrap();
    let (stored, stream) = node.extras().stream(&"щ".repeat(255)).unwrap().unwrap();
    assert_eq!(stored, "Щ".repeat(255));
    assert_eq!(read_all(&*stream), "ж".repeat(255).as_bytes());
    assert_eq!(node.extras().create_stream(&"x".repeat(256)).err(), Some(Error::NameInvalid));
    for name in names {
        node.extras().remove_stream(if name.starts_with('ж') { &stored } else { name }).unwrap();
    }
}

fn a_security_descriptor_comes_back(disk: &Disk) {
    let new = NewNode { kind: Kind::File, attributes: 0x20, security: Some(&[1; 300]), owner: None };
    let node = disk.store.create(&path("file"), new).unwrap();
    assert_eq!(disk.node("file").extras().security().unwrap().unwrap(), [1; 300]);
    for length in [100, 60_000, 20, 70_000, 65_000, 1] {
        node.extras().set_security(&vec![2; length]).unwrap();
        assert_eq!(disk.node("FILE").extras().security().unwrap().unwrap(), vec![2; length]);
        // Nor does a node say so that has just told the whole.
        for node in [disk.node("file"), Arc::clone(&node)] {
            assert_eq!(node.extras().security_within(length), Ok(Some(vec![2; length])));
            assert_eq!(
                node.extras().security_within(length.saturating_sub(1).min(4_096)),
                Err(Error::WouldBlock),
                "{length}"
            );
        }
    }
    let bare = disk.directory("folder");
    assert_eq!(bare.extras().security().unwrap(), None);
    assert_eq!(bare.extras().security_within(4_096), Ok(None));
    bare.extras().set_security(&[3; 40]).unwrap();
    assert_eq!(bare.extras().security().unwrap().unwrap(), [3; 40]);
    let large = NewNode { kind: Kind::Directory, attributes: 0, security: Some(&[4; 30_000]), owner: None };
    let large = disk.store.create(&path("large"), large).unwrap();
    assert_eq!(large.extras().security().unwrap().unwrap(), [4; 30_000]);
    disk.remove("large").unwrap();
}

fn extended_attributes_compare_without_case(disk: &Disk) {
    let node = disk.file("file", b"");
    assert_eq!(node.extras().extended().unwrap(), []);
    node.extras().set_extended("Author", b"one").unwrap();
    node.extras().set_extended("AUTHOR", b"two").unwrap();
    node.extras().set_extended("zeta", b"z").unwrap();
    node.extras().set_security(b"descriptor").unwrap();
    node.change(&Changes { attributes: AttributeChange::to(6), ..Changes::default() }).unwrap();
    node.extras().create_stream("stream").unwrap();
    let all = disk.node("file").extras().extended().unwrap();
    assert_eq!(all, [("Author".into(), b"two".to_vec()), ("zeta".into(), b"z".to_vec())]);
    node.extras().set_extended("aUTHOR", b"").unwrap();
    node.extras().set_extended("never", b"").unwrap();
    assert_eq!(node.extras().extended().unwrap(), [("zeta".into(), b"z".to_vec())]);
    assert_eq!(node.extras().set_extended("", b"x"), Err(Error::NameInvalid));
}
