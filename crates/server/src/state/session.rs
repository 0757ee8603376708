//! A session: one signed-in client, whatever connections it uses (MS-SMB2 3.3.1.8), and its channels.

mod channel;
mod opens;

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use secure::kdf::SessionKeys;
use secure::seal::{Cipher, NonceSpace, Opener, Sealer};
use secure::sign::{SigningAlgorithm, SigningKey};
use wire::ids::{Dialect, Guid, MessageId, SessionId, TreeId};
use wire::status::Status;

pub(crate) use self::channel::{Activity, Channel, ChannelFacts, Cover, Signature};
use self::opens::Opens;
use crate::resource::budget::Budget;
use crate::resource::budgets::{Held, UserBudgets};
use crate::resource::by_id::ById;
use crate::resource::pool::{Device, QueueKey};
use crate::state::apple::AppleTerms;
use crate::state::associations::Associations;
use crate::state::configuration::Configuration;
use crate::state::mailbox::Notification;
use crate::state::open::{OPENS_MAX, Open};
use crate::state::open_id::OpenId;
use crate::state::placement::Placement;
use crate::state::replayed::Replayed;
use crate::state::session_link::{SessionLink, SessionState};
use crate::state::tree::Tree;
use crate::state::user::User;
use crate::state::walk::OpenPlace;

/// The most tree connects one session holds.
const TREES_MAX: usize = 4_096;

/// A turn's bytes sealed with CCM take as long as so many times as many that are only moved.
const CCM_BYTE_COST: usize = 5;

/// The session. Keys and identifiers are frozen when it is set up; the user is replaced whole on re-authentication.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) dialect: Dialect,
    /// Connection.ClientGuid of the connection it was set up on.
    pub(crate) client: Guid,
    /// The algorithm that signs on that connection.
    pub(crate) signing: SigningAlgorithm,
    pub(crate) keys: SessionKeys,
    pub(crate) user: ArcSwap<User>,
    /// Session.SigningRequired.
    pub(crate) signing_required: bool,
    /// Session.EncryptData: everything is sealed, both ways.
    pub(crate) seal_required: bool,
    pub(crate) created: Instant,
    /// What its user may make the server hold.
    pub(crate) budgets: Arc<UserBudgets>,
    /// The CREATEs that its client has replayed.
    pub(crate) replayed: Replayed,
    /// What its client agreed to do as Macs do.
    pub(crate) apple: AppleTerms,
    /// Which of its pipes share what they have open.
    pub(crate) associations: Associations,
    /// What its pipes may hold: as much as they do is left to those of the user's other sessions.
    pub(crate) pipes: Arc<Budget>,
    sealing: Option<SealingKeys>,
    /// Its client has sealed something.
    was_sealed: AtomicBool,
    trees: Mutex<ById<TreeId, HeldTree>>,
    _held: Held,
    next_tree: AtomicU32,
    opens: Mutex<Opens>,
    channels: Mutex<Channels>,
    state: Arc<SessionState>,
    bind_nonces: Mutex<BindNonces>,
}

/// Message ids that a session which signs with GMAC, where they are the nonces, has not used with its signing key and never will: those
/// before the one that its sign-in ended with, as far as its connection had used them all by then. What came with them was admitted when
/// there was no such key. One that was left out may still come, and be answered under the key.
struct BindNonces {
    next: u64,
    end: u64,
}

/// A tree connect, and what its user has less for it.
struct HeldTree {
    tree: Arc<Tree>,
    _held: Held,
}

/// Session.ChannelList.
#[derive(Default)]
struct Channels {
    list: Vec<Arc<ChannelFacts>>,
    /// The last one is gone: no other comes.
    closed: bool,
}

/// The keys that seal, and the nonces that no two messages share.
struct SealingKeys {
    cipher: Cipher,
    sealer: Sealer,
    opener: Opener,
    nonces: NonceSpace,
}

/// How a session is set up.
pub(crate) struct Setup {
    pub(crate) id: SessionId,
    pub(crate) dialect: Dialect,
    pub(crate) client: Guid,
    pub(crate) signing: SigningAlgorithm,
    pub(crate) keys: SessionKeys,
    pub(crate) cipher: Option<Cipher>,
    pub(crate) user: Arc<User>,
    pub(crate) signing_required: bool,
    pub(crate) seal_required: bool,
    pub(crate) budgets: Arc<UserBudgets>,
    /// No message id before this one is ever answered under its key on its first channel.
    pub(crate) first_signed: MessageId,
    pub(crate) held: Held,
}

