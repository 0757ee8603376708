//! SET_INFO (MS-SMB2 3.3.5.21): changes a file, where it stands, its security descriptor.

mod basic;
mod disposition;
mod extended;
mod length;
mod link;
#[cfg(test)]
mod others_tests;
mod place;
#[cfg(test)]
mod race_tests;
mod rename;
mod security;
mod stream;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use store::{Node, SharePath, Store};
use wire::command::set_info::{InfoType, SetInfoRequest, SetInfoResponse};
use wire::fscc::file::{Mode, ModeFlags, Position};
use wire::fscc::{FileClass, FileSystemClass};
use wire::status::Status;

use crate::command::context::{Context, Outcome, Reply};
use crate::resource::turns::LONG_REQUEST_COST;
use crate::state::authorization::{GrantedAccess, Request, Way, authorize};
use crate::state::descriptors::{At, Reading, Rights};
use crate::state::files::{Change, NameChange};
use crate::state::open::{FileOpen, Open, Target};
use crate::state::refusal::Refusal;
use crate::state::shared::Shared;
use crate::state::user::User;

/// SHORT_NAMES_NOT_ENABLED_ON_VOLUME.
const NO_SHORT_NAMES: Status = Status(0xC000_019F);
/// What an unbuffered position must be a multiple of: the bytes of a sector.
const SECTOR_BYTES: u64 = 512;

pub(crate) async fn handle(context: &Context, request: SetInfoRequest<'_>) -> Outcome {
    if request.buffer.len() > context.connection.negotiation.borrow().payload_bytes_max() as usize {
        return Err(Status::INVALID_PARAMETER.into());
    }
    match request.info_type {
        InfoType::FILE => {
            set_file(context, request.class.file(), request.buffer).await?;
            if changes_file(request.class.file()) {
                context.write_through().await?;
            }
        }
        InfoType::FILESYSTEM => return Err(file_system(request.class.file_system()).into()),
        InfoType::SECURITY => {
            security::set(context, &request).await?;
            context.write_through().await?;
        }
        InfoType::QUOTA => return Err(Status::NOT_SUPPORTED.into()),
        _ => return Err(Status::INVALID_PARAMETER.into()),
    }
    Ok(Reply::new(SetInfoResponse::to_bytes().to_vec()))
}

/// Classes that change what is kept of a file, and not of its open alone. What is to be deleted goes with a CLOSE.
fn changes_file(class: FileClass) -> bool {
    matches!(
        class,
        FileClass::BASIC
            | FileClass::RENAME
            | FileClass::RENAME_EX
            | FileClass::LINK
            | FileClass::ALLOCATION
            | FileClass::END_OF_FILE
            | FileClass::FULL_EA
    )
}

/// Nothing of a file system is set over a network (MS-SMB2 3.3.5.21.2 with note 423, MS-FSA 2.1.5.16).
fn file_system(class: FileSystemClass) -> Status {
    match class {
        FileSystemClass::CONTROL | FileSystemClass::OBJECT_ID => Status::ACCESS_DENIED,
        FileSystemClass::LABEL | FileSystemClass::DRIVER_PATH | FileSystemClass::VOLUME_FLAGS => Status::NOT_SUPPORTED,
        _ => Status::INVALID_INFO_CLASS,
    }
}

/// MS-FSA 2.1.5.15.
async fn set_file(context: &Context, class: FileClass, buffer: &[u8]) -> Result<(), Refusal> {
    let file = match &context.open()?.target {
        Target::File(file) => file,
        Target::Pipe(_) => return Ok(set_pipe(class)?),
    };
    match class {
        FileClass::BASIC => basic::set(context, buffer).await,
        FileClass::RENAME | FileClass::RENAME_EX => rename::set(context, class, buffer).await,
        FileClass::LINK => link::set(context, buffer).await,
        FileClass::DISPOSITION | FileClass::DISPOSITION_EX => disposition::set(context, class, buffer).await,
        FileClass::ALLOCATION => length::set_allocation(context, buffer).await,
        FileClass::END_OF_FILE => length::set_end_of_file(context, buffer).await,
        FileClass::VALID_DATA_LENGTH => length::set_valid_data(context, buffer).await,
        FileClass::FULL_EA => extended::set(context, buffer).await,
        FileClass::POSITION => Ok(set_position(file, buffer)?),
        FileClass::MODE => Ok(set_mode(file, buffer)?),
        FileClass::SHORT_NAME => Err(NO_SHORT_NAMES.into()),
        class => Err(unknown(class).into()),
    }
}

