//! One file or directory of a RAM disk, whatever its names.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::RwLock;

use crate::ram::ledger::{Charge, Ledger};
use crate::ram::names::Disk;
use crate::ram::pages::Pages;
use crate::ram::{entry_bytes, heap_bytes, shared_bytes};
use crate::{Changes, Error, ExtendedAttribute, Identity, Kind, Metadata, Name, NewNode, Time, Waits, fold, waiting};

/// What a node costs besides its data and its names.
const NODE_BYTES: u64 = shared_bytes(size_of::<Inode>()) + DATA_BYTES;
/// What data costs that there is none of.
const DATA_BYTES: u64 = shared_bytes(size_of::<RwLock<Pages>>());

/// The attribute that a symbolic link has.
pub(super) const ARCHIVE: u32 = 0x20;

/// A file or directory.
pub(super) struct Inode {
    pub(super) identity: Identity,
    pub(super) disk: Arc<Disk>,
    pub(super) kind: Kind,
    /// What it is to look like to those who must not wait.
    pub(super) waits: Waits,
    attributes: AtomicU32,
    creation: AtomicU64,
    access: AtomicU64,
    write: AtomicU64,
    change: AtomicU64,
    links: AtomicU32,
    /// The data of a file; empty for directories.
    pub(super) data: Arc<RwLock<Pages>>,
    /// The names in a directory; empty for files.
    pub(super) names: RwLock<Names>,
    /// What is kept beside the data.
    pub(super) extras: RwLock<Extras>,
    /// Of a symbolic link: where it leads.
    pub(super) target: Option<Box<str>>,
    _charge: Charge,
}

/// The names in a directory by their folded form.
#[derive(Default)]
pub(super) struct Names {
    /// The directory that this one lies in; none for the root.
    pub(super) above: Weak<Inode>,
    /// The directory itself was removed: nothing may be made in it any more.
    pub(super) removed: bool,
    pub(super) children: BTreeMap<Box<str>, Child>,
}

/// A name and what it leads to.
pub(super) struct Child {
    pub(super) name: Name,
    pub(super) inode: Arc<Inode>,
    charge: Charge,
}

impl Child {
    /// [`Error::Full`] where the disk has no room for the name.
    pub(super) fn new(name: &Name, inode: &Arc<Inode>) -> Result<Self, Error> {
        Self::charged(name, inode, cost(name))
    }

    /// The same where [`Child::pay_with`] comes later: charged with no more than it costs beyond the name `gone`.
    pub(super) fn instead_of(gone: &Name, name: &Name, inode: &Arc<Inode>) -> Result<Self, Error> {
        Self::charged(name, inode, cost(name).saturating_sub(cost(gone)))
    }

    fn charged(name: &Name, inode: &Arc<Inode>, bytes: u64) -> Result<Self, Error> {
        let charge = Charge::new(&inode.disk.ledger, bytes)?;
        Ok(Child { name: name.clone(), inode: Arc::clone(inode), charge })
    }

    /// Takes over what the name cost that this one came in place of.
    pub(super) fn pay_with(&mut self, mut gone: Child) {
        let lacking = cost(&self.name).saturating_sub(self.charge.bytes());
        gone.charge.shrink(gone.charge.bytes().saturating_sub(lacking));
        self.charge.absorb(gone.charge);
    }
}

fn cost(name: &Name) -> u64 {
    cost_of_name::<Child>(&fold(name.as_str()), name.as_str())
}

/// What a name costs that is kept folded and as it was given, and leads to a `T`.
fn cost_of_name<T>(folded: &str, name: &str) -> u64 {
    entry_bytes(size_of::<(Box<str>, T)>()) + heap_bytes(folded.len()) + heap_bytes(name.len())
}

/// Security descriptor, extended attributes and streams, by folded name.
pub(super) struct Extras {
    pub(super) security: Option<Vec<u8>>,
    pub(super) extended: BTreeMap<Box<str>, Attribute>,
    pub(super) streams: BTreeMap<Box<str>, Stream>,
    /// For the security descriptor.
    pub(super) charge: Charge,
}

/// An extended attribute.
pub(super) struct Attribute {
    pub(super) name: Box<str>,
    pub(super) value: Vec<u8>,
    charge: Charge,
}

impl Attribute {
    fn cost(folded: &str, name: &str, value: &[u8]) -> u64 {
        cost_of_name::<Self>(folded, name) + heap_bytes(value.len())
    }
}

/// How a name is spelled that there is already, in whatever case.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelling {
    AsThere,
    AsAsked,
}

impl Extras {
    pub(super) fn all_extended(&self) -> Vec<ExtendedAttribute> {
        self.extended.values().map(|held| (held.name.to_string(), held.value.clone())).collect()
    }

