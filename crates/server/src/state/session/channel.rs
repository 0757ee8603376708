//! A channel of a session: what a connection signs and seals with (MS-SMB2 3.3.1.14).

use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use secure::Role;
use secure::seal::{Nonce, NonceRange};
use secure::sign::{SigningAlgorithm, SigningKey};

use super::Session;
use crate::state::counters::{Answered, ChannelCounters};
use crate::state::mailbox::Mailbox;
use crate::state::together::Together;
use crate::state::tree::Tree;

/// What is known of a channel outside its shard.
pub(crate) struct ChannelFacts {
    pub(crate) connection: u64,
    pub(crate) peer: String,
    /// The client's address, where it has one.
    pub(crate) host: Option<IpAddr>,
    pub(crate) local: String,
    pub(crate) shard: AtomicUsize,
    pub(crate) signing: SigningAlgorithm,
    /// When the connection was accepted, and what it did since.
    pub(crate) accepted: Instant,
    pub(crate) activity: Arc<Activity>,
    /// When it became a channel.
    pub(crate) since: Instant,
    pub(crate) mailbox: Arc<Mailbox>,
}

/// What a connection is doing, as others see it.
#[derive(Default)]
pub(crate) struct Activity {
    /// Seconds from when it was accepted to the last time something came in.
    pub(crate) seconds: AtomicU64,
    /// Requests that wait for something.
    pub(crate) outstanding: AtomicUsize,
    /// The most requests that there were at once, lately.
    pub(crate) together: Together,
}

/// A session as one connection has it: the channel's own signing key, and its own nonces.
pub(crate) struct Channel {
    pub(crate) session: Arc<Session>,
    signing_key: Arc<SigningKey>,
    pub(crate) facts: Arc<ChannelFacts>,
    nonces: RefCell<NonceRange>,
    /// What is done on it; nothing is on one that its session does not count.
    counters: Option<ChannelCounters>,
}

/// What signs messages to the client, and verifies those of the client. Any thread may have it done.
pub(crate) struct Signature(Arc<SigningKey>);

impl Signature {
    /// Signs one message in place; its SIGNED flag is set already.
    pub(crate) fn sign(&self, message: &mut [u8]) {
        self.0.sign(message, Role::Server);
    }

    /// True where a message of the client is signed so.
    #[must_use]
    pub(crate) fn verify(&self, message: &mut [u8]) -> bool {
        self.0.verify(message, Role::Client)
    }
}

/// What seals one frame to the client: the session's key, and a nonce that nothing else is sealed with. Any thread may have it done.
pub(crate) struct Cover(Arc<Session>, Nonce);

impl Cover {
    /// Seals a frame in place: 52 bytes of room and the messages. False where that could not be done.
    #[must_use]
    pub(crate) fn seal(self, frame: &mut [u8]) -> bool {
        let Cover(session, nonce) = self;
        session.sealing.as_ref().is_some_and(|sealing| sealing.sealer.seal(frame, session.id, nonce).is_ok())
    }
}

impl ChannelFacts {
    /// The shard it is on, or on its way to.
    pub(crate) fn shard(&self) -> usize {
        self.shard.load(Ordering::Relaxed)
    }

    /// Moves it to another.
    pub(crate) fn set_shard(&self, shard: usize) {
        self.shard.store(shard, Ordering::Relaxed);
    }

    /// Seconds since something came in.
    pub(crate) fn idle_seconds(&self) -> u64 {
        self.accepted.elapsed().as_secs().saturating_sub(self.activity.seconds.load(Ordering::Relaxed))
    }
}

impl Channel {
    /// The session's half on one connection's shard.
    pub(super) fn new(session: &Arc<Session>, signing_key: SigningKey, facts: Arc<ChannelFacts>) -> Self {
        let (session, signing_key) = (Arc::clone(session), Arc::new(signing_key));
        Channel { session, signing_key, facts, nonces: RefCell::new(NonceRange::empty()), counters: None }
    }

    /// One that the session does not count, with Session.SigningKey.
    pub(crate) fn unlisted(session: &Arc<Session>, facts: ChannelFacts) -> Self {
        Channel::new(session, session.keys.signing_key(session.signing), facts.into())
    }

    /// What signs messages of this channel.
    pub(crate) fn signature(&self) -> Signature {
        Signature(Arc::clone(&self.signing_key))
    }

    /// What seals the next frame; `None` where the session cannot seal, or has no nonce left.
    pub(crate) fn cover(&self) -> Option<Cover> {
        let sealing = self.session.sealing.as_ref()?;
        let nonce = self.nonces.borrow_mut().draw(&sealing.nonces).ok()?;
        Some(Cover(Arc::clone(&self.session), nonce))
    }

    /// Seals a frame in place: 52 bytes of room and the messages (MS-SMB2 3.3.4.1.4). False where the session cannot seal, or has no nonce left.
    #[must_use]
    pub(crate) fn seal(&self, frame: &mut [u8]) -> bool {
        let Some(sealing) = &self.session.sealing else { return false };
        let Ok(nonce) = self.nonces.borrow_mut().draw(&sealing.nonces) else { return false };
        sealing.sealer.seal(frame, self.session.id, nonce).is_ok()
    }

    /// The same, which counts what is done on it by `counters`.
    pub(crate) fn counted_by(self, counters: ChannelCounters) -> Self {
        Channel { counters: Some(counters), ..self }
    }

    /// Counts requests to the share of a tree connect, or to none.
    pub(crate) fn count(&self, tree: Option<&Tree>, answered: &Answered) {
        if let Some(counters) = &self.counters {
            let authentication = self.session.user.load().authentication();
            counters.count((tree.map(|tree| &tree.share), authentication), answered);
        }
    }

    /// Signs one message in place; its SIGNED flag is set already.
    pub(crate) fn sign(&self, message: &mut [u8]) {
        self.signing_key.sign(message, Role::Server);
    }

    /// Verifies one message's signature.
    #[must_use]
    pub(crate) fn verify(&self, message: &mut [u8]) -> bool {
        self.signing_key.verify(message, Role::Client)
    }
}
