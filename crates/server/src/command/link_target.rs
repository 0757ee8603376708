//! Where a symbolic link leads, as a reparse point says it (MS-FSCC 2.1.2.4) and as the store keeps it: names with `/` between them.
//!
//! | on the wire | in the store |
//! |---|---|
//! | `..\a\b`, relative | `../a/b` |
//! | `\usr\lib`, absolute: what Linux clients make of a path from their root | `/usr/lib` |
//! | `\??\C:\a`, absolute: a path of Windows | the same text, which leads nowhere on this machine |
//! | `\a`, relative: from the root of the client's share | the same text, too |

use wire::fscc::ioctl::{Reparse, ReparseTag, SYMLINK_FLAG_RELATIVE, encode_symlink};
use wire::status::Status;

/// What a path of Windows' object manager begins with.
const NT_PREFIX: &str = r"\??\";
/// What a backslash in a name is shown as by a store: such a text was kept as it came.
const SHOWN_BACKSLASH: char = '\u{F05C}';
/// Characters from there on stand for those of ASCII.
const STAND_IN: u32 = 0xF000;
/// MAXIMUM_REPARSE_DATA_BUFFER_SIZE.
pub(super) const REPARSE_BYTES_MAX: usize = 16_384;

/// A target on the wire.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WireTarget {
    /// The path to follow.
    pub(super) substitute: String,
    /// See [`SYMLINK_FLAG_RELATIVE`].
    pub(super) flags: u32,
}

impl WireTarget {
    /// Of a target that the store keeps.
    pub(super) fn of(target: &str) -> Self {
        if target.starts_with(['\\', SHOWN_BACKSLASH]) {
            let substitute: String = target.chars().map(as_it_came).collect();
            let flags = if substitute.starts_with(NT_PREFIX) { 0 } else { SYMLINK_FLAG_RELATIVE };
            return WireTarget { substitute, flags };
        }
        let flags = if target.starts_with('/') { 0 } else { SYMLINK_FLAG_RELATIVE };
        WireTarget { substitute: target.replace('/', "\\"), flags }
    }

    /// What is shown to people.
    pub(super) fn print(&self) -> &str {
        self.substitute.strip_prefix(NT_PREFIX).unwrap_or(&self.substitute)
    }

    /// The reparse point, without what is shown where both are too long together.
    pub(super) fn reparse_point(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let _ = encode_symlink(&self.substitute, self.print(), self.flags, &mut out);
        if out.is_empty() || out.len() > REPARSE_BYTES_MAX {
            out.clear();
            let _ = encode_symlink(&self.substitute, "", self.flags, &mut out);
        }
        out
    }
}

/// The character of which this one is shown in its place.
fn as_it_came(c: char) -> char {
    match u32::from(c).checked_sub(STAND_IN) {
        Some(code @ 1..=0x7F) => char::from_u32(code).unwrap_or(c),
        _ => c,
    }
}

/// The target that a client asks for. IO_REPARSE_DATA_INVALID for what says none, NOT_SUPPORTED where it is something else than a link.
pub(crate) fn asked(reparse: &Reparse<'_>) -> Result<String, Status> {
    let invalid = |_| Status::IO_REPARSE_DATA_INVALID;
    let target = match reparse.tag {
        ReparseTag::SYMLINK => {
            let link = reparse.symlink().map_err(invalid)?.ok_or(Status::IO_REPARSE_DATA_INVALID)?;
            let substitute = link.substitute.decode().ok_or(Status::IO_REPARSE_DATA_INVALID)?;
            match link.flags {
                SYMLINK_FLAG_RELATIVE => from_relative(substitute),
                0 => from_absolute(substitute),
                _ => return Err(Status::IO_REPARSE_DATA_INVALID),
            }
        }
        ReparseTag::NFS => {
            let target = reparse.nfs_link().map_err(invalid)?.ok_or(Status::NOT_SUPPORTED)?;
            target.decode().ok_or(Status::IO_REPARSE_DATA_INVALID)?
        }
        ReparseTag::LX_SYMLINK => {
            reparse.lx_link().map_err(invalid)?.ok_or(Status::IO_REPARSE_DATA_INVALID)?.to_owned()
        }
        _ => return Err(Status::NOT_SUPPORTED),
    };
    if target.is_empty() || target.contains('\0') { Err(Status::IO_REPARSE_DATA_INVALID) } else { Ok(target) }
}

