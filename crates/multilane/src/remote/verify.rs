//! `cp --verify`: both ends are read and compared, and what differs in the target is copied again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use ::client::{Access, Data, OpenOptions as RemoteOptions, Sharing};
use load::figures;
use rustix::fs::OFlags;

use super::copy::{Direction, Job, Stopped, changed, differs, is_same};
use super::part::Part;
use super::tree::{Item, unreadable, unwritable};
use crate::table::printable;

/// What is copied again at least, where a byte differs.
const BLOCK_BYTES: u64 = 64 << 10;
/// Pieces of one file that are told apart. Where more differ, what lies between the last ones is copied again, too.
const PIECES_MAX: usize = 4096;

/// Where a target is not what was copied.
#[derive(Debug, Default, PartialEq, Eq)]
struct Differences {
    /// In order, without overlap.
    pieces: Vec<Range<u64>>,
    /// The target has another length.
    length: bool,
}

impl Job {
    /// Compares a file's two ends, and copies again what differs; gives how many bytes that were. It is an error where it differs still.
    pub(super) async fn verify(&self, item: &Item) -> Result<u64, Stopped> {
        let found = self.differences(item).await?;
        if found == Differences::default() {
            return Ok(0);
        }
        let bytes = match self.direction {
            Direction::Down => self.mend_down(item, &found).await?,
            Direction::Up => self.mend_up(item, &found).await?,
        };
        if self.differences(item).await? != Differences::default() {
            return Err(differs(&item.path).into());
        }
        let (name, pieces) = (self.name(&item.path), found.pieces.len());
        self.progress.say(&format!(
            "mended: {}: {pieces} pieces differed, and {} were copied again",
            printable(&name),
            figures::bytes(bytes)
        ));
        // A target that was only too long counts, too.
        Ok(bytes.max(1))
    }

    /// Reads both ends. The source must still be what was copied.
    async fn differences(&self, item: &Item) -> Result<Differences, Stopped> {
        let path = self.local(&item.path);
        let here = File::open(&path).map_err(|cause| unreadable(&path, &cause))?;
        let known = here.metadata().map_err(|cause| unreadable(&path, &cause))?;
        let there = self.tree.open(&self.remote(&item.path), RemoteOptions::default()).await?;
        let facts = there.facts();
        let modified = known.modified().unwrap_or(SystemTime::UNIX_EPOCH).into();
        let (is_source, target_bytes) = match self.direction {
            Direction::Down => (is_same(item, facts.end_of_file, facts.written), known.len()),
            Direction::Up => (is_same(item, known.len(), modified), facts.end_of_file),
        };
        let mut found = Differences { length: target_bytes != item.bytes, ..Differences::default() };
        let mut buffer = Vec::new();
        let take = |at: u64, data: &Data| {
            buffer.resize(data.len(), 0);
            let count = read_up_to(&here, &mut buffer, at).map_err(|cause| unreadable(&path, &cause))?;
            found.compare(at, data, buffer.get(..count).unwrap_or_default());
            Ok::<_, Stopped>(())
        };
        let read = there.read_range(0, item.bytes, take).await;
        let closed = there.close().await;
        read?;
        closed?;
        if !is_source {
            return Err(changed(&item.path).into());
        }
        // What is not there was not read.
        found.pieces.push(facts.end_of_file.min(item.bytes)..item.bytes);
        found.settle(item.bytes);
        Ok(found)
    }

    async fn mend_down(&self, item: &Item, found: &Differences) -> Result<u64, Stopped> {
        let path = self.local(&item.path);
        // What has the name may be somebody else's file by another: a new file takes its place.
        let part = Part::of(&path)?;
        let copied = open_itself(&path).and_then(|mut old| io::copy(&mut old, &mut &part.file));
        copied.map_err(|cause| unwritable(&part.path, &cause))?;
        let into = &part.file;
        let from = self.tree.open(&self.remote(&item.path), RemoteOptions::default()).await?;
        let mut bytes = 0;
        for piece in &found.pieces {
            let take = |at: u64, data: &Data| {
                into.write_all_at(data, at).map_err(|cause| Stopped::from(unwritable(&path, &cause)))
            };
            bytes += from.read_range(piece.start, piece.end - piece.start, take).await?;
        }
        from.close().await?;
        let (seconds, nanoseconds) = item.written.to_unix();
        let written = SystemTime::UNIX_EPOCH + Duration::new(u64::try_from(seconds).unwrap_or(0), nanoseconds);
        into.set_len(item.bytes)
            .and_then(|()| into.set_modified(written))
            .map_err(|cause| unwritable(&part.path, &cause))?;
        part.rename(&path)?;
        Ok(bytes)
    }

