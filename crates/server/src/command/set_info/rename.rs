//! FileRenameInformation and its Ex form (MS-FSA 2.1.5.15.12).

use std::sync::Arc;

use store::{Destination, Error, Identity, Kind, Node, Replace, Resolved, SharePath, Use};
use wire::fscc::FileClass;
use wire::fscc::rename::{Rename, RenameFlags};
use wire::security::access::DELETE;
use wire::status::Status;

use super::place::{Place, again_where_raced, may_have};
use super::{Job, begin_name_change, change_along, change_among_opens, check_one_volume, require_length, stream};
use crate::command::breaking;
use crate::command::context::Context;
use crate::command::recorded;
use crate::state::caching::Operation;
use crate::state::descriptors::At;
use crate::state::files::{FileEntry, Link, Renaming};
use crate::state::open::FileOpen;
use crate::state::open_path::HeldPath;
use crate::state::refusal::Refusal;
use crate::state::{attributes, breaks};

/// The length of the structure with the padding that is always there (MS-FSCC 2.4.42.2).
pub(super) const BYTES_MIN: usize = 24;

pub(super) async fn set(context: &Context, class: FileClass, buffer: &[u8]) -> Result<(), Refusal> {
    let (open, file) = context.file()?;
    require_length(buffer, BYTES_MIN)?;
    open.require(DELETE)?;
    let asked = if class == FileClass::RENAME_EX { Rename::decode_ex(buffer)? } else { Rename::decode(buffer)? };
    let name = name(&asked)?;
    let flags = asked.flags;
    context.require_writable()?;
    if file.stream.is_none() && file.path.now().is_root() {
        return Err(Status::ACCESS_DENIED.into());
    }
    let to = SharePath::parse(&name).ok();
    check_one_volume(context, to.as_ref())?;
    // First, as MS-FSA has it: who asks for something else right behind this is told before the answer to that.
    breaking::before_change_of_name(context).await?;
    let replaced = what_makes_way(context, &name, flags).await?;
    // All that have it open learn its new name.
    context.in_flight.note_done_here(file.file.cost_of_all());
    if let Some(entry) = replaced {
        // Clients may keep the file that is to be replaced open for later: they close it now.
        breaking::make_way(context, &entry, "", file.actor, Operation::ChangeOfName).await?;
    }
    close_what_is_below(context).await?;
    // Who came while others were waited for may cache it by now.
    breaking::before_change_of_name(context).await?;
    let name_change = begin_name_change(context).await?;
    let renaming = recorded::before_rename(context, &name).await?;
    let change = move |job: &Job| {
        let _alone = name_change;
        if name.starts_with(':') {
            stream::rename(job, &name, flags)
        } else {
            again_where_raced(flags, || rename(job, &name, flags))
        }
    };
    let renamed = match file.kind {
        Kind::Directory => change_among_opens(context, to.as_ref(), change).await,
        Kind::File | Kind::Stream => change_along(context, to.as_ref(), change).await,
    };
    recorded::after_rename(context, renaming).await;
    context.in_flight.note_replaced(renamed?);
    Ok(())
}

/// What others cache of and is to be replaced. Refuses where it may not be, before anybody who has it open has to make way.
async fn what_makes_way(context: &Context, name: &str, flags: RenameFlags) -> Result<Option<Arc<FileEntry>>, Refusal> {
    let (_, file) = context.file()?;
    let Ok(path) = SharePath::parse(name) else { return Ok(None) };
    let replaces = flags.contains(RenameFlags::REPLACE_IF_EXISTS);
    if file.stream.is_some() || name.starts_with(':') || !(replaces || file.kind == Kind::Directory) {
        return Ok(None);
    }
    let store = Arc::clone(context.store()?);
    let followed = path.clone();
    let found = context.work_along(&path, move || store.resolve(&followed, Use::Metadata)).await?;
    let entry = match found {
        Ok(Resolved::Found { node, .. }) => context.server().files.find(node.identity()),
        Ok(Resolved::Missing { .. }) | Err(_) => None,
    };
    let cached = entry.is_some_and(|entry| entry.is_cached());
    if cached || file.kind == Kind::Directory {
        may_have(context, (Place::of_rename, name), flags).await
    } else {
        Ok(None)
    }
}

/// Clients may keep what is below a directory open for later: they close it now (MS-FSA 2.1.4.2).
async fn close_what_is_below(context: &Context) -> Result<(), Refusal> {
    let (open, file) = context.file()?;
    if file.kind != Kind::Directory {
        return Ok(());
    }
    let (server, store, held) = (Arc::clone(context.server()), Arc::clone(context.store()?), Arc::clone(open));
    let look = move || -> Result<_, Status> {
        let file = held.file()?;
        let path = file.path.now();
        Ok(server.files.opens_below(&store, &path, file.node.identity()))
    };
    let many = context.server().files.are_many();
    let below = if many { context.on_long_work(look).await? } else { context.work_by_name(look).await? };
    let below = below?;
    breaking::begin_to_make_way(context, &below, file.actor, Operation::ChangeOfName).await;
    for entry in below {
        breaking::make_way(context, &entry, "", file.actor, Operation::ChangeOfName).await?;
    }
    Ok(())
}

/// What is longer on the wire is no name: a path has 4,095 bytes at most, and a stream's name 255 characters and a type.
const NAME_BYTES_MAX: usize = 2 * (4095 + 1 + 255 + 16);

