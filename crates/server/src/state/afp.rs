//! The two named streams in which Macs keep what other systems have no place for: AFP_AfpInfo, what the Finder knows of a file, and AFP_Resource, its
//! resource fork. They differ from other streams in what a Mac's own server does with them:
//!
//! - One that says nothing is not there: a fork without a byte, or an AFP_AfpInfo in which nothing of the Finder's is set. A Mac deletes them so. It is
//!   not listed and not found, and who makes it begins with it. On the disk it stays until then or until its file goes.
//! - AFP_AfpInfo is 60 bytes long, whatever is written to it or set as its length.

use store::{Error, Metadata, Node};
use wire::fscc::afp::{AfpInfo, INFO_STREAM, RESOURCE_STREAM};

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfpStream {
    /// AFP_AfpInfo.
    Info,
    /// AFP_Resource.
    Resource,
}

impl AfpStream {
    /// The one that has this name, if one has.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            _ if name.eq_ignore_ascii_case(INFO_STREAM) => Some(AfpStream::Info),
            _ if name.eq_ignore_ascii_case(RESOURCE_STREAM) => Some(AfpStream::Resource),
            _ => None,
        }
    }

    /// True where the stream says nothing. May wait for the store.
    pub(crate) fn is_blank(self, stream: &dyn Node) -> Result<bool, Error> {
        match self {
            AfpStream::Info => Ok(info(stream)?.is_some_and(|info| info.is_blank())),
            AfpStream::Resource => Ok(stream.metadata()?.length == 0),
        }
    }
}

/// What an AFP_AfpInfo holds, the blank one where nothing was written yet; `None` where something else was, by a program of this machine. May wait for the
/// store.
pub(crate) fn info(stream: &dyn Node) -> Result<Option<AfpInfo>, Error> {
    let mut bytes = [0; AfpInfo::LENGTH];
    match stream.read_at(&mut bytes, 0)? {
        0 => Ok(Some(AfpInfo::blank())),
        count => Ok(AfpInfo::decode(&bytes[..count]).ok()),
    }
}

/// What is told of a stream, as the open of an AFP_AfpInfo sees it.
pub(crate) fn sized(afp: Option<AfpStream>, known: Metadata) -> Metadata {
    match afp {
        Some(AfpStream::Info) => Metadata { length: known.length.max(AfpInfo::LENGTH as u64), ..known },
        Some(AfpStream::Resource) | None => known,
    }
}

/// True where an AFP_AfpInfo of the file is not listed, long as it is. May wait for the store.
pub(crate) fn hides_info(file: &dyn Node) -> Result<bool, Error> {
    match file.extras().stream(INFO_STREAM)? {
        Some((_, stream)) => AfpStream::Info.is_blank(&*stream),
        None => Ok(true),
    }
}
