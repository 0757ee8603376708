//! What goes on beside the requests of a session: dead channels are found, more channels are opened when there is enough to do, and
//! closed when there is nothing to do (MS-SMB2 3.2.5.14.11, 3.2.6).

use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, timeout};
use wire::command::echo::EchoRequest;
use wire::ids::{Command, FileId};
use wire::status::Status;

use crate::channel::Channel;
use crate::command::ioctl;
use crate::error::Error;
use crate::handshake::Identity;
use crate::loss::Loss;
use crate::pairing::{Pair, pairs};
use crate::perform::Ask;
use crate::shared::{Phase, Shared};
use crate::ways::Way;

/// How often the keeper looks after the channels.
const ROUND: Duration = Duration::from_millis(200);
/// A channel with requests in flight on which nothing has moved for so long is asked whether it is there.
const PROBE_AFTER: Duration = Duration::from_millis(400);
/// One on which nothing has moved for so long, and for as long as what it was given takes to drain, is dead where another one is not.
const SILENCE_MAX: Duration = Duration::from_millis(1200);
/// Channels that nobody has used for so long are closed, but for one (Windows: note 104).
const IDLE_MAX: Duration = Duration::from_secs(10);
/// The server's interfaces are asked for again after so long (Windows: note 105).
const ASK_EVERY: Duration = Duration::from_secs(600);
/// Paths that are missing are tried again after so long.
const RETRY_EVERY: Duration = Duration::from_secs(3);

/// A server that tells of its interfaces does so at once. Else it is asked again when there is much to do.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// What was learnt of the interfaces ahead is good for so long.
const AHEAD_MAX: Duration = Duration::from_secs(30);

/// Asks a new session's server for its interfaces: once there is much to do, the question would wait behind all of it.
pub(crate) fn learn_ahead(shared: &Arc<Shared>) {
    if !shared.may_have_more() || shared.paths.lock().asked.is_some() {
        return;
    }
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        match timeout(ANSWER_MAX, shared.learn_paths()).await {
            Ok(Ok(())) => {
                shared.paths.lock().is_ahead = true;
                shared.call.notify_one();
            }
            failed => {
                tracing::debug!(?failed, "the server does not tell of its interfaces");
                shared.paths.lock().asked = None;
            }
        }
    });
}

/// Looks after a session's channels until it is gone.
pub(crate) async fn keep(weak: Weak<Shared>) {
    loop {
        let Some(shared) = weak.upgrade() else { return };
        // Called or not, one round a time is enough.
        let called = timeout(ROUND, shared.call.notified()).await.is_ok();
        if matches!(shared.state.lock().phase, Phase::Gone(_)) {
            return;
        }
        let any_is_suspect = look(&shared);
        close_idle(&shared);
        if !any_is_suspect {
            shared.try_spreading();
        }
        if shared.is_time_to_open() {
            let shared = Arc::clone(&shared);
            tokio::spawn(async move {
                if let Err(error) = shared.open_paths().await {
                    tracing::debug!(%error, "no more channels");
                }
            });
        }
        drop(shared);
        tokio::time::sleep(if called { ROUND / 10 } else { Duration::ZERO }).await;
    }
}

/// Finds channels that have ended or that nothing comes through any more. True where one may be such.
fn look(shared: &Arc<Shared>) -> bool {
    let (channels, is_closing) = {
        let state = shared.state.lock();
        (state.channels.clone(), state.is_closing)
    };
    let is_suspect =
        |channel: &Arc<Channel>| channel.connection.in_flight() > 0 && channel.connection.silence() > PROBE_AFTER;
    let any_is_suspect = channels.iter().any(is_suspect);
    let any_is_alive = channels.iter().any(|channel| channel.connection.unheard() < PROBE_AFTER);
    if any_is_suspect {
        shared.spread.leave_first();
    }
    let settings = &shared.settings;
    for channel in &channels {
        let connection = &channel.connection;
        if connection.has_ended() {
            shared.lose(channel, Loss("the connection ended"));
        } else if connection.is_overdue(settings.session_timeout, settings.extended_session_timeout) {
            shared.lose(channel, Loss("the server does not answer"));
        } else if is_suspect(channel) && connection.silence() > SILENCE_MAX + connection.drain() && any_is_alive {
            shared.lose(channel, Loss("nothing comes through any more"));
        } else if any_is_suspect && connection.unheard() > ROUND && !is_closing {
            // Others are asked, too: that they answer is what tells a dead channel from a dead server.
            probe(shared, channel);
        }
    }
    any_is_suspect
}

/// Asks whether the server is still there. A request that takes long is no sign of a dead channel; an ECHO without an answer is.
fn probe(shared: &Arc<Shared>, channel: &Arc<Channel>) {
    let state = shared.state.lock();
    let Some(identity) = state.identity.clone() else { return };
    let way = Way { channel: Arc::clone(channel), identity, sequence: state.sequence };
    drop(state);
    let seal = shared.settings.seal;
    tokio::spawn(async move {
        let body = |out: &mut Vec<u8>, _: FileId| EchoRequest.encode(out);
        let ask = Ask { command: Command::ECHO, ..Ask::of_session(&body) };
        // Where it fails the channel has ended, which the next round sees.
        let _ = timeout(SILENCE_MAX, way.ask(&ask, seal, false)).await;
    });
}

