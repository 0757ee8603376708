//! The security descriptors of files: as they are read, what stands in for one that there is not (`passed_on.rs`) or that cannot be used,
//! and what new files get (MS-DTYP 2.5.3).

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use store::{Error, Identity, Kind, Node, SharePath, Store, effort};
use wire::codec::Malformed;
use wire::security::access::{FILE_ALL, GenericMapping, MAXIMUM_ALLOWED};
use wire::security::evaluate::{self, Privileges, Token};
use wire::security::inherit::{self, Creator, ObjectKind};
use wire::security::{Ace, AceFlags, Acl, Control, SecurityDescriptor, SecurityInformation, Sid};
use wire::status::Status;

use crate::passed_on::{Inheritance, PassedOn};
use crate::system_list;
use crate::user::User;

/// Files whose descriptor cannot be used are told of once each, and so many at most: a folder full of them must not fill the log.
const TOLD_MAX: usize = 1024;
/// What a user without SeSecurityPrivilege may say of a SACL.
const FREE_OF_PRIVILEGE: SecurityInformation = SecurityInformation::LABEL.union(SecurityInformation::ATTRIBUTE);

/// Descriptors that are no longer cost as much as the rest of a request at most.
const ORDINARY_BYTES: usize = 1 << 10;
/// What takes as long as following a name: two of the shortest entries.
const BYTES_OF_STEP: usize = 8;

/// A file's descriptor as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Descriptor {
    /// It has this one.
    Stored(SecurityDescriptor),
    /// It was never given one, and has what the directory passes on that it lies in.
    PassedOn(Arc<SecurityDescriptor>),
    /// It was never given one, and no directory that it lies in was: the default counts.
    Missing(Kind),
    /// It has one that is damaged or cannot be read, or was never given one and the directory that it would have it from has such a one.
    Unusable,
}

impl Descriptor {
    /// What counts of something of that kind for which these bytes are stored, or nothing.
    pub(crate) fn of_stored(stored: Option<&[u8]>, kind: Kind) -> Self {
        match stored {
            None => Descriptor::Missing(kind),
            Some(bytes) => decode(bytes).map_or(Descriptor::Unusable, Descriptor::Stored),
        }
    }

    /// Those rights of `searched` that `user` has by it. Only the holder of an account's key, whom no descriptor binds, comes at a
    /// file whose descriptor cannot be used.
    pub(crate) fn grants(&self, user: &User, searched: u32) -> u32 {
        let token = Token { sids: &user.sids, privileges: Privileges::NONE };
        let granted = |descriptor| {
            // Each right is asked for by itself (MS-FSA 2.1.5.1.2.1), which is what MAXIMUM_ALLOWED does.
            evaluate::check(descriptor, &token, MAXIMUM_ALLOWED, &GenericMapping::FILE).unwrap_or(0) & searched
        };
        match self {
            Descriptor::Stored(descriptor) => granted(descriptor),
            Descriptor::PassedOn(descriptor) => granted(descriptor),
            Descriptor::Missing(kind) => granted(&default_descriptor(*kind)),
            Descriptor::Unusable => 0,
        }
    }

    /// The descriptor that counts. In the place of one that cannot be used stands one that grants nothing, so that another can be set.
    pub(crate) fn into_effective(self) -> SecurityDescriptor {
        match self {
            Descriptor::Stored(descriptor) => descriptor,
            Descriptor::PassedOn(descriptor) => Arc::unwrap_or_clone(descriptor),
            Descriptor::Missing(kind) => default_descriptor(kind),
            Descriptor::Unusable => SecurityDescriptor {
                control: Control::DACL_PRESENT | Control::DACL_PROTECTED,
                owner: Some(Sid::BUILTIN_ADMINISTRATORS),
                group: Some(Sid::BUILTIN_USERS),
                sacl: None,
                dacl: Some(Acl::default()),
            },
        }
    }
}

/// Reads descriptors, and remembers which of those that cannot be used the log has told of.
#[derive(Default)]
pub(crate) struct Descriptors {
    told: Mutex<HashSet<Identity>>,
    /// What directories pass on to what was never given one.
    pub(crate) inheritance: Inheritance,
}

