//! A store where something else happens in the middle of a call, or the call fails there: for tests of what comes between two calls.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use store::{
    ChangeExtended, ChangeSecurity, Changes, ChooseOffset, Cursor, Destination, Error, ExtendedAttribute, Extents,
    Extras, Facts, Failed, Identity, Kind, Metadata, Name, NamedNode, Names, NewNode, Node, Renewal, Replace,
    Replacement, Resolved, SharePath, Space, Store, Take, TakeStream, Time, Use, Waits,
};

/// A call that something happens in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Call {
    /// Metadata was looked at, and is not told yet.
    Look,
    /// The same by who must not wait.
    TryToLook,
    /// The same of extended attributes.
    LookAtExtended,
    /// The same of a security descriptor.
    LookAtSecurity,
    /// Who must not wait is about to hold the file.
    Hold,
    /// Metadata is about to change.
    Change,
    /// A security descriptor is about to change.
    ChangeSecurity,
    /// Data is about to change.
    Write,
    /// A file is about to be synced.
    Sync,
    /// A name was made, and is not told yet.
    Made,
    /// What can be said of the store was looked at, and is not told yet.
    Facts,
    /// A path was looked up, and is not told yet.
    Resolve,
    /// The directory of a name is about to be looked for.
    FindDirectory,
    /// A stream was looked for, and is not told yet.
    LookForStream,
    /// A stream is about to get another name.
    RenameStream,
    /// A stream is about to go.
    RemoveStream,
    /// An extended attribute is about to be set, or to go.
    SetExtended,
    /// Several extended attributes are about to be set.
    ChangeExtended,
    /// A file is about to be made as good as new.
    Renew,
    /// Space is about to be reserved.
    Reserve,
}

/// What happens once, and in which call.
type Once = (Call, Box<dyn FnOnce()>);

thread_local! {
    /// What happens once, in the next such call of this thread.
    static HERE: RefCell<Option<Once>> = RefCell::default();
}

/// Has this happen once, in the next such call of this thread.
pub(crate) fn once_here(call: Call, happens: impl FnOnce() + 'static) {
    HERE.set(Some((call, Box::new(happens))));
}

/// True where it has not happened yet.
pub(crate) fn is_to_happen_here() -> bool {
    HERE.with_borrow(Option::is_some)
}

fn happen_here(call: Call) {
    let next = HERE.with_borrow_mut(|here| here.take_if(|(wanted, _)| *wanted == call));
    if let Some((_, happens)) = next {
        happens();
    }
}

/// What happens: it is given the node as it is without this, and may have the call fail.
type Happens = Box<dyn FnMut(Call, &dyn Node) -> Result<(), Error> + Send>;

/// What happens in the next calls. Nothing happens in calls that it makes itself.
#[derive(Clone, Default)]
pub(crate) struct Meanwhile(Arc<Mutex<Option<Happens>>>);

impl Meanwhile {
    /// From now on this happens.
    pub(crate) fn set(&self, happens: impl FnMut(Call, &dyn Node) -> Result<(), Error> + Send + 'static) {
        *self.0.lock() = Some(Box::new(happens));
    }

    /// From now on nothing happens.
    pub(crate) fn clear(&self) {
        *self.0.lock() = None;
    }

    fn call(&self, call: Call, node: &dyn Node) -> Result<(), Error> {
        let Some(mut happens) = self.0.lock().take() else { return Ok(()) };
        let outcome = happens(call, node);
        self.0.lock().get_or_insert(happens);
        outcome
    }
}

/// The store.
pub(crate) struct Interrupted {
    store: Arc<dyn Store>,
    meanwhile: Meanwhile,
}

impl Interrupted {
    pub(crate) fn around(store: impl Store) -> (Arc<dyn Store>, Meanwhile) {
        Interrupted::around_any(Arc::new(store))
    }

    /// The same of a store that others have, too: what they do is not interrupted.
    pub(crate) fn around_any(store: Arc<dyn Store>) -> (Arc<dyn Store>, Meanwhile) {
        let meanwhile = Meanwhile::default();
        (Arc::new(Interrupted { store, meanwhile: meanwhile.clone() }), meanwhile)
    }

    fn file(&self, node: Arc<dyn Node>) -> Arc<dyn Node> {
        Arc::new(File { node, meanwhile: self.meanwhile.clone() })
    }

    fn wrap(&self, resolved: Resolved) -> Resolved {
        match resolved {
            Resolved::Found { node, path } => Resolved::Found { node: self.file(node), path },
            Resolved::Missing { parent, path } => Resolved::Missing { parent: self.file(parent), path },
        }
    }
}

impl Store for Interrupted {
    fn root(&self) -> Identity {
        self.store.root()
    }

