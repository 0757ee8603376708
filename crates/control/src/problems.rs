//! Problems of shares that the running server alone sees: a disk that does not answer. For all who show problems.

use server::admin::{Admin, ShareView};

use crate::{KnownCatalog, Problem};

impl KnownCatalog {
    /// All problems of shares: those of [`KnownCatalog::problems`], and disks that do not answer.
    pub fn problems_of(&self, server: &dyn Admin) -> Vec<Problem> {
        [&*self.problems(), &hanging(server)].concat()
    }
}

/// Those of shares whose disks do not answer.
pub(crate) fn hanging(server: &dyn Admin) -> Vec<Problem> {
    server.shares().iter().filter_map(of_share).collect()
}

fn of_share(share: &ShareView) -> Option<Problem> {
    let waits = share.waits.filter(|waits| waits.hangs())?;
    let problem = format!(
        "its disk does not answer: requests wait for it, {} of them, the first for {} s now",
        waits.count,
        waits.longest.as_secs()
    );
    Some(Problem { share: share.name.clone(), problem, served: true })
}
