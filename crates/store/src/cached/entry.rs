//! What is known of one file.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::{Entry as Listed, ExtendedAttribute, Identity, Kind, Metadata, Time};

/// What the kernel tells of is asked for anew after so long all the same: it does not tell of what is written through a mapping, nor of reading.
const AGE_MAX: Duration = Duration::from_secs(10);
/// What its descriptor and its extended attributes take together: those that are longer are asked for each time.
pub(super) const KEPT_BYTES_MAX: usize = 512;

/// Who tells that others have changed a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToldBy {
    /// The kernel, as it happens.
    Kernel,
    /// Nobody.
    Nobody,
}

/// How long is believed what nobody tells changes of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Belief {
    /// Until this server changes it: nobody else does.
    Lasting,
    /// So long from when it was asked for.
    For(Duration),
}

impl Default for Belief {
    /// A second, after which what others change is seen.
    fn default() -> Self {
        Belief::For(Duration::from_secs(1))
    }
}

/// A file or directory of which something is known.
pub(super) struct Entry {
    pub(super) identity: Identity,
    pub(super) kind: Kind,
    /// Tells it from another that has its number later.
    birth: Option<Time>,
    pub(super) told_by: ToldBy,
    /// Bytes that are charged for it.
    pub(super) charge: u64,
    /// Everything was forgotten so often before.
    era: u64,
    is_alive: AtomicBool,
    /// Of a directory: names that were looked for in it under other numbers are void.
    names: Numbers,
    pub(super) facts: Mutex<Facts>,
}

/// The numbers under which names of a directory are known.
#[derive(Debug, Default)]
struct Numbers {
    found: AtomicU64,
    missing: AtomicU64,
}

/// What is known of it.
#[derive(Default)]
pub(super) struct Facts {
    pub(super) metadata: Option<Dated<(Metadata, bool)>>,
    pub(super) security: Option<Dated<Option<Arc<[u8]>>>>,
    pub(super) extended: Option<Dated<Arc<[ExtendedAttribute]>>>,
    pub(super) has_no_streams: Option<Dated<()>>,
    /// Of a directory: the one that it lies in.
    pub(super) above: Option<Dated<Weak<Entry>>>,
    /// Of a directory: which names it has. They change with its metadata.
    pub(super) names: Option<Dated<Weak<[Listed]>>>,
    /// The kernel tells of it under this number.
    pub(super) watch: Option<Watch>,
}

/// What the kernel was asked to tell of.
#[derive(Clone, Copy)]
pub(super) struct Watch {
    pub(super) number: i32,
    /// Changes of data, too.
    pub(super) with_data: bool,
}

/// Something and when it was asked for.
pub(super) struct Dated<T> {
    what: T,
    asked: Instant,
}

impl<T> Dated<T> {
    pub(super) fn new(what: T, asked: Instant) -> Self {
        Dated { what, asked }
    }
}

impl Entry {
    pub(super) fn new(
        (identity, kind, birth): (Identity, Kind, Option<Time>),
        (told_by, charge): (ToldBy, u64),
        era: u64,
        number: u64,
    ) -> Self {
        Entry {
            identity,
            kind,
            birth,
            told_by,
            charge,
            era,
            is_alive: AtomicBool::new(true),
            names: Numbers { found: AtomicU64::new(number), missing: AtomicU64::new(number) },
            facts: Mutex::default(),
        }
    }

    /// True where it may be believed in this era.
    pub(super) fn is_alive(&self, era: u64) -> bool {
        self.is_alive.load(Ordering::SeqCst) && self.era == era
    }

    /// True where it is that file and no other which had its number.
    pub(super) fn is_of(&self, birth: Option<Time>) -> bool {
        self.birth == birth
    }

    /// The numbers under which names that are in it are known, and names that are not.
    pub(super) fn names(&self) -> (u64, u64) {
        (self.names.found.load(Ordering::SeqCst), self.names.missing.load(Ordering::SeqCst))
    }

    /// What is known of the names in it is void.
    pub(super) fn renew_names(&self, number: u64) {
        self.names.found.store(number, Ordering::SeqCst);
        self.renew_missing(number);
    }

    /// What is known of names that are not in it is void.
    pub(super) fn renew_missing(&self, number: u64) {
        self.names.missing.store(number, Ordering::SeqCst);
    }

    /// Nothing is to be believed of it any more.
    pub(super) fn end(&self) {
        self.is_alive.store(false, Ordering::SeqCst);
        self.facts.lock().clear();
    }

    /// Whether what was asked for then may be believed.
    pub(super) fn holds(&self, asked: Instant, belief: Belief) -> bool {
        match (self.told_by, belief) {
            (ToldBy::Kernel, _) => asked.elapsed() < AGE_MAX,
            (ToldBy::Nobody, Belief::Lasting) => true,
            (ToldBy::Nobody, Belief::For(time)) => asked.elapsed() < time,
        }
    }

    /// What is known, where it may be believed.
    fn believed<'a, T>(&self, known: &'a Option<Dated<T>>, belief: Belief) -> Option<&'a T> {
        known.as_ref().filter(|known| self.holds(known.asked, belief)).map(|known| &known.what)
    }

    /// Its metadata for who has opened it by a name that begins with a dot, or by one that does not.
    pub(super) fn metadata(&self, dotted: bool, belief: Belief) -> Option<Metadata> {
        let facts = self.facts.lock();
        self.believed(&facts.metadata, belief).filter(|known| known.1 == dotted).map(|known| known.0)
    }

    /// Its stored security descriptor.
    pub(super) fn security(&self, belief: Belief) -> Option<Option<Arc<[u8]>>> {
        self.believed(&self.facts.lock().security, belief).cloned()
    }

    /// Its extended attributes.
    pub(super) fn extended(&self, belief: Belief) -> Option<Arc<[ExtendedAttribute]>> {
        self.believed(&self.facts.lock().extended, belief).cloned()
    }

    /// Of a directory: the one that it lies in, as long as that is known.
    pub(super) fn above(&self, belief: Belief) -> Option<Arc<Entry>> {
        self.believed(&self.facts.lock().above, belief)?.upgrade()
    }

    /// Of a directory: which names it has, as long as that is kept.
    pub(super) fn list(&self, belief: Belief) -> Option<Arc<[Listed]>> {
        self.believed(&self.facts.lock().names, belief)?.upgrade()
    }

    /// True where it is known to have no named stream.
    pub(super) fn has_no_streams(&self, belief: Belief) -> bool {
        self.believed(&self.facts.lock().has_no_streams, belief).is_some()
    }
}

/// Bytes that extended attributes take in memory.
pub(super) fn bytes_of(extended: &[ExtendedAttribute]) -> usize {
    // Two allocations beside the letters and values.
    let each = |(name, value): &ExtendedAttribute| name.len() + value.len() + size_of::<ExtendedAttribute>() + 32;
    extended.iter().map(each).sum()
}

impl Facts {
    pub(super) fn security_bytes(&self) -> usize {
        self.security.as_ref().and_then(|known| known.what.as_ref()).map_or(0, |security| security.len())
    }

    pub(super) fn extended_bytes(&self) -> usize {
        self.extended.as_ref().map_or(0, |known| bytes_of(&known.what))
    }

    /// Forgets times, length and names.
    pub(super) fn forget_metadata(&mut self) {
        (self.metadata, self.names) = (None, None);
    }

    /// Forgets everything but who tells of it.
    pub(super) fn clear(&mut self) {
        let watch = self.watch;
        *self = Facts { watch, ..Facts::default() };
    }
}
