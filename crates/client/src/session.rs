//! A session: who is signed in, and the channels, trees and opens it has (MS-SMB2 3.2.1.3).

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use secure::ntlm::{Credentials, NtHash};
use secure::seal::Cipher;
use secure::sign::SigningAlgorithm;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;
use wire::command::echo::EchoRequest;
use wire::command::logoff::LogoffRequest;
use wire::fscc::ioctl::Interface;
use wire::ids::{Command, FileId, Guid, SessionId};
use wire::status::Status;

use crate::breaks;
use crate::channel::{Channel, Counters};
use crate::command::ioctl;
use crate::connection::{Connection, Loss};
use crate::error::Error;
use crate::file::OpenState;
use crate::guard::Guard;
use crate::handshake::{self, Identity, Offer, Terms, random_bytes};
use crate::keeper::{self, Paths};
use crate::message::Answer;
use crate::network::Network;
use crate::pairing::Pair;
use crate::perform::{Ask, Ways};
use crate::reconnect;
use crate::send_load::SendLoad;
use crate::settings::{Channels, Settings};
use crate::tree::{Tree, TreeState};

/// How long a connection may take until it is a channel.
const SETUP_MAX: Duration = Duration::from_secs(5);

/// The server, and who signs in.
#[derive(Clone)]
pub struct Target {
    /// The server's name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The user, perhaps as `DOMAIN\user`.
    pub user: String,
    /// The password.
    pub password: String,
}

/// A session, and what goes on in its name. Clones are the same session; the last one to go ends it.
#[derive(Clone)]
pub struct Session {
    pub(crate) shared: Arc<Shared>,
}

/// A session as users see it (Get-SmbConnection, Get-SmbMultichannelConnection).
#[derive(Clone, Debug)]
pub struct Connected {
    /// The server as the user called it.
    pub server: String,
    /// Its channels.
    pub channels: Vec<Counters>,
    /// The pairs of interfaces that were found and chosen; empty before anybody asked.
    pub pairs: Vec<Pair>,
    /// Channels lost so far.
    pub failure_count: u64,
    /// Everything is encrypted.
    pub is_sealed: bool,
}

/// What a session and its server agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// How messages are signed.
    pub signing: SigningAlgorithm,
    /// How messages are encrypted where they are; `None` where server and client have no cipher in common.
    pub cipher: Option<Cipher>,
    /// What is not encrypted is signed.
    pub is_signed: bool,
    /// Both sides can do multichannel.
    pub has_multichannel: bool,
    /// The most that one READ may move.
    pub read_bytes_max: u32,
    /// The most that one WRITE may move.
    pub write_bytes_max: u32,
}

/// What a session's tasks share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) credentials: Credentials,
    pub(crate) network: Arc<dyn Network>,
    pub(crate) client_guid: Guid,
    pub(crate) state: Mutex<State>,
    /// What of it is needed to ask; none where there is no channel.
    pub(crate) ways: ArcSwapOption<Ways>,
    /// Tells of changes of the phase and the channels, those who wait longest first.
    pub(crate) changed: Notify,
    /// Calls the keeper.
    pub(crate) call: Notify,
    pub(crate) paths: Mutex<Paths>,
    pub(crate) unsolicited: mpsc::UnboundedSender<Answer>,
    /// What sending costs on all channels.
    pub(crate) send_load: Arc<SendLoad>,
}

/// What changes while a session lives.
pub(crate) struct State {
    pub(crate) phase: Phase,
    pub(crate) identity: Option<Arc<Identity>>,
    pub(crate) channels: Vec<Arc<Channel>>,
    /// Session.ChannelSequence.
    pub(crate) sequence: u16,
    pub(crate) trees: Vec<Weak<TreeState>>,
    pub(crate) opens: Vec<Weak<OpenState>>,
    pub(crate) losses: u64,
    /// LOGOFF is on its way: the server no longer protects what it answers.
    pub(crate) is_closing: bool,
}

/// Where a session is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// There is at least one channel.
    Up,
    /// There is none, and a new one is on its way.
    Reconnecting,
    /// There is none and will be none.
    Gone(Error),
}

