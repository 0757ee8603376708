//! FSCTL_GET_REPARSE_POINT, FSCTL_SET_REPARSE_POINT and FSCTL_DELETE_REPARSE_POINT (MS-FSA 2.1.5.10.14, 2.1.5.10.37, 2.1.5.10.3, MS-SMB2 3.3.5.15.13):
//! symbolic links, and no others.
//!
//! A link is a file of its own in the store, which takes the place of the one that it is made of. So the open that made it is put in the place of itself,
//! too: from then on it is one of the link.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use store::{Error, Kind, Node, Replacement, SharePath, Store};
use wire::command::change_notify::CompletionFilter;
use wire::command::ioctl::IoctlRequest;
use wire::fscc::ioctl::{Reparse, ReparseTag};
use wire::security::access::{DELETE, READ_ATTRIBUTES, WRITE_ATTRIBUTES, WRITE_DATA};
use wire::status::Status;

use super::{Answer, Answered};
use crate::command::breaking;
use crate::command::context::Context;
use crate::command::create::tell_not_given;
use crate::command::link_target::{self, REPARSE_BYTES_MAX, WireTarget};
use crate::resource::budgets::{Held, Opened};
use crate::state::audit::OpenTotals;
use crate::state::authorization::{Request, Way, authorize};
use crate::state::caching::{Actor, Operation, Wanted};
use crate::state::descriptors::{self, At, Reading, Rights};
use crate::state::enumeration::Listing;
use crate::state::files::{Empties, Entering, Entry, Replacing};
use crate::state::open::{FileOpen, Open, Target};
use crate::state::open_id::OpenId;
use crate::state::refusal::Refusal;
use crate::state::shared::Shared;
use crate::state::user::User;
use crate::state::{breaks, durable::Durability};

/// REPARSE_DATA_BUFFER without data.
const HEADER_BYTES: usize = 8;
/// What others may do beside an open of a link.
const SHARES_ALL: u32 = 7;
/// How the names of the extended attributes begin that WSL gives its special files: a link has its own.
const WSL_PREFIX: &str = "$LX";

/// Where a link leads. MS-FSA 2.1.5.10.14 asks for no right, but who may not look at a link is not told what it says, as by CREATE.
pub(super) async fn current(context: &Context, request: &IoctlRequest<'_>) -> Answered {
    let (open, file) = context.file()?;
    if !open.rights().has(READ_ATTRIBUTES) {
        return Err(Status::ACCESS_DENIED.into());
    }
    let target = match &file.stream {
        None => context.look(&file.node, |node| node.target()).await?,
        Some(_) => None,
    };
    let target = target.ok_or(Status::NOT_A_REPARSE_POINT)?;
    let room = request.max_output_response as usize;
    if room < HEADER_BYTES {
        return Err(Status::BUFFER_TOO_SMALL.into());
    }
    let mut output = WireTarget::of(&target).reparse_point();
    let status = if output.len() > room { Status::BUFFER_OVERFLOW } else { Status::SUCCESS };
    output.truncate(room);
    Ok(Answer { status, output })
}

/// Makes a link of an empty file or directory, or has a link lead elsewhere.
pub(super) async fn set(context: &Context, request: &IoctlRequest<'_>) -> Answered {
    let file = to_change(context)?;
    if !(HEADER_BYTES..=REPARSE_BYTES_MAX).contains(&request.input.len()) {
        return Err(Status::IO_REPARSE_DATA_INVALID.into());
    }
    let reparse = decoded(request)?;
    if file.stream.is_some() {
        return Err(Status::INVALID_PARAMETER.into());
    }
    let known = context.look(&file.node, |node| node.metadata()).await?;
    if known.is_link && reparse.tag != ReparseTag::SYMLINK {
        return Err(Status::IO_REPARSE_TAG_MISMATCH.into());
    }
    if known.length > 0 && file.kind == Kind::File {
        return Err(Status::IO_REPARSE_DATA_INVALID.into());
    }
    let target = link_target::asked(&reparse)?;
    replace(context, Some(target)).await
}

