//! Renames a named stream (MS-FSA 2.1.5.15.12.1).

use std::sync::Arc;

use store::{Error, Identity, Kind, Node, Replace};
use wire::fscc::rename::RenameFlags;
use wire::status::Status;

use super::Job;
use crate::state::afp::AfpStream;
use crate::state::files::StreamRename;
use crate::state::refusal::Refusal;

/// The one type that streams with data have.
const DATA: &str = "$DATA";
/// The most characters in a stream's name (MS-FSCC 2.1.5.3).
const NAME_UNITS_MAX: usize = 255;

/// Gives the stream of the open the name `:name` or `:name:$DATA`. Returns whose stream it has replaced.
pub(super) fn rename(job: &Job, asked: &str, flags: RenameFlags) -> Result<Option<Identity>, Refusal> {
    let file = job.file()?;
    let new = name(asked)?;
    if file.kind == Kind::Directory {
        return Err(Status::INVALID_PARAMETER.into());
    }
    // The unnamed stream keeps its place: a file without one is none.
    let stream = file.stream.as_ref().filter(|_| !new.is_empty()).ok_or(Status::INVALID_PARAMETER)?;
    let old = file.stream_name();
    if store::fold(&old) == store::fold(new) {
        return Ok(None);
    }
    if !flags.contains(RenameFlags::REPLACE_IF_EXISTS) && matches!(taken(&*stream.base, new)?, Taken::Shown(_)) {
        return Err(Status::OBJECT_NAME_COLLISION.into());
    }
    // Whoever opens either name from now on looks it up when this is over.
    let _renaming = StreamRename::begin(&job.server.files, &file.file, &old, new)?;
    let replace = match taken(&*stream.base, new)? {
        Taken::Blank => Replace::Yes,
        Taken::Shown(_) if !flags.contains(RenameFlags::REPLACE_IF_EXISTS) => Replace::No,
        Taken::Shown(node) if node.metadata()?.length > 0 => return Err(Status::INVALID_PARAMETER.into()),
        Taken::Shown(_) => Replace::Yes,
        Taken::No => Replace::No,
    };
    stream.base.extras().rename_stream(&old, new, replace)?;
    file.file.stream_renamed(&old, new);
    let path = file.path.now();
    job.server.watches.stream_renamed(&*job.store, &path, &old, new);
    Ok((replace == Replace::Yes).then(|| stream.base.identity()))
}

/// What has the name that a stream is to have.
enum Taken {
    No,
    /// A stream of a Mac's that says nothing: for clients there is none.
    Blank,
    Shown(Arc<dyn Node>),
}

fn taken(base: &dyn Node, name: &str) -> Result<Taken, Error> {
    let Some((_, node)) = base.extras().stream(name)? else { return Ok(Taken::No) };
    match AfpStream::named(name) {
        Some(afp) if afp.is_blank(&*node)? => Ok(Taken::Blank),
        Some(_) | None => Ok(Taken::Shown(node)),
    }
}

/// The name in `:name` or `:name:$DATA`.
fn name(asked: &str) -> Result<&str, Status> {
    let rest = asked.strip_prefix(':').ok_or(Status::INVALID_PARAMETER)?;
    let (name, kind) = match rest.split_once(':') {
        Some((_, "")) => return Err(Status::INVALID_PARAMETER),
        Some((name, kind)) => (name, kind),
        None => (rest, DATA),
    };
    let forbidden = name.contains(['\0', '/', '\\']) || kind.contains(['\0', '/', '\\', ':']);
    if rest.is_empty() || forbidden || name.encode_utf16().count() > NAME_UNITS_MAX {
        return Err(Status::INVALID_PARAMETER);
    }
    if kind.eq_ignore_ascii_case(DATA) { Ok(name) } else { Err(Status::OBJECT_TYPE_MISMATCH) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_with_or_without_their_type() {
        assert_eq!(name(":new"), Ok("new"));
        assert_eq!(name(":new:$data"), Ok("new"));
        assert_eq!(name("::$DATA"), Ok(""));
        assert_eq!(name(":new:$INDEX_ALLOCATION"), Err(Status::OBJECT_TYPE_MISMATCH));
        for bad in [":", ":a:", ":a/b", ":a\\b:$DATA", ":a:b:c", "a"] {
            assert_eq!(name(bad), Err(Status::INVALID_PARAMETER), "{bad}");
        }
        assert_eq!(name(&format!(":{}", "x".repeat(256))), Err(Status::INVALID_PARAMETER));
    }
}
