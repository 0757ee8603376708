//! A request from the first try to its answer: on which channel it goes, and what happens when that one breaks (MS-SMB2 3.2.4.1.7,
//! 3.2.7.1).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep};
use wire::header::Flags;
use wire::ids::{Command, FileId, TreeId};
use wire::status::Status;

use crate::error::Error;
use crate::guard::Guard;
use crate::loss::Loss;
use crate::message::{Answer, Related, Request};
use crate::open_state::OpenState;
use crate::shared::{Phase, Shared};
use crate::tree_state::TreeState;
use crate::ways::Way;

/// Bytes that one credit pays for (3.2.4.1.5).
pub(crate) const CREDIT_BYTES: usize = 64 << 10;
/// How often a request may lose its channel.
const LOSSES_MAX: usize = 32;
/// How long a change is refused while others of before the loss are under way on the server, and how often to ask.
const TURN_MAX: Duration = Duration::from_secs(20);
const TURN_EVERY: Duration = Duration::from_millis(20);

/// What to ask, again where it must be.
pub(crate) struct Ask<'a> {
    pub(crate) command: Command,
    pub(crate) tree: Option<&'a TreeState>,
    pub(crate) open: Option<&'a OpenState>,
    /// Bytes of data that go out or come in.
    pub(crate) bytes: usize,
    /// Data to send behind the body.
    pub(crate) data: Option<&'a Bytes>,
    /// Whether asking twice is to be told apart from asking anew.
    pub(crate) again: Again,
    /// Appends the body. The id is the open's as it is at the time.
    pub(crate) body: &'a (dyn Fn(&mut Vec<u8>, FileId) + Sync),
    /// What is done at once with the open that this makes.
    pub(crate) related: Option<Related>,
}

/// How a request is asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// As if for the first time: it changes nothing.
    Anew,
    /// With SMB2_FLAGS_REPLAY_OPERATION: the server does not do it twice, and not out of turn.
    Replayed,
}

impl<'a> Ask<'a> {
    /// Of the session itself.
    pub(crate) fn of_session(body: &'a (dyn Fn(&mut Vec<u8>, FileId) + Sync)) -> Self {
        Ask {
            command: Command::ECHO,
            tree: None,
            open: None,
            bytes: 0,
            data: None,
            again: Again::Anew,
            body,
            related: None,
        }
    }

    /// Of an open.
    pub(crate) fn of(open: &'a OpenState, command: Command, body: &'a (dyn Fn(&mut Vec<u8>, FileId) + Sync)) -> Self {
        Ask { command, tree: Some(&open.tree), open: Some(open), ..Ask::of_session(body) }
    }

    pub(crate) fn charge(&self) -> u16 {
        u16::try_from(self.bytes.div_ceil(CREDIT_BYTES)).unwrap_or(u16::MAX).max(1)
    }
}

/// Why an attempt gave no answer.
pub(crate) enum Failed {
    /// The channel broke.
    Channel(Loss),
    /// There is no use in asking.
    Final(Error),
}

impl Way {
    /// Asks on this channel and no other.
    pub(crate) async fn ask(&self, ask: &Ask<'_>, seal: bool, is_replay: bool) -> Result<Answer, Failed> {
        let file_id = match ask.open {
            Some(open) => open.file_id().map_err(Failed::Final)?,
            None => FileId::ANY,
        };
        let seal = seal || self.identity.is_sealed || ask.tree.is_some_and(TreeState::is_sealed);
        // A TREE_CONNECT of 3.1.1 is always signed (3.2.4.1.1).
        let sign = self.identity.terms.is_signing_required || ask.command == Command::TREE_CONNECT;
        let guard = match (&self.channel.sealed, seal) {
            (Some(sealed), true) => sealed,
            (None, true) => return Err(Failed::Final(Error::Lacking("encryption"))),
            (Some(_) | None, false) if sign => &self.channel.signed,
            (Some(_) | None, false) => &Guard::Bare,
        };
        self.send(ask, file_id, guard, is_replay).await.map_err(Failed::Channel)
    }