/// The new name. Nothing is relative to a directory over a network.
pub(super) fn name(asked: &Rename<'_>) -> Result<String, Status> {
    if asked.root_directory != 0 || asked.name.is_empty() {
        return Err(Status::INVALID_PARAMETER);
    }
    if asked.name.as_bytes().len() > NAME_BYTES_MAX {
        return Err(Status::OBJECT_NAME_INVALID);
    }
    asked.name.decode().ok_or(Status::OBJECT_NAME_INVALID)
}

/// The name that a file had, and the directory that had it.
type Left = (Link, Arc<dyn Node>);

/// Gives what it has replaced.
fn rename(job: &Job, name: &str, flags: RenameFlags) -> Result<Option<Identity>, Refusal> {
    let file = job.file()?;
    if file.stream.is_some() {
        // What Windows says to a stream that is to become a file.
        return Err(Status::SHARING_VIOLATION.into());
    }
    let from = file.path.now();
    let place = Place::of_rename(job, name)?;
    if file.file.is_delete_pending(job.open.id, "") {
        return Err(Status::ACCESS_DENIED.into());
    }
    if place.path == **from {
        return Ok(None);
    }
    // Until all who have it open know its new name.
    let renaming = match file.kind {
        Kind::Directory => Renaming::of_directory(&job.server.files, &job.store, &from, file.node.identity()),
        Kind::File | Kind::Stream => Renaming::of_file(&job.server.files),
    };
    if file.kind == Kind::Directory && job.server.files.has_opens_below(&job.store, &from, file.node.identity()) {
        return Err(Status::ACCESS_DENIED.into());
    }
    if file.file.has_open_streams() {
        return Err(Status::ACCESS_DENIED.into());
    }
    let renamer = job.server.budgets.of_user(job.user.sid());
    let to = HeldPath::charged(place.path.clone(), &renamer).ok_or(Status::INSUFFICIENT_RESOURCES)?;
    let (replace, _replacing) = place.clear(job, &*file.node, flags)?;
    match place.settle(job, &*file.node, &from) {
        // It may lie in another share.
        Ok(()) | Err(Error::Gone) => {}
        Err(error) => return Err(error.into()),
    }
    let renamed = job.store.directory_of(&from).and_then(|(directory, name)| {
        directory.names()?.rename(&name, file.node.identity(), place.destination(), replace)?;
        Ok((Link::new(directory.identity(), name.as_str()), directory))
    });
    let (old, left) = match renamed {
        Err(gone @ (Error::NotFound | Error::PathNotFound)) => moved(job, file, &place, replace).ok_or(gone)??,
        answer => answer?,
    };
    if file.kind == Kind::Directory {
        job.server.descriptors.inheritance.directory_changed();
    }
    file.file.renamed(&job.store, &from, &to, (&old, &place.link()), &renamer);
    // Nobody who opens something waits for the disk with it.
    drop(renaming);
    for path in [&**from, &place.path] {
        breaks::entry_changed(&job.server, &*job.store, path, file.parent_lease);
    }
    let replaced = place.taken().filter(|_| replace != Replace::No);
    job.server.watches.renamed(&*job.store, (&from, &place.path), &job.open, replaced);
    if file.kind == Kind::File {
        attributes::archive_changed(&*file.node);
    }
    // Where it goes first: a file has a name too many rather than none.
    place.keep(job)?;
    if job.through && left.identity() != place.directory() {
        left.sync()?;
    }
    Ok(replaced)
}

/// Renames a file that stands somewhere else than it was opened: another program moved it, or another share of the folder. Gives
/// the name it had and the directory that had it; `None` where it is in no share any more.
fn moved(job: &Job, file: &FileOpen, place: &Place, replace: Replace) -> Option<Result<Left, Error>> {
    let identity = file.node.identity();
    for (store, from) in file.whereabouts(&job.server.configuration.load(), &job.store) {
        match job.server.descriptors.settle(At { store: &*store, node: &*file.node, path: &from }) {
            Ok(()) => {}
            Err(Error::Gone) => continue,
            Err(error) => return Some(Err(error)),
        }
        let renamed = store.directory_of(&from).and_then(|(directory, name)| {
            let old = Link::new(directory.identity(), name.as_str());
            if Arc::ptr_eq(&store, &job.store) {
                return directory
                    .names()?
                    .rename(&name, identity, place.destination(), replace)
                    .map(|()| (old, directory));
            }
            let to = job.store.place_of(&place.path).and_then(|to| store.path_at(&to)).ok_or(Error::NotFound)?;
            let (into, new) = store.directory_of(&to)?;
            if into.identity() != place.directory() {
                return Err(Error::NotFound);
            }
            let to = Destination { directory: &*into, name: &new };
            directory.names()?.rename(&name, identity, to, replace).map(|()| (old, directory))
        });
        match renamed {
            Err(Error::NotFound | Error::PathNotFound) => {}
            answer => return Some(answer),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::codec::{Utf16, utf16_bytes};

    #[test]
    fn names_are_whole_and_relative_to_nothing() {
        let text = utf16_bytes("new");
        let asked = |root_directory, name| Rename { flags: RenameFlags::NONE, root_directory, name };
        assert_eq!(name(&asked(0, Utf16::new(&text).unwrap())), Ok("new".into()));
        assert_eq!(name(&asked(1, Utf16::new(&text).unwrap())), Err(Status::INVALID_PARAMETER));
        assert_eq!(name(&asked(0, Utf16::default())), Err(Status::INVALID_PARAMETER));
        assert_eq!(name(&asked(0, Utf16::new(&[0, 0xd8]).unwrap())), Err(Status::OBJECT_NAME_INVALID));
    }
}
