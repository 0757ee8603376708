//! Under which keys something is kept with files ([`super::xattr`]), and where.

use rustix::fd::AsFd;
use rustix::fs::fgetxattr;
use rustix::io::Errno;

use crate::directory::calls::again;

pub(super) const RECORD: &str = "user.multilane";
pub(super) const SECURITY: &str = "user.multilane.sd";
pub(super) const SECURITY_SIDE: &str = "user.multilane.sd.side";
pub(super) const STREAM: &str = "user.multilane.stream.";
pub(super) const LONG_STREAM: &str = "user.multilane.long.";
/// Holds room for what the server keeps while a client's value is set ([`super::budget`]). What a server that was killed left is in nobody's way.
pub(super) const ROOM: &str = "user.multilane.room";
/// What keys of ours begin with, to be followed by nothing or a dot.
pub(super) const OWN: &str = "user.multilane";
pub(super) const USER: &str = "user.";

/// True for a key under which something of a client's is kept: a stream, or an extended attribute.
pub(super) fn is_clients(key: &str) -> bool {
    let is_own = |rest: &str| rest.is_empty() || rest.starts_with('.');
    is_stream(key) || key.starts_with(USER) && !key.strip_prefix(OWN).is_some_and(is_own)
}

pub(super) fn is_stream(key: &str) -> bool {
    key.starts_with(STREAM) || key.starts_with(LONG_STREAM)
}

/// The longest key (XATTR_NAME_MAX).
pub(super) const KEY_BYTES_MAX: usize = 255;

/// Where a volume keeps what is kept with its files.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// In extended attributes of the file system.
    InAttributes,
    /// In files of the reserved folder.
    Beside,
}

impl Keep {
    /// What the file system of a share's root can do.
    pub(super) fn on(root: impl AsFd) -> Self {
        let mut value = [0; 64];
        match again(|| fgetxattr(root.as_fd(), RECORD, value.as_mut_slice())) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Keep::Beside,
            _ => Keep::InAttributes,
        }
    }
}
