//! Side files that are about to go because their file names them no more. Until they are gone a mark leads to the file: where the server is killed in
//! between, those that it does not name go when the folder is served again.

use crate::Error;
use crate::directory::marks::Mark;
use crate::directory::side::{self, Removable};
use crate::directory::subject::Subject;

/// What is to go.
pub(super) struct Leaving<'a> {
    sides: Vec<Removable<'a>>,
    mark: Option<Mark>,
}

impl<'a> Leaving<'a> {
    /// To be called before nothing leads to them any more, with what is kept with the file locked until they are gone.
    pub(super) fn begin(subject: &Subject<'_>, sides: Vec<Removable<'a>>) -> Result<Self, Error> {
        let mark = if sides.is_empty() { None } else { Mark::leaving(subject)? };
        Ok(Leaving { sides, mark })
    }

    /// The same where the file names them after they have gone, too.
    pub(super) fn unmarked(sides: Vec<Removable<'a>>) -> Self {
        Leaving { sides, mark: None }
    }

    /// Nothing leads to them any more.
    pub(super) fn remove(self) {
        if !side::remove_all(&self.sides) {
            self.leave();
        }
    }

    /// Whether something leads to them cannot be told: that is seen when the folder is served again.
    pub(super) fn leave(self) {
        if let Some(mark) = self.mark {
            mark.leave();
        }
    }

    /// Removes the value at `key`, which names them, and then them.
    pub(super) fn remove_with(self, subject: &Subject<'_>, key: &str) -> Result<(), Error> {
        match subject.erase(key) {
            Ok(_) => {
                self.remove();
                Ok(())
            }
            Err(error) => {
                // What says that it failed may have been done.
                if !matches!(subject.load(key, &mut []), Ok(Some(_)) | Err(Error::TooLarge)) {
                    self.leave();
                }
                Err(error)
            }
        }
    }
}
