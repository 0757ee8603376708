//! A disk that is slower than the network: a RAM disk of the same server tells, as nothing but the disk differs.

use std::time::{Duration, Instant};

use client::{Access, Disposition, Error, File, OpenOptions, Tree};

use super::Finding;
use super::facts::{Facts, Rates, Written};
use crate::figures;

const CHECK: &str = "disk";
/// Below this part of what the network gives, the disk is what holds writes back.
const SLOWER: f64 = 0.5;
/// The test file's length, unless writing it takes longer than [`WRITE_TIME`].
const FILE_BYTES: u64 = 64 << 20;
const WRITE_TIME: Duration = Duration::from_secs(5);
/// The test file's name, with a dot so that people do not see it.
const NAME: &str = ".multilane-doctor-test";

pub(crate) fn findings(facts: &Facts) -> Vec<Finding> {
    let Some(server) = &facts.server else { return Vec::new() };
    let Some(written) = &server.written else {
        return vec![Finding::remark(
            CHECK,
            "Whether the disk is slower than the network could not be told: nothing is written without --write-test.",
            "no file was written".into(),
        )];
    };
    vec![judge(written)]
}

fn judge(written: &Written) -> Finding {
    let Written { bytes, share, ram } = written;
    let of = |name: &str, write: f64, read: f64| {
        format!("{name}: written and flushed {}, read back {}", figures::rate(write), figures::rate(read))
    };
    let mut evidence = format!("{}; {}", figures::bytes(*bytes), of("share", share.write, share.read));
    let other = match ram {
        Some(ram) => {
            evidence = format!("{evidence}; {}", of("RAM disk", ram.write, ram.read));
            ram.write
        }
        // Read back from the server's memory: as fast as the network gives.
        None => share.read,
    };
    match share.write < other * SLOWER {
        true => Finding::problem(
            CHECK,
            "The disk of the share is slower than the network: neither channels nor cards make writes faster.",
            evidence,
            "a faster disk, or a share on several; to see the disk alone, on the server: fio --name=w --rw=write --bs=1M --size=1G --end_fsync=1",
        ),
        false => Finding::fine(CHECK, "The disk of the share keeps up with the network.", evidence),
    }
}

/// Writes a file to a share, and to a RAM disk where there is one, and reads it back. The file goes when its last open is closed, even
/// if that is because this program was killed.
pub(crate) async fn write(tree: &Tree, ram: Option<&Tree>) -> Result<Written, Error> {
    let (bytes, share) = rates(tree).await?;
    let ram = match ram {
        Some(ram) => Some(rates(ram).await?.1),
        None => None,
    };
    Ok(Written { bytes, share, ram })
}

async fn rates(tree: &Tree) -> Result<(u64, Rates), Error> {
    let make = OpenOptions {
        access: Access::Write,
        disposition: Disposition::Create,
        directory: Some(false),
        ..OpenOptions::default()
    };
    // Two doctors at once do not meet.
    let name = format!("{NAME}-{}", std::process::id());
    let file = tree.open(&name, make).await?;
    let measured = match tree.open(&name, OpenOptions { access: Access::Delete, ..OpenOptions::default() }).await {
        Ok(remover) => {
            let measured = match remover.delete_on_close().await {
                Ok(()) => measure(&file).await,
                Err(error) => Err(error),
            };
            remover.close().await.and(measured)
        }
        Err(error) => Err(error),
    };
    file.close().await.and(measured)
}

async fn measure(file: &File) -> Result<(u64, Rates), Error> {
    let begun = Instant::now();
    let give = |at: u64, buffer: &mut [u8]| {
        let is_over = at >= FILE_BYTES || begun.elapsed() >= WRITE_TIME;
        // Not zeros: a disk may take those for nothing.
        buffer.iter_mut().enumerate().for_each(|(place, byte)| *byte = (place as u64 ^ at >> 12) as u8);
        Ok::<_, Error>(if is_over { 0 } else { buffer.len() })
    };
    let bytes = file.write_range(0, give).await?;
    file.flush().await?;
    let write = bytes as f64 / begun.elapsed().as_secs_f64().max(1e-6);
    let begun = Instant::now();
    let read_bytes = file.read_range(0, bytes, |_, _| Ok::<_, Error>(())).await?;
    let read = read_bytes as f64 / begun.elapsed().as_secs_f64().max(1e-6);
    Ok((bytes, Rates { write, read }))
}
