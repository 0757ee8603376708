//! What the tasks of a session share (MS-SMB2 3.2.1.3).

use std::sync::{Arc, Weak};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use secure::ntlm::Credentials;
use tokio::sync::{Notify, mpsc};
use wire::ids::Guid;

use crate::channel::Channel;
use crate::error::Error;
use crate::handshake::{Identity, random_bytes};
use crate::message::Answer;
use crate::network::Network;
use crate::open_state::OpenState;
use crate::paths::Paths;
use crate::send_load::SendLoad;
use crate::settings::Settings;
use crate::spread::Spread;
use crate::target::Target;
use crate::tree_state::TreeState;
use crate::ways::Ways;

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
    /// Whether what queues spreads over the channels.
    pub(crate) spread: Spread,
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

impl Shared {
    /// That of a session which is not connected yet. What the server says by itself is given to `unsolicited`.
    pub(crate) fn of(
        target: &Target,
        settings: Settings,
        network: Arc<dyn Network>,
        unsolicited: mpsc::UnboundedSender<Answer>,
    ) -> Result<Self, Error> {
        Ok(Shared {
            settings,
            host: target.host.clone(),
            port: target.port,
            credentials: target.credentials(),
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
            spread: Spread::default(),
        })
    }

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
        self.spread.forget();
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
}