/// Classes that cannot be set (MS-SMB2 3.3.5.21.1 with note 428).
fn unknown(class: FileClass) -> Status {
    match class {
        FileClass::PIPE | FileClass::PIPE_REMOTE => Status::INVALID_PARAMETER,
        FileClass(27 | 29..=33 | 36 | 41..=44 | 71) => Status::NOT_SUPPORTED,
        _ => Status::INVALID_INFO_CLASS,
    }
}

/// A pipe takes and forgets how it is to be read: its conversations are messages.
fn set_pipe(class: FileClass) -> Result<(), Status> {
    match class {
        FileClass::PIPE | FileClass::PIPE_REMOTE => Ok(()),
        _ => Err(Status::INVALID_PARAMETER),
    }
}

/// FilePositionInformation (MS-FSA 2.1.5.15.10).
fn set_position(file: &FileOpen, buffer: &[u8]) -> Result<(), Status> {
    require_length(buffer, Position::LENGTH)?;
    let offset = Position::decode(buffer).map_err(|_| Status::INFO_LENGTH_MISMATCH)?.offset;
    let unbuffered = has(file, ModeFlags::NO_INTERMEDIATE_BUFFERING);
    if offset > i64::MAX as u64 || (unbuffered && !offset.is_multiple_of(SECTOR_BYTES)) {
        return Err(Status::INVALID_PARAMETER);
    }
    file.position.store(offset, std::sync::atomic::Ordering::Relaxed);
    Ok(())
}

fn has(file: &FileOpen, flags: ModeFlags) -> bool {
    ModeFlags(file.mode.load(std::sync::atomic::Ordering::Relaxed)).intersects(flags)
}

/// FileModeInformation (MS-FSA 2.1.5.15.8).
fn set_mode(file: &FileOpen, buffer: &[u8]) -> Result<(), Status> {
    require_length(buffer, Mode::LENGTH)?;
    let asked = Mode::decode(buffer).map_err(|_| Status::INFO_LENGTH_MISMATCH)?.mode;
    let current = ModeFlags(file.mode.load(std::sync::atomic::Ordering::Relaxed));
    let mode = new_mode(current, asked)?;
    // What survives the server is on the disk when it is answered.
    let persistent = file.durability.keeping().is_persistent();
    let mode = if persistent { mode | (current & ModeFlags::WRITE_THROUGH) } else { mode };
    file.mode.store(mode.0, std::sync::atomic::Ordering::Relaxed);
    Ok(())
}

fn new_mode(current: ModeFlags, asked: ModeFlags) -> Result<ModeFlags, Status> {
    let synchronous = ModeFlags::SYNCHRONOUS_IO_ALERT | ModeFlags::SYNCHRONOUS_IO_NONALERT;
    let settable = ModeFlags::WRITE_THROUGH | ModeFlags::SEQUENTIAL_ONLY | synchronous;
    let beyond = !asked.without(settable).is_empty();
    if beyond || asked.contains(synchronous) || asked.intersects(synchronous) != current.intersects(synchronous) {
        return Err(Status::INVALID_PARAMETER);
    }
    if current.intersects(ModeFlags::NO_INTERMEDIATE_BUFFERING) {
        let through = current & ModeFlags::WRITE_THROUGH;
        return Ok(current.without(settable) | asked.without(ModeFlags::WRITE_THROUGH) | through);
    }
    Ok(current.without(settable) | asked)
}

/// INFO_LENGTH_MISMATCH where the structure is not whole.
fn require_length(buffer: &[u8], bytes: usize) -> Result<(), Status> {
    if buffer.len() < bytes { Err(Status::INFO_LENGTH_MISMATCH) } else { Ok(()) }
}

/// What a change takes along where it may wait for the store. Its open is closed behind it, unless it only looks.
struct Job {
    _change: Option<Change>,
    server: Arc<Shared>,
    store: Arc<dyn Store>,
    open: Arc<Open>,
    user: Arc<User>,
    /// The disk keeps what is changed before it is answered.
    through: bool,
}

impl Job {
    /// For a change of the data in `range`, which is empty where another thing is changed. FILE_CLOSED where the open was closed while
    /// others made way.
    fn of(context: &Context, range: Range<u64>) -> Result<Self, Refusal> {
        let change = context.open()?.begin_change(range)?;
        Ok(Job { _change: Some(change), ..Job::that_looks(context)? })
    }

    /// For what changes nothing: nobody comes behind it.
    fn that_looks(context: &Context) -> Result<Self, Refusal> {
        Ok(Job {
            _change: None,
            server: Arc::clone(context.server()),
            store: Arc::clone(context.store()?),
            open: Arc::clone(context.open()?),
            user: context.session()?.user.load_full(),
            through: context.writes_through(),
        })
    }

