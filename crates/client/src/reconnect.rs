//! The first connection of a session, and the one that takes its place when every channel is gone: sign in, connect to the trees
//! again, take up the opens that the server kept (MS-SMB2 3.2.4.4, 3.2.7.1).

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use wire::ids::SessionId;
use wire::status::Status;

use crate::channel::Channel;
use crate::command::{create, tree_connect};
use crate::error::Error;
use crate::handshake::Identity;
use crate::loss::Loss;
use crate::open_state::OpenState;
use crate::settings::WhenLost;
use crate::shared::{Phase, Shared};
use crate::ways::Way;

/// Between attempts to find the server again.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Connects and signs in for the first time.
pub(crate) async fn establish(shared: &Arc<Shared>) -> Result<(), Error> {
    let (identity, channel) = connected(shared, SessionId(0)).await?;
    let mut state = shared.state.lock();
    state.identity = Some(Arc::new(identity));
    state.channels.push(Arc::new(channel));
    state.phase = Phase::Up;
    shared.publish(&state);
    Ok(())
}

/// Looks for the server until the session is up again, or for as long as SessionTimeout.
pub(crate) async fn run(weak: Weak<Shared>) {
    let Some(timeout) = weak.upgrade().map(|shared| shared.settings.session_timeout) else { return };
    let deadline = Instant::now() + timeout;
    let mut pause = PAUSE_FIRST;
    loop {
        let Some(shared) = weak.upgrade() else { return };
        match again(&shared).await {
            Ok(()) => {
                tracing::debug!(server = shared.host, "the session is up again");
                shared.notify();
                shared.call.notify_one();
                return;
            }
            Err(error) if is_final(&error) || Instant::now() >= deadline => return shared.finish(error),
            Err(error) => tracing::debug!(server = shared.host, %error, "not connected again yet"),
        }
        drop(shared);
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

async fn again(shared: &Arc<Shared>) -> Result<(), Error> {
    let (previous, sequence) = {
        let state = shared.state.lock();
        (state.identity.as_ref().map_or(SessionId(0), |identity| identity.session_id), state.sequence)
    };
    let (identity, channel) = connected(shared, previous).await?;
    let way = Way { channel: Arc::new(channel), identity: Arc::new(identity), sequence };
    let (trees, opens) = {
        let state = shared.state.lock();
        let trees: Vec<_> = state.trees.iter().filter_map(Weak::upgrade).collect();
        let opens: Vec<_> = state.opens.iter().filter_map(Weak::upgrade).collect();
        (trees, opens)
    };
    for tree in trees {
        tree_connect::connect_again(&tree, &way, shared.settings.seal).await?;
    }
    for open in opens {
        take_up_again(&open, &way, shared.settings.seal).await?;
    }
    let mut state = shared.state.lock();
    if state.phase != Phase::Reconnecting {
        return Ok(());
    }
    state.identity = Some(way.identity);
    state.channels = vec![way.channel];
    state.phase = Phase::Up;
    shared.publish(&state);
    Ok(())
}

/// Takes up an open in a new session, where the server has kept it.
async fn take_up_again(open: &OpenState, way: &Way, seal: bool) -> Result<(), Error> {
    let Some((id, is_durable)) = open.kept() else { return Ok(()) };
    let again = match is_durable {
        true => create::take_up(open, way, seal, id).await?,
        false => None,
    };
    match again {
        Some(id) => open.taken_up(id),
        None => open.lost(),
    }
    Ok(())
}

impl Shared {
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
            match self.settings.when_lost {
                WhenLost::SignInAgain => {
                    state.phase = Phase::Reconnecting;
                    tokio::spawn(run(Arc::downgrade(self)));
                }
                WhenLost::End => state.phase = Phase::Gone(Error::Lost(loss.0)),
            }
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
}

/// A channel to the first of the server's addresses that takes one.
async fn connected(shared: &Shared, previous: SessionId) -> Result<(Identity, Channel), Error> {
    let resolved = shared.network.resolve(&shared.host, shared.port).await;
    let addresses = resolved.map_err(|cause| Error::unreachable(&shared.host, &cause))?;
    let mut last = Error::Unreachable { server: shared.host.clone(), cause: "the name has no address".into() };
    for address in addresses {
        match shared.open_first(address, previous).await {
            Ok(first) => return Ok(first),
            Err(error) if is_final(&error) => return Err(error),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Asking again gives the same answer.
fn is_final(error: &Error) -> bool {
    match error {
        Error::Refused { status, .. } => *status != Status::INSUFFICIENT_RESOURCES,
        Error::Unreachable { .. } | Error::Lost(_) | Error::Machine(_) | Error::OpenLost(_) => false,
        Error::Logon(_) | Error::Guest | Error::Lacking(_) | Error::Malformed(_) => true,
    }
}
