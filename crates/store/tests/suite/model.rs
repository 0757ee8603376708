//! Random operations on a store and on a simple model of one give the same answers.

use std::collections::BTreeMap;

use crate::common::*;
use proptest::prelude::*;
use store::{DirectoryOptions, Error, Kind, Node, Replace, Use};

/// What is asked for; files and streams by a small set of names, so that they meet.
#[derive(Clone, Debug)]
enum Operation {
    Create(String, Kind),
    Write(String, u64, Vec<u8>),
    SetLength(String, u64),
    Zero(String, u64, u64, bool),
    Copy(String, String, u64, u64, u64),
    Read(String),
    Rename(String, String, Replace),
    Link(String, String, Replace),
    Remove(String),
    CreateStream(String, String),
    WriteStream(String, String, u64, Vec<u8>),
    SetStreamLength(String, String, u64),
    RenameStream(String, String, String, Replace),
    RemoveStream(String, String),
    Extended(String, String, Vec<u8>),
    List(String),
    Reopen,
}

/// A store as plain as can be: numbered nodes, and names by their upper-case path.
#[derive(Default)]
struct Model {
    names: BTreeMap<String, (String, usize)>,
    nodes: Vec<ModelNode>,
}

#[derive(Clone)]
struct ModelNode {
    kind: Kind,
    data: Vec<u8>,
    streams: BTreeMap<String, (String, Vec<u8>)>,
    extended: BTreeMap<String, (String, Vec<u8>)>,
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('\\').unwrap_or(("", path))
}

fn write(data: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let end = offset as usize + bytes.len();
    if !bytes.is_empty() && data.len() < end {
        data.resize(end, 0);
    }
    if !bytes.is_empty() {
        data[offset as usize..end].copy_from_slice(bytes);
    }
}

impl Model {
    fn find(&self, path: &str) -> Result<usize, Error> {
        let (parent, _) = split(path);
        self.check_directory(parent)?;
        self.names.get(&path.to_uppercase()).map(|(_, node)| *node).ok_or(Error::NotFound)
    }

    fn check_directory(&self, path: &str) -> Result<(), Error> {
        if path.is_empty() {
            return Ok(());
        }
        self.check_directory(split(path).0)?;
        match self.names.get(&path.to_uppercase()) {
            None => Err(Error::PathNotFound),
            Some((_, node)) if self.nodes[*node].kind == Kind::Directory => Ok(()),
            Some(_) => Err(Error::NotDirectory),
        }
    }

    fn below(&self, path: &str) -> Vec<String> {
        let prefix = if path.is_empty() { String::new() } else { format!("{}\\", path.to_uppercase()) };
        self.names.keys().filter(|name| name.starts_with(&prefix) && !name.is_empty()).cloned().collect()
    }

    fn create(&mut self, path: &str, kind: Kind) -> Result<(), Error> {
        match self.find(path) {
            Ok(_) => return Err(Error::Exists),
            Err(Error::NotFound) => {}
            Err(error) => return Err(error),
        }
        let node = ModelNode { kind, data: Vec::new(), streams: BTreeMap::new(), extended: BTreeMap::new() };
        self.nodes.push(node);
        self.names.insert(path.to_uppercase(), (split(path).1.to_owned(), self.nodes.len() - 1));
        Ok(())
    }

    fn file(&mut self, path: &str) -> Result<&mut ModelNode, Error> {
        let node = self.find(path)?;
        match self.nodes[node].kind {
            Kind::Directory => Err(Error::IsDirectory),
            Kind::File | Kind::Stream => Ok(&mut self.nodes[node]),
        }
    }

