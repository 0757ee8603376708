//! What a client is told of a file: stored attributes and what follows from the file itself (MS-FSCC 2.6).

use store::{AttributeChange, Changes, Error, Kind, Metadata, Node};
use wire::fscc::FileAttributes;
use wire::fscc::ioctl::ReparseTag;

use crate::state::afp;
use crate::state::open::FileOpen;

/// The attributes that a client may set and that are stored.
pub(crate) const SETTABLE: u32 = FileAttributes::READONLY.0
    | FileAttributes::HIDDEN.0
    | FileAttributes::SYSTEM.0
    | FileAttributes::ARCHIVE.0
    | FileAttributes::TEMPORARY.0
    | FileAttributes::OFFLINE.0
    | FileAttributes::NOT_CONTENT_INDEXED.0;

/// What is known of an open file; for a stream its own length with the file's times and attributes.
pub(crate) fn of(file: &FileOpen) -> Result<Metadata, Error> {
    let own = file.node.metadata()?;
    match &file.stream {
        None => Ok(own),
        Some(stream) => Ok(afp::sized(stream.afp, of_stream(&own, &stream.base.metadata()?))),
    }
}

/// The same without waiting: [`Error::WouldBlock`] where the answer is not in memory.
pub(crate) fn try_of(file: &FileOpen) -> Result<Metadata, Error> {
    let own = file.node.try_metadata()?;
    match &file.stream {
        None => Ok(own),
        Some(stream) => Ok(afp::sized(stream.afp, of_stream(&own, &stream.base.try_metadata()?))),
    }
}

/// The same for a stream that is about to be opened.
pub(crate) fn of_node(node: &dyn Node, base: &dyn Node) -> Result<Metadata, Error> {
    let own = node.metadata()?;
    match node.kind() {
        Kind::Stream => Ok(of_stream(&own, &base.metadata()?)),
        Kind::File | Kind::Directory => Ok(own),
    }
}

fn of_stream(own: &Metadata, base: &Metadata) -> Metadata {
    Metadata { kind: Kind::Stream, length: own.length, allocated: own.allocated, ..*base }
}

/// Marks a file as one to be archived, as what changes it does (MS-FSA 2.1.4.17).
pub(crate) fn archive(node: &dyn Node) -> Result<(), Error> {
    change(node, AttributeChange::setting(FileAttributes::ARCHIVE.0))
}

/// The same behind a change that has been made: that is done, whatever becomes of the mark.
pub(crate) fn archive_changed(node: &dyn Node) {
    if let Err(error) = archive(node) {
        tracing::debug!(%error, "a file that was changed could not be marked to be archived");
    }
}

/// Changes attribute bits where they are not so already.
pub(crate) fn change(node: &dyn Node, attributes: AttributeChange) -> Result<(), Error> {
    let before = node.metadata()?.attributes;
    if attributes.apply(before) == before {
        return Ok(());
    }
    node.change(&Changes { attributes, ..Changes::default() })
}

/// The reparse tag that goes with these attributes (MS-FSCC 2.1.2.1).
pub(crate) fn reparse_tag(known: &Metadata) -> u32 {
    if known.is_link { ReparseTag::SYMLINK.0 } else { 0 }
}

/// FileAttributes as the wire has them: DIRECTORY from the kind, REPARSE_POINT for a symbolic link, NORMAL where there is nothing else.
pub(crate) fn on_the_wire(known: &Metadata) -> u32 {
    let directory = match known.kind {
        Kind::Directory => FileAttributes::DIRECTORY.0,
        Kind::File | Kind::Stream => 0,
    };
    let link = if known.is_link { FileAttributes::REPARSE_POINT.0 } else { 0 };
    match known.attributes | directory | link {
        0 => FileAttributes::NORMAL.0,
        bits => bits,
    }
}
