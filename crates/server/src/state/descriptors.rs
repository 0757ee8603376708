//! The security descriptors of files: as they are read, what stands in for one that there is not (`passed_on.rs`) or that cannot be used,
//! and what new files get (MS-DTYP 2.5.3).

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use store::{Error, Identity, Kind, Node, SharePath, Store, effort, waiting};
use wire::codec::Malformed;
use wire::security::access::{FILE_ALL, GenericMapping, MAXIMUM_ALLOWED};
use wire::security::evaluate::{self, Privileges, Token};
use wire::security::inherit::{self, Creator, ObjectKind};
use wire::security::{Ace, AceFlags, Acl, Control, SecurityDescriptor, SecurityInformation, Sid};
use wire::status::Status;

use crate::state::passed_on::{Inheritance, PassedOn};
use crate::state::sacl;
use crate::state::user::User;

/// Files whose descriptor cannot be used are told of once each, and so many at most: a folder full of them must not fill the log.
const TOLD_MAX: usize = 1024;
/// What a user without SeSecurityPrivilege may say of a SACL.
const FREE_OF_PRIVILEGE: SecurityInformation = SecurityInformation::LABEL.union(SecurityInformation::ATTRIBUTE);

/// Descriptors that are no longer cost as much as the rest of a request at most.
const ORDINARY_BYTES: usize = 1 << 10;
/// Those that are longer take long, of hundreds of entries as they may be.
const QUICK_BYTES_MAX: usize = 4 << 10;
/// What takes as long as following a name: two of the shortest entries.
const BYTES_OF_STEP: usize = 8;

/// A file's descriptor as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Descriptor {
    /// It has this one.
    Stored(Arc<SecurityDescriptor>),
    /// It was never given one, and has what the directory passes on that it lies in.
    PassedOn(Arc<SecurityDescriptor>),
    /// It was never given one, and no directory that it lies in was: the default counts.
    Missing(Kind),
    /// It has one that is damaged, or was never given one and the directory that it would have it from has none that can be used.
    Unusable,
    /// It may have one, which cannot be read.
    Unreadable(Error),
}

impl Descriptor {
    /// What counts of something of that kind for which these bytes are stored, or nothing.
    pub(crate) fn of_stored(stored: Option<&[u8]>, kind: Kind) -> Self {
        match stored {
            None => Descriptor::Missing(kind),
            Some(bytes) => {
                decode(bytes).map_or(Descriptor::Unusable, |descriptor| Descriptor::Stored(Arc::new(descriptor)))
            }
        }
    }

    /// What `user` may do by it. Only the holder of an account's key, whom no descriptor binds, comes at a file whose descriptor cannot be used.
    pub(crate) fn rights(&self, user: &User) -> Rights {
        let token = Token { sids: &user.sids, privileges: Privileges::NONE };
        let granted = |descriptor| {
            // Each right is asked for by itself (MS-FSA 2.1.5.1.2.1), which is what MAXIMUM_ALLOWED does.
            Rights(evaluate::check(descriptor, &token, MAXIMUM_ALLOWED, &GenericMapping::FILE).unwrap_or(0))
        };
        match self {
            Descriptor::Stored(descriptor) | Descriptor::PassedOn(descriptor) => granted(descriptor),
            Descriptor::Missing(kind) => granted(&default_descriptor(*kind)),
            Descriptor::Unusable | Descriptor::Unreadable(_) => Rights::NONE,
        }
    }

    /// It, where it was read: a part of what could not be read now is not to be replaced as if there were nothing else.
    pub(crate) fn readable(self) -> Result<Self, Error> {
        match self {
            Descriptor::Unreadable(error) => Err(error),
            read => Ok(read),
        }
    }

    /// As it would be stored; `None` where it is the default.
    fn stored(self) -> Result<Option<Vec<u8>>, Error> {
        match self.readable()? {
            Descriptor::Missing(_) => Ok(None),
            counts => counts.into_effective().encode().map(Some).ok_or(Error::TooLarge),
        }
    }

    /// The descriptor that counts. In the place of one that cannot be used stands one that grants nothing, so that another can be set.
    pub(crate) fn into_effective(self) -> Arc<SecurityDescriptor> {
        match self {
            Descriptor::Stored(descriptor) | Descriptor::PassedOn(descriptor) => descriptor,
            Descriptor::Missing(kind) => Arc::new(default_descriptor(kind)),
            Descriptor::Unusable | Descriptor::Unreadable(_) => Arc::new(SecurityDescriptor {
                control: Control::DACL_PRESENT | Control::DACL_PROTECTED,
                owner: Some(Sid::BUILTIN_ADMINISTRATORS),
                group: Some(Sid::BUILTIN_USERS),
                sacl: None,
                dacl: Some(Acl::default()),
            }),
        }
    }
}

/// All rights that a user has by a descriptor. A request that waits keeps this and not the descriptor, which takes up to a megabyte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rights(u32);

impl Rights {
    /// None.
    pub(crate) const NONE: Rights = Rights(0);

    /// Those of `searched`.
    pub(crate) fn among(self, searched: u32) -> u32 {
        self.0 & searched
    }
}

/// Which descriptors are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// All of them.
    Whole,
    /// Those that take no long time to decode and to evaluate: [`Error::WouldBlock`] for others.
    Quick,
}

impl Reading {
    /// Those that this thread may read: who serves many reads the quick ones.
    pub(crate) fn here() -> Self {
        if waiting::is_allowed() { Reading::Whole } else { Reading::Quick }
    }

