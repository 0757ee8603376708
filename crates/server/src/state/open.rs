//! An open: one CREATE's handle on a file, directory, stream or pipe (MS-SMB2 3.3.1.10).

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use store::{Kind, Node, SharePath, Store};
use wire::command::write::WriteFlags;
use wire::fscc::file::ModeFlags;
use wire::security::access::DELETE;
use wire::status::Status;

use crate::resource::budgets::Held;
use crate::state::afp::AfpStream;
use crate::state::audit::{AuditActor, AuditOrigin, EndCell, OpenTotals, Speaker};
use crate::state::authorization::GrantedAccess;
use crate::state::caching::{Actor, LeaseId};
use crate::state::channel_sequence::ChannelSequence;
use crate::state::configuration::Configuration;
use crate::state::durable::Durability;
use crate::state::enumeration::{Directory, Listing};
use crate::state::files::{Change, ChangeAtOnce, FileEntry, Then};
use crate::state::frozen_times::{FrozenTimes, HeldTimes};
use crate::state::lock_sequences::LockSequences;
use crate::state::open_id::OpenId;
use crate::state::open_path::OpenPath;
use crate::state::pipe::Pipe;
use crate::state::session_link::SessionLink;
use crate::state::tree::Tree;
use crate::state::unbegun::Unbegun;
use crate::state::untold::Untold;
use crate::state::user::User;

/// The most opens one session holds: Windows Server has no lower bound, and each costs memory and a descriptor.
pub(crate) const OPENS_MAX: usize = 65_536;

/// The open. What does not change is frozen at CREATE.
pub(crate) struct Open {
    pub(crate) id: OpenId,
    /// Whose it is.
    pub(crate) line: Arc<SessionLink>,
    pub(crate) user: Arc<User>,
    pub(crate) tree: Arc<Tree>,
    pub(crate) target: Target,
    pub(crate) granted: GrantedAccess,
    pub(crate) opened: Instant,
    /// The client's address and port, unless the open survived the server.
    pub(crate) caller: Option<Arc<str>>,
    /// Who asks for what is done with it, where that is by another protocol.
    pub(crate) speaker: Option<Arc<Speaker>>,
    /// What ends it.
    pub(crate) end: EndCell,
    closed: AtomicBool,
    /// What waits for a limit of the share.
    pub(crate) unbegun: Unbegun,
    /// It is closed once what was begun through it is made; nothing more begins.
    ending: AtomicBool,
}

/// What is open.
pub(crate) enum Target {
    /// A file, directory or stream.
    File(Arc<FileOpen>),
    /// A named pipe.
    Pipe(Box<Pipe>),
}

/// The part of an open that files have.
pub(crate) struct FileOpen {
    pub(crate) node: Arc<dyn Node>,
    pub(crate) file: Arc<FileEntry>,
    pub(crate) kind: Kind,
    /// Where the file stands in the share now, and for a stream its name.
    pub(crate) path: Arc<OpenPath>,
    /// For a stream: the file it belongs to.
    pub(crate) stream: Option<StreamOf>,
    /// CreateOptions as asked for.
    pub(crate) options: u32,
    /// FILE_DELETE_ON_CLOSE: the close of this open makes the file delete-pending.
    pub(crate) delete_on_close: AtomicBool,
    /// CurrentByteOffset (FilePositionInformation).
    pub(crate) position: AtomicU64,
    /// FileModeInformation's changeable bits.
    pub(crate) mode: AtomicU32,
    /// The extended attribute that QUERY_INFO tells next (Open.CurrentEaIndex less one).
    pub(crate) ea_position: AtomicUsize,
    /// Where QUERY_DIRECTORY stands.
    pub(crate) listing: Listing,
    /// Whose caching its operations leave alone.
    pub(crate) actor: Actor,
    /// The lease of the directory it stands in, where its client named one.
    pub(crate) parent_lease: Option<LeaseId>,
    /// Data was written through it, which its directory shows when it is closed.
    pub(crate) has_written: AtomicBool,
    /// What was read and written through it while that was audited.
    pub(crate) audited: OpenTotals,
    /// Which times of the file this open has frozen (-1) in FileBasicInformation.
    pub(crate) frozen_times: HeldTimes,
    pub(crate) durability: Durability,
    /// Writes that who watches the directory has not heard of.
    pub(crate) untold: Untold,
    pub(crate) channel_sequence: ChannelSequence,
    pub(crate) lock_sequences: LockSequences,
    /// What its user has less for as long as it lives, whatever session has it; of what survived the server maybe nothing.
    pub(crate) held: Option<Held>,
}

