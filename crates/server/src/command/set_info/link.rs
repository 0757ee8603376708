//! FileLinkInformation: a second name for a file (MS-FSA 2.1.5.15.7).

use store::Kind;
use wire::fscc::rename::{Rename, RenameFlags};
use wire::status::Status;

use super::place::{Place, again_where_raced};
use super::rename::{BYTES_MIN, name};
use super::{Job, change_by_name, require_length};
use crate::context::Context;
use crate::refusal::Refusal;
use crate::{attributes, breaks};

pub(super) async fn set(context: &Context, buffer: &[u8]) -> Result<(), Refusal> {
    let (_, file) = context.file()?;
    require_length(buffer, BYTES_MIN)?;
    match file.kind {
        Kind::File => {}
        Kind::Directory => return Err(Status::FILE_IS_A_DIRECTORY.into()),
        Kind::Stream => return Err(Status::INVALID_PARAMETER.into()),
    }
    let asked = Rename::decode(buffer)?;
    let (name, flags) = (name(&asked)?, asked.flags);
    context.require_writable()?;
    breaks::before_change_of_name(context).await?;
    change_by_name(context, move |job| again_where_raced(flags, || link(job, &name, flags))).await
}

fn link(job: &Job, name: &str, flags: RenameFlags) -> Result<(), Refusal> {
    let file = job.file()?;
    if file.file.is_delete_pending(job.open.id, "") {
        return Err(Status::ACCESS_DENIED.into());
    }
    // Unlike a rename, a link may be named from the root of the share in so many words.
    let place = Place::find(job, name.strip_prefix('\\').unwrap_or(name), file.kind)?;
    if place.taken().is_some() && !flags.contains(RenameFlags::REPLACE_IF_EXISTS) {
        return Err(Status::OBJECT_NAME_COLLISION.into());
    }
    let (replace, _replacing) = place.clear(job, &*file.node, flags)?;
    file.node.link(place.destination(), replace)?;
    breaks::entry_changed(&job.server, &*job.store, &place.path, file.parent_lease);
    job.server.files.watches.linked(&*job.store, &place.path, place.taken());
    attributes::archive(&*file.node)?;
    Ok(place.keep(job)?)
}
