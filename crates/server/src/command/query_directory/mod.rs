//! QUERY_DIRECTORY (MS-SMB2 3.3.5.18, MS-FSA 2.1.5.6.3).

mod apple;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use store::{Kind, Metadata, Store, Use, Waits};
use wire::command::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest, QueryDirectoryResponse};
use wire::context::apple::AppleCapabilities;
use wire::fscc::afp::AppleEntry;
use wire::fscc::directory::{DirectoryWriter, Entry, fixed_length};
use wire::fscc::pattern::{WILDCARDS, has_wildcards};
use wire::fscc::{FileAttributes, FileClass};
use wire::ids::FileTime;
use wire::security::access;
use wire::status::Status;

use crate::command::context::{Context, Outcome, Reply};
use crate::command::steps::GivenUp;
use crate::resource::budgets::UserBudgets;
use crate::state::attributes;
use crate::state::authorization::may_look;
use crate::state::descriptors::{At, Reading};
use crate::state::enumeration::{Enumeration, Listed, Slice, Stop};
use crate::state::open::{FileOpen, Open};
use crate::state::refusal::Refusal;
use crate::state::shared::Shared;

/// The most bytes of entries in one answer, whatever the client takes.
const LISTING_BYTES_MAX: usize = 256 << 10;
/// Names that a thread looks at before it does other work.
const SLICE_NAMES: usize = 16_384;
/// Names that a request has looked at before it counts as long work: more than an answer has room for.
const FIRST_SLICE_NAMES: usize = 4_096;
/// With so many wildcards a search is long work from the start: no program's has them, and each name costs much.
const LONG_WORK_WILDCARDS: usize = 8;
/// The pattern that a whole directory is listed with: an answer is full soon.
const EVERY_NAME: &str = "*";
/// Names that it looks more up of, before it answers with those it has.
const SLICE_LOOKUPS: usize = 1_024;
/// What a check of a file's security descriptor costs besides, in such names.
const ACCESS_LOOKUPS: usize = 4;
/// Names that a shard looks at, where the store never waits, before it leaves the rest to the pool.
const SHORT_SLICE: usize = 128;
/// Bytes of a response's body before its entries.
const BODY_BYTES: usize = 8;

pub(crate) async fn handle(context: &Context, request: QueryDirectoryRequest<'_>) -> Outcome {
    let (open, file) = context.file()?;
    if file.kind != Kind::Directory {
        return Err(Status::INVALID_PARAMETER.into());
    }
    if request.output_buffer_length > context.connection.negotiation.borrow().payload_bytes_max() {
        return Err(Status::INVALID_PARAMETER.into());
    }
    open.require(access::READ_DATA)?;
    let least_bytes = fixed_length(request.class).ok_or(Status::INVALID_INFO_CLASS)?;
    let query = Query {
        server: Arc::clone(context.server()),
        open: Arc::clone(open),
        store: Arc::clone(context.store()?),
        budgets: Arc::clone(&context.session()?.budgets),
        class: request.class,
        flags: request.flags,
        pattern: request.pattern.decode().ok_or(Status::OBJECT_NAME_INVALID)?,
        least_bytes,
        for_mac: request.class == FileClass::ID_BOTH_DIRECTORY
            && context.session()?.apple.have(AppleCapabilities::READ_DIR_ATTR),
        room_bytes: (request.output_buffer_length as usize).min(LISTING_BYTES_MAX),
    };
    if query.room_bytes < least_bytes {
        return Err(Status::INFO_LENGTH_MISMATCH.into());
    }
    let given_up = GivenUp::default();
    tokio::select! {
        biased;
        outcome = answer(context, file, query, &given_up) => outcome,
        () = context.in_flight.cancelled() => Err(Status::CANCELLED.into()),
    }
}

/// Answers in slices, so that no thread is held up for long by a directory of which little matches.
async fn answer(context: &Context, file: &FileOpen, query: Query, given_up: &GivenUp) -> Outcome {
    let mut turn = match file.listing.try_turn() {
        Ok(turn) => turn,
        Err(_) => file.listing.turn().await,
    };
    let first = query.begin(&mut turn)?;
    let query = Arc::new(query);
    let mut is_short = query.is_short(&turn);
    let mut short = None;
    if !query.is_long(file, &turn) {
        short = context.server().short_listings.try_acquire().ok();
    }
    loop {
        let step = if is_short {
            query.advance(&mut turn, first, Slice { names: SHORT_SLICE, lookups: SHORT_SLICE })?
        } else {
            let (asked, given_up) = (Arc::clone(&query), given_up.told());
            // Taken once: what is gone on with comes behind others.
            let place = short.take();
            let names = if place.is_some() { FIRST_SLICE_NAMES } else { SLICE_NAMES };
            let work = move || {
                // A CLOSE that was sent behind it does not take its answer away.
                if given_up.load(Ordering::Relaxed) {
                    return Err(Status::FILE_CLOSED.into());
                }
                let slice = Slice { names, lookups: SLICE_LOOKUPS };
                asked.advance(&mut turn, first, slice).map(|step| (step, turn))
            };
            let done = match place {
                Some(_place) => context.on_pool(work).await?,
                None => context.on_long_work(work).await?,
            };
            let (step, back) = done?;
            turn = back;
            step
        };
        match step {
            Some(reply) => return Ok(reply),
            None => is_short = false,
        }
    }
}

