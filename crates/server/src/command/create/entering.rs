//! Entering the table of files: what each open does between being found or made and being kept.

use std::sync::Arc;

use store::{Kind, Node, SharePath};
use tokio::time::Instant;
use wire::command::create::CreateOptions;
use wire::security::access::{
    ACCESS_SYSTEM_SECURITY, APPEND_DATA, DELETE, DELETE_CHILD, WRITE_ATTRIBUTES, WRITE_DAC, WRITE_DATA, WRITE_EA,
    WRITE_OWNER,
};
use wire::status::Status;

use super::plan::Plan;
use super::{WaitLimit, existing};
use crate::command::breaking;
use crate::command::context::Context;
use crate::resource::pool::Device;
use crate::state::caching::{Granted, LeaseId, Operation, Wanted};
use crate::state::files::BreakWait;
use crate::state::files::{Empties, Entering, Entry, FileEntry, Follower, Link, Removal};
use crate::state::open_id::OpenId;
use crate::state::open_path::OpenPath;
use crate::state::pending_open::PendingOpen;
use crate::state::refusal::Refusal;
use crate::state::removal::LastOpen;
use crate::state::session_link::SessionLink;

/// An open in the table of files, which leaves it again unless it goes on ([`Entered::keep`]).
pub(super) struct Entered<'a> {
    context: &'a Context,
    base: Arc<dyn Node>,
    parent_lease: Option<LeaseId>,
    pub(super) file: Arc<FileEntry>,
    pub(super) id: OpenId,
    pub(super) path: Arc<OpenPath>,
    line: Arc<SessionLink>,
    /// It is told from opens by other names.
    pub(super) is_named: bool,
    caching: Granted,
    kept: bool,
}

/// What an open has of the table of files.
pub(super) struct Kept {
    pub(super) id: OpenId,
    pub(super) file: Arc<FileEntry>,
    pub(super) path: Arc<OpenPath>,
    pub(super) line: Arc<SessionLink>,
    pub(super) caching: Granted,
}

/// What enters the table of files, and how.
#[derive(Clone, Copy)]
pub(super) struct Entrant<'a> {
    pub(super) node: &'a dyn Node,
    /// The file; for a stream the one that has it.
    pub(super) base: &'a Arc<dyn Node>,
    pub(super) stream: &'a str,
    pub(super) access: u32,
    /// What others may do meanwhile (MS-SMB2 2.2.13, ShareAccess).
    pub(super) share: u32,
    pub(super) empties: Empties,
    pub(super) path: &'a SharePath,
    /// The name, where the file has several.
    pub(super) link: Option<&'a Link>,
    /// What it asks to cache and may.
    pub(super) wanted: Wanted,
}

/// What came of trying to enter.
pub(super) enum Attempt<'a> {
    Entered(Entered<'a>),
    Waits(EntryWait),
}

/// Who may do one of these may change something that others have begun to change.
const CHANGES: u32 = WRITE_DATA
    | APPEND_DATA
    | WRITE_EA
    | DELETE_CHILD
    | WRITE_ATTRIBUTES
    | DELETE
    | WRITE_DAC
    | WRITE_OWNER
    | ACCESS_SYSTEM_SECURITY;

/// What somebody waits for who enters. What was found may be another file after that.
pub(super) enum EntryWait {
    /// Others give up caching.
    Breaks(BreakWait),
    /// What is older than anything this one may change is made first.
    Older(Follower),
}

impl EntryWait {
    /// Gives the place in the line of those who wait for others to give up caching.
    pub(super) async fn end_for(self, context: &Context) -> Result<Option<PendingOpen>, Refusal> {
        match self {
            EntryWait::Breaks(wait) => wait.end_for(context).await,
            EntryWait::Older(older) => {
                context.in_flight.unless_cancelled(older.until_made()).await?;
                context.check_stays()?;
                Ok(None)
            }
        }
    }
}