/// Makes an empty file of a link.
pub(super) async fn delete(context: &Context, request: &IoctlRequest<'_>) -> Answered {
    let file = to_change(context)?;
    let reparse = decoded(request)?;
    if !reparse.data.is_empty() {
        return Err(Status::IO_REPARSE_DATA_INVALID.into());
    }
    let known = match &file.stream {
        None => context.look(&file.node, |node| node.metadata()).await?,
        Some(_) => return Err(Status::NOT_A_REPARSE_POINT.into()),
    };
    if !known.is_link {
        return Err(Status::NOT_A_REPARSE_POINT.into());
    }
    if reparse.tag != ReparseTag::SYMLINK {
        return Err(Status::IO_REPARSE_TAG_MISMATCH.into());
    }
    replace(context, None).await
}

/// The file of who may change it.
fn to_change(context: &Context) -> Result<&FileOpen, Refusal> {
    let (open, file) = context.file()?;
    if !open.rights().has_any(WRITE_DATA | WRITE_ATTRIBUTES) {
        return Err(Status::ACCESS_DENIED.into());
    }
    context.require_writable()?;
    Ok(file)
}

fn decoded<'a>(request: &IoctlRequest<'a>) -> Result<Reparse<'a>, Status> {
    let reparse = Reparse::decode(request.input).map_err(|_| Status::IO_REPARSE_DATA_INVALID)?;
    // IO_REPARSE_TAG_RESERVED_ZERO and IO_REPARSE_TAG_RESERVED_ONE.
    if reparse.tag.0 <= 1 { Err(Status::IO_REPARSE_TAG_INVALID) } else { Ok(reparse) }
}

/// Has a link, or without a target an empty file, take the place of the open's file, and the open go on as one of that.
async fn replace(context: &Context, target: Option<String>) -> Answered {
    let (open, file) = context.file()?;
    let path = file.path.now();
    if path.is_root() {
        return Err(Status::ACCESS_DENIED.into());
    }
    if file.file.is_delete_pending(open.id, "") {
        return Err(Status::DELETE_PENDING.into());
    }
    // The open of what is made is paid for before anything is: what was done could not be taken back.
    let paid = context.session()?.budgets.open(Opened::Whole)?;
    // Who opens it from now on until the name leads to the other file looks the name up anew then.
    let replacing = Replacing::begin_alone(&context.server().files, &file.file, open.id)?;
    let change = open.begin_change(0..0)?;
    let (server, store, held) = (Arc::clone(context.server()), Arc::clone(context.store()?), Arc::clone(open));
    let (user, through) = (context.session()?.user.load_full(), context.writes_through());
    let work = move || -> Result<(Arc<dyn Node>, Replacing), Refusal> {
        let _change = change;
        let file = held.file()?;
        check_nothing_is_lost(&*file.node)?;
        let path = file.path.now();
        let (directory, name) = store.directory_of(&path)?;
        may_replace(&server, &store, (&held, &user), (&*file.node, &path), &*directory)?;
        // Who had it open before the server was started again is not back yet, and could not come back.
        if server.durables.expects(&*file.node, &path) {
            return Err(Status::SHARING_VIOLATION.into());
        }
        // What takes the place has what a file would have that its maker made by CREATE.
        let above = path.parent().unwrap_or_default();
        let at = At { store: &*store, node: &*directory, path: &above };
        let passed_on = server.descriptors.read(at, &held.tree.share, Reading::Whole)?;
        let security = descriptors::of_new(&user, passed_on, None, Kind::File)?;
        let new = Replacement { target: target.as_deref(), security: security.as_deref(), owner: user.unix_owner };
        let made = directory.names()?.replace_with(&name, file.node.identity(), new);
        let made = made.inspect_err(|error| tell_not_given(&user, &held.tree.share, error)).map_err(refused)?;
        server.durables.made_file(made.identity());
        if through {
            directory.sync()?;
        }
        if file.kind == Kind::Directory {
            server.descriptors.inheritance.directory_changed();
        }
        server.watches.changed(&held, CompletionFilter::ATTRIBUTES);
        breaks::entry_changed(&server, &*store, &path, file.parent_lease);
        Ok((made, replacing))
    };
    let (made, replacing) = context.work_along(&path, work).await??;
    go_on_with(context, made, paid)?;
    drop(replacing);
    Ok(Answer::empty())
}