    fn place_of(&self, path: &SharePath) -> Option<PathBuf> {
        self.store.place_of(path)
    }

    fn path_at(&self, place: &Path) -> Option<SharePath> {
        self.store.path_at(place)
    }

    fn facts(&self) -> Facts {
        let known = self.store.facts();
        happen_here(Call::Facts);
        known
    }

    fn space(&self) -> Result<Space, Error> {
        self.store.space()
    }

    fn resolve(&self, path: &SharePath, usage: Use) -> Result<Resolved, Error> {
        let resolved = self.wrap(self.store.resolve(path, usage)?);
        happen_here(Call::Resolve);
        Ok(resolved)
    }

    fn try_resolve(&self, path: &SharePath, usage: Use) -> Result<Resolved, Error> {
        let resolved = self.wrap(self.store.try_resolve(path, usage)?);
        happen_here(Call::Resolve);
        Ok(resolved)
    }

    fn directory_of(&self, path: &SharePath) -> Result<(Arc<dyn Node>, Name), Error> {
        happen_here(Call::FindDirectory);
        let (directory, name) = self.store.directory_of(path)?;
        Ok((self.file(directory), name))
    }
}

struct File {
    node: Arc<dyn Node>,
    meanwhile: Meanwhile,
}

impl File {
    fn call(&self, call: Call) -> Result<(), Error> {
        happen_here(call);
        self.meanwhile.call(call, &*self.node)
    }

    fn wrap(&self, node: Arc<dyn Node>) -> Arc<dyn Node> {
        Arc::new(File { node, meanwhile: self.meanwhile.clone() })
    }
}

impl Node for File {
    fn kind(&self) -> Kind {
        self.node.kind()
    }

    fn identity(&self) -> Identity {
        self.node.identity()
    }

    fn birth(&self) -> Option<Time> {
        self.node.birth()
    }

    fn waits(&self) -> Waits {
        self.node.waits()
    }

    fn try_hold(&self) -> Option<store::Held> {
        self.call(Call::Hold).ok()?;
        self.node.try_hold()
    }

    fn metadata(&self) -> Result<Metadata, Error> {
        let known = self.node.metadata()?;
        self.call(Call::Look)?;
        Ok(known)
    }

    fn try_metadata(&self) -> Result<Metadata, Error> {
        let known = self.node.try_metadata()?;
        self.call(Call::TryToLook)?;
        Ok(known)
    }

    fn change(&self, changes: &Changes) -> Result<(), Error> {
        self.call(Call::Change)?;
        self.node.change(changes)
    }

    fn prepare(&self, usage: Use) -> Result<(), Error> {
        self.node.prepare(usage)
    }

    fn try_prepare(&self, usage: Use) -> Result<(), Error> {
        self.node.try_prepare(usage)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        self.node.read_at(buffer, offset)
    }

    fn try_read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        self.node.try_read_at(buffer, offset)
    }

    fn append(&self, data: &[u8], place: ChooseOffset<'_>) -> Result<u64, Error> {
        // It is begun once it is known where it goes.
        place(self.node.metadata()?.length)?;
        self.call(Call::Write)?;
        self.node.append(data, place)
    }

    fn sync(&self) -> Result<(), Error> {
        self.call(Call::Sync)?;
        self.node.sync()
    }

    fn set_length(&self, length: u64) -> Result<(), Error> {
        self.call(Call::Write)?;
        self.node.set_length(length)
    }

    fn set_allocation(&self, bytes: u64) -> Result<(), Error> {
        self.call(Call::Write)?;
        self.node.set_allocation(bytes)
    }

    fn reserve(&self, length: u64) -> Result<(), Error> {
        self.call(Call::Reserve)?;
        self.node.reserve(length)
    }

    fn zero(&self, offset: u64, length: u64, punch: bool) -> Result<(), Error> {
        self.call(Call::Write)?;
        self.node.zero(offset, length, punch)
    }

    fn extents(&self, offset: u64, length: u64, count_max: usize) -> Result<Extents, Error> {
        self.node.extents(offset, length, count_max)
    }

    fn copy_from(&self, source: &dyn Node, source_offset: u64, offset: u64, length: u64) -> Result<u64, Error> {
        self.call(Call::Write)?;
        self.node.copy_from(source, source_offset, offset, length)
    }

    fn clone_from(&self, source: &dyn Node, source_offset: u64, offset: u64, length: u64) -> Result<u64, Error> {
        self.call(Call::Write)?;
        Node::clone_from(&*self.node, source, source_offset, offset, length)
    }

    fn place(&self) -> Option<PathBuf> {
        self.node.place()
    }

    fn target(&self) -> Result<Option<String>, Error> {
        self.node.target()
    }

    fn above(&self) -> Result<Option<Arc<dyn Node>>, Error> {
        Ok(self.node.above()?.map(|above| self.wrap(above)))
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self.node.as_any()
    }

    fn renew(&self, new: &Renewal<'_>) -> Result<(), Failed> {
        // What fails here is half done.
        self.call(Call::Renew)?;
        self.node.renew(new)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> Result<(), Error> {
        self.call(Call::Write)?;
        self.node.write_at(data, offset)
    }

    fn link(&self, to: Destination<'_>, replace: Replace) -> Result<(), Error> {
        self.node.link(to, replace)
    }

    fn extras(&self) -> &dyn Extras {
        self
    }

    fn names(&self) -> Result<&dyn Names, Error> {
        self.node.names()?;
        Ok(self)
    }
}

