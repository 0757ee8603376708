//! Shares whose disk does not answer, as a frozen file system's does not.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::opening::FLUSH_WITHIN;
use super::{Ask, Asked, Operation, Service};
use crate::failure::{Code, Failure};

/// For how long a copy may get no further where its disk does not answer: what was copied is brought to the disk at the end, which takes as long as it takes.
const COPY_WITHIN: Duration = Duration::from_secs(600);
/// How often it is looked whether a disk answers again.
const LOOK_EVERY: Duration = Duration::from_secs(2);

impl Service {
    /// Blames a share's disk, and no SMB client, where a file was not opened in time and that disk does not answer.
    pub(super) fn of_disk(&self, ask: &Ask, failure: Failure) -> Failure {
        let source = ask.source.as_ref().and_then(|source| source.target.share.as_deref());
        let shares = [ask.target.share.as_deref(), source];
        if failure.code == Code::ClientCacheFlushDelay && self.hangs(shares) { Failure::of_disk() } else { failure }
    }

    /// What whoever asks for this is told once the disk of a share that it is about has not answered for as long as an open may take, and nothing of it was
    /// done: it goes on when that answers again.
    pub(crate) async fn given_up(&self, asked: &Asked, operation: Operation) -> Failure {
        let patience = if operation == Operation::CopyFile { COPY_WITHIN } else { FLUSH_WITHIN };
        // Most requests are done by then.
        sleep(LOOK_EVERY).await;
        let source = asked.prove(&self.catalog).ok().and_then(|proof| proof.source);
        let source = source.and_then(|source| source.target.share);
        let shares = [asked.target.share.as_deref(), source.as_deref()];
        let mut hangs_since: Option<Instant> = None;
        loop {
            hangs_since = self.hangs(shares).then(|| hangs_since.unwrap_or_else(Instant::now));
            let got_on = asked.held.running().map(|running| running.got_on());
            let stuck = hangs_since.map(|since| got_on.map_or(since, |got_on| since.max(got_on)).elapsed());
            if stuck.is_some_and(|stuck| stuck >= patience) {
                return Failure::of_disk();
            }
            sleep(LOOK_EVERY).await;
        }
    }

    fn hangs(&self, shares: [Option<&str>; 2]) -> bool {
        shares.into_iter().flatten().any(|share| self.operations.disk_hangs(share))
    }
}