    /// Sets all of these, or none. What goes makes room for what comes.
    pub(super) fn set_all_extended(&mut self, asked: &[ExtendedAttribute], spelling: Spelling) -> Result<(), Error> {
        let last: BTreeMap<String, &ExtendedAttribute> = asked.iter().map(|asked| (fold(&asked.0), asked)).collect();
        let name = |folded: &str, asked: &str| match self.extended.get(folded) {
            Some(held) if spelling == Spelling::AsThere => held.name.clone(),
            _ => asked.into(),
        };
        let (mut come, mut needed_bytes, mut there_bytes) = (Vec::new(), 0, 0);
        for (folded, (asked, value)) in &last {
            there_bytes += self.extended.get(folded.as_str()).map_or(0, |held| held.charge.bytes());
            if value.is_empty() {
                continue;
            }
            if asked.is_empty() {
                return Err(Error::NameInvalid);
            }
            let name: Box<str> = name(folded, asked);
            let bytes = Attribute::cost(folded, &name, value);
            needed_bytes += bytes;
            come.push((folded.clone().into_boxed_str(), name, value, bytes));
        }
        let mut charge = Charge::new(self.charge.ledger(), needed_bytes.saturating_sub(there_bytes))?;
        let gone = last.keys().filter_map(|folded| self.extended.remove(folded.as_str()));
        gone.for_each(|gone| charge.absorb(gone.charge));
        for (folded, name, value, bytes) in come {
            let new = Attribute { name, value: value.clone(), charge: charge.split(bytes) };
            self.extended.insert(folded, new);
        }
        Ok(())
    }

    /// The same where no others stay.
    pub(super) fn replace_extended(&mut self, asked: &[ExtendedAttribute]) -> Result<(), Error> {
        let gone = self.extended.values().map(|held| (held.name.to_string(), Vec::new()));
        let asked: Vec<ExtendedAttribute> = gone.chain(asked.iter().cloned()).collect();
        self.set_all_extended(&asked, Spelling::AsAsked)
    }
}

/// A named stream.
pub(super) struct Stream {
    pub(super) name: Box<str>,
    pub(super) data: Arc<RwLock<Pages>>,
    charge: Charge,
}

impl Stream {
    /// An empty one. [`Error::Full`] where the disk has no room for it.
    pub(super) fn new(ledger: &Arc<Ledger>, folded: &str, name: &str) -> Result<Self, Error> {
        let charge = Charge::new(ledger, Self::cost(folded, name))?;
        Ok(Stream { name: name.into(), data: Arc::new(RwLock::new(Pages::new(ledger))), charge })
    }

    /// Gives it another name. [`Error::Full`] where the disk has no room for that.
    pub(super) fn rename(&mut self, from: &str, to: &str, name: &str) -> Result<(), Error> {
        let (before, after) = (Self::cost(from, &self.name), Self::cost(to, name));
        self.charge.grow(after.saturating_sub(before))?;
        self.charge.shrink(before.saturating_sub(after));
        self.name = name.into();
        Ok(())
    }

    fn cost(folded: &str, name: &str) -> u64 {
        cost_of_name::<Self>(folded, name) + DATA_BYTES
    }
}

/// What the descriptor of something new costs.
fn charge_of_security(disk: &Disk, new: NewNode<'_>) -> Result<Charge, Error> {
    Charge::new(&disk.ledger, new.security.map_or(0, |descriptor| heap_bytes(descriptor.len())))
}

impl Inode {
    /// Notes that `call` may wait.
    pub(super) fn may_wait(&self, call: &str) {
        if self.waits != Waits::Never {
            waiting::may_wait(call);
        }
    }

    /// Notes that `call`, which looks at what is known of the open file, may wait.
    pub(super) fn may_wait_to_look(&self, call: &str) {
        if self.waits == Waits::Always {
            waiting::may_wait(call);
        }
    }

    /// A node without a name.
    pub(super) fn new(
        disk: &Arc<Disk>,
        identity: Identity,
        waits: Waits,
        new: NewNode<'_>,
    ) -> Result<Arc<Self>, Error> {
        let charges = (Charge::new(&disk.ledger, NODE_BYTES)?, charge_of_security(disk, new)?);
        Ok(Self::with_charges(charges, disk, (identity, waits), (new, None)))
    }

    /// A symbolic link without a name.
    pub(super) fn link_to(
        disk: &Arc<Disk>,
        (identity, waits): (Identity, Waits),
        new: NewNode<'_>,
        target: &str,
    ) -> Result<Arc<Self>, Error> {
        let charge = Charge::new(&disk.ledger, NODE_BYTES + heap_bytes(target.len()))?;
        let charges = (charge, charge_of_security(disk, new)?);
        Ok(Self::with_charges(charges, disk, (identity, waits), (new, Some(target.into()))))
    }