/// One request.
struct Query {
    server: Arc<Shared>,
    open: Arc<Open>,
    store: Arc<dyn Store>,
    budgets: Arc<UserBudgets>,
    class: FileClass,
    flags: QueryDirectoryFlags,
    pattern: String,
    /// Bytes of an entry without its name.
    least_bytes: usize,
    room_bytes: usize,
    /// Entries tell what Macs ask for.
    for_mac: bool,
}

impl Query {
    /// Goes on where the listing stands, or begins it anew; true where it is the open's first.
    fn begin(&self, place: &mut Option<Enumeration>) -> Result<bool, Refusal> {
        if self.flags.contains(QueryDirectoryFlags::REOPEN) {
            *place = None;
        }
        let first = place.is_none();
        let scan = match place.take() {
            Some(scan) if !self.flags.contains(QueryDirectoryFlags::RESTART_SCANS) => scan,
            Some(scan) if self.pattern.is_empty() => Enumeration::new(scan.pattern(), &self.budgets)?,
            Some(_) | None => Enumeration::new(&self.pattern, &self.budgets)?,
        };
        *place = Some(scan);
        Ok(first)
    }

    /// True where the store never waits and there is little to do: the listing goes on with a few entries, or looks for one name.
    fn is_short(&self, place: &Option<Enumeration>) -> bool {
        let Some(scan) = place else { return false };
        if self.is_by_access() || self.for_mac {
            // Each name takes a look at a descriptor, which may be long.
            return false;
        }
        let is_few = self.flags.contains(QueryDirectoryFlags::RETURN_SINGLE_ENTRY)
            || self.room_bytes / self.least_bytes <= SHORT_SLICE;
        self.store.facts().never_blocks && (!has_wildcards(scan.pattern()) || (is_few && scan.is_under_way()))
    }

    /// True where there is much to do for each name, or for many names and nothing to wait for, or a large directory is gone on with: no shard
    /// competes for its core with as many threads as wait for disks.
    fn is_long(&self, file: &FileOpen, place: &Option<Enumeration>) -> bool {
        let Some(scan) = place else { return false };
        let wildcards = scan.pattern().chars().filter(|c| WILDCARDS.contains(c)).count();
        let only_computes = file.node.waits() == Waits::Never && wildcards > 0 && scan.pattern() != EVERY_NAME;
        wildcards > LONG_WORK_WILDCARDS || only_computes || scan.is_streamed()
    }

    /// One slice; `None` where it was used up and there is nothing to answer yet.
    fn advance(&self, place: &mut Option<Enumeration>, first: bool, slice: Slice) -> Result<Option<Reply>, Refusal> {
        let file = self.open.file()?;
        let scan = place.as_mut().ok_or(Status::FILE_CLOSED)?;
        match self.fill(file, scan, slice)? {
            (Some(reply), _) => Ok(Some(reply)),
            (None, Stop::Paused | Stop::NotTaken) => Ok(None),
            (None, Stop::Ended) if first => Err(Status::NO_SUCH_FILE.into()),
            (None, Stop::Ended) => Err(Status::NO_MORE_FILES.into()),
        }
    }

    /// As many entries as there is room for, and as the slice is long; `None` where there was none.
    fn fill(
        &self,
        file: &FileOpen,
        scan: &mut Enumeration,
        mut slice: Slice,
    ) -> Result<(Option<Reply>, Stop), Refusal> {
        let single = self.flags.contains(QueryDirectoryFlags::RETURN_SINGLE_ENTRY);
        let mut body = vec![0; BODY_BYTES];
        let mut writer = self.writer(&mut body, self.room_bytes)?;
        let mut cut = None;
        let mut take = |listed: &Listed, slice: &mut Slice| {
            if slice.lookups == 0 || (single && !writer.is_empty()) {
                return ControlFlow::Break(());
            }
            let Some(known) = self.known(file, listed, slice) else { return ControlFlow::Continue(()) };
            let entry = entry(listed.name(), known.as_ref());
            let apple = known.filter(|_| self.for_mac).map(|known| self.told_to_mac(file, listed, &known, slice));
            if push(&mut writer, &entry, apple.as_ref()) {
                return ControlFlow::Continue(());
            }
            if writer.is_empty() {
                cut = Some(self.cut(&entry, apple.as_ref()));
            }
            ControlFlow::Break(())
        };
        let stop = scan.advance((&*self.store, file.as_directory()), &self.budgets, &mut slice, &mut take)?;
        let is_empty = writer.is_empty();
        let reply = match cut {
            Some(cut) => Some(cut?),
            None => (!is_empty).then(|| reply(Status::SUCCESS, body)),
        };
        Ok((reply, stop))
    }

