//! A tree connect: one session's way to one share (MS-SMB2 3.3.1.9).

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};
use store::Store;
use wire::ids::TreeId;
use wire::security::access::{self, ACCESS_SYSTEM_SECURITY, WRITE_DATA};
use wire::status::Status;

use crate::state::audit::{AuditClass, AuditClasses};
use crate::state::authorization::GrantedAccess;
use crate::state::configuration::{self, HostsAllowed, ShareRight};
use crate::state::share_limit::TreeLimit;
use crate::state::snapshots::snapshot_share;
use crate::state::user::User;

/// What a share that may only be read leaves of all rights.
pub(crate) const READ_ONLY_ACCESS: u32 = access::FILE_GENERIC_READ | access::FILE_GENERIC_EXECUTE;

/// What a tree leads to.
pub(crate) enum Backing {
    /// A share with files.
    Disk(Arc<dyn Store>),
    /// `IPC$`: named pipes.
    Pipes,
}

/// Files of a share that a tree is on.
pub(crate) struct ShareFiles {
    store: Arc<dyn Store>,
    snapshot: Option<Box<str>>,
}

impl ShareFiles {
    /// What the share is now.
    pub(crate) fn of(share: &configuration::Share) -> Self {
        ShareFiles { store: Arc::clone(&share.store), snapshot: None }
    }

    /// What it was, where that snapshot is open.
    pub(crate) fn of_snapshot(share: &configuration::Share, name: &str) -> Option<Self> {
        Some(ShareFiles { store: share.snapshots.get(name)?, snapshot: Some(name.into()) })
    }

    /// Whether nothing can be changed there.
    pub(crate) fn are_read_only(&self) -> bool {
        self.snapshot.is_some() || self.store.facts().read_only
    }
}

/// The tree connect. Its facts are frozen when it is made; the flags and the rights follow the share's settings.
pub(crate) struct Tree {
    pub(crate) id: TreeId,
    pub(crate) backing: Backing,
    /// The share's name as configured.
    pub(crate) share: Arc<str>,
    /// The snapshot of the share whose files it is on, where it is not on what the share is now.
    snapshot: Option<Box<str>>,
    /// What people are told that it is on: the share, or the snapshot as it was connected to.
    pub(crate) place: Arc<str>,
    /// The most access that the store has for an open, as its client was told.
    access_max: u32,
    /// The most that what its user may do in the share gives one; nothing once that is none.
    right: AtomicU32,
    /// The user as of the last change, where that was one of its groups.
    user: ArcSwapOption<User>,
    /// Its opens may be persistent (Share.IsCA), frozen when the tree is made.
    pub(crate) is_continuous: bool,
    read_only: AtomicBool,
    seal_required: AtomicBool,
    /// The log was told that a request was refused because it was not sealed.
    unsealed_told: AtomicBool,
    access_based: AtomicBool,
    /// From where its share may be used; looked at where that is not from everywhere.
    hosts: ArcSwap<HostsAllowed>,
    is_bounded_to_hosts: AtomicBool,
    /// What of it is audited.
    audit: AtomicU8,
    /// Nothing on `IPC$`.
    limit: Option<TreeLimit>,
}

impl Tree {
    /// A tree of `user`, who has this right, on a share's files, or on those of a snapshot of it. `keeps_opens` says whether the server and the
    /// dialect can make opens persistent.
    pub(crate) fn on(
        id: TreeId,
        (share, files): (&configuration::Share, ShareFiles),
        (user, right): (&User, ShareRight),
        access_max: u32,
        keeps_opens: bool,
    ) -> Self {
        Tree {
            id,
            read_only: AtomicBool::new(share.read_only || files.snapshot.is_some()),
            is_continuous: keeps_opens && share.continuously_available && files.snapshot.is_none(),
            backing: Backing::Disk(files.store),
            share: share.name.as_str().into(),
            place: match &files.snapshot {
                None => share.name.as_str().into(),
                Some(snapshot) => snapshot_share(&share.name, snapshot).into(),
            },
            snapshot: files.snapshot,
            access_max,
            right: AtomicU32::new(right.access()),
            user: ArcSwapOption::empty(),
            seal_required: AtomicBool::new(share.seal_required),
            unsealed_told: AtomicBool::new(false),
            access_based: AtomicBool::new(share.access_based),
            hosts: ArcSwap::from_pointee(share.rights.hosts.clone()),
            is_bounded_to_hosts: AtomicBool::new(share.rights.hosts != HostsAllowed::Any),
            audit: AtomicU8::new(share.audit.bits()),
            limit: Some(TreeLimit::of(&share.limit, user.id)),
        }
    }

    /// A tree on `IPC$`.
    pub(crate) fn on_pipes(id: TreeId) -> Self {
        Tree {
            id,
            backing: Backing::Pipes,
            share: "IPC$".into(),
            snapshot: None,
            place: "IPC$".into(),
            access_max: access::FILE_ALL,
            right: AtomicU32::new(access::FILE_ALL),
            user: ArcSwapOption::empty(),
            is_continuous: false,
            read_only: AtomicBool::new(false),
            seal_required: AtomicBool::new(false),
            unsealed_told: AtomicBool::new(false),
            access_based: AtomicBool::new(false),
            hosts: ArcSwap::from_pointee(HostsAllowed::Any),
            is_bounded_to_hosts: AtomicBool::new(false),
            audit: AtomicU8::new(0),
            limit: None,
        }
    }