    fn rename(&mut self, from: &str, to: &str, replace: Replace) -> Result<(), Error> {
        let node = self.find(from)?;
        self.check_directory(split(to).0)?;
        let (old, new) = (from.to_uppercase(), to.to_uppercase());
        if self.nodes[node].kind == Kind::Directory && format!("{new}\\").starts_with(&format!("{old}\\")) && old != new
        {
            return Err(Error::Denied);
        }
        let onto_itself = self.names.get(&new).is_some_and(|(_, taken)| *taken == node);
        if old != new {
            self.make_room(&new, if onto_itself { Replace::Yes } else { replace })?;
        }
        let moved: Vec<String> = self.below(from).into_iter().chain([old.clone()]).collect();
        for path in moved {
            let (name, node) = self.names.remove(&path).unwrap();
            let name = if path == old { split(to).1.to_owned() } else { name };
            self.names.insert(format!("{new}{}", &path[old.len()..]), (name, node));
        }
        Ok(())
    }

    fn make_room(&mut self, name: &str, replace: Replace) -> Result<(), Error> {
        let Some((_, node)) = self.names.get(name) else { return Ok(()) };
        match (replace, self.nodes[*node].kind) {
            (Replace::No, _) => Err(Error::Exists),
            (Replace::Only(_) | Replace::Yes, Kind::Directory) => Err(Error::Denied),
            (Replace::Only(_) | Replace::Yes, Kind::File | Kind::Stream) => {
                self.names.remove(name);
                Ok(())
            }
        }
    }

    fn link(&mut self, from: &str, to: &str, replace: Replace) -> Result<(), Error> {
        let node = self.find(from)?;
        self.check_directory(split(to).0)?;
        if self.nodes[node].kind == Kind::Directory {
            return Err(Error::IsDirectory);
        }
        self.make_room(&to.to_uppercase(), replace)?;
        self.names.insert(to.to_uppercase(), (split(to).1.to_owned(), node));
        Ok(())
    }

    fn remove(&mut self, path: &str) -> Result<(), Error> {
        self.find(path)?;
        if !self.below(path).is_empty() {
            return Err(Error::NotEmpty);
        }
        self.names.remove(&path.to_uppercase());
        Ok(())
    }

    fn rename_stream(&mut self, path: &str, from: &str, to: &str, replace: Replace) -> Result<(), Error> {
        let node = self.find(path)?;
        let streams = &mut self.nodes[node].streams;
        let (old, new) = (from.to_uppercase(), to.to_uppercase());
        if !streams.contains_key(&old) {
            return Err(Error::NotFound);
        }
        if old != new && streams.contains_key(&new) && replace == Replace::No {
            return Err(Error::Exists);
        }
        let (_, data) = streams.remove(&old).unwrap();
        streams.insert(new, (to.to_owned(), data));
        Ok(())
    }

    fn stream(&mut self, path: &str, name: &str) -> Result<&mut Vec<u8>, Error> {
        let node = self.find(path)?;
        let stream = self.nodes[node].streams.get_mut(&name.to_uppercase());
        stream.map(|(_, data)| data).ok_or(Error::NotFound)
    }

    fn copy(&mut self, from: &str, to: &str, source_offset: u64, offset: u64, length: u64) -> Result<u64, Error> {
        let source = self.file(from)?.data.clone();
        let target = self.file(to)?;
        let start = (source_offset as usize).min(source.len());
        let end = ((source_offset + length) as usize).min(source.len());
        write(&mut target.data, offset, &source[start..end]);
        Ok((end - start) as u64)
    }
}

fn directory_of(disk: &Disk, name: &str) -> Result<std::sync::Arc<dyn Node>, Error> {
    disk.find(name).map(|(node, _)| node)
}

fn open_stream(disk: &Disk, path: &str, name: &str) -> Result<std::sync::Arc<dyn Node>, Error> {
    let stream = directory_of(disk, path)?.extras().stream(name)?;
    stream.map(|(_, node)| node).ok_or(Error::NotFound)
}