impl Session {
    /// Signs in. Must be called within a tokio runtime, where the session's tasks go on.
    pub async fn connect(target: &Target, settings: Settings, network: Arc<dyn Network>) -> Result<Session, Error> {
        let (unsolicited, breaks) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            settings,
            host: target.host.clone(),
            port: target.port,
            credentials: credentials(target),
            network,
            client_guid: Guid(random_bytes()?),
            state: Mutex::new(State {
                phase: Phase::Reconnecting,
                identity: None,
                channels: Vec::new(),
                sequence: 0,
                trees: Vec::new(),
                opens: Vec::new(),
                losses: 0,
                is_closing: false,
            }),
            ways: ArcSwapOption::empty(),
            changed: Notify::new(),
            call: Notify::new(),
            paths: Mutex::default(),
            unsolicited,
            send_load: Arc::new(SendLoad::here()),
        });
        reconnect::establish(&shared).await?;
        tokio::spawn(keeper::keep(Arc::downgrade(&shared)));
        tokio::spawn(breaks::answer(Arc::downgrade(&shared), breaks));
        Ok(Session { shared })
    }

    /// Connects to a share.
    pub async fn tree(&self, share: &str) -> Result<Tree, Error> {
        Tree::connect(&self.shared, share).await
    }

    /// How it is doing.
    pub fn connected(&self) -> Connected {
        let paths = self.shared.paths.lock();
        let state = self.shared.state.lock();
        Connected {
            server: self.shared.host.clone(),
            channels: state.channels.iter().map(|channel| channel.counters()).collect(),
            pairs: paths.pairs.clone(),
            failure_count: state.losses,
            is_sealed: self.shared.settings.seal || state.identity.as_ref().is_some_and(|identity| identity.is_sealed),
        }
    }

    /// Opens as many channels as there may be, without waiting for there to be enough to do.
    ///
    /// # Errors
    ///
    /// What kept a channel from being opened. That the server has multichannel switched off is an error only where a number of
    /// channels was asked for.
    pub async fn widen(&self) -> Result<(), Error> {
        let widened = self.shared.open_paths().await;
        let is_off = matches!(&widened, Err(error) if error.status() == Some(Status::NOT_SUPPORTED));
        match self.shared.settings.channels {
            Channels::Automatic if is_off => Ok(()),
            Channels::Automatic | Channels::Exactly(_) => widened,
        }
    }

    /// What was agreed on; `None` while there is no session with the server.
    pub fn agreed(&self) -> Option<Agreed> {
        let state = self.shared.state.lock();
        let terms = state.identity.as_ref()?.terms;
        Some(Agreed {
            signing: terms.signing,
            cipher: terms.cipher,
            is_signed: terms.is_signing_required,
            has_multichannel: terms.has_multichannel,
            read_bytes_max: terms.read_bytes_max,
            write_bytes_max: terms.write_bytes_max,
        })
    }

    /// The network interfaces that the server tells of (2.2.32.5), those that cannot be reached included.
    pub async fn interfaces(&self) -> Result<Vec<Interface>, Error> {
        ioctl::interfaces(&self.shared).await
    }

    /// Asks the server for nothing, to see how long an answer takes (3.2.4.15).
    pub async fn echo(&self) -> Result<(), Error> {
        let body = |out: &mut Vec<u8>, _: FileId| EchoRequest.encode(out);
        let answer = self.shared.perform(&Ask { command: Command::ECHO, ..Ask::of_session(&body) }).await?;
        answer.expect(&[Status::SUCCESS], || "ask for an answer".into()).map(|_| ())
    }

    /// Signs out (3.2.4.23), which closes all that is open.
    pub async fn close(self) -> Result<(), Error> {
        let body = |out: &mut Vec<u8>, _: FileId| LogoffRequest.encode(out);
        let ask = Ask { command: Command::LOGOFF, ..Ask::of_session(&body) };
        self.shared.state.lock().is_closing = true;
        let answer = self.shared.perform_once(&ask).await;
        self.shared.finish(Error::Lost("the session was closed"));
        answer.map(|_| ())
    }
}

/// `DOMAIN\user` names a domain; a name without one is the server's.
fn credentials(target: &Target) -> Credentials {
    let (domain, user) = target.user.split_once('\\').unwrap_or(("", &target.user));
    Credentials {
        domain: domain.to_owned(),
        user: user.to_owned(),
        workstation: String::new(),
        nt_hash: NtHash::from_password(&target.password),
    }
}

impl Shared {
    /// Tells those who wait for a channel that something changed.
    pub(crate) fn notify(&self) {
        self.changed.notify_waiters();
    }

    /// Requests go the ways that there are now. To be called, with the state locked, whenever these change.
    pub(crate) fn publish(&self, state: &State) {
        let identity = state.identity.as_ref().filter(|_| state.phase == Phase::Up);
        self.ways.store(identity.map(|identity| {
            let (identity, channels) = (Arc::clone(identity), state.channels.clone());
            let stays = |channel: &Arc<Channel>| netif::is_within_machine(channel.local, channel.remote.ip());
            let is_beside_server = channels.iter().all(stays);
            Arc::new(Ways { identity, sequence: state.sequence, channels, is_beside_server })
        }));
    }

    /// Remembers a tree, to be connected to again, and forgets those that nobody uses.
    pub(crate) fn know_tree(&self, tree: &Arc<TreeState>) {
        let mut state = self.state.lock();
        state.trees.retain(|tree| tree.strong_count() > 0);
        state.trees.push(Arc::downgrade(tree));
    }