/// Closes the channels but the first when none has had anything to do.
fn close_idle(shared: &Shared) {
    let mut state = shared.state.lock();
    // Each is looked at, so that each knows when it was last at work.
    let busy = state.channels.iter().filter(|channel| channel.idle() < IDLE_MAX).count();
    if state.channels.len() > 1 && busy == 0 {
        let closed = state.channels.split_off(1);
        shared.publish(&state);
        drop(state);
        drop(closed);
        shared.paths.lock().tried = None;
    }
}

impl Shared {
    fn has_much_to_do(&self) -> bool {
        self.ways.load().as_ref().is_some_and(|ways| ways.has_much_to_do())
    }

    /// True where channels are missing, as far as is known, and it is not too early to try; the try then counts.
    fn is_time_to_open(&self) -> bool {
        if !self.may_have_more() || !self.has_much_to_do() {
            return false;
        }
        let now = self.state.lock().channels.len();
        let mut paths = self.paths.lock();
        let is_due = |last: Option<Instant>, every| last.is_none_or(|last: Instant| last.elapsed() >= every);
        let is_missing = paths.limit.map_or(paths.wanted, |limit| limit.min(paths.wanted)) > now;
        let is_time = is_due(paths.asked, ASK_EVERY) || (is_missing && is_due(paths.tried, RETRY_EVERY));
        if is_time {
            paths.tried = Some(Instant::now());
        }
        is_time
    }

    fn may_have_more(&self) -> bool {
        let state = self.state.lock();
        let has_multichannel = state.identity.as_ref().is_some_and(|identity| identity.terms.has_multichannel);
        !self.settings.is_single() && has_multichannel && state.phase == Phase::Up
    }

    /// Asks the server for its interfaces and opens the channels that are missing.
    pub(crate) async fn open_paths(self: &Arc<Self>) -> Result<(), Error> {
        if !self.may_have_more() {
            return Ok(());
        }
        let is_known = {
            let mut paths = self.paths.lock();
            paths.tried = Some(Instant::now());
            paths.limit = None;
            mem::take(&mut paths.is_ahead) && paths.asked.is_some_and(|asked| asked.elapsed() < AHEAD_MAX)
        };
        if !is_known {
            self.learn_paths().await?;
        }
        let found = self.paths.lock().pairs.clone();
        let Some(identity) = self.state.lock().identity.clone() else { return Ok(()) };
        for wave in self.missing(&found) {
            let opened = join_all(wave.iter().map(|(from, to)| self.add(*from, *to, &identity))).await;
            if let Some(refusal) = opened.into_iter().filter_map(Result::err).find(is_refusal) {
                self.believe(&refusal);
                return Err(refusal);
            }
        }
        Ok(())
    }

    /// Asks the server for its interfaces, and pairs them with this machine's.
    async fn learn_paths(self: &Arc<Self>) -> Result<(), Error> {
        self.paths.lock().asked = Some(Instant::now());
        let remote = ioctl::interfaces(self).await?;
        let found = pairs(&self.network.interfaces(), &remote, &self.settings);
        let mut paths = self.paths.lock();
        paths.wanted = paths.wanted.max(found.iter().map(|pair| pair.connections).sum());
        paths.pairs = found;
        Ok(())
    }

    /// The ways that the pairs ask for and that no channel goes yet, in waves of one for each pair: where the server takes fewer, every
    /// pair has some.
    fn missing(&self, pairs: &[Pair]) -> Vec<Vec<(Option<IpAddr>, SocketAddr)>> {
        let there: Vec<(IpAddr, IpAddr)> = {
            let state = self.state.lock();
            state.channels.iter().map(|channel| (channel.local, channel.remote.ip())).collect()
        };
        let mut waves: Vec<Vec<_>> = Vec::new();
        for pair in pairs {
            let from = pair.local.as_ref().map(|local| local.address);
            let is_it =
                |(local, remote): &&(IpAddr, IpAddr)| *remote == pair.address && from.is_none_or(|from| from == *local);
            let is_there = there.iter().filter(is_it).count();
            for wave in is_there..pair.connections {
                if waves.len() <= wave {
                    waves.resize_with(wave + 1, Vec::new);
                }
                waves[wave].push((from, SocketAddr::new(pair.address, self.port)));
            }
        }
        waves
    }

    /// Opens one more channel.
    async fn add(self: &Arc<Self>, from: Option<IpAddr>, to: SocketAddr, identity: &Identity) -> Result<(), Error> {
        let channel = self.open_more(from, to, identity).await?;
        let mut state = self.state.lock();
        let is_same = state.identity.as_ref().is_some_and(|now| now.session_id == identity.session_id);
        if is_same && state.phase == Phase::Up {
            state.channels.push(Arc::new(channel));
            let count = state.channels.len();
            self.publish(&state);
            drop(state);
            let mut paths = self.paths.lock();
            paths.most = paths.most.max(count);
            drop(paths);
            self.notify();
        }
        Ok(())
    }

    /// Takes a refusal for the server's limit. Not so where there have been more channels than now: then the server may not have noticed
    /// yet that some of them are dead, and they are tried again as other missing ones are.
    fn believe(&self, refusal: &Error) {
        let now = self.state.lock().channels.len();
        let mut paths = self.paths.lock();
        if now >= paths.most || refusal.status() == Some(Status::NOT_SUPPORTED) {
            paths.limit = Some(now);
        }
    }
}

/// True where the server takes no more channels (MS-SMB2 3.3.5.5.2), for now or at all.
fn is_refusal(error: &Error) -> bool {
    let refusals = [Status::INSUFFICIENT_RESOURCES, Status::REQUEST_NOT_ACCEPTED, Status::NOT_SUPPORTED];
    error.status().is_some_and(|status| refusals.contains(&status))
}
