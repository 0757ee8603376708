//! What a command's handler sees of the world: who asks, on what, and how to wait. It cannot name message ids, credits, keys, compound
//! position, sockets or buffers.

use std::net::IpAddr;
use std::ops::{Deref, Range};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{self, Poll};

use store::{Error, Held, Node, SharePath, Store, Waits};
use tokio::sync::oneshot;
use wire::frame::PREFIX_LENGTH;
use wire::header::HEADER_LENGTH;
use wire::ids::{SessionId, TreeId};
use wire::status::Status;
use wire::transform::TRANSFORM_HEADER_LENGTH;

use crate::command::connection::Connection;
use crate::command::proof::{Proof, SealingNeed};
use crate::resource::buffers::{Buffer, Buffers};
use crate::resource::pool::INLINE_BYTES_MAX;
use crate::resource::pool::{Device, QueueKey};
use crate::resource::slice::Slice;
use crate::state::breaks::Returned;
use crate::state::descriptors::{At, Descriptor, Reading, Rights};
use crate::state::in_flight::InFlight;
use crate::state::open::{FileOpen, Open};
use crate::state::open_id::OpenId;
use crate::state::pipe;
use crate::state::refusal::Refusal;
use crate::state::session::{Channel, Session};
use crate::state::shared::Shared;
use crate::state::tree::Tree;

/// What stands in front of a response's body: the prefix, a transform header where it is sealed, the SMB2 header.
pub(crate) const RESPONSE_ROOM: usize = PREFIX_LENGTH + TRANSFORM_HEADER_LENGTH + HEADER_LENGTH;

/// What a command answers when it is done.
#[derive(Debug)]
pub(crate) struct Reply {
    /// A success or warning.
    pub(crate) status: Status,
    /// The response's body, behind the header.
    pub(crate) body: Body,
    /// The session this command made, for the header.
    pub(crate) session: Option<SessionId>,
    /// The tree connect this command made, for the header and for what is related to it.
    pub(crate) tree: Option<TreeId>,
    /// The open this command made, for what is related to it.
    pub(crate) open: Option<OpenId>,
    /// The open that this command gave back to its client, who is told behind the response what breaks of its caching.
    pub(crate) returned: Option<Box<Returned>>,
}

/// The body of a response.
#[derive(Debug)]
pub(crate) enum Body {
    /// These bytes, which are copied to where the response leaves from.
    Bytes(Vec<u8>),
    /// What a buffer has in this range, with room in front for what precedes it: the response leaves from there.
    InPlace(Buffer, Range<usize>),
}

impl Body {
    /// Sees to it that these bytes fill at least one part in `filled_part` of what holds them: they may have to be held for a while.
    pub(crate) fn fit(&mut self, buffers: &Buffers, filled_part: usize) {
        let is_filled = |length: usize, held: usize| (length + RESPONSE_ROOM) * filled_part >= held;
        match self {
            Body::Bytes(bytes) if is_filled(bytes.len(), bytes.capacity()) => {}
            Body::Bytes(bytes) => bytes.shrink_to_fit(),
            Body::InPlace(buffer, range) if is_filled(range.len(), buffer.len()) => {}
            Body::InPlace(buffer, range) => {
                let length = range.len();
                let mut fitted = Buffer::of_size(RESPONSE_ROOM + length);
                fitted[RESPONSE_ROOM..].copy_from_slice(&buffer[range.clone()]);
                let fitted = Body::InPlace(fitted, RESPONSE_ROOM..RESPONSE_ROOM + length);
                if let Body::InPlace(buffer, _) = std::mem::replace(self, fitted) {
                    buffers.give_back(buffer);
                }
            }
        }
    }
}

impl Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Body::Bytes(bytes) => bytes,
            Body::InPlace(buffer, range) => &buffer[range.clone()],
        }
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Body::Bytes(bytes)
    }
}

impl Reply {
    /// A plain success.
    pub(crate) fn new(body: impl Into<Body>) -> Self {
        Reply::with_status(Status::SUCCESS, body)
    }

    /// A success of another kind, or a warning.
    pub(crate) fn with_status(status: Status, body: impl Into<Body>) -> Self {
        Reply { status, body: body.into(), session: None, tree: None, open: None, returned: None }
    }
}

/// Who asks for something: a session, by a tree connect.
#[derive(Clone)]
pub(crate) struct Asker {
    session: Arc<Session>,
    tree: Arc<Tree>,
    /// What its user might do in the share when it asked.
    right: u32,
    /// From where it asks.
    host: Option<IpAddr>,
}

