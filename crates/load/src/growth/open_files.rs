//! Against open files.

use std::path::Path;

use ::client::{Access, Disposition, Error, File, OpenOptions, Session, Tree};
use futures_util::{StreamExt, TryStreamExt, stream};

use super::{Bench, Curve, Steps, failed, session};
use crate::compare::Watch;
use crate::compare::servers::Server;
use crate::engine::{Failure, Stop};

/// Opens on their way at once.
const OPENING: usize = 64;
/// Files that one session opens: half of what the server lets a session have, so that no limit is near.
const OPENS_OF_SESSION: usize = 32_768;
const FOLDER: &str = "open";
const DESCRIPTION: &str = "Opens of so many different files of one directory, which were made before and are empty, beside one file that is \
                           not counted. A session has at most 32,768 of them. Memory is the server's proportional set size, the files \
                           themselves included at every step. CPU time each is what opening costs; CPU time of a read is that of \
                           another session, with 16 reads of 4 KiB in flight on a file in memory.";

pub(super) async fn curve(program: &Path, steps: &Steps, watch: &dyn Watch, stop: &Stop) -> Result<Curve, Failure> {
    let most = steps.open_files.last().copied().unwrap_or(0);
    let bench = Bench::start(program, most, steps, watch, stop).await?;
    watch.note(&format!("making {most} files"));
    let sharers = Sharers::sign_in(&bench.server, most).await.map_err(|error| failed(&error))?;
    sharers.make_files(most, stop).await.map_err(|error| failed(&error))?;
    let mut curve = Curve::new(DESCRIPTION);
    let mut open = Vec::new();
    for count in steps.open_files.iter().copied() {
        let before = open.len();
        let step = bench.step("open files", before, count, sharers.open_files(&mut open, count)).await;
        if !curve.take(step) {
            break;
        }
    }
    Ok(curve)
}

/// The sessions that share the opens.
struct Sharers {
    first: Tree,
    others: Vec<Tree>,
    _sessions: Vec<Session>,
}

impl Sharers {
    async fn sign_in(server: &Server, files: usize) -> Result<Self, Error> {
        let session_of_first = session(server).await?;
        let first = session_of_first.tree(&server.mount.share).await?;
        let (mut others, mut sessions) = (Vec::new(), vec![session_of_first]);
        for _ in 1..files.div_ceil(OPENS_OF_SESSION) {
            let session = session(server).await?;
            others.push(session.tree(&server.mount.share).await?);
            sessions.push(session);
        }
        Ok(Sharers { first, others, _sessions: sessions })
    }

    async fn make_files(&self, count: usize, stop: &Stop) -> Result<(), Error> {
        self.first.make_directory(FOLDER).await?;
        let make = async |number| match stop.is_asked() {
            true => Ok(()),
            false => self.open(number, Access::Write, Disposition::Create).await?.close().await,
        };
        stream::iter(0..count).map(make).buffer_unordered(OPENING).try_collect().await
    }

    /// Opens more, until there are `count`.
    async fn open_files(&self, open: &mut Vec<File>, count: usize) -> Result<(), Error> {
        let more = stream::iter(open.len()..count).map(|number| self.open(number, Access::Read, Disposition::Open));
        open.extend(more.buffer_unordered(OPENING).try_collect::<Vec<File>>().await?);
        Ok(())
    }

    async fn open(&self, number: usize, access: Access, disposition: Disposition) -> Result<File, Error> {
        let options = OpenOptions { access, disposition, directory: Some(false), ..OpenOptions::default() };
        let other = (number / OPENS_OF_SESSION).checked_sub(1).and_then(|other| self.others.get(other));
        let tree = other.unwrap_or(&self.first);
        tree.open(&format!("{FOLDER}\\{number}"), options).await
    }
}