impl Session {
    pub(crate) fn new(setup: Setup) -> Self {
        let sealing = match (setup.cipher, setup.keys.sealer(), setup.keys.opener()) {
            (Some(cipher), Some(sealer), Some(opener)) => {
                Some(SealingKeys { cipher, sealer, opener, nonces: NonceSpace::new() })
            }
            (None, _, _) | (_, None, _) | (_, _, None) => None,
        };
        Session {
            id: setup.id,
            dialect: setup.dialect,
            client: setup.client,
            signing: setup.signing,
            keys: setup.keys,
            user: ArcSwap::new(setup.user),
            signing_required: setup.signing_required,
            seal_required: setup.seal_required,
            created: Instant::now(),
            pipes: setup.budgets.pipes.even_share(setup.budgets.pipes.limit()),
            budgets: setup.budgets,
            replayed: Replayed::default(),
            apple: AppleTerms::default(),
            associations: Associations::default(),
            sealing,
            was_sealed: AtomicBool::new(false),
            trees: Mutex::default(),
            _held: setup.held,
            next_tree: AtomicU32::new(1),
            opens: Mutex::default(),
            channels: Mutex::default(),
            state: SessionState::of(setup.id),
            bind_nonces: Mutex::new(BindNonces { next: 0, end: setup.first_signed.0 }),
        }
    }

    /// True where the leg of a bind with this message id may be answered under the session's own signing key, which its first channel signs
    /// with, too. With GMAC a message id does for one answer, or whoever sees two of them can sign.
    pub(crate) fn may_answer_bind(&self, id: MessageId) -> bool {
        match self.signing {
            SigningAlgorithm::AesCmac | SigningAlgorithm::HmacSha256 => true,
            SigningAlgorithm::AesGmac => {
                let mut nonces = self.bind_nonces.lock();
                let is_unused = (nonces.next..nonces.end).contains(&id.0);
                if is_unused {
                    nonces.next = id.0 + 1;
                }
                is_unused
            }
        }
    }

    /// The cipher that seals it, where both sides have one.
    pub(crate) fn cipher(&self) -> Option<Cipher> {
        self.sealing.as_ref().map(|sealing| sealing.cipher)
    }

    /// What a byte counts for in a turn ([`crate::resource::turns`]) where it is sealed. GCM is nearly free; CCM is a chain, block by block.
    pub(crate) fn sealed_byte_cost(&self) -> usize {
        match self.cipher() {
            Some(Cipher::Aes128Ccm | Cipher::Aes256Ccm) => CCM_BYTE_COST,
            Some(Cipher::Aes128Gcm | Cipher::Aes256Gcm) | None => 1,
        }
    }

