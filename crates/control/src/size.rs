//! Sizes as operators write them.

use std::num::NonZeroU64;

use crate::Error;

/// The smallest RAM disk: below it not even its own records fit.
const SIZE_MIN: u64 = 1 << 20;
/// The largest: more memory than one machine has.
const SIZE_MAX: u64 = 1 << 44;

/// Reads a size in bytes: a whole number with K, M, G or T for powers of 1024, between 1M and 16T.
pub fn parse_size(text: &str) -> Result<NonZeroU64, Error> {
    let wrong = || {
        Error::argument(format!("{text:?} is no size"), "write a whole number with K, M, G or T, such as 512M or 4G")
    };
    let bytes = parse_bytes(text).ok_or_else(wrong)?;
    let bytes = bytes.filter(|bytes| (SIZE_MIN..=SIZE_MAX).contains(bytes)).and_then(NonZeroU64::new);
    bytes.ok_or_else(|| Error::argument(format!("{text} is too small or too large"), "use a size from 1M to 16T"))
}

/// Reads a whole number of bytes, with or without K, M, G or T for powers of 1024, and with `B` or `iB` behind that. `None` where it is none,
/// `Some(None)` where there are more bytes than 64 bits count.
pub fn parse_bytes(text: &str) -> Option<Option<u64>> {
    let upper = text.to_ascii_uppercase();
    let bare = upper.strip_suffix("IB").or_else(|| upper.strip_suffix('B')).unwrap_or(&upper);
    let digits = bare.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match bare.get(digits.len()..)? {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_letter() {
        let cases = [
            ("1M", 1 << 20),
            ("64m", 64 << 20),
            ("1G", 1 << 30),
            ("2GiB", 2 << 30),
            ("1048576", 1 << 20),
            ("2048K", 2 << 20),
            ("1T", 1 << 40),
            ("4GB", 4 << 30),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_size(text).unwrap().get(), bytes, "{text}");
        }
    }

    #[test]
    fn bytes_may_be_few_and_too_many_are_told_apart_from_nonsense() {
        for (text, bytes) in [("0", 0), ("512", 512), ("4k", 4096), ("64KiB", 65536), ("4KB", 4096), ("16T", 1 << 44)] {
            assert_eq!(parse_bytes(text), Some(Some(bytes)), "{text}");
        }
        assert_eq!(parse_bytes("99999999999999999999"), Some(None));
        assert_eq!(parse_bytes("99999999T"), Some(None));
        for text in ["", "K", "-1", "4 K", "1.5M", "1X"] {
            assert_eq!(parse_bytes(text), None, "{text:?}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in
            ["", "G", "0", "0M", "1", "-1G", "1.5G", "1GG", "1 G", "17T", "99999999999999999999", "1X", "+1G", "B", "é"]
        {
            assert!(parse_size(text).is_err(), "{text:?}");
        }
    }
}