fn from_relative(substitute: String) -> String {
    if substitute.starts_with('\\') { substitute } else { substitute.replace('\\', "/") }
}

/// Without its first backslash the kernel's client of Linux sends it, up to 6.12.
fn from_absolute(substitute: String) -> String {
    if substitute.is_empty() || substitute.starts_with(NT_PREFIX) {
        return substitute;
    }
    format!("/{}", substitute.strip_prefix('\\').unwrap_or(&substitute).replace('\\', "/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is kept of a link that a client makes, and what it then says.
    fn kept(substitute: &str, flags: u32) -> (String, WireTarget) {
        let mut point = Vec::new();
        assert!(encode_symlink(substitute, "shown", flags, &mut point));
        let kept = asked(&Reparse::decode(&point).unwrap()).unwrap();
        let told = WireTarget::of(&kept);
        (kept, told)
    }

    #[test]
    fn what_a_client_writes_it_reads_back() {
        for (substitute, flags, stored) in [
            (r"..\a\b", SYMLINK_FLAG_RELATIVE, "../a/b"),
            ("name", SYMLINK_FLAG_RELATIVE, "name"),
            (r"dir\", SYMLINK_FLAG_RELATIVE, "dir/"),
            (r"\usr\lib", 0, "/usr/lib"),
            (r"\??\C:\a b", 0, r"\??\C:\a b"),
            (r"\from\root", SYMLINK_FLAG_RELATIVE, r"\from\root"),
        ] {
            let told = WireTarget { substitute: substitute.into(), flags };
            assert_eq!(kept(substitute, flags), (stored.into(), told), "{substitute}");
        }
        assert_eq!(kept(r"usr\lib", 0).0, "/usr/lib");
        assert_eq!(WireTarget::of(r"\??\C:\a").print(), r"C:\a");
        // As a folder shows what is no name.
        let shown = "\u{F05C}\u{F03F}\u{F03F}\u{F05C}C\u{F03A}\u{F05C}a";
        assert_eq!(WireTarget::of(shown), WireTarget { substitute: r"\??\C:\a".into(), flags: 0 });
    }

    #[test]
    fn what_leads_nowhere_is_refused() {
        let refused = |substitute: &str, flags| {
            let mut point = Vec::new();
            assert!(encode_symlink(substitute, "", flags, &mut point));
            asked(&Reparse::decode(&point).unwrap()).unwrap_err()
        };
        for (substitute, flags) in [("", 1), ("", 0), ("a\0b", 1), ("a", 2), ("a", 3)] {
            assert_eq!(refused(substitute, flags), Status::IO_REPARSE_DATA_INVALID, "{substitute:?} {flags}");
        }
        let mount = Reparse { tag: ReparseTag::MOUNT_POINT, guid: None, data: &[0; 8] };
        assert_eq!(asked(&mount), Err(Status::NOT_SUPPORTED));
        let lone = Reparse { tag: ReparseTag::NFS, guid: None, data: b"LNK\x01\0\0\0\0\x00\xD8" };
        assert_eq!(asked(&lone), Err(Status::IO_REPARSE_DATA_INVALID));
    }

    #[test]
    fn the_longest_target_fits_a_reparse_point() {
        for target in ["x".repeat(4_095), "x/".repeat(2_047)] {
            let point = WireTarget::of(&target).reparse_point();
            assert!(!point.is_empty() && point.len() <= REPARSE_BYTES_MAX);
            assert_eq!(asked(&Reparse::decode(&point).unwrap()), Ok(target));
        }
    }
}
