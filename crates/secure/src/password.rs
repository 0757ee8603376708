//! Passwords that are kept as what PBKDF2 makes of them (RFC 8018 5.2), with HMAC-SHA256.

use std::num::NonZeroU32;

use aws_lc_rs::pbkdf2;

use crate::random::{RandomFault, random};

/// Rounds for new passwords: what OWASP asks of PBKDF2 with HMAC-SHA256.
const ROUNDS: NonZeroU32 = NonZeroU32::new(600_000).unwrap();
/// Rounds for secrets of so much chance that nobody finds one by trying: they need no more, and a stranger's tries cost nothing.
const ROUNDS_OF_SECRET: NonZeroU32 = NonZeroU32::MIN;
/// Bytes of a salt, and of what is kept of a password.
const SALT_BYTES: usize = 16;
const HASH_BYTES: usize = 32;

/// What is kept of a password. It is another one each time, for the same password, too.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash {
    /// How often the hash is made.
    pub rounds: NonZeroU32,
    /// What makes the same password another hash.
    pub salt: [u8; SALT_BYTES],
    /// The hash.
    pub hash: [u8; HASH_BYTES],
}

impl PasswordHash {
    /// That of `password`, with a new salt. Takes some tenths of a second.
    pub fn of(password: &str) -> Result<Self, RandomFault> {
        PasswordHash::with_rounds(password, ROUNDS)
    }

    /// That of a secret which this program made of 256 random bits, or more. Takes no time that could be told.
    pub fn of_secret(secret: &str) -> Result<Self, RandomFault> {
        PasswordHash::with_rounds(secret, ROUNDS_OF_SECRET)
    }

    fn with_rounds(password: &str, rounds: NonZeroU32) -> Result<Self, RandomFault> {
        let mut kept = PasswordHash { rounds, salt: [0; SALT_BYTES], hash: [0; HASH_BYTES] };
        random(&mut kept.salt)?;
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, &kept.salt, password.as_bytes(), &mut kept.hash);
        Ok(kept)
    }

    /// The same that no secret is known for.
    pub fn of_no_secret() -> Self {
        PasswordHash { rounds: ROUNDS_OF_SECRET, ..PasswordHash::of_nobody() }
    }

    /// One that no password is known for, and that takes as long to compare with as others.
    pub fn of_nobody() -> Self {
        PasswordHash { rounds: ROUNDS, salt: [0; SALT_BYTES], hash: [0; HASH_BYTES] }
    }

    /// Whether it is that of `password`, compared in constant time. Takes as long as making it.
    pub fn matches(&self, password: &str) -> bool {
        pbkdf2::verify(pbkdf2::PBKDF2_HMAC_SHA256, self.rounds, &self.salt, password.as_bytes(), &self.hash).is_ok()
    }
}

impl std::fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PasswordHash(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_known_by_its_hash_and_another_is_not() {
        let few = NonZeroU32::new(2).unwrap();
        let kept = PasswordHash::with_rounds("correct horse", few).unwrap();
        assert!(kept.matches("correct horse"));
        for wrong in ["", "correct hors", "correct horse ", "Correct horse"] {
            assert!(!kept.matches(wrong), "{wrong:?}");
        }
        assert_ne!(kept, PasswordHash::with_rounds("correct horse", few).unwrap(), "each has a salt of its own");
        assert_eq!(format!("{kept:?}"), "PasswordHash(..)");
    }

    #[test]
    fn the_hash_is_that_of_rfc_7914() {
        // RFC 7914 11, the first 32 bytes of PBKDF2-HMAC-SHA256 ("Password", "NaCl", 80000): the salt has 4 bytes there.
        let mut found = [0; 32];
        let rounds = NonZeroU32::new(80_000).unwrap();
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, b"NaCl", b"Password", &mut found);
        assert_eq!(crate::hex::hex("4ddcd8f60b98be21830cee5ef22701f9641a4418d04c0414aeff08876b34ab56"), found);
    }

    #[test]
    fn new_passwords_are_hashed_often_enough() {
        assert!(PasswordHash::of("correct horse").unwrap().rounds.get() >= 600_000);
        assert!(!PasswordHash::of_nobody().matches(""));
    }
}
