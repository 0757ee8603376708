//! Where a file is to stand: the directory, and what has the name there now (MS-FSA 2.1.5.15.12 and 2.1.5.15.7, which agree).

use std::sync::Arc;

use store::{Destination, Error, Identity, Kind, Name, Node, Replace, Resolved, SharePath, Use};
use wire::fscc::FileAttributes;
use wire::fscc::rename::RenameFlags;
use wire::security::access::{APPEND_DATA, WRITE_DATA};
use wire::status::Status;

use super::Job;
use crate::command::context::Context;
use crate::state::authorization::Way;
use crate::state::descriptors::At;
use crate::state::files::{FileEntry, Link, Replacing};
use crate::state::refusal::Refusal;

/// FILE_SHARE_READ and FILE_SHARE_WRITE: how the directory of a new name is opened, so that who has it open to delete it is in the
/// way (MS-FSA notes 183 and 185).
const DIRECTORY_SHARE: u32 = 3;

/// How often a name's place is judged anew because something else had the name when it came to be made.
const RACES_MAX: usize = 16;

/// The place of a new name. The directory that is judged is the one that the name is made in, wherever it stands by then.
pub(super) struct Place {
    /// The directory as it is stored, and the name as it was asked for.
    pub(super) path: SharePath,
    directory: Arc<dyn Node>,
    name: Name,
    taken: Option<Arc<dyn Node>>,
}

impl Place {
    /// Finds the place of another name for the open's file. Refuses where it may not get one, or no name may be made there.
    pub(super) fn of_link(job: &Job, name: &str) -> Result<Place, Refusal> {
        let file = job.file()?;
        job.authorize(Way::Link { own: &|| job.rights(&*file.node, &file.path.now()) })?;
        Place::find(job, name, file.kind)
    }

    /// Finds the place of the name that the open's file is to have instead. Refuses where no name may be made there.
    pub(super) fn of_rename(job: &Job, name: &str) -> Result<Place, Refusal> {
        Place::find(job, name, job.file()?.kind)
    }

    fn find(job: &Job, name: &str, kind: Kind) -> Result<Place, Refusal> {
        if name.is_empty() || name.starts_with('\\') {
            return Err(Status::INVALID_PARAMETER.into());
        }
        let asked = SharePath::parse(name)?;
        let (Some(parent), Some(last)) = (asked.parent(), asked.name()) else {
            return Err(Status::OBJECT_NAME_INVALID.into());
        };
        let (directory, path) = directory(job, &parent)?;
        let right = if kind == Kind::Directory { APPEND_DATA } else { WRITE_DATA };
        let files = &job.server.files;
        if files.find(directory.identity()).is_some_and(|entry| entry.conflicts_with("", (right, DIRECTORY_SHARE))) {
            return Err(Status::SHARING_VIOLATION.into());
        }
        let above = &path;
        job.authorize(Way::Name { directory: &|| job.rights(&*directory, above), kind })?;
        let name = Name::new(last)?;
        let taken = directory.names()?.child(&name, Use::Metadata)?.map(|(_, node)| node);
        Ok(Place { path: path.join(&name), directory, name, taken })
    }