    /// Decrypts a frame that begins with a transform header, in place; gives the messages.
    pub(crate) fn open_sealed<'a>(&self, frame: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let opened = self.sealing.as_ref()?.opener.open(frame).ok()?;
        if !self.was_sealed.load(Ordering::Relaxed) {
            self.was_sealed.store(true, Ordering::Relaxed);
        }
        Some(opened)
    }

    /// The cipher that has sealed something of it.
    pub(crate) fn cipher_in_use(&self) -> Option<Cipher> {
        self.cipher().filter(|_| self.was_sealed.load(Ordering::Relaxed))
    }

    /// The queue of its work at a device.
    pub(crate) fn queue_key(&self, device: Device) -> QueueKey {
        QueueKey { device, user: self.user.load().number, session: self.id.0 }
    }

    /// True once it ended: its requests find no session.
    pub(crate) fn has_ended(&self) -> bool {
        self.state.has_ended()
    }

    /// A link to it for an open of its client.
    pub(crate) fn link(&self) -> Arc<SessionLink> {
        SessionLink::to(&self.state)
    }

    /// What links to it know of it.
    pub(crate) fn state(&self) -> &Arc<SessionState> {
        &self.state
    }

    /// Makes a tree connect under a new id.
    pub(crate) fn add_tree(&self, make: impl FnOnce(TreeId) -> Tree) -> Result<Arc<Tree>, Status> {
        let mut trees = self.trees.lock();
        if trees.len() >= TREES_MAX {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        let held = self.budgets.tree().ok_or(Status::INSUFFICIENT_RESOURCES)?;
        let id = loop {
            let id = TreeId(self.next_tree.fetch_add(1, Ordering::Relaxed));
            if id.0 != 0 && id.0 != u32::MAX && !trees.contains_key(&id) {
                break id;
            }
        };
        let tree = Arc::new(make(id));
        trees.insert(id, HeldTree { tree: Arc::clone(&tree), _held: held });
        Ok(tree)
    }

    /// The tree connect of an id.
    pub(crate) fn tree(&self, id: TreeId) -> Option<Arc<Tree>> {
        self.trees.lock().get(&id).map(|held| Arc::clone(&held.tree))
    }

    /// The names of the shares that it is connected to, each once.
    pub(crate) fn share_names(&self) -> Vec<String> {
        let names: BTreeSet<_> = self.trees.lock().values().map(|held| Arc::clone(&held.tree.share)).collect();
        names.iter().map(ToString::to_string).collect()
    }

    /// Takes a tree connect away, and gives its opens for closing. `None` where there is none.
    pub(crate) fn remove_tree(&self, id: TreeId) -> Option<Vec<Arc<Open>>> {
        self.trees.lock().remove(&id)?;
        Some(self.opens.lock().take_of(id))
    }

    /// Lets the user be what its principal is now, and every tree follow the shares and what that user may do there. A tree ends, too, where none of the
    /// channels comes from where its share may be used. Gives the opens of the trees that end, for closing. `None` where the user is none any more: somebody else has the name, or the secret that it signed in with is no secret now.
    pub(crate) fn follow(&self, configuration: &Configuration) -> Option<Vec<Arc<Open>>> {
        let user = self.follow_principal(configuration)?;
        let mut gone = Vec::new();
        let hosts: Vec<_> = self.channels().iter().map(|channel| channel.host).collect();
        self.trees.lock().retain(|id, held| {
            let tree = &held.tree;
            let share = configuration.shares.iter().find(|share| *share.name == *tree.share);
            let is_reached = |tree: &Tree| hosts.is_empty() || hosts.iter().any(|host| tree.admits(*host));
            // What cannot be sealed would go on in plain, or be refused for ever: a client that connects again is told why.
            let is_guarded = |tree: &Tree| self.seals() || !tree.requires_sealing();
            let stays = tree.follow(share, &user) && is_reached(tree) && is_guarded(tree);
            if !stays {
                gone.push(*id);
            }
            stays
        });
        let mut opens = self.opens.lock();
        Some(gone.into_iter().flat_map(|id| opens.take_of(id)).collect())
    }

    fn follow_principal(&self, configuration: &Configuration) -> Option<Arc<User>> {
        loop {
            let user = self.user.load_full();
            let principal = configuration.principals.iter().find(|principal| user.is_still(principal))?;
            let Some(now) = user.as_now(principal, configuration.settings.machine_sid) else { return Some(user) };
            let now = Arc::new(now);
            let before = self.user.compare_and_swap(&user, Arc::clone(&now));
            // Who has signed in again meanwhile is looked at anew.
            if Arc::ptr_eq(&before, &user) {
                return Some(now);
            }
        }
    }

    /// True where its requests can be sealed.
    pub(crate) fn seals(&self) -> bool {
        self.dialect >= Dialect::SMB_3_0 && self.cipher().is_some()
    }

    /// Keeps an open. Refused once the session or the open's tree has ended, and past the bound.
    pub(crate) fn add_open(&self, open: Arc<Open>) -> Result<(), Status> {
        let trees = self.trees.lock();
        if self.has_ended() {
            return Err(Status::USER_SESSION_DELETED);
        }
        if !trees.contains_key(&open.tree.id) {
            return Err(Status::NETWORK_NAME_DELETED);
        }
        let mut opens = self.opens.lock();
        if opens.by_id.len() >= OPENS_MAX {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        opens.insert(open);
        Ok(())
    }

    /// Puts an open in the place of the one that has its id, which is given back. Nothing is done where the session has that no more.
    pub(crate) fn replace_open(&self, open: Arc<Open>) -> Option<Arc<Open>> {
        let mut opens = self.opens.lock();
        let former = opens.remove(open.id)?;
        opens.insert(open);
        Some(former)
    }

    /// The open of an id.
    pub(crate) fn open(&self, id: OpenId) -> Option<Arc<Open>> {
        self.opens.lock().by_id.get(&id).cloned()
    }

    /// Takes an open away for closing.
    pub(crate) fn remove_open(&self, id: OpenId) -> Option<Arc<Open>> {
        self.opens.lock().remove(id)
    }

    /// All opens.
    #[cfg(test)]
    pub(crate) fn opens(&self) -> Vec<Arc<Open>> {
        self.opens.lock().by_id.values().cloned().collect()
    }

    /// How many opens there are.
    pub(crate) fn open_count(&self) -> usize {
        self.opens.lock().by_id.len()
    }

    /// Up to `max` opens that come behind the place `after`, in an order that stays.
    pub(crate) fn opens_after(&self, after: Option<OpenPlace>, max: usize) -> Vec<Arc<Open>> {
        let opens = self.opens.lock();
        let rest = opens.by_tree.range((after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded));
        rest.take(max).filter_map(|(_, id)| opens.by_id.get(id).cloned()).collect()
    }

    /// The place behind the first `count` opens, one at least.
    pub(crate) fn place_behind(&self, count: NonZeroUsize) -> Option<OpenPlace> {
        self.opens.lock().by_tree.iter().nth(count.get() - 1).copied()
    }

    /// Adds all opens to `to`, which keeps none of them.
    pub(crate) fn add_opens(&self, to: &mut Vec<Weak<Open>>) {
        to.extend(self.opens.lock().by_id.values().map(Arc::downgrade));
    }

    /// True where what its client is told goes on its own channels alone: what is sealed can be opened nowhere else, and the anonymous user has no
    /// connection but these.
    pub(crate) fn keeps_to_itself(&self) -> bool {
        self.seal_required || self.user.load().is_anonymous
    }

    /// All channels.
    pub(crate) fn channels(&self) -> Vec<Arc<ChannelFacts>> {
        self.channels.lock().list.clone()
    }

    /// How many channels it has.
    pub(crate) fn channel_count(&self) -> usize {
        self.channels.lock().list.len()
    }

    /// Gives up all channels but the first.
    pub(crate) fn leave_other_channels(&self) {
        for channel in self.channels().iter().skip(1) {
            channel.mailbox.leave(self.id);
        }
    }

    /// Sends a message unasked, on the first channel that takes it; false where none does (MS-SMB2 3.3.4.1.6, 3.3.4.6).
    pub(crate) fn post(&self, mut notification: Notification) -> bool {
        for channel in self.channels() {
            match channel.mailbox.post(notification) {
                Ok(()) => return true,
                Err(back) => notification = back,
            }
        }
        false
    }

    /// Adds a channel, of which there are `channels_max` at most: its half on the connection's shard is the answer. Its facts name the
    /// shard where it should be.
    pub(crate) fn add_channel(
        self: &Arc<Self>,
        signing_key: SigningKey,
        facts: ChannelFacts,
        channels_max: usize,
        placement: &Placement,
    ) -> Result<Channel, Status> {
        let facts = Arc::new(facts);
        let mut channels = self.channels.lock();
        if channels.closed || self.has_ended() {
            return Err(Status::USER_SESSION_DELETED);
        }
        if channels.list.len() >= channels_max {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        let taken: Vec<usize> = channels.list.iter().map(|channel| channel.shard()).collect();
        if let Some(better) = placement.better(facts.shard(), &taken) {
            facts.set_shard(better);
        }
        channels.list.push(Arc::clone(&facts));
        drop(channels);
        Ok(Channel::new(self, signing_key, facts))
    }

    /// Takes a connection's channel away; true where it was the last.
    pub(crate) fn remove_channel(&self, connection: u64) -> bool {
        let mut channels = self.channels.lock();
        channels.list.retain(|channel| channel.connection != connection);
        channels.closed |= channels.list.is_empty();
        channels.closed
    }

    /// Ends the session and gives its opens, for closing or keeping; `None` where it has ended before.
    #[must_use]
    pub(crate) fn end(&self) -> Option<Vec<Arc<Open>>> {
        if !self.state.end() {
            return None;
        }
        self.trees.lock().clear();
        Some(self.take_opens())
    }

    /// In the order in which they were made.
    fn take_opens(&self) -> Vec<Arc<Open>> {
        let mut taken: Vec<_> = std::mem::take(&mut *self.opens.lock()).by_id.into_values().collect();
        taken.sort_unstable_by_key(|open| open.id);
        taken
    }
}
