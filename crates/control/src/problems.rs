//! Problems of shares that the running server alone sees: a disk that does not answer. For all who show problems.

use server::admin::{Admin, ShareView};

use crate::{KnownCatalog, Problem};

/// How the problem of a share begins whose disk does not answer.
const DISK_HANGS: &str = "its disk does not answer";

impl Problem {
    /// True where it is that a disk does not answer: everything else is as it should be.
    pub fn is_disk_that_hangs(&self) -> bool {
        self.problem.starts_with(DISK_HANGS)
    }
}

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
    let wait = if waits.count == 1 { "one request waits".to_owned() } else { format!("{} requests wait", waits.count) };
    let problem = format!("{DISK_HANGS}: {wait} for it, the first for {} s now", waits.longest.as_secs());
    Some(Problem { share: share.name.clone(), problem, served: true })
}
