//! The stream of a file in which is what the service knows of it. The old value is there until the new one is whole, whatever fails in the middle.
//!
//! A value is one line of JSON, with spaces behind it or not, and the last line that is a value counts. A small one is written over a small one in one step, as
//! which a disk takes it. Any other one is written in three:
//!
//! | step | what the stream holds |
//! |---|---|
//! | | the old value |
//! | behind the old one, as far behind as the new one is long | the old value, the new one |
//! | over the old one | the new value, the new one |
//! | and what is behind it is cut off | the new value |
//!
//! The disk has each step before the next one begins. What fails in the first step leaves the old value, and what fails later the new one.

use std::time::Duration;

use client::{Access, Basic, Disposition, File, OpenOptions, Sharing, Status};
use tokio::time::sleep;

use super::file::FREEZE;
use super::kept::{Kept, too_large};
use super::opening::{Opened, Place, closing, open, opened};
use crate::failure::{Code, Failure};

/// The stream.
const STREAM: &str = ":azure.properties:$DATA";
/// The longest value.
const VALUE_BYTES_MAX: usize = 64 << 10;
/// The most that is read of the stream: two values, and the end of the first one's line.
const STREAM_BYTES_MAX: usize = 2 * VALUE_BYTES_MAX + 1;
/// The longest stream that is written over in one step. So much is in an attribute of the file, which changes as a whole, or in one block of the disk.
const AT_ONCE_BYTES_MAX: usize = 1024;
/// How often a change waits for another one of the same file, and for how long each time.
const TURNS_MAX: u32 = 100;
const TURN: Duration = Duration::from_millis(20);

/// When the disk has what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// At some time, as other data.
    InTime,
    /// Before it is said to be done, and so are the file's data.
    Now,
}

/// Reads it.
pub(super) async fn read(place: &Place) -> Result<Kept, Failure> {
    let stream = match opened(&place.tree, &format!("{}{STREAM}", place.path), OpenOptions::default()).await {
        Ok(stream) => stream,
        Err(error) => {
            return match error.status() {
                // A file system may be unable to keep streams.
                Some(Status::OBJECT_NAME_NOT_FOUND | Status::OBJECT_NAME_INVALID | Status::NOT_SUPPORTED) => {
                    Ok(Kept::default())
                }
                _ => Err(error.into()),
            };
        }
    };
    let (held, _) = closing(stream, async |stream| held(stream).await).await?;
    Ok(value(&held).unwrap_or_default())
}

/// Changes it. Changes of one file are made one after the other.
pub(super) async fn change(place: &Place, written: Written, change: impl FnOnce(&mut Kept)) -> Result<(), Failure> {
    closing(turn(place).await?, async |stream| change_through(stream, written, change).await).await.map(drop)
}

/// Takes the room that such a change needs, so that there is some when it is made. What is kept stays as it is.
pub(super) async fn reserve(place: &Place, change: impl Fn(&mut Kept)) -> Result<(), Failure> {
    let reserve = async |stream: &File| {
        let mut there = held(stream).await?;
        let mut kept = value(&there).unwrap_or_default();
        change(&mut kept);
        let text = text_of(&kept)?;
        freeze(stream).await?;
        let plan = Plan::of(&there, &text);
        if !plan.first.is_empty() {
            all(stream, plan.first).await?;
            there = held(stream).await?;
        }
        let (length, needed) = (there.len(), Plan::of(&there, &text).end());
        if needed > length
            && let Err(refused) = stream.write(length as u64, padded(b"", needed - length)).await
        {
            let _ = stream.set_length(length as u64).await;
            return Err(refused.into());
        }
        Ok(())
    };
    closing(turn(place).await?, reserve).await.map(drop)
}

/// Gives back room that was taken and is not needed.
pub(super) async fn give_back(place: &Place) {
    let Ok(stream) = turn(place).await else { return };
    let give_back = async |stream: &File| {
        let there = held(stream).await?;
        freeze(stream).await?;
        match there.trim_ascii_end().len() {
            0 => stream.delete_on_close().await?,
            length => stream.set_length(length as u64).await?,
        }
        Ok(())
    };
    if let Err(failure) = closing(stream, give_back).await {
        tracing::debug!(message = failure.message, "what is kept of a file takes more room than it has to");
    }
}

/// What bytes of the stream say: the last line of them that is a value.
pub(super) fn value(held: &[u8]) -> Option<Kept> {
    lines(held).find_map(|(_, line)| parsed(line))
}

/// The lines from the last one on, and where they begin.
fn lines(held: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut start = held.len() + 1;
    held.rsplit(|byte| *byte == b'\n').map(move |line| {
        start -= line.len() + 1;
        (start, line)
    })
}

fn parsed(line: &[u8]) -> Option<Kept> {
    serde_json::from_slice(line).ok().filter(|_: &Kept| line.trim_ascii_start().starts_with(b"{"))
}