impl Asker {
    /// Refuses where the session or the tree connect has ended, or its user may do less in the share by now: what it asked for is not begun any more.
    pub(crate) fn check_stays(&self) -> Result<(), Status> {
        if self.session.has_ended() {
            return Err(Status::USER_SESSION_DELETED);
        }
        if self.session.tree(self.tree.id).is_none() {
            return Err(Status::NETWORK_NAME_DELETED);
        }
        let may_do_less = self.right & !self.tree.right() != 0 || !self.tree.admits(self.host);
        if may_do_less { Err(Status::ACCESS_DENIED) } else { Ok(()) }
    }
}

/// What comes of work: at once where it was done here, else when the pool has done it, which it is asked to before anybody waits for this.
/// It is as small as what comes of it, whatever the work takes along.
pub(crate) enum Answer<T> {
    /// It is done, or refused. Nothing once it was told.
    Here(Option<Result<T, Refusal>>),
    /// The pool does it.
    Waits(oneshot::Receiver<T>),
}

impl<T> Answer<T> {
    fn here(done: T) -> Self {
        Answer::Here(Some(Ok(done)))
    }

    fn refused(refusal: Refusal) -> Self {
        Answer::Here(Some(Err(refusal)))
    }
}

/// Nothing in it is pinned.
impl<T> Unpin for Answer<T> {}

impl<T> Future for Answer<T> {
    type Output = Result<T, Refusal>;

    fn poll(mut self: Pin<&mut Self>, task: &mut task::Context<'_>) -> Poll<Self::Output> {
        let nothing = || Refusal::from(Status::INSUFFICIENT_RESOURCES);
        match &mut *self {
            Answer::Here(done) => Poll::Ready(done.take().unwrap_or_else(|| Err(nothing()))),
            Answer::Waits(answer) => Pin::new(answer).poll(task).map_err(|_| nothing()),
        }
    }
}

/// What a handler gives.
pub(crate) type Outcome = Result<Reply, Refusal>;

/// One request's surroundings, as admission found them.
pub(crate) struct Context {
    pub(crate) connection: Rc<Connection>,
    pub(crate) channel: Option<Rc<Channel>>,
    /// Whose key opened or verified the request.
    pub(crate) proof: Proof,
    pub(crate) tree: Option<Arc<Tree>>,
    /// What the user might do in the tree's share when the request came.
    pub(crate) right: Option<u32>,
    pub(crate) open: Option<Arc<Open>>,
    /// SessionId of the header, for the commands that come before there is a session.
    pub(crate) session_id: SessionId,
    /// The client sends the request again, because it got no answer (SMB2_FLAGS_REPLAY_OPERATION).
    pub(crate) replay: bool,
    /// ChannelSequence of the header.
    pub(crate) channel_sequence: u16,
    pub(crate) in_flight: Rc<InFlight>,
    /// The request's bytes, header and all.
    pub(crate) message: Slice,
}

impl Context {
    /// The server.
    pub(crate) fn server(&self) -> &Arc<Shared> {
        &self.connection.server
    }

    /// The session's channel on this connection.
    pub(crate) fn channel(&self) -> Result<&Rc<Channel>, Refusal> {
        self.channel.as_ref().ok_or_else(|| Status::USER_SESSION_DELETED.into())
    }

    /// The session.
    pub(crate) fn session(&self) -> Result<&Arc<Session>, Refusal> {
        Ok(&self.channel()?.session)
    }

    /// Another open of the session, which no part of the header names. What is said of it is as protected as what is done with it: ACCESS_DENIED
    /// where its share is to be sealed and the request is not (3.3.5.2.11).
    pub(crate) fn open_besides(&self, id: OpenId) -> Result<Option<Arc<Open>>, Refusal> {
        let open = self.session()?.open(id);
        if let Some(open) = &open {
            self.check_sealing_of(open)?;
        }
        Ok(open)
    }

    /// Refuses what comes from where the share of `tree` may not be used: each channel is judged by itself.
    pub(crate) fn check_host(&self, tree: &Tree) -> Result<(), Status> {
        let host = self.channel.as_ref().and_then(|channel| channel.facts.host);
        if tree.admits(host) { Ok(()) } else { Err(Status::ACCESS_DENIED) }
    }