    async fn send(&self, ask: &Ask<'_>, file_id: FileId, guard: &Guard, is_replay: bool) -> Result<Answer, Loss> {
        let body = |out: &mut Vec<u8>| (ask.body)(out, file_id);
        let request = Request {
            command: ask.command,
            charge: ask.charge(),
            flags: if is_replay { Flags::REPLAY_OPERATION } else { Flags::NONE },
            channel_sequence: self.sequence,
            session_id: self.identity.session_id,
            tree_id: ask.tree.map_or(TreeId(0), TreeState::id),
            guard,
            body: &body,
            data: ask.data,
            related: ask.related,
        };
        self.channel.ask(&request, ask.bytes).await
    }
}

impl Shared {
    /// Asks until there is an answer, on whatever channel has one to give.
    pub(crate) async fn perform(self: &Arc<Self>, ask: &Ask<'_>) -> Result<Answer, Error> {
        let mut losses = 0;
        let mut patience: Option<Instant> = None;
        loop {
            let way = self.way(ask).await?;
            let is_replay = losses > 0 && ask.again == Again::Replayed;
            match way.ask(ask, self.settings.seal, is_replay).await {
                Ok(answer) if is_session_over(answer.status()) && losses < LOSSES_MAX => {
                    losses += 1;
                    self.lose_all(Loss("the server ended the session"));
                }
                Ok(answer) if self.comes_out_of_turn(&answer, &mut patience) => sleep(TURN_EVERY).await,
                Ok(answer) => return Ok(answer),
                Err(Failed::Final(error)) => return Err(error),
                Err(Failed::Channel(loss)) => {
                    self.lose(&way.channel, loss);
                    losses += 1;
                    if losses > LOSSES_MAX {
                        return Err(Error::Lost(loss.0));
                    }
                }
            }
        }
    }

    /// Asks once, where there is a channel at once.
    pub(crate) async fn perform_once(&self, ask: &Ask<'_>) -> Result<Answer, Error> {
        let way = self.pick(ask).ok_or(Error::Lost("no connection is left"))?;
        match way.ask(ask, self.settings.seal, false).await {
            Ok(answer) => Ok(answer),
            Err(Failed::Final(error)) => Err(error),
            Err(Failed::Channel(loss)) => Err(Error::Lost(loss.0)),
        }
    }

    /// True for a change that the server refuses because others, from before a channel was lost, are not through yet (3.3.5.2.10); false
    /// once that has taken too long, or where nothing was lost.
    fn comes_out_of_turn(&self, answer: &Answer, patience: &mut Option<Instant>) -> bool {
        if answer.status() != Status::FILE_NOT_AVAILABLE || self.state.lock().losses == 0 {
            return false;
        }
        let until = *patience.get_or_insert_with(|| Instant::now() + TURN_MAX);
        Instant::now() < until
    }

    /// The way for the next request, once there is one.
    async fn way(&self, ask: &Ask<'_>) -> Result<Way, Error> {
        if let Some(way) = self.pick(ask) {
            return Ok(way);
        }
        loop {
            // Made before the look, so that no change falls between the two.
            let changed = self.changed.notified();
            if let Phase::Gone(error) = &self.state.lock().phase {
                return Err(error.clone());
            }
            if let Some(way) = self.pick(ask) {
                return Ok(way);
            }
            changed.await;
        }
    }

    fn pick(&self, ask: &Ask<'_>) -> Option<Way> {
        let ways = self.ways.load();
        let ways = ways.as_ref()?;
        let stays_on_first =
            self.spread.stays_on_first() || self.send_load.is_limit(ask.data.is_some(), ways.is_beside_server);
        let (channel, is_much) = ways.pick(ask.charge(), stays_on_first)?;
        if is_much {
            self.call.notify_one();
        }
        Some(Way { channel: Arc::clone(channel), identity: Arc::clone(&ways.identity), sequence: ways.sequence })
    }
}

/// The session is no longer there; another must take its place (3.2.5.1.6).
fn is_session_over(status: Status) -> bool {
    status == Status::NETWORK_SESSION_EXPIRED || status == Status::USER_SESSION_DELETED
}

impl Failed {
    pub(crate) fn into_error(self) -> Error {
        match self {
            Failed::Channel(Loss(cause)) => Error::Lost(cause),
            Failed::Final(error) => error,
        }
    }
}
