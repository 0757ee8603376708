//! Makes files whose blocks are all there, so that reads meet data.

use std::collections::HashMap;

use client::{Access, Disposition, File, OpenOptions, Tree};
use fastrand::Rng;
use futures_util::{StreamExt, stream};
use parking_lot::Mutex;

use crate::engine::{Failure, Stop, Watch};
use crate::profile::{PrecreateFiles, Profile, Target};

/// Files that are filled at the same time.
const FILLED_AT_ONCE: usize = 4;
/// Random bytes that files are filled with, from different places on.
const FILL_BYTES: usize = 4 << 20;

/// A file to make.
pub(super) struct Wanted {
    pub(super) tree: Tree,
    pub(super) name: String,
    pub(super) bytes: u64,
}

/// Why a file was not made.
pub(super) enum Cut {
    /// The end was asked for.
    Stopped,
    /// Something failed.
    Failed(Failure),
}

impl From<Failure> for Cut {
    fn from(failure: Failure) -> Self {
        Cut::Failed(failure)
    }
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

/// Makes all of them, some at a time. Where one fails the others end, too.
pub(super) async fn make_all(wanted: Vec<Wanted>, watch: &dyn Watch, stop: &Stop) -> Result<(), Cut> {
    if wanted.is_empty() {
        return Ok(());
    }
    let mut fill = vec![0; FILL_BYTES];
    Rng::with_seed(0).fill(&mut fill);
    let making = Making { fill, watch, stop, failure: Mutex::new(None) };
    let made: Vec<bool> =
        stream::iter(wanted).map(|wanted| making.make(wanted)).buffer_unordered(FILLED_AT_ONCE).collect().await;
    match making.failure.into_inner() {
        Some(failure) => Err(failure.into()),
        None if made.contains(&false) => Err(Cut::Stopped),
        None => Ok(()),
    }
}

/// Files that are being made.
struct Making<'a> {
    fill: Vec<u8>,
    watch: &'a dyn Watch,
    stop: &'a Stop,
    /// The first one.
    failure: Mutex<Option<Failure>>,
}

impl Making<'_> {
    /// Whether a file was made, or was there already.
    async fn make(&self, wanted: Wanted) -> bool {
        if self.is_over() {
            return false;
        }
        let name = wanted.name.clone();
        match self.open_and_fill(wanted).await {
            Ok(()) => true,
            Err(Ended::Stopped) => false,
            Err(Ended::Client(error)) => {
                self.failure.lock().get_or_insert_with(|| Failure::of(&format!("cannot make {name}"), &error));
                false
            }
        }
    }

    fn is_over(&self) -> bool {
        self.stop.is_asked() || self.failure.lock().is_some()
    }

    /// A file of that length whose blocks are all there is left as it is. One that was not there before is gone again where it could not
    /// be filled.
    async fn open_and_fill(&self, Wanted { tree, name, bytes }: Wanted) -> Result<(), Ended> {
        let disposition = Disposition::OpenOrCreate;
        let options =
            OpenOptions { access: Access::Write, disposition, directory: Some(false), ..OpenOptions::default() };
        let file = tree.open(&name, options).await?;
        let facts = file.facts();
        if facts.end_of_file != bytes || facts.allocation < bytes {
            self.watch.note(&format!("making {name}, {bytes} bytes"));
            if let Err(ended) = self.fill(&file, bytes).await {
                let is_new = file.is_new();
                // What kept it from being made is what is told, and may keep it from being removed, too.
                let _ = file.close().await;
                if is_new {
                    let _ = tree.remove(&name).await;
                }
                return Err(ended);
            }
        }
        Ok(file.close().await?)
    }

    async fn fill(&self, file: &File, bytes: u64) -> Result<(), Ended> {
        file.set_length(bytes).await?;
        let give = |at: u64, buffer: &mut [u8]| match self.is_over() {
            true => Err(Ended::Stopped),
            false => Ok(piece(&self.fill, at, bytes - at, buffer)),
        };
        file.write_range(0, give).await.map(drop)
    }
}