    /// Refuses what is said of an open whose share is to be sealed where the request is not.
    pub(crate) fn check_sealing_of(&self, open: &Open) -> Result<(), Refusal> {
        self.check_host(&open.tree)?;
        Ok(self.proof.check(self.session()?, SealingNeed::required_where(open.tree.requires_sealing()))?)
    }

    /// Who speaks, where the open is a pipe.
    pub(crate) fn pipe_client(&self) -> Result<pipe::Client<'_>, Refusal> {
        let (session, server) = (self.session()?, self.server());
        Ok(pipe::Client {
            user: session.user.load_full(),
            configuration: server.configuration.load_full(),
            principals: server.principals.load_full(),
            associations: &session.associations,
            in_use: &**server,
            in_flight: &self.in_flight,
            peer: &self.connection.peer,
            host: self.connection.host,
        })
    }

    /// The tree connect.
    pub(crate) fn tree(&self) -> Result<&Arc<Tree>, Refusal> {
        self.tree.as_ref().ok_or_else(|| Status::NETWORK_NAME_DELETED.into())
    }

    /// The files of the tree connect: `IPC$` has none.
    pub(crate) fn store(&self) -> Result<&Arc<dyn Store>, Refusal> {
        self.tree()?.store().ok_or_else(|| Status::INVALID_DEVICE_REQUEST.into())
    }

    /// The open the request names.
    pub(crate) fn open(&self) -> Result<&Arc<Open>, Refusal> {
        self.open.as_ref().ok_or_else(|| Status::FILE_CLOSED.into())
    }

    /// The open the request names, with its file part: a pipe is INVALID_DEVICE_REQUEST.
    pub(crate) fn file(&self) -> Result<(&Arc<Open>, &FileOpen), Refusal> {
        let open = self.open()?;
        Ok((open, open.file()?))
    }

    /// Who asks, for work that is made later.
    pub(crate) fn asker(&self) -> Result<Asker, Refusal> {
        let (channel, tree) = (self.channel()?, Arc::clone(self.tree()?));
        let (session, host) = (Arc::clone(&channel.session), channel.facts.host);
        Ok(Asker { session, right: self.right.unwrap_or_else(|| tree.right()), tree, host })
    }

    /// Refuses where the session, the tree connect or the open has ended while something was waited for.
    pub(crate) fn check_stays(&self) -> Result<(), Refusal> {
        self.asker()?.check_stays()?;
        match &self.open {
            Some(open) => Ok(open.check_stays()?),
            None => Ok(()),
        }
    }

    /// Refuses where the share may not be changed.
    pub(crate) fn require_writable(&self) -> Result<(), Refusal> {
        Ok(self.tree()?.require_writable()?)
    }

    /// The descriptor of `node`, which the share has at `path`: RETRY where that takes long, or has to be waited for.
    pub(crate) fn descriptor(&self, node: &dyn Node, path: &SharePath) -> Result<Descriptor, Refusal> {
        if !node.answers_at_once() {
            return Err(Status::RETRY.into());
        }
        let at = At { store: &**self.store()?, node, path };
        Ok(self.server().descriptors.read(at, &self.tree()?.share, Reading::here())?)
    }

    /// What the request's user may do with `node`, in the same way.
    pub(crate) fn rights(&self, node: &dyn Node, path: &SharePath) -> Result<Rights, Refusal> {
        let user = self.session()?.user.load();
        Ok(self.descriptor(node, path)?.rights(&user))
    }

    /// The same for a node of which that cannot be said here: it is waited for. What takes long comes behind what others wait for.
    pub(crate) async fn read_rights(&self, node: &Arc<dyn Node>, path: &SharePath) -> Result<Rights, Refusal> {
        self.read_rights_in(self.tree()?, node, path).await
    }

    /// The same of a node that another tree connect's share has at `path`.
    pub(crate) async fn read_rights_in(
        &self,
        tree: &Tree,
        node: &Arc<dyn Node>,
        path: &SharePath,
    ) -> Result<Rights, Refusal> {
        let user = self.session()?.user.load_full();
        self.ask_descriptor(tree, node, path, move |descriptor| descriptor.rights(&user)).await
    }

    /// Asks something of the descriptor of `node`, which the share of a tree connect has at `path`, on the pool.
    pub(crate) async fn ask_descriptor<T: Send + 'static>(
        &self,
        tree: &Tree,
        node: &Arc<dyn Node>,
        path: &SharePath,
        ask: impl Fn(&Descriptor) -> T + Clone + Send + 'static,
    ) -> Result<T, Refusal> {
        let store = Arc::clone(tree.store().ok_or(Status::INVALID_DEVICE_REQUEST)?);
        let (server, share, path) = (Arc::clone(self.server()), Arc::clone(&tree.share), path.clone());
        let (held, volume) = (Arc::clone(node), node.identity().volume);
        let read = move |reading| {
            let at = At { store: &*store, node: &*held, path: &path };
            server.descriptors.read(at, &share, reading).map(|descriptor| ask(&descriptor))
        };
        // In memory it is only what takes long that waits.
        if node.waits() != Waits::Never {
            let quick = read.clone();
            match self.on_pool_of(volume, move || quick(Reading::Quick)).await? {
                Err(Error::WouldBlock) => {}
                known => return Ok(known?),
            }
        }
        let queue_key = self.queue_key_at(Device::Volume(volume));
        Ok(self.on_long_work_in(queue_key, move || read(Reading::Whole)).await??)
    }

    /// Runs `work` on the open file, which may wait for its device: here where the file is memory and no change of it takes long, else on the
    /// pool.
    pub(crate) fn work<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Answer<T> {
        if let Some(_held) = self.open_node().and_then(|node| hold_here(&**node)) {
            return Answer::here(work());
        }
        self.on_pool(work)
    }

    /// The same for a READ of `bytes`. Many take long, even where they are in memory: that is done behind what others wait for.
    pub(crate) fn read_of<T: Send + 'static>(
        &self,
        bytes: u64,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Answer<T> {
        if bytes > INLINE_BYTES_MAX { self.on_long_work(work) } else { self.work(work) }
    }

    /// The same for work on `node`, which need not be open yet, and that takes as long as `bytes` are many.
    pub(crate) fn work_at<T: Send + 'static>(
        &self,
        node: &dyn Node,
        bytes: u64,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Answer<T> {
        if bytes <= INLINE_BYTES_MAX
            && let Some(_held) = hold_here(node)
        {
            self.in_flight.note_done_here(bytes);
            return Answer::here(work());
        }
        self.on_pool_of(node.identity().volume, work)
    }

    /// The same for work that goes by names: here where nothing of the share ever waits. In a folder that is memory a name may lead to
    /// a disk that is mounted there.
    pub(crate) fn work_by_name<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Answer<T> {
        match self.store() {
            Ok(store) if store.facts().never_blocks => Answer::here(work()),
            Ok(_) => self.on_pool(work),
            Err(refusal) => Answer::refused(refusal),
        }
    }

    /// The same for work that follows `path`, which may lead to what is mounted below the share.
    pub(crate) fn work_along<T: Send + 'static>(
        &self,
        path: &SharePath,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Answer<T> {
        match self.store() {
            Ok(store) if store.facts().never_blocks => Answer::here(work()),
            Ok(_) => self.on_pool_along(path, work),
            Err(refusal) => Answer::refused(refusal),
        }
    }

    /// Asks what is known of `node`: here where that is in memory, or remembered, else on the pool.
    pub(crate) async fn look<T: Send + 'static>(
        &self,
        node: &Arc<dyn Node>,
        look: impl Fn(&dyn Node) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Refusal> {
        if node.answers_at_once() {
            match look(&**node) {
                Err(Error::WouldBlock) => {}
                known => return Ok(known?),
            }
        }
        let held = Arc::clone(node);
        Ok(self.on_pool_of(node.identity().volume, move || look(&*held)).await??)
    }

    /// Puts back times that the open holds fast and that what was done through it has moved.
    pub(crate) async fn restore_frozen_times(&self) -> Result<(), Refusal> {
        let (open, file) = self.file()?;
        if file.has_frozen_times() {
            let held = Arc::clone(open);
            self.work(move || held.file().map(FileOpen::restore_frozen_times)).await??;
        }
        Ok(())
    }

    /// What is open, where the request names an open file.
    fn open_node(&self) -> Option<&Arc<dyn Node>> {
        Some(&self.open.as_ref()?.file().ok()?.node)
    }

    /// How long the data of the open is now.
    pub(crate) async fn length(&self) -> Result<u64, Refusal> {
        let (_, file) = self.file()?;
        let known = match file.node.try_metadata() {
            Err(Error::WouldBlock) => {
                let node = Arc::clone(&file.node);
                self.work(move || node.metadata()).await?
            }
            known => known,
        };
        Ok(known?.length)
    }

    /// The queue of the pool in which the request's work stands.
    pub(crate) fn queue_key(&self) -> QueueKey {
        let of_share = || Some(self.tree.as_ref()?.store()?.facts().volume);
        let volume = self.open_node().map(|node| node.identity().volume).or_else(of_share);
        self.queue_key_at(volume.map_or(Device::Own, Device::Volume))
    }

    /// Its turn at a device.
    pub(crate) fn queue_key_at(&self, device: Device) -> QueueKey {
        let none = QueueKey { device, user: 0, session: self.session_id.0 };
        let queue_key = self.channel.as_ref().map_or(none, |channel| channel.session.queue_key(device));
        if self.in_flight.is_awaited() { queue_key.first() } else { queue_key }
    }

    /// The queue of work that needs `other` besides the open file, which may lie on another volume.
    pub(crate) fn queue_key_with(&self, other: &dyn Node) -> QueueKey {
        let (own, other_volume) = (self.open_node(), other.identity().volume);
        match own.map(|own| (own.waits(), own.identity().volume)) {
            _ if other.waits() == Waits::Never => self.queue_key(),
            None | Some((Waits::Never, _)) => self.queue_key_at(Device::Volume(other_volume)),
            Some((_, own_volume)) => self.queue_key_at(Device::of_both(own_volume, other_volume)),
        }
    }

    /// The queue of work that follows `path` and needs the open file, where the request names one.
    fn queue_key_along(&self, path: &SharePath) -> Result<QueueKey, Refusal> {
        let volume = self.store()?.volume_at(path);
        let open = self.open_node().filter(|node| node.waits() != Waits::Never);
        Ok(self
            .queue_key_at(open.map_or(Device::Volume(volume), |node| Device::of_both(node.identity().volume, volume))))
    }

    /// Runs `work` on the pool, which may wait for the server's own folder.
    pub(crate) fn on_own_folder<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Answer<T> {
        self.on_pool_in(self.queue_key_at(Device::Own), work)
    }

    /// Runs `work` on the pool, which may wait for the share's store.
    pub(crate) fn on_pool<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Answer<T> {
        self.on_pool_in(self.queue_key(), work)
    }

    /// The same, which follows `path`: that may lead to what is mounted below the share, which keeps nobody waiting who goes elsewhere.
    pub(crate) fn on_pool_along<T: Send + 'static>(
        &self,
        path: &SharePath,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Answer<T> {
        match self.queue_key_along(path) {
            Ok(queue_key) => self.on_pool_in(queue_key, work),
            Err(refusal) => Answer::refused(refusal),
        }
    }

    /// The same, which waits for a volume.
    pub(crate) fn on_pool_of<T: Send + 'static>(
        &self,
        volume: u64,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Answer<T> {
        self.on_pool_in(self.queue_key_at(Device::Volume(volume)), work)
    }

    /// The same in another turn than the request's own.
    pub(crate) fn on_pool_in<T: Send + 'static>(
        &self,
        queue_key: QueueKey,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Answer<T> {
        match self.server().pool.try_hand_over(queue_key, work) {
            Some(answer) => Answer::Waits(answer),
            None => Answer::refused(Status::INSUFFICIENT_RESOURCES.into()),
        }
    }

    /// Runs what takes long, as what a request has left to do after its first piece of work: it may wait for the share's store. However much
    /// waits for the session's turn.
    pub(crate) fn on_long_work<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Answer<T> {
        self.on_long_work_in(self.queue_key(), work)
    }

    /// The same, which follows `path`.
    pub(crate) fn on_long_work_along<T: Send + 'static>(
        &self,
        path: &SharePath,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Answer<T> {
        match self.queue_key_along(path) {
            Ok(queue_key) => self.on_long_work_in(queue_key, work),
            Err(refusal) => Answer::refused(refusal),
        }
    }

    /// The same in another turn than the request's own.
    pub(crate) fn on_long_work_in<T: Send + 'static>(
        &self,
        queue_key: QueueKey,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Answer<T> {
        Answer::Waits(self.server().long_work.hand_over(queue_key, work))
    }
}

/// Holds a file in memory, so that it can be changed on the shard. `None` where it is none, or a change of it takes long.
pub(crate) fn hold_here(node: &dyn Node) -> Option<Held> {
    if node.waits() == Waits::Never { node.try_hold() } else { None }
}
