//! Who is speaking, and is it still them: the pre-authentication hash, key derivation, signing, sealing, NTLMv2 and
//! SPNEGO. The only room that imports crypto.
//!
//! Time and randomness are arguments; nothing here reads a clock. [`random`] is exported for those who must supply it.
//! Keys are turned into ready contexts once, so that signing and sealing a message allocates nothing.
//!
//! # Example
//!
//! A message is signed by its sender and verified by the other side, which notices any change:
//!
//! ```
//! use secure::Role;
//! use secure::sign::{SigningAlgorithm, SigningKey};
//!
//! let key = SigningKey::new(SigningAlgorithm::AesGmac, [7; 16]);
//! // A header and its body. The flag that says "signed" is set before.
//! let mut message = vec![0; 64 + 24];
//! key.sign(&mut message, Role::Client);
//! assert!(key.verify(&mut message, Role::Client));
//!
//! message[64] ^= 1;
//! assert!(!key.verify(&mut message, Role::Client));
//! ```

mod checksum;
pub mod failure;
#[cfg(test)]
mod hex;
pub mod kdf;
mod mac;
pub mod ntlm;
mod password;
pub mod preauth;
mod random;
mod role;
pub mod seal;
mod secret;
pub mod sign;
pub mod spnego;
mod token;
#[cfg(test)]
mod windows_exchange;

pub use checksum::{md5, sha256};
pub use failure::LogonFailure;
pub use mac::{hmac_sha256, is_hmac_sha256};
pub use password::PasswordHash;
pub use random::{RandomFault, random};
pub use role::Role;
pub use secret::Secret;
pub use token::{Fingerprint, Token};
