//! FileDispositionInformation and its Ex form: whether a file goes with its last open (MS-FSA 2.1.5.15.3, 2.1.5.15.4).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use store::Kind;
use wire::command::create::CreateOptions;
use wire::fscc::rename::{Disposition, DispositionEx, DispositionFlags};
use wire::fscc::{FileAttributes, FileClass};
use wire::security::access::{DELETE, WRITE_ATTRIBUTES};
use wire::status::Status;

use super::{Job, begin_name_change, change, change_by_name, require_length};
use crate::command::breaking;
use crate::command::context::Context;
use crate::command::recorded;
use crate::state::auditing::of_open;
use crate::state::open::Open;
use crate::state::refusal::Refusal;

/// The flags there are.
const KNOWN: DispositionFlags = DispositionFlags::DELETE
    .union(DispositionFlags::POSIX_SEMANTICS)
    .union(DispositionFlags::FORCE_IMAGE_SECTION_CHECK)
    .union(DispositionFlags::ON_CLOSE)
    .union(DispositionFlags::IGNORE_READONLY_ATTRIBUTE);

pub(super) async fn set(context: &Context, class: FileClass, buffer: &[u8]) -> Result<(), Refusal> {
    let flags = if class == FileClass::DISPOSITION_EX {
        require_length(buffer, DispositionEx::LENGTH)?;
        DispositionEx::decode(buffer)?.flags
    } else {
        require_length(buffer, Disposition::LENGTH)?;
        let delete = Disposition::decode(buffer)?.delete_pending;
        if delete { DispositionFlags::DELETE } else { DispositionFlags::NONE }
    };
    if !flags.without(KNOWN).is_empty() {
        return Err(Status::NOT_SUPPORTED.into());
    }
    let (open, file) = context.file()?;
    open.require(DELETE)?;
    context.require_writable()?;
    if flags.contains(DispositionFlags::DELETE) {
        if file.stream.is_none() && file.path.now().is_root() {
            return Err(Status::CANNOT_DELETE.into());
        }
        breaking::before_change_of_name(context).await?;
    }
    // Until it is recorded: what is undone then is what this request did.
    let name_change = Arc::new(begin_name_change(context).await?);
    if file.kind == Kind::File {
        learn_links(context).await?;
    }
    let was = Was::of(open)?;
    let recording = open.begin_change(0..0)?;
    let (alone, caller) = (Arc::clone(&name_change), Arc::clone(&context.connection.caller));
    let mark = move |job: &Job| {
        let _alone = alone;
        apply(job, flags, &caller)
    };
    match file.kind {
        // Of a directory it is asked whether it is empty, and what its names lead to.
        Kind::Directory => change_by_name(context, mark).await?,
        Kind::File | Kind::Stream => change(context, mark).await?,
    }
    recorded::note_deletion(context, move || {
        let (_alone, _recording) = (name_change, recording);
        was.put_back();
    })
    .await
}

/// What was to go before a request that may be undone.
struct Was {
    open: Arc<Open>,
    pending: bool,
    delete_on_close: bool,
}

impl Was {
    fn of(open: &Arc<Open>) -> Result<Self, Status> {
        let file = open.file()?;
        let pending = file.goes();
        let delete_on_close = file.delete_on_close.load(Ordering::Relaxed);
        Ok(Was { open: Arc::clone(open), pending, delete_on_close })
    }

    fn put_back(&self) {
        let Ok(file) = self.open.file() else { return };
        if file.goes() != self.pending {
            file.file.set_delete_pending(self.open.id, &file.stream_name(), self.pending);
            if self.pending {
                of_open::armed(&self.open, file, self.open.caller.as_ref());
            } else {
                file.file.disarm();
            }
        }
        file.delete_on_close.store(self.delete_on_close, Ordering::Relaxed);
    }
}

/// Only the name that the open was made by goes, or stays: where there are others, or were, it is known who came by which.
async fn learn_links(context: &Context) -> Result<(), Refusal> {
    let (open, file) = context.file()?;
    let known = context.look(file.base(), |base| base.metadata()).await?;
    if known.links > 1 || file.file.tells_names() {
        context.in_flight.note_done_here(open.file()?.file.cost_of_all());
        let entry = Arc::clone(&open.file()?.file);
        context.work_by_name(move || entry.learn_links()).await?;
    }
    Ok(())
}

fn apply(job: &Job, flags: DispositionFlags, caller: &Arc<str>) -> Result<(), Refusal> {
    let file = job.file()?;
    let delete = flags.contains(DispositionFlags::DELETE);
    let goes = delete && file.kind == Kind::Directory;
    if flags.contains(DispositionFlags::ON_CLOSE) && file.options & CreateOptions::DELETE_ON_CLOSE.0 == 0 {
        return Err(Status::NOT_SUPPORTED.into());
    }
    if delete {
        check_deletable(job, flags)?;
    }
    if flags.contains(DispositionFlags::ON_CLOSE) {
        file.delete_on_close.store(delete, Ordering::Relaxed);
    } else if delete && file.stream.is_none() && flags.contains(DispositionFlags::POSIX_SEMANTICS) {
        file.file.unlink_with(job.open.id);
        of_open::armed(&job.open, file, Some(caller));
    } else {
        file.file.set_delete_pending(job.open.id, &file.stream_name(), delete);
        if delete {
            of_open::armed(&job.open, file, Some(caller));
        } else {
            file.file.disarm();
        }
    }
    if goes {
        job.server.watches.directory_goes(file.node.identity());
    }
    Ok(())
}

fn check_deletable(job: &Job, flags: DispositionFlags) -> Result<(), Refusal> {
    let file = job.file()?;
    let read_only = file.base().metadata()?.attributes & FileAttributes::READONLY.0 != 0;
    let ignores = flags.contains(DispositionFlags::IGNORE_READONLY_ATTRIBUTE) && job.open.may(WRITE_ATTRIBUTES);
    if read_only && !ignores {
        return Err(Status::CANNOT_DELETE.into());
    }
    if file.kind == Kind::Directory && !file.node.names()?.is_empty()? {
        return Err(Status::DIRECTORY_NOT_EMPTY.into());
    }
    Ok(())
}
