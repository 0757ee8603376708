//! FileLinkInformation: a second name for a file (MS-FSA 2.1.5.15.7).

use store::{Identity, Kind, Replace, SharePath};
use wire::fscc::rename::{Rename, RenameFlags};
use wire::status::Status;

use super::place::{Place, again_where_raced, may_have};
use super::rename::{BYTES_MIN, name};
use super::{Job, begin_name_change, change_along, check_one_volume, require_length};
use crate::command::breaking;
use crate::command::context::Context;
use crate::state::refusal::Refusal;
use crate::state::{attributes, breaks};

pub(super) async fn set(context: &Context, buffer: &[u8]) -> Result<(), Refusal> {
    let (_, file) = context.file()?;
    // All that have it open may have to learn by which name.
    context.in_flight.note_done_here(file.file.cost_of_all());
    require_length(buffer, BYTES_MIN)?;
    match file.kind {
        Kind::File => {}
        Kind::Directory => return Err(Status::FILE_IS_A_DIRECTORY.into()),
        Kind::Stream => return Err(Status::INVALID_PARAMETER.into()),
    }
    let asked = Rename::decode(buffer)?;
    let (name, flags) = (name(&asked)?, asked.flags);
    context.require_writable()?;
    let to = SharePath::parse(from_root(&name)).ok();
    check_one_volume(context, to.as_ref())?;
    if file.file.is_cached() {
        may_have(context, (Place::of_link, from_root(&name)), flags).await?;
    }
    breaking::before_change_of_name(context).await?;
    let name_change = begin_name_change(context).await?;
    let change = move |job: &Job| {
        let _alone = name_change;
        again_where_raced(flags, || link(job, &name, flags))
    };
    context.in_flight.note_replaced(change_along(context, to.as_ref(), change).await?);
    Ok(())
}

/// Unlike a rename, a link may be named from the root of the share in so many words.
fn from_root(name: &str) -> &str {
    name.strip_prefix('\\').unwrap_or(name)
}

/// Gives what it has replaced.
fn link(job: &Job, name: &str, flags: RenameFlags) -> Result<Option<Identity>, Refusal> {
    let file = job.file()?;
    if file.file.is_delete_pending(job.open.id, "") {
        return Err(Status::ACCESS_DENIED.into());
    }
    let place = Place::of_link(job, from_root(name))?;
    if place.taken().is_some() && !flags.contains(RenameFlags::REPLACE_IF_EXISTS) {
        return Err(Status::OBJECT_NAME_COLLISION.into());
    }
    // From now on it counts by which name the file is open: who opened it while it had but one learns which that is.
    file.file.learn_links();
    let (replace, _replacing) = place.clear(job, &*file.node, flags)?;
    place.settle(job, &*file.node, &file.path.now())?;
    file.node.link(place.destination(), replace)?;
    breaks::entry_changed(&job.server, &*job.store, &place.path, file.parent_lease);
    job.server.watches.linked(&*job.store, &place.path, place.taken());
    attributes::archive_changed(&*file.node);
    place.keep(job)?;
    Ok(place.taken().filter(|_| replace != Replace::No))
}