    /// Remembers an open, to be taken up again, and now and then forgets those that nobody uses.
    pub(crate) fn know_open(&self, open: &Arc<OpenState>) {
        let mut state = self.state.lock();
        if state.opens.len() == state.opens.capacity() {
            state.opens.retain(|open| open.strong_count() > 0);
        }
        state.opens.push(Arc::downgrade(open));
    }

    /// There is nothing more to be had.
    pub(crate) fn finish(&self, error: Error) {
        let channels = {
            let mut state = self.state.lock();
            state.phase = Phase::Gone(error);
            let channels = std::mem::take(&mut state.channels);
            self.publish(&state);
            channels
        };
        drop(channels);
        self.notify();
    }

    /// A channel broke: what it left unanswered is asked again on others, with the next channel sequence (3.2.7.1).
    pub(crate) fn lose(self: &Arc<Self>, channel: &Arc<Channel>, loss: Loss) {
        channel.connection.end(loss);
        let mut state = self.state.lock();
        let before = state.channels.len();
        state.channels.retain(|other| !Arc::ptr_eq(other, channel));
        if state.channels.len() == before {
            return;
        }
        tracing::debug!(remote = %channel.remote, cause = loss.0, left = state.channels.len(), "a channel is lost");
        state.sequence = state.sequence.wrapping_add(1);
        state.losses += 1;
        if state.channels.is_empty() && state.phase == Phase::Up {
            state.phase = Phase::Reconnecting;
            tokio::spawn(reconnect::run(Arc::downgrade(self)));
        }
        self.publish(&state);
        drop(state);
        self.call.notify_one();
        self.notify();
    }

    /// The session has ended on the server, or is about to: every channel goes.
    pub(crate) fn lose_all(self: &Arc<Self>, loss: Loss) {
        let channels = self.state.lock().channels.clone();
        channels.iter().for_each(|channel| self.lose(channel, loss));
    }

    /// Connects and signs in to a new session, which takes the place of `previous`.
    pub(crate) async fn open_first(&self, to: SocketAddr, previous: SessionId) -> Result<(Identity, Channel), Error> {
        let work = async {
            let (connection, local) = self.connect(None, to).await?;
            let offer = self.offer(None);
            let (terms, preauth) = handshake::negotiate(&connection, &offer).await?;
            let identity = handshake::sign_in(&connection, terms, preauth, &self.credentials, previous).await?;
            if self.settings.seal && identity.seals.is_none() {
                return Err(Error::Lacking("encryption"));
            }
            self.trust(&connection, &identity);
            let signed = Guard::Signed(Arc::clone(&identity.signing));
            let channel = Channel::new(connection, &identity, signed, (local, to));
            Ok((identity, channel))
        };
        timeout(SETUP_MAX, work).await.unwrap_or_else(|_| Err(Error::unreachable(&self.host, &timed_out())))
    }

    /// Connects and binds the session to one more channel.
    pub(crate) async fn open_more(
        &self,
        from: Option<IpAddr>,
        to: SocketAddr,
        identity: &Identity,
    ) -> Result<Channel, Error> {
        let work = async {
            let (connection, local) = self.connect(from, to).await?;
            let offer = self.offer(Some(&identity.terms));
            let (_, preauth) = handshake::negotiate(&connection, &offer).await?;
            let key = handshake::bind(&connection, preauth, &self.credentials, identity).await?;
            self.trust(&connection, identity);
            Ok(Channel::new(connection, identity, Guard::Signed(key), (local, to)))
        };
        timeout(SETUP_MAX, work).await.unwrap_or_else(|_| Err(Error::unreachable(&self.host, &timed_out())))
    }

    async fn connect(&self, from: Option<IpAddr>, to: SocketAddr) -> Result<(Connection, IpAddr), Error> {
        let stream = self.network.connect(from, to).await;
        let stream = stream.map_err(|cause| Error::unreachable(&to.to_string(), &cause))?;
        let local = stream.local;
        Ok((Connection::start(stream, self.unsolicited.clone(), Arc::clone(&self.send_load)), local))
    }

    fn offer<'a>(&'a self, terms: Option<&'a Terms>) -> Offer<'a> {
        Offer { client_guid: self.client_guid, name: &self.host, signing: self.settings.signing, terms }
    }

    fn trust(&self, connection: &Connection, identity: &Identity) {
        let terms = &identity.terms;
        let most = terms.read_bytes_max.max(terms.transact_bytes_max);
        connection.trust(most as usize, identity.seals.clone());
    }
}

fn timed_out() -> std::io::Error {
    std::io::ErrorKind::TimedOut.into()
}