/// Fills a buffer for the bytes from `at` on, of which there are `rest`; gives their number.
fn piece(fill: &[u8], at: u64, rest: u64, buffer: &mut [u8]) -> usize {
    let length = buffer.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
    // Divided by a prime, so that the same blocks do not come again at once.
    let mut from = (at as usize / 4093) % fill.len();
    for part in buffer[..length].chunks_mut(fill.len()) {
        let (left, right) = part.split_at_mut(part.len().min(fill.len() - from));
        left.copy_from_slice(&fill[from..from + left.len()]);
        right.copy_from_slice(&fill[..right.len()]);
        from = right.len();
    }
    length
}

/// The targets whose files are to be made before the first time span, with their lengths. The other files are made by each time span that
/// uses them.
pub(super) fn made_first(profile: &Profile) -> Vec<(&Target, u64)> {
    let mut lengths: HashMap<&str, Vec<Option<u64>>> = HashMap::new();
    let mut order = Vec::new();
    for target in profile.time_spans.iter().flat_map(|span| &span.targets) {
        let of_path = lengths.entry(&target.path).or_default();
        if of_path.is_empty() {
            order.push(target);
        }
        of_path.push(target.file_bytes);
    }
    let chosen = |target: &&Target| length_of(&lengths[&target.path[..]], profile.precreate_files);
    order.iter().filter_map(|target| chosen(target).map(|bytes| (*target, bytes))).collect()
}

/// The length that a file is made with before it is used, from those that targets want.
fn length_of(wanted: &[Option<u64>], rule: PrecreateFiles) -> Option<u64> {
    let most = wanted.iter().copied().flatten().max()?;
    let is_constant = wanted.iter().all(|bytes| *bytes == Some(most));
    let is_constant_or_none = wanted.iter().flatten().all(|bytes| *bytes == most);
    let is_made = match rule {
        PrecreateFiles::None => false,
        PrecreateFiles::OnlyFilesWithConstantSizes => is_constant,
        PrecreateFiles::OnlyFilesWithConstantOrZeroSizes => is_constant_or_none,
        PrecreateFiles::UseMaxSize => true,
    };
    is_made.then_some(most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::TimeSpan;

    #[test]
    fn a_piece_is_as_long_as_what_is_left() {
        let fill: Vec<u8> = (0..=255).collect();
        let mut buffer = vec![0; 1000];
        assert_eq!(piece(&fill, 0, 10_000, &mut buffer), 1000);
        assert!(buffer.chunks(2).all(|pair| pair[1] == pair[0] + 1));
        assert_eq!(piece(&fill, 4093 * 3, 7, &mut buffer), 7);
        assert_eq!(buffer[..8], [3, 4, 5, 6, 7, 8, 9, 7]);
    }

    #[test]
    fn files_are_made_first_by_the_profiles_rule() {
        let span = |targets: &[(&str, Option<u64>)]| TimeSpan {
            targets: targets
                .iter()
                .map(|(path, file_bytes)| Target { file_bytes: *file_bytes, ..Target::new(*path) })
                .collect(),
            ..TimeSpan::default()
        };
        let time_spans = vec![
            span(&[("same", Some(5)), ("or none", Some(7)), ("grows", Some(1)), ("none", None)]),
            span(&[("same", Some(5)), ("or none", None), ("grows", Some(9))]),
        ];
        let mut profile = Profile { time_spans, ..Profile::default() };
        let mut made = |rule| {
            profile.precreate_files = rule;
            made_first(&profile).iter().map(|(target, bytes)| format!("{} {bytes}", target.path)).collect::<Vec<_>>()
        };
        assert!(made(PrecreateFiles::None).is_empty());
        assert_eq!(made(PrecreateFiles::OnlyFilesWithConstantSizes), ["same 5"]);
        assert_eq!(made(PrecreateFiles::OnlyFilesWithConstantOrZeroSizes), ["same 5", "or none 7"]);
        assert_eq!(made(PrecreateFiles::UseMaxSize), ["same 5", "or none 7", "grows 9"]);
    }
}
