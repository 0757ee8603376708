//! Numbers and sizes, as they are given and as they are shown.

/// Why a text is no number, or no size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoNumber {
    #[error("a number is missing")]
    Missing,
    #[error("{0:?} is no number")]
    NoDigits(String),
    #[error("{0} is more than 64 bits hold")]
    TooLarge(String),
    #[error("{0:?} after the number is not understood")]
    AfterNumber(String),
    #[error("{0:?} after the size is not understood; the units are K, M, G, T and b")]
    AfterSize(String),
}

/// Reads a whole text as a number.
pub(super) fn number(text: &str) -> Result<u64, NoNumber> {
    match digits(text)? {
        (number, "") => Ok(number),
        (_, rest) => Err(NoNumber::AfterNumber(rest.to_owned())),
    }
}

/// Reads a whole text as a size: a number with K, M, G or T for powers of 1024, or b for blocks, or nothing for bytes.
pub(super) fn size(text: &str, block_bytes: u32) -> Result<u64, NoNumber> {
    match size_and_rest(text, block_bytes)? {
        (size, "") => Ok(size),
        (_, rest) => Err(NoNumber::AfterSize(rest.to_owned())),
    }
}

/// Reads the size that a text begins with; what comes after it is the second of the two.
pub(super) fn size_and_rest(text: &str, block_bytes: u32) -> Result<(u64, &str), NoNumber> {
    let (number, rest) = digits(text)?;
    let unit = match rest.as_bytes().first().map(u8::to_ascii_uppercase) {
        Some(b'K') => 1 << 10,
        Some(b'M') => 1 << 20,
        Some(b'G') => 1 << 30,
        Some(b'T') => 1 << 40,
        Some(b'B') => u64::from(block_bytes),
        Some(_) | None => return Ok((number, rest)),
    };
    let bytes = number.checked_mul(unit).ok_or_else(|| NoNumber::TooLarge(format!("{text:?}")))?;
    Ok((bytes, rest.get(1..).unwrap_or_default()))
}

/// The number that a text begins with, and what comes after it.
pub(super) fn digits(text: &str) -> Result<(u64, &str), NoNumber> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    if number.is_empty() {
        return Err(if text.is_empty() { NoNumber::Missing } else { NoNumber::NoDigits(text.to_owned()) });
    }
    Ok((number.parse().map_err(|_| NoNumber::TooLarge(number.to_owned()))?, rest))
}

/// A size with the largest unit that it reaches: `64KiB`, `1.95MiB`, `100`.
pub(super) fn shown(bytes: u64) -> String {
    shown_in(bytes, 0)
}

/// A size whose number takes so many columns.
pub(super) fn shown_in(bytes: u64, width: usize) -> String {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match UNITS.into_iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((unit, shift)) if bytes.trailing_zeros() >= shift => format!("{:width$}{unit}", bytes >> shift),
        Some((unit, shift)) => format!("{:width$.2}{unit}", bytes as f64 / (1_u64 << shift) as f64),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_in_either_case() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("4k", 4096),
            ("4K", 4096),
            ("3m", 3 << 20),
            ("2G", 2 << 30),
            ("1t", 1 << 40),
            ("3b", 24576),
            ("3B", 24576),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(size(text, 8192), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "k", "-1", "1.5K", "4KB", "4 K", "4KiB", "18446744073709551616", "16777216T", "+1", "4ü"] {
            assert!(size(text, 8192).is_err(), "{text}");
        }
        assert!(size("9223372036854775808b", 2).is_err());
    }

    #[test]
    fn sizes_are_shown_with_the_unit_they_reach() {
        for (bytes, text) in [
            (0, "0"),
            (1023, "1023"),
            (65536, "64KiB"),
            (2000 << 10, "1.95MiB"),
            (12_341_234, "11.77MiB"),
            (1 << 30, "1GiB"),
            (3 << 40, "3TiB"),
        ] {
            assert_eq!(shown(bytes), text);
        }
        assert_eq!(shown_in(10 << 30, 6), "    10GiB");
        assert_eq!(shown_in(1536, 6), "  1.50KiB");
    }
}