impl<'a> Entered<'a> {
    /// Tries to enter: `Waits` where others have to give up caching first.
    pub(super) async fn try_enter(
        context: &'a Context,
        plan: &Plan,
        found: Entrant<'_>,
    ) -> Result<Attempt<'a>, Refusal> {
        if let Some(attempt) = Entered::try_enter_by(context, plan, found)? {
            return Ok(attempt);
        }
        let link = Box::pin(existing::link_at(context, found.path)).await?;
        let named = Entered::try_enter_by(context, plan, Entrant { link: Some(&link), ..found })?;
        named.ok_or_else(|| Status::INTERNAL_ERROR.into())
    }

    /// The same by the name that is known, or none; `None` where it needs one.
    fn try_enter_by(context: &'a Context, plan: &Plan, found: Entrant<'_>) -> Result<Option<Attempt<'a>>, Refusal> {
        let id = context.server().new_open_id();
        let path = OpenPath::of_stream(found.path.clone(), found.stream);
        let store = context.store()?;
        let line = context.session()?.link();
        // Directories have no oplocks, and leases of version 2 alone, which cache no writes (MS-SMB2 3.3.5.9.11).
        let wanted = if found.node.kind() == Kind::Directory { found.wanted.of_directory() } else { found.wanted };
        let entry = Entry {
            open: id,
            stream: found.stream,
            link: found.link.cloned(),
            access: found.access,
            share: found.share,
            names: &path,
            store,
            line: &line,
            is_directory: found.node.kind() == Kind::Directory,
            empties: found.empties,
            deletes: plan.options.contains(CreateOptions::DELETE_ON_CLOSE),
            wanted: &wanted,
            opens_max: context.tree()?.opens_max(found.path.is_root()),
        };
        let (file, entering, notices) = context.server().files.enter(found.node.identity(), &entry);
        breaking::send_for(context, &file, notices);
        match entering {
            Entering::Refused(status) => Err(status.into()),
            Entering::Waits(wait) => Ok(Some(Attempt::Waits(EntryWait::Breaks(wait)))),
            Entering::Unnamed => Ok(None),
            Entering::Entered(caching) => {
                let (base, parent_lease) = (Arc::clone(found.base), plan.parent_lease);
                let is_named = found.link.is_some();
                let entered =
                    Entered { context, base, parent_lease, file, id, path, line, is_named, caching, kept: false };
                let writes = found.access & CHANGES != 0;
                let user = context.session()?.user.load();
                let older = if writes { entered.file.come_behind_older(user.sid()) } else { None };
                Ok(Some(match older {
                    Some(older) => Attempt::Waits(EntryWait::Older(older)),
                    None => Attempt::Entered(entered),
                }))
            }
        }
    }

    /// Enters, after others have given up what they cache if need be.
    pub(super) async fn enter(context: &'a Context, plan: &Plan, found: Entrant<'_>) -> Result<Self, Refusal> {
        match Entered::try_enter_by(context, plan, found)? {
            Some(Attempt::Entered(entered)) => Ok(entered),
            Some(Attempt::Waits(_)) | None => Box::pin(Entered::enter_after_others(context, plan, found)).await,
        }
    }

    async fn enter_after_others(context: &'a Context, plan: &Plan, found: Entrant<'_>) -> Result<Self, Refusal> {
        let (mut _standing, mut patience) = (None, WaitLimit::default());
        loop {
            let begun = Instant::now();
            match Entered::try_enter(context, plan, found).await? {
                Attempt::Entered(entered) => return Ok(entered),
                Attempt::Waits(wait) => {
                    _standing = Box::pin(wait.end_for(context)).await?;
                    patience.waited(begun, found.path)?;
                }
            }
        }
    }

    /// Who opened the file while it was emptied may have read the old data.
    pub(super) fn data_changed(&self, stream: &str, plan: &Plan) {
        let (_, notices) = self.file.contend(stream, plan.actor(self.id), Operation::Overwrite);
        breaking::send_for(self.context, &self.file, notices);
    }

    /// The open goes on.
    pub(super) fn keep(mut self) -> Kept {
        self.kept = true;
        Kept {
            id: self.id,
            file: Arc::clone(&self.file),
            path: Arc::clone(&self.path),
            line: Arc::clone(&self.line),
            caching: self.caching,
        }
    }
}

impl Drop for Entered<'_> {
    /// What somebody else has deleted meanwhile goes with this one, where it is the last. Nobody waits here for the store.
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        let server = Arc::clone(self.context.server());
        let removal = server.files.leave(&self.file, self.id, false);
        let Some(tree) = self.context.tree.as_ref().filter(|_| removal != Removal::Nothing) else { return };
        let last = LastOpen {
            base: Arc::clone(&self.base),
            path: Arc::clone(&self.path),
            tree: Arc::clone(tree),
            parent_lease: self.parent_lease,
            open: None,
        };
        let (file, pool) = (Arc::clone(&self.file), server.pool.clone());
        let turn = self.context.queue_key_at(Device::Volume(last.base.identity().volume));
        // Who deleted it was answered.
        pool.submit(turn, Box::new(move || last.carry_out(&server, &file, removal)));
    }
}