impl Descriptors {
    /// The descriptor of `node`, which `share` has at `path` in `store`. May wait for the store. Fails only where the file has gone or where
    /// the answer would have to be waited for and may not.
    pub(crate) fn read(
        &self,
        store: &dyn Store,
        node: &dyn Node,
        share: &str,
        path: &SharePath,
    ) -> Result<Descriptor, Error> {
        match self.understand(node.security(), node, share, path)? {
            Some(own) => Ok(own),
            None => self.passed_on(store, node, path),
        }
    }

    /// The descriptor of `node` where it was read already; `None` where it was never given one.
    pub(crate) fn understand(
        &self,
        stored: Result<Option<Vec<u8>>, Error>,
        node: &dyn Node,
        share: &str,
        path: &SharePath,
    ) -> Result<Option<Descriptor>, Error> {
        let why = match stored {
            Ok(None) => return Ok(None),
            Ok(Some(bytes)) => match decode(&bytes) {
                Ok(descriptor) => return Ok(Some(Descriptor::Stored(descriptor))),
                Err(malformed) => malformed.to_string(),
            },
            Err(error @ (Error::WouldBlock | Error::Gone)) => return Err(error),
            Err(error) => error.to_string(),
        };
        self.tell(node.identity(), share, path, &why);
        Ok(Some(Descriptor::Unusable))
    }

    /// What `node`, which was never given a descriptor and which the store has at `path`, has instead.
    pub(crate) fn passed_on(&self, store: &dyn Store, node: &dyn Node, path: &SharePath) -> Result<Descriptor, Error> {
        let kind = node.kind();
        Ok(match self.inheritance.above(store, node, path)? {
            PassedOn::Nothing => Descriptor::Missing(kind),
            PassedOn::These { to_directory, .. } if kind == Kind::Directory => Descriptor::PassedOn(to_directory),
            PassedOn::These { to_file, .. } => Descriptor::PassedOn(to_file),
            PassedOn::Unusable => Descriptor::Unusable,
        })
    }

    /// The descriptor that counts for `node`, which the store has at `path`, as it would be stored; `None` where that is the default.
    pub(crate) fn counting(
        &self,
        store: &dyn Store,
        node: &dyn Node,
        path: &SharePath,
    ) -> Result<Option<Vec<u8>>, Error> {
        if let Some(own) = node.security()? {
            return Ok(Some(own));
        }
        match self.passed_on(store, node, path)? {
            Descriptor::Missing(_) => Ok(None),
            counts => counts.into_effective().encode().map(Some).ok_or(Error::TooLarge),
        }
    }

    /// Gives `node`, which the store has at `path`, for good what it has from the directory that it lies in, before it comes to lie in
    /// another one as well or instead: what counts for a file stays with it when a client moves it.
    pub(crate) fn settle(&self, store: &dyn Store, node: &dyn Node, path: &SharePath) -> Result<(), Error> {
        if !matches!(node.security(), Ok(None)) {
            return Ok(());
        }
        // Another program may have moved it since it was opened.
        let now = node.place().and_then(|place| store.path_at(&place));
        let Some(counts) = self.counting(store, node, now.as_ref().unwrap_or(path))? else { return Ok(()) };
        node.change_security(&mut |stored| if stored == Ok(None) { Some(counts.clone()) } else { None })
    }

    fn tell(&self, file: Identity, share: &str, path: &SharePath, why: &str) {
        let mut told = self.told.lock();
        if told.len() >= TOLD_MAX || !told.insert(file) {
            return;
        }
        let is_last = told.len() == TOLD_MAX;
        drop(told);
        tracing::warn!(%share, ?path, %why, "a security descriptor cannot be used: it grants nothing to users");
        if is_last {
            tracing::warn!("files with such descriptors are not told of any more: there are too many");
        }
    }
}

/// Decodes a descriptor. What a long one costs besides an ordinary one counts for the turn of who asks, with what is done with it after that.
pub(crate) fn decode(bytes: &[u8]) -> Result<SecurityDescriptor, Malformed> {
    effort::note(bytes.len().saturating_sub(ORDINARY_BYTES) / BYTES_OF_STEP);
    SecurityDescriptor::decode(bytes)
}

