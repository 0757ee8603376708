//! Files that are copied as `multilane cp` does it: written under another name, which they lose through the open that wrote them. What has its
//! name in the end is whole, whatever lost channels deliver late.

use std::sync::Arc;
use std::time::Duration;

use client::{Access, Disposition, Error, OpenOptions, Sharing, Tree};
use store::Store;
use tokio::time::sleep;

use super::files::{options, stored};
use crate::chance::Chance;

const ROUNDS: usize = 5;
const BYTES_MAX: u64 = 200 << 10;
/// Files that are there in the end.
pub(super) const LEFT: usize = ROUNDS;

/// Copies some files, of which some were begun before. What comes late may come while they are written, which takes `pause_max` milliseconds at most.
pub(super) async fn copies(tree: &Tree, store: &Arc<dyn Store>, chance: &Chance, durable: bool, pause_max: u64) {
    for round in 0..ROUNDS {
        let (part, name) = (format!(".copy{round}.part"), name(round));
        if chance.percent(50) {
            let begun = tree.open(&part, options(Access::Write, Disposition::Create, durable)).await.unwrap();
            begun.write(0, vec![0xEE; chance.below(BYTES_MAX) as usize]).await.unwrap();
            begun.close().await.unwrap();
        }
        // Whoever shares more is as safe, for no open empties a file when it is made.
        let sharing = if chance.percent(50) { Sharing::Reading } else { Sharing::Everything };
        let made = OpenOptions { sharing, ..options(Access::WriteAndDelete, Disposition::Overwrite, durable) };
        loop {
            let pause = Duration::from_millis(chance.below(pause_max));
            match copy(tree, &part, made, &name, &content(round), pause).await {
                // Its name was changed when every connection was lost, and nobody knew: it is begun anew.
                Err(Error::OpenLost(_)) if durable => {}
                copied => break copied.unwrap(),
            }
        }
        sleep(Duration::from_millis(chance.below(200))).await;
    }
    check(store);
}

async fn copy(
    tree: &Tree,
    part: &str,
    made: OpenOptions,
    name: &str,
    data: &[u8],
    pause: Duration,
) -> Result<(), Error> {
    let file = tree.open(part, made).await?;
    file.write(0, data.to_vec()).await?;
    sleep(pause).await;
    file.rename(name, true).await?;
    if let Some(there) = file.close_and_look().await? {
        assert_eq!(there.end_of_file, data.len() as u64);
    }
    Ok(())
}

/// Every file is whole.
pub(super) fn check(store: &Arc<dyn Store>) {
    for round in 0..ROUNDS {
        let (name, expected) = (name(round), content(round));
        let node = stored(store, &name).expect("it was copied");
        let mut data = vec![0; expected.len() + 1];
        let count = node.read_at(&mut data, 0).unwrap();
        assert!(data[..count] == expected, "{name}: {count} bytes of {}", expected.len());
    }
}

fn name(round: usize) -> String {
    format!("copy{round}")
}

fn content(round: usize) -> Vec<u8> {
    vec![round as u8 + 1; 1 + round * BYTES_MAX as usize / ROUNDS]
}
