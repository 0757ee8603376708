//! A time span's targets made ready: files made where it says so, and long enough.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use client::{Access, OpenOptions, Scan, Status, Tree};

use crate::engine::content::{Content, Contents};
use crate::engine::files::{Cut, Wanted, made_first, make_all};
use crate::engine::offsets::{Region, Unfit};
use crate::engine::{Failure, Run};
use crate::profile::{Profile, SoftwareCache, Target, TimeSpan};

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

/// Makes the files that the profile wants before its first time span.
pub(super) async fn prepare_first(run: &mut Run<'_>, profile: &Profile) -> Result<(), Cut> {
    let mut wanted = Vec::new();
    for (target, bytes) in made_first(profile) {
        let (tree, name) = run.find(target).await?;
        run.made.insert(target.path.clone());
        wanted.push(Wanted { tree, name, bytes });
    }
    make_all(wanted, run.watch, run.stop).await
}

/// Prepares all targets of a time span.
pub(super) async fn prepare(run: &mut Run<'_>, span: &TimeSpan) -> Result<Vec<Arc<Ready>>, Cut> {
    let mut files = Vec::with_capacity(span.targets.len());
    for target in &span.targets {
        let (tree, name) = run.find(target).await?;
        files.push((target, tree, name));
    }
    make_all(wanted(&files, &run.made), run.watch, run.stop).await?;
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
    Ok(ready)
}

impl Run<'_> {
    /// The share and the name in it of a target.
    async fn find(&mut self, target: &Target) -> Result<(Tree, String), Failure> {
        let place = self.places.place(&target.path)?;
        Ok((self.mounts.tree(&place.mount, self.watch).await?, place.name))
    }
}

/// The files to make, each once, with the greatest length that a target wants, but for those that are made already.
fn wanted(files: &[(&Target, Tree, String)], made: &HashSet<String>) -> Vec<Wanted> {
    let mut wanted: Vec<(&str, Wanted)> = Vec::new();
    for (target, tree, name) in files.iter().filter(|(target, ..)| !made.contains(&target.path)) {
        let Some(bytes) = target.file_bytes else { continue };
        match wanted.iter_mut().find(|(path, _)| *path == target.path) {
            Some((_, wanted)) => wanted.bytes = bytes.max(wanted.bytes),
            None => wanted.push((&target.path, Wanted { tree: tree.clone(), name: name.clone(), bytes })),
        }
    }
    wanted.into_iter().map(|(_, wanted)| wanted).collect()
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

fn too_short(target: &Target, why: &Unfit) -> Failure {
    let remedy = match target.file_bytes {
        Some(_) => "make it larger with -c<size>, or use smaller blocks with -b<size>",
        None => "have it made anew with -c<size>, or use smaller blocks with -b<size>",
    };
    Failure { what: format!("{}: {why}", target.path), remedy: remedy.to_owned() }
}
