//! Whose request one of this process is. An interface of the server that reaches files by a session of its own, as REST does, says for each request who asked
//! for it, and with what: the session alone would say that the account did it all, from this machine.
//!
//! It notes an origin and gets a key, which nobody guesses. Who names that key in a CREATE ([`name::ORIGIN`]) opens on behalf of the origin, and so does what
//! happens through the open. A key means something as long as its request lasts.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use secure::RandomFault;
use wire::context::create::{CreateContexts, name};

use super::AuditProof;

/// Bytes of a key.
const KEY_BYTES: usize = 16;

type Key = [u8; KEY_BYTES];

/// Who asked for something by another protocol than SMB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditOrigin {
    /// The protocol, such as `HTTPS`.
    pub protocol: &'static str,
    /// The client's address and port.
    pub caller: Arc<str>,
    /// How that one is known.
    pub proof: AuditProof,
    /// Its name.
    pub requester: String,
    /// What tells the key, signature or token apart by which it is known, and opens nothing.
    pub token: String,
    /// The number that the client was told of its request.
    pub request: String,
    /// By what else that may be used which is copied or renamed, where this was proved by itself.
    pub source: Option<AuditSource>,
}

/// What proved that something may be read, or taken from where it is, for who asks for that with another proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditSource {
    /// How it was proved.
    pub proof: AuditProof,
    /// Who may do it by that.
    pub requester: String,
    /// What tells the signature or token apart.
    pub token: String,
}

impl AuditOrigin {
    /// Bytes of memory that it takes, as if it were held by one event alone.
    pub(super) fn held_bytes(&self) -> usize {
        let texts = [&self.requester, &self.token, &self.request].map(String::capacity);
        let source = self.source.as_ref().map_or(0, |source| source.requester.capacity() + source.token.capacity());
        size_of::<Self>() + self.caller.len() + texts.iter().sum::<usize>() + source
    }
}

/// A request that another interface of the server refuses by itself: nobody has proved who asks, or that one may not do it.
#[derive(Clone, Debug)]
pub struct AuditRefusal {
    /// What was asked for, by Azure's name.
    pub operation: &'static str,
    /// Who asked. Of who has proved nothing, who that is said to be.
    pub origin: AuditOrigin,
    /// The account, where there is such an account.
    pub account: Option<String>,
    /// The share, where there is such a share.
    pub share: Option<String>,
    /// The path in it.
    pub path: Option<String>,
    /// Why it was refused, as the client was told.
    pub code: String,
}

/// The origins of requests that are under way.
#[derive(Debug, Default)]
pub struct AuditOrigins(Mutex<HashMap<Key, Arc<Speaker>>>);

/// For whom an open speaks. It may be kept longer than a request lasts, and used by another one then.
pub(crate) type Speaker = ArcSwap<AuditOrigin>;

/// An origin that is noted until this is dropped.
#[derive(Debug)]
pub struct NotedOrigin {
    key: Key,
    speaker: AuditSpeaker,
    origins: Arc<AuditOrigins>,
}

/// What opens speak for that were made on behalf of one origin.
#[derive(Clone, Debug)]
pub struct AuditSpeaker(Arc<Speaker>);

impl AuditOrigins {
    /// Notes whose a request is.
    pub fn note(self: &Arc<Self>, origin: AuditOrigin) -> Result<NotedOrigin, RandomFault> {
        let mut key = [0; KEY_BYTES];
        secure::random(&mut key)?;
        let speaker = Arc::new(Speaker::from_pointee(origin));
        self.0.lock().insert(key, Arc::clone(&speaker));
        Ok(NotedOrigin { key, speaker: AuditSpeaker(speaker), origins: Arc::clone(self) })
    }

    /// On whose behalf a CREATE with these contexts opens, where it says so.
    pub(crate) fn of(&self, contexts: &CreateContexts<'_>) -> Option<Arc<Speaker>> {
        let key = Key::try_from(contexts.find(name::ORIGIN)?).ok()?;
        self.0.lock().get(&key).cloned()
    }
}

impl NotedOrigin {
    /// The create context by which a CREATE is made on its behalf: its name and its data.
    pub fn context(&self) -> (&'static [u8], [u8; KEY_BYTES]) {
        (name::ORIGIN, self.key)
    }

    /// What its opens speak for, which is this origin until another is named.
    pub fn speaker(&self) -> AuditSpeaker {
        self.speaker.clone()
    }
}

impl Drop for NotedOrigin {
    fn drop(&mut self) {
        self.origins.0.lock().remove(&self.key);
    }
}

impl AuditSpeaker {
    /// From now on the opens speak for another origin.
    pub fn speaks_for(&self, other: &AuditSpeaker) {
        self.0.store(other.0.load_full());
    }
}

#[cfg(test)]
mod tests {
    use wire::context::create::CreateContextsBuilder;

    use super::*;

    fn origin(caller: &str) -> AuditOrigin {
        AuditOrigin {
            protocol: "HTTPS",
            caller: caller.into(),
            proof: AuditProof::AccountKey,
            requester: "studio".into(),
            token: "key1".into(),
            request: "1".into(),
            source: None,
        }
    }

    #[test]
    fn a_key_means_something_as_long_as_its_request_lasts() {
        let origins = Arc::<AuditOrigins>::default();
        let noted = origins.note(origin("192.0.2.7:1")).unwrap();
        let of = |key: &[u8]| {
            let mut contexts = CreateContextsBuilder::new();
            contexts.add(name::ORIGIN, key);
            origins.of(&contexts.contexts()).map(|speaker| speaker.load().caller.to_string())
        };
        let (_, key) = noted.context();
        assert_eq!(of(&key).as_deref(), Some("192.0.2.7:1"));
        assert_eq!((of(&key[1..]), of(&[0; KEY_BYTES])), (None, None));
        assert_eq!(origins.of(&CreateContexts::default()).map(drop), None);
        drop(noted);
        assert_eq!(of(&key), None);
    }
}