    /// What it takes to do something with the share, where that is limited.
    pub(crate) fn limit(&self) -> Option<&TreeLimit> {
        self.limit.as_ref().filter(|limit| limit.is_limited())
    }

    /// How many opens a file or directory of the share may have; its root may have more.
    pub(crate) fn opens_max(&self, is_root: bool) -> usize {
        self.limit().map_or(usize::MAX, |limit| limit.opens_max(is_root))
    }

    /// The most access an open of this tree may be granted now (TreeConnect.MaximalAccess).
    pub(crate) fn access_max(&self) -> u32 {
        let access_max = self.access_max & self.right();
        if self.is_read_only() { access_max & READ_ONLY_ACCESS } else { access_max }
    }

    /// What is left to an open of what it was granted: an operator may have taken rights in the share away since.
    pub(crate) fn leaves(&self, granted: GrantedAccess) -> GrantedAccess {
        granted.within(self.right() | ACCESS_SYSTEM_SECURITY)
    }

    /// What its user may do in the share now.
    pub(crate) fn right(&self) -> u32 {
        self.right.load(Ordering::Relaxed)
    }

    /// The user of an open as it is now, for who judges what others do: what the open was granted stays.
    pub(crate) fn user_now(&self, open: &Arc<User>) -> Arc<User> {
        self.user.load_full().unwrap_or_else(|| Arc::clone(open))
    }

    /// Refuses where nothing may be changed: in the share, in what it lies on, or by this user, whatever descriptors grant.
    pub(crate) fn require_writable(&self) -> Result<(), Status> {
        let is_read_only = self.is_read_only() || self.store().is_some_and(|store| store.facts().read_only);
        match self.right() & WRITE_DATA {
            _ if is_read_only => Err(Status::MEDIA_WRITE_PROTECTED),
            0 => Err(Status::ACCESS_DENIED),
            _ => Ok(()),
        }
    }

    /// True where nothing may be changed in the share.
    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only.load(Ordering::Relaxed)
    }

    /// True where requests must be sealed.
    pub(crate) fn requires_sealing(&self) -> bool {
        self.seal_required.load(Ordering::Relaxed)
    }

    /// True where a channel from `host` may be used for it.
    pub(crate) fn admits(&self, host: Option<IpAddr>) -> bool {
        !self.is_bounded_to_hosts.load(Ordering::Acquire) || self.hosts.load().allow(host)
    }

    /// True for the first request that is refused because it is not sealed: one line a tree says enough.
    pub(crate) fn is_first_unsealed(&self) -> bool {
        self.requires_sealing() && !self.unsealed_told.swap(true, Ordering::Relaxed)
    }

    /// True where listings leave out what the reader may not read.
    pub(crate) fn lists_by_access(&self) -> bool {
        self.access_based.load(Ordering::Relaxed)
    }

    /// What of its share is audited now.
    pub(crate) fn audit(&self) -> AuditClasses {
        AuditClasses::from_bits(self.audit.load(Ordering::Relaxed))
    }

    /// True where this class of what is done through it is audited.
    pub(crate) fn audits(&self, class: AuditClass) -> bool {
        self.audit().contains(class)
    }

    /// The store, where the tree is on files.
    pub(crate) fn store(&self) -> Option<&Arc<dyn Store>> {
        match &self.backing {
            Backing::Disk(store) => Some(store),
            Backing::Pipes => None,
        }
    }

    /// Follows a changed share, and what its user may do in it now: false where the share is no longer the one this tree was made on, or not for
    /// this user.
    pub(crate) fn follow(&self, share: Option<&configuration::Share>, user: &Arc<User>) -> bool {
        match (&self.backing, share) {
            (Backing::Pipes, _) => true,
            (Backing::Disk(_), None) => false,
            (Backing::Disk(store), Some(share)) => {
                self.bound_to(&share.rights.hosts);
                // The anonymous user goes on with what it has open, and comes at nothing else.
                if !user.is_anonymous {
                    let right = user.right_on(share);
                    self.right.store(right.map_or(0, ShareRight::access), Ordering::Relaxed);
                    self.user.store(Some(Arc::clone(user)));
                    if right.is_none() {
                        return false;
                    }
                }
                self.read_only.store(share.read_only || self.snapshot.is_some(), Ordering::Relaxed);
                if self.seal_required.swap(share.seal_required, Ordering::Relaxed) != share.seal_required {
                    self.unsealed_told.store(false, Ordering::Relaxed);
                }
                self.access_based.store(share.access_based, Ordering::Relaxed);
                self.audit.store(share.audit.bits(), Ordering::Relaxed);
                match &self.snapshot {
                    None => Arc::ptr_eq(store, &share.store),
                    Some(name) => share.snapshots.get(name).is_some_and(|now| Arc::ptr_eq(store, &now)),
                }
            }
        }
    }

    fn bound_to(&self, hosts: &HostsAllowed) {
        if **self.hosts.load() != *hosts {
            self.hosts.store(Arc::new(hosts.clone()));
            self.is_bounded_to_hosts.store(*hosts != HostsAllowed::Any, Ordering::Release);
        }
    }
}