    /// What the class needs to know of a name; `None` where it has gone, or is not shown to this user.
    fn known(&self, file: &FileOpen, listed: &Listed, slice: &mut Slice) -> Option<Option<Metadata>> {
        let known = self.metadata(file, listed, slice)?;
        self.may_be_seen(file, listed, slice).then_some(known)
    }

    /// The one entry for which there is no room: all but the end of its name. It is still the next one.
    fn cut(&self, entry: &Entry<&str>, apple: Option<&AppleEntry>) -> Outcome {
        let mut body = vec![0; BODY_BYTES];
        push(&mut self.writer(&mut body, usize::MAX)?, entry, apple);
        body.truncate(BODY_BYTES + self.room_bytes);
        Ok(reply(Status::BUFFER_OVERFLOW, body))
    }

    /// MS-FSA 2.1.5.6.3.1 to 2.1.5.6.3.11, a class each.
    fn writer<'a>(&self, body: &'a mut Vec<u8>, room_bytes: usize) -> Result<DirectoryWriter<'a>, Status> {
        DirectoryWriter::new(self.class, body, room_bytes).ok_or(Status::INVALID_INFO_CLASS)
    }

    /// True where it leaves out what its reader may not read.
    fn is_by_access(&self) -> bool {
        self.open.tree.lists_by_access() && !self.open.user.has_full_control()
    }

    /// False for what access-based enumeration leaves out: what the reader was not granted GENERIC_READ to.
    fn may_be_seen(&self, file: &FileOpen, listed: &Listed, slice: &mut Slice) -> bool {
        let Listed::Name(name) = listed else { return true };
        if !self.is_by_access() {
            return true;
        }
        slice.lookups = slice.lookups.saturating_sub(ACCESS_LOOKUPS);
        match file.node.names().and_then(|names| names.child(name, Use::Metadata)) {
            Ok(Some((_, node))) => {
                let path = file.path.now().join(name);
                let (descriptors, share) = (&self.server.descriptors, &self.open.tree.share);
                let at = At { store: &*self.store, node: &*node, path: &path };
                let user = self.open.tree.user_now(&self.open.user);
                let own = || Ok(descriptors.rights(at, share, &user, Reading::Whole)?);
                may_look(&user, self.open.tree.access_max(), access::FILE_GENERIC_READ, &own)
            }
            Ok(None) | Err(_) => false,
        }
    }

    /// What the class needs to know of a name: for names alone nothing. `None`: it has gone.
    fn metadata(&self, file: &FileOpen, listed: &Listed, slice: &mut Slice) -> Option<Option<Metadata>> {
        if self.class == FileClass::NAMES {
            return Some(None);
        }
        slice.lookups -= 1;
        listed.metadata(&*self.store, file.as_directory()).map(Some)
    }
}

fn push(writer: &mut DirectoryWriter<'_>, entry: &Entry<&str>, apple: Option<&AppleEntry>) -> bool {
    match apple {
        Some(apple) => writer.push_apple(entry, apple),
        None => writer.push(entry),
    }
}

fn entry<'a>(name: &'a str, known: Option<&Metadata>) -> Entry<&'a str> {
    let Some(known) = known else { return Entry { name, ..Entry::default() } };
    Entry {
        name,
        file_index: 0,
        creation: FileTime(known.creation.0),
        access: FileTime(known.access.0),
        write: FileTime(known.write.0),
        change: FileTime(known.change.0),
        end_of_file: known.length,
        allocation: known.allocated,
        attributes: FileAttributes(attributes::on_the_wire(known)),
        ea_size: 0,
        reparse_tag: attributes::reparse_tag(known),
        file_id: known.identity.file,
        short_name: "",
    }
}

fn reply(status: Status, mut body: Vec<u8>) -> Reply {
    let output_bytes = (body.len() - BODY_BYTES) as u32;
    body[..BODY_BYTES].copy_from_slice(&QueryDirectoryResponse::to_bytes(output_bytes));
    Reply::with_status(status, body)
}
