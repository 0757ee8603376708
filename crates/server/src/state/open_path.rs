//! The path that an open stands by in its share, and who pays for its text.
//!
//! What an open costs has room for names of an ordinary length. What is longer is charged besides: to who opened the file, and after a rename
//! to who gave it that name, until no open has the name any more. So nobody's budget is used up by what others rename, and no rename fails
//! for what somebody else holds.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use store::SharePath;

use crate::resource::budget::Charge;
use crate::resource::budgets::UserBudgets;

/// Hears of each new name of an open.
pub(crate) trait NameFollower: Send + Sync {
    /// It has the name that its path tells now.
    fn moved(&self, path: &OpenPath);
}

/// Where an open's file stands now, and what of it is open. A rename changes it for all opens of a name.
pub(crate) struct OpenPath {
    path: Mutex<Arc<HeldPath>>,
    /// Empty for the file itself.
    stream: Mutex<String>,
    /// Where the open is found by its name, and which is to hear of each new one.
    follower: OnceLock<Arc<dyn NameFollower>>,
}

/// A path, once for all opens that were given it together.
pub(crate) struct HeldPath {
    path: SharePath,
    paid: OnceLock<Charge>,
}

impl OpenPath {
    /// The path of a new open of a file.
    #[cfg(test)]
    pub(crate) fn new(path: SharePath) -> Arc<Self> {
        OpenPath::of_stream(path, "")
    }

    /// The path of a new open of a stream, or of the file itself where that is empty; not paid for yet.
    pub(crate) fn of_stream(path: SharePath, stream: &str) -> Arc<Self> {
        let path = Mutex::new(HeldPath::paid_by(path, None));
        Arc::new(OpenPath { path, stream: Mutex::new(stream.to_owned()), follower: OnceLock::new() })
    }

    /// The stream's name as it is now.
    pub(crate) fn stream(&self) -> String {
        self.stream.lock().clone()
    }

    /// Its stream has another name.
    pub(crate) fn rename_stream(&self, to: &str) {
        to.clone_into(&mut self.stream.lock());
        self.tell_follower();
    }

    /// The name as a client's CREATE has it, the stream's behind a colon.
    pub(crate) fn name(&self) -> String {
        let path = self.now();
        match self.stream() {
            unnamed if unnamed.is_empty() => path.as_str().to_owned(),
            stream => format!("{}:{stream}", path.as_str()),
        }
    }

    /// Has `follower` hear of each new name from now on.
    pub(crate) fn is_followed_by(&self, follower: Arc<dyn NameFollower>) {
        self.follower.get_or_init(|| follower);
    }

    fn tell_follower(&self) {
        if let Some(follower) = self.follower.get() {
            follower.moved(self);
        }
    }

    /// Pays for the path of a new open. Where it was renamed meanwhile, somebody has.
    pub(crate) fn pay(&self, charge: Charge) {
        // What is not needed is given back.
        let _ = self.path.lock().paid.set(charge);
    }

    /// The path as it is now.
    pub(crate) fn now(&self) -> Arc<HeldPath> {
        Arc::clone(&self.path.lock())
    }

    /// Has the open stand at `to`, where it stands at `from`.
    pub(crate) fn rename(&self, from: &SharePath, to: &Arc<HeldPath>) {
        let moves = {
            let mut path = self.path.lock();
            let moves = path.path == *from;
            if moves {
                *path = Arc::clone(to);
            }
            moves
        };
        if moves {
            self.tell_follower();
        }
    }
}

impl HeldPath {
    /// A path that files are given by a rename; `None` where who renames has no bytes left for it.
    pub(crate) fn charged(path: SharePath, renamer: &UserBudgets) -> Option<Arc<Self>> {
        let charge = renamer.names(bytes_of(&path))?;
        Some(HeldPath::paid_by(path, Some(charge)))
    }

    /// The same of a file that was renamed already.
    pub(crate) fn charged_anyway(path: SharePath, renamer: &UserBudgets) -> Arc<Self> {
        let charge = renamer.names_anyway(bytes_of(&path));
        HeldPath::paid_by(path, Some(charge))
    }

    fn paid_by(path: SharePath, charge: Option<Charge>) -> Arc<Self> {
        Arc::new(HeldPath { path, paid: charge.map_or_else(OnceLock::new, OnceLock::from) })
    }
}

impl Deref for HeldPath {
    type Target = SharePath;

    fn deref(&self) -> &SharePath {
        &self.path
    }
}

/// Bytes of the names that are kept for an open at `path`: that, and in the table of files its last name once more where the file has several.
pub(crate) fn bytes_of(path: &SharePath) -> u64 {
    (path.as_str().len() + path.name().map_or(0, str::len)) as u64
}