/// The descriptor of what was never given one: who may use the share may do everything, and so below it.
pub(crate) fn default_descriptor(kind: Kind) -> SecurityDescriptor {
    let flags = match kind {
        Kind::Directory => AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT,
        Kind::File | Kind::Stream => AceFlags::NONE,
    };
    let who = [Sid::BUILTIN_ADMINISTRATORS, Sid::SYSTEM, Sid::AUTHENTICATED_USERS];
    SecurityDescriptor {
        control: Control::DACL_PRESENT,
        owner: Some(Sid::BUILTIN_ADMINISTRATORS),
        group: Some(Sid::BUILTIN_USERS),
        sacl: None,
        dacl: Some(Acl { aces: who.into_iter().map(|sid| Ace::allow(sid, FILE_ALL, flags)).collect() }),
    }
}

/// Refuses a descriptor for a new file that its maker may not give it: another's, or one that says what is audited.
pub(crate) fn check_asked(user: &User, asked: &SecurityDescriptor) -> Result<(), Status> {
    if user.has_full_control() {
        return Ok(());
    }
    let mut entries = asked.sacl.iter().flat_map(|list| &list.aces);
    if entries.any(|ace| !system_list::belongs(ace.kind, FREE_OF_PRIVILEGE)) {
        return Err(Status::PRIVILEGE_NOT_HELD);
    }
    match asked.owner {
        Some(owner) if !user.may_own_as(&owner) => Err(Status::INVALID_OWNER),
        Some(_) | None => Ok(()),
    }
}

/// The descriptor to store with a new file, from its directory's and from what its maker asks for; `None` where the default says
/// the same.
pub(crate) fn of_new(
    user: &User,
    directory: Descriptor,
    asked: Option<&SecurityDescriptor>,
    kind: Kind,
) -> Result<Option<Vec<u8>>, Status> {
    if user.has_full_control() && asked.is_none() && matches!(directory, Descriptor::Missing(_)) {
        return Ok(None);
    }
    let object = match kind {
        Kind::Directory => ObjectKind::Container,
        Kind::File | Kind::Stream => ObjectKind::Leaf,
    };
    let creator = Creator { owner: *user.sid(), group: *user.group(), default_dacl: Some(default_dacl(user)) };
    let parent = directory.into_effective();
    let make = |asked: Option<&SecurityDescriptor>| {
        inherit::create(Some(&parent), asked, object, &creator, &GenericMapping::FILE)
    };
    let mut made = make(asked);
    if let Some(asked) = asked.filter(|_| !user.has_full_control()) {
        // What is audited is passed on, whatever the maker says of it.
        let passed_on = make(None);
        made.sacl = match &asked.sacl {
            Some(list) => system_list::replaced(passed_on.sacl.as_ref(), Some(list), FREE_OF_PRIVILEGE),
            None => passed_on.sacl,
        };
        let of_sacl = system_list::CONTROL;
        made.control = made.control.without(of_sacl) | (passed_on.control & of_sacl);
    }
    made.encode().map(Some).ok_or(Status::INVALID_SECURITY_DESCR)
}

/// A token's default DACL: the owner and the system.
fn default_dacl(user: &User) -> Acl {
    let who = [*user.sid(), Sid::SYSTEM];
    Acl { aces: who.into_iter().map(|sid| Ace::allow(sid, FILE_ALL, AceFlags::NONE)).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_descriptor_counts_for_the_turn_and_an_ordinary_one_does_not() {
        let steps = |entries: usize| {
            let ace = Ace::allow(Sid::EVERYONE, FILE_ALL, AceFlags::NONE);
            let descriptor = SecurityDescriptor {
                control: Control::DACL_PRESENT,
                dacl: Some(Acl { aces: vec![ace; entries] }),
                ..SecurityDescriptor::default()
            };
            let bytes = descriptor.encode().unwrap();
            let (decoded, steps) = effort::of(|| decode(&bytes));
            assert_eq!(decoded.unwrap().dacl, descriptor.dacl);
            steps
        };
        assert_eq!(steps(20), 0);
        // Each is longer than the shortest entry.
        assert!(steps(3_000) >= 3_000);
    }
}