/// Refuses who may not remove the file and make another one of its name: what takes its place has the directory's descriptor, and not the one that the
/// file had. MS-FSA 2.1.5.10.37 asks for less, as there the file stays.
fn may_replace(
    server: &Shared,
    store: &Arc<dyn Store>,
    (open, user): (&Open, &User),
    (node, path): (&dyn Node, &SharePath),
    directory: &dyn Node,
) -> Result<(), Refusal> {
    let rights = |node: &dyn Node, path: &SharePath| -> Result<Rights, Refusal> {
        let at = At { store: &**store, node, path };
        Ok(server.descriptors.rights(at, &open.tree.share, user, Reading::Whole)?)
    };
    let above = path.parent().unwrap_or_default();
    let (taken, of_directory) = (|| rights(node, path), || rights(directory, &above));
    let share_max = open.tree.access_max();
    let check = |way| authorize(&Request { user, share_max, desired: 0, deletes_on_close: false, way });
    check(Way::Name { directory: &of_directory, kind: Kind::File })?;
    if !open.rights().has(DELETE) {
        check(Way::Replace { taken: &taken, directory: &of_directory, overrides_read_only: false })?;
    }
    Ok(())
}

/// A link keeps nothing that was kept with its file. What WSL says of its special files goes without saying.
fn check_nothing_is_lost(node: &dyn Node) -> Result<(), Refusal> {
    if !node.extras().streams()?.is_empty() {
        return Err(Status::NOT_SUPPORTED.into());
    }
    let extended = node.extras().extended()?;
    // MS-FSA 2.1.5.10.37.
    if extended.iter().any(|(name, _)| !name.starts_with(WSL_PREFIX)) {
        return Err(Status::EAS_NOT_SUPPORTED.into());
    }
    Ok(())
}

/// Why nothing was put in the place of a file.
fn refused(error: Error) -> Refusal {
    match error {
        Error::TooManyLinks => Status::NOT_SUPPORTED.into(),
        Error::Invalid | Error::NameInvalid => Status::IO_REPARSE_DATA_INVALID.into(),
        other => other.into(),
    }
}

/// The open is one of what was `made` from now on. Where somebody has that open by now and shares nothing, it stays one of what has gone.
fn go_on_with(context: &Context, made: Arc<dyn Node>, paid: Held) -> Result<(), Refusal> {
    let ((open, file), session) = (context.file()?, context.session()?);
    let server = context.server();
    let deletes = file.delete_on_close.load(Ordering::Relaxed);
    let entry = Entry {
        open: open.id,
        stream: "",
        link: None,
        access: open.granted.bits(),
        share: SHARES_ALL,
        names: &file.path,
        store: context.store()?,
        line: &open.line,
        is_directory: false,
        empties: Empties::Nothing,
        deletes,
        wanted: &Wanted::Nothing,
        opens_max: context.tree()?.opens_max(false),
    };
    let (entered, entering, notices) = server.files.enter(made.identity(), &entry);
    breaking::send_for(context, &entered, notices);
    let Entering::Entered(_) = entering else { return Ok(()) };
    let of_link = FileOpen {
        node: made,
        file: Arc::clone(&entered),
        kind: Kind::File,
        path: Arc::clone(&file.path),
        stream: None,
        options: file.options,
        delete_on_close: deletes.into(),
        position: 0.into(),
        mode: file.mode.load(Ordering::Relaxed).into(),
        ea_position: 0.into(),
        listing: Listing::default(),
        actor: Actor { open: open.id, lease: None },
        parent_lease: file.parent_lease,
        has_written: false.into(),
        audited: OpenTotals::default(),
        frozen_times: Default::default(),
        durability: Durability::default(),
        untold: Default::default(),
        channel_sequence: Default::default(),
        lock_sequences: Default::default(),
        held: Some(paid),
    };
    let line = Arc::clone(&open.line);
    let target = Target::File(Arc::new(of_link));
    let new = Open::new(open.id, line, Arc::clone(&open.user), Arc::clone(&open.tree), target, open.granted);
    let new = new.speaking_for(open.speaker.clone());
    let new = match &open.caller {
        Some(caller) => new.called_from(caller),
        None => new,
    };
    let Some(former) = session.replace_open(Arc::new(new)) else {
        // It was closed meanwhile.
        server.files.leave(&entered, open.id, deletes);
        return Ok(());
    };
    // Its client caches nothing of a link.
    let nobody = Actor { open: OpenId(0), lease: None };
    let (_, notices) = file.file.contend("", nobody, Operation::Overwrite);
    breaking::send_for(context, &file.file, notices);
    file.delete_on_close.store(false, Ordering::Relaxed);
    server.close_on_pool(vec![former]);
    Ok(())
}
