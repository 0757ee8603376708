//! Names that are made, changed and removed; each must be done exactly once.

use std::time::Duration;

use client::{Access, Disposition, Tree};
use tokio::time::sleep;

use super::files::options;
use crate::chance::Chance;

/// Of a run that does other things beside.
pub(super) const ROUNDS: usize = 8;

/// Names that are there after so many rounds.
pub(super) const fn left(rounds: usize) -> usize {
    rounds / 2
}

pub(super) async fn names(tree: &Tree, chance: &Chance, rounds: usize) {
    for round in 0..rounds {
        let (first, second) = (format!("name{round}"), format!("other{round}"));
        let made = tree.open(&first, options(Access::Write, Disposition::Create, false)).await.unwrap();
        made.write(0, first.clone()).await.unwrap();
        made.close().await.unwrap();
        tree.rename(&first, &second, false).await.unwrap();
        assert_eq!(tree.facts(&second).await.unwrap().end_of_file, first.len() as u64);
        if round % 2 == 0 {
            tree.remove(&second).await.unwrap();
        }
        sleep(Duration::from_millis(chance.below(200))).await;
    }
}

/// Makes names while every channel may go, with opens that the server keeps: what was made without an answer is known to be ours.
pub(super) async fn names_kept(tree: &Tree, chance: &Chance) {
    for round in 0..ROUNDS {
        let name = format!("kept{round}");
        let made = tree.open(&name, options(Access::Write, Disposition::Create, true)).await.unwrap();
        made.write(0, name).await.unwrap();
        made.close().await.unwrap();
        sleep(Duration::from_millis(chance.below(200))).await;
    }
}
pub(super) const KEPT: usize = ROUNDS;
