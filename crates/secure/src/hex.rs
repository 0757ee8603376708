//! Bytes written out in tests.

/// The bytes of a text of hexadecimal digits; white space between them counts for nothing.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// The same for a known length.
pub(crate) fn hex_array<const N: usize>(text: &str) -> [u8; N] {
    hex(text).try_into().expect("the text has the length of the array")
}
