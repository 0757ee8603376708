//! What a listing tells Macs of each name, where they have asked for it (kAAPL_SUPPORTS_READ_DIR_ATTR): what its reader may do with it, how long its resource
//! fork is, and what the Finder knows of it. Otherwise a Mac asks for each of them, name by name.

use store::{Error, Kind, Metadata, Node, SharePath, Use};
use wire::fscc::FileAttributes;
use wire::fscc::afp::{AfpInfo, AppleEntry, AppleFinder, INFO_STREAM, RESOURCE_STREAM};
use wire::security::access::MAXIMUM_ALLOWED;

use super::Query;
use crate::state::afp;
use crate::state::authorization::{Existing, Request, Way, authorize};
use crate::state::descriptors::{At, Reading};
use crate::state::enumeration::{Listed, Slice};
use crate::state::open::FileOpen;

/// What it costs to look at a descriptor and two streams, in names that are looked up.
const LOOKUPS: usize = 6;
/// The first second of this century as a FILETIME, and how many of its units a second has.
const CENTURY: u64 = 125_911_584_000_000_000;
const UNITS_PER_SECOND: u64 = 10_000_000;

impl Query {
    /// What is told of a name that has these metadata. What cannot be found out is told as if there was nothing of it: of rights that means none. Of the
    /// directory itself and the one above clients ask nothing.
    pub(super) fn told_to_mac(
        &self,
        file: &FileOpen,
        listed: &Listed,
        known: &Metadata,
        slice: &mut Slice,
    ) -> AppleEntry {
        let Listed::Name(name) = listed else { return AppleEntry::default() };
        slice.lookups = slice.lookups.saturating_sub(LOOKUPS);
        let found = file.node.names().and_then(|names| names.child(name, Use::Metadata));
        let Ok(Some((_, node))) = found else { return AppleEntry::default() };
        let info = finder_info(&*node).unwrap_or_default();
        AppleEntry {
            access_max: self.access_max(file, &*node, &file.path.now().join(name), known),
            resource_bytes: resource_bytes(&*node).unwrap_or_default(),
            finder: AppleFinder::of(info.as_ref(), known.kind == Kind::Directory, seconds_of_century(known)),
        }
    }

    /// What a CREATE that asks for MAXIMUM_ALLOWED would be granted.
    fn access_max(&self, file: &FileOpen, node: &dyn Node, path: &SharePath, known: &Metadata) -> u32 {
        let tree = &self.open.tree;
        let (user, directory) = (tree.user_now(&self.open.user), file.path.now());
        let above: &SharePath = &directory;
        let rights = |node: &dyn Node, path: &SharePath| {
            let at = At { store: &*self.store, node, path };
            self.server.descriptors.rights(at, &tree.share, &user, Reading::Whole)
        };
        let is_file = known.kind != Kind::Directory;
        let existing = Existing {
            own: &|| Ok(rights(node, path)?),
            directory: &|| Ok(Some(rights(&*file.node, above)?)),
            implied: 0,
            is_read_only: is_file && known.attributes & FileAttributes::READONLY.0 != 0,
            has_other_names: is_file && known.links > 1,
        };
        let request = Request {
            user: &user,
            share_max: tree.access_max(),
            desired: MAXIMUM_ALLOWED,
            deletes_on_close: false,
            way: Way::Existing(existing),
        };
        authorize(&request).map_or(0, |granted| granted.bits())
    }
}

fn finder_info(node: &dyn Node) -> Result<Option<AfpInfo>, Error> {
    match node.extras().stream(INFO_STREAM)? {
        Some((_, stream)) => afp::info(&*stream),
        None => Ok(None),
    }
}

fn resource_bytes(node: &dyn Node) -> Result<u64, Error> {
    match node.extras().stream(RESOURCE_STREAM)? {
        Some((_, stream)) => Ok(stream.metadata()?.length),
        None => Ok(0),
    }
}

/// When it was made, in seconds of this century; 0 for what was made before.
fn seconds_of_century(known: &Metadata) -> u32 {
    let seconds = known.creation.0.saturating_sub(CENTURY) / UNITS_PER_SECOND;
    u32::try_from(seconds).unwrap_or(u32::MAX)
}
