//! Files as a time span wants them: made and filled where it says so, and long enough.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use client::{Access, Disposition, OpenOptions, Scan, Status, Tree};
use fastrand::Rng;
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::engine::content::{Content, Contents};
use crate::engine::mounts::Mounts;
use crate::engine::offsets::Region;
use crate::engine::{Failure, Places, Stop, Watch};
use crate::profile::{SoftwareCache, Target, TimeSpan};

/// Files that are filled at the same time.
const FILLED_AT_ONCE: usize = 4;
/// Random bytes that files are filled with, from different places on.
const FILL_BYTES: usize = 4 << 20;

/// A target that is ready to be used. All of its threads share it.
pub(super) struct Ready {
    pub(super) target: Target,
    pub(super) name: String,
    pub(super) tree: Tree,
    pub(super) file_bytes: u64,
    pub(super) region: Region,
    pub(super) content: Content,
    /// Where the threads are that go through the target together.
    pub(super) position: AtomicU64,
}

/// Prepares all targets of a time span; `None` where the end is asked for meanwhile.
pub(super) async fn prepare(
    span: &TimeSpan,
    places: &dyn Places,
    mounts: &mut Mounts,
    watch: &dyn Watch,
    stop: &Stop,
) -> Result<Option<Vec<Arc<Ready>>>, Failure> {
    let mut files = Vec::with_capacity(span.targets.len());
    for target in &span.targets {
        let refused = |what: String| Failure { what, remedy: "name another target".to_owned() };
        let place = places.place(&target.path).map_err(refused)?;
        let tree = mounts.tree(&place.mount, watch).await?;
        files.push((target, tree, place.name));
    }
    let wanted = wanted(&files);
    let fill = fill(span.random_seed);
    let made = stream::iter(wanted).map(|(tree, name, bytes)| make(tree, name, bytes, &fill, watch, stop));
    let made: Result<Vec<()>, Cut> = made.buffer_unordered(FILLED_AT_ONCE).try_collect().await;
    match made {
        Ok(_) => {}
        Err(Cut::Stopped) => return Ok(None),
        Err(Cut::Failed(failure)) => return Err(failure),
    }
    let mut contents = Contents::default();
    let mut ready = Vec::with_capacity(files.len());
    for (target, tree, name) in files {
        let facts = tree.facts(&name).await.map_err(|error| unopened(&target.path, &error))?;
        let file_bytes = facts.end_of_file;
        let region = Region::of(target, file_bytes).map_err(|why| too_short(target, &why))?;
        let content = contents.of(span, &target.write_content, target.block_bytes)?;
        let position = AtomicU64::new(0);
        ready.push(Arc::new(Ready { target: target.clone(), name, tree, file_bytes, region, content, position }));
    }
    Ok(Some(ready))
}

/// How a thread opens a target.
pub(super) fn options(target: &Target) -> OpenOptions {
    let scan = match (target.hints.sequential, target.hints.random) {
        (true, false) => Scan::Sequential,
        (false, true) => Scan::Random,
        (true, true) | (false, false) => Scan::Unknown,
    };
    OpenOptions {
        access: if target.write_percent > 0 { Access::Write } else { Access::Read },
        directory: Some(false),
        write_through: target.caching.write_through,
        unbuffered: target.caching.software == SoftwareCache::Off,
        scan,
        ..OpenOptions::default()
    }
}

/// What happened when a target was opened.
pub(super) fn unopened(path: &str, error: &client::Error) -> Failure {
    match error.status() {
        Some(Status::OBJECT_NAME_NOT_FOUND) => Failure {
            what: format!("{path}: there is no such file"),
            remedy: "check the path, or have the file made with -c<size>".to_owned(),
        },
        Some(_) | None => Failure::of(path, error),
    }
}

fn too_short(target: &Target, why: &str) -> Failure {
    let remedy = match target.file_bytes {
        Some(_) => "make it larger with -c<size>, or use smaller blocks with -b<size>",
        None => "have it made anew with -c<size>, or use smaller blocks with -b<size>",
    };
    Failure { what: format!("{}: {why}", target.path), remedy: remedy.to_owned() }
}

/// The files to make, each once, with the greatest length that a target wants.
fn wanted(files: &[(&Target, Tree, String)]) -> Vec<(Tree, String, u64)> {
    let mut wanted: Vec<(&str, Tree, &String, u64)> = Vec::new();
    for (target, tree, name) in files {
        let Some(bytes) = target.file_bytes else { continue };
        match wanted.iter_mut().find(|(path, ..)| *path == target.path) {
            Some((.., most)) => *most = bytes.max(*most),
            None => wanted.push((&target.path, tree.clone(), name, bytes)),
        }
    }
    wanted.into_iter().map(|(_, tree, name, bytes)| (tree, name.clone(), bytes)).collect()
}

fn fill(seed: u64) -> Vec<u8> {
    let mut fill = vec![0; FILL_BYTES];
    Rng::with_seed(seed).fill(&mut fill);
    fill
}

/// Why a file was not made.
enum Cut {
    Stopped,
    Failed(Failure),
}

/// Why filling ended.
enum Ended {
    Stopped,
    Client(client::Error),
}

impl From<client::Error> for Ended {
    fn from(error: client::Error) -> Self {
        Ended::Client(error)
    }
}

/// Makes a file of this length whose blocks are all there, so that reads meet data. One that is so already is left as it is.
async fn make(tree: Tree, name: String, bytes: u64, fill: &[u8], watch: &dyn Watch, stop: &Stop) -> Result<(), Cut> {
    let failed = |error: client::Error| Cut::Failed(Failure::of(&format!("cannot make {name}"), &error));
    let disposition = Disposition::OpenOrCreate;
    let options = OpenOptions { access: Access::Write, disposition, directory: Some(false), ..OpenOptions::default() };
    let file = tree.open(&name, options).await.map_err(failed)?;
    let facts = file.facts();
    if facts.end_of_file != bytes || facts.allocation < bytes {
        watch.note(&format!("making {name}, {bytes} bytes"));
        file.set_length(bytes).await.map_err(failed)?;
        let give = |at: u64, buffer: &mut [u8]| match stop.is_asked() {
            true => Err(Ended::Stopped),
            false => Ok(piece(fill, at, bytes - at, buffer)),
        };
        match file.write_range(0, give).await {
            Ok(_) => {}
            Err(Ended::Stopped) => return Err(Cut::Stopped),
            Err(Ended::Client(error)) => return Err(failed(error)),
        }
    }
    file.close().await.map_err(failed)
}

/// Fills a buffer for the bytes from `at` on, of which there are `rest`; gives their number.
fn piece(fill: &[u8], at: u64, rest: u64, buffer: &mut [u8]) -> usize {
    let length = buffer.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
    // A prime, so that the same blocks do not come again at once.
    let mut from = (at as usize / 4093) % fill.len();
    for part in buffer[..length].chunks_mut(fill.len()) {
        let (left, right) = part.split_at_mut(part.len().min(fill.len() - from));
        left.copy_from_slice(&fill[from..from + left.len()]);
        right.copy_from_slice(&fill[..right.len()]);
        from = right.len();
    }
    length
}