async fn held(stream: &File) -> Result<Vec<u8>, Failure> {
    let is_long = stream.facts().end_of_file > VALUE_BYTES_MAX as u64;
    let data = stream.read(0, if is_long { STREAM_BYTES_MAX } else { VALUE_BYTES_MAX }).await?;
    Ok(data.to_vec())
}

/// The stream, opened so that nobody else writes it meanwhile.
async fn turn(place: &Place) -> Result<Opened, Failure> {
    let options = OpenOptions {
        access: Access::WriteAndDelete,
        disposition: Disposition::OpenOrCreate,
        // Who may delete the file may delete its streams.
        sharing: Sharing::ReadingAndDeleting,
        // A file that has just gone does not come back.
        stream_alone: true,
        ..OpenOptions::default()
    };
    let name = format!("{}{STREAM}", place.path);
    for _ in 1..TURNS_MAX {
        match open(&place.tree, &name, options).await {
            Err(failure) if failure.code == Code::SharingViolation => sleep(TURN).await,
            opened => return opened,
        }
    }
    open(&place.tree, &name, options).await
}

async fn change_through(stream: &File, written: Written, change: impl FnOnce(&mut Kept)) -> Result<(), Failure> {
    let held = held(stream).await?;
    let mut kept = value(&held).unwrap_or_default();
    change(&mut kept);
    let text = text_of(&kept)?;
    freeze(stream).await?;
    let plan = Plan::of(&held, &text);
    all(stream, plan.first).await?;
    if let Err(failure) = all(stream, plan.needed).await {
        if let Some(length) = plan.undo {
            // Where that fails, too, what has been written is half a line, and counts for nothing.
            let _ = stream.set_length(length).await;
        }
        return Err(failure);
    }
    if let Err(failure) = all(stream, plan.later).await {
        tracing::debug!(
            message = failure.message,
            "what is kept of a file is written, and takes more room than it has to"
        );
    }
    match written {
        Written::InTime => Ok(()),
        Written::Now => Ok(stream.flush().await?),
    }
}

/// A value as it is written.
fn text_of(kept: &Kept) -> Result<Vec<u8>, Failure> {
    let unwritable = |_| Failure::new(Code::InternalError, "The properties could not be written.");
    let text = serde_json::to_vec(kept).map_err(unwritable)?;
    if text.len() > VALUE_BYTES_MAX { Err(too_large()) } else { Ok(text) }
}

/// The file's own data stay as they were, and so does the time of their last write.
async fn freeze(stream: &File) -> Result<(), Failure> {
    Ok(stream.set_basic(Basic { write: FREEZE, ..Basic::default() }).await?)
}

/// One step of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// Writes this, from here on.
    Write(u64, Vec<u8>),
    /// Waits until the disk has what was written.
    Flush,
    /// Cuts off what is behind this.
    Cut(u64),
}

/// How a value takes the place of another one.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    /// What brings an earlier change to its end.
    first: Vec<Step>,
    /// With the last of these the new value is there.
    needed: Vec<Step>,
    /// How long the stream was that they may have made longer.
    undo: Option<u64>,
    /// What makes room again. Where that fails the value is no other.
    later: Vec<Step>,
}

impl Plan {
    fn of(held: &[u8], text: &[u8]) -> Plan {
        let found = lines(held).find(|(_, line)| parsed(line).is_some());
        let Some((start, old)) = found.map(|(start, line)| (start, line.trim_ascii_end())) else {
            return Plan { undo: Some(0), ..Plan::at_once(held.len(), text) };
        };
        let mut held = held.len();
        if start == 0 && held.max(text.len()) <= AT_ONCE_BYTES_MAX {
            return Plan::at_once(held, text);
        }
        let mut first = Vec::new();
        if start > 0 {
            first = over(old, start - 1);
            held = old.len();
        }
        let at = old.len().max(text.len());
        let mut behind = padded(b"", at - old.len());
        behind.push(b'\n');
        behind.extend_from_slice(text);
        let needed = vec![Step::Write(old.len() as u64, padded(&behind, held - old.len())), Step::Flush];
        Plan { first, needed, undo: Some(held as u64), later: over(text, at) }
    }

    /// How long the stream is at most until the new value is there.
    fn end(&self) -> usize {
        let ends = self.needed.iter().map(|step| match step {
            Step::Write(at, bytes) => *at as usize + bytes.len(),
            Step::Flush | Step::Cut(_) => 0,
        });
        ends.max().unwrap_or_default()
    }

    /// In one step, over all that is there: spaces behind it mean nothing.
    fn at_once(held: usize, text: &[u8]) -> Plan {
        let needed = vec![Step::Write(0, padded(text, held))];
        let later = if held > text.len() { vec![Step::Cut(text.len() as u64)] } else { Vec::new() };
        Plan { first: Vec::new(), needed, undo: None, later }
    }
}

/// Has a value stand at the beginning, and nothing else, that stands on a line behind the line that ends at `end`.
fn over(value: &[u8], end: usize) -> Vec<Step> {
    vec![Step::Write(0, padded(value, end)), Step::Flush, Step::Cut(value.len() as u64)]
}