    fn run<T>(&self, change: impl FnOnce(&Job) -> Result<T, Refusal>) -> Result<T, Refusal> {
        let done = change(self)?;
        self.file()?.restore_frozen_times();
        Ok(done)
    }

    fn file(&self) -> Result<&FileOpen, Status> {
        self.open.file()
    }

    /// What the user may do with `node`, which the share has at `path`.
    fn rights(&self, node: &dyn Node, path: &SharePath) -> Result<Rights, Refusal> {
        let at = At { store: &*self.store, node, path };
        Ok(self.server.descriptors.rights(at, &self.open.tree.share, &self.user, Reading::Whole)?)
    }

    /// Refuses where the user may not come that way.
    fn authorize(&self, way: Way<'_>) -> Result<GrantedAccess, Refusal> {
        let share_max = self.open.tree.access_max();
        authorize(&Request { user: &self.user, share_max, desired: 0, deletes_on_close: false, way })
    }
}

/// Refuses a new name that another volume would have, before anything of the file is held that others wait for: asking that volume may
/// take as long as its device likes.
fn check_one_volume(context: &Context, to: Option<&SharePath>) -> Result<(), Refusal> {
    let (store, (_, file)) = (context.store()?, context.file()?);
    match to {
        Some(to) if store.volume_at(to) != store.volume_at(&file.path.now()) => Err(Status::NOT_SAME_DEVICE.into()),
        Some(_) | None => Ok(()),
    }
}

/// Waits until nobody else changes a name of the open's file, or marks one to go.
async fn begin_name_change(context: &Context) -> Result<NameChange, Refusal> {
    let (_, file) = context.file()?;
    let turn = match NameChange::begin(&file.file, context.queue_key().user) {
        Ok(begun) => {
            context.in_flight.keep_others_waiting();
            return Ok(begun);
        }
        Err(turn) => turn,
    };
    context.in_flight.note_done_here(LONG_REQUEST_COST as u64);
    let begun = context.in_flight.unless_cancelled(turn).await?.map_err(|_| Status::INSUFFICIENT_RESOURCES)?;
    context.check_stays()?;
    context.in_flight.keep_others_waiting();
    Ok(begun)
}

/// Runs a change where it may wait. Times that the open holds fast are put back after it.
async fn change(
    context: &Context,
    change: impl FnOnce(&Job) -> Result<(), Refusal> + Send + 'static,
) -> Result<(), Refusal> {
    let job = Job::of(context, 0..0)?;
    context.work(move || job.run(change)).await?
}

/// The same where it takes long also in memory, behind what others wait for: few do such things at once.
async fn change_slowly(
    context: &Context,
    change: impl FnOnce(&Job) -> Result<(), Refusal> + Send + 'static,
) -> Result<(), Refusal> {
    let job = Job::of(context, 0..0)?;
    context.on_long_work(move || job.run(change)).await?
}

/// The same where it takes as long as `bytes` are many.
async fn change_much(
    context: &Context,
    bytes: u64,
    change: impl FnOnce(&Job) -> Result<(), Refusal> + Send + 'static,
) -> Result<(), Refusal> {
    let job = Job::of(context, 0..0)?;
    context.work_on(bytes, move || job.run(change)).await?
}

/// The same where data is cut off or gets its space, which takes as long as `bytes` are many.
async fn change_length(
    context: &Context,
    bytes: u64,
    change: impl FnOnce(&Job) -> Result<(), Refusal> + Send + 'static,
) -> Result<(), Refusal> {
    let job = Job::of(context, 0..u64::MAX)?;
    context.work_on(bytes, move || job.run(change)).await?
}

/// The same where it looks through all that is open.
async fn change_among_opens<T: Send + 'static>(
    context: &Context,
    to: Option<&SharePath>,
    change: impl FnOnce(&Job) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    if !context.server().files.are_many() {
        return change_along(context, to, change).await;
    }
    let job = Job::of(context, 0..0)?;
    let work = move || job.run(change);
    match to {
        Some(path) => context.on_long_work_along(path, work).await?,
        None => context.on_long_work(work).await?,
    }
}

/// The same where another path than the open's is followed, too, if there is one.
async fn change_along<T: Send + 'static>(
    context: &Context,
    to: Option<&SharePath>,
    change: impl FnOnce(&Job) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let Some(path) = to else { return change_by_name(context, change).await };
    let job = Job::of(context, 0..0)?;
    context.work_along(path, move || job.run(change)).await?
}

/// The same where names are followed, which may lead anywhere.
async fn change_by_name<T: Send + 'static>(
    context: &Context,
    change: impl FnOnce(&Job) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let job = Job::of(context, 0..0)?;
    context.work_by_name(move || job.run(change)).await?
}