impl Extras for File {
    fn security(&self) -> Result<Option<Vec<u8>>, Error> {
        let stored = self.node.extras().security()?;
        self.call(Call::LookAtSecurity)?;
        Ok(stored)
    }

    fn change_security(&self, change: ChangeSecurity<'_>) -> Result<(), Error> {
        self.call(Call::ChangeSecurity)?;
        self.node.extras().change_security(change)
    }

    fn extended(&self) -> Result<Vec<ExtendedAttribute>, Error> {
        let stored = self.node.extras().extended()?;
        self.call(Call::LookAtExtended)?;
        Ok(stored)
    }

    fn set_extended(&self, name: &str, value: &[u8]) -> Result<(), Error> {
        self.call(Call::SetExtended)?;
        self.node.extras().set_extended(name, value)
    }

    fn change_extended(&self, change: ChangeExtended<'_>) -> Result<(), Failed> {
        self.call(Call::ChangeExtended)?;
        self.node.extras().change_extended(change)
    }

    fn list_streams(&self, take: TakeStream<'_>) -> Result<(), Error> {
        self.node.extras().list_streams(take)
    }

    fn stream(&self, name: &str) -> Result<Option<NamedNode>, Error> {
        let found = self.node.extras().stream(name)?;
        self.call(Call::LookForStream)?;
        Ok(found.map(|(name, stream)| (name, self.wrap(stream))))
    }

    fn create_stream(&self, name: &str) -> Result<Arc<dyn Node>, Error> {
        Ok(self.wrap(self.node.extras().create_stream(name)?))
    }

    fn rename_stream(&self, from: &str, to: &str, replace: Replace) -> Result<(), Error> {
        self.call(Call::RenameStream)?;
        self.node.extras().rename_stream(from, to, replace)
    }

    fn remove_stream(&self, name: &str) -> Result<(), Error> {
        happen_here(Call::RemoveStream);
        self.node.extras().remove_stream(name)
    }
}

impl Names for File {
    fn list(&self, cursor: &mut Cursor, take: Take<'_>) -> Result<bool, Error> {
        self.node.names()?.list(cursor, take)
    }

    fn is_empty(&self) -> Result<bool, Error> {
        self.node.names()?.is_empty()
    }

    fn entry_metadata(&self, name: &Name) -> Result<Metadata, Error> {
        self.node.names()?.entry_metadata(name)
    }

    fn child(&self, name: &Name, usage: Use) -> Result<Option<NamedNode>, Error> {
        Ok(self.node.names()?.child(name, usage)?.map(|(name, child)| (name, self.wrap(child))))
    }

    fn try_child(&self, name: &Name, usage: Use) -> Result<Option<NamedNode>, Error> {
        Ok(self.node.names()?.try_child(name, usage)?.map(|(name, child)| (name, self.wrap(child))))
    }

    fn create(&self, name: &Name, new: NewNode<'_>) -> Result<Arc<dyn Node>, Error> {
        let made = self.node.names()?.create(name, new)?;
        self.call(Call::Made)?;
        Ok(self.wrap(made))
    }

    fn try_create(&self, name: &Name, new: NewNode<'_>) -> Result<Arc<dyn Node>, Error> {
        let made = self.node.names()?.try_create(name, new)?;
        self.call(Call::Made)?;
        Ok(self.wrap(made))
    }

    fn replace_with(&self, name: &Name, expected: Identity, new: Replacement<'_>) -> Result<Arc<dyn Node>, Error> {
        Ok(self.wrap(self.node.names()?.replace_with(name, expected, new)?))
    }

    fn rename(&self, name: &Name, expected: Identity, to: Destination<'_>, replace: Replace) -> Result<(), Error> {
        self.node.names()?.rename(name, expected, to, replace)
    }

    fn remove(&self, name: &Name, expected: Identity) -> Result<(), Error> {
        self.node.names()?.remove(name, expected)
    }
}