/// Does one thing to both and compares.
fn step(disk: &mut Disk, model: &mut Model, options: &DirectoryOptions, operation: &Operation) {
    let what = format!("{operation:?}");
    match operation {
        Operation::Create(name, kind) => {
            let made = disk.store.create(&path(name), new(*kind)).map(|_| ());
            assert_eq!(made, model.create(name, *kind), "{what}");
        }
        Operation::Write(name, offset, data) => {
            let wrote = directory_of(disk, name).and_then(|node| node.write_at(data, *offset));
            assert_eq!(wrote, model.file(name).map(|node| write(&mut node.data, *offset, data)), "{what}");
        }
        Operation::SetLength(name, length) => {
            let set = directory_of(disk, name).and_then(|node| node.set_length(*length));
            assert_eq!(set, model.file(name).map(|node| node.data.resize(*length as usize, 0)), "{what}");
        }
        Operation::Zero(name, offset, length, punch) => {
            let zeroed = directory_of(disk, name).and_then(|node| node.zero(*offset, *length, *punch));
            let wanted = model.file(name).map(|node| {
                let end = ((offset + length) as usize).min(node.data.len());
                let start = (*offset as usize).min(end);
                node.data[start..end].fill(0);
            });
            assert_eq!(zeroed, wanted, "{what}");
        }
        Operation::Copy(from, to, source_offset, offset, length) => {
            let wanted = model.copy(from, to, *source_offset, *offset, *length);
            let nodes = directory_of(disk, from).and_then(|from| Ok((from, directory_of(disk, to)?)));
            let copied = nodes.and_then(|(from, to)| to.copy_from(&*from, *source_offset, *offset, *length));
            match wanted {
                Ok(_) => assert_eq!(copied, wanted, "{what}"),
                Err(_) => assert!(copied.is_err() || copied == Ok(0), "{what}: {copied:?}"),
            }
        }
        Operation::Read(name) => {
            let found = disk.find_for(name, Use::Read);
            match (found, model.find(name)) {
                (Ok((node, stored)), Ok(index)) => {
                    compare(&*node, &model.nodes[index], &what);
                    let (shown, _) = &model.names[&name.to_uppercase()];
                    assert_eq!(split(&stored).1, shown, "{what}");
                }
                (found, wanted) => assert_eq!(found.map(|_| ()).err(), wanted.err(), "{what}"),
            }
        }
        Operation::Rename(from, to, replace) => {
            assert_eq!(disk.rename(from, to, *replace), model.rename(from, to, *replace), "{what}");
        }
        Operation::Link(from, to, replace) => {
            assert_eq!(disk.link(from, to, *replace), model.link(from, to, *replace), "{what}");
        }
        Operation::Remove(name) => assert_eq!(disk.remove(name), model.remove(name), "{what}"),
        Operation::CreateStream(name, stream) => {
            let made = directory_of(disk, name).and_then(|node| node.extras().create_stream(stream)).map(|_| ());
            let wanted = model.find(name).and_then(|index| {
                let streams = &mut model.nodes[index].streams;
                if streams.contains_key(&stream.to_uppercase()) {
                    return Err(Error::Exists);
                }
                streams.insert(stream.to_uppercase(), (stream.clone(), Vec::new()));
                Ok(())
            });
            assert_eq!(made, wanted, "{what}");
        }
        Operation::WriteStream(name, stream, offset, data) => {
            let wrote = open_stream(disk, name, stream).and_then(|node| node.write_at(data, *offset));
            assert_eq!(wrote, model.stream(name, stream).map(|held| write(held, *offset, data)), "{what}");
        }
        Operation::SetStreamLength(name, stream, length) => {
            let set = open_stream(disk, name, stream).and_then(|node| node.set_length(*length));
            assert_eq!(set, model.stream(name, stream).map(|held| held.resize(*length as usize, 0)), "{what}");
        }
        Operation::RenameStream(name, from, to, replace) => {
            let renamed = directory_of(disk, name).and_then(|node| node.extras().rename_stream(from, to, *replace));
            assert_eq!(renamed, model.rename_stream(name, from, to, *replace), "{what}");
        }
        Operation::RemoveStream(name, stream) => {
            let removed = directory_of(disk, name).and_then(|node| node.extras().remove_stream(stream));
            let wanted = model.find(name).and_then(|index| {
                model.nodes[index].streams.remove(&stream.to_uppercase()).map(|_| ()).ok_or(Error::NotFound)
            });
            assert_eq!(removed, wanted, "{what}");
        }
        Operation::Extended(name, key, value) => {
            let set = directory_of(disk, name).and_then(|node| node.extras().set_extended(key, value));
            let wanted = model.find(name).map(|index| {
                let extended = &mut model.nodes[index].extended;
                let folded = key.to_uppercase();
                match value.as_slice() {
                    [] => drop(extended.remove(&folded)),
                    _ => extended.entry(folded).or_insert((key.clone(), Vec::new())).1.clone_from(value),
                }
            });
            assert_eq!(set, wanted, "{what}");
        }
        Operation::List(name) => list(disk, model, name, &what),
        Operation::Reopen if disk.folder.is_some() => disk.reopen(options.clone()),
        Operation::Reopen => {}
    }
}

