//! What both stores share about data and streams.

use crate::{Error, Node};

/// A range to copy: where it begins in the source, where in the target, and its bytes.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) source_offset: u64,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// Bytes copied in one step.
const STEP_BYTES: usize = 256 * 1024;

/// Copies by reading and writing; `same` tells that both nodes are the same data, so that ranges that overlap are
/// copied in the order that keeps them whole. Gives the bytes copied.
pub(crate) fn through_memory(target: &dyn Node, source: &dyn Node, span: Span, same: bool) -> Result<u64, Error> {
    let available = source.metadata()?.length.saturating_sub(span.source_offset);
    let length = span.length.min(available);
    let mut buffer = vec![0; usize::try_from(length).unwrap_or(usize::MAX).min(STEP_BYTES)];
    let backwards = same && span.offset > span.source_offset && span.offset - span.source_offset < length;
    let mut done = 0;
    while done < length {
        let step = (length - done).min(buffer.len() as u64);
        let from = if backwards { length - done - step } else { done };
        let Some(chunk) = buffer.get_mut(..usize::try_from(step).unwrap_or(0)) else { break };
        let count = source.read_at(chunk, span.source_offset + from)?;
        let offset = span.offset.checked_add(from).ok_or(Error::TooLarge)?;
        target.write_at(&chunk[..count], offset)?;
        done += count as u64;
        if (count as u64) < step {
            break;
        }
    }
    Ok(done)
}

/// The most UTF-16 units in a stream's name (MS-FSCC 2.1.5.3).
const STREAM_NAME_UNITS_MAX: usize = 255;

/// [`Error::NameInvalid`] for what cannot be a stream's name: it is empty, too long, or has one of NUL `/ \ :`.
pub(crate) fn check_stream_name(name: &str) -> Result<(), Error> {
    let forbidden = name.contains(['\0', '/', '\\', ':']);
    if name.is_empty() || forbidden || name.encode_utf16().count() > STREAM_NAME_UNITS_MAX {
        return Err(Error::NameInvalid);
    }
    Ok(())
}
