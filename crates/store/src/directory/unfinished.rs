//! The modes of what is being made.

use rustix::fs::{FileType, Mode, Statx};

use crate::directory::stat::file_type;

/// Whom the machine lets at new files and directories: security descriptors bind nobody who comes past the server.
pub(super) const FILE_MODE: Mode = Mode::from_bits_retain(0o600);
pub(super) const DIRECTORY_MODE: Mode = Mode::from_bits_retain(0o700);

/// What files and directories are made with, until they have their descriptor: who finds one like it without a descriptor finds what was
/// left when the server was killed, and not what another program has made.
pub(super) const UNFINISHED_FILE: Mode = Mode::SVTX.union(FILE_MODE);
pub(super) const UNFINISHED_DIRECTORY: Mode = Mode::SVTX.union(DIRECTORY_MODE);

/// True where a mode has the bit that all have which are being made, whatever the process's mask and lists of the directory above have made of
/// the others.
pub(super) fn is_marked(found: &Statx) -> bool {
    Mode::from_raw_mode(found.stx_mode.into()).contains(Mode::SVTX)
}

/// True for the mode of what is being made.
pub(super) fn is_unfinished(found: &Statx) -> bool {
    let every = Mode::SVTX | Mode::SUID | Mode::SGID | Mode::from_raw_mode(0o777);
    let mode = Mode::from_raw_mode(found.stx_mode.into()) & every;
    match file_type(found) {
        FileType::RegularFile => mode == UNFINISHED_FILE,
        // It has the set-group-id bit where the one has that it lies in.
        FileType::Directory => mode.difference(Mode::SGID) == UNFINISHED_DIRECTORY,
        _ => false,
    }
}