fn compare(node: &dyn Node, wanted: &ModelNode, what: &str) {
    assert_eq!(node.kind(), wanted.kind, "{what}");
    if wanted.kind == Kind::File {
        assert!(read_all(node) == wanted.data, "{what}: data");
        let extents = all_extents(node, 0, u64::MAX);
        let held = |at: usize| extents.iter().any(|e| (e.offset..e.offset + e.length).contains(&(at as u64)));
        let lost = wanted.data.iter().enumerate().find(|(at, byte)| **byte != 0 && !held(*at));
        assert_eq!(lost, None, "{what}: data outside the extents {extents:?}");
    }
    let streams: BTreeMap<String, u64> =
        node.extras().streams().unwrap().into_iter().map(|stream| (stream.name, stream.length)).collect();
    let expected = wanted.streams.values().map(|(name, data)| (name.clone(), data.len() as u64)).collect();
    assert_eq!(streams, expected, "{what}: streams");
    for (name, data) in wanted.streams.values() {
        let stream = node.extras().stream(&name.to_lowercase()).unwrap().unwrap().1;
        assert!(read_all(&*stream) == *data, "{what}: stream {name}");
    }
    let mut extended = node.extras().extended().unwrap();
    let mut expected: Vec<_> = wanted.extended.values().cloned().collect();
    extended.sort();
    expected.sort();
    assert_eq!(extended, expected, "{what}: extended attributes");
}

fn list(disk: &Disk, model: &Model, name: &str, what: &str) {
    let listed = directory_of(disk, name).and_then(|node| entries(&*node));
    let wanted = match name {
        "" => Ok(()),
        _ => model.find(name).and_then(|_| model.check_directory(name)),
    };
    let Ok(listed) = listed else { return assert_eq!(listed.err(), wanted.err(), "{what}") };
    let mut listed: Vec<_> = listed.iter().map(|entry| entry.name.as_str().to_owned()).collect();
    listed.sort();
    let is_child = |path: &&String| split(path).0 == name.to_uppercase();
    let mut expected: Vec<_> = model.names.keys().filter(is_child).map(|path| model.names[path].0.clone()).collect();
    expected.sort();
    assert_eq!(listed, expected, "{what}");
}

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![Just("a"), Just("A"), Just("b"), Just("Cé"), Just("cÉ"), Just(".d")].prop_map(str::to_owned)
}

fn any_path() -> impl Strategy<Value = String> {
    proptest::collection::vec(any_name(), 1..4).prop_map(|names| names.join("\\"))
}

fn any_data() -> impl Strategy<Value = Vec<u8>> {
    (any::<u8>(), prop_oneof![0usize..2000, 4000usize..5000, 60_000usize..140_000])
        .prop_map(|(byte, length)| vec![byte; length])
}