    /// The root, which costs nothing.
    pub(super) fn root(disk: &Arc<Disk>, identity: Identity, waits: Waits) -> Arc<Self> {
        let new = NewNode { kind: Kind::Directory, attributes: 0, security: None, owner: None };
        Self::with_charges(
            (Charge::none(&disk.ledger), Charge::none(&disk.ledger)),
            disk,
            (identity, waits),
            (new, None),
        )
    }

    fn with_charges(
        (own, extras): (Charge, Charge),
        disk: &Arc<Disk>,
        (identity, waits): (Identity, Waits),
        (new, target): (NewNode<'_>, Option<Box<str>>),
    ) -> Arc<Self> {
        let now = Time::now().0;
        let data = Arc::new(RwLock::new(Pages::new(own.ledger())));
        let extras = Extras {
            security: new.security.map(<[u8]>::to_vec),
            extended: BTreeMap::new(),
            streams: BTreeMap::new(),
            charge: extras,
        };
        Arc::new(Inode {
            identity,
            disk: Arc::clone(disk),
            kind: new.kind,
            waits,
            attributes: AtomicU32::new(new.attributes),
            creation: AtomicU64::new(now),
            access: AtomicU64::new(now),
            write: AtomicU64::new(now),
            change: AtomicU64::new(now),
            links: AtomicU32::new(1),
            data,
            names: RwLock::default(),
            extras: RwLock::new(extras),
            target,
            _charge: own,
        })
    }

    /// What is known of it, its data aside.
    pub(super) fn metadata(&self, kind: Kind, length: u64, allocated: u64) -> Metadata {
        Metadata {
            kind,
            is_link: self.target.is_some(),
            identity: self.identity,
            attributes: self.attributes.load(Ordering::Relaxed),
            creation: Time(self.creation.load(Ordering::Relaxed)),
            access: Time(self.access.load(Ordering::Relaxed)),
            write: Time(self.write.load(Ordering::Relaxed)),
            change: Time(self.change.load(Ordering::Relaxed)),
            length,
            allocated,
            links: self.links(),
        }
    }

    pub(super) fn change(&self, changes: &Changes) {
        if !changes.attributes.is_nothing() {
            let change = |before| Some(changes.attributes.apply(before));
            let _ = self.attributes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
        }
        let known = |time: Option<Time>| time.filter(|time| *time != Time(0));
        let times = [(&self.creation, changes.creation), (&self.access, changes.access), (&self.write, changes.write)];
        for (slot, time) in times {
            if let Some(time) = known(time) {
                slot.store(time.0, Ordering::Relaxed);
            }
        }
        self.change.store(known(changes.change).unwrap_or_else(Time::now).0, Ordering::Relaxed);
    }

    /// Data was written, or a directory's names changed.
    pub(super) fn written(&self) {
        let now = Time::now().0;
        self.write.store(now, Ordering::Relaxed);
        self.change.store(now, Ordering::Relaxed);
    }

    /// Something else than data changed.
    pub(super) fn changed(&self) {
        self.change.store(Time::now().0, Ordering::Relaxed);
    }

    /// Names it has.
    pub(super) fn links(&self) -> u32 {
        self.links.load(Ordering::Relaxed)
    }

    pub(super) fn link(&self) {
        self.links.fetch_add(1, Ordering::Relaxed);
        self.changed();
    }

    pub(super) fn unlink(&self) {
        self.links.fetch_sub(1, Ordering::Relaxed);
        self.changed();
    }

    /// What a name leads to. [`Error::NotDirectory`] for a file.
    pub(super) fn child(&self, folded: &str) -> Result<Option<(Name, Arc<Inode>)>, Error> {
        match self.kind {
            Kind::Directory => {
                let names = self.names.read();
                Ok(names.children.get(folded).map(|child| (child.name.clone(), Arc::clone(&child.inode))))
            }
            Kind::File | Kind::Stream => Err(self.is_no_directory()),
        }
    }

    /// What it means that it stands on the way to something.
    pub(super) fn is_no_directory(&self) -> Error {
        if self.target.is_some() { Error::Link } else { Error::NotDirectory }
    }
}

impl Drop for Inode {
    /// Lets go of all below it in a loop: directories may nest deeper than the stack.
    fn drop(&mut self) {
        let mut orphans: Vec<Child> = std::mem::take(&mut self.names.get_mut().children).into_values().collect();
        while let Some(child) = orphans.pop() {
            if let Some(mut inode) = Arc::into_inner(child.inode) {
                orphans.extend(std::mem::take(&mut inode.names.get_mut().children).into_values());
            }
        }
    }
}
