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
    let upper = text.to_ascii_uppercase();
    let bare = upper.strip_suffix("IB").or_else(|| upper.strip_suffix('B')).unwrap_or(&upper);
    let digits = bare.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match bare.get(digits.len()..) {
        Some("") => 0,
        Some("K") => 10,
        Some("M") => 20,
        Some("G") => 30,
        Some("T") => 40,
        _ => return Err(wrong()),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(wrong());
    }
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    let bytes = bytes.filter(|bytes| (SIZE_MIN..=SIZE_MAX).contains(bytes)).and_then(NonZeroU64::new);
    bytes.ok_or_else(|| Error::argument(format!("{text} is too small or too large"), "use a size from 1M to 16T"))
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
    fn what_is_no_size_is_refused() {
        for text in
            ["", "G", "0", "0M", "1", "-1G", "1.5G", "1GG", "1 G", "17T", "99999999999999999999", "1X", "+1G", "B", "é"]
        {
            assert!(parse_size(text).is_err(), "{text:?}");
        }
    }
}
