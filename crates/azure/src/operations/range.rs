//! Ranges of bytes.

use std::ops::Range;

use crate::failure::{Code, Failure};
use crate::operations::Ask;

impl Ask {
    /// The bytes that are asked for, of a file of this length: from `x-ms-range`, or else from `Range`.
    pub(super) fn range_of(&self, length: u64) -> Result<Option<Range<u64>>, Failure> {
        let Some(text) = self.header("x-ms-range").or_else(|| self.header("range")) else { return Ok(None) };
        let (start, end) = parsed(text)?;
        if start >= length {
            return Err(Failure::new(
                Code::InvalidRange,
                format!("The range {text} begins behind the file's {length} bytes."),
            ));
        }
        Ok(Some(start..end.map_or(length, |last| last.saturating_add(1).min(length))))
    }

    /// The bytes that are to be changed.
    pub(super) fn range_to_change(&self) -> Result<Range<u64>, Failure> {
        let text = self.header("x-ms-range").or_else(|| self.header("range"));
        let (start, last) = parsed(text.ok_or_else(|| Failure::missing("x-ms-range"))?)?;
        let last = last.ok_or_else(|| Failure::header("x-ms-range", "bytes=FIRST-LAST"))?;
        Ok(start..last.checked_add(1).ok_or_else(|| Failure::header("x-ms-range", "bytes=FIRST-LAST"))?)
    }
}

/// The first byte, and the last where it is named.
pub(super) fn parsed(text: &str) -> Result<(u64, Option<u64>), Failure> {
    let wrong = || Failure::header("x-ms-range", "bytes=FIRST-LAST, or bytes=FIRST-");
    let (first, last) = text.strip_prefix("bytes=").and_then(|range| range.split_once('-')).ok_or_else(wrong)?;
    let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
    let (first, last) = (number(first)?, Some(last).filter(|last| !last.is_empty()).map(number).transpose()?);
    if last.is_some_and(|last| last < first) {
        return Err(wrong());
    }
    Ok((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_a_first_byte_and_perhaps_a_last() {
        assert_eq!(parsed("bytes=0-99"), Ok((0, Some(99))));
        assert_eq!(parsed("bytes=7-"), Ok((7, None)));
        for wrong in
            ["bytes=5-4", "bytes=-5", "bytes=a-b", "items=0-1", "", "bytes=0-1,3-4", "bytes=18446744073709551616-"]
        {
            assert_eq!(parsed(wrong).map_err(|failure| failure.code), Err(Code::InvalidHeaderValue), "{wrong}");
        }
    }
}
