//! The pre-authentication integrity hash (MS-SMB2 3.3.5.4 and 3.3.5.5): a chain of SHA-512 over every NEGOTIATE and
//! SESSION_SETUP message of a 3.1.1 connection, so that tampering before the keys exist changes the keys.

use aws_lc_rs::digest::{Context, SHA512};

/// Length of the hash in bytes: SHA-512 is the only algorithm of SMB2_PREAUTH_INTEGRITY_CAPABILITIES (2.2.3.1.1).
pub const PREAUTH_HASH_LENGTH: usize = 64;

/// A PreauthIntegrityHashValue. It starts as zeros; the messages themselves are not secret and neither is the hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreauthHash([u8; PREAUTH_HASH_LENGTH]);

impl PreauthHash {
    /// The hash before the first message: all zeros.
    pub fn new() -> Self {
        PreauthHash([0; PREAUTH_HASH_LENGTH])
    }

    /// A hash that was taken before, such as the connection's after NEGOTIATE.
    pub fn from_bytes(bytes: [u8; PREAUTH_HASH_LENGTH]) -> Self {
        PreauthHash(bytes)
    }

    /// Chains `message` in: the hash becomes SHA-512(hash || message). `message` starts at the SMB2 header, without
    /// the transport's length.
    pub fn update(&mut self, message: &[u8]) {
        let mut context = Context::new(&SHA512);
        context.update(&self.0);
        context.update(message);
        self.0.copy_from_slice(context.finish().as_ref());
    }

    /// The bytes, as key derivation takes them for its context.
    pub fn as_bytes(&self) -> &[u8; PREAUTH_HASH_LENGTH] {
        &self.0
    }
}

impl Default for PreauthHash {
    fn default() -> Self {
        PreauthHash::new()
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::digest::{SHA512, digest};

    use super::*;

    #[test]
    fn chain_hashes_the_previous_value_before_the_message() {
        let mut hash = PreauthHash::new();
        hash.update(b"negotiate");
        let first = digest(&SHA512, &[&[0; 64][..], b"negotiate"].concat());
        assert_eq!(hash.as_bytes(), first.as_ref());
        hash.update(b"session setup");
        let second = digest(&SHA512, &[first.as_ref(), b"session setup"].concat());
        assert_eq!(hash.as_bytes(), second.as_ref());
    }

    #[test]
    fn a_copy_goes_its_own_way() {
        let mut connection = PreauthHash::new();
        connection.update(b"negotiate");
        let mut session = connection.clone();
        session.update(b"setup");
        assert_ne!(connection, session);
    }
}