/// The file a stream belongs to.
pub(crate) struct StreamOf {
    pub(crate) base: Arc<dyn Node>,
    /// It is one of those in which Macs keep what they know of the file.
    pub(crate) afp: Option<AfpStream>,
}

impl Open {
    pub(crate) fn new(
        id: OpenId,
        line: Arc<SessionLink>,
        user: Arc<User>,
        tree: Arc<Tree>,
        target: Target,
        granted: GrantedAccess,
    ) -> Self {
        Open {
            id,
            line,
            user,
            tree,
            target,
            granted,
            opened: Instant::now(),
            caller: None,
            speaker: None,
            end: EndCell::default(),
            closed: AtomicBool::new(false),
            unbegun: Unbegun::default(),
            ending: AtomicBool::new(false),
        }
    }

    /// The same, which a client at this address has made.
    pub(crate) fn called_from(self, caller: &Arc<str>) -> Self {
        Open { caller: Some(Arc::clone(caller)), ..self }
    }

    /// The same, on behalf of who asks by another protocol.
    pub(crate) fn speaking_for(self, speaker: Option<Arc<Speaker>>) -> Self {
        Open { speaker, ..self }
    }

    /// Who asks by another protocol for what is done with it, if it is opened for such.
    pub(crate) fn origin(&self) -> Option<Arc<AuditOrigin>> {
        self.speaker.as_ref().map(|speaker| speaker.load_full())
    }

    /// Who ends it: where its client closed it from, or else opened it.
    pub(crate) fn ended_by(&self) -> AuditActor {
        let caller = self.end.caller().or(self.caller.as_ref()).cloned();
        AuditActor::of(&self.user, caller).on_behalf_of(self.origin())
    }

    /// True where its close deletes: it was opened so, and the share's rights still leave it that.
    pub(crate) fn deletes_on_close(&self, file: &FileOpen) -> bool {
        file.delete_on_close.load(Ordering::Relaxed) && self.tree.right() & DELETE != 0
    }

    /// The file part: a pipe is no file.
    pub(crate) fn file(&self) -> Result<&FileOpen, Status> {
        match &self.target {
            Target::File(file) => Ok(file),
            Target::Pipe(_) => Err(Status::INVALID_DEVICE_REQUEST),
        }
    }

    /// Which of its client's changes may still be made.
    pub(crate) fn channel_sequence(&self) -> &ChannelSequence {
        match &self.target {
            Target::File(file) => &file.channel_sequence,
            Target::Pipe(pipe) => &pipe.channel_sequence,
        }
    }

    /// What may be done with it: what was granted, as far as the share's rights leave that.
    pub(crate) fn rights(&self) -> GrantedAccess {
        self.tree.leaves(self.granted)
    }

    /// True when it has every right of `access`.
    pub(crate) fn may(&self, access: u32) -> bool {
        self.rights().has(access)
    }

    /// Refuses where it has not every right of `access`.
    pub(crate) fn require(&self, access: u32) -> Result<(), Status> {
        if self.may(access) { Ok(()) } else { Err(Status::ACCESS_DENIED) }
    }

    /// Enters a change of a range of the file's data, before what may be in its way is looked at; an empty one for a change of anything
    /// else. FILE_CLOSED where the open ends.
    pub(crate) fn begin_change(&self, range: Range<u64>) -> Result<Change, Status> {
        let change = self.file()?.file.begin_change(self.id, range);
        self.check_stays()?;
        Ok(change)
    }

    /// The same for one that this shard makes at once, and that is not waited for. `None` where it has to be entered, or is refused.
    pub(crate) fn begin_change_at_once(&self) -> Option<ChangeAtOnce<'_>> {
        let change = self.file().ok()?.file.begin_change_at_once()?;
        self.check_stays().ok()?;
        Some(change)
    }

    /// FILE_CLOSED where the open ends, or has ended.
    pub(crate) fn check_stays(&self) -> Result<(), Status> {
        if self.ending.load(Ordering::SeqCst) { Err(Status::FILE_CLOSED) } else { Ok(()) }
    }

    /// Begins no more changes: it will be closed.
    pub(crate) fn ends(&self) {
        self.ending.store(true, Ordering::SeqCst);
    }

    /// Begins no more changes, and does `then` once those that were begun are made. It must not wait.
    pub(crate) fn end_with(&self, then: Then) {
        self.ends();
        match &self.target {
            Target::File(file) => file.file.after_changes_of(self.id, self.user.sid(), then),
            Target::Pipe(_) => then(),
        }
    }

    /// Begins no more changes. True where none is under way, so that what comes behind them need not be left to [`Open::end_with`].
    pub(crate) fn ends_at_once(&self) -> bool {
        self.ends();
        match &self.target {
            Target::File(file) => !file.file.awaits_changes_of(self.id),
            Target::Pipe(_) => true,
        }
    }

    /// True for the first who closes it.
    pub(crate) fn begin_closing(&self) -> bool {
        !self.closed.swap(true, Ordering::SeqCst)
    }

    /// Notes that its client used it.
    pub(crate) fn used(&self) {
        if let Target::File(file) = &self.target {
            file.durability.used();
        }
    }

    /// True once it began to close.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }
}

