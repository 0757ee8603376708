//! Somebody who reads while others lie idle.

use std::time::{Duration, Instant};

use ::client::{Access, Disposition, Error, File, OpenOptions, Session};
use futures_util::future::try_join_all;

use super::session;
use crate::compare::servers::Server;

/// Room for this on the server's share.
pub(super) const SPARE_BYTES: u64 = FILE_BYTES as u64;
const FILE_BYTES: usize = 1 << 20;
const BLOCK_BYTES: usize = 4 << 10;
/// Reads in flight.
const DEPTH: usize = 16;
const NAME: &str = "read.dat";

/// One session with one file.
pub(super) struct Reader {
    file: File,
    _session: Session,
}

impl Reader {
    pub(super) async fn start(server: &Server) -> Result<Self, Error> {
        let session = session(server).await?;
        let tree = session.tree(&server.mount.share).await?;
        let options = OpenOptions {
            access: Access::Write,
            disposition: Disposition::OpenOrCreate,
            directory: Some(false),
            ..OpenOptions::default()
        };
        let file = tree.open(NAME, options).await?;
        file.write(0, vec![0x5a; FILE_BYTES]).await?;
        Ok(Reader { file, _session: session })
    }

    /// Reads random blocks for a while; gives how many.
    pub(super) async fn read_for(&self, duration: Duration) -> Result<u64, Error> {
        let until = Instant::now() + duration;
        let one_by_one = async |seed: usize| {
            let mut random = fastrand::Rng::with_seed(seed as u64);
            let mut count = 0;
            while Instant::now() < until {
                let block = random.usize(..FILE_BYTES / BLOCK_BYTES);
                self.file.read((block * BLOCK_BYTES) as u64, BLOCK_BYTES).await?;
                count += 1;
            }
            Ok::<u64, Error>(count)
        };
        Ok(try_join_all((0..DEPTH).map(one_by_one)).await?.into_iter().sum())
    }
}