fn any_offset() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0u64), 0u64..5000, 60_000u64..70_000, 100_000u64..300_000]
}

fn any_replace() -> impl Strategy<Value = Replace> {
    prop_oneof![Just(Replace::No), Just(Replace::Yes)]
}

fn any_operation() -> impl Strategy<Value = Operation> {
    let kind = prop_oneof![Just(Kind::File), Just(Kind::Directory)];
    prop_oneof![
        6 => (any_path(), kind).prop_map(|(a, b)| Operation::Create(a, b)),
        4 => (any_path(), any_offset(), any_data()).prop_map(|(a, b, c)| Operation::Write(a, b, c)),
        2 => (any_path(), any_offset()).prop_map(|(a, b)| Operation::SetLength(a, b)),
        2 => (any_path(), any_offset(), any_offset(), any::<bool>())
            .prop_map(|(a, b, c, d)| Operation::Zero(a, b, c, d)),
        2 => (any_path(), any_path(), any_offset(), any_offset(), any_offset())
            .prop_map(|(a, b, c, d, e)| Operation::Copy(a, b, c, d, e)),
        4 => any_path().prop_map(Operation::Read),
        4 => (any_path(), any_path(), any_replace()).prop_map(|(a, b, c)| Operation::Rename(a, b, c)),
        2 => (any_path(), any_path(), any_replace()).prop_map(|(a, b, c)| Operation::Link(a, b, c)),
        2 => any_path().prop_map(Operation::Remove),
        2 => (any_path(), any_name()).prop_map(|(a, b)| Operation::CreateStream(a, b)),
        2 => (any_path(), any_name(), any_offset(), any_data())
            .prop_map(|(a, b, c, d)| Operation::WriteStream(a, b, c, d)),
        1 => (any_path(), any_name(), any_offset()).prop_map(|(a, b, c)| Operation::SetStreamLength(a, b, c)),
        1 => (any_path(), any_name(), any_name(), any_replace())
            .prop_map(|(a, b, c, d)| Operation::RenameStream(a, b, c, d)),
        1 => (any_path(), any_name()).prop_map(|(a, b)| Operation::RemoveStream(a, b)),
        1 => (any_path(), any_name(), proptest::collection::vec(any::<u8>(), 0..100))
            .prop_map(|(a, b, c)| Operation::Extended(a, b, c)),
        2 => prop_oneof![Just(String::new()), any_path()].prop_map(Operation::List),
        1 => Just(Operation::Reopen),
    ]
}

fn run(mut disk: Disk, options: &DirectoryOptions, operations: &[Operation]) {
    let mut model = Model::default();
    for operation in operations {
        step(&mut disk, &mut model, options, operation);
    }
    let paths: Vec<String> = model.names.keys().cloned().collect();
    for name in paths {
        step(&mut disk, &mut model, options, &Operation::Read(name));
    }
    step(&mut disk, &mut model, options, &Operation::List(String::new()));
}

fn any_operations() -> impl Strategy<Value = Vec<Operation>> {
    proptest::collection::vec(any_operation(), 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_ram_disk_is_like_the_model(operations in any_operations()) {
        run(ram(), &DirectoryOptions::default(), &operations);
    }

    #[test]
    fn a_directory_is_like_the_model(operations in any_operations()) {
        run(directory(), &DirectoryOptions::default(), &operations);
    }

    #[test]
    fn a_memory_directory_is_like_the_model(operations in any_operations()) {
        run(memory_directory(), &DirectoryOptions::default(), &operations);
    }

    #[test]
    fn a_directory_without_attributes_is_like_the_model(operations in any_operations()) {
        let options = DirectoryOptions { attributes_beside_files: true, ..DirectoryOptions::default() };
        run(beside(), &options, &operations);
    }
}