    /// Where the name is to be made.
    pub(super) fn destination(&self) -> Destination<'_> {
        Destination { directory: &*self.directory, name: &self.name }
    }

    /// The name.
    pub(super) fn link(&self) -> Link {
        Link::new(self.directory.identity(), self.name.as_str())
    }

    /// The directory that the name is to be made in.
    pub(super) fn directory(&self) -> Identity {
        self.directory.identity()
    }

    /// Gives `own`, which stands at `from`, for good what it has from its directory, where it comes to stand in another one. Another program
    /// may have moved it since it was opened.
    pub(super) fn settle(&self, job: &Job, own: &dyn Node, from: &SharePath) -> Result<(), Error> {
        if from.parent() == self.path.parent()
            && let Some(name) = from.name()
            && self.directory.names()?.has(&Name::new(name)?, own.identity())?
        {
            return Ok(());
        }
        job.server.descriptors.settle(At { store: &*job.store, node: own, path: from })
    }

    /// Has the disk keep the name that was made, where the share answers for that.
    pub(super) fn keep(&self, job: &Job) -> Result<(), Error> {
        if job.through { self.directory.sync() } else { Ok(()) }
    }

    /// What has the name.
    pub(super) fn taken(&self) -> Option<Identity> {
        self.taken.as_ref().map(|node| node.identity())
    }

    /// What has the name, where that is something else than `own`. Refuses where it may not be replaced, whoever has it open.
    fn judged(&self, job: &Job, own: &dyn Node, flags: RenameFlags) -> Result<Option<&Arc<dyn Node>>, Refusal> {
        let Some(taken) = self.taken.as_ref().filter(|taken| taken.identity() != own.identity()) else {
            return Ok(None);
        };
        if !flags.contains(RenameFlags::REPLACE_IF_EXISTS) {
            return Err(Status::OBJECT_NAME_COLLISION.into());
        }
        let read_only = taken.metadata()?.attributes & FileAttributes::READONLY.0 != 0;
        let guarded = read_only && !flags.contains(RenameFlags::IGNORE_READONLY_ATTRIBUTE);
        // MS-FSA 2.1.5.15.12 says ACCESS_DENIED of every directory; programs that were made for POSIX want to know of a full one.
        if taken.kind() == Kind::Directory && own.kind() == Kind::Directory && !taken.names()?.is_empty()? {
            return Err(Status::DIRECTORY_NOT_EMPTY.into());
        }
        if taken.kind() == Kind::Directory || guarded {
            return Err(Status::ACCESS_DENIED.into());
        }
        let above = self.path.parent().unwrap_or_default();
        job.authorize(Way::Replace {
            taken: &|| job.rights(&**taken, &self.path),
            directory: &|| job.rights(&*self.directory, &above),
            overrides_read_only: read_only,
        })?;
        Ok(Some(taken))
    }

    /// Refuses where something else than `own` has the name and may not be replaced.
    /// Nobody opens what is to be replaced until the [`Replacing`] is dropped.
    pub(super) fn clear(
        &self,
        job: &Job,
        own: &dyn Node,
        flags: RenameFlags,
    ) -> Result<(Replace, Option<Replacing>), Refusal> {
        let Some(taken) = self.judged(job, own, flags)? else {
            // Another name of the file itself, which goes: the file would go with it (MS-FSA 2.1.5.15.12, TargetLink.IsDeleted).
            if self.taken.is_some() && job.file()?.file.is_link_pending(&self.link()) {
                return Err(Status::DELETE_PENDING.into());
            }
            return Ok((Replace::No, None));
        };
        // Who has it open is not back yet, and could not come back.
        if job.server.durables.expects(&**taken, &self.path) {
            return Err(Status::ACCESS_DENIED.into());
        }
        let takes_open = flags.contains(RenameFlags::POSIX_SEMANTICS);
        let replacing = Replacing::begin(&job.server.files, taken.identity(), &self.link(), takes_open)?;
        Ok((Replace::Only(taken.identity()), Some(replacing)))
    }
}

/// Finds the place of a name.
type Find = fn(&Job, &str) -> Result<Place, Refusal>;

/// Refuses where the open's file may not have the name, before anybody has to make way for that. Gives what is replaced, where that is
/// open. It is all judged anew when the name is made.
pub(super) async fn may_have(
    context: &Context,
    (find, name): (Find, &str),
    flags: RenameFlags,
) -> Result<Option<Arc<FileEntry>>, Refusal> {
    let (job, to, name) = (Job::that_looks(context)?, SharePath::parse(name), name.to_owned());
    let look = move || -> Result<_, Refusal> {
        let place = find(&job, &name)?;
        let taken = place.judged(&job, &*job.file()?.node, flags)?;
        Ok(taken.and_then(|taken| job.server.files.find(taken.identity())))
    };
    let looked = match to {
        Ok(path) => context.work_along(&path, look).await?,
        Err(_) => context.work_by_name(look).await?,
    };
    match looked {
        // Who has the directory open may be one of those that make way.
        Err(refusal) if refusal.status == Status::SHARING_VIOLATION => Ok(None),
        looked => looked,
    }
}

/// Makes a name, once more where another file got it first and may be replaced as well.
pub(super) fn again_where_raced<T>(
    flags: RenameFlags,
    mut make: impl FnMut() -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    for _ in 1..RACES_MAX {
        match make() {
            Err(refusal)
                if refusal.status == Status::OBJECT_NAME_COLLISION
                    && flags.contains(RenameFlags::REPLACE_IF_EXISTS) => {}
            made => return made,
        }
    }
    make()
}

fn directory(job: &Job, path: &SharePath) -> Result<(Arc<dyn Node>, SharePath), Refusal> {
    match job.store.resolve(path, Use::Metadata) {
        Ok(Resolved::Found { node, path }) if node.kind() == Kind::Directory => Ok((node, path)),
        Ok(_) | Err(Error::NotDirectory) => Err(Status::OBJECT_PATH_NOT_FOUND.into()),
        Err(error) => Err(error.into()),
    }
}
