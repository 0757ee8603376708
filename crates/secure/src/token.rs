//! Random texts that prove who shows them: what a browser keeps.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest;
use zeroize::Zeroizing;

use crate::random::{RandomFault, random};

/// Bytes of chance in a token.
const BYTES: usize = 32;

/// 256 bits of chance, as 64 hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Zeroizing<String>);

/// What is kept of a token: whoever has this cannot tell the token.
#[derive(Clone, Copy)]
pub struct Fingerprint([u8; 32]);

impl Token {
    /// One that nobody can predict.
    pub fn new() -> Result<Self, RandomFault> {
        let mut bytes = Zeroizing::new([0; BYTES]);
        random(&mut bytes[..])?;
        Ok(Token(Zeroizing::new(digits(&bytes[..]))))
    }

    /// The one that has this text; `None` where none can have it.
    pub fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_token = text.len() == 2 * BYTES && text.bytes().all(is_digit);
        is_token.then(|| Token(Zeroizing::new(text.to_owned())))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What is kept of it.
    pub fn fingerprint(&self) -> Fingerprint {
        let hash = digest::digest(&digest::SHA256, self.0.as_bytes());
        let mut kept = [0; 32];
        kept.copy_from_slice(hash.as_ref());
        Fingerprint(kept)
    }
}

/// In constant time.
impl PartialEq for Fingerprint {
    fn eq(&self, other: &Self) -> bool {
        verify_slices_are_equal(&self.0, &other.0).is_ok()
    }
}

impl Eq for Fingerprint {}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprint(..)")
    }
}

fn digits(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble & 15)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_256_bits_of_chance_and_is_never_printed() {
        let (one, other) = (Token::new().unwrap(), Token::new().unwrap());
        assert_ne!(one.as_str(), other.as_str());
        assert_eq!(one.as_str().len(), 64);
        assert_eq!(Token::parse(one.as_str()), Some(one.clone()));
        for wrong in ["", "0", &"g".repeat(64), &"A".repeat(64), &"0".repeat(65)] {
            assert_eq!(Token::parse(wrong), None, "{wrong}");
        }
        assert_eq!(format!("{one:?} {:?}", one.fingerprint()), "Token(..) Fingerprint(..)");
    }

    #[test]
    fn what_is_kept_of_a_token_is_that_of_its_text() {
        let token = Token::new().unwrap();
        assert!(token.fingerprint() == Token::parse(token.as_str()).unwrap().fingerprint());
        assert!(token.fingerprint() != Token::new().unwrap().fingerprint());
    }
}