    async fn mend_up(&self, item: &Item, found: &Differences) -> Result<u64, Stopped> {
        let path = self.local(&item.path);
        let from = File::open(&path).map_err(|cause| unreadable(&path, &cause))?;
        let options = RemoteOptions { access: Access::Write, sharing: Sharing::Reading, ..RemoteOptions::default() };
        let into = self.tree.open(&self.remote(&item.path), options).await?;
        let mended = async {
            let mut bytes = 0;
            for piece in &found.pieces {
                let give = |at: u64, buffer: &mut [u8]| {
                    let left = usize::try_from(piece.end.saturating_sub(at)).unwrap_or(usize::MAX);
                    let count = buffer.len().min(left);
                    let room = buffer.get_mut(..count).unwrap_or_default();
                    from.read_exact_at(room, at).map_err(|cause| unreadable(&path, &cause))?;
                    Ok::<_, Stopped>(count)
                };
                bytes += into.write_range(piece.start, give).await?;
            }
            if found.length {
                into.set_length(item.bytes).await?;
            }
            into.set_written(item.written).await?;
            Ok::<_, Stopped>(bytes)
        };
        let mended = mended.await;
        let closed = into.close().await;
        let bytes = mended?;
        closed?;
        Ok(bytes)
    }
}

impl Differences {
    /// Looks at `there`, which lies at `at`, beside what is `here`, which may be shorter.
    fn compare(&mut self, at: u64, there: &[u8], here: &[u8]) {
        let blocks = there.chunks(BLOCK_BYTES as usize).zip((at..).step_by(BLOCK_BYTES as usize));
        let mut here = here;
        for (block, start) in blocks {
            let (same, rest) = here.split_at(block.len().min(here.len()));
            here = rest;
            if same != block {
                self.pieces.push(start..start + block.len() as u64);
            }
        }
    }

    /// Puts the pieces in order, joins neighbours, and has no more of them than there may be.
    fn settle(&mut self, bytes: u64) {
        self.pieces.retain(|piece| piece.start < piece.end && piece.end <= bytes);
        self.pieces.sort_by_key(|piece| piece.start);
        let mut joined: Vec<Range<u64>> = Vec::new();
        for piece in self.pieces.drain(..) {
            let is_full = joined.len() == PIECES_MAX;
            match joined.last_mut() {
                Some(last) if piece.start <= last.end || is_full => last.end = last.end.max(piece.end),
                Some(_) | None => joined.push(piece),
            }
        }
        self.pieces = joined;
    }
}

/// Opens a target once more, and follows no link that has taken its place.
fn open_itself(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NOFOLLOW.bits() as i32).open(path)?;
    match fs::symlink_metadata(path)?.is_file() {
        true => Ok(file),
        false => Err(ErrorKind::InvalidInput.into()),
    }
}

/// Fills the buffer as far as the file goes.
fn read_up_to(file: &File, buffer: &mut [u8], at: u64) -> std::io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = BLOCK_BYTES as usize;

    #[test]
    fn what_differs_is_found_by_blocks_and_neighbours_are_joined() {
        let there = vec![1; 5 * BLOCK + 7];
        let mut here = there.clone();
        for at in [0, BLOCK + 3, 3 * BLOCK - 1, 5 * BLOCK + 6] {
            here[at] = 2;
        }
        let mut found = Differences::default();
        // Pieces arrive in any order.
        found.compare(2 * BLOCK_BYTES, &there[2 * BLOCK..], &here[2 * BLOCK..]);
        found.compare(0, &there[..2 * BLOCK], &here[..2 * BLOCK]);
        found.settle(there.len() as u64);
        let end = there.len() as u64;
        assert_eq!(found.pieces, [0..3 * BLOCK_BYTES, 5 * BLOCK_BYTES..end]);
    }

    #[test]
    fn what_is_missing_at_the_end_differs() {
        let there = vec![1; 3 * BLOCK];
        let mut found = Differences::default();
        found.compare(0, &there, &there[..BLOCK + 1]);
        found.settle(there.len() as u64);
        assert_eq!((found.pieces.len(), found.pieces[0].clone()), (1, BLOCK_BYTES..3 * BLOCK_BYTES));
        let mut same = Differences::default();
        same.compare(0, &there, &there);
        same.settle(there.len() as u64);
        assert_eq!(same, Differences::default());
    }

    #[test]
    fn more_pieces_than_are_told_apart_become_one_at_the_end() {
        let pieces = (0..2 * PIECES_MAX as u64).map(|at| 2 * at..2 * at + 1).collect();
        let mut found = Differences { pieces, length: false };
        found.settle(u64::MAX);
        assert_eq!(found.pieces.len(), PIECES_MAX);
        assert_eq!(found.pieces.last().unwrap().end, 4 * PIECES_MAX as u64 - 1);
    }
}