impl FileOpen {
    /// True where a WRITE with these flags is answered once it has reached the disk: it says so, or the CREATE or a SET_INFO before it
    /// did (Open.Mode.FILE_WRITE_THROUGH, MS-FSA 2.1.5.15.8).
    pub(crate) fn writes_through(&self, flags: WriteFlags) -> bool {
        let mode = ModeFlags(self.mode.load(Ordering::Relaxed));
        flags.contains(WriteFlags::WRITE_THROUGH) || mode.contains(ModeFlags::WRITE_THROUGH)
    }

    /// The stream's name, empty for the file itself.
    pub(crate) fn stream_name(&self) -> String {
        self.stream.as_ref().map_or(String::new(), |_| self.path.stream())
    }

    /// The name as a client's CREATE has it, the stream's behind a colon.
    pub(crate) fn name(&self) -> String {
        self.path.name()
    }

    /// Which of the Macs' streams it is, if it is one.
    pub(crate) fn afp(&self) -> Option<AfpStream> {
        self.stream.as_ref().and_then(|stream| stream.afp)
    }

    /// It, as one that is listed.
    pub(crate) fn as_directory(&self) -> Directory<'_> {
        Directory { node: &*self.node, path: &self.path }
    }

    /// The file that attributes, times and security descriptors belong to: for a stream the file that has it.
    pub(crate) fn base(&self) -> &Arc<dyn Node> {
        self.stream.as_ref().map_or(&self.node, |stream| &stream.base)
    }

    /// True where the stream, or for no stream the name that it was opened by, is to go with its last open.
    pub(crate) fn goes(&self) -> bool {
        let stream = self.stream_name();
        let (stream_goes, name_goes) = self.file.deletions_of(self.actor.open, &stream);
        if stream.is_empty() { name_goes } else { stream_goes }
    }

    /// True where this open holds times fast.
    pub(crate) fn has_frozen_times(&self) -> bool {
        !self.frozen_times.is_empty()
    }

    /// Puts frozen times back after implicit changes moved them. A fault is logged by the store's next use.
    pub(crate) fn restore_frozen_times(&self) {
        let frozen = self.frozen_times.now();
        if frozen != FrozenTimes::default() {
            let changes = store::Changes {
                access: frozen.access,
                write: frozen.write,
                change: frozen.change,
                ..store::Changes::default()
            };
            if let Err(error) = self.base().change(&changes) {
                tracing::debug!(%error, "frozen times were not put back");
            }
        }
    }

    /// Where the file may stand now, wherever it was opened: as the kernel tells it, in its own share and in others over the
    /// same folder.
    pub(crate) fn whereabouts(
        &self,
        configuration: &Configuration,
        own: &Arc<dyn Store>,
    ) -> Vec<(Arc<dyn Store>, SharePath)> {
        whereabouts(&**self.base(), configuration, own)
    }

    /// Where the file has several names, or had, has its opens know theirs before one of them goes. May wait for the store.
    pub(crate) fn learn_links(&self) {
        let base = self.base();
        // Of a file about which nothing can be learned its opens stay as good as of one name.
        let is_linked = || self.file.tells_names() || base.metadata().is_ok_and(|known| known.links > 1);
        if self.stream.is_none() && base.kind() == Kind::File && is_linked() {
            self.file.learn_links();
        }
    }
}

/// Where `file` may stand now, of the share of the store `own` and of others over the same folder.
pub(crate) fn whereabouts(
    file: &dyn Node,
    configuration: &Configuration,
    own: &Arc<dyn Store>,
) -> Vec<(Arc<dyn Store>, SharePath)> {
    let Some(place) = file.place() else { return Vec::new() };
    let others = configuration.shares.iter().filter(|share| !share.read_only && !Arc::ptr_eq(&share.store, own));
    let stores = std::iter::once(own).chain(others.map(|share| &share.store));
    stores.filter_map(|store| Some((Arc::clone(store), store.path_at(&place)?))).collect()
}