    /// False for a descriptor that takes long: what it is made of may be thousands of entries.
    pub(crate) fn takes(self, bytes: &[u8]) -> bool {
        self == Reading::Whole || bytes.len() <= QUICK_BYTES_MAX
    }

    /// What is stored for `node`: [`Error::WouldBlock`] where that takes long.
    pub(crate) fn of(self, node: &dyn Node) -> Result<Option<Vec<u8>>, Error> {
        match self {
            Reading::Whole => node.extras().security(),
            Reading::Quick => node.extras().security_within(QUICK_BYTES_MAX),
        }
    }
}

/// Something that the store has at a path.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) node: &'a dyn Node,
    pub(crate) path: &'a SharePath,
}

/// Reads descriptors, and remembers which of those that cannot be used the log has told of.
#[derive(Default)]
pub(crate) struct Descriptors {
    told: Mutex<HashSet<Identity>>,
    /// What directories pass on to what was never given one.
    pub(crate) inheritance: Inheritance,
}

impl Descriptors {
    /// The descriptor of what `share` has there. May wait for the store. Fails only where the file has gone, or where the answer would have to be
    /// waited for and may not, or takes longer than `reading` allows.
    pub(crate) fn read(&self, at: At<'_>, share: &str, reading: Reading) -> Result<Descriptor, Error> {
        match self.understand(reading.of(at.node), at, share)? {
            Some(own) => Ok(own),
            None => self.passed_on(at, reading),
        }
    }

    /// What `user` may do with what `share` has there.
    pub(crate) fn rights(&self, at: At<'_>, share: &str, user: &User, reading: Reading) -> Result<Rights, Error> {
        Ok(self.read(at, share, reading)?.rights(user))
    }

    /// The descriptor where what is `stored` was read already; `None` where it was never given one.
    pub(crate) fn understand(
        &self,
        stored: Result<Option<Vec<u8>>, Error>,
        at: At<'_>,
        share: &str,
    ) -> Result<Option<Descriptor>, Error> {
        let (why, descriptor) = match stored {
            Ok(None) => return Ok(None),
            Ok(Some(bytes)) => match decode(&bytes) {
                Ok(descriptor) => return Ok(Some(Descriptor::Stored(Arc::new(descriptor)))),
                Err(malformed) => (malformed.to_string(), Descriptor::Unusable),
            },
            Err(error @ (Error::WouldBlock | Error::Gone)) => return Err(error),
            Err(error) => (error.to_string(), Descriptor::Unreadable(error)),
        };
        self.tell(at.node.identity(), share, at.path, &why);
        Ok(Some(descriptor))
    }

    /// What something that was never given a descriptor has instead.
    pub(crate) fn passed_on(&self, at: At<'_>, reading: Reading) -> Result<Descriptor, Error> {
        instead(self.inheritance.above(at, reading), at.node.kind())
    }

    /// The descriptor that counted for `node` in the `directory` at a path that it has gone from, as it would be stored; `None` where that is
    /// the default.
    pub(crate) fn counted(
        &self,
        (store, node): (&dyn Store, &dyn Node),
        (directory, above): (Arc<dyn Node>, &SharePath),
    ) -> Result<Option<Vec<u8>>, Error> {
        match node.extras().security()? {
            Some(own) => Ok(Some(own)),
            None => instead(self.inheritance.of(store, directory, above, Reading::Whole), node.kind())?.stored(),
        }
    }

    /// Gives what stands there for good what it has from the directory that it lies in, before it comes to lie in
    /// another one as well or instead: what counts for a file stays with it when a client moves it.
    pub(crate) fn settle(&self, at: At<'_>) -> Result<(), Error> {
        if !matches!(at.node.extras().security(), Ok(None)) {
            return Ok(());
        }
        let Some(counts) = self.passed_on(at, Reading::Whole)?.stored()? else { return Ok(()) };
        at.node.extras().change_security(&mut |stored| if stored == Ok(None) { Some(counts.clone()) } else { None })
    }

    fn tell(&self, file: Identity, share: &str, path: &SharePath, why: &str) {
        let mut told = self.told.lock();
        if told.len() >= TOLD_MAX || !told.insert(file) {
            return;
        }
        let is_last = told.len() == TOLD_MAX;
        drop(told);
        tracing::warn!(name: "descriptor_unusable", %share, path = path.to_string(), reason = %why, "a security descriptor cannot be used: it grants nothing to users");
        if is_last {
            tracing::warn!(name: "descriptors_unusable", "files with such descriptors are not told of any more: there are too many");
        }
    }
}

/// What stands in for the descriptor that something of that kind was never given, by what came of asking its directory.
fn instead(passed_on: Result<PassedOn, Error>, kind: Kind) -> Result<Descriptor, Error> {
    Ok(match passed_on {
        Ok(PassedOn::Nothing) => Descriptor::Missing(kind),
        Ok(PassedOn::These { to_directory, .. }) if kind == Kind::Directory => Descriptor::PassedOn(to_directory),
        Ok(PassedOn::These { to_file, .. }) => Descriptor::PassedOn(to_file),
        Ok(PassedOn::Unusable) => Descriptor::Unusable,
        Err(error @ (Error::WouldBlock | Error::Gone)) => return Err(error),
        Err(error) => Descriptor::Unreadable(error),
    })
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
    if entries.any(|ace| !sacl::belongs(ace.kind, FREE_OF_PRIVILEGE)) {
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
            Some(list) => sacl::replaced(passed_on.sacl.as_ref(), Some(list), FREE_OF_PRIVILEGE),
            None => passed_on.sacl,
        };
        let of_sacl = sacl::CONTROL;
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