/// With spaces behind it, up to a length.
fn padded(value: &[u8], length: usize) -> Vec<u8> {
    let mut text = value.to_vec();
    text.resize(length.max(text.len()), b' ');
    text
}

async fn all(stream: &File, steps: Vec<Step>) -> Result<(), Failure> {
    for step in steps {
        match step {
            Step::Write(at, bytes) => stream.write(at, bytes).await?,
            Step::Flush => stream.flush().await?,
            Step::Cut(length) => stream.set_length(length).await?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value of so many bytes, which says whose it is.
    fn text(of: &str, length: usize) -> Vec<u8> {
        let empty = format!(r#"{{"metadata":{{"{of}":""}}}}"#).len();
        format!(r#"{{"metadata":{{"{of}":"{}"}}}}"#, of.repeat(length - empty)).into_bytes()
    }

    /// Does so much of a step as fails in the middle of it.
    fn part(step: &Step, held: &mut Vec<u8>, part: usize) {
        match step {
            Step::Write(at, bytes) => {
                let (at, bytes) = (*at as usize, &bytes[..part]);
                held.resize(held.len().max(at + bytes.len()), 0);
                held[at..at + bytes.len()].copy_from_slice(bytes);
            }
            Step::Flush => {}
            Step::Cut(length) => held.truncate(if part == 0 { held.len() } else { *length as usize }),
        }
    }

    fn parts(step: &Step) -> usize {
        match step {
            Step::Write(_, bytes) => bytes.len(),
            Step::Flush => 0,
            Step::Cut(_) => 1,
        }
    }

    /// What there is after each failure of a change.
    fn failures(held: &[u8], plan: &Plan) -> Vec<(bool, Vec<u8>)> {
        let (mut now, mut found) = (held.to_vec(), Vec::new());
        let steps = [&plan.first, &plan.needed, &plan.later].map(|steps| steps.iter());
        let mut is_new = false;
        for (index, step) in steps.into_iter().flatten().enumerate() {
            for count in (0..parts(step)).step_by(13) {
                let mut then = now.clone();
                part(step, &mut then, count);
                found.push((is_new, then));
            }
            part(step, &mut now, parts(step));
            is_new |= index + 1 >= plan.first.len() + plan.needed.len();
        }
        found
    }

    fn whole(held: &[u8], plan: &Plan) -> Vec<u8> {
        let mut now = held.to_vec();
        for step in [&plan.first, &plan.needed, &plan.later].into_iter().flatten() {
            part(step, &mut now, parts(step));
        }
        now
    }

    #[test]
    fn a_value_is_the_old_one_until_the_new_one_is_whole_wherever_a_change_ends() {
        let lengths = [30, 400, 1024, 1025, 1500, 3000];
        for (before, after) in lengths.iter().flat_map(|before| lengths.map(|after| (*before, after))) {
            let (old, new) = (text("o", before), text("n", after));
            let plan = Plan::of(&old, &new);
            assert_eq!(whole(&old, &plan), new, "{before} {after}");
            if before.max(after) <= AT_ONCE_BYTES_MAX {
                assert_eq!((plan.first.len(), plan.needed.len()), (0, 1), "{before} {after}");
                continue;
            }
            for (is_new, held) in failures(&old, &plan) {
                let found = value(&held);
                assert!(found == value(&new) || (!is_new && found == value(&old)), "{before} {after} {is_new}");
            }
        }
    }

    #[test]
    fn a_change_behind_one_that_was_cut_short_loses_neither() {
        let (oldest, old, new) = (text("x", 2000), text("o", 1500), text("n", 1800));
        let states = failures(&oldest, &Plan::of(&oldest, &old));
        for (_, held) in states.into_iter().step_by(97) {
            let (before, plan) = (value(&held), Plan::of(&held, &new));
            assert!(before.is_some());
            assert_eq!(whole(&held, &plan), new);
            for (is_new, then) in failures(&held, &plan) {
                let found = value(&then);
                assert!(found == value(&new) || (!is_new && found == before), "{is_new}");
            }
        }
    }

    #[test]
    fn room_that_is_taken_first_is_all_that_a_change_needs_and_says_nothing() {
        let lengths = [30, 400, 1024, 1025, 1500, 3000];
        for (before, after) in lengths.iter().flat_map(|before| lengths.map(|after| (*before, after))) {
            let (old, new) = (text("o", before), text("n", after));
            let reserved = padded(&old, Plan::of(&old, &new).end());
            assert_eq!(value(&reserved), value(&old));
            let plan = Plan::of(&reserved, &new);
            assert!(plan.end() <= reserved.len(), "{before} {after}");
            assert_eq!(whole(&reserved, &plan), new, "{before} {after}");
        }
    }

    #[test]
    fn what_was_never_a_value_is_written_over() {
        let new = text("n", 3000);
        for held in [&b""[..], b"no JSON", b"[]", &[b'\n'; 2000], &[0xff; STREAM_BYTES_MAX]] {
            let plan = Plan::of(held, &new);
            assert_eq!((whole(held, &plan), plan.undo), (new.clone(), Some(0)));
        }
    }
}
