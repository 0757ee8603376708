//! A second client, whose own link is never cut, wants what the first keeps open under a lease: it is told the outcome as soon as the
//! first has answered the break, and never because time ran out.

use std::time::Duration;

use client::{Access, Disposition, OpenOptions, Sharing, Status, Tree};
use tokio::time::{Instant, sleep};

use super::files::options;
use crate::chance::Chance;

const ROUNDS: usize = 4;
/// The server waits 35 seconds for an answer that does not come.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

/// The holder opens one file after the other, and the rival wants it for itself.
pub(super) async fn contend(holder: &Tree, rival: &Tree, chance: &Chance) {
    for round in 0..ROUNDS {
        let name = format!("wanted{round}");
        let held = holder.open(&name, options(Access::Write, Disposition::Create, true)).await.unwrap();
        sleep(Duration::from_millis(chance.below(700))).await;
        let began = Instant::now();
        let alone = OpenOptions { sharing: Sharing::Nothing, ..options(Access::Read, Disposition::Open, false) };
        let refused = rival.open(&name, alone).await.err().expect("it is open");
        assert_eq!(refused.status(), Some(Status::SHARING_VIOLATION));
        assert!(began.elapsed() < ANSWERED_WITHIN, "the break was answered after {:?}", began.elapsed());
        held.close().await.unwrap();
    }
}
pub(super) const LEFT: usize = ROUNDS;
