//! What is written.

use std::collections::HashMap;
use std::fs;

use client::{Bytes, BytesMut};
use fastrand::Rng;

use crate::engine::Failure;
use crate::profile::{TimeSpan, WriteContent};

/// Pieces of a source begin at multiples of this, as unbuffered writes of a disk want it.
const ALIGN_BYTES: usize = 512;

/// Bytes to write, which all threads share.
#[derive(Clone, Debug)]
pub(super) struct Content {
    bytes: Bytes,
    block: usize,
    /// Places where a piece may begin.
    places: u64,
}

/// The sources of a time span's targets, each of which exists once.
#[derive(Debug, Default)]
pub(super) struct Contents {
    made: HashMap<WriteContent, Bytes>,
}

impl Contents {
    /// What a target with such blocks writes.
    pub(super) fn of(&mut self, span: &TimeSpan, content: &WriteContent, block: u32) -> Result<Content, Failure> {
        let block = block as usize;
        let bytes = match content {
            WriteContent::Sequence => (0..block).map(|at| at as u8).collect(),
            WriteContent::Zeros => vec![0; block].into(),
            WriteContent::Source { bytes, file } => match self.made.get(content) {
                Some(bytes) => bytes.clone(),
                None => {
                    let source = source(*bytes, file.as_deref(), span.random_seed)?;
                    self.made.insert(content.clone(), source.clone());
                    source
                }
            },
        };
        if bytes.len() < block {
            return Err(Failure {
                what: format!("the source of the writes has {} bytes, less than a block of {block}", bytes.len()),
                remedy: "give -Z a size of at least one block".to_owned(),
            });
        }
        let places = ((bytes.len() - block) / ALIGN_BYTES + 1) as u64;
        Ok(Content { bytes, block, places })
    }
}

impl Content {
    /// One block: of all there are, the one that the ticket decides.
    pub(super) fn piece(&self, ticket: u64) -> Bytes {
        let begin = (ticket % self.places) as usize * ALIGN_BYTES;
        self.bytes.slice(begin..begin + self.block)
    }
}

/// Random bytes that are made anew for each write, in memory that is used again once they are sent.
#[derive(Debug, Default)]
pub(super) struct Random(BytesMut);

impl Random {
    /// One block, which the ticket decides.
    pub(super) fn make(&mut self, length: usize, ticket: u64) -> Bytes {
        self.0.resize(length, 0);
        Rng::with_seed(ticket).fill(&mut self.0);
        self.0.split().freeze()
    }
}

/// A source of so many bytes: random, or what is in a file, over and over.
fn source(bytes: u64, file: Option<&str>, seed: u64) -> Result<Bytes, Failure> {
    let too_large = || Failure {
        what: format!("there is no memory for a source of {bytes} bytes"),
        remedy: "give -Z a smaller size".to_owned(),
    };
    let length = usize::try_from(bytes).map_err(|_| too_large())?;
    let mut source = Vec::new();
    source.try_reserve_exact(length).map_err(|_| too_large())?;
    source.resize(length, 0);
    match file {
        None => Rng::with_seed(seed).fill(&mut source),
        Some(path) => {
            let refused = |why: String| Failure {
                what: format!("cannot take the source of the writes from {path}: {why}"),
                remedy: "name a file of this machine that has something in it".to_owned(),
            };
            let given = fs::read(path).map_err(|cause| refused(cause.to_string()))?;
            if given.is_empty() {
                return Err(refused("it is empty".to_owned()));
            }
            source.chunks_mut(given.len()).for_each(|part| part.copy_from_slice(&given[..part.len()]));
        }
    }
    Ok(source.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(content: &WriteContent, block: u32) -> Result<Content, Failure> {
        Contents::default().of(&TimeSpan::default(), content, block)
    }

    #[test]
    fn the_default_counts_up() {
        let content = content(&WriteContent::Sequence, 300).unwrap();
        let piece = content.piece(u64::MAX);
        assert_eq!((piece.len(), piece[255], piece[256]), (300, 255, 0));
    }

    #[test]
    fn pieces_of_a_source_differ() {
        let content = content(&WriteContent::Source { bytes: 1 << 20, file: None }, 4096).unwrap();
        assert_eq!(content.piece(0).len(), 4096);
        assert_eq!(content.piece(0)[512..], content.piece(1)[..3584]);
        assert_ne!(content.piece(0), content.piece(1));
    }

    #[test]
    fn a_source_exists_once() {
        let mut contents = Contents::default();
        let source = WriteContent::Source { bytes: 8192, file: None };
        let one = contents.of(&TimeSpan::default(), &source, 512).unwrap();
        let other = contents.of(&TimeSpan::default(), &source, 4096).unwrap();
        assert_eq!(one.bytes.as_ptr(), other.bytes.as_ptr());
    }

    #[test]
    fn a_source_from_a_file_repeats_it() {
        let file = std::env::current_exe().unwrap();
        let given = fs::read(&file).unwrap();
        let bytes = given.len() as u64 + 512;
        let source = WriteContent::Source { bytes, file: file.to_str().map(str::to_owned) };
        let content = content(&source, 512).unwrap();
        assert_eq!(content.bytes[..given.len()], given);
        assert_eq!(content.bytes[given.len()..], given[..512]);
    }

    #[test]
    fn a_source_shorter_than_a_block_is_refused() {
        let failure = content(&WriteContent::Source { bytes: 1024, file: None }, 4096).unwrap_err();
        assert!(failure.what.contains("less than a block"));
    }
}
